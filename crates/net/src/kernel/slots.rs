//! The socket of each connection, and the events reported for it: eight bytes per connection.
//!
//! Invariants: a slot that holds a descriptor owns it. Indices are as dense as possible (the last
//! freed is the next used), whatever numbers the descriptors have: with a table shared by all
//! threads a thread's descriptor numbers would be sparse. A freed slot has a new generation, and
//! generation 0 is never used, so that it may mean something else in epoll's 64 bits.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use crate::Conn;
use stdx::pages::Pages;

/// The end of the stream was reported: after a short read there is still something to read.
pub(super) const PEER_ENDED: u8 = 1;
/// `Readable` was reported, and the socket was not read empty since.
pub(super) const READ_TOLD: u8 = 1 << 1;
/// A write found no room: `Writable` is reported when there is some.
pub(super) const WRITE_BLOCKED: u8 = 1 << 2;
/// A connection begun from here that is not established yet.
pub(super) const CONNECTING: u8 = 1 << 3;
/// The caller does not know the slot, or does not use it any more.
pub(super) const DEAD: u8 = 1 << 4;
/// Dead, and our direction has ended; the peer's bytes are discarded until it ends, too.
pub(super) const LINGERING: u8 = 1 << 5;
/// Accepted from the reserve, only to be refused.
pub(super) const REFUSED: u8 = 1 << 6;
/// Epoll reports room.
pub(super) const ROOM_WATCHED: u8 = 1 << 7;

/// The connection is lost, and earlier bytes are still to be read. No living connection has both
/// flags: one that is not established has no end.
pub(super) const LOST: u8 = CONNECTING | PEER_ENDED;

const DESCRIPTOR_BITS: u32 = 24;
const DESCRIPTOR_MASK: u32 = (1 << DESCRIPTOR_BITS) - 1;
const NONE: u32 = DESCRIPTOR_MASK;

/// Number of slots in a page.
const PAGE: usize = 1_024;

/// Set in a number that is a place among the registered sockets, not a descriptor.
const REGISTERED: u32 = 1 << (DESCRIPTOR_BITS - 1);

/// An empty slot during a take-over; a descriptor is never -1.
const VACANT: u32 = u32::MAX;

/// Maximum number of connections of a thread.
pub(super) const SLOTS_MAX: u32 = DESCRIPTOR_MASK - 1;
/// The greatest descriptor number, and the greatest place of a registered socket.
const NUMBER_MAX: u32 = REGISTERED - 2;

/// The place of a connection's socket.
pub(super) enum Socket<D> {
    /// A descriptor in the thread's table.
    Descriptor(D),
    /// Registered, at this place.
    Registered(u32),
}

/// `word`: flags above, descriptor or place below; in a free slot the next free index instead.
#[derive(Clone, Copy)]
struct Slot {
    generation: u32,
    word: u32,
}

const _: () = assert!(size_of::<Slot>() == 8);

pub(super) struct Slots {
    slots: Pages<Slot, PAGE>,
    free: u32,
}

impl Slots {
    pub(super) fn new() -> Slots {
        Slots { slots: Pages::new(), free: NONE }
    }

    /// Touched bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.slots.memory_bytes()
    }

    /// Stores the descriptor; returns it if its number or the table is too large.
    pub(super) fn insert(&mut self, descriptor: OwnedFd, flags: u8) -> Result<Conn, OwnedFd> {
        let number = descriptor.as_raw_fd() as u32;
        if number > NUMBER_MAX {
            return Err(descriptor);
        }
        let index = if self.free != NONE {
            let index = self.free;
            self.free = self.slots[index].word & DESCRIPTOR_MASK;
            index
        } else {
            let index = self.slots.len();
            if index > SLOTS_MAX {
                return Err(descriptor);
            }
            self.slots.push(Slot { generation: 1, word: 0 });
            index
        };
        let slot = &mut self.slots[index];
        slot.word = (u32::from(flags) << DESCRIPTOR_BITS) | descriptor.into_raw_fd() as u32;
        Ok(Conn { index, generation: slot.generation })
    }

    /// Frees the slot, and returns its socket.
    pub(super) fn remove(&mut self, index: u32) -> Socket<OwnedFd> {
        let slot = &mut self.slots[index];
        let number = slot.word & DESCRIPTOR_MASK;
        slot.generation = slot.generation.checked_add(1).unwrap_or(1);
        slot.word = (u32::from(DEAD) << DESCRIPTOR_BITS) | self.free;
        self.free = index;
        if number & REGISTERED != 0 {
            return Socket::Registered(number & !REGISTERED);
        }
        // SAFETY: `insert` took the ownership of this number into the slot, and the slot has just
        // forgotten it: nothing else closes it.
        Socket::Descriptor(unsafe { OwnedFd::from_raw_fd(number as RawFd) })
    }

    /// One more than the highest index ever used.
    pub(super) fn len(&self) -> u32 {
        self.slots.len()
    }

    /// Whether a connection has this index. For a take-over, during which the free list is empty.
    pub(super) fn is_taken(&self, index: u32) -> bool {
        let slot = self.slots.get(index);
        slot.is_some_and(|slot| slot.word != VACANT)
    }

    /// Stores the descriptor under this key, whose slot is empty; returns it if its number is too
    /// large.
    pub(super) fn occupy(
        &mut self,
        conn: Conn,
        descriptor: OwnedFd,
        flags: u8,
    ) -> Result<(), OwnedFd> {
        let number = descriptor.as_raw_fd() as u32;
        if number > NUMBER_MAX || conn.index > SLOTS_MAX {
            return Err(descriptor);
        }
        self.slots.grow_to(conn.index, || Slot { generation: 1, word: VACANT });
        self.slots[conn.index] = Slot {
            generation: conn.generation,
            word: (u32::from(flags) << DESCRIPTOR_BITS) | descriptor.into_raw_fd() as u32,
        };
        Ok(())
    }

    /// Takes the socket out of a slot, and leaves the slot empty.
    pub(super) fn vacate(&mut self, index: u32) -> Socket<OwnedFd> {
        let slot = &mut self.slots[index];
        let number = slot.word & DESCRIPTOR_MASK;
        slot.word = VACANT;
        if number & REGISTERED != 0 {
            return Socket::Registered(number & !REGISTERED);
        }
        // SAFETY: as in `remove`.
        Socket::Descriptor(unsafe { OwnedFd::from_raw_fd(number as RawFd) })
    }

    /// Ends a take-over: empty slots are free, after these generations.
    pub(super) fn settle(&mut self, generations: impl Iterator<Item = u32>) {
        for (index, generation) in (0..).zip(generations) {
            self.slots.grow_to(index, || Slot { generation: 1, word: VACANT });
            let slot = &mut self.slots[index];
            if slot.word == VACANT {
                slot.generation = generation.checked_add(1).unwrap_or(1);
            }
        }
        // The lowest are used first.
        for index in (0..self.slots.len()).rev() {
            if self.slots[index].word == VACANT {
                self.slots[index].word = (u32::from(DEAD) << DESCRIPTOR_BITS) | self.free;
                self.free = index;
            }
        }
    }

    /// Replaces the descriptor by a place among the registered sockets. Returns the descriptor, if
    /// there was one.
    pub(super) fn relocate(&mut self, index: u32, place: u32) -> Option<OwnedFd> {
        debug_assert!(place <= NUMBER_MAX);
        let slot = &mut self.slots[index];
        let number = slot.word & DESCRIPTOR_MASK;
        slot.word = (slot.word & !DESCRIPTOR_MASK) | REGISTERED | place;
        // SAFETY: as in `remove`.
        (number & REGISTERED == 0).then(|| unsafe { OwnedFd::from_raw_fd(number as RawFd) })
    }

    /// The flags of this connection, dead or alive.
    pub(super) fn flags(&self, conn: Conn) -> Option<u8> {
        let slot = self.slots.get(conn.index)?;
        (slot.generation == conn.generation).then_some((slot.word >> DESCRIPTOR_BITS) as u8)
    }

    /// The flags, if the caller may still use the key.
    pub(super) fn alive(&self, conn: Conn) -> Option<u8> {
        self.flags(conn).filter(|flags| flags & DEAD == 0)
    }

    pub(super) fn set(&mut self, index: u32, flags: u8) {
        self.slots[index].word |= u32::from(flags) << DESCRIPTOR_BITS;
    }

    pub(super) fn clear(&mut self, index: u32, flags: u8) {
        self.slots[index].word &= !(u32::from(flags) << DESCRIPTOR_BITS);
    }

    /// The key of the slot's connection.
    pub(super) fn occupant(&self, index: u32) -> Conn {
        Conn { index, generation: self.slots[index].generation }
    }

    /// The socket of an occupied slot.
    pub(super) fn socket(&self, index: u32) -> Socket<BorrowedFd<'_>> {
        let number = self.slots[index].word & DESCRIPTOR_MASK;
        if number & REGISTERED != 0 {
            return Socket::Registered(number & !REGISTERED);
        }
        // SAFETY: callers pass the index of an occupied slot (its key was checked by `flags`),
        // which owns an open descriptor for as long as the slots are borrowed.
        Socket::Descriptor(unsafe { BorrowedFd::borrow_raw(number as RawFd) })
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        let mut is_free = vec![false; self.slots.len() as usize];
        while self.free != NONE {
            is_free[self.free as usize] = true;
            self.free = self.slots[self.free].word & DESCRIPTOR_MASK;
        }
        for (index, is_free) in is_free.into_iter().enumerate() {
            if !is_free {
                drop(self.remove(index as u32));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> OwnedFd {
        rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).expect("an eventfd")
    }

    #[test]
    fn an_index_is_reused_under_a_new_generation() {
        let mut slots = Slots::new();
        let first = slots.insert(descriptor(), 0).expect("room");
        let second = slots.insert(descriptor(), READ_TOLD).expect("room");
        assert_eq!((first.index, second.index), (0, 1));
        assert_eq!(slots.alive(second), Some(READ_TOLD));
        drop(slots.remove(first.index));
        assert_eq!(slots.alive(first), None);
        let third = slots.insert(descriptor(), 0).expect("room");
        assert_eq!((third.index, third.generation), (0, 2));
        slots.set(third.index, DEAD);
        assert_eq!((slots.alive(third), slots.flags(third)), (None, Some(DEAD)));
        slots.clear(second.index, READ_TOLD);
        assert_eq!(slots.alive(second), Some(0));
    }

    #[test]
    fn a_socket_moves_out_of_the_table_and_keeps_its_key() {
        let mut slots = Slots::new();
        let conn = slots.insert(descriptor(), READ_TOLD).expect("room");
        assert!(slots.relocate(conn.index, 70_000).is_some());
        assert_eq!(slots.alive(conn), Some(READ_TOLD));
        assert!(matches!(slots.socket(conn.index), Socket::Registered(70_000)));
        assert!(slots.relocate(conn.index, 7).is_none());
        assert!(matches!(slots.remove(conn.index), Socket::Registered(7)));
        assert_eq!(slots.alive(conn), None);
    }

    #[test]
    fn the_generation_wraps_past_zero() {
        let mut slots = Slots::new();
        let conn = slots.insert(descriptor(), 0).expect("room");
        slots.slots[conn.index].generation = u32::MAX;
        drop(slots.remove(conn.index));
        assert_eq!(slots.insert(descriptor(), 0).expect("room").generation, 1);
    }
}
