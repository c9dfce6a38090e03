//! Subscriptions to filters that wait for their homes: each answers where its partitions stand, and
//! when all have, the subscription is live, or behind where it has to be read from the log.
//!
//! Invariant: a message that comes between a home's grant and the last one makes the partition
//! begin behind.

use crate::mail::{HomeId, PartitionId, Resumed};
use crate::notice::Beginning;
use std::collections::BTreeMap;
use stdx::handing::Hand;

/// A subscription (or a stream's) that waits for its homes.
#[derive(Default, Hand)]
pub(crate) struct Opening {
    /// Answers that are due.
    pub waiting: Vec<(u32, HomeId)>,
    pub fail_on_gap: bool,
    pub partitions: BTreeMap<PartitionId, GrantedStart>,
}

/// What a home has said of one partition.
#[derive(Hand)]
pub(crate) struct GrantedStart {
    pub epoch: u64,
    pub through: u64,
    pub resumed: Option<Resumed>,
    /// The stream has gone on since.
    pub has_passed: bool,
}

impl GrantedStart {
    pub fn begin(&self, partition: PartitionId) -> Beginning {
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
