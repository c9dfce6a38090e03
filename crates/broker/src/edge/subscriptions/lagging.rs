//! Plain subscriptions that are read from the log: which of a connection wait for a page, and how
//! many pages are under way.
//!
//! Beside the path. A page comes for one subscription, and the next is asked for when the socket
//! has drained; a session may have ten thousand that wait. So those that wait are kept apart, and a
//! page costs a look at the next of them, not at all subscriptions.
//!
//! Invariants: a subscription in [`Stage::Lagging`] is in `waiting` (an entry that is not in that
//! stage is removed when it is met); `reading` counts those in [`Stage::Reading`], at most
//! [`READS_MAX`] of a connection and log.

use super::{Stage, Subscriptions};
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{HomeId, PageLimits, ReadTopic};
use crate::settings::Settings;
use std::collections::{BTreeMap, BTreeSet};
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// Pages under way for one connection and log.
pub(super) const READS_MAX: usize = 4;

/// See the module.
#[derive(Default, Hand)]
pub(super) struct Laggards {
    /// Subscriptions that wait for a page, by connection.
    waiting: BTreeSet<(ConnIndex, SubIndex)>,
    /// The number of pages under way, by connection and log.
    reading: BTreeMap<(ConnIndex, u16), usize>,
}

impl Laggards {
    /// About how many bytes both take.
    pub fn memory_bytes(&self) -> usize {
        tree_bytes(self.waiting.len(), size_of::<(ConnIndex, SubIndex)>())
            + tree_bytes(self.reading.len(), size_of::<((ConnIndex, u16), usize)>())
    }

    fn is_full(&self, index: ConnIndex, log: u16) -> bool {
        self.reading.get(&(index, log)).is_some_and(|count| *count >= READS_MAX)
    }
}

impl Subscriptions {
    /// Marks a subscription to be read from the log, after its cursor, when the socket has drained.
    pub(super) fn set_lagging(&mut self, subscription: SubIndex, settings: &Settings) {
        self.leave_reading(subscription, settings);
        let entry = &mut self.table[subscription.0];
        entry.stage = Stage::Lagging;
        self.laggards.waiting.insert((entry.connection, subscription));
    }

    /// Marks messages after `prev` as not sent: they are read from the log again. Returns whether
    /// the subscription was live.
    pub fn lag(&mut self, subscription: SubIndex, prev: u64, settings: &Settings) -> bool {
        let stage = self.table[subscription.0].stage;
        if stage == Stage::Reading {
            // The page under way answers another question.
            self.renew_key(subscription);
        }
        self.set_lagging(subscription, settings);
        self.table[subscription.0].set_cursor(prev);
        stage == Stage::Live
    }

    /// Notes that a subscription's page has come, or is no longer needed.
    pub(super) fn leave_reading(&mut self, subscription: SubIndex, settings: &Settings) {
        let entry = &self.table[subscription.0];
        if entry.stage != Stage::Reading {
            return;
        }
        let log = settings.log_number(self.partition_of(subscription).unwrap_or_default());
        let at = (entry.connection, log);
        if let Some(count) = self.laggards.reading.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                self.laggards.reading.remove(&at);
            }
        }
    }

    /// Removes a subscription from those that wait.
    pub(super) fn leave_lagging(&mut self, subscription: SubIndex, settings: &Settings) {
        let entry = &self.table[subscription.0];
        match entry.stage {
            Stage::Reading => self.leave_reading(subscription, settings),
            Stage::Lagging => {
                let at = (entry.connection, subscription);
                self.laggards.waiting.remove(&at);
            }
            Stage::Pending | Stage::Live | Stage::ByFilter => {}
        }
    }

    /// The next subscription of the connection that waits for a page, before this one: those that
    /// came last are the first.
    pub fn next_laggard(&mut self, index: ConnIndex, mut before: SubIndex) -> Option<SubIndex> {
        loop {
            let of_connection = (index, SubIndex::MIN)..(index, before);
            let (_, at) = *self.laggards.waiting.range(of_connection).next_back()?;
            if self.table[at.0].stage == Stage::Lagging {
                return Some(at);
            }
            self.laggards.waiting.remove(&(index, at));
            before = at;
        }
    }

    /// Whether a log has no room for another page of the connection.
    pub fn is_log_full(&self, index: ConnIndex, log: u16) -> bool {
        self.laggards.is_full(index, log)
    }

    /// Whether no log has room for another page of the connection.
    pub fn are_logs_full(&self, index: ConnIndex, logs_count: usize) -> bool {
        (0..logs_count as u16).all(|log| self.laggards.is_full(index, log))
    }

    /// The next page, to be asked for, with at most this number of records, if the client has given
    /// credit for it; from here on it is on its way.
    pub fn read(
        &mut self,
        subscription: SubIndex,
        records_max: u32,
        settings: &Settings,
    ) -> Option<(HomeId, ReadTopic)> {
        let credit = self.credits.get(subscription).unwrap_or(u32::MAX).min(records_max);
        let records_max = settings.limits.page_records_max.min(credit);
        if records_max == 0 {
            return None;
        }
        let (home, index) = self.table[subscription.0].topic()?;
        let partition = self.partition_of(subscription)?;
        let read = ReadTopic {
            partition,
            index: index.0,
            subscription: self.key(subscription),
            after: self.table[subscription.0].cursor(),
            mode: self.read_mode(subscription),
            limits: PageLimits { records_max, bytes_max: settings.limits.page_bytes },
        };
        let entry = &mut self.table[subscription.0];
        entry.stage = Stage::Reading;
        let connection = entry.connection;
        self.laggards.waiting.remove(&(connection, subscription));
        let log = settings.log_number(partition);
        *self.laggards.reading.entry((connection, log)).or_default() += 1;
        Some((home, read))
    }
}
