//! Subscriptions to filters that wait for their homes: each answers where its partitions stand, and
//! when all have, the subscription is live, or behind where it has to be read from the log.
//!
//! Invariant: a message that comes between a home's grant and the last one makes the partition
//! begin behind.

use super::cursor::Reader;
use super::{Slot, Stage, Subscriptions};
use crate::ids::SubIndex;
use crate::mail::{FilterStart, HomeId, PartitionId, Resumed};
use crate::notice::Beginning;
use crate::settings::Settings;
use std::collections::BTreeMap;
use stdx::handing::Hand;

/// A subscription (or a stream's) that waits for its homes.
#[derive(Default, Hand)]
pub(super) struct Opening {
    /// Answers that are due.
    pub waiting: Vec<(SubIndex, HomeId)>,
    fail_on_gap: bool,
    partitions: BTreeMap<PartitionId, Granted>,
}

/// A home's answer for one partition.
#[derive(Hand)]
struct Granted {
    epoch: u64,
    through: u64,
    resumed: Option<Resumed>,
    /// The stream has gone on since.
    has_passed: bool,
}

/// Subscriptions to filters whose homes have all answered.
pub(crate) enum Opened {
    /// The subscriptions open, with these starts by partition.
    Open(Vec<Beginning>),
    /// The subscriptions are refused: some position is not available.
    Gap,
    /// The subscriptions are refused: the connection has no room for their replays.
    NoRoom,
}

impl Granted {
    fn begin(&self, partition: PartitionId) -> Beginning {
        let after = self.resumed.map_or(self.through, |resumed| resumed.after);
        Beginning {
            partition,
            epoch: self.epoch,
            through: after,
            is_replaying: after != self.through || self.has_passed,
            is_resumed: self.resumed.is_some(),
            gap: self.resumed.and_then(|resumed| resumed.gap),
        }
    }
}

impl Opening {
    /// A home has answered where its partitions stand.
    fn take(&mut self, asked: (SubIndex, HomeId), starts: Vec<FilterStart>) {
        self.waiting.retain(|other| *other != asked);
        for start in starts {
            // Of several filters the stream carries all from the last start on.
            let before = self.partitions.remove(&start.partition);
            let granted = Granted {
                epoch: start.epoch,
                through: start.through,
                resumed: start.resumed.or(before.and_then(|granted| granted.resumed)),
                has_passed: false,
            };
            self.partitions.insert(start.partition, granted);
        }
    }

    /// Notes a message of a partition, unless the home's last answer is still to come: then the
    /// message belongs to the time before it.
    fn pass(&mut self, home: HomeId, partition: PartitionId) {
        if self.waiting.iter().all(|(_, other)| *other != home)
            && let Some(granted) = self.partitions.get_mut(&partition)
        {
            granted.has_passed = true;
        }
    }
}

impl Subscriptions {
    /// A subscription to a filter has been posted to every home.
    pub fn expect_grants(&mut self, subscription: SubIndex, homes: impl Iterator<Item = HomeId>) {
        let fail_on_gap = self.table[subscription.0].fails_on_gap();
        let reader = self.reader_of(subscription);
        let opening = self.catch_up.opening.entry(reader).or_default();
        opening.fail_on_gap = fail_on_gap;
        opening.waiting.extend(homes.map(|home| (subscription, home)));
    }

    /// Whether homes are to answer for the reader.
    pub fn is_opening(&self, reader: Reader) -> bool {
        self.catch_up.opening.contains_key(&reader)
    }

    /// A home has answered for a filter where its partitions stand.
    pub fn take_starts(
        &mut self,
        reader: Reader,
        asked: (SubIndex, HomeId),
        starts: Vec<FilterStart>,
    ) {
        if let Some(opening) = self.catch_up.opening.get_mut(&reader) {
            opening.take(asked, starts);
        }
    }

    /// Opens the subscriptions of a reader once all homes have answered: the subscriptions, and
    /// what becomes of them. None if answers are due.
    pub fn open(
        &mut self,
        reader: Reader,
        slot: &Slot,
        settings: &Settings,
    ) -> Option<(Vec<SubIndex>, Opened)> {
        let is_ready = self.catch_up.opening.get(&reader);
        is_ready.filter(|opening| opening.waiting.is_empty())?;
        let opening = self.catch_up.opening.remove(&reader)?;
        let opened = self.filters_of(reader, slot, Stage::Pending);
        if opened.is_empty() {
            return None; // all were refused
        }
        let partitions = opening.partitions.into_iter();
        let beginnings: Vec<Beginning> =
            partitions.map(|(partition, granted)| granted.begin(partition)).collect();
        let has_gap = beginnings.iter().any(|beginning| beginning.gap.is_some());
        if opening.fail_on_gap && has_gap {
            return Some((opened, Opened::Gap));
        }
        let replays = beginnings.iter().filter(|beginning| beginning.is_replaying).count();
        if !self.catch_up.held.have_room(reader.0, replays, &settings.limits) {
            return Some((opened, Opened::NoRoom));
        }
        for &subscription in &opened {
            self.open_filter(subscription);
        }
        Some((opened, Opened::Open(beginnings)))
    }

    /// A message has come for a filter that some home has not answered for yet.
    pub fn passed_while_opening(
        &mut self,
        subscription: SubIndex,
        partition: PartitionId,
        home: HomeId,
    ) {
        let reader = self.reader_of(subscription);
        if let Some(opening) = self.catch_up.opening.get_mut(&reader) {
            opening.pass(home, partition);
        }
    }
}
