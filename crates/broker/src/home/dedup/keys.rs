//! Idempotency keys: the newest of a home, in the order in which they came, and a table to find
//! them.
//!
//! Invariant: a number in the table is that of an entry in the queue; an entry whose key has been
//! noted again, or taken back, is in the queue only, until its turn to go. Growth never pauses:
//! entries lie in pages, the table is in parts.

use super::Identity;
use hashbrown::HashTable;
use std::collections::VecDeque;
use stdx::handing::{Hand, Input, Layout};

/// Entries of one page.
const PAGE_ENTRIES: usize = 1024;
/// Parts of the table.
const TABLES_COUNT: usize = 64;
/// Entries that one call frees beside its own work.
const FREED_MAX: usize = 4;
/// Entries that one sweep frees.
const SWEPT_MAX: usize = 4096;

#[derive(Debug)]
pub(super) struct Keys {
    /// Oldest first; all but the last are full.
    pages: VecDeque<Vec<Entry>>,
    /// Entries of the oldest page that are gone.
    gone: usize,
    /// Number of the first entry of the oldest page; numbers wrap.
    first: u32,
    /// Numbers of entries.
    tables: Box<[HashTable<u32>]>,
    keys_max: usize,
    window_ms: u64,
}

#[derive(Clone, Copy, Debug, Hand)]
struct Entry {
    key: Identity,
    offset: u64,
    /// Elapsed milliseconds.
    noted_ms: u64,
}

const _: () = assert!(size_of::<Entry>() == 32);

impl Keys {
    pub fn new(keys_max: u32, window_ms: u64) -> Keys {
        Keys {
            pages: VecDeque::new(),
            gone: 0,
            first: 0,
            tables: (0..TABLES_COUNT).map(|_| HashTable::new()).collect(),
            keys_max: keys_max as usize,
            window_ms,
        }
    }

    pub fn window_ms(&self) -> u64 {
        self.window_ms
    }

    /// Offset of the publication with this key.
    pub fn find(&self, now_ms: u64, key: Identity) -> Option<u64> {
        let number = self.tables[table_of(key)]
            .find(key[0], |number| self.entry(*number).is_some_and(|entry| entry.key == key))?;
        self.entry(*number).filter(|entry| !self.is_old(entry, now_ms)).map(|entry| entry.offset)
    }

    /// Remembers a key, in place of its former offset, and forgets the oldest key beyond the bound.
    pub fn note(&mut self, now_ms: u64, key: Identity, offset: u64) {
        if self.keys_max == 0 {
            return;
        }
        self.free_old(now_ms, FREED_MAX);
        while self.len() >= self.keys_max {
            self.pop();
        }
        if self.pages.back().is_none_or(|page| page.len() == PAGE_ENTRIES) {
            self.pages.push_back(Vec::with_capacity(PAGE_ENTRIES));
        }
        let number = self.end();
        if let Some(page) = self.pages.back_mut() {
            page.push(Entry { key, offset, noted_ms: now_ms });
        }
        let (pages, first) = (&self.pages, self.first);
        let table = &mut self.tables[table_of(key)];
        let same = |number: &u32| entry_at(pages, first, *number).is_some_and(|e| e.key == key);
        match table.find_mut(key[0], same) {
            Some(place) => *place = number,
            None => {
                table.insert_unique(key[0], number, |number| {
                    entry_at(pages, first, *number).map_or(0, |entry| entry.key[0])
                });
            }
        }
    }

    /// A key that stands for `from` stands for an offset from now on.
    pub fn placed(&mut self, key: Identity, from: u64, offset: u64) {
        let (pages, first) = (&self.pages, self.first);
        let same = |number: &u32| {
            entry_at(pages, first, *number).is_some_and(|e| e.key == key && e.offset == from)
        };
        let Some(number) = self.tables[table_of(key)].find(key[0], same).copied() else {
            return;
        };
        let place = number.wrapping_sub(self.first) as usize;
        let page = self.pages.get_mut(place / PAGE_ENTRIES);
        if let Some(entry) = page.and_then(|page| page.get_mut(place % PAGE_ENTRIES)) {
            entry.offset = offset;
        }
    }

    /// Forgets a key if it stands for this offset.
    pub fn take_back(&mut self, key: Identity, offset: u64) {
        let (pages, first) = (&self.pages, self.first);
        let same = |number: &u32| {
            entry_at(pages, first, *number).is_some_and(|e| e.key == key && e.offset == offset)
        };
        if let Ok(found) = self.tables[table_of(key)].find_entry(key[0], same) {
            found.remove();
        }
    }

    /// True if there may be more that is too old.
    pub fn sweep(&mut self, now_ms: u64) -> bool {
        self.free_old(now_ms, SWEPT_MAX)
    }

    /// Entries in the queue.
    pub fn len(&self) -> usize {
        let full = self.pages.len().saturating_sub(1) * PAGE_ENTRIES;
        full + self.pages.back().map_or(0, Vec::len) - self.gone
    }

    pub fn allocated_bytes(&self) -> usize {
        let tables: usize = self.tables.iter().map(HashTable::allocation_size).sum();
        self.pages.len() * PAGE_ENTRIES * size_of::<Entry>()
            + self.pages.capacity() * size_of::<Vec<Entry>>()
            + tables
    }

    fn free_old(&mut self, now_ms: u64, entries_max: usize) -> bool {
        for _ in 0..entries_max {
            let oldest = self.pages.front().and_then(|page| page.get(self.gone));
            if !oldest.is_some_and(|oldest| self.is_old(oldest, now_ms)) {
                return false;
            }
            self.pop();
        }
        true
    }

    /// Forgets the oldest entry.
    fn pop(&mut self) {
        let Some(oldest) = self.pages.front().and_then(|page| page.get(self.gone)) else {
            return;
        };
        let key = oldest.key;
        let number = self.first.wrapping_add(self.gone as u32);
        // The key may have been noted again: then the table holds the newer number.
        if let Ok(found) = self.tables[table_of(key)].find_entry(key[0], |other| *other == number) {
            found.remove();
        }
        self.gone += 1;
        if self.gone == PAGE_ENTRIES || self.len() == 0 {
            let count = self.pages.pop_front().map_or(0, |page| page.len());
            self.first = self.first.wrapping_add(count as u32);
            self.gone = 0;
        }
        if self.pages.is_empty() {
            for table in self.tables.iter_mut().filter(|table| table.capacity() > 0) {
                *table = HashTable::new();
            }
        }
    }

    /// The number that the next entry gets.
    fn end(&self) -> u32 {
        self.first.wrapping_add((self.len() + self.gone) as u32)
    }

    fn entry(&self, number: u32) -> Option<&Entry> {
        entry_at(&self.pages, self.first, number)
    }

    fn is_old(&self, entry: &Entry, now_ms: u64) -> bool {
        now_ms.saturating_sub(entry.noted_ms) > self.window_ms
    }
}

fn entry_at(pages: &VecDeque<Vec<Entry>>, first: u32, number: u32) -> Option<&Entry> {
    let place = number.wrapping_sub(first) as usize;
    pages.get(place / PAGE_ENTRIES)?.get(place % PAGE_ENTRIES)
}

/// The tables examine the other half's bits.
fn table_of(key: Identity) -> usize {
    key[1] as usize % TABLES_COUNT
}

impl Hand for Keys {
    fn give(&self, out: &mut Vec<u8>) {
        self.pages.give(out);
        (self.gone, self.first, self.keys_max, self.window_ms).give(out);
        let tables = self.tables.iter().flatten();
        let numbers: Vec<u32> = tables.copied().collect();
        numbers.give(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        let mut keys = Keys::new(0, 0);
        for mut page in <Vec<Vec<Entry>>>::take(input)? {
            page.reserve_exact(PAGE_ENTRIES.saturating_sub(page.len()));
            keys.pages.push_back(page);
        }
        (keys.gone, keys.first, keys.keys_max, keys.window_ms) = Hand::take(input)?;
        let numbers = <Vec<u32>>::take(input)?;
        let (pages, first) = (&keys.pages, keys.first);
        let hash = |number: &u32| entry_at(pages, first, *number).map_or(0, |entry| entry.key[0]);
        for number in numbers {
            let key = entry_at(pages, first, number)?.key;
            keys.tables[table_of(key)].insert_unique(key[0], number, hash);
        }
        Some(keys)
    }

    fn layout(layout: &mut Layout) {
        layout.name("Keys");
        <(VecDeque<Vec<Entry>>, (usize, u32, usize, u64))>::layout(layout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> Identity {
        [number.wrapping_mul(0x9e37_79b9_7f4a_7c15), number]
    }

    #[test]
    fn the_oldest_goes_first() {
        let mut keys = Keys::new(3, 100);
        for number in 1..=4 {
            keys.note(0, key(number), number);
        }
        let found = |keys: &Keys| [1, 2, 3, 4].map(|number| keys.find(0, key(number)));
        assert_eq!(found(&keys), [None, Some(2), Some(3), Some(4)]);
        // Noted again: what it stood for before neither stays nor takes the new one along when it
        // goes.
        keys.note(0, key(2), 5);
        keys.note(0, key(6), 6);
        assert_eq!(found(&keys), [None, Some(5), None, Some(4)]);
    }

    #[test]
    fn nothing_is_older_than_the_window() {
        let mut keys = Keys::new(10, 100);
        keys.note(1_000, key(1), 1);
        keys.note(1_050, key(2), 2);
        assert_eq!(keys.find(1_100, key(1)), Some(1));
        assert_eq!(keys.find(1_101, key(1)), None);
        assert!(!keys.sweep(1_101));
        assert_eq!((keys.len(), keys.find(1_101, key(2))), (1, Some(2)));
        assert!(!keys.sweep(2_000));
        assert_eq!(keys.len(), 0);
        // No entry, no memory but a few pages' names.
        assert!(keys.allocated_bytes() <= 4 * size_of::<Vec<Entry>>());
    }

    #[test]
    fn taken_back() {
        let mut keys = Keys::new(10, 100);
        keys.note(0, key(1), 1);
        keys.take_back(key(1), 2);
        assert_eq!(keys.find(0, key(1)), Some(1));
        keys.take_back(key(1), 1);
        assert_eq!(keys.find(0, key(1)), None);
    }

    /// The bytes per key that `docs/operating.md` gives; and numbers that wrap around.
    #[test]
    fn bytes_per_key() {
        let mut keys = Keys::new(1_000_000, 100);
        keys.first = u32::MAX - 100_000;
        for number in 0..1_200_000 {
            keys.note(0, key(number), number);
        }
        assert_eq!(keys.len(), 1_000_000);
        assert!(
            (200_000..1_200_000).all(|number| keys.find(0, key(number)) == Some(number)),
            "all of the newest are found"
        );
        assert!(keys.find(0, key(199_999)).is_none());
        let bytes = keys.allocated_bytes() / 1_000_000;
        assert!(bytes <= 48, "{bytes} bytes for each key");
    }
}
