//! A table with dense `u32` indexes that grows page by page, so that growth never moves an entry or
//! pauses.
//!
//! Connections, topics and subscriptions live in slabs. An index is reused after `remove`, newest
//! first, so live entries stay dense; an owner that must distinguish an earlier occupant from a
//! later one keeps a generation in the entry (see [`Key`](crate::key::Key)).
//!
//! Memory: an entry costs `size_of::<T>()` rounded up for a one-word free link: nothing more if `T`
//! has a niche (a `NonZero`, an enum, a reference), else one more unit of `T`'s alignment (4 bytes
//! for a `T` of `u32`s). In addition, 24 bytes per page of 1,024 entries. Pages are kept for reuse,
//! so the memory is that of the greatest number of entries at one time; the part of the newest page
//! that was never used is not touched.

use crate::handing::{Hand, Input, Layout};
use crate::prefetch::prefetch;
use std::ops::{Index, IndexMut};

/// The number of entries in a page.
const PAGE_ENTRIES: usize = 1024;
/// The end of the free list; also the maximum number of slots.
const NONE: u32 = u32::MAX;

/// A table of `T` with dense `u32` indexes. Owned by one shard.
#[derive(Debug)]
pub struct Slab<T> {
    pages: Vec<Vec<Entry<T>>>,
    free: u32,
    places: u32,
    len: u32,
}

#[derive(Debug)]
enum Entry<T> {
    /// The next free slot, or NONE.
    Vacant(u32),
    Occupied(T),
}

impl<T> Slab<T> {
    /// The size of one entry.
    pub const ENTRY_BYTES: usize = size_of::<Entry<T>>();

    /// Creates an empty slab; allocates nothing.
    pub const fn new() -> Slab<T> {
        Slab { pages: Vec::new(), free: NONE, places: 0, len: 0 }
    }

    /// Puts the value into a free slot and returns its index.
    ///
    /// # Panics
    /// With 2^32 - 1 entries. Owners have their own, far lower bound.
    pub fn insert(&mut self, value: T) -> u32 {
        let index = self.next_index();
        assert!(index != NONE, "a slab has at most 2^32 - 1 entries");
        let (page, entry) = split(index);
        if index == self.places {
            if page == self.pages.len() {
                self.pages.push(Vec::with_capacity(PAGE_ENTRIES));
            }
            self.pages[page].push(Entry::Occupied(value));
            self.places += 1;
        } else {
            let before = std::mem::replace(&mut self.pages[page][entry], Entry::Occupied(value));
            self.free = match before {
                Entry::Vacant(next) => next,
                Entry::Occupied(_) => unreachable!("the free list names vacant places only"),
            };
        }
        self.len += 1;
        index
    }

    /// The index that the next `insert` will use.
    pub fn next_index(&self) -> u32 {
        if self.free != NONE { self.free } else { self.places }
    }

    /// Removes the value and frees its slot. None if the slot is vacant.
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let (page, entry) = split(index);
        let place = self.pages.get_mut(page)?.get_mut(entry)?;
        if let Entry::Vacant(_) = place {
            return None;
        }
        let Entry::Occupied(value) = std::mem::replace(place, Entry::Vacant(self.free)) else {
            return None;
        };
        self.free = index;
        self.len -= 1;
        Some(value)
    }

    /// The value at an index.
    pub fn get(&self, index: u32) -> Option<&T> {
        let (page, entry) = split(index);
        match self.pages.get(page)?.get(entry)? {
            Entry::Occupied(value) => Some(value),
            Entry::Vacant(_) => None,
        }
    }

    /// The value at an index, mutable.
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        let (page, entry) = split(index);
        match self.pages.get_mut(page)?.get_mut(entry)? {
            Entry::Occupied(value) => Some(value),
            Entry::Vacant(_) => None,
        }
    }

    /// Asks for the memory of an entry; see [`crate::prefetch`].
    #[inline]
    pub fn prefetch(&self, index: u32) {
        let (page, entry) = split(index);
        if let Some(entry) = self.pages.get(page).and_then(|page| page.get(entry)) {
            prefetch(entry);
        }
    }

    /// Whether the slot holds a value.
    pub fn contains(&self, index: u32) -> bool {
        self.get(index).is_some()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of slots ever used: every entry's index is below. For sweeps in steps: call
    /// `get(i)` for a range of `i`.
    pub fn places(&self) -> u32 {
        self.places
    }

    /// All entries with their indexes, ascending. Visits every slot ever used.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.pages.iter().flatten().zip(0u32..).filter_map(|(entry, index)| match entry {
            Entry::Occupied(value) => Some((index, value)),
            Entry::Vacant(_) => None,
        })
    }

    /// Allocated bytes, without what the entries themselves own.
    pub fn allocated_bytes(&self) -> usize {
        self.pages.len() * PAGE_ENTRIES * Self::ENTRY_BYTES
            + self.pages.capacity() * size_of::<Vec<Entry<T>>>()
    }

    /// Bytes touched, without what the entries themselves own: [`Slab::allocated_bytes`] without
    /// the unused part of the newest page.
    pub fn memory_bytes(&self) -> usize {
        self.places as usize * Self::ENTRY_BYTES + self.pages.len() * size_of::<Vec<Entry<T>>>()
    }
}

fn split(index: u32) -> (usize, usize) {
    (index as usize / PAGE_ENTRIES, index as usize % PAGE_ENTRIES)
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab::new()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    /// # Panics
    /// If the slot is vacant: the caller's own table is then broken.
    fn index(&self, index: u32) -> &T {
        match self.get(index) {
            Some(value) => value,
            None => panic!("nothing in place {index}"),
        }
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    /// # Panics
    /// If the slot is vacant: the caller's own table is then broken.
    fn index_mut(&mut self, index: u32) -> &mut T {
        match self.get_mut(index) {
            Some(value) => value,
            None => panic!("nothing in place {index}"),
        }
    }
}

/// Indexes stay the same, and free slots are reused in the same order.
impl<T: Hand> Hand for Slab<T> {
    fn give(&self, out: &mut Vec<u8>) {
        (self.places, self.free).give(out);
        for entry in self.pages.iter().flatten() {
            match entry {
                Entry::Vacant(next) => (0_u8, *next).give(out),
                Entry::Occupied(value) => {
                    out.push(1);
                    value.give(out);
                }
            }
        }
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        let mut slab = Slab::new();
        let places = u32::take(input)?;
        slab.free = u32::take(input)?;
        for place in 0..places {
            let (page, _) = split(place);
            if page == slab.pages.len() {
                slab.pages.push(Vec::with_capacity(PAGE_ENTRIES));
            }
            let entry = match u8::take(input)? {
                0 => Entry::Vacant(u32::take(input)?),
                1 => Entry::Occupied(T::take(input)?),
                _ => return None,
            };
            slab.len += u32::from(matches!(entry, Entry::Occupied(_)));
            slab.pages[page].push(entry);
            slab.places += 1;
        }
        Some(slab)
    }

    fn layout(layout: &mut Layout) {
        layout.name("Slab");
        T::layout(layout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;
    use std::collections::BTreeMap;
    use std::num::NonZeroU8;

    #[test]
    fn an_entry_costs_its_size_and_a_free_link() {
        assert_eq!(Slab::<u32>::ENTRY_BYTES, 8);
        assert_eq!(Slab::<[u32; 15]>::ENTRY_BYTES, 64);
        assert_eq!(Slab::<([u32; 15], [u8; 3], NonZeroU8)>::ENTRY_BYTES, 64);
        assert_eq!(Slab::<Box<u8>>::ENTRY_BYTES, 16);
    }

    #[test]
    fn slabs_agree_with_a_map() {
        let mut prng = Prng::new(7);
        let mut slab = Slab::new();
        let mut map = BTreeMap::new();
        for step in 0..20_000u64 {
            if prng.chance(0.6) {
                let expected = slab.next_index();
                let index = slab.insert(step);
                assert_eq!(index, expected);
                assert!(map.insert(index, step).is_none());
            } else {
                let index = prng.below(slab.places() as u64 + 3) as u32;
                assert_eq!(slab.remove(index), map.remove(&index));
            }
            if let Some(value) = slab.get_mut(step as u32 % 5_000) {
                *value += 1;
                *map.get_mut(&(step as u32 % 5_000)).unwrap() += 1;
            }
        }
        assert_eq!(slab.len(), map.len());
        assert!(slab.iter().map(|(index, value)| (index, *value)).eq(map));
        assert!(!slab.contains(u32::MAX) && slab.remove(u32::MAX).is_none());
    }

    #[test]
    fn freed_slots_are_reused_first() {
        let mut slab = Slab::new();
        let places: Vec<u32> = (0..3_000).map(|value| slab.insert(value)).collect();
        assert!(places.iter().copied().eq(0..3_000));
        let before = slab.allocated_bytes();
        for place in &places {
            slab.remove(*place);
        }
        assert!(slab.is_empty());
        for value in 0..3_000 {
            slab.insert(value);
        }
        assert_eq!((slab.places(), slab.allocated_bytes()), (3_000, before));
        slab[5] = 9;
        assert_eq!(slab[5], 9);
    }
}
