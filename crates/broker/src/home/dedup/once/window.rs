//! The names of a window: each occurrence in the order of the records, and an index of the newest
//! of each name.
//!
//! An occurrence carries on what its name stands for. So a name is in the window as long as its
//! newest occurrence, and forgetting an occurrence touches no other.
//!
//! Sequences and stamps of a producer rise, as a rule: then the newest is the greatest, and there
//! is only that. Those that fall are kept apart, the greatest first.

use super::index::{Hashed, Index};
use std::collections::{BTreeMap, VecDeque};
use stdx::handing::Hand;
use stdx::memory::{tree_bytes, vector_bytes};

/// Names of a window, at most: an index has 16 bits for a place.
const NAMES_MAX: usize = 65_000;
/// No producer.
const NONE: u16 = u16::MAX;

/// The publication that a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// Delivered at this offset.
    Delivered(u64),
    /// Not in the log.
    Refused,
    /// From a time of which this node does not know enough.
    Unknown,
}

/// A name in the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Known {
    /// A hash of the topic, of a sequence.
    pub topic: u32,
    pub origin: Origin,
}

/// An occurrence of a name.
#[derive(Clone, Copy, Debug, Hand)]
struct Occurrence {
    hash: u64,
    origin: u64,
    topic: u32,
    /// The place of its producer, or [`NONE`].
    producer: u16,
    /// It stands in the index, or a newer one does. Others only have a place, so that all nodes
    /// count alike.
    counts: bool,
}

const REFUSED: u64 = u64::MAX;
const UNKNOWN: u64 = u64::MAX - 1;

impl Occurrence {
    fn known(&self) -> Known {
        let origin = match self.origin {
            REFUSED => Origin::Refused,
            UNKNOWN => Origin::Unknown,
            offset => Origin::Delivered(offset),
        };
        Known { topic: self.topic, origin }
    }
}

/// A producer with names in the window.
#[derive(Clone, Copy, Debug, Hand)]
struct Producer {
    hash: u64,
    sequence: u64,
    stamp: u64,
    seen_ms: u64,
    /// The numbers of the occurrences with the greatest sequence and the greatest stamp.
    sequence_at: u32,
    stamp_at: u32,
    /// Occurrences in the window.
    names: u32,
    has_sequence: bool,
}

/// The sequences and stamps of one producer that fall, behind the greatest.
#[derive(Debug, Default, Hand)]
struct Falling {
    sequences: VecDeque<(u64, u32)>,
    stamps: VecDeque<Stamp>,
}

#[derive(Clone, Copy, Debug, Hand)]
struct Stamp {
    stamp: u64,
    seen_ms: u64,
    at: u32,
}

/// A sequence with its producer and connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequenced {
    pub producer: Hashed,
    /// The sequence of this producer.
    pub name: Hashed,
    pub sequence: u64,
    pub connection: u64,
    pub topic: u32,
}

/// See the module.
#[derive(Debug, Hand)]
pub(super) struct Window {
    names_max: usize,
    /// Oldest first.
    occurrences: VecDeque<Occurrence>,
    /// The number of the oldest.
    first: u64,
    index: Index,
    producers: Vec<Producer>,
    /// Places of producers that are free.
    free: Vec<u16>,
    producer_index: Index,
    falling: BTreeMap<u16, Falling>,
}

impl Window {
    pub fn new(names_max: usize) -> Window {
        Window {
            names_max: names_max.min(NAMES_MAX),
            occurrences: VecDeque::new(),
            first: 0,
            index: Index::default(),
            producers: Vec::new(),
            free: Vec::new(),
            producer_index: Index::default(),
            falling: BTreeMap::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.occurrences.len()
    }

    /// The number of the next occurrence.
    pub fn next(&self) -> u64 {
        self.first + self.occurrences.len() as u64
    }

    /// A name that counts.
    pub fn find(&self, name: Hashed) -> Option<Known> {
        let place = self.index.find(name, |place| hash_at(&self.occurrences, self.first, place))?;
        let place = usize::from(place.wrapping_sub(self.first as u16));
        self.occurrences.get(place).map(Occurrence::known)
    }

    /// The greatest sequence of a producer that counts.
    pub fn greatest(&self, producer: Hashed) -> Option<u64> {
        self.producer(producer).filter(|it| it.has_sequence).map(|it| it.sequence)
    }

    /// The greatest stamp of a producer, and when this node has first seen it.
    pub fn newest_connection(&self, producer: Hashed) -> Option<(u64, u64)> {
        self.producer(producer).map(|it| (it.stamp, it.seen_ms))
    }

    fn producer(&self, producer: Hashed) -> Option<&Producer> {
        let place = self.producer_index.find(producer, |place| hash_of(&self.producers, place))?;
        self.producers.get(usize::from(place))
    }

    /// Notes the sequence of a record; without an origin it does not count, only its connection.
    pub fn note_sequence(&mut self, of: &Sequenced, origin: Option<Origin>, seen_ms: u64) {
        let number = self.next() as u32;
        let place = self.place_of(of.producer);
        self.connect(place, of.connection, number, seen_ms);
        if origin.is_some() {
            self.count(place, of.sequence, number);
        }
        if let Some(producer) = self.producers.get_mut(usize::from(place)) {
            producer.names += 1;
        }
        self.push(of.name, place, origin.map(|origin| Known { topic: of.topic, origin }));
    }

    /// Notes the key of a record; without an origin it does not count.
    pub fn note_key(&mut self, key: Hashed, origin: Option<Origin>) {
        self.push(key, NONE, origin.map(|origin| Known { topic: 0, origin }));
    }

    /// Adds an occurrence. One before it says what the name stands for.
    fn push(&mut self, name: Hashed, producer: u16, new: Option<Known>) {
        let first = self.first;
        let place = self.next() as u16;
        let hash_of = |place| hash_at(&self.occurrences, first, place);
        let known = new.map(|new| match self.index.find(name, hash_of) {
            Some(before) => {
                self.index.moved(name.hash, before, place);
                let before = usize::from(before.wrapping_sub(first as u16));
                self.occurrences.get(before).map_or(new, Occurrence::known)
            }
            None => {
                self.index.add(name, place, hash_of);
                new
            }
        });
        let Known { topic, origin } = known.unwrap_or(Known { topic: 0, origin: Origin::Refused });
        let origin = match origin {
            Origin::Delivered(offset) => offset,
            Origin::Refused => REFUSED,
            Origin::Unknown => UNKNOWN,
        };
        if self.occurrences.len() == self.occurrences.capacity() {
            self.occurrences.reserve_exact(self.more(self.occurrences.len()));
        }
        let counts = known.is_some();
        self.occurrences.push_back(Occurrence { hash: name.hash, origin, topic, producer, counts });
    }

    /// The room that a list of so many gets: not twice as much, a full window takes what it needs.
    fn more(&self, len: usize) -> usize {
        // A record's two names come before the oldest go.
        let left = (self.names_max + 2).saturating_sub(len);
        (len / 4).max(16).min(left).max(1)
    }

    /// Forgets all occurrences before a number, and those that are too many.
    pub fn forget(&mut self, before: u64) {
        while self.occurrences.len() > self.names_max
            || self.first < before && !self.occurrences.is_empty()
        {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.occurrences.front().copied() else {
            return;
        };
        if oldest.counts {
            // A newer one of the name has its place in the index.
            let first = self.first;
            let hash_of = |place| hash_at(&self.occurrences, first, place);
            self.index.remove(oldest.hash, first as u16, hash_of);
        }
        self.occurrences.pop_front();
        let number = self.first as u32;
        self.first += 1;
        if oldest.producer != NONE {
            self.forget_of(oldest.producer, number);
        }
    }

    fn forget_of(&mut self, place: u16, number: u32) {
        let Some(producer) = self.producers.get_mut(usize::from(place)) else {
            return;
        };
        let falling = self.falling.get_mut(&place);
        let (sequence, stamp) = match falling {
            Some(falling) => (&mut falling.sequences, &mut falling.stamps),
            None => (&mut VecDeque::new(), &mut VecDeque::new()),
        };
        if producer.has_sequence && producer.sequence_at == number {
            let next = sequence.pop_front();
            producer.has_sequence = next.is_some();
            (producer.sequence, producer.sequence_at) = next.unwrap_or_default();
        }
        if producer.stamp_at == number
            && let Some(next) = stamp.pop_front()
        {
            (producer.stamp, producer.seen_ms) = (next.stamp, next.seen_ms);
            producer.stamp_at = next.at;
        }
        if sequence.is_empty() && stamp.is_empty() {
            self.falling.remove(&place);
        }
        producer.names -= 1;
        if producer.names == 0 {
            let hash = producer.hash;
            self.producer_index.remove(hash, place, |place| hash_of(&self.producers, place));
            self.free.push(place);
        }
    }

    /// The place of a producer, which is new if there was none.
    fn place_of(&mut self, producer: Hashed) -> u16 {
        let of = |place| hash_of(&self.producers, place);
        if let Some(place) = self.producer_index.find(producer, of) {
            return place;
        }
        let place = self.free.pop().unwrap_or(self.producers.len() as u16);
        self.producer_index.add(producer, place, of);
        let new = Producer {
            hash: producer.hash,
            sequence: 0,
            stamp: 0,
            seen_ms: 0,
            sequence_at: 0,
            stamp_at: 0,
            names: 0,
            has_sequence: false,
        };
        match self.producers.get_mut(usize::from(place)) {
            Some(free) => *free = new,
            None => {
                if self.producers.len() == self.producers.capacity() {
                    self.producers.reserve_exact(self.more(self.producers.len()));
                }
                self.producers.push(new);
            }
        }
        place
    }

    fn connect(&mut self, place: u16, stamp: u64, at: u32, seen_ms: u64) {
        let Some(producer) = self.producers.get_mut(usize::from(place)) else {
            return;
        };
        let mut seen_ms = seen_ms;
        let mut falling = self.falling.get_mut(&place);
        while let Some(falling) = &mut falling
            && let Some(least) = falling.stamps.back().filter(|least| least.stamp <= stamp)
        {
            if least.stamp == stamp {
                seen_ms = least.seen_ms;
            }
            falling.stamps.pop_back();
        }
        let is_alone = falling.as_ref().is_none_or(|falling| falling.stamps.is_empty());
        if is_alone && (producer.names == 0 || producer.stamp <= stamp) {
            if producer.names > 0 && producer.stamp == stamp {
                seen_ms = producer.seen_ms;
            }
            (producer.stamp, producer.seen_ms, producer.stamp_at) = (stamp, seen_ms, at);
            if falling.is_some_and(|falling| falling.sequences.is_empty()) {
                self.falling.remove(&place);
            }
        } else {
            let falling = self.falling.entry(place).or_default();
            falling.stamps.push_back(Stamp { stamp, seen_ms, at });
        }
    }

    fn count(&mut self, place: u16, sequence: u64, at: u32) {
        let Some(producer) = self.producers.get_mut(usize::from(place)) else {
            return;
        };
        let mut falling = self.falling.get_mut(&place);
        if let Some(falling) = &mut falling {
            while falling.sequences.back().is_some_and(|(least, _)| *least <= sequence) {
                falling.sequences.pop_back();
            }
        }
        let is_alone = falling.as_ref().is_none_or(|falling| falling.sequences.is_empty());
        if is_alone && (!producer.has_sequence || producer.sequence <= sequence) {
            (producer.sequence, producer.sequence_at) = (sequence, at);
            producer.has_sequence = true;
            if falling.is_some_and(|falling| falling.stamps.is_empty()) {
                self.falling.remove(&place);
            }
        } else {
            self.falling.entry(place).or_default().sequences.push_back((sequence, at));
        }
    }

    pub fn allocated_bytes(&self) -> usize {
        let of = |it: &Falling| {
            vector_bytes::<(u64, u32)>(it.sequences.capacity())
                + vector_bytes::<Stamp>(it.stamps.capacity())
        };
        vector_bytes::<Occurrence>(self.occurrences.capacity())
            + self.index.allocated_bytes()
            + vector_bytes::<Producer>(self.producers.capacity())
            + vector_bytes::<u16>(self.free.capacity())
            + self.producer_index.allocated_bytes()
            + tree_bytes(self.falling.len(), size_of::<(u16, Falling)>())
            + self.falling.values().map(of).sum::<usize>()
    }
}

/// The hash at a place of the index.
fn hash_at(occurrences: &VecDeque<Occurrence>, first: u64, place: u16) -> Option<u64> {
    let place = usize::from(place.wrapping_sub(first as u16));
    occurrences.get(place).map(|occurrence| occurrence.hash)
}

fn hash_of(producers: &[Producer], place: u16) -> Option<u64> {
    producers.get(usize::from(place)).map(|producer| producer.hash)
}
