//! Positions told to filters now and then, so that their cursors do not age.
//!
//! A filter's client knows of a partition what the filter's own messages say. Where others keep the
//! partition busy, its cursor would fall behind what the log keeps though nothing of the filter was
//! lost, and a resume would announce a gap. So the homes are asked once a second how far their
//! streams have come. A partition is *due* when a quarter of what its log has there is newer than
//! what was told last, or when a quarter of the log's age has passed. A *round* then goes through
//! all subscriptions to filters and tells each of the partitions that are due: CAUGHT_UP in the
//! native protocol, an `id:` on event streams.
//!
//! Why a position does not say too much. A home posts it in the order of the stream, so whatever
//! the stream brings after it lies beyond it. Telling it therefore claims no more than the
//! partition's next message would, which moves the cursor past it as well: everything up to it has
//! been queued for each reader that is not behind in the partition, and stands before it in the
//! outbox. One that is behind is not told, for CAUGHT_UP will come. What tells it gives way when
//! anything before it has to.
//!
//! Invariants: an idle session holds nothing for this; a connection that cannot be told just then
//! has [`flag::OWED`](crate::protocol::flag::OWED) and is told when its socket has drained. A step
//! tells a bounded number of subscriptions and bytes (`flow::positions`); [`STEP_MS`] lie between
//! two.

use super::Subscriptions;
use super::filters::FilterIndex;
use crate::ids::SubIndex;
use crate::mail::{HomeId, PartitionId, StreamPosition};
use crate::notice::Beginning;
use crate::settings::{LogSettings, Settings};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stdx::handing::Hand;
use stdx::key::Key;

/// Told again when the first of so many parts of what a log keeps is newer than what was told, by
/// offsets and by age.
const PARTS: u64 = 4;
/// A log that keeps its messages for very long, or has no age: told again after so long at most, if
/// there is news.
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
    /// have been looked at.
    owed: VecDeque<(Key, usize)>,
    /// When the next step may be, by the monotonic clock.
    next_ms: u64,
}

/// What a home has said of a partition, and what was told of it last.
#[derive(Default, Hand)]
struct Known {
    through: u64,
    oldest: u64,
    told: u64,
    told_s: u32,
}

/// All subscriptions to filters are gone through, filter by filter, the newest of each first: one
/// that is removed moves the newest into its place, which has been told then.
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
    /// Begins a round with what the homes have said, if none is under way.
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

    /// When the edge has to go on telling positions.
    #[inline]
    pub fn next_step_ms(&self) -> Option<u64> {
        let positions = &self.positions;
        let has_work = positions.round.is_some() || !positions.owed.is_empty();
        has_work.then_some(positions.next_ms)
    }

    /// Whether a step of telling is due; the next one is [`STEP_MS`] later.
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

    /// The round goes on with the next step.
    pub fn put_round(&mut self, round: Round) {
        self.positions.round = Some(round);
    }

    /// The next entry of a round.
    pub fn next_to_tell(&self, round: &mut Round) -> Next {
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
    /// was on its way: they are told what it told.
    pub fn have_missed_a_round(&self, beginnings: &[Beginning]) -> bool {
        beginnings.iter().any(|beginning| {
            let known = self.positions.known.get(&beginning.partition);
            !beginning.is_replaying && known.is_some_and(|known| known.told > beginning.through)
        })
    }

    /// A connection is owed positions; so many of its subscriptions have been looked at.
    pub fn owe(&mut self, connection: Key, looked: usize) {
        self.positions.owed.push_back((connection, looked));
    }

    /// The next connection that is owed positions.
    pub fn next_owed(&mut self) -> Option<(Key, usize)> {
        self.positions.owed.pop_front()
    }

    /// What was told last of each partition, for connections that are owed positions; nothing if
    /// none is.
    pub fn told_positions(&self) -> Vec<(PartitionId, u64)> {
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
