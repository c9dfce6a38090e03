//! Connection slots: what an edge keeps for each connection, by the network's own small index.
//!
//! Invariant: an idle connection owns nothing but its slot, its stamp and its subscriptions; the
//! handles in a slot are [`NONE`] then. The size of a slot is asserted.

use crate::edge::ends::End;
use crate::ids::{ConnIndex, NONE, SubIndex};
use crate::protocol::{Facts, Protocol, flag};
use stdx::blocks::List;
use stdx::handing::Hand;
use stdx::key::Key;
use stdx::pages::Pages;

/// One connection.
#[derive(Hand)]
pub(crate) struct Slot {
    /// Against reuse of the index; from the network.
    pub generation: u32,
    pub protocol: Protocol,
    /// The cause of its end (`End::place`), and one; 0: it does not end.
    end: u8,
    pub flags: u32,
    /// Seconds of silence after which a ping is due; 0: none.
    pub ping_interval_s: u16,
    /// Frames that wait for the socket, by their sequence numbers in the ring.
    pub frames: List,
    /// Bytes that wait before these, owned because the ring could not keep them.
    pub owned: u32,
    /// Unfinished input.
    pub input: u32,
    /// State that only some protocols need at some times.
    pub state: u32,
    /// The first subscription.
    pub subscriptions: SubIndex,
    pub subscriptions_count: u32,
    /// The newest frame for filters, so that it is sent once however many of the filters match.
    pub filter_mark: u32,
    /// Begin of its session, or before that of the connection: the low half of milliseconds of the
    /// monotonic clock. See `producers`.
    pub hello_ms: u32,
    /// The entitlement of its client, an index in `edge::access`; [`NONE`]: that of anonymous
    /// clients.
    pub entitlement: u32,
}

const _: () = assert!(size_of::<Slot>() <= 52);

impl Slot {
    pub(crate) const FREE: Slot = Slot {
        generation: 0,
        protocol: Protocol::Free,
        end: 0,
        flags: 0,
        ping_interval_s: 0,
        frames: List::new(),
        owned: NONE,
        input: NONE,
        state: NONE,
        subscriptions: SubIndex::NONE,
        subscriptions_count: 0,
        filter_mark: 0,
        hello_ms: 0,
        entitlement: NONE,
    };

    /// The window of a client that takes compressed messages, 8 to 15 bits; 0: it takes none.
    pub fn window_bits(&self) -> u8 {
        (self.flags >> flag::WINDOW_SHIFT & 0xf) as u8
    }

    /// Compression has been agreed, once for the connection.
    pub fn set_window_bits(&mut self, bits: u8) {
        self.set(u32::from(bits & 0xf) << flag::WINDOW_SHIFT);
    }

    /// Removes the mark before its number comes again. The sweep calls this for each connection: no
    /// edge delivers [`MARK_AGE_MAX`] messages between two sweeps.
    #[inline]
    pub fn age_mark(&mut self, serial: u32) {
        if serial.wrapping_sub(self.filter_mark) > MARK_AGE_MAX {
            self.filter_mark = 0; // no message has it
        }
    }

    /// Whether no connection has the slot.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.protocol == Protocol::Free
    }

    /// The facts of the connection's protocol.
    #[inline]
    pub fn facts(&self) -> Facts {
        self.protocol.facts()
    }

    /// Whether any of these bits is set.
    pub fn is(&self, bits: u32) -> bool {
        self.flags & bits != 0
    }

    pub fn set(&mut self, bits: u32) {
        self.flags |= bits;
    }

    pub fn clear(&mut self, bits: u32) {
        self.flags &= !bits;
    }
}

impl Slot {
    /// Notes the cause of its end, unless there is one.
    pub fn note_end(&mut self, end: End) {
        if self.end == 0 {
            self.end = end.place() + 1;
        }
    }

    /// The cause of its end. A connection without one is lost.
    pub fn end(&self) -> End {
        match self.end {
            0 => End::LOST,
            noted => End::at(noted - 1),
        }
    }
}

/// The maximum age of a mark, in numbers: half of the range, so that no number repeats before then.
const MARK_AGE_MAX: u32 = 1 << 31;
/// Slots to a page.
pub(crate) const PAGE: usize = 256;

/// All connections of an edge; grows by pages, so that growth never moves existing slots.
#[derive(Hand)]
pub(crate) struct Slots {
    slots: Pages<Slot, PAGE>,
    count: u32,
}

impl Slots {
    pub fn new() -> Slots {
        Slots { slots: Pages::new(), count: 0 }
    }

    /// Takes the slot of a new connection.
    pub fn open(&mut self, key: Key) {
        // Whole pages: a sweep's share of the places does not follow every single connection.
        let last = key.index | (PAGE as u32 - 1);
        self.slots.grow_to(last, || Slot::FREE);
        self.slots[key.index] =
            Slot { generation: key.generation, protocol: Protocol::Http, end: 0, ..Slot::FREE };
        self.count += 1;
    }

    /// Frees the slot; its handles have been released before.
    pub fn free(&mut self, index: ConnIndex) {
        self[index] = Slot::FREE;
        self.count -= 1;
    }

    /// The slot, if this very connection is still there.
    pub fn get(&self, key: Key) -> Option<&Slot> {
        let slot = self.slots.get(key.index)?;
        (!slot.is_free() && slot.generation == key.generation).then_some(slot)
    }

    /// Asks for the memory of a slot; see [`stdx::prefetch`].
    #[inline]
    pub fn prefetch(&self, index: ConnIndex) {
        self.slots.prefetch(index.0);
    }

    /// The connection's key.
    pub fn key(&self, index: ConnIndex) -> Key {
        Key { index: index.0, generation: self[index].generation }
    }

    /// Connections now.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The indexes of all connections.
    pub fn present(&self) -> impl Iterator<Item = ConnIndex> {
        (0..self.places()).map(ConnIndex).filter(|index| self.is_present(*index))
    }

    /// Whether there is a connection at this index, which is below [`Slots::places`].
    #[inline]
    pub fn is_present(&self, index: ConnIndex) -> bool {
        !self.slots[index.0].is_free()
    }

    /// One more than the highest index ever used, rounded up to whole pages.
    pub fn places(&self) -> u32 {
        self.slots.len()
    }

    /// Bytes touched.
    pub fn memory_bytes(&self) -> usize {
        self.slots.memory_bytes()
    }
}

impl std::ops::Index<ConnIndex> for Slots {
    type Output = Slot;

    fn index(&self, index: ConnIndex) -> &Slot {
        &self.slots[index.0]
    }
}

impl std::ops::IndexMut<ConnIndex> for Slots {
    fn index_mut(&mut self, index: ConnIndex) -> &mut Slot {
        &mut self.slots[index.0]
    }
}
