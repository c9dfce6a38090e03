//! From a flow to its place in another structure: 6 bytes for an entry, and a lookup that touches
//! one cache line before it touches the place.
//!
//! The table holds places (below 2^26) and 22 bits of their hashes, ten to a bucket of 64 bytes. It
//! is divided into segments by other bits of the hash, and each segment grows by itself, by a
//! quarter: the table never pauses to grow, and growing touches no place, because the 22 bits give
//! the new bucket, too. A bucket that is full continues in an extra one.
//!
//! The hash must be keyed: peers choose their addresses and ports.

use stdx::prefetch::prefetch;

/// Places are below this number.
pub const PLACES_MAX: u32 = 1 << 26;

const BUCKET_ENTRIES: usize = 10;
const TAG_BITS: u32 = 22;
/// Bits of the tag that are compared first; the others are stored above the place.
const LOW_TAG_BITS: u32 = 16;
const NO_EXTRA: u16 = u16::MAX;
/// Average number of entries in a bucket above which the segment grows.
const LOAD_MAX: usize = 8;

#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Bucket {
    places: [u32; BUCKET_ENTRIES],
    tags: [u16; BUCKET_ENTRIES],
    /// The bucket in which this one continues.
    extra: u16,
    count: u8,
}

const _: () = assert!(size_of::<Bucket>() == 64);

const EMPTY: Bucket =
    Bucket { places: [0; BUCKET_ENTRIES], tags: [0; BUCKET_ENTRIES], extra: NO_EXTRA, count: 0 };

#[derive(Debug, Default)]
struct Segment {
    /// The buckets that the tags name.
    buckets: Vec<Bucket>,
    extras: Vec<Bucket>,
    free_extras: Vec<u16>,
    len: usize,
}

/// The table. Owned by one shard.
#[derive(Debug)]
pub struct Table {
    segments: Vec<Segment>,
    segment_bits: u32,
}

/// The part of a hash that the table keeps.
#[derive(Clone, Copy)]
struct Tag(u32);

impl Tag {
    fn of(hash: u64) -> Tag {
        Tag((hash >> 8) as u32 & ((1 << TAG_BITS) - 1))
    }

    fn bucket(self, count: usize) -> usize {
        ((u64::from(self.0) * count as u64) >> TAG_BITS) as usize
    }
}

impl Bucket {
    fn find(&self, tag: Tag, mut is_it: impl FnMut(u32) -> bool) -> Option<usize> {
        let low = tag.0 as u16;
        (0..usize::from(self.count).min(BUCKET_ENTRIES)).find(|&entry| {
            self.tags[entry] == low
                && self.places[entry] / PLACES_MAX == tag.0 >> LOW_TAG_BITS
                && is_it(self.places[entry] % PLACES_MAX)
        })
    }

    fn tag(&self, entry: usize) -> Tag {
        Tag(u32::from(self.tags[entry]) | (self.places[entry] / PLACES_MAX) << LOW_TAG_BITS)
    }
}

impl Table {
    /// Creates an empty table with 2^`segment_bits` segments, at most 2^16.
    pub fn new(segment_bits: u32) -> Table {
        let segment_bits = segment_bits.min(16);
        let segments = (0..1 << segment_bits).map(|_| Segment::default()).collect();
        Table { segments, segment_bits }
    }

    fn segment(&self, hash: u64) -> usize {
        // A shift by 64 bits would be an overflow.
        (u128::from(hash) << self.segment_bits >> 64) as usize
    }

    /// The place whose hash is this one, as far as the table knows, and for which `is_it` holds.
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let segment = &self.segments[self.segment(hash)];
        let tag = Tag::of(hash);
        let mut bucket = segment.buckets.get(tag.bucket(segment.buckets.len()))?;
        loop {
            if let Some(entry) = bucket.find(tag, &mut is_it) {
                return Some(bucket.places[entry] % PLACES_MAX);
            }
            bucket = segment.extras.get(usize::from(bucket.extra))?;
        }
    }

    /// Asks for the memory of the bucket of a hash; see [`stdx::prefetch`].
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        let segment = &self.segments[self.segment(hash)];
        if let Some(bucket) = segment.buckets.get(Tag::of(hash).bucket(segment.buckets.len())) {
            prefetch(bucket);
        }
    }

    /// A place whose hash may be this one: the first of its bucket with the same tag.
    #[inline]
    pub fn guess(&self, hash: u64) -> Option<u32> {
        let segment = &self.segments[self.segment(hash)];
        let tag = Tag::of(hash);
        let bucket = segment.buckets.get(tag.bucket(segment.buckets.len()))?;
        let entry = bucket.find(tag, |_| true)?;
        Some(bucket.places[entry] % PLACES_MAX)
    }

    /// Adds a place. The caller has made sure that the same one is not there.
    ///
    /// # Panics
    /// With a place of [`PLACES_MAX`] or above: the owner's bound is broken.
    pub fn insert(&mut self, hash: u64, place: u32) {
        assert!(place < PLACES_MAX, "place {place} does not fit the table");
        let segment = self.segment(hash);
        self.segments[segment].insert(Tag::of(hash), place);
    }

    /// Removes a place. Returns whether it was there.
    pub fn remove(&mut self, hash: u64, place: u32) -> bool {
        let segment = self.segment(hash);
        self.segments[segment].remove(Tag::of(hash), place)
    }

    /// Bytes in use.
    pub fn memory_bytes(&self) -> usize {
        let segments = self.segments.iter();
        let buckets: usize =
            segments.map(|segment| segment.buckets.capacity() + segment.extras.capacity()).sum();
        buckets * size_of::<Bucket>() + self.segments.len() * size_of::<Segment>()
    }
}

impl Segment {
    fn insert(&mut self, tag: Tag, place: u32) {
        if self.len >= self.buckets.len() * LOAD_MAX {
            self.grow();
        }
        self.len += 1;
        self.put(tag, place);
    }

    fn put(&mut self, tag: Tag, place: u32) {
        let first = tag.bucket(self.buckets.len());
        let mut at = None;
        loop {
            let extras_count = self.extras.len();
            let bucket = self.bucket_mut(first, at);
            let count = usize::from(bucket.count);
            if count < BUCKET_ENTRIES {
                bucket.tags[count] = tag.0 as u16;
                bucket.places[count] = place | ((tag.0 >> LOW_TAG_BITS) * PLACES_MAX);
                bucket.count += 1;
                return;
            }
            if bucket.extra == NO_EXTRA {
                let extra = self.free_extras.pop().unwrap_or_else(|| {
                    self.extras.push(EMPTY);
                    extras_count as u16
                });
                self.bucket_mut(first, at).extra = extra;
            }
            at = Some(self.bucket_mut(first, at).extra);
        }
    }

    fn bucket_mut(&mut self, first: usize, extra: Option<u16>) -> &mut Bucket {
        match extra {
            None => &mut self.buckets[first],
            Some(extra) => &mut self.extras[usize::from(extra)],
        }
    }

    fn grow(&mut self) {
        let count = (self.buckets.len() * 5 / 4).max(self.buckets.len() + 1);
        let old = std::mem::replace(&mut self.buckets, vec![EMPTY; count]);
        let extras = std::mem::take(&mut self.extras);
        self.free_extras.clear();
        for bucket in old.iter().chain(&extras) {
            for entry in 0..usize::from(bucket.count) {
                self.put(bucket.tag(entry), bucket.places[entry] % PLACES_MAX);
            }
        }
    }

    fn remove(&mut self, tag: Tag, place: u32) -> bool {
        if self.buckets.is_empty() {
            return false;
        }
        let first = tag.bucket(self.buckets.len());
        let mut at = None;
        let entry = loop {
            let bucket = self.bucket_mut(first, at);
            if let Some(entry) = bucket.find(tag, |found| found == place) {
                break entry;
            }
            if bucket.extra == NO_EXTRA {
                return false;
            }
            at = Some(bucket.extra);
        };
        // The last entry of the chain fills the hole.
        let (mut before, mut last) = (at, at);
        loop {
            let bucket = self.bucket_mut(first, last);
            if bucket.extra == NO_EXTRA {
                break;
            }
            before = last;
            last = Some(bucket.extra);
        }
        let bucket = self.bucket_mut(first, last);
        bucket.count -= 1;
        let count = usize::from(bucket.count);
        let (moved_tag, moved_place) = (bucket.tags[count], bucket.places[count]);
        let bucket = self.bucket_mut(first, at);
        bucket.tags[entry] = moved_tag;
        bucket.places[entry] = moved_place;
        self.len -= 1;
        if count == 0 && last.is_some() {
            self.drop_extra(first, before, last);
        }
        true
    }

    /// Frees the empty bucket at the end of a chain. `before` is the one before it, or the last one
    /// itself if the search ended there.
    fn drop_extra(&mut self, first: usize, before: Option<u16>, last: Option<u16>) {
        let Some(extra) = last else { return };
        let mut before = before;
        if before == last {
            before = None;
            while self.bucket_mut(first, before).extra != extra {
                before = Some(self.bucket_mut(first, before).extra);
            }
        }
        self.bucket_mut(first, before).extra = NO_EXTRA;
        self.free_extras.push(extra);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use stdx::prng::Prng;

    #[test]
    fn the_table_agrees_with_a_map() {
        for (seed, segment_bits) in [(1, 0), (2, 2), (3, 6)] {
            let mut prng = Prng::new(seed);
            let mut table = Table::new(segment_bits);
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            for step in 0..60_000_u32 {
                let is_growing = step % 20_000 < 12_000;
                if prng.chance(if is_growing { 0.8 } else { 0.2 }) {
                    // Few hashes: buckets overflow, and tags are equal.
                    let hash = prng.next_u64() & !0x3f_f000 | (prng.below(3) << 12);
                    table.insert(hash, step);
                    model.insert(step, hash);
                } else if let Some((&place, &hash)) =
                    model.range(prng.below(60_000) as u32..).next()
                {
                    assert!(table.remove(hash, place));
                    assert!(!table.remove(hash, place));
                    model.remove(&place);
                }
                let len: usize = table.segments.iter().map(|segment| segment.len).sum();
                assert_eq!(len, model.len());
            }
            for (&place, &hash) in &model {
                assert_eq!(table.find(hash, |found| found == place), Some(place));
                assert_eq!(table.find(!hash, |found| found == place), None);
                table.prefetch(hash);
                if let Some(guess) = table.guess(hash) {
                    assert!(model.contains_key(&guess));
                }
            }
            for (place, hash) in std::mem::take(&mut model) {
                assert!(table.remove(hash, place));
            }
            for segment in &table.segments {
                assert_eq!(segment.free_extras.len(), segment.extras.len());
            }
        }
    }

    #[test]
    fn an_entry_costs_about_nine_bytes() {
        let mut prng = Prng::new(1);
        let mut table = Table::new(8);
        for place in 0..200_000 {
            table.insert(prng.next_u64(), place);
        }
        let bytes = table.memory_bytes() as f64 / 200_000.0;
        assert!((6.4..11.0).contains(&bytes), "{bytes}");
    }
}
