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
//! been queued for whoever is not behind in the partition, and stands before it in the outbox. Who
//! is behind is not told, for CAUGHT_UP will come. What tells it gives way when anything before it
//! has to.
//!
//! Invariants: an idle session holds nothing for this; who cannot be told just then has
//! [`flag::OWED`] and is told when its socket has drained. A step tells at most [`STEP_TOLD_MAX`]
//! subscriptions and about [`STEP_BYTES_MAX`] bytes; between two there are [`STEP_MS`].

use crate::mail::{HomeId, PartitionId};
use crate::settings::LogSettings;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stdx::handing::Hand;
use stdx::key::Key;

/// Told again when the first of so many parts of what a log keeps is newer than what was told, by
/// offsets and by age.
const PARTS: u64 = 4;
/// A log that keeps its messages for very long, or has no age: told again after so long at most, if
/// there is news.
const PATIENCE_S_MAX: u64 = 600;

/// See the module.
#[derive(Default, Hand)]
pub(crate) struct Positions {
    pub known: BTreeMap<PartitionId, Known>,
    /// Homes that have not answered.
    pub asked: BTreeSet<HomeId>,
    pub round: Option<Round>,
    /// Connections that were owed positions and have drained, with how many of their subscriptions
    /// have been looked at.
    pub owed: VecDeque<(Key, usize)>,
    /// Of the monotonic clock: when the next step may be.
    pub next_ms: u64,
}

/// What a home has said of a partition, and what was told of it last.
#[derive(Default, Hand)]
pub(crate) struct Known {
    pub through: u64,
    pub oldest: u64,
    pub told: u64,
    pub told_s: u32,
}

/// All subscriptions to filters are gone through, filter by filter, the newest of each first: one
/// that is removed moves the newest into its place, which has been told then.
#[derive(Hand)]
pub(crate) struct Round {
    pub telling: Vec<(PartitionId, u64)>,
    pub filter: u32,
    /// The place in the filter's list behind the next one.
    pub member: usize,
}

impl Known {
    pub fn is_due(&self, now_s: u32, log: &LogSettings) -> bool {
        let news = self.through.saturating_sub(self.told);
        let kept = (self.through + 1).saturating_sub(self.oldest);
        let waited_s = u64::from(now_s.wrapping_sub(self.told_s));
        let patience_s = (log.age_max_ms / 1_000 / PARTS).clamp(1, PATIENCE_S_MAX);
        news > 0 && (news.saturating_mul(PARTS) >= kept || waited_s >= patience_s)
    }
}

impl Positions {
    /// When the edge has to go on with it.
    pub fn next_step_ms(&self) -> Option<u64> {
        let has_work = self.round.is_some() || !self.owed.is_empty();
        has_work.then_some(self.next_ms)
    }
}
