//! Streams that have lost records: their live subscriptions continue by pages.

use crate::edge::Edge;
use crate::edge::subscriptions::{Lost, Stage};
use crate::mail::{HomeId, PartitionId};
use crate::protocol::flag;

impl Edge {
    /// The stream of a partition has lost records after `from`.
    pub(crate) fn stream_gap(&mut self, home: HomeId, partition: PartitionId, from: u64) {
        self.subscriptions.note_loss(home, partition, from);
    }

    /// Has all be read from the log that takes its messages from a stream which has lost some.
    #[cold]
    pub(crate) fn leave_lost_streams(&mut self) {
        let lost = self.subscriptions.take_losses();
        for index in self.subscriptions.leave_lost(&lost, &self.settings) {
            self.connections.slots[index].set(flag::LAGGING);
            self.mark_dirty(index);
        }
        self.filters_leave(&lost);
    }

    fn filters_leave(&mut self, lost: &Lost) {
        for subscription in self.subscriptions.all_by_filter() {
            for (partition, from) in lost.partitions() {
                match self.subscriptions[subscription].stage {
                    Stage::Pending => self.passed_while_opening(subscription, partition),
                    Stage::ByFilter if !self.is_catching_up(subscription, partition) => {
                        self.lag_filter(subscription, partition, from);
                        let reader = self.subscriptions.reader_of(subscription);
                        let slot = &self.connections.slots[reader.0];
                        self.subscriptions.filter_recovers(reader, partition, slot);
                        self.mark_dirty(reader.0);
                    }
                    Stage::ByFilter | Stage::Live | Stage::Reading | Stage::Lagging => {}
                }
            }
        }
    }
}
