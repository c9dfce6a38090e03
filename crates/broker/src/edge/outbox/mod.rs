//! Outboxes: the frames that wait for each socket, as places in the ring, or as owned bytes where
//! the ring cannot keep them.
//!
//! Steps 9 and 10 of the path. Outboxes know frames and connections, not subscriptions: the edge
//! decides what a dropped frame means (`edge::flow::spill`) and what an empty outbox allows
//! (`edge::flow::flush`). Invariants: owned bytes go before places; only a frame begun on the wire
//! and answers that the ring could not keep are owned, within `outbox_bytes_max` and
//! `pinned_bytes_max`.

mod ended;
mod ring;
mod writing;

pub(crate) use ring::{BODY_COPY_MAX, FrameNumber, Origin};
pub use writing::Written;
pub(super) use writing::{Flushed, Writer};

use super::connections::slots::{Slot, Slots};
use super::excess::Excess;
use crate::ids::{ConnIndex, NONE, TopicIndex};
use crate::mail::HomeId;
use crate::protocol::flag;
use crate::settings::Limits;
use std::collections::VecDeque;
use stdx::blocks::{List, ListPool};
use stdx::chunk::Slice;
use stdx::handing::Hand;
use stdx::memory::vector_bytes;
use stdx::slab::Slab;

/// Outboxes of all connections of an edge. The part of one connection lies in its [`Slot`]: its
/// places, its owned bytes and its flags.
#[derive(Hand)]
pub(super) struct Outboxes {
    ring: ring::Ring,
    lists: ListPool,
    owned: Slab<Owned>,
    ended: ended::Ended,
    /// Bytes of `owned`, of connections that stay.
    pinned_bytes: u64,
    /// Bytes of `owned`, of connections that close because they were too slow ([`flag::ENDING`]).
    ending_bytes: u64,
    /// Bytes that entered the ring since the last flush.
    unflushed_bytes: usize,
    /// Connections for the next flush, each once ([`flag::DIRTY`]).
    dirty: Vec<ConnIndex>,
    /// Blocked connections with places ([`flag::HOLDS`]), and some that have let go since.
    holders: Vec<ConnIndex>,
    /// Connections in `holders` that have the flag.
    holding: u32,
}

/// Bytes that a blocked connection owns: the rest of a frame begun on the wire, if there is one,
/// and then whole frames.
#[derive(Default, Hand)]
struct Owned {
    parts: VecDeque<Part>,
    bytes: usize,
}

/// A part of a frame.
#[derive(Clone, Hand)]
struct Part {
    bytes: Slice,
    ends_frame: bool,
}

/// State of a connection's queue after a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Queued {
    /// The frame waits for the flush or for the socket.
    Waits,
    /// The socket is blocked, and more frames wait than `outbox_len_max`.
    TooLong,
}

impl Outboxes {
    /// Empty outboxes over a ring of this capacity in bytes.
    pub fn new(ring_bytes: usize) -> Outboxes {
        Outboxes {
            ring: ring::Ring::new(ring_bytes),
            lists: ListPool::default(),
            owned: Slab::new(),
            ended: ended::Ended::default(),
            pinned_bytes: 0,
            ending_bytes: 0,
            unflushed_bytes: 0,
            dirty: Vec::new(),
            holders: Vec::new(),
            holding: 0,
        }
    }

    /// Begins the numbers of places here, before the first frame. For tests.
    pub fn begin_at(&mut self, place: FrameNumber) {
        self.ring.begin_at(place);
    }

    /// The place before which the ring must drop its frames to have room for these bytes; `None`:
    /// it has room.
    pub fn victims(&self, len: usize, body_bytes: usize) -> Option<FrameNumber> {
        self.ring.victims(len, body_bytes)
    }

    /// Connections with places that are waiting for their sockets. [`Outboxes::hold_on`] takes each
    /// back.
    pub fn take_holders(&mut self) -> Vec<ConnIndex> {
        std::mem::take(&mut self.holders)
    }

    /// Takes back a connection of [`Outboxes::take_holders`], if it still has places.
    pub fn hold_on(&mut self, slots: &mut Slots, index: ConnIndex) {
        let slot = &mut slots[index];
        if slot.frames.is_empty() {
            self.let_go(slot);
        } else {
            self.holders.push(index);
        }
    }

    /// Connections for the next flush.
    pub fn dirty(&self) -> &[ConnIndex] {
        &self.dirty
    }

    /// Forgets all frames before `limit`. No connection holds one of them any more.
    pub fn drop_before(&mut self, limit: FrameNumber) {
        self.ring.drop_before(limit);
    }

    /// Puts a frame into the ring, which has room for it.
    pub fn enter(&mut self, parts: &[&[u8]], body: Slice, origin: Origin) -> FrameNumber {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.unflushed_bytes += len + body.len();
        self.ring.push(parts, body, origin)
    }

    /// Whether the ring still has the frame of this place.
    pub fn holds(&self, place: FrameNumber) -> bool {
        self.ring.holds(place)
    }

    /// The origin of the frame of a place.
    pub fn origin(&self, place: FrameNumber) -> Origin {
        self.ring.origin(place)
    }

    /// Whether a place comes before another.
    pub fn is_before(&self, place: FrameNumber, limit: FrameNumber) -> bool {
        self.ring.is_before(place, limit)
    }

    /// A copy of a frame's bytes, without the ring.
    pub fn copy_of(&self, place: FrameNumber) -> [Slice; 2] {
        [Slice::copy_of(self.ring.parts(place).0), self.ring.body(place).clone()]
    }

    /// Queues a place for a connection.
    #[inline]
    pub fn push(
        &mut self,
        slots: &mut Slots,
        index: ConnIndex,
        place: FrameNumber,
        len_max: u32,
    ) -> Queued {
        let slot = &mut slots[index];
        if slot.is(flag::DEAD) {
            return Queued::Waits;
        }
        self.lists.push(&mut slot.frames, place);
        if !slot.is(flag::DIRTY) {
            slot.set(flag::DIRTY);
            self.dirty.push(index);
        }
        if slot.is(flag::BLOCKED) {
            if slot.frames.len() > len_max as usize {
                return Queued::TooLong;
            }
            self.hold(slots, index);
        }
        Queued::Waits
    }

    /// Takes all places of a connection. [`Outboxes::put_frames`] gives it those that stay.
    pub fn take_frames(&mut self, slots: &mut Slots, index: ConnIndex) -> List {
        self.drop_ended(slots, index);
        std::mem::take(&mut slots[index].frames)
    }

    /// The first place of a list, taken out of it.
    pub fn pop(&mut self, list: &mut List) -> Option<FrameNumber> {
        self.lists.pop_front(list)
    }

    /// Appends a place to a list.
    pub fn append(&mut self, list: &mut List, place: FrameNumber) {
        self.lists.push(list, place);
    }

    /// Gives a connection the places that stay; a dead one gets none.
    pub fn put_frames(&mut self, slot: &mut Slot, mut list: List) {
        if slot.is(flag::DEAD) {
            self.lists.clear(&mut list);
        }
        slot.frames = list;
    }

    /// Marks a connection for the next flush.
    pub fn mark_dirty(&mut self, slots: &mut Slots, index: ConnIndex) {
        let slot = &mut slots[index];
        if !slot.is(flag::DIRTY) {
            slot.set(flag::DIRTY);
            self.dirty.push(index);
        }
    }

    /// Takes a frame, or the rest of one, that the ring cannot keep. Returns the bound that it
    /// passes.
    pub fn own(
        &mut self,
        slot: &mut Slot,
        [head, body]: [Slice; 2],
        limits: &Limits,
    ) -> Option<Excess> {
        if slot.is(flag::DEAD) || head.is_empty() && body.is_empty() {
            return None;
        }
        let has_body = !body.is_empty();
        let owned = self.owned_of(slot);
        // One answer may be larger than the bound (an echo, a page of large messages); a second one
        // may not.
        let before = owned.bytes;
        for (bytes, ends_frame) in [(head, !has_body), (body, true)] {
            if !bytes.is_empty() {
                let bytes = of_its_own(bytes);
                owned.bytes += bytes.len();
                owned.parts.push_back(Part { bytes, ends_frame });
            }
        }
        let added = owned.bytes - before;
        self.pinned_bytes += added as u64;
        if before > limits.outbox_bytes_max as usize {
            Some(Excess::Own)
        } else if self.pinned_bytes > limits.pinned_bytes_max {
            Some(Excess::Shared)
        } else {
            None
        }
    }

    /// Drops everything that waits for a connection but the frame begun on the wire, and puts
    /// `close` behind it. False, and no change, if the connections that end would then own more
    /// than `bytes_max`.
    pub fn keep_begun(
        &mut self,
        slots: &mut Slots,
        index: ConnIndex,
        close: &[u8],
        bytes_max: u64,
    ) -> bool {
        let owned = self.owned.get(slots[index].owned);
        let mut parts: VecDeque<Part> = VecDeque::new();
        for part in owned.into_iter().flat_map(|owned| &owned.parts) {
            parts.push_back(part.clone());
            if part.ends_frame {
                break;
            }
        }
        parts.push_back(Part { bytes: Slice::copy_of(close), ends_frame: true });
        let bytes: usize = parts.iter().map(|part| part.bytes.len()).sum();
        if self.ending_bytes + bytes as u64 > bytes_max {
            return false;
        }
        self.release(slots, index);
        self.ending_bytes += bytes as u64;
        let slot = &mut slots[index];
        slot.set(flag::ENDING);
        *self.owned_of(slot) = Owned { parts, bytes };
        true
    }

    fn owned_of(&mut self, slot: &mut Slot) -> &mut Owned {
        if slot.owned == NONE {
            slot.owned = self.owned.insert(Owned::default());
        }
        &mut self.owned[slot.owned]
    }

    /// Whether nothing waits for the connection, and its socket may take more.
    pub fn is_empty(&self, slot: &Slot) -> bool {
        slot.frames.is_empty() && slot.owned == NONE && !slot.is(flag::BLOCKED)
    }

    /// Bytes that the connection owns.
    pub fn owned_bytes(&self, slot: &Slot) -> usize {
        self.owned.get(slot.owned).map_or(0, |owned| owned.bytes)
    }

    /// Bytes that wait for the connection, owned or in the ring.
    pub fn waiting_bytes(&self, slot: &Slot) -> u64 {
        let places = self.lists.iter(&slot.frames).filter(|&place| self.ring.holds(place));
        let bytes = places.map(|place| {
            let (head, body) = self.ring.parts(place);
            head.len() + body.len()
        });
        (self.owned_bytes(slot) + bytes.sum::<usize>()) as u64
    }

    /// Notes that a blocked connection has places, for when the ring needs their room.
    fn hold(&mut self, slots: &mut Slots, index: ConnIndex) {
        if slots[index].is(flag::HOLDS) {
            return;
        }
        slots[index].set(flag::HOLDS);
        self.holding += 1;
        self.holders.push(index);
        // A connection that lets go stays in the list until the next eviction. Connections that
        // block and drain in turn must not make the list grow.
        if self.holders.len() > 2 * self.holding as usize + 64 {
            self.holders.retain(|&holder| slots[ConnIndex(holder.0)].is(flag::HOLDS));
            self.holders.sort_unstable();
            self.holders.dedup();
        }
    }

    fn let_go(&mut self, slot: &mut Slot) {
        if slot.is(flag::HOLDS) {
            slot.clear(flag::HOLDS);
            self.holding -= 1;
        }
    }

    /// Notes that a connection's topic has ended, so that frames of it that wait are not sent.
    pub fn end_topic(&mut self, slot: &Slot, index: ConnIndex, home: HomeId, topic: TopicIndex) {
        if !slot.frames.is_empty() {
            self.ended.end(index, (home, topic.0), self.ring.next_number());
        }
    }

    #[inline]
    fn drop_ended(&mut self, slots: &mut Slots, index: ConnIndex) {
        if !self.ended.is_empty()
            && let Some(topics) = self.ended.take(index)
        {
            self.drop_topics(&mut slots[index], &topics);
        }
    }

    fn drop_all_ended(&mut self, slots: &mut Slots) {
        while let Some((index, topics)) = self.ended.take_first() {
            self.drop_topics(&mut slots[index], &topics);
        }
    }

    fn drop_topics(&mut self, slot: &mut Slot, topics: &ended::Topics) {
        let mut list = std::mem::take(&mut slot.frames);
        let mut kept = List::new();
        while let Some(place) = self.lists.pop_front(&mut list) {
            let has_ended = match self.ring.origin(place) {
                Origin::Plain { home, index, .. } => topics
                    .get(&(home, index.0))
                    .is_some_and(|behind| self.ring.is_before(place, *behind)),
                Origin::Private
                | Origin::ByFilter { .. }
                | Origin::Addressed { .. }
                | Origin::Told => false,
            };
            if !has_ended {
                self.lists.push(&mut kept, place);
            }
        }
        slot.frames = kept;
    }

    /// Frees all that waits for a connection.
    pub fn release(&mut self, slots: &mut Slots, index: ConnIndex) {
        let slot = &mut slots[index];
        self.let_go(slot);
        self.ended.take(index);
        self.lists.clear(&mut slot.frames);
        if let Some(owned) = self.owned.remove(slot.owned) {
            if slot.is(flag::ENDING) {
                self.ending_bytes -= owned.bytes as u64
            } else {
                self.pinned_bytes -= owned.bytes as u64
            }
        }
        slot.owned = NONE;
    }

    /// Bytes that connections own and that count for `pinned_bytes_max`.
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes
    }

    /// Bytes of the ring's segments.
    pub fn ring_segment_bytes(&self) -> usize {
        self.ring.segment_bytes()
    }

    /// Bytes of the ring.
    pub fn ring_memory_bytes(&self) -> usize {
        self.ring.memory_bytes()
    }

    /// Bytes of lists and owned frames.
    pub fn memory_bytes(&self) -> usize {
        self.lists.memory_bytes()
            + self.owned.memory_bytes()
            + (self.pinned_bytes + self.ending_bytes) as usize
    }

    /// Bytes of the lists of connections.
    pub fn work_bytes(&self) -> usize {
        vector_bytes::<u32>(self.dirty.capacity() + self.holders.capacity())
    }
}

/// A copy of a part without the log's segment around it: a client that stalls in a message must not
/// keep memory of messages that the log has dropped.
fn of_its_own(part: Slice) -> Slice {
    if part.chunk_bytes() > CHUNKS_MAX * part.len() { Slice::copy_of(&part) } else { part }
}

/// The maximum memory of a part, as a multiple of its length.
const CHUNKS_MAX: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::chunk::ChunkWriter;

    #[test]
    fn owned_bytes_keep_no_segment() {
        let mut segment = ChunkWriter::heap(1 << 20);
        let body = segment.append(&[&[1; 10_000]]).unwrap();
        let owned = of_its_own(body.sub(4_000..));
        assert_eq!(owned[..], [1; 6_000]);
        assert_eq!((body.chunk_bytes(), owned.chunk_bytes()), (1 << 20, 6_000));
        // A part with little memory around it is shared.
        let answer = Slice::copy_of(&[2; 10_000]);
        assert_eq!(of_its_own(answer.sub(4_000..)).chunk_bytes(), 10_000);
    }
}
