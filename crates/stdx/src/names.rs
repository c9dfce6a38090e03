//! An arena of short names: the bytes of every topic that a home or edge shard knows, once.
//!
//! A handle is 4 bytes; a name costs its length, one byte for the length, and at most one of
//! padding: 18 bytes for a name of 16. (Names of one or two bytes take 4.) Pages of 64 KiB never
//! move, so growth does not pause. Free space is listed by size and reused for the next name of
//! that size; without a free slot of that size, a larger one is split. Memory is that of the
//! largest number of names at one time, apart from fragments.

use crate::handing::Hand;
use crate::prefetch::prefetch;
use std::num::NonZeroU32;

/// The maximum length of a name, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

const UNIT_BYTES: usize = 2;
const PAGE_BYTES: usize = 64 * 1024;
const PAGE_UNITS: usize = PAGE_BYTES / UNIT_BYTES;
/// The size of the smallest slot: a free one holds the handle of the next free one of its size.
const PLACE_UNITS_MIN: usize = 2;
const PLACE_UNITS_MAX: usize = (1 + NAME_BYTES_MAX).div_ceil(UNIT_BYTES);
/// The number of sizes: one list of free slots per size, and one bit per list.
const SIZES: usize = PLACE_UNITS_MAX + 1;

/// The location of a name. 4 bytes, as is an `Option` of it. Valid until the name is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Hand)]
pub struct Name(NonZeroU32);

const _: () = assert!(size_of::<Option<Name>>() == 4);

/// The arena. Owned by one shard, which never uses a handle after `remove`: the slot may then hold
/// another name, or bytes that were never a name (wrong, but within bounds).
#[derive(Debug, Hand)]
pub struct Names {
    pages: Vec<Box<[u8]>>,
    /// Units of the newest page that are in use.
    used_units: usize,
    free: [Option<Name>; SIZES],
    /// Bit n: `free[n]` has slots.
    free_sizes: [u128; 2],
    len: usize,
    live_bytes: usize,
}

/// A copy of a name, for a caller that changes the arena's owner meanwhile.
#[derive(Clone, Debug)]
pub struct NameText {
    bytes: [u8; NAME_BYTES_MAX],
    len: u8,
}

impl std::ops::Deref for NameText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl Names {
    /// Creates an empty arena; allocates only the arena itself, about 600 bytes.
    pub const fn new() -> Names {
        Names {
            pages: Vec::new(),
            used_units: PAGE_UNITS,
            free: [None; SIZES],
            free_sizes: [0; 2],
            len: 0,
            live_bytes: 0,
        }
    }

    /// Stores a copy of the bytes. None if they are longer than [`NAME_BYTES_MAX`] or the arena is
    /// full (8 GiB). Equal names are stored twice: the caller's table avoids duplicates.
    pub fn insert(&mut self, bytes: &[u8]) -> Option<Name> {
        let len = u8::try_from(bytes.len()).ok()?;
        let units = units_of(len);
        let name = match self.take_free(units) {
            Some(name) => name,
            None => self.take_new(units)?,
        };
        let place = self.place_mut(name, 1 + bytes.len())?;
        place[0] = len;
        place[1..].copy_from_slice(bytes);
        self.len += 1;
        self.live_bytes += units * UNIT_BYTES;
        Some(name)
    }

    /// The bytes of a name.
    pub fn get(&self, name: Name) -> &[u8] {
        let (page, start) = split(name);
        let place = self.pages.get(page).and_then(|page| page.get(start..)).unwrap_or_default();
        match place.split_first() {
            Some((len, rest)) => rest.get(..*len as usize).unwrap_or_default(),
            None => &[],
        }
    }

    /// A copy of a name, without the allocator.
    #[inline]
    pub fn text(&self, name: Name) -> NameText {
        let found = self.get(name);
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes[..found.len()].copy_from_slice(found);
        NameText { bytes, len: found.len() as u8 }
    }

    /// Asks for the memory of the beginning of a name; see [`crate::prefetch`].
    #[inline]
    pub fn prefetch(&self, name: Name) {
        let (page, start) = split(name);
        if let Some(first) = self.pages.get(page).and_then(|page| page.get(start)) {
            prefetch(first);
        }
    }

    /// Removes the name; its space is reused.
    pub fn remove(&mut self, name: Name) {
        let units = units_of(self.get(name).len() as u8);
        self.put_free(name, units);
        self.len = self.len.saturating_sub(1);
        self.live_bytes = self.live_bytes.saturating_sub(units * UNIT_BYTES);
    }

    /// The number of names.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the present names, with length and padding.
    pub fn live_bytes(&self) -> usize {
        self.live_bytes
    }

    /// Allocated bytes.
    pub fn allocated_bytes(&self) -> usize {
        self.pages.len() * PAGE_BYTES + self.pages.capacity() * size_of::<Box<[u8]>>()
    }

    /// Bytes touched: [`Names::allocated_bytes`] without the unused part of the newest page.
    pub fn memory_bytes(&self) -> usize {
        let unused = (PAGE_UNITS - self.used_units) * UNIT_BYTES;
        (self.pages.len() * PAGE_BYTES).saturating_sub(unused)
            + self.pages.len() * size_of::<Box<[u8]>>()
    }

    fn take_free(&mut self, units: usize) -> Option<Name> {
        let name = self.pop_free(units);
        if name.is_some() {
            return name;
        }
        // The rest of a split slot must be large enough for a list of its own.
        let larger = self.free_size_from(units + PLACE_UNITS_MIN)?;
        let name = self.pop_free(larger)?;
        let rest = Name(name.0.checked_add(units as u32)?);
        self.put_free(rest, larger - units);
        Some(name)
    }

    fn take_new(&mut self, units: usize) -> Option<Name> {
        if self.used_units + units > PAGE_UNITS {
            let page = self.pages.len();
            if (page + 1) * PAGE_UNITS > u32::MAX as usize {
                return None;
            }
            let rest = PAGE_UNITS - self.used_units;
            if rest >= PLACE_UNITS_MIN
                && let Some(name) = page.checked_sub(1).and_then(|page| join(page, self.used_units))
            {
                self.put_free(name, rest);
            }
            self.pages.push(vec![0; PAGE_BYTES].into_boxed_slice());
            self.used_units = 0;
        }
        let name = join(self.pages.len() - 1, self.used_units)?;
        self.used_units += units;
        Some(name)
    }

    fn pop_free(&mut self, units: usize) -> Option<Name> {
        let name = self.free[units]?;
        let link: [u8; 4] = self.place_mut(name, 4)?.try_into().ok()?;
        self.free[units] = NonZeroU32::new(u32::from_le_bytes(link)).map(Name);
        if self.free[units].is_none() {
            self.free_sizes[units / 128] &= !(1 << (units % 128));
        }
        Some(name)
    }

    fn put_free(&mut self, name: Name, units: usize) {
        let next = self.free[units].map_or(0, |next| next.0.get());
        if let Some(place) = self.place_mut(name, 4) {
            place.copy_from_slice(&next.to_le_bytes());
            self.free[units] = Some(name);
            self.free_sizes[units / 128] |= 1 << (units % 128);
        }
    }

    /// The smallest size from `units` up that has a free slot.
    fn free_size_from(&self, units: usize) -> Option<usize> {
        (units / 128..2).find_map(|word| {
            let below = units.saturating_sub(word * 128).min(127);
            let bits = self.free_sizes[word] & (u128::MAX << below);
            (bits != 0).then(|| word * 128 + bits.trailing_zeros() as usize)
        })
    }

    fn place_mut(&mut self, name: Name, len: usize) -> Option<&mut [u8]> {
        let (page, start) = split(name);
        self.pages.get_mut(page)?.get_mut(start..start + len)
    }
}

impl Default for Names {
    fn default() -> Names {
        Names::new()
    }
}

fn units_of(len: u8) -> usize {
    (1 + len as usize).div_ceil(UNIT_BYTES).max(PLACE_UNITS_MIN)
}

/// The page of a name and its first byte there.
fn split(name: Name) -> (usize, usize) {
    let unit = name.0.get() as usize - 1;
    (unit / PAGE_UNITS, unit % PAGE_UNITS * UNIT_BYTES)
}

fn join(page: usize, unit: usize) -> Option<Name> {
    u32::try_from(page * PAGE_UNITS + unit + 1).ok().and_then(NonZeroU32::new).map(Name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;

    fn random_name(prng: &mut Prng) -> Vec<u8> {
        let len_max = if prng.chance(0.1) { 256 } else { 30 };
        let mut bytes = vec![0; prng.below(len_max) as usize];
        prng.fill(&mut bytes);
        bytes
    }

    #[test]
    fn a_name_costs_its_length_and_at_most_two_bytes() {
        let mut names = Names::new();
        for number in 0..100_000u32 {
            names.insert(format!("prices/{number:09}").as_bytes()).unwrap();
        }
        assert_eq!(names.live_bytes(), 18 * 100_000);
        assert!(names.allocated_bytes() <= 18 * 100_000 + 2 * PAGE_BYTES);
    }

    #[test]
    fn lengths_are_bounded() {
        let mut names = Names::new();
        let all: Vec<Vec<u8>> = (0..=255u8).map(|len| vec![len; len as usize]).collect();
        let handles: Vec<Name> = all.iter().map(|name| names.insert(name).unwrap()).collect();
        assert!(handles.iter().zip(&all).all(|(handle, name)| names.get(*handle) == *name));
        assert!(handles.iter().zip(&all).all(|(handle, name)| *names.text(*handle) == **name));
        assert!(names.insert(&[0; 256]).is_none());
        assert_eq!(names.len(), 256);
    }

    #[test]
    fn names_agree_with_owned_copies() {
        for seed in 0..5 {
            let mut prng = Prng::new(seed);
            let mut names = Names::new();
            let mut owned: Vec<(Name, Vec<u8>)> = Vec::new();
            for step in 0..30_000 {
                let growing = step % 10_000 < 6_000;
                if owned.is_empty() || prng.chance(if growing { 0.7 } else { 0.3 }) {
                    let bytes = random_name(&mut prng);
                    owned.push((names.insert(&bytes).unwrap(), bytes));
                } else {
                    let (name, bytes) = owned.swap_remove(prng.below(owned.len() as u64) as usize);
                    assert_eq!(names.get(name), bytes);
                    names.remove(name);
                }
            }
            assert!(owned.iter().all(|(name, bytes)| names.get(*name) == *bytes), "seed {seed}");
            assert_eq!(names.len(), owned.len());
            owned.iter().for_each(|(name, _)| names.remove(*name));
            assert_eq!((names.live_bytes(), names.is_empty()), (0, true));
        }
    }

    /// Space is reused: names that are removed and stored again and again need no more pages;
    /// smaller names use the space of larger ones.
    #[test]
    fn space_is_reused() {
        let mut names = Names::new();
        let mut fill = |len: usize| {
            let handles: Vec<Name> =
                (0..5_000).map(|_| names.insert(&vec![1; len]).unwrap()).collect();
            handles.into_iter().for_each(|handle| names.remove(handle));
            names.pages.len()
        };
        let pages = fill(99);
        assert_eq!([fill(99), fill(99), fill(20), fill(9)], [pages; 4]);
    }
}
