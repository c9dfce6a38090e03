//! Positions sent to filters now and then, so that their cursors do not age.
//!
//! A filter's client learns the position of a partition from the filter's own messages. Where
//! others keep the partition busy, its cursor would fall behind the log's oldest record though
//! nothing of the filter was lost, and a resume would announce a gap. So the edge asks the homes
//! once a second how far their streams have come. A partition is *due* when a quarter of the log's
//! records there is newer than the position that was sent last, or when a quarter of the log's age
//! has passed. A *round* then visits all subscriptions to filters and sends each the partitions
//! that are due: CAUGHT_UP in the native protocol, an `id:` on event streams.
//!
//! A position does not claim too much. Proof: a home posts it in the order of the stream, so all
//! later messages of the stream lie beyond it. Sending it therefore claims no more than the
//! partition's next message would, which moves the cursor past it as well: everything up to it has
//! been queued for each live reader of the partition, and stands before it in the outbox. A reader
//! that catches up gets no position, for CAUGHT_UP will come. The frame of a position is given up
//! when anything before it is.
//!
//! Invariants: an idle session holds nothing for this; a connection whose outbox has no room just
//! then has [`flag::OWED`](crate::protocol::flag::OWED) and gets its positions when its socket has
//! drained. A step sends a bounded number of positions and bytes (`flow::positions`); [`STEP_MS`]
//! lie between two.

use super::Subscriptions;
use super::filters::FilterIndex;
use crate::ids::SubIndex;
use crate::mail::{HomeId, PartitionId, StreamPosition};
use crate::notice::Beginning;
use crate::settings::{LogSettings, Settings};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stdx::handing::Hand;
use stdx::key::Key;

/// The part of a log's records, as a divisor, after which a position is sent again: by offsets and
/// by age.
const PARTS: u64 = 4;
/// The maximum time between two positions of a log that keeps its messages for very long, or
/// without an age: seconds, if there is news.
const PATIENCE_S_MAX: u64 = 600;

/// Milliseconds between two steps.
const STEP_MS: u64 = 10;

/// See the module.
#[derive(Default, Hand)]
pub(super) struct Positions {
    known: BTreeMap<PartitionId, Known>,
    /// Homes that have not answered.
    asked: BTreeSet<HomeId>,
    round: Option<Round>,
    /// Connections that were owed positions and have drained, with how many of their subscriptions
    /// have been examined.
    owed: VecDeque<(Key, usize)>,
    /// The time of the next step; milliseconds of the monotonic clock.
    next_ms: u64,
}

/// The answer of a home for a partition, and the position that was sent last.
#[derive(Default, Hand)]
struct Known {
    through: u64,
    oldest: u64,
    told: u64,
    told_s: u32,
}

/// A round through all subscriptions to filters, filter by filter, the newest of each first: a
/// removal moves the newest into the free place, which the round has visited by then.
#[derive(Hand)]
pub(crate) struct Round {
    /// The partitions that are due, and how far their streams have come.
    pub telling: Vec<(PartitionId, u64)>,
    filter: FilterIndex,
    /// The place in the filter's list behind the next one.
    member: usize,
}

/// The next entry of a round.
pub(crate) enum Next {
    Subscription(SubIndex),
    Nobody,
    Over,
}

impl Known {
    fn is_due(&self, now_s: u32, log: &LogSettings) -> bool {
        let news = self.through.saturating_sub(self.told);
        let kept = (self.through + 1).saturating_sub(self.oldest);
        let waited_s = u64::from(now_s.wrapping_sub(self.told_s));
        let patience_s = (log.age_max_ms / 1_000 / PARTS).clamp(1, PATIENCE_S_MAX);
        news > 0 && (news.saturating_mul(PARTS) >= kept || waited_s >= patience_s)
    }
}

impl Positions {
    /// The partition begins anew.
    pub(super) fn forget(&mut self, partition: PartitionId) {
        self.known.remove(&partition);
        if let Some(round) = &mut self.round {
            round.telling.retain(|(of, _)| *of != partition);
        }
    }

    fn begin_round(&mut self, now_s: u32, settings: &Settings) {
        let mut telling = Vec::new();
        for (&partition, known) in &mut self.known {
            if known.is_due(now_s, settings.log_of(partition)) {
                (known.told, known.told_s) = (known.through, now_s);
                telling.push((partition, known.through));
            }
        }
        if !telling.is_empty() {
            self.round = Some(Round { telling, filter: 0, member: usize::MAX });
        }
    }
}

impl Subscriptions {
    /// Begins a round with the homes' answers, if none is under way.
    pub fn begin_round(&mut self, now_s: u32, settings: &Settings) {
        if self.positions.round.is_none() {
            self.positions.begin_round(now_s, settings);
        }
    }

    /// A home is asked how far its streams have come. False if it has not answered yet.
    pub fn ask_for_positions(&mut self, home: HomeId) -> bool {
        self.positions.asked.insert(home)
    }

    /// A home has answered.
    pub fn take_positions(&mut self, home: HomeId, positions: &[StreamPosition]) {
        self.positions.asked.remove(&home);
        for position in positions {
            let known = self.positions.known.entry(position.partition).or_default();
            (known.through, known.oldest) = (position.through, position.oldest);
        }
    }

    /// The time of the next step of positions.
    #[inline]
    pub fn next_step_ms(&self) -> Option<u64> {
        let positions = &self.positions;
        let has_work = positions.round.is_some() || !positions.owed.is_empty();
        has_work.then_some(positions.next_ms)
    }

    /// Whether a step is due; the next one is [`STEP_MS`] later.
    #[inline]
    pub fn begin_step(&mut self, now_ms: u64) -> bool {
        let is_due = self.next_step_ms().is_some_and(|at| at <= now_ms);
        if is_due {
            self.positions.next_ms = now_ms + STEP_MS;
        }
        is_due
    }

    /// The round under way; to be given back unless it is over.
    pub fn take_round(&mut self) -> Option<Round> {
        self.positions.round.take()
    }

    /// Stores the round for the next step.
    pub fn put_round(&mut self, round: Round) {
        self.positions.round = Some(round);
    }

    /// The next entry of a round.
    pub fn next_to_send(&self, round: &mut Round) -> Next {
        let entries = &self.filters.entries;
        if round.filter >= entries.places() {
            return Next::Over;
        }
        if let Some(filter) = entries.get(round.filter) {
            round.member = round.member.min(filter.members.len());
            if let Some(place) = round.member.checked_sub(1) {
                round.member = place;
                let member = self.members.get(&filter.members, place);
                return member.map_or(Next::Nobody, |at| Next::Subscription(SubIndex(at)));
            }
        }
        (round.filter, round.member) = (round.filter + 1, usize::MAX);
        Next::Nobody
    }

    /// Whether a round has passed by subscriptions that begin live here, because a home's answer
    /// was under way: they get the positions of that round.
    pub fn have_missed_a_round(&self, beginnings: &[Beginning]) -> bool {
        beginnings.iter().any(|beginning| {
            let known = self.positions.known.get(&beginning.partition);
            !beginning.is_replaying && known.is_some_and(|known| known.told > beginning.through)
        })
    }

    /// Queues a connection for the positions that it missed; `looked` of its subscriptions have
    /// been visited.
    pub fn owe(&mut self, connection: Key, looked: usize) {
        self.positions.owed.push_back((connection, looked));
    }

    /// The next connection that is owed positions.
    pub fn next_owed(&mut self) -> Option<(Key, usize)> {
        self.positions.owed.pop_front()
    }

    /// The position of each partition that was sent last, for connections that missed one; empty if
    /// none did.
    pub fn sent_positions(&self) -> Vec<(PartitionId, u64)> {
        if self.positions.owed.is_empty() {
            return Vec::new();
        }
        let known = self.positions.known.iter();
        known
            .filter(|(_, known)| known.told > 0)
            .map(|(partition, known)| (*partition, known.told))
            .collect()
    }
}
