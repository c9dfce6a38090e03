//! The ring of recent frames: the frames for this edge's connections, each once.
//!
//! Step 9 of the path. A frame is encoded into the ring and connections hold its number, a
//! [`FrameNumber`]. The ring drops its oldest frames when it needs room; before that, connections
//! that still wait for them give them up ([`Ring::victims`]). Invariants: frames are contiguous in
//! memory; places rise by one (wrapping); at most `capacity` bytes lie inline; larger parts are
//! references to the log's memory beside the ring, [`BODIES`] times `capacity` of it.

use crate::ids::TopicIndex;
use crate::mail::{HomeId, PartitionId, SubscriptionKey};
use std::collections::{BTreeMap, VecDeque};
use stdx::chunk::Slice;
use stdx::handing::{Hand, Input, Layout};
use stdx::memory::vector_bytes;

/// The number of a frame in the ring; wraps around.
pub(crate) type FrameNumber = u32;

/// The content of a frame: a connection that cannot take the frame continues from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hand)]
pub(crate) enum Origin {
    /// An answer to one connection: never dropped.
    Private,
    /// A message for plain subscriptions of a topic.
    Plain { home: HomeId, index: TopicIndex, prev: u64, offset: u64 },
    /// A message for all subscriptions to filters of a native connection that cover its topic.
    ByFilter {
        partition: PartitionId,
        /// The offset in the partition before it.
        after: u64,
        /// Rises with every such message of the edge.
        serial: u64,
    },
    /// A message, or what settles, for one subscription to filters.
    Addressed {
        subscription: SubscriptionKey,
        partition: PartitionId,
        /// The offset in the partition before it.
        after: u64,
        /// The message has used credit of a replay.
        is_paid: bool,
    },
    /// The settled positions of filters, sent now and then: given up without a trace, and with
    /// anything for filters that was given up before it.
    Told,
}

#[derive(Hand)]
struct Frame {
    start: u32,
    len: u32,
    origin: Origin,
    /// The rest of the frame, when it is too large to be copied.
    body: Slice,
}

/// Bytes of recent frames in one circular area.
pub(crate) struct Ring {
    bytes: Box<[u8]>,
    frames: VecDeque<Frame>,
    first: FrameNumber,
    head: usize,
    /// The end of the bytes that were ever written.
    written_through: usize,
    /// Bytes that hang beside the ring.
    body_bytes: usize,
    segments: Segments,
}

/// Chunks that bodies keep alive: of the log a whole segment, even when the log has dropped it.
#[derive(Default)]
struct Segments {
    /// The number of bodies, by chunk.
    bodies: BTreeMap<usize, u32>,
    bytes: usize,
}

impl Segments {
    /// The body, or a copy of it where keeping its chunk as well would be too much.
    #[inline]
    fn keep(&mut self, body: Slice, bytes_max: usize) -> Slice {
        if body.is_empty() { body } else { self.keep_some(body, bytes_max) }
    }

    fn keep_some(&mut self, body: Slice, bytes_max: usize) -> Slice {
        let (id, chunk_bytes) = (body.chunk_id(), body.chunk_bytes());
        let is_new = !self.bodies.contains_key(&id);
        if is_new && self.bytes + chunk_bytes > bytes_max && chunk_bytes > body.len() {
            return self.keep(Slice::copy_of(&body), bytes_max);
        }
        self.bytes += if is_new { chunk_bytes } else { 0 };
        *self.bodies.entry(id).or_default() += 1;
        body
    }

    fn let_go(&mut self, body: &Slice) {
        let id = body.chunk_id();
        let Some(bodies) = self.bodies.get_mut(&id) else {
            return; // no body
        };
        *bodies -= 1;
        if *bodies == 0 {
            self.bodies.remove(&id);
            self.bytes -= body.chunk_bytes();
        }
    }
}

/// Bytes beside the ring, in capacities of the ring. A single body may be larger.
const BODIES: usize = 4;

/// Bytes of the chunks that they are in, in capacities of the ring: beyond, bodies are copied.
const SEGMENTS: usize = 32;

/// Minimum bytes of a body that is referred to, not copied.
pub(crate) const BODY_COPY_MAX: usize = 8 << 10;

impl Ring {
    /// A ring of `capacity` bytes; pages are touched only as it fills.
    pub fn new(capacity: usize) -> Ring {
        let capacity = capacity.max(4 * BODY_COPY_MAX);
        Ring {
            bytes: vec![0; capacity].into(),
            frames: VecDeque::new(),
            first: 0,
            head: 0,
            written_through: 0,
            body_bytes: 0,
            segments: Segments::default(),
        }
    }

    /// Bytes of the chunks that bodies keep alive.
    pub fn segment_bytes(&self) -> usize {
        self.segments.bytes
    }

    /// Starts with this place: for tests of the end of the numbers.
    pub fn begin_at(&mut self, place: FrameNumber) {
        debug_assert!(self.frames.is_empty());
        self.first = place;
    }

    /// Frames before the returned place must be dropped before `len` inline bytes and a body fit;
    /// `None` when they fit now.
    ///
    /// Asks for an eighth of the ring at least, so that the caller's search for the holders of
    /// places is rare.
    #[inline]
    pub fn victims(&self, len: usize, body_len: usize) -> Option<FrameNumber> {
        let bodies_max = BODIES * self.bytes.len();
        if self.fits(0, len) && (self.body_bytes == 0 || self.body_bytes + body_len <= bodies_max) {
            return None;
        }
        Some(self.search_victims(len, body_len))
    }

    #[cold]
    fn search_victims(&self, len: usize, body_len: usize) -> FrameNumber {
        let bodies_max = BODIES * self.bytes.len();
        let (mut dropped, mut bytes, mut body_bytes) = (0, 0, self.body_bytes);
        for frame in &self.frames {
            let is_enough = bytes >= self.bytes.len() / 8;
            if is_enough && self.fits(dropped, len) && body_bytes + body_len <= bodies_max {
                break;
            }
            bytes += frame.len as usize + frame.body.len();
            body_bytes -= frame.body.len();
            dropped += 1;
        }
        self.first.wrapping_add(dropped as u32)
    }

    /// Forgets the frames before `place`.
    pub fn drop_before(&mut self, place: FrameNumber) {
        while self.first != place
            && let Some(frame) = self.frames.pop_front()
        {
            self.body_bytes -= frame.body.len();
            self.segments.let_go(&frame.body);
            self.first = self.first.wrapping_add(1);
        }
        if self.frames.is_empty() {
            self.rewind();
        }
    }

    /// Forgets all frames.
    pub fn clear(&mut self) {
        self.first = self.first.wrapping_add(self.frames.len() as u32);
        self.frames.clear();
        self.rewind();
        self.body_bytes = 0;
        self.segments = Segments::default();
    }

    /// Appends a frame of these parts. The caller has made room ([`Ring::victims`]); at most
    /// `BODY_COPY_MAX` plus a head are expected inline, the rest as `body`.
    pub fn push(&mut self, parts: &[&[u8]], body: Slice, origin: Origin) -> FrameNumber {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        debug_assert!(self.fits(0, len));
        if self.head + len.max(1) > self.bytes.len() {
            self.rewind();
        }
        let start = self.head;
        let mut target = &mut self.bytes[start..start + len];
        for part in parts.iter().filter(|part| !part.is_empty()) {
            let (place, rest) = target.split_at_mut(part.len());
            place.copy_from_slice(part);
            target = rest;
        }
        self.head += len;
        // A frame that is all body takes a byte: the write position never stands where a frame
        // begins.
        self.head += usize::from(len == 0);
        self.body_bytes += body.len();
        let body = self.segments.keep(body, SEGMENTS * self.bytes.len());
        self.frames.push_back(Frame { start: start as u32, len: len as u32, origin, body });
        self.next_number().wrapping_sub(1)
    }

    /// Bytes in use. Bodies beside the ring count for the log, or for the owner of the frame.
    pub fn memory_bytes(&self) -> usize {
        self.written_through.max(self.head) + vector_bytes::<Frame>(self.frames.capacity())
    }

    fn rewind(&mut self) {
        self.written_through = self.written_through.max(self.head);
        self.head = 0;
    }

    /// The frame's two parts; the second is mostly empty.
    pub fn parts(&self, place: FrameNumber) -> (&[u8], &[u8]) {
        let frame = &self.frames[place.wrapping_sub(self.first) as usize];
        (&self.bytes[frame.start as usize..(frame.start + frame.len) as usize], &frame.body)
    }

    /// The part of the frame that is kept beside the ring.
    pub fn body(&self, place: FrameNumber) -> &Slice {
        &self.frames[place.wrapping_sub(self.first) as usize].body
    }

    /// The place that the next frame gets.
    pub fn next_number(&self) -> FrameNumber {
        self.first.wrapping_add(self.frames.len() as u32)
    }

    /// Whether the frame is to be dropped before `limit`.
    pub fn is_before(&self, place: FrameNumber, limit: FrameNumber) -> bool {
        place.wrapping_sub(self.first) < limit.wrapping_sub(self.first)
    }

    /// Whether the frame is still here.
    pub fn holds(&self, place: FrameNumber) -> bool {
        (place.wrapping_sub(self.first) as usize) < self.frames.len()
    }

    /// The content of the frame.
    pub fn origin(&self, place: FrameNumber) -> Origin {
        self.frames[place.wrapping_sub(self.first) as usize].origin
    }

    /// Whether `len` contiguous bytes would be free once the `dropped` oldest frames are gone. The
    /// write position never meets the oldest frame, so that a full ring and an empty one differ.
    #[inline]
    fn fits(&self, dropped: usize, len: usize) -> bool {
        let len = len.max(1);
        let Some(oldest) = self.frames.get(dropped) else {
            return len <= self.bytes.len();
        };
        let tail = oldest.start as usize;
        if self.head > tail {
            self.head + len <= self.bytes.len() || len < tail
        } else {
            self.head + len < tail
        }
    }
}

/// Frames keep their places. What lies inline goes as far as it was ever written.
impl Hand for Ring {
    fn give(&self, out: &mut Vec<u8>) {
        let touched = self.written_through.max(self.head);
        self.bytes.len().give(out);
        touched.give(out);
        out.extend_from_slice(&self.bytes[..touched]);
        self.frames.give(out);
        (self.first, self.head, self.written_through, self.body_bytes).give(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        let (capacity, touched) = <(usize, usize)>::take(input)?;
        let inline = input.bytes(touched)?;
        let mut ring = Ring::new(capacity);
        ring.bytes.get_mut(..touched)?.copy_from_slice(inline);
        ring.frames = Hand::take(input)?;
        (ring.first, ring.head, ring.written_through, ring.body_bytes) = Hand::take(input)?;
        for frame in &mut ring.frames {
            let body = std::mem::replace(&mut frame.body, Slice::empty());
            frame.body = ring.segments.keep(body, usize::MAX);
        }
        Some(ring)
    }

    fn layout(layout: &mut Layout) {
        layout.name("Ring");
        <VecDeque<Frame>>::layout(layout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::chunk::ChunkWriter;
    use stdx::prng::Prng;

    #[test]
    fn keeps_what_it_has_not_announced_to_drop() {
        let mut prng = Prng::new(7);
        let mut ring = Ring::new(0);
        let mut model: VecDeque<(FrameNumber, Vec<u8>)> = VecDeque::new();
        for round in 0..20_000u32 {
            let len = prng.below(BODY_COPY_MAX as u64) as usize;
            let body_len = prng.below(3) as usize * prng.below(20_000) as usize;
            if let Some(limit) = ring.victims(len, body_len) {
                while model.front().is_some_and(|(place, _)| ring.is_before(*place, limit)) {
                    model.pop_front();
                }
                ring.drop_before(limit);
                assert_eq!(ring.victims(len, body_len), None);
            }
            let bytes = vec![round as u8; len + body_len];
            let body = Slice::copy_of(&bytes[len..]);
            let place =
                ring.push(&[&bytes[..len / 2], &bytes[len / 2..len]], body, Origin::Private);
            model.push_back((place, bytes));
            let (place, bytes) = &model[prng.below(model.len() as u64) as usize];
            let (head, body) = ring.parts(*place);
            assert_eq!([head, body].concat(), *bytes);
            let beside: usize = model.iter().map(|(place, _)| ring.body(*place).len()).sum();
            assert!(beside == ring.body_bytes && beside <= BODIES * 4 * BODY_COPY_MAX);
        }
        assert!(model.len() > 2);
    }

    #[test]
    fn a_full_ring_makes_room_for_anything_that_may_lie_inline() {
        let mut ring = Ring::new(0);
        let capacity = 4 * BODY_COPY_MAX;
        let place = ring.push(&[&vec![1; capacity]], Slice::empty(), Origin::Private);
        let limit = ring.victims(1, 0).expect("full");
        assert!(ring.is_before(place, limit));
        ring.drop_before(limit);
        ring.push(&[&[1]], Slice::empty(), Origin::Private);
    }

    #[test]
    fn a_frame_that_is_all_body_does_not_fill_the_ring() {
        let mut ring = Ring::new(0);
        let body = Slice::copy_of(&[1; 100_000]);
        let place = ring.push(&[], body, Origin::Private);
        assert_eq!(ring.victims(100, 0), None);
        ring.push(&[b"next"], Slice::empty(), Origin::Private);
        assert!(ring.holds(place));
    }

    #[test]
    fn bodies_keep_a_bounded_number_of_segments() {
        const SEGMENT_BYTES: usize = 1 << 20;
        let mut ring = Ring::new(0);
        let segments_max = SEGMENTS * 4 * BODY_COPY_MAX / SEGMENT_BYTES;
        let mut copied = 0;
        for number in 0..2 * segments_max as u8 {
            let mut segment = ChunkWriter::heap(SEGMENT_BYTES);
            for _ in 0..2 {
                let body = segment.append(&[&[number; 9_000]]).unwrap();
                let place = ring.push(&[b"head"], body, Origin::Private);
                assert_eq!(ring.body(place)[..], [number; 9_000]);
                copied += usize::from(ring.body(place).chunk_bytes() == 9_000);
            }
        }
        assert_eq!(copied, 2 * segments_max);
        assert_eq!(ring.segment_bytes(), segments_max * SEGMENT_BYTES + copied * 9_000);
        ring.drop_before(ring.next_number());
        assert_eq!(ring.segment_bytes(), 0);
    }

    /// The state after four thousand million frames.
    #[test]
    fn places_begin_anew() {
        let mut ring = Ring::new(0);
        ring.first = u32::MAX - 1;
        let places: Vec<FrameNumber> = (0..4u8)
            .map(|number| ring.push(&[&[number]], Slice::empty(), Origin::Private))
            .collect();
        assert_eq!(places, [u32::MAX - 1, u32::MAX, 0, 1]);
        for (number, place) in (0..).zip(&places) {
            assert_eq!(ring.parts(*place).0, [number]);
            assert_eq!(ring.is_before(*place, places[2]), number < 2);
        }
        ring.drop_before(places[2]);
        assert!(!ring.holds(places[1]) && ring.holds(places[2]));
        assert_eq!(ring.next_number(), 2);
    }

    #[test]
    fn one_body_may_be_larger_than_all_bodies_together() {
        let mut ring = Ring::new(0);
        let large = BODIES * 4 * BODY_COPY_MAX + 1;
        assert_eq!(ring.victims(10, large), None);
        let place = ring.push(&[b"head"], Slice::copy_of(&vec![1; large]), Origin::Private);
        let limit = ring.victims(10, 1).expect("full");
        assert!(ring.is_before(place, limit));
    }
}
