//! Received bytes that the application has not read, and bytes behind a hole.
//!
//! A connection has an inbox only while there are such bytes. Most segments are read within the
//! turn that brought them, so inboxes are few, and their buffers are used again.

use crate::seq::Seq;
use stdx::slab::Slab;

/// Maximum number of ranges behind holes; further ones are dropped, and come again.
const RANGES_MAX: usize = 32;
/// Maximum number of bytes of one connection behind holes.
const OUT_OF_ORDER_BYTES_MAX: usize = 1 << 20;
/// Buffers that are kept for the next inbox, and their greatest size.
const SPARES_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 64 << 10;

/// Received bytes of one connection.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
    /// The number of `bytes` that were read.
    read: usize,
    /// Ranges in the order of their sequence numbers, with holes between them.
    ranges: Vec<Range>,
}

#[derive(Debug)]
struct Range {
    from: Seq,
    bytes: Vec<u8>,
    /// Greater is newer.
    age: u32,
}

impl Range {
    fn end(&self) -> Seq {
        self.from + self.bytes.len() as u32
    }

    /// Appends the new part of bytes that touch the range, and do not begin before it.
    fn append(&mut self, from: Seq, bytes: &[u8]) {
        let known = self.end().bytes_since(from) as usize;
        self.bytes.extend_from_slice(bytes.get(known..).unwrap_or_default());
    }
}

impl Inbox {
    /// The number of bytes in order that were not read.
    pub fn unread(&self) -> usize {
        self.bytes.len() - self.read
    }

    /// Whether nothing is here.
    pub fn is_empty(&self) -> bool {
        self.unread() == 0 && self.ranges.is_empty()
    }

    /// Whether there is a hole.
    pub fn has_hole(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Bytes that are held.
    fn held(&self) -> usize {
        self.unread() + self.ranges.iter().map(|range| range.bytes.len()).sum::<usize>()
    }

    /// Adds bytes in order.
    fn push(&mut self, bytes: &[u8]) {
        if self.read == self.bytes.len() {
            self.bytes.clear();
            self.read = 0;
        } else if self.read >= 64 << 10 {
            self.bytes.drain(..self.read);
            self.read = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds bytes in order where there are none behind a hole: of bytes that come twice, the first
    /// ones count. Returns the new `next`.
    fn push_between(&mut self, start: Seq, bytes: &[u8]) -> Seq {
        let mut next = start;
        loop {
            let from = next.bytes_since(start) as usize;
            let Some(new) = bytes.get(from..).filter(|new| !new.is_empty()) else { return next };
            let hole = self.ranges.first().map(|range| range.from.bytes_since(next) as usize);
            let count = hole.map_or(new.len(), |hole| hole.min(new.len()));
            self.push(&new[..count]);
            next = self.close_holes(next + count as u32);
        }
    }

    /// Moves ranges that `next` has reached to the bytes in order, and returns the new `next`.
    fn close_holes(&mut self, mut next: Seq) -> Seq {
        while let Some(first) = self.ranges.first() {
            if first.from.is_after(next) {
                break;
            }
            let range = self.ranges.remove(0);
            let known = next.bytes_since(range.from) as usize;
            if let Some(bytes) = range.bytes.get(known..) {
                self.push(bytes);
                next = next.max(range.end());
            }
        }
        next
    }

    /// Keeps bytes behind a hole; those that are there already stay as they are.
    fn keep(&mut self, from: Seq, bytes: &[u8]) {
        let end = from + bytes.len() as u32;
        let held: usize = self.ranges.iter().map(|range| range.bytes.len()).sum();
        if bytes.is_empty() || held + bytes.len() > OUT_OF_ORDER_BYTES_MAX {
            return;
        }
        let age = self.ranges.iter().map(|range| range.age).max().unwrap_or(0) + 1;
        // Everything that touches the new bytes becomes one range with them.
        let first = self.ranges.partition_point(|range| range.end().is_before(from));
        let last = self.ranges.partition_point(|range| !range.from.is_after(end));
        if first == last {
            if self.ranges.len() < RANGES_MAX {
                self.ranges.insert(first, Range { from, bytes: bytes.to_vec(), age });
            }
            return;
        }
        let mut touched = self.ranges.drain(first..last);
        let Some(range) = touched.next() else { return };
        let mut merged = range;
        if merged.from.is_after(from) {
            let before = merged.from.since(from) as usize;
            let front = Range { from, bytes: bytes[..before].to_vec(), age };
            let range = std::mem::replace(&mut merged, front);
            merged.append(range.from, &range.bytes);
        }
        for range in touched {
            merged.append(from, &bytes[..range.from.since(from) as usize]);
            merged.append(range.from, &range.bytes);
        }
        // Most segments continue a range, which grows in place.
        merged.append(from, bytes);
        merged.age = age;
        self.ranges.insert(first, merged);
    }

    /// The ranges behind holes, the newest first (RFC 2018, 4).
    pub fn sacks(&self) -> impl Iterator<Item = (Seq, Seq)> {
        let mut blocks = [(0, Seq(0), Seq(0)); RANGES_MAX];
        let count = self.ranges.len().min(RANGES_MAX);
        for (block, range) in blocks.iter_mut().zip(&self.ranges) {
            *block = (range.age, range.from, range.end());
        }
        blocks[..count].sort_unstable_by_key(|(age, ..)| std::cmp::Reverse(*age));
        blocks.into_iter().take(count).map(|(_, from, to)| (from, to))
    }
}

/// The inboxes of a shard.
#[derive(Debug, Default)]
pub struct Inboxes {
    inboxes: Slab<Inbox>,
    spares: Vec<Vec<u8>>,
    bytes: usize,
}

/// No inbox.
pub const NONE: u32 = u32::MAX;

impl Inboxes {
    /// Bytes in all inboxes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The inbox with this number; None for [`NONE`].
    pub fn get(&self, id: u32) -> Option<&Inbox> {
        self.inboxes.get(id)
    }

    /// The number of unread bytes in order.
    pub fn unread(&self, id: u32) -> usize {
        self.get(id).map_or(0, Inbox::unread)
    }

    /// Adds bytes in order, which begin at `next`, and returns the number after those that are in
    /// order now. `id` becomes the number of an inbox.
    pub fn push(&mut self, id: &mut u32, next: Seq, bytes: &[u8]) -> Seq {
        self.change(id, |inbox| inbox.push_between(next, bytes))
    }

    /// Keeps bytes behind a hole. `id` becomes the number of an inbox.
    pub fn keep(&mut self, id: &mut u32, from: Seq, bytes: &[u8]) {
        self.change(id, |inbox| inbox.keep(from, bytes));
    }

    fn change<T>(&mut self, id: &mut u32, change: impl FnOnce(&mut Inbox) -> T) -> T {
        if *id == NONE {
            let bytes = self.spares.pop().unwrap_or_default();
            *id = self.inboxes.insert(Inbox { bytes, ..Inbox::default() });
        }
        let inbox = &mut self.inboxes[*id];
        let before = inbox.held();
        let result = change(inbox);
        self.bytes = self.bytes + inbox.held() - before;
        result
    }

    /// Reads bytes in order. An inbox that is empty then is gone, and `id` is [`NONE`].
    pub fn read(&mut self, id: &mut u32, buffer: &mut [u8]) -> usize {
        let Some(inbox) = self.inboxes.get_mut(*id) else { return 0 };
        let count = inbox.unread().min(buffer.len());
        buffer[..count].copy_from_slice(&inbox.bytes[inbox.read..inbox.read + count]);
        inbox.read += count;
        self.bytes -= count;
        if inbox.is_empty() {
            self.clear(id);
        }
        count
    }

    /// Forgets an inbox with everything in it.
    pub fn clear(&mut self, id: &mut u32) {
        if let Some(inbox) = self.inboxes.remove(std::mem::replace(id, NONE)) {
            self.bytes -= inbox.held();
            let mut bytes = inbox.bytes;
            if self.spares.len() < SPARES_MAX && bytes.capacity() <= SPARE_BYTES_MAX {
                bytes.clear();
                self.spares.push(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::prng::Prng;

    #[test]
    fn every_order_of_arrival_gives_the_same_bytes() {
        let stream: Vec<u8> = (0..2000_u32).map(|number| (number * 7) as u8).collect();
        for seed in 0..300 {
            let mut prng = Prng::new(seed);
            let base = Seq(u32::MAX - 1000);
            let (mut inboxes, mut id, mut next) = (Inboxes::default(), NONE, base);
            let mut read: Vec<u8> = Vec::new();
            while read.len() < stream.len() {
                let known = next.since(base) as usize;
                let at = (known + prng.below(200) as usize).saturating_sub(40);
                let length = prng.between(1, 150) as usize;
                let piece = &stream[at.min(stream.len())..(at + length).min(stream.len())];
                let from = base + at as u32;
                if from.is_after(next) {
                    inboxes.keep(&mut id, from, piece);
                } else if let Some(new) = piece.get(next.since(from) as usize..) {
                    next = inboxes.push(&mut id, next, new);
                }
                if let Some(inbox) = inboxes.get(id) {
                    let blocks: Vec<(Seq, Seq)> = inbox.sacks().collect();
                    assert!(blocks.iter().all(|(from, to)| from.is_before(*to)));
                    assert!(blocks.iter().all(|(from, _)| from.is_after(next)));
                    if from.is_after(next) && !piece.is_empty() && blocks.len() < RANGES_MAX {
                        let (start, end) = blocks[0];
                        assert!(
                            !from.is_before(start) && !(from + piece.len() as u32).is_after(end)
                        );
                    }
                }
                let mut buffer = [0; 100];
                let count = inboxes.read(&mut id, &mut buffer[..prng.below(100) as usize]);
                read.extend(&buffer[..count]);
            }
            assert_eq!(read, stream);
            inboxes.clear(&mut id);
            assert_eq!((inboxes.bytes(), id), (0, NONE));
        }
    }

    #[test]
    fn bytes_behind_holes_have_bounds() {
        let (mut inboxes, mut id) = (Inboxes::default(), NONE);
        for number in 0..50 {
            inboxes.keep(&mut id, Seq(number * 10), b"x");
        }
        assert_eq!(inboxes.get(id).unwrap().sacks().count(), RANGES_MAX);
        let (mut inboxes, mut id) = (Inboxes::default(), NONE);
        for number in 0..1500 {
            inboxes.keep(&mut id, Seq(1 + number * 1000), &[0; 1000]);
        }
        assert!(inboxes.bytes() <= OUT_OF_ORDER_BYTES_MAX);
    }
}
