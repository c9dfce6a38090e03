//! Subscriptions to filters in the native protocol: where they begin, and what settles them,
//! partition by partition.

use super::native_notices::wire_reason;
use crate::edge::{Edge, flag};
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{Gap, PartitionId};
use crate::notice::LeftOut;
use wire::native::{
    self, Beginning, CaughtUp, List, PartitionBeginning, ServerFrame, Subscribed, SubscribedTo,
};

impl Edge {
    pub(crate) fn native_subscribed_filter(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        beginnings: &[crate::notice::Beginning],
    ) {
        let client = self.subscription_client(subscription);
        let partitions: Vec<PartitionBeginning> = beginnings
            .iter()
            .map(|beginning| PartitionBeginning {
                partition: beginning.partition,
                beginning: Beginning {
                    through: native::Position { epoch: beginning.epoch, offset: beginning.through },
                    replaying: beginning.is_replaying,
                    continued: beginning.is_resumed && beginning.gap.is_none(),
                },
            })
            .collect();
        let frame = Subscribed {
            subscription: client,
            to: SubscribedTo::Filter(List::from(partitions.as_slice())),
        };
        self.send_native(index, &ServerFrame::Subscribed(frame));
        for beginning in beginnings {
            if let Some(gap) = beginning.gap {
                let frame = self.filter_gap_frame(subscription, beginning.partition, gap);
                self.send_native(index, &ServerFrame::Gap(frame));
            }
        }
    }

    pub(crate) fn native_filter_gap(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        partition: PartitionId,
        gap: Gap,
    ) {
        let frame = self.filter_gap_frame(subscription, partition, gap);
        let frame = ServerFrame::Gap(frame);
        self.send_native_filter_mark(index, subscription, partition, gap.from, &frame);
    }

    pub(crate) fn native_filter_caught_up(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        partition: PartitionId,
        through: u64,
    ) {
        let frame = ServerFrame::CaughtUp(CaughtUp {
            subscription: self.subscription_client(subscription),
            partition: Some(partition),
            through,
        });
        self.send_native_filter_mark(index, subscription, partition, through, &frame);
    }

    /// Messages that the subscription's policy left out.
    pub(crate) fn native_filter_left_out(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        partition: PartitionId,
        left_out: LeftOut,
    ) {
        let LeftOut { from, through, reason } = left_out;
        let frame = ServerFrame::Skipped(native::Skipped {
            subscription: self.subscription_client(subscription),
            partition: Some(native::PartitionEpoch {
                partition,
                epoch: self.settings.log_of(partition).epoch,
            }),
            from,
            through,
            reason,
        });
        self.send_native_filter_mark(index, subscription, partition, from, &frame);
    }

    fn filter_gap_frame(
        &self,
        subscription: SubIndex,
        partition: PartitionId,
        gap: Gap,
    ) -> native::Gap {
        native::Gap {
            subscription: self.subscription_client(subscription),
            partition: Some(partition),
            epoch: self.settings.log_of(partition).epoch,
            from: gap.from,
            to: gap.to,
            reason: wire_reason(gap.reason),
        }
    }

    /// What settles a subscription to a filter (`Edge::send_filter_mark`).
    fn send_native_filter_mark(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        partition: PartitionId,
        after: u64,
        frame: &ServerFrame<'_>,
    ) {
        if self.connections.slots[index].is(flag::CLOSING) {
            return;
        }
        let (bytes, start) = self.encode_native(frame);
        self.send_filter_mark(subscription, partition, after, &[&bytes[start..]]);
        self.work.scratch = bytes;
    }
}
