//! Outboxes: what waits for one socket, as places in the ring, and what becomes of it when the socket does not drain.
//!
//! Steps 9 and 10 of the path. Invariants: owned bytes go before places; only a frame begun on the wire and answers
//! that the ring could not keep are owned, within `outbox_bytes_max` and `pinned_bytes_max`; a message that the ring
//! can not keep makes its subscription lagging, to be read again from the log when the socket has drained.

use super::Edge;
use super::ends::End;
use super::ring::{BODY_COPY_MAX, Origin, Place};
use super::slots::{NONE, Protocol, flag};
use super::subscriptions::Stage;
use crate::mail::PartitionId;
use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use stdx::blocks::List;
use stdx::chunk::Slice;
use stdx::handing::Hand;
use stdx::key::Key;

/// What became of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// So many bytes were taken; fewer than offered means that the socket is full.
    Bytes(usize),
    /// None were taken; the socket is full.
    Blocked,
    /// The connection is lost.
    Failed,
}

/// Bytes that a blocked connection owns: the rest of a frame begun on the wire, if there is one, and then whole frames.
#[derive(Default, Hand)]
pub(crate) struct Owned {
    pub(super) parts: VecDeque<Part>,
    pub(super) bytes: usize,
}

/// A part of a frame.
#[derive(Clone, Hand)]
pub(crate) struct Part {
    pub(super) bytes: Slice,
    pub(super) ends_frame: bool,
}

/// Parts of one vectored write.
const PARTS_MAX: usize = 64;

impl Edge {
    /// Queues an answer for one connection.
    pub(crate) fn send_private(&mut self, index: u32, bytes: &[u8]) {
        let place = self.enter_bytes(&[bytes], Origin::Private);
        self.push_place(index, place);
    }

    /// Queues what says that a plain subscription is settled after `prev` up to `offset`. Like a message it gives way when messages
    /// before it had to go: the pages that bring those again say it anew. An answer that stayed would settle what has
    /// not been sent.
    pub(crate) fn send_mark(&mut self, subscription: u32, prev: u64, offset: u64, parts: &[&[u8]]) {
        let index = self.subscription_connection(subscription);
        let (home, topic) = self.subscription_topic(subscription);
        let origin = Origin::Plain { home, index: topic, prev, offset };
        let place = self.enter_bytes(parts, origin);
        if self.takes_through(subscription, offset) {
            self.push_place(index, place);
        }
    }

    /// Makes room in the ring for one frame of at most `bytes_max` bytes. Older frames are dropped for it, even frames of the
    /// same connection, and the cursors of their subscriptions go back. A frame that carries a cursor is therefore written
    /// after this call, and only if [`Edge::takes_through`] or [`Edge::is_behind_at`] still allows it.
    pub(crate) fn reserve(&mut self, bytes_max: usize) {
        let body_bytes = if bytes_max > BODY_COPY_MAX { bytes_max } else { 0 };
        self.make_room(bytes_max.min(BODY_COPY_MAX), body_bytes);
    }

    fn make_room(&mut self, len: usize, body_bytes: usize) {
        if let Some(limit) = self.ring.victims(len, body_bytes) {
            self.evict_before(limit);
            self.ring.drop_before(limit);
        }
    }

    /// Whether a plain subscription still takes what ends at this offset: it does not lag, or from there on only.
    pub(crate) fn takes_through(&self, subscription: u32, offset: u64) -> bool {
        offset <= self.subscriptions[subscription].lag_from()
    }

    /// Puts a frame into the ring, after making room for it.
    pub(crate) fn enter(&mut self, parts: &[&[u8]], body: Slice, origin: Origin) -> Place {
        let len = parts.iter().map(|part| part.len()).sum();
        self.make_room(len, body.len());
        self.unflushed_bytes += len + body.len();
        self.ring.push(parts, body, origin)
    }

    /// Gives a connection a place.
    pub(crate) fn push_place(&mut self, index: u32, place: Place) {
        let slot = &mut self.slots[index];
        if slot.is(flag::DEAD) {
            return;
        }
        self.lists.push(&mut slot.places, place);
        if !slot.is(flag::DIRTY) {
            slot.set(flag::DIRTY);
            self.dirty.push(index);
        }
        if slot.is(flag::BLOCKED) {
            if slot.places.len() > self.settings.limits.outbox_len_max as usize {
                self.spill(index, None);
            } else {
                self.hold(index);
            }
        }
    }

    /// Whether so much is waiting to be flushed that the turn should do it now.
    pub fn wants_flush(&self) -> bool {
        self.unflushed_bytes >= self.settings.limits.ring_bytes as usize / 4
    }

    /// Writes what is waiting, once for each connection with something new, vectored. `write` is the socket.
    pub fn flush(&mut self, write: &mut dyn FnMut(Key, &[IoSlice<'_>]) -> Written) {
        self.unflushed_bytes = 0;
        if !self.lost.is_empty() {
            self.leave_lost_streams();
        }
        self.wake_readers();
        // What drains may queue more (the next page, the rest of kept input): that goes out in the same flush.
        let mut at = 0;
        while let Some(&index) = self.dirty.get(at) {
            at += 1;
            self.slots[index].clear(flag::DIRTY);
            if self.slots[index].is(flag::BLOCKED) || self.slots[index].is(flag::DEAD) {
                continue;
            }
            if !self.ended.is_empty() {
                self.drop_ended(index);
            }
            self.flush_one(index, write);
        }
        self.dirty.clear();
        self.drop_all_ended();
        self.bury();
        if self.holding == 0 {
            // Nobody refers to a frame: begin at the front again, where the memory is warm.
            self.holders.clear();
            self.ring.clear();
        }
    }

    /// The socket has room again.
    pub fn writable(&mut self, key: Key) {
        if self.slots.get(key).is_none() {
            return;
        }
        let slot = &mut self.slots[key.index];
        slot.clear(flag::BLOCKED);
        if !slot.is(flag::DIRTY) {
            slot.set(flag::DIRTY);
            self.dirty.push(key.index);
        }
    }

    fn flush_one(&mut self, index: u32, write: &mut dyn FnMut(Key, &[IoSlice<'_>]) -> Written) {
        loop {
            // Mostly there is one frame, and then none: nothing to gather.
            let slot = &self.slots[index];
            let (offered, written) = match (slot.owned, slot.places.len()) {
                (NONE, 0) => (0, Written::Bytes(0)),
                (NONE, 1) => self.offer_frame(index, write),
                (NONE, 2) => self.offer::<4>(index, write),
                _ => self.offer::<PARTS_MAX>(index, write),
            };
            if offered == 0 {
                self.drained(index);
                return;
            }
            let taken = match written {
                Written::Bytes(bytes) => bytes,
                Written::Blocked => 0,
                Written::Failed => {
                    self.note_end(index, End::LOST);
                    self.kill(index);
                    return;
                }
            };
            self.statistics.written_bytes += taken as u64;
            self.advance(index, taken);
            if taken < offered {
                let slot = &mut self.slots[index];
                slot.set(flag::BLOCKED);
                if !slot.places.is_empty() {
                    self.hold(index);
                }
                return;
            }
        }
    }

    /// Gives the socket the one frame that waits.
    fn offer_frame(
        &self,
        index: u32,
        write: &mut dyn FnMut(Key, &[IoSlice<'_>]) -> Written,
    ) -> (usize, Written) {
        let slot = &self.slots[index];
        let Some(place) = self.lists.first(&slot.places) else {
            return (0, Written::Bytes(0));
        };
        let (head, body) = self.ring.parts(place);
        let slices = [IoSlice::new(head), IoSlice::new(body)];
        let parts = match (head.is_empty(), body.is_empty()) {
            (_, true) => &slices[..1],
            (true, false) => &slices[1..],
            (false, false) => &slices[..],
        };
        match head.len() + body.len() {
            0 => (0, Written::Bytes(0)),
            offered => (offered, write(self.slots.key(index), parts)),
        }
    }

    /// Gives the socket up to `N` parts from the front: what was offered, and what became of it.
    fn offer<const N: usize>(
        &self,
        index: u32,
        write: &mut dyn FnMut(Key, &[IoSlice<'_>]) -> Written,
    ) -> (usize, Written) {
        let slot = &self.slots[index];
        let owned = self.owned.get(slot.owned).into_iter().flat_map(|owned| &owned.parts);
        let places = self.lists.iter(&slot.places).flat_map(|place| {
            let (head, body) = self.ring.parts(place);
            [head, body]
        });
        let parts = owned.map(|part| &part.bytes[..]).chain(places).filter(|part| !part.is_empty());
        let mut slices = [IoSlice::new(&[]); N];
        let (mut count, mut offered) = (0, 0);
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
            offered += part.len();
            count += 1;
        }
        match offered {
            0 => (0, Written::Bytes(0)),
            offered => (offered, write(self.slots.key(index), &slices[..count])),
        }
    }

    /// Takes `taken` bytes off the front; what is left of a frame begun on the wire becomes owned.
    fn advance(&mut self, index: u32, mut taken: usize) {
        let slot = &mut self.slots[index];
        if let Some(owned) = self.owned.get_mut(slot.owned) {
            let counted = match slot.is(flag::ENDING) {
                true => &mut self.ending_bytes,
                false => &mut self.pinned_bytes,
            };
            while taken > 0
                && let Some(front) = owned.parts.front_mut()
            {
                let here = taken.min(front.bytes.len());
                taken -= here;
                owned.bytes -= here;
                *counted -= here as u64;
                if here == front.bytes.len() {
                    owned.parts.pop_front();
                } else {
                    front.bytes = front.bytes.sub(here..);
                }
            }
        }
        while taken > 0
            && let Some(place) = self.lists.pop_front(&mut slot.places)
        {
            let (head, body) = self.ring.parts(place);
            let len = head.len() + body.len();
            if taken >= len {
                taken -= len;
                continue;
            }
            let rest_of_head = Slice::copy_of(&head[taken.min(head.len())..]);
            let rest_of_body = self.ring.body(place).sub(taken.saturating_sub(head.len())..);
            self.own(index, [rest_of_head, rest_of_body]);
            break;
        }
        let slot = &mut self.slots[index];
        if self.owned.get(slot.owned).is_some_and(|owned| owned.parts.is_empty()) {
            self.owned.remove(slot.owned);
            slot.owned = NONE;
        }
    }

    /// Bytes that wait for this connection and that nobody else keeps.
    pub(crate) fn owned_bytes(&self, index: u32) -> usize {
        self.owned.get(self.slots[index].owned).map_or(0, |owned| owned.bytes)
    }

    /// Takes a frame, or the rest of one, which the ring cannot keep. A connection for which that is too much ends.
    fn own(&mut self, index: u32, [head, body]: [Slice; 2]) {
        let slot = &self.slots[index];
        if slot.is(flag::DEAD) || head.is_empty() && body.is_empty() {
            return;
        }
        let has_body = !body.is_empty();
        let owned = self.owned_of(index);
        // One answer may be larger than the bound (an echo, a page of large messages); a second one then not.
        let before = owned.bytes;
        for (bytes, ends_frame) in [(head, !has_body), (body, true)] {
            if !bytes.is_empty() {
                let bytes = of_its_own(bytes);
                owned.bytes += bytes.len();
                owned.parts.push_back(Part { bytes, ends_frame });
            }
        }
        self.pinned_bytes += (self.owned_bytes(index) - before) as u64;
        let limits = &self.settings.limits;
        let is_own = before > limits.outbox_bytes_max as usize;
        if is_own || self.pinned_bytes > limits.pinned_bytes_max {
            self.end_slow(index, is_own);
        }
    }

    pub(super) fn owned_of(&mut self, index: u32) -> &mut Owned {
        let slot = &mut self.slots[index];
        if slot.owned == NONE {
            slot.owned = self.owned.insert(Owned::default());
        }
        &mut self.owned[slot.owned]
    }

    /// Notes that a blocked connection has places, for when the ring needs their room.
    fn hold(&mut self, index: u32) {
        if self.slots[index].is(flag::HOLDS) {
            return;
        }
        self.slots[index].set(flag::HOLDS);
        self.holding += 1;
        self.holders.push(index);
        // Those that let go stay in the list until somebody looks; connections that block and drain in turn must not
        // make it grow.
        if self.holders.len() > 2 * self.holding as usize + 64 {
            let slots = &self.slots;
            self.holders.retain(|&holder| slots[holder].is(flag::HOLDS));
            self.holders.sort_unstable();
            self.holders.dedup();
        }
    }

    fn let_go(&mut self, index: u32) {
        if self.slots[index].is(flag::HOLDS) {
            self.slots[index].clear(flag::HOLDS);
            self.holding -= 1;
        }
    }

    /// Frees what a connection that goes had waiting.
    pub(crate) fn release_outbox(&mut self, index: u32) {
        self.let_go(index);
        self.forget_ended(index);
        let slot = &mut self.slots[index];
        self.lists.clear(&mut slot.places);
        if let Some(owned) = self.owned.remove(slot.owned) {
            match slot.is(flag::ENDING) {
                true => self.ending_bytes -= owned.bytes as u64,
                false => self.pinned_bytes -= owned.bytes as u64,
            }
        }
        slot.owned = NONE;
    }

    /// The ring is about to forget everything before `limit`.
    fn evict_before(&mut self, limit: Place) {
        let holders = std::mem::take(&mut self.holders);
        for index in holders {
            if !self.slots[index].is(flag::HOLDS) {
                continue;
            }
            self.spill(index, Some(limit));
            let slot = &mut self.slots[index];
            if slot.places.is_empty() {
                self.let_go(index);
            } else {
                self.holders.push(index);
            }
        }
        // Connections that were not flushed yet in this turn hold places as well.
        for at in 0..self.dirty.len() {
            let index = self.dirty[at];
            if !self.slots[index].is(flag::HOLDS) {
                self.spill(index, Some(limit));
            }
        }
    }

    /// Gives up the places before `limit` (all of them without one): answers become owned, messages make their
    /// subscriptions lagging, those to filters in the partition.
    fn spill(&mut self, index: u32, limit: Option<Place>) {
        self.drop_ended(index);
        let mut list = std::mem::take(&mut self.slots[index].places);
        let mut kept = List::new();
        // Events of a composite stream carry the cursors of all its topics: once one is left out, none after it may go.
        let is_composite =
            self.slots[index].protocol == Protocol::Events && !self.slots[index].is(flag::RAW);
        let mut broken = false;
        // Of partitions from which something for filters was dropped, the number of the last such message.
        let mut dropped: BTreeMap<PartitionId, u64> = BTreeMap::new();
        let mut filters = None;
        while let Some(place) = self.lists.pop_front(&mut list) {
            let old = limit.is_none_or(|limit| self.ring.is_before(place, limit));
            let drop = old || (broken && self.ring.origin(place) != Origin::Private);
            let keep = match self.ring.origin(place) {
                Origin::Private if drop => {
                    let (head, body) =
                        (Slice::copy_of(self.ring.parts(place).0), self.ring.body(place).clone());
                    self.own(index, [head, body]);
                    false
                }
                Origin::Private => true,
                Origin::Told => {
                    let keep = !drop && dropped.is_empty();
                    if !keep {
                        self.slots[index].set(flag::OWED);
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
                            let lag_from = self.subscriptions[subscription].lag_from();
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
                self.lists.push(&mut kept, place);
            }
        }
        let slot = &mut self.slots[index];
        if slot.is(flag::DEAD) {
            self.lists.clear(&mut kept);
        }
        slot.places = kept;
    }

    /// Everything has been written.
    fn drained(&mut self, index: u32) {
        self.let_go(index);
        self.recovered(index);
        let slot = &mut self.slots[index];
        if slot.is(flag::CLOSING) {
            self.finish(index);
            return;
        }
        // Before anything else is queued: the cursors are those of what has been written.
        self.ticket_may_go_on(index);
        if self.slots[index].is(flag::CLOSING) {
            return;
        }
        if self.slots[index].is(flag::CHOKED) {
            self.slots[index].clear(flag::CHOKED);
            self.resume(index);
        }
        if self.slots[index].is(flag::OWED) {
            self.owe_positions(index);
        }
        if self.slots[index].is(flag::LAGGING) {
            self.read_lagging(index);
        }
        if self.slots[index].protocol == Protocol::Http {
            self.poll_settled(index);
        }
    }

    /// From here on the subscription is read from the log, after `prev`, once the socket has drained.
    fn lag(&mut self, subscription: u32, prev: u64) {
        match self.subscriptions[subscription].stage {
            Stage::Live => self.statistics.lagging += 1,
            // What is on its way answers another question.
            Stage::Reading => self.renew_key(subscription),
            _ => {}
        }
        self.set_lagging(subscription);
        let entry = &mut self.subscriptions[subscription];
        entry.set_cursor(prev);
        let connection = entry.connection;
        self.slots[connection].set(flag::LAGGING);
        self.stream_at(connection, subscription, prev);
    }
}

/// The same bytes, without the log's segment around them: a client that stalls in a message must not keep what the log
/// has forgotten.
fn of_its_own(part: Slice) -> Slice {
    match part.chunk_bytes() > CHUNKS_MAX * part.len() {
        true => Slice::copy_of(&part),
        false => part,
    }
}

/// How much more than its length a part may keep in memory.
const CHUNKS_MAX: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::chunk::ChunkWriter;

    #[test]
    fn what_is_owned_keeps_no_segment() {
        let mut segment = ChunkWriter::heap(1 << 20);
        let body = segment.append(&[&[1; 10_000]]).unwrap();
        let owned = of_its_own(body.sub(4_000..));
        assert_eq!(owned[..], [1; 6_000]);
        assert_eq!((body.chunk_bytes(), owned.chunk_bytes()), (1 << 20, 6_000));
        // What has little around it is shared.
        let answer = Slice::copy_of(&[2; 10_000]);
        assert_eq!(of_its_own(answer.sub(4_000..)).chunk_bytes(), 10_000);
    }
}
