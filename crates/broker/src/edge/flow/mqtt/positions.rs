//! Positions of messages, for clients that ask for them.

use crate::edge::Edge;
use crate::mail::PartitionId;
use crate::position::Position;
use crate::session::mqtt::Mqtt;

impl Edge {
    /// The place of a message in the log, if the client wants to know it.
    pub(super) fn told_place(
        &self,
        mqtt: &Mqtt,
        partition: PartitionId,
        offset: u64,
    ) -> Option<(PartitionId, Position)> {
        let epoch = || self.links.epochs.of(partition, &self.settings);
        mqtt.tells_positions.then(|| (partition, Position { epoch: epoch(), offset }))
    }
}
