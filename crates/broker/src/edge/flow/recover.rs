//! Plain subscriptions that lag are read from the log, some at a time, while the socket drains.

use crate::edge::Edge;
use crate::edge::slots::flag;
use crate::edge::subscriptions::{READS_MAX, Stage};
use crate::ids::{ConnIndex, NONE, SubIndex};
use crate::mail::{PageLimits, ReadTopic, ToHome};
use crate::settings::LagPolicy;

impl Edge {
    /// It is read from the log from now on, after its cursor, when the socket has drained.
    pub(crate) fn set_lagging(&mut self, subscription: SubIndex) {
        self.leave_reading(subscription);
        let entry = &mut self.subscriptions.table[subscription];
        entry.stage = Stage::Lagging;
        self.subscriptions.laggards.waiting.insert((entry.connection, subscription));
    }

    /// Its page has come, or is not waited for any more.
    pub(crate) fn leave_reading(&mut self, subscription: SubIndex) {
        let entry = &self.subscriptions.table[subscription];
        if entry.stage != Stage::Reading {
            return;
        }
        let log = self.settings.log_number(self.partition_of(subscription));
        let at = (entry.connection, log);
        if let Some(count) = self.subscriptions.laggards.reading.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                self.subscriptions.laggards.reading.remove(&at);
            }
        }
    }

    /// It goes.
    pub(crate) fn forget_lagging(&mut self, subscription: SubIndex) {
        let Some(entry) = self.subscriptions.table.get(subscription) else {
            return;
        };
        match entry.stage {
            Stage::Reading => self.leave_reading(subscription),
            Stage::Lagging => {
                let at = (entry.connection, subscription);
                self.subscriptions.laggards.waiting.remove(&at);
            }
            Stage::Pending | Stage::Live | Stage::Wide => {}
        }
    }

    /// Asks for the next page of each lagging subscription, a few at a time of each log.
    pub(crate) fn read_lagging(&mut self, index: ConnIndex) {
        let mut before = NONE;
        let mut left = false;
        while let Some(at) = self.next_laggard(index, before) {
            before = at;
            if self.subscriptions.table[at].stage != Stage::Lagging {
                self.subscriptions.laggards.waiting.remove(&(index, at));
            } else if self.policy_now(at) == LagPolicy::Disconnect {
                if !self.disconnect_slow(at) {
                    return;
                }
            } else {
                let partition = self.partition_of(at);
                if self.reads_of(index, self.settings.log_number(partition)) >= READS_MAX {
                    left = true;
                    if self.has_all_reads(index) {
                        break;
                    }
                } else if !self.may_read(partition) {
                    self.wait_to_read(partition, index);
                    left = true;
                } else {
                    self.read(at);
                }
            }
        }
        match self.read_behind(index) {
            Some(false) if !left => self.connections.slots[index].clear(flag::LAGGING),
            _ => {}
        }
    }

    /// Those that came last are the first.
    fn next_laggard(&self, index: ConnIndex, before: u32) -> Option<u32> {
        let of_connection = (index, 0)..(index, before);
        let mut waiting = self.subscriptions.laggards.waiting.range(of_connection);
        waiting.next_back().map(|(_, at)| *at)
    }

    fn reads_of(&self, index: ConnIndex, log: u16) -> usize {
        let reading = self.subscriptions.laggards.reading.get(&(index, log));
        reading.copied().unwrap_or(0)
    }

    /// Whether no log has room for another page of the connection.
    fn has_all_reads(&self, index: ConnIndex) -> bool {
        let mut logs = 0..self.settings.logs.len() as u16;
        logs.all(|log| self.reads_of(index, log) >= READS_MAX)
    }

    /// Asks for one page, if the client has given credit for it.
    fn read(&mut self, subscription: SubIndex) {
        let limits = &self.settings.limits;
        let credit = self.replay_credit(subscription).unwrap_or(u32::MAX);
        let records_max = limits.page_records_max.min(credit);
        if records_max == 0 {
            return;
        }
        let limits = PageLimits { records_max, bytes_max: limits.page_bytes };
        let key = self.subscription_key(subscription);
        let mode = self.read_mode(subscription);
        let entry = &mut self.subscriptions.table[subscription];
        entry.stage = Stage::Reading;
        let (connection, home, index, after) =
            (entry.connection, entry.home, entry.topic, entry.cursor());
        let partition = self.partition_of(subscription);
        self.subscriptions.laggards.waiting.remove(&(connection, subscription));
        let log = self.settings.log_number(partition);
        *self.subscriptions.laggards.reading.entry((connection, log)).or_default() += 1;
        self.request(
            home,
            ToHome::Read(ReadTopic { partition, index, subscription: key, after, mode, limits }),
        );
    }
}
