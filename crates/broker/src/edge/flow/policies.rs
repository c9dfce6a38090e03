//! What becomes of a subscription whose client does not keep up.

use crate::edge::Edge;
use crate::edge::slots::flag;
use crate::edge::subscriptions::{Kind, Member, Stage};
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{PartitionId, ReadMode, Skip};
use crate::notice::LeftOut;
use crate::settings::LagPolicy;
use wire::native::SkipReason;

impl Edge {
    /// The subscription is owed all that the log has after its cursor.
    pub(crate) fn recovers(&mut self, subscription: SubIndex) {
        let entry = &self.subscriptions.table[subscription];
        if entry.policy() != LagPolicy::Replay {
            let connection = entry.connection;
            self.subscriptions.recovering.subscriptions.insert((connection, subscription));
        }
    }

    /// The same for filters, in one partition.
    pub(crate) fn filter_recovers(
        &mut self,
        index: ConnIndex,
        member: u32,
        partition: PartitionId,
    ) {
        if self.filter_policy(index, member) != LagPolicy::Replay {
            self.subscriptions.recovering.partitions.insert((index, member, partition));
        }
    }

    /// All that waited for the connection has been written: whoever is live has its replay.
    pub(crate) fn recovered(&mut self, index: ConnIndex) {
        if !self.subscriptions.recovering.partitions.is_empty() {
            let all = (index, 0, 0)..=(index, u32::MAX, PartitionId::MAX);
            let recovering = self.subscriptions.recovering.partitions.range(all).copied();
            let done: Vec<Member> = recovering.filter(|at| !self.has_cursor(*at)).collect();
            for member in done {
                self.subscriptions.recovering.partitions.remove(&member);
            }
        }
        if self.subscriptions.recovering.subscriptions.is_empty() {
            return;
        }
        let subscriptions = &self.subscriptions.table;
        let done: Vec<(u32, u32)> = self
            .subscriptions
            .recovering
            .subscriptions
            .range((index, 0)..=(index, u32::MAX))
            .copied()
            .filter(|&(_, at)| subscriptions[at].stage == Stage::Live)
            .collect();
        for entry in done {
            self.subscriptions.recovering.subscriptions.remove(&entry);
        }
    }

    /// The subscription goes.
    pub(crate) fn forget_recovery(&mut self, connection: ConnIndex, subscription: SubIndex) {
        if !self.subscriptions.recovering.subscriptions.is_empty() {
            self.subscriptions.recovering.subscriptions.remove(&(connection, subscription));
        }
    }

    /// The same for one to a filter, or for all filters of a stream.
    pub(crate) fn forget_filter_recovery(&mut self, index: ConnIndex, member: u32) {
        let gone: Vec<Member> = self.recovering_of(index, member).collect();
        for member in gone {
            self.subscriptions.recovering.partitions.remove(&member);
        }
    }

    fn recovering_of(&self, index: ConnIndex, member: u32) -> impl Iterator<Item = Member> {
        let all = (index, member, 0)..=(index, member, PartitionId::MAX);
        self.subscriptions.recovering.partitions.range(all).copied()
    }

    /// What becomes of a subscription to a filter, or of a stream's filters together.
    fn filter_policy(&self, index: ConnIndex, member: u32) -> LagPolicy {
        let filters = self.filters_of(index, member, Stage::Wide);
        let mut policies = filters.iter().map(|at| self.subscriptions.table[*at].policy());
        let first = policies.next().unwrap_or_default();
        match policies.all(|policy| policy == first) {
            true => first,
            false => LagPolicy::Replay,
        }
    }

    /// What the next page of a partition is to bring.
    pub(crate) fn filter_read_mode(
        &self,
        index: ConnIndex,
        member: u32,
        partition: PartitionId,
    ) -> ReadMode {
        let at = (index, member, partition);
        match self.filter_policy(index, member) {
            LagPolicy::Conflate if !self.subscriptions.recovering.partitions.contains(&at) => {
                ReadMode::Newest
            }
            LagPolicy::Drop if !self.subscriptions.recovering.partitions.contains(&at) => {
                ReadMode::Skip
            }
            _ => ReadMode::Replay,
        }
    }

    /// One that is behind, has no replay to finish and is to end for it.
    pub(crate) fn ends_by_policy(&self, index: ConnIndex, member: u32) -> Option<u32> {
        let ends = self.filter_policy(index, member) == LagPolicy::Disconnect
            && self.recovering_of(index, member).next().is_none();
        let filters = self.filters_of(index, member, Stage::Wide);
        filters.last().copied().filter(|_| ends)
    }

    /// A page for filters has left something out.
    pub(crate) fn leave_out_of_filter(
        &mut self,
        subscription: SubIndex,
        partition: PartitionId,
        Skip { from, through }: Skip,
    ) {
        let reason = self.count_left_out(subscription);
        let left_out = LeftOut { from, through, reason };
        self.tell_filter_left_out(subscription, partition, left_out);
    }

    /// Its policy, and whether it is to be refused rather than to begin behind a gap.
    pub(crate) fn subscription_terms(&self, subscription: SubIndex) -> (LagPolicy, bool) {
        let terms = &self.subscriptions.table[subscription].terms;
        let fails_on_gap = matches!(terms.kind(), Kind::PlainWithoutGap | Kind::FilterWithoutGap);
        (terms.policy(), fails_on_gap)
    }

    /// What holds for a plain subscription that is to be read from the log.
    pub(crate) fn policy_now(&self, subscription: SubIndex) -> LagPolicy {
        let entry = &self.subscriptions.table[subscription];
        let recovers = || {
            self.subscriptions.recovering.subscriptions.contains(&(entry.connection, subscription))
        };
        match entry.policy() {
            LagPolicy::Replay => LagPolicy::Replay,
            _ if recovers() => LagPolicy::Replay,
            policy => policy,
        }
    }

    /// What its next page is to bring.
    pub(crate) fn read_mode(&self, subscription: SubIndex) -> ReadMode {
        match self.policy_now(subscription) {
            LagPolicy::Conflate => ReadMode::Newest,
            LagPolicy::Drop => ReadMode::Skip,
            LagPolicy::Replay | LagPolicy::Disconnect => ReadMode::Replay,
        }
    }

    /// A page says that it has left out what lies between.
    pub(crate) fn leave_out(&mut self, subscription: SubIndex, from: u64, through: u64) {
        let reason = self.count_left_out(subscription);
        let left_out = LeftOut { from, through, reason };
        self.tell_left_out(subscription, left_out);
    }

    fn count_left_out(&mut self, subscription: SubIndex) -> SkipReason {
        match self.subscriptions.table[subscription].policy() {
            LagPolicy::Conflate => {
                self.statistics.conflated += 1;
                SkipReason::Conflated
            }
            _ => {
                self.statistics.dropped += 1;
                SkipReason::Dropped
            }
        }
    }

    /// Ends a subscription that did not keep up, to be begun again from what the client has. False
    /// if its connection ends with it.
    ///
    /// Until the socket has drained it costs what every lagging subscription costs, an entry; then
    /// nobody has to keep for a stalled client what it must be told.
    pub(crate) fn disconnect_slow(&mut self, subscription: SubIndex) -> bool {
        let index = self.subscriptions.table[subscription].connection;
        self.statistics.disconnected += 1;
        self.tell_disconnected(subscription);
        if self.connections.slots[index].is(flag::CLOSING) {
            return false;
        }
        self.unsubscribe(subscription);
        true
    }
}
