//! Dropped frames: what each means for the subscriptions of its connection.
//!
//! Beside the path. The ring forgets its oldest frames, and a blocked connection may hold
//! `outbox_len_max` frames. Invariants: an answer is never dropped, it becomes owned; a message
//! that is dropped makes its subscription lagging, so that the log brings it again when the socket
//! has drained.

use crate::edge::Edge;
use crate::edge::outbox::{Origin, Place};
use crate::edge::slots::{Protocol, flag};
use crate::edge::subscriptions::Stage;
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::PartitionId;
use std::collections::BTreeMap;
use stdx::blocks::List;
use stdx::chunk::Slice;

impl Edge {
    /// The ring is about to forget everything before `limit`.
    pub(crate) fn evict_before(&mut self, limit: Place) {
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
    pub(crate) fn spill(&mut self, index: ConnIndex, limit: Option<Place>) {
        let mut list = self.outboxes.take_places(&mut self.connections.slots, index);
        let mut kept = List::new();
        // Events of a composite stream carry the cursors of all its topics: once one is left out,
        // none after it may go.
        let is_composite = self.connections.slots[index].protocol == Protocol::Events
            && !self.connections.slots[index].is(flag::RAW);
        let mut broken = false;
        // Of partitions from which something for filters was dropped, the number of the last such
        // message.
        let mut dropped: BTreeMap<PartitionId, u64> = BTreeMap::new();
        let mut filters = None;
        while let Some(place) = self.outboxes.pop(&mut list) {
            let old = limit.is_none_or(|limit| self.outboxes.is_before(place, limit));
            let drop = old || (broken && self.outboxes.origin(place) != Origin::Private);
            let keep = match self.outboxes.origin(place) {
                Origin::Private if drop => {
                    self.own(index, self.outboxes.copy_of(place));
                    false
                }
                Origin::Private => true,
                Origin::Told => {
                    let keep = !drop && dropped.is_empty();
                    if !keep {
                        self.connections.slots[index].set(flag::OWED);
                    }
                    keep
                }
                Origin::Plain { home, index: topic, prev, offset } => {
                    match self.find_plain(index, home, topic) {
                        // It has ended: of what is left of it, all goes, so that no hole shows.
                        None => {
                            broken |= is_composite;
                            false
                        }
                        Some(subscription) => {
                            let lag_from = self.subscriptions.table[subscription].lag_from();
                            if drop && offset <= lag_from {
                                self.lag(subscription, prev);
                                broken = is_composite;
                            }
                            if drop || offset > lag_from {
                                self.refund_replay_credit(subscription);
                            }
                            !drop && offset <= lag_from
                        }
                    }
                }
                Origin::Named { partition, after, serial } => {
                    let drop = drop || dropped.contains_key(&partition);
                    if drop {
                        let before = dropped.insert(partition, serial).unwrap_or(0);
                        let all = filters.get_or_insert_with(|| self.open_filters(index));
                        // Who was open before has gone back further already.
                        let from = all.partition_point(|(opened, _)| *opened < before);
                        let to = all.partition_point(|(opened, _)| *opened < serial);
                        for (_, subscription) in &all[from..to] {
                            self.lag_filter(*subscription, partition, after);
                        }
                    }
                    !drop
                }
                Origin::Addressed { subscription, partition, after, is_paid } => {
                    let drop = drop || dropped.contains_key(&partition);
                    if drop {
                        dropped.entry(partition).or_default();
                        broken |= is_composite;
                        // One that has ended goes on to the frame that says so, or ends here.
                        if let Some(subscription) = self.live_subscription(subscription) {
                            self.lag_filter(subscription, partition, after);
                            if is_paid {
                                self.refund_replay_credit(subscription);
                            }
                        }
                    }
                    !drop
                }
            };
            if keep {
                self.outboxes.append(&mut kept, place);
            }
        }
        self.outboxes.put_places(&mut self.connections.slots[index], kept);
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
        match self.subscriptions.table[subscription].stage {
            Stage::Live => self.statistics.lagging += 1,
            // What is on its way answers another question.
            Stage::Reading => self.renew_key(subscription),
            _ => {}
        }
        self.set_lagging(subscription);
        let entry = &mut self.subscriptions.table[subscription];
        entry.set_cursor(prev);
        let connection = entry.connection;
        self.connections.slots[connection].set(flag::LAGGING);
        self.stream_at(connection, subscription, prev);
    }
}
