//! The present epochs of partitions, as an edge knows them.
//!
//! The epoch of an embedded log is in the settings. That of an engine's partition advances while
//! the node runs: its home posts each one in the stream ([`crate::mail::ToEdge::Epoch`]), before
//! anything that was placed in it. All that an edge writes of a partition carries its present
//! epoch: every record up to the stream's position is a record of that epoch, too.

use crate::ids::PartitionId;
use crate::settings::Settings;
use std::collections::BTreeMap;
use stdx::handing::Hand;

/// See the module.
#[derive(Default, Hand)]
pub(crate) struct Epochs {
    /// Epochs of engines' partitions; empty on a node without an engine.
    advancing: BTreeMap<PartitionId, u64>,
}

impl Epochs {
    /// The home of an engine's partition has posted its epoch.
    pub fn set(&mut self, partition: PartitionId, epoch: u64) {
        self.advancing.insert(partition, epoch);
    }

    /// The present epoch of a partition.
    pub fn of(&self, partition: PartitionId, settings: &Settings) -> u64 {
        let advancing = self.advancing(partition);
        advancing.unwrap_or_else(|| settings.log_of(partition).epoch)
    }

    /// The present epoch of an engine's partition; none for an embedded log.
    #[inline]
    pub fn advancing(&self, partition: PartitionId) -> Option<u64> {
        if self.advancing.is_empty() { None } else { self.advancing.get(&partition).copied() }
    }

    /// The byte of the epoch that frames carry, if the epoch advances.
    #[inline]
    pub fn lineage(&self, partition: PartitionId) -> Option<u8> {
        self.advancing(partition).map(|epoch| epoch as u8)
    }

    /// Whether the node has no engine.
    #[inline]
    pub fn are_fixed(&self) -> bool {
        self.advancing.is_empty()
    }
}
