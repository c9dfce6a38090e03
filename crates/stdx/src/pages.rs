//! A vector that grows page by page: growth never moves an entry, copies nothing, and leaves no
//! hole in the allocator.
//!
//! For tables that have an entry for each connection or topic and only ever grow. A `Vec` doubles:
//! every thread would have up to half of its table unused, or page-sized holes behind it after it
//! moved. Memory: the entries, 24 bytes for each page of `PAGE` of them, and in the newest page
//! only the used part is touched.

use crate::handing::{Hand, Input, Layout};
use crate::prefetch::prefetch;
use std::ops::{Index, IndexMut};

/// Entries with dense `u32` indexes, `PAGE` (a power of two) to a page. Owned by one shard.
#[derive(Debug)]
pub struct Pages<T, const PAGE: usize> {
    pages: Vec<Page<T, PAGE>>,
    len: u32,
}

/// The entries of a page; its allocation never moves.
#[derive(Debug)]
struct Page<T, const PAGE: usize>(Vec<T>);

impl<T, const PAGE: usize> Pages<T, PAGE> {
    /// Creates an empty table; allocates nothing.
    pub const fn new() -> Self {
        assert!(PAGE.is_power_of_two());
        Pages { pages: Vec::new(), len: 0 }
    }

    /// The number of entries.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an entry and returns its index.
    ///
    /// # Panics
    /// With 2^32 - 1 entries. Owners have their own, far lower bound.
    pub fn push(&mut self, value: T) -> u32 {
        let index = self.len;
        assert!(index != u32::MAX, "a table has at most 2^32 - 1 entries");
        if (index as usize).is_multiple_of(PAGE) {
            self.pages.push(Page(Vec::with_capacity(PAGE)));
        }
        if let Some(Page(page)) = self.pages.last_mut() {
            page.push(value);
        }
        self.len += 1;
        index
    }

    /// Adds entries until `index` exists.
    pub fn grow_to(&mut self, index: u32, mut value: impl FnMut() -> T) {
        while self.len <= index {
            self.push(value());
        }
    }

    /// The entry at an index.
    pub fn get(&self, index: u32) -> Option<&T> {
        let (page, entry) = split::<PAGE>(index);
        self.pages.get(page)?.0.get(entry)
    }

    /// The entry at an index, mutable.
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        let (page, entry) = split::<PAGE>(index);
        self.pages.get_mut(page)?.0.get_mut(entry)
    }

    /// Asks for the memory of an entry; see [`crate::prefetch`].
    #[inline]
    pub fn prefetch(&self, index: u32) {
        if let Some(entry) = self.get(index) {
            prefetch(entry);
        }
    }

    /// All entries in the order of their indexes.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flat_map(|Page(page)| page)
    }

    /// All entries in the order of their indexes, mutable.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.pages.iter_mut().flat_map(|Page(page)| page)
    }

    /// Bytes touched, without what the entries themselves own.
    pub fn memory_bytes(&self) -> usize {
        self.len as usize * size_of::<T>() + self.pages.len() * size_of::<Page<T, PAGE>>()
    }
}

fn split<const PAGE: usize>(index: u32) -> (usize, usize) {
    (index as usize / PAGE, index as usize % PAGE)
}

impl<T, const PAGE: usize> Default for Pages<T, PAGE> {
    fn default() -> Self {
        Pages::new()
    }
}

impl<T, const PAGE: usize> Index<u32> for Pages<T, PAGE> {
    type Output = T;

    /// # Panics
    /// If the index does not exist: the caller's own table is then broken.
    fn index(&self, index: u32) -> &T {
        let (page, entry) = split::<PAGE>(index);
        &self.pages[page].0[entry]
    }
}

impl<T, const PAGE: usize> IndexMut<u32> for Pages<T, PAGE> {
    /// # Panics
    /// If the index does not exist: the caller's own table is then broken.
    fn index_mut(&mut self, index: u32) -> &mut T {
        let (page, entry) = split::<PAGE>(index);
        &mut self.pages[page].0[entry]
    }
}

impl<T: Hand, const PAGE: usize> Hand for Pages<T, PAGE> {
    fn give(&self, out: &mut Vec<u8>) {
        self.len.give(out);
        self.iter().for_each(|value| value.give(out));
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        let mut pages = Pages::new();
        for _ in 0..u32::take(input)? {
            pages.push(T::take(input)?);
        }
        Some(pages)
    }

    fn layout(layout: &mut Layout) {
        layout.name("Pages");
        T::layout(layout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_agree_with_a_vector() {
        let mut pages: Pages<u32, 8> = Pages::new();
        let mut model = Vec::new();
        assert!(pages.is_empty() && pages.get(0).is_none());
        for value in 0..100 {
            assert_eq!(pages.push(value), value);
            model.push(value);
            pages[value / 2] += 7;
            model[value as usize / 2] += 7;
        }
        assert_eq!(pages.len(), 100);
        assert!(pages.iter().eq(&model));
        pages.iter_mut().for_each(|value| *value *= 2);
        model.iter_mut().for_each(|value| *value *= 2);
        for index in 0..100 {
            assert_eq!(pages.get(index), model.get(index as usize));
        }
        assert!(pages.get(100).is_none() && pages.get_mut(u32::MAX).is_none());
    }

    #[test]
    fn growth_moves_no_entry_and_touches_no_unused_memory() {
        let mut pages: Pages<u64, 256> = Pages::new();
        pages.grow_to(0, || 1);
        let place = std::ptr::from_ref(&pages[0]);
        pages.grow_to(9_999, || 2);
        pages.grow_to(5, || 3);
        assert_eq!((pages.len(), pages[0], pages[9_999]), (10_000, 1, 2));
        assert_eq!(std::ptr::from_ref(&pages[0]), place);
        let heads = 10_000_usize.div_ceil(256) * size_of::<Vec<u64>>();
        assert_eq!(pages.memory_bytes(), 10_000 * 8 + heads);
    }
}
