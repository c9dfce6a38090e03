//! Dropped frames: what each means for the subscriptions of its connection.
//!
//! Beside the path. The ring drops its oldest frames, and a blocked connection may hold
//! `outbox_len_max` frames. Invariants: an answer is never dropped, it becomes owned; a message
//! that is dropped makes its subscription lagging, so that the log brings it again when the socket
//! has drained.

use crate::edge::Edge;
use crate::edge::outbox::{FrameNumber, Origin};
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::PartitionId;
use crate::protocol::flag;
use crate::session::mqtt::options::Options;
use std::collections::BTreeMap;
use stdx::blocks::List;
use stdx::chunk::Slice;

/// The frames of one outbox that were given up so far.
struct Spill {
    index: ConnIndex,
    /// Places before it are given up; all of them without one.
    limit: Option<FrameNumber>,
    /// Events of a composite stream carry the cursors of all its topics: once one is left out, none
    /// after it may go.
    is_composite: bool,
    is_broken: bool,
    /// The number of the last message for filters that was dropped, for each partition.
    dropped: BTreeMap<PartitionId, u64>,
    /// The connection's open subscriptions to filters, once they are needed.
    open_filters: Option<Vec<(u64, SubIndex)>>,
}

impl Edge {
    /// The ring is about to drop everything before `limit`.
    pub(crate) fn evict_before(&mut self, limit: FrameNumber) {
        for index in self.outboxes.take_holders() {
            if self.connections.slots[index].is(flag::HOLDS) {
                self.spill(index, Some(limit));
                self.outboxes.hold_on(&mut self.connections.slots, index);
            }
        }
        // Connections that were not flushed yet in this turn hold places as well.
        for at in 0..self.outboxes.dirty().len() {
            let index = self.outboxes.dirty()[at];
            if !self.connections.slots[index].is(flag::HOLDS) {
                self.spill(index, Some(limit));
            }
        }
    }

    /// Gives up the places before `limit` (all of them without one): answers become owned, messages
    /// make their subscriptions lagging, those to filters in the partition.
    pub(crate) fn spill(&mut self, index: ConnIndex, limit: Option<FrameNumber>) {
        let mut list = self.outboxes.take_frames(&mut self.connections.slots, index);
        let mut kept = List::new();
        let slot = &self.connections.slots[index];
        let mut spill = Spill {
            index,
            limit,
            is_composite: slot.facts().has_one_cursor && !slot.is(flag::RAW),
            is_broken: false,
            dropped: BTreeMap::new(),
            open_filters: None,
        };
        while let Some(place) = self.outboxes.pop(&mut list) {
            if self.keeps_place(&mut spill, place) {
                self.outboxes.append(&mut kept, place);
            }
        }
        self.outboxes.put_frames(&mut self.connections.slots[index], kept);
    }

    /// Whether a place stays in the outbox; settles the subscriptions of one that is given up.
    fn keeps_place(&mut self, spill: &mut Spill, place: FrameNumber) -> bool {
        let origin = self.outboxes.origin(place);
        let is_old = spill.limit.is_none_or(|limit| self.outboxes.is_before(place, limit));
        let drop = is_old || (spill.is_broken && origin != Origin::Private);
        match origin {
            Origin::Private if drop => {
                self.own(spill.index, self.outboxes.copy_of(place));
                false
            }
            Origin::Private => true,
            Origin::Told => {
                let keep = !drop && spill.dropped.is_empty();
                if !keep {
                    self.connections.slots[spill.index].set(flag::OWED);
                }
                keep
            }
            Origin::Plain { home, index: topic, prev, offset } => {
                let slot = &self.connections.slots[spill.index];
                match self.subscriptions.find_plain(spill.index, slot, home, topic) {
                    Some(subscription) => {
                        self.keeps_plain(spill, drop, subscription, (prev, offset))
                    }
                    // The subscription has ended: all of its other frames go too, so that no hole
                    // shows.
                    None => {
                        spill.is_broken |= spill.is_composite;
                        false
                    }
                }
            }
            Origin::ByFilter { partition, after, serial } => {
                let drop = drop || spill.dropped.contains_key(&partition);
                if drop {
                    self.drop_shared(spill, partition, after, serial);
                }
                !drop
            }
            Origin::Addressed { subscription, partition, after, is_paid } => {
                let drop = drop || spill.dropped.contains_key(&partition);
                if drop {
                    spill.dropped.entry(partition).or_default();
                    spill.is_broken |= spill.is_composite;
                    // A subscription that has ended goes to the frame that reports its end, or ends
                    // here.
                    if let Some(subscription) = self.subscriptions.find(subscription) {
                        self.lag_filter(subscription, partition, after);
                        if is_paid {
                            self.subscriptions.refund_credit(subscription);
                        }
                    }
                }
                !drop
            }
        }
    }

    /// Whether a message of a plain subscription stays.
    fn keeps_plain(
        &mut self,
        spill: &mut Spill,
        drop: bool,
        subscription: SubIndex,
        (prev, offset): (u64, u64),
    ) -> bool {
        let lag_from = self.subscriptions[subscription].lag_from();
        if drop && offset <= lag_from {
            self.lag(subscription, prev);
            spill.is_broken = spill.is_composite;
        }
        if drop || offset > lag_from {
            self.subscriptions.refund_credit(subscription);
        }
        !drop && offset <= lag_from
    }

    /// Drops a message for all filters that cover its topic: filters that were open for it lag.
    fn drop_shared(&mut self, spill: &mut Spill, partition: PartitionId, after: u64, serial: u64) {
        let before = spill.dropped.insert(partition, serial).unwrap_or(0);
        let slot = &self.connections.slots[spill.index];
        let all = spill.open_filters.get_or_insert_with(|| self.subscriptions.open_filters(slot));
        // A subscription that was open before has gone back further already.
        let from = all.partition_point(|(opened, _)| *opened < before);
        let to = all.partition_point(|(opened, _)| *opened < serial);
        let is_mqtt = self.connections.slots[spill.index].facts().is_mqtt;
        for (_, subscription) in &all[from..to] {
            // The message was not one of those with identifiers, and they have stayed.
            if is_mqtt && Options::of(self.subscriptions[*subscription].client).qos > 0 {
                continue;
            }
            self.lag_filter(*subscription, partition, after);
        }
    }

    /// Has a connection own a frame. A connection for which that is too much ends.
    fn own(&mut self, index: ConnIndex, frame: [Slice; 2]) {
        let slot = &mut self.connections.slots[index];
        if let Some(excess) = self.outboxes.own(slot, frame, &self.settings.limits) {
            self.end_slow(index, excess);
        }
    }

    /// From here on the subscription is read from the log, after `prev`, once the socket has
    /// drained.
    fn lag(&mut self, subscription: SubIndex, prev: u64) {
        let was_live = self.subscriptions.lag(subscription, prev, &self.settings);
        self.statistics.lagging += u64::from(was_live);
        let index = self.subscriptions[subscription].connection;
        self.connections.slots[index].set(flag::LAGGING);
        self.stream_at(index, subscription, prev);
    }
}
