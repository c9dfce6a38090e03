//! Plain subscriptions that lag are read from the log, some at a time, while the socket drains.

use crate::edge::Edge;
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{PartitionId, ToHome};
use crate::protocol::flag;
use crate::settings::LagPolicy;

impl Edge {
    /// Asks for the next page of each lagging subscription, a few at a time of each log.
    pub(crate) fn read_lagging(&mut self, index: ConnIndex) {
        let mut before = SubIndex::NONE;
        let mut left = self.send_again(index) || self.send_waiting_retained(index);
        left |= self.send_to_members(index);
        while let Some(at) = self.subscriptions.next_laggard(index, before) {
            before = at;
            if self.subscriptions.policy_now(at) == LagPolicy::Disconnect {
                if !self.disconnect_slow(at) {
                    return;
                }
                continue;
            }
            let partition = self.subscriptions.partition_of(at).unwrap_or_default();
            if self.subscriptions.is_log_full(index, self.settings.log_number(partition)) {
                left = true;
                if self.subscriptions.are_logs_full(index, self.settings.logs.len()) {
                    break;
                }
            } else if !self.read_plain(index, at, partition) {
                left = true;
            }
        }
        match self.read_catch_up(index) {
            Some(false) if !left => self.connections.slots[index].clear(flag::LAGGING),
            _ => {}
        }
    }

    /// Asks for one page, if the client has given credit for it. False if the connection has to
    /// wait for room.
    fn read_plain(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        partition: PartitionId,
    ) -> bool {
        if !self.may_read(partition) {
            self.wait_to_read(partition, index);
            return false;
        }
        let records_max = self.records_max_of(index);
        if records_max == 0 {
            return false; // an acknowledgement makes room
        }
        let read = self.subscriptions.read(subscription, records_max, &self.settings);
        if let Some((home, read)) = read {
            self.request(home, ToHome::Read(read));
        }
        true
    }
}
