//! Subscriptions to filters that catch up are read from the log, partition by partition.

use crate::edge::Edge;
use crate::edge::delivery::Delivery;
use crate::edge::excess::Excess;
use crate::edge::outbox::Origin;
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{FilterPage, PartitionId, ToHome};
use crate::protocol::flag;
use std::collections::BTreeSet;
use std::ops::Bound;
use stdx::chunk::Slice;

impl Edge {
    /// Whether a subscription to a filter is read from the log in a partition.
    #[inline]
    pub(crate) fn is_catching_up(&self, subscription: SubIndex, partition: PartitionId) -> bool {
        let index = self.subscriptions[subscription].connection;
        self.connections.slots[index].is(flag::CATCHING_UP)
            && self.subscriptions.is_catching_up(subscription, partition)
    }

    /// Whether some subscription to a filter of the connection is, or may be.
    pub(crate) fn has_catching_up(&self, index: ConnIndex, partition: PartitionId) -> bool {
        self.connections.slots[index].is(flag::CATCHING_UP)
            && self.subscriptions.may_be_catching_up(index, partition)
    }

    /// Ends a connection that has no room for another cursor; nothing more is kept for it.
    pub(crate) fn end_without_room(&mut self, index: ConnIndex, result: Result<(), Excess>) {
        if let Err(excess) = result {
            self.end_slow(index, excess);
        }
    }

    /// From here on a subscription is read from the log in a partition, after `after` or earlier,
    /// once the socket has drained.
    pub(crate) fn lag_filter(
        &mut self,
        subscription: SubIndex,
        partition: PartitionId,
        after: u64,
    ) {
        let index = self.subscriptions[subscription].connection;
        let slot = &mut self.connections.slots[index];
        let (after, is_new, result) =
            self.subscriptions.lag_filter(subscription, partition, after, slot, &self.settings);
        self.statistics.lagging += u64::from(is_new);
        self.end_without_room(index, result);
        self.connections.slots[index].set(flag::LAGGING);
        self.stream_filters_at(index, partition, after);
    }

    /// Asks for pages for subscriptions to filters, a few at a time of each log. True if some are
    /// left to be asked for; none if a home has no room for some.
    pub(crate) fn read_catch_up(&mut self, index: ConnIndex) -> Option<bool> {
        if !self.connections.slots[index].is(flag::CATCHING_UP) {
            return Some(false);
        }
        let mut is_left = false;
        let mut without_room = BTreeSet::new();
        for log in 0..self.settings.logs.len() as u16 {
            is_left |= self.read_catch_up_of_log(index, log, &mut without_room)?;
        }
        for partition in &without_room {
            self.wait_to_read(*partition, index);
        }
        without_room.is_empty().then_some(is_left)
    }

    /// Asks for pages of one log. True if some are left to be asked for; none if the connection
    /// ends.
    fn read_catch_up_of_log(
        &mut self,
        index: ConnIndex,
        log: u16,
        without_room: &mut BTreeSet<PartitionId>,
    ) -> Option<bool> {
        let mut from = Bound::Unbounded;
        let records_max = self.records_max_of(index);
        if records_max == 0 {
            return Some(true); // an acknowledgement makes room
        }
        while let Some(turn) = self.subscriptions.next_to_read(index, log, from) {
            let (reader, is_paid, partition) = turn;
            let slot = &mut self.connections.slots[index];
            if let Some(subscription) = self.subscriptions.ends_by_policy((index, reader), slot) {
                if !self.disconnect_slow(subscription) {
                    return None;
                }
            } else if self.subscriptions.has_all_filter_reads(index, log) {
                return Some(true);
            } else if is_paid && self.subscriptions.is_without_credit((index, reader)) {
                from = Bound::Excluded((reader, true, PartitionId::MAX));
            } else if !self.may_read(partition) {
                without_room.insert(partition);
                from = Bound::Excluded(turn);
            } else {
                let slot = &mut self.connections.slots[index];
                let read = self.subscriptions.read_filter(
                    (index, reader),
                    partition,
                    records_max,
                    slot,
                    &self.settings,
                );
                if let Some((home, read)) = read {
                    self.request(home, ToHome::ReadFilter(read));
                }
            }
        }
        Some(false)
    }

    /// A page has come: deliver it; continue when it has left, or live from here.
    pub(crate) fn filter_page(&mut self, page: &FilterPage) {
        let Some(subscription) = self.subscriptions.find(page.subscription) else {
            return;
        };
        let index = self.subscriptions[subscription].connection;
        let partition = page.partition;
        // Its cursor is set before its frames are queued: if the outbox has no room for them, it
        // goes back.
        let slot = &mut self.connections.slots[index];
        let taken = self.subscriptions.take_filter_page(subscription, page, slot, &self.settings);
        let Some(taken) = taken else {
            return;
        };
        self.statistics.pages += 1;
        if page.caught_up {
            // Live messages of the partition follow the page.
            self.mqtt.advance(partition, page.through);
        }
        if let Some(gap) = page.gap {
            self.statistics.gaps += 1;
            self.notify_filter_gap(subscription, partition, gap);
        }
        let mut skipped = page.skipped.iter().peekable();
        let mut records = page.records.iter().peekable();
        // In log order, as long as there is room for it.
        while self.subscriptions.cursor_of(taken.reader, partition) == taken.rest.as_ref() {
            let next = records.peek().and_then(|(_, record)| Delivery::of_page(record));
            let before = next.map_or(u64::MAX, |next| next.view.offset());
            if let Some(&skip) = skipped.next_if(|skip| skip.through < before) {
                self.leave_out_of_filter(subscription, partition, skip);
            } else if let Some((topic, record)) = records.next() {
                self.deliver_replayed(subscription, partition, topic, record, taken.is_paid);
            } else {
                break;
            }
        }
        let cursor = self.subscriptions.cursor_of(taken.reader, partition);
        if page.caught_up && cursor.is_none() {
            self.subscriptions.end_filter_replay(taken.reader);
            self.notify_filter_caught_up(subscription, partition, page.through);
            self.end_caught_up(subscription);
        }
        let slot = &mut self.connections.slots[index];
        if slot.is(flag::CATCHING_UP) {
            slot.set(flag::LAGGING);
        }
        self.mark_dirty(index);
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
            self.subscriptions.use_credit(subscription);
        }
        let before = self.statistics.delivered;
        let topic = std::str::from_utf8(topic).unwrap_or_default();
        self.deliver_addressed(subscription, topic, partition, &delivery, is_paid);
        self.statistics.replayed += self.statistics.delivered - before;
    }

    /// The origin of a frame for one subscription to filters. A stream has them all as one.
    pub(crate) fn origin_of(
        &self,
        subscription: SubIndex,
        partition: PartitionId,
        after: u64,
        is_paid: bool,
    ) -> Origin {
        let subscription = self.subscriptions.key(subscription);
        Origin::Addressed { subscription, partition, after, is_paid }
    }
}
