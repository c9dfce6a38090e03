//! Subscriptions to filters that are behind are read from the log, partition by partition.

use crate::edge::Edge;
use crate::edge::delivery::Delivery;
use crate::edge::outbox::{Excess, Origin};
use crate::edge::slots::{Protocol, flag};
use crate::edge::subscriptions::{Cursor, Member, STREAM, Stage};
use crate::ids::{ConnIndex, NONE, SubIndex};
use crate::mail::{FilterPage, PageLimits, PartitionId, ReadFilter, ToHome};
use std::collections::BTreeSet;
use std::ops::Bound;
use stdx::chunk::Slice;

/// Members of one connection that are looked at to know whether one is behind in a partition; more
/// count as yes.
const MEMBERS_LOOKED_AT_MAX: usize = 8;

impl Edge {
    /// Whether a subscription to a filter is read from the log in a partition.
    pub(crate) fn is_behind(&self, subscription: SubIndex, partition: PartitionId) -> bool {
        let index = self.subscriptions.table[subscription].connection;
        if !self.connections.slots[index].is(flag::BEHIND) {
            return false;
        }
        let (index, member) = self.member_of(subscription);
        self.subscriptions.behind.cursors.contains_key(&(index, member, partition))
    }

    /// Where a subscription to a filter is read from the log, by partition, ascending.
    pub(crate) fn behind_of(&self, subscription: SubIndex) -> Vec<(PartitionId, u64)> {
        let (index, member) = self.member_of(subscription);
        self.subscriptions
            .behind
            .cursors
            .range((index, member, 0)..=(index, member, PartitionId::MAX))
            .map(|(&(_, _, partition), cursor)| (partition, cursor.after))
            .collect()
    }

    /// Whether some subscription to a filter of the connection is, or may be.
    pub(crate) fn has_behind(&self, index: ConnIndex, partition: PartitionId) -> bool {
        if !self.connections.slots[index].is(flag::BEHIND) {
            return false;
        }
        let mut from = (index, 0, 0);
        for _ in 0..MEMBERS_LOOKED_AT_MAX {
            let Some((&(_, member, _), _)) = self
                .subscriptions
                .behind
                .cursors
                .range(from..=(index, NONE, PartitionId::MAX))
                .next()
            else {
                return false;
            };
            if self.subscriptions.behind.cursors.contains_key(&(index, member, partition)) {
                return true;
            }
            let Some(next) = member.checked_add(1) else {
                return false;
            };
            from = (index, next, 0);
        }
        true
    }

    /// From here on a subscription is read from the log in a partition, after `after` or earlier,
    /// once the socket has drained.
    pub(crate) fn lag_filter(
        &mut self,
        subscription: SubIndex,
        partition: PartitionId,
        after: u64,
    ) {
        let (index, member) = self.member_of(subscription);
        let before = self.subscriptions.behind.cursors.get(&(index, member, partition)).copied();
        let cursor = match before {
            Some(before) if before.after <= after => before,
            _ => Cursor {
                after,
                is_reading: false,
                is_paid: before.is_some_and(|before| before.is_paid),
            },
        };
        self.statistics.lagging += u64::from(before.is_none());
        self.put(index, member, partition, Some(cursor));
        self.connections.slots[index].set(flag::LAGGING);
        self.stream_filters_at(index, partition, cursor.after);
    }

    /// The connection's subscriptions to filters that are open, with the number of the last frame
    /// before.
    pub(crate) fn open_filters(&self, index: ConnIndex) -> Vec<(u64, u32)> {
        let mut open: Vec<(u64, u32)> = self
            .chain(index)
            .filter(|&at| self.subscriptions.table[at].stage == Stage::Wide)
            .map(|at| (self.subscriptions.table[at].cursor(), at))
            .collect();
        open.sort_unstable();
        open
    }

    /// Asks for pages for subscriptions to filters, a few at a time of each log. True if some are
    /// left to be asked for; none if a home has no room for some.
    pub(crate) fn read_behind(&mut self, index: ConnIndex) -> Option<bool> {
        if !self.connections.slots[index].is(flag::BEHIND) {
            return Some(false);
        }
        let mut is_left = false;
        let mut without_room = BTreeSet::new();
        for log in 0..self.settings.logs.len() as u16 {
            let mut from = Bound::Unbounded;
            while let Some(turn) = self.subscriptions.behind.reads.next(index, log, from) {
                let (member, is_paid, partition) = turn;
                if let Some(subscription) = self.ends_by_policy(index, member) {
                    if !self.disconnect_slow(subscription) {
                        return None;
                    }
                } else if self.subscriptions.behind.reads.is_full(index, log) {
                    is_left = true;
                    break;
                } else if is_paid && self.is_without_credit(index, member) {
                    from = Bound::Excluded((member, true, PartitionId::MAX));
                } else if !self.may_read(partition) {
                    without_room.insert(partition);
                    from = Bound::Excluded(turn);
                } else {
                    self.read_filter(index, member, partition);
                }
            }
        }
        for partition in &without_room {
            self.wait_to_read(*partition, index);
        }
        without_room.is_empty().then_some(is_left)
    }

    /// Whether the replay that a member asked for has to wait. It has one page on its way, so that
    /// its credit is kept to.
    fn is_without_credit(&self, index: ConnIndex, member: u32) -> bool {
        let all = (index, member, 0)..=(index, member, PartitionId::MAX);
        let mut cursors = self.subscriptions.behind.cursors.range(all);
        self.replay_credit(member).is_some_and(|credit| {
            credit == 0 || cursors.any(|(_, cursor)| cursor.is_paid && cursor.is_reading)
        })
    }

    fn read_filter(&mut self, index: ConnIndex, member: u32, partition: PartitionId) {
        let Some(&cursor) = self.subscriptions.behind.cursors.get(&(index, member, partition))
        else {
            debug_assert!(false, "only cursors wait");
            return;
        };
        let home = self.settings.home_of(partition);
        let readers = self.filters_of(index, member, Stage::Wide);
        let Some(&first) = readers.first() else {
            debug_assert!(false, "who is behind is open");
            self.put(index, member, partition, None);
            return;
        };
        let filters = readers
            .iter()
            .filter_map(|&at| {
                self.subscriptions.filter_entries.get(self.subscriptions.table[at].topic)
            })
            .map(|filter| filter.name.clone())
            .collect();
        let limits = &self.settings.limits;
        let credit = self.replay_credit(member).filter(|_| cursor.is_paid);
        let limits = PageLimits {
            records_max: limits.page_records_max.min(credit.unwrap_or(u32::MAX)),
            bytes_max: limits.page_bytes,
        };
        let after = cursor.after;
        let mode = self.filter_read_mode(index, member, partition);
        let reading = Cursor { is_reading: true, ..cursor };
        self.put(index, member, partition, Some(reading));
        let subscription = self.subscription_key(first);
        self.request(
            home,
            ToHome::ReadFilter(ReadFilter {
                partition,
                filters,
                subscription,
                after,
                mode,
                limits,
            }),
        );
    }

    /// A page has come: deliver it; go on when it has left, or live from here.
    pub(crate) fn filter_page(&mut self, page: &FilterPage) {
        let Some(subscription) = self.live_subscription(page.subscription) else {
            return;
        };
        let (index, member) = self.member_of(subscription);
        let partition = page.partition;
        let at = (index, member, partition);
        let asked = self.subscriptions.behind.cursors.get(&at).copied();
        let Some(asked) = asked.filter(|asked| asked.is_reading && asked.after == page.after)
        else {
            return;
        };
        self.statistics.pages += 1;
        // Set before its frames are queued: if the outbox has no room for them, it goes back.
        let rest = (!page.caught_up).then_some(Cursor {
            after: page.through,
            is_reading: false,
            is_paid: asked.is_paid,
        });
        self.put(index, member, partition, rest);
        if let Some(gap) = page.gap {
            self.statistics.gaps += 1;
            self.tell_filter_gap(subscription, partition, gap);
        }
        let mut skipped = page.skipped.iter().peekable();
        let mut records = page.records.iter().peekable();
        // In log order, as long as there is room for it.
        while self.subscriptions.behind.cursors.get(&at) == rest.as_ref() {
            let next = records.peek().and_then(|(_, record)| Delivery::of_page(record));
            let before = next.map_or(u64::MAX, |next| next.view.offset());
            if let Some(&skip) = skipped.next_if(|skip| skip.through < before) {
                self.leave_out_of_filter(subscription, partition, skip);
            } else if let Some((topic, record)) = records.next() {
                self.deliver_replayed(subscription, partition, topic, record, asked.is_paid);
            } else {
                break;
            }
        }
        if page.caught_up && !self.subscriptions.behind.cursors.contains_key(&at) {
            let all = (index, member, 0)..=(index, member, PartitionId::MAX);
            let mut others = self.subscriptions.behind.cursors.range(all);
            if !others.any(|(_, cursor)| cursor.is_paid) {
                self.forget_replay_credit(member);
            }
            self.tell_filter_caught_up(subscription, partition, page.through);
        }
        if self.connections.slots[index].is(flag::BEHIND) {
            self.connections.slots[index].set(flag::LAGGING);
        }
        self.touch(index);
    }

    fn deliver_replayed(
        &mut self,
        subscription: SubIndex,
        partition: PartitionId,
        topic: &Slice,
        record: &Slice,
        is_paid: bool,
    ) {
        let Some(delivery) = Delivery::of_page(record) else {
            return;
        };
        if is_paid {
            self.use_replay_credit(subscription);
        }
        self.statistics.replayed += 1;
        let topic = std::str::from_utf8(topic).unwrap_or_default();
        self.deliver_addressed(subscription, topic, partition, &delivery, is_paid);
    }

    /// Whether the subscription has to be read again from this place or from before it.
    pub(crate) fn is_behind_at(
        &self,
        subscription: SubIndex,
        partition: PartitionId,
        after: u64,
    ) -> bool {
        let (index, member) = self.member_of(subscription);
        let cursor = self.subscriptions.behind.cursors.get(&(index, member, partition));
        cursor.is_some_and(|cursor| cursor.after <= after)
    }

    /// Of a frame for one subscription to filters. A stream has them all as one.
    pub(crate) fn origin_of(
        &self,
        subscription: SubIndex,
        partition: PartitionId,
        after: u64,
        is_paid: bool,
    ) -> Origin {
        Origin::Addressed {
            subscription: self.subscription_key(subscription),
            partition,
            after,
            is_paid,
        }
    }

    /// Whether any filter of an event stream is read from the log.
    pub(crate) fn is_stream_behind(&self, index: ConnIndex) -> bool {
        self.cursors_of(index, STREAM).next().is_some()
    }

    /// A subscription to a filter has gone.
    pub(crate) fn forget_behind(&mut self, index: ConnIndex, subscription: SubIndex) {
        if self.connections.slots[index].protocol == Protocol::Events {
            if let Some(opening) = self.subscriptions.behind.opening.get_mut(&(index, STREAM)) {
                opening.waiting.retain(|(asked, _)| *asked != subscription);
            }
            return;
        }
        self.forget_filter_recovery(index, subscription);
        self.subscriptions.behind.opening.remove(&(index, subscription));
        let gone: Vec<PartitionId> = self.cursors_of(index, subscription).collect();
        for partition in gone {
            self.put(index, subscription, partition, None);
        }
    }

    /// A connection has no subscriptions any more.
    pub(crate) fn forget_all_behind(&mut self, index: ConnIndex) {
        self.forget_filter_recovery(index, STREAM);
        self.subscriptions.behind.opening.remove(&(index, STREAM));
        let gone: Vec<PartitionId> = self.cursors_of(index, STREAM).collect();
        for partition in gone {
            self.put(index, STREAM, partition, None);
        }
    }

    /// Whether a member is read from the log in a partition.
    pub(crate) fn has_cursor(&self, (index, member, partition): Member) -> bool {
        self.subscriptions.behind.cursors.contains_key(&(index, member, partition))
    }

    fn cursors_of(&self, index: ConnIndex, member: u32) -> impl Iterator<Item = PartitionId> {
        let all = (index, member, 0)..=(index, member, PartitionId::MAX);
        self.subscriptions.behind.cursors.range(all).map(|(at, _)| at.2)
    }

    /// Sets or takes away where a member is read from in a partition.
    pub(crate) fn put(
        &mut self,
        index: ConnIndex,
        member: u32,
        partition: PartitionId,
        cursor: Option<Cursor>,
    ) {
        let at = (index, member, partition);
        let is_new = cursor.is_some() && !self.subscriptions.behind.cursors.contains_key(&at);
        if is_new && !self.may_hold_another(index) {
            return;
        }
        let before = match cursor {
            Some(cursor) => self.subscriptions.behind.cursors.insert(at, cursor),
            None => self.subscriptions.behind.cursors.remove(&at),
        };
        if cursor.is_none() && before.is_some() {
            self.subscriptions.behind.held.let_go(index);
        }
        let log = self.settings.log_number(partition);
        self.subscriptions.behind.reads.change(at, log, before, cursor);
        let mut all = self
            .subscriptions
            .behind
            .cursors
            .range((index, 0, 0)..=(index, NONE, PartitionId::MAX));
        match cursor.is_some() || all.next().is_some() {
            true => self.connections.slots[index].set(flag::BEHIND),
            false => self.connections.slots[index].clear(flag::BEHIND),
        }
    }

    /// The subscriptions that a member stands for, in one stage.
    pub(crate) fn filters_of(&self, index: ConnIndex, member: u32, stage: Stage) -> Vec<u32> {
        let is_wanted = |at: &u32| {
            let entry = &self.subscriptions.table[*at];
            entry.is_filter() && entry.stage == stage
        };
        match member {
            STREAM => self.chain(index).filter(is_wanted).collect(),
            member => Some(member).filter(is_wanted).into_iter().collect(),
        }
    }

    /// The connection, and by what its cursors are found.
    pub(crate) fn member_of(&self, subscription: SubIndex) -> (u32, u32) {
        let index = self.subscriptions.table[subscription].connection;
        match self.connections.slots[index].protocol {
            Protocol::Events => (index, STREAM),
            _ => (index, subscription),
        }
    }

    /// Takes another cursor into account. Without room for it the connection ends, and nothing more
    /// is kept for it.
    pub(crate) fn may_hold_another(&mut self, index: ConnIndex) -> bool {
        let is_dead = self.connections.slots[index].is(flag::DEAD);
        let (held, limits) = (&self.subscriptions.behind.held, &self.settings.limits);
        if is_dead || !held.have_room(index, 1, limits) {
            let excess = match held.have_own_room(index, 1, limits) {
                true => Excess::Shared,
                false => Excess::Own,
            };
            self.end_slow(index, excess);
            return false;
        }
        self.subscriptions.behind.held.hold(index);
        true
    }
}
