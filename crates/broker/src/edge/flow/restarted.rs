//! An engine's partition begins anew: its subscriptions end, and their clients come back with their
//! positions. The home then judges them, as it does those that come from another node.
//!
//! The log may not have the messages any more that clients were sent, nor those in their
//! outboxes. So no cursor of this edge says anything about the new life, and none is kept: neither
//! of a subscription, nor how far the partition's stream had come.

use crate::edge::Edge;
use crate::ids::SubIndex;
use crate::mail::PartitionId;
use crate::notice::{Notice, Refusal};
use crate::protocol::flag;
use wire::native::{ErrorCode, UnsubscribeCode};

impl Edge {
    /// A partition has begun anew, in this epoch.
    pub(crate) fn partition_restarted(&mut self, partition: PartitionId, epoch: u64) {
        self.links.epochs.set(partition, epoch);
        self.subscriptions.forget_positions(partition);
        self.mqtt.restart(partition);
        let concerned = self.subscriptions.in_partition(partition);
        let keys: Vec<_> = concerned.iter().map(|&at| self.subscriptions.key(at)).collect();
        for key in keys {
            // The end of one may have been the end of its connection.
            if let Some(subscription) = self.subscriptions.find(key) {
                self.end_restarted(subscription);
            }
        }
    }

    fn end_restarted(&mut self, subscription: SubIndex) {
        let index = self.subscriptions[subscription].connection;
        if self.subscriptions[subscription].is_pending() {
            // Some homes have granted the filter, perhaps this one.
            return self.refused(subscription, Refusal::of(ErrorCode::LogUnavailable));
        }
        if self.connections.slots[index].facts().answers_requests {
            self.poll_ended(index, ErrorCode::LogUnavailable);
            return;
        }
        let client = self.subscriptions[subscription].client;
        let code = UnsubscribeCode::LogRestarted;
        self.notify_of(index, subscription, &Notice::Unsubscribed { client, code });
        if !self.connections.slots[index].is(flag::CLOSING) {
            self.unsubscribe(subscription);
        }
    }
}
