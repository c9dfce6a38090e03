//! Lag policies of subscriptions whose clients are slow.
//!
//! Beside the path, between the outbox that has spilled (`flow::spill`) and the reads that bring a
//! subscription back (`flow::recover`). A policy concerns live messages only that the client's own
//! socket had no room for. Messages that wait for other reasons are never left out: a *recovery* (a
//! replay that a start asked for, or one after a stream that the log has overtaken) is read in
//! pages at the pace of the socket, under any policy, and lasts until its last page has been
//! written. So a subscription that conflates and resumes from a position gets all since then.
//!
//! A subscription to a filter lags, recovers and leaves out by partition. All filters of an event
//! stream are one here: an equal policy holds, else everything is replayed.
//!
//! Invariants: a subscription of another policy than replay that recovers is in [`Recovering`]; of
//! the others none is, and an idle subscription never. Messages are left out from an offset that
//! the client has settled: the `prev` of the first frame that was given up, after frames that all
//! went out.

use super::cursor::{Member, Reader, all_of, all_of_connection};
use super::{Slot, Stage, Subscriptions};
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{PartitionId, ReadMode};
use crate::settings::LagPolicy;
use std::collections::BTreeSet;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// Subscriptions with a recovery, under any policy, by connection.
#[derive(Default, Hand)]
pub(super) struct Recovering {
    subscriptions: BTreeSet<(ConnIndex, SubIndex)>,
    /// Those to filters, by partition.
    partitions: BTreeSet<Member>,
}

impl Recovering {
    fn is_empty(&self) -> bool {
        self.subscriptions.is_empty() && self.partitions.is_empty()
    }

    /// About how many bytes both sets take.
    pub fn memory_bytes(&self) -> usize {
        tree_bytes(self.subscriptions.len(), size_of::<(ConnIndex, SubIndex)>())
            + tree_bytes(self.partitions.len(), size_of::<Member>())
    }

    /// The subscription goes.
    pub fn release(&mut self, at: (ConnIndex, SubIndex)) {
        if !self.subscriptions.is_empty() {
            self.subscriptions.remove(&at);
        }
    }

    /// A subscription to a filter goes, or all filters of a stream.
    pub fn release_reader(&mut self, reader: Reader) {
        let gone: Vec<Member> = self.partitions.range(all_of(reader)).copied().collect();
        for member in gone {
            self.partitions.remove(&member);
        }
    }
}

impl Subscriptions {
    /// Notes a recovery: the subscription gets all records after its cursor.
    pub fn recovers(&mut self, subscription: SubIndex) {
        let entry = &self.table[subscription.0];
        if entry.policy() != LagPolicy::Replay {
            self.recovering.subscriptions.insert((entry.connection, subscription));
        }
    }

    /// Notes a recovery: the reader gets all records of a partition after its cursor.
    pub fn filter_recovers(&mut self, reader: Reader, partition: PartitionId, slot: &Slot) {
        if self.filter_policy(reader, slot) != LagPolicy::Replay {
            self.recovering.partitions.insert((reader.0, reader.1, partition));
        }
    }

    /// Ends the recoveries of a connection: its queue has been written, so its live subscriptions
    /// have their replay.
    #[inline]
    pub fn end_recoveries(&mut self, index: ConnIndex) {
        if !self.recovering.is_empty() {
            self.end_recoveries_of(index);
        }
    }

    fn end_recoveries_of(&mut self, index: ConnIndex) {
        if !self.recovering.partitions.is_empty() {
            let recovering = self.recovering.partitions.range(all_of_connection(index)).copied();
            let done: Vec<Member> = recovering.filter(|at| !self.catch_up.has(at)).collect();
            for member in done {
                self.recovering.partitions.remove(&member);
            }
        }
        if self.recovering.subscriptions.is_empty() {
            return;
        }
        let all = (index, SubIndex::MIN)..=(index, SubIndex::MAX);
        let recovering = self.recovering.subscriptions.range(all).copied();
        let done: Vec<(ConnIndex, SubIndex)> =
            recovering.filter(|&(_, at)| self.table[at.0].stage == Stage::Live).collect();
        for entry in done {
            self.recovering.subscriptions.remove(&entry);
        }
    }

    /// The policy of a subscription to a filter, or of a stream's filters together.
    fn filter_policy(&self, reader: Reader, slot: &Slot) -> LagPolicy {
        let filters = self.filters_of(reader, slot, Stage::ByFilter);
        let mut policies = filters.iter().map(|at| self.table[at.0].policy());
        let first = policies.next().unwrap_or_default();
        if policies.all(|policy| policy == first) { first } else { LagPolicy::Replay }
    }

    /// The mode of the next read of a partition.
    pub(super) fn filter_read_mode(&self, at: Member, slot: &Slot) -> ReadMode {
        match self.filter_policy((at.0, at.1), slot) {
            _ if self.recovering.partitions.contains(&at) => ReadMode::Replay,
            LagPolicy::Conflate => ReadMode::Newest,
            LagPolicy::Drop => ReadMode::Skip,
            LagPolicy::Replay | LagPolicy::Disconnect => ReadMode::Replay,
        }
    }

    /// A subscription of the reader, if it catches up, has no replay to finish and is to end for
    /// it.
    pub fn ends_by_policy(&self, reader: Reader, slot: &Slot) -> Option<SubIndex> {
        let ends = self.filter_policy(reader, slot) == LagPolicy::Disconnect
            && self.recovering.partitions.range(all_of(reader)).next().is_none();
        let filters = self.filters_of(reader, slot, Stage::ByFilter);
        filters.last().copied().filter(|_| ends)
    }

    /// The current policy of a plain subscription that is to be read from the log.
    pub fn policy_now(&self, subscription: SubIndex) -> LagPolicy {
        let entry = &self.table[subscription.0];
        let recovers = || self.recovering.subscriptions.contains(&(entry.connection, subscription));
        match entry.policy() {
            LagPolicy::Replay => LagPolicy::Replay,
            LagPolicy::Conflate | LagPolicy::Drop | LagPolicy::Disconnect if recovers() => {
                LagPolicy::Replay
            }
            policy @ (LagPolicy::Conflate | LagPolicy::Drop | LagPolicy::Disconnect) => policy,
        }
    }

    /// The mode of its next read.
    pub(super) fn read_mode(&self, subscription: SubIndex) -> ReadMode {
        match self.policy_now(subscription) {
            LagPolicy::Conflate => ReadMode::Newest,
            LagPolicy::Drop => ReadMode::Skip,
            LagPolicy::Replay | LagPolicy::Disconnect => ReadMode::Replay,
        }
    }
}
