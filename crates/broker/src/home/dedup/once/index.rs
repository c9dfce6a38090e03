//! A table of places by hash: open addressing, four bytes for each slot.
//!
//! The table does not know the hashes; the caller has them by place, and lends them. A slot has 16
//! more bits of a second hash, so that two names are confused as rarely as with 80 bits.

use stdx::handing::Hand;
use stdx::memory::vector_bytes;

/// A name, hashed twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hashed {
    pub hash: u64,
    pub tag: u16,
}

impl Hashed {
    pub fn new(hash: u64, other: u64) -> Hashed {
        // A slot of 0 is free.
        Hashed { hash, tag: (other as u16).max(1) }
    }
}

/// See the module. A place is in it once at most.
#[derive(Debug, Default, Hand)]
pub(super) struct Index {
    /// The tag in the upper half, the place in the lower one; 0 is free. A power of two of them, at
    /// most five eighths of them in use.
    slots: Vec<u32>,
    len: usize,
}

const SLOTS_MIN: usize = 16;

impl Index {
    /// The place of a name.
    pub fn find(&self, name: Hashed, hash_of: impl Fn(u16) -> Option<u64>) -> Option<u16> {
        let mut at = self.home(name.hash)?;
        loop {
            let slot = *self.slots.get(at).filter(|slot| **slot != 0)?;
            let place = slot as u16;
            if (slot >> 16) as u16 == name.tag && hash_of(place) == Some(name.hash) {
                return Some(place);
            }
            at = self.next(at);
        }
    }

    /// Adds a name that it does not have.
    pub fn add(&mut self, name: Hashed, place: u16, hash_of: impl Fn(u16) -> Option<u64>) {
        self.len += 1;
        if self.len * 8 > self.slots.len() * 5 {
            let slots = vec![0; (self.slots.len() * 2).max(SLOTS_MIN)];
            let old = std::mem::replace(&mut self.slots, slots);
            for slot in old.into_iter().filter(|slot| *slot != 0) {
                self.put(hash_of(slot as u16).unwrap_or(0), slot);
            }
        }
        self.put(name.hash, u32::from(name.tag) << 16 | u32::from(place));
    }

    fn put(&mut self, hash: u64, slot: u32) {
        let Some(mut at) = self.home(hash) else {
            return;
        };
        while self.slots.get(at).is_some_and(|taken| *taken != 0) {
            at = self.next(at);
        }
        if let Some(free) = self.slots.get_mut(at) {
            *free = slot;
        }
    }

    /// Moves a name from one place to another.
    pub fn moved(&mut self, hash: u64, from: u16, to: u16) {
        if let Some(at) = self.slot_of(hash, from)
            && let Some(slot) = self.slots.get_mut(at)
        {
            *slot = *slot >> 16 << 16 | u32::from(to);
        }
    }

    /// Removes the name at a place.
    pub fn remove(&mut self, hash: u64, place: u16, hash_of: impl Fn(u16) -> Option<u64>) {
        let Some(mut free) = self.slot_of(hash, place) else {
            return;
        };
        self.len -= 1;
        // Those behind it move up, unless they would come before their homes.
        let mut at = self.next(free);
        while let Some(slot) = self.slots.get(at).copied().filter(|slot| *slot != 0) {
            let home = hash_of(slot as u16).and_then(|hash| self.home(hash)).unwrap_or(at);
            let mask = self.slots.len() - 1;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(free) & mask {
                self.slots[free] = slot;
                free = at;
            }
            at = self.next(at);
        }
        self.slots[free] = 0;
    }

    fn slot_of(&self, hash: u64, place: u16) -> Option<usize> {
        let mut at = self.home(hash)?;
        loop {
            let slot = *self.slots.get(at).filter(|slot| **slot != 0)?;
            if slot as u16 == place {
                return Some(at);
            }
            at = self.next(at);
        }
    }

    fn home(&self, hash: u64) -> Option<usize> {
        Some(hash as usize & self.slots.len().checked_sub(1)?)
    }

    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    pub fn allocated_bytes(&self) -> usize {
        vector_bytes::<u32>(self.slots.capacity())
    }
}
