//! Writes of a flush: each connection with something new gets one vectored write, or several until
//! its socket is full.
//!
//! Step 10 of the path. Invariant: what the socket does not take of a frame becomes owned, so that
//! the ring may drop the frame.

use super::super::connections::slots::Slots;
use super::super::excess::Excess;
use super::Outboxes;
use crate::ids::ConnIndex;
use crate::ids::NONE;
use crate::protocol::flag;
use crate::settings::Limits;
use std::io::IoSlice;
use stdx::chunk::Slice;
use stdx::key::Key;

/// Result of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// The number of bytes that the socket took; fewer than offered means that it is full.
    Bytes(usize),
    /// The socket is full and took none.
    Blocked,
    /// The connection is lost.
    Failed,
}

/// The socket of each connection.
pub(in super::super) type Writer<'a> = dyn FnMut(Key, &[IoSlice<'_>]) -> Written + 'a;

/// State of a connection after a flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Flushed {
    /// The socket took everything.
    Drained,
    /// The socket is full; the connection may own too much.
    Full(Option<Excess>),
    /// The connection is lost.
    Failed,
}

/// Parts of one vectored write.
const PARTS_MAX: usize = 64;

impl Outboxes {
    /// Whether at least `bytes` have entered the ring since the last flush.
    pub fn has_unflushed(&self, bytes: usize) -> bool {
        self.unflushed_bytes >= bytes
    }

    /// Begins a flush. [`Outboxes::next_dirty`] gives its connections.
    pub fn begin_flush(&mut self) {
        self.unflushed_bytes = 0;
    }

    /// The next connection with something to write, from position `at` of the list on.
    pub fn next_dirty(&mut self, slots: &mut Slots, at: &mut usize) -> Option<ConnIndex> {
        while let Some(&index) = self.dirty.get(*at) {
            *at += 1;
            let slot = &mut slots[index];
            slot.clear(flag::DIRTY);
            if !slot.is(flag::BLOCKED | flag::DEAD) {
                return Some(index);
            }
        }
        None
    }

    /// Ends a flush, once it has seen every connection.
    pub fn end_flush(&mut self, slots: &mut Slots) {
        self.dirty.clear();
        self.drop_all_ended(slots);
    }

    /// Clears the ring, if no connection holds a frame: it begins at its front again, where the
    /// memory is warm.
    pub fn rewind(&mut self) {
        if self.holding == 0 {
            self.holders.clear();
            self.ring.clear();
        }
    }

    /// Writes what waits for a connection until it has all or its socket is full. `written_bytes`
    /// counts the bytes.
    pub fn flush(
        &mut self,
        slots: &mut Slots,
        index: ConnIndex,
        limits: &Limits,
        written_bytes: &mut u64,
        write: &mut Writer<'_>,
    ) -> Flushed {
        self.drop_ended(slots, index);
        loop {
            // Mostly one frame waits: nothing to gather.
            let slot = &slots[index];
            let (offered, is_all, written) = match (slot.owned, slot.frames.len()) {
                (NONE, 0) => (0, true, Written::Bytes(0)),
                (NONE, 1) => self.offer_frame(slots, index, write),
                (NONE, 2) => self.offer::<4>(slots, index, write),
                _ => self.offer::<PARTS_MAX>(slots, index, write),
            };
            if offered == 0 {
                self.let_go(&mut slots[index]);
                return Flushed::Drained;
            }
            // Mostly the socket takes all of it: nothing to look at again.
            if is_all && written == Written::Bytes(offered) && slots[index].owned == NONE {
                *written_bytes += offered as u64;
                let slot = &mut slots[index];
                self.lists.clear(&mut slot.frames);
                self.let_go(slot);
                return Flushed::Drained;
            }
            let taken = match written {
                Written::Bytes(bytes) => bytes,
                Written::Blocked => 0,
                Written::Failed => return Flushed::Failed,
            };
            *written_bytes += taken as u64;
            let excess = self.advance(slots, index, limits, taken);
            if taken < offered {
                self.block(slots, index);
                return Flushed::Full(excess);
            }
        }
    }

    /// Nothing is written to a connection for the present.
    pub fn block(&mut self, slots: &mut Slots, index: ConnIndex) {
        let slot = &mut slots[index];
        slot.set(flag::BLOCKED);
        if !slot.frames.is_empty() {
            self.hold(slots, index);
        }
    }

    /// Offers the socket the only frame that waits: the bytes offered, that they are all, and the
    /// result.
    fn offer_frame(
        &self,
        slots: &Slots,
        index: ConnIndex,
        write: &mut Writer<'_>,
    ) -> (usize, bool, Written) {
        let slot = &slots[index];
        let Some(place) = self.lists.first(&slot.frames) else {
            return (0, true, Written::Bytes(0));
        };
        let (head, body) = self.ring.parts(place);
        let slices = [IoSlice::new(head), IoSlice::new(body)];
        let parts = match (head.is_empty(), body.is_empty()) {
            (_, true) => &slices[..1],
            (true, false) => &slices[1..],
            (false, false) => &slices[..],
        };
        match head.len() + body.len() {
            0 => (0, true, Written::Bytes(0)),
            offered => (offered, true, write(slots.key(index), parts)),
        }
    }

    /// Offers the socket up to `N` parts from the front: the bytes offered, whether they are all,
    /// and the result.
    fn offer<const N: usize>(
        &self,
        slots: &Slots,
        index: ConnIndex,
        write: &mut Writer<'_>,
    ) -> (usize, bool, Written) {
        let slot = &slots[index];
        let owned = self.owned.get(slot.owned).into_iter().flat_map(|owned| &owned.parts);
        let places = self.lists.iter(&slot.frames).flat_map(|place| {
            let (head, body) = self.ring.parts(place);
            [head, body]
        });
        let parts = owned.map(|part| &part.bytes[..]).chain(places);
        let mut parts = parts.filter(|part| !part.is_empty());
        let mut slices = [IoSlice::new(&[]); N];
        let (mut count, mut offered) = (0, 0);
        for (slice, part) in slices.iter_mut().zip(&mut parts) {
            *slice = IoSlice::new(part);
            offered += part.len();
            count += 1;
        }
        let is_all = count < N || parts.next().is_none();
        match offered {
            0 => (0, is_all, Written::Bytes(0)),
            offered => (offered, is_all, write(slots.key(index), &slices[..count])),
        }
    }

    /// Takes `taken` bytes off the front; the rest of a frame begun on the wire becomes owned.
    fn advance(
        &mut self,
        slots: &mut Slots,
        index: ConnIndex,
        limits: &Limits,
        mut taken: usize,
    ) -> Option<Excess> {
        let slot = &mut slots[index];
        if let Some(owned) = self.owned.get_mut(slot.owned) {
            let counted =
                if slot.is(flag::ENDING) { &mut self.ending_bytes } else { &mut self.pinned_bytes };
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
        let mut excess = None;
        while taken > 0
            && let Some(place) = self.lists.pop_front(&mut slot.frames)
        {
            let (head, body) = self.ring.parts(place);
            let len = head.len() + body.len();
            if taken >= len {
                taken -= len;
                continue;
            }
            let rest_of_head = Slice::copy_of(&head[taken.min(head.len())..]);
            let rest_of_body = self.ring.body(place).sub(taken.saturating_sub(head.len())..);
            excess = self.own(slot, [rest_of_head, rest_of_body], limits);
            break;
        }
        if self.owned.get(slot.owned).is_some_and(|owned| owned.parts.is_empty()) {
            self.owned.remove(slot.owned);
            slot.owned = NONE;
        }
        excess
    }
}
