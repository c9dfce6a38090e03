//! The effect of lag policies on subscriptions of slow clients.

use crate::edge::Edge;
use crate::ids::SubIndex;
use crate::mail::{PartitionId, Skip};
use crate::notice::LeftOut;
use crate::protocol::flag;
use crate::settings::LagPolicy;
use wire::native::SkipReason;

impl Edge {
    /// A page for filters has left something out.
    pub(crate) fn leave_out_of_filter(
        &mut self,
        subscription: SubIndex,
        partition: PartitionId,
        Skip { from, through }: Skip,
    ) {
        let reason = self.count_left_out(subscription);
        let left_out = LeftOut { from, through, reason };
        self.notify_filter_left_out(subscription, partition, left_out);
    }

    /// Counts and reports the records that a page has left out.
    pub(crate) fn leave_out(&mut self, subscription: SubIndex, from: u64, through: u64) {
        let reason = self.count_left_out(subscription);
        let left_out = LeftOut { from, through, reason };
        self.notify_left_out(subscription, left_out);
    }

    fn count_left_out(&mut self, subscription: SubIndex) -> SkipReason {
        match self.subscriptions[subscription].policy() {
            LagPolicy::Conflate => {
                self.statistics.conflated += 1;
                SkipReason::Conflated
            }
            LagPolicy::Drop | LagPolicy::Replay | LagPolicy::Disconnect => {
                self.statistics.dropped += 1;
                SkipReason::Dropped
            }
        }
    }

    /// Ends a subscription that did not keep up; the client begins it again from its last position.
    /// False if its connection ends with it.
    ///
    /// Until the socket has drained it costs an entry, as every lagging subscription does; so no
    /// notices wait for a stalled client.
    pub(crate) fn disconnect_slow(&mut self, subscription: SubIndex) -> bool {
        let index = self.subscriptions[subscription].connection;
        self.statistics.disconnected += 1;
        self.notify_disconnected(subscription);
        if self.connections.slots[index].is(flag::CLOSING) {
            return false;
        }
        self.unsubscribe(subscription);
        true
    }
}
