//! Producers: what each has published last, who owns it, and which of its publications can still be
//! answered.
//!
//! Invariant: a producer's recent publications have rising sequences and rising offsets, as both
//! are counters of one partition. One without recent publications is idle: it stays until its place
//! is needed, longest idle first. Beyond the bound of recent publications of all producers
//! together, the one that has been quiet for longest loses its oldest, but never its last one: as
//! long as that has its record, the producer is not idle.

use super::{Identity, Sequenced};
use crate::handing::{give_table, table_of};
use crate::mail::Code;
use hashbrown::HashTable;
use std::collections::{BTreeSet, VecDeque};
use stdx::handing::{Hand, Input, Layout};
use stdx::slab::Slab;

#[derive(Debug)]
pub(super) struct Producers {
    producers: Slab<Producer>,
    table: HashTable<u32>,
    /// Producers that are not idle: partition, an offset at or below that of its oldest recent
    /// publication, number.
    oldest: BTreeSet<(u32, u64, u32)>,
    /// Those that are idle: rank of the last publication, number.
    idle: BTreeSet<(u64, u32)>,
    /// Those with more than one recent publication: rank of its last one or of an earlier one,
    /// number.
    several: BTreeSet<(u64, u32)>,
    producers_max: usize,
    window_max: usize,
    entries_max: usize,
    /// Recent publications of all.
    entries: usize,
    recent_bytes: usize,
    /// The greatest rank given; a later publication has a higher one.
    rank: u64,
}

#[derive(Debug, Hand)]
struct Producer {
    id: Identity,
    /// Oldest first.
    recent: VecDeque<Recent>,
    /// The greatest sequence below those in `recent`.
    before: Option<u64>,
    /// The connection that may publish; older ones are fenced.
    owner: u64,
    /// The rank of the last publication.
    rank: u64,
    /// The offset in `Producers::oldest`.
    oldest: u64,
    /// The rank in `Producers::several`, if it is there.
    several_rank: u64,
    /// The home's own number.
    partition: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
struct Recent {
    /// Two halves, here and of the offset, so that the entry stays small.
    sequence: [u32; 2],
    offset: [u32; 2],
    /// The topic's hash.
    hash: u32,
}

const _: () = assert!(size_of::<Recent>() == 20 && Slab::<Producer>::ENTRY_BYTES <= 104);

/// The verdict on a producer's sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// The publication is to be appended.
    New,
    /// The publication has this offset already.
    Duplicate(u64),
}

impl Recent {
    fn new(publication: &Sequenced, offset: u64) -> Recent {
        Recent {
            sequence: halves(publication.sequence),
            offset: halves(offset),
            hash: publication.topic,
        }
    }

    fn sequence(&self) -> u64 {
        whole(self.sequence)
    }

    fn offset(&self) -> u64 {
        whole(self.offset)
    }
}

fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

fn whole(halves: [u32; 2]) -> u64 {
    u64::from(halves[1]) << 32 | u64::from(halves[0])
}

impl Producer {
    /// The last sequence.
    fn last(&self) -> Option<u64> {
        self.recent.back().map(Recent::sequence).or(self.before)
    }

    /// Forgets its oldest recent publications, so many; what they took comes back in time.
    fn forget(&mut self, count: usize) {
        if let Some(last) = self.recent.drain(..count).next_back() {
            self.before = Some(last.sequence());
        }
        if self.recent.len() < self.recent.capacity() / 4 {
            self.recent.shrink_to(2 * self.recent.len());
        }
    }

    fn recent_bytes(&self) -> usize {
        self.recent.capacity() * size_of::<Recent>()
    }
}

impl Producers {
    pub fn new(producers_max: u32, window_max: u32, entries_max: u32) -> Producers {
        Producers {
            producers: Slab::new(),
            table: HashTable::new(),
            oldest: BTreeSet::new(),
            idle: BTreeSet::new(),
            several: BTreeSet::new(),
            producers_max: producers_max as usize,
            window_max: window_max.max(1) as usize,
            entries_max: entries_max as usize,
            entries: 0,
            recent_bytes: 0,
            rank: 0,
        }
    }

    /// Looks a publication up. Its connection becomes the owner if this is a duplicate: the
    /// producer has come back, and nothing that its older connection still has under way may come
    /// in between.
    pub fn check(&mut self, publication: &Sequenced) -> Result<Found, Code> {
        let known = self.find(publication.producer);
        let Some(producer) = known.and_then(|number| self.producers.get_mut(number)) else {
            let is_full = self.producers.len() >= self.producers_max && self.idle.is_empty();
            return if is_full { Err(Code::ProducersFull) } else { Ok(Found::New) };
        };
        if publication.connection < producer.owner {
            return Err(Code::ProducerFenced);
        }
        if producer.last().is_none_or(|last| last < publication.sequence) {
            return Ok(Found::New);
        }
        let place = producer.recent.binary_search_by_key(&publication.sequence, Recent::sequence);
        let place = place.map_err(|_| Code::OutOfOrder)?;
        let found = producer.recent[place];
        if found.hash != publication.topic {
            return Err(Code::OutOfOrder);
        }
        producer.owner = publication.connection;
        Ok(Found::Duplicate(found.offset()))
    }

    /// Notes a publication that is new, with its offset.
    pub fn note(&mut self, partition: u32, publication: &Sequenced, offset: u64) {
        self.note_found(self.rank + 1, partition, publication, offset);
    }

    /// Notes a publication that a start has found, after older ones of the producer. Its producer
    /// has been quiet for longer than those of a higher rank.
    pub fn note_found(&mut self, rank: u64, partition: u32, publication: &Sequenced, offset: u64) {
        self.rank = self.rank.max(rank);
        let number = match self.find(publication.producer) {
            Some(number) => number,
            None => self.add(partition, publication.producer),
        };
        let Some(producer) = self.producers.get_mut(number) else {
            return;
        };
        let bytes_before = producer.recent_bytes();
        if producer.recent.is_empty() {
            self.idle.remove(&(producer.rank, number));
            self.oldest.insert((partition, offset, number));
            producer.oldest = offset;
        }
        if producer.recent.len() == self.window_max {
            producer.forget(1);
            self.entries -= 1;
        }
        producer.recent.push_back(Recent::new(publication, offset));
        self.entries += 1;
        producer.owner = producer.owner.max(publication.connection);
        producer.rank = rank;
        self.recent_bytes = self.recent_bytes - bytes_before + producer.recent_bytes();
        if producer.recent.len() == 2 {
            self.several.remove(&(producer.several_rank, number));
            producer.several_rank = rank;
            self.several.insert((rank, number));
        }
        while self.entries > self.entries_max && self.forget_one() {}
    }

    /// Forgets the oldest publication of the producer that has been quiet for longest. False if
    /// each has only one.
    fn forget_one(&mut self) -> bool {
        while let Some((noted_rank, number)) = self.several.pop_first() {
            let Some(producer) = self.producers.get_mut(number) else {
                continue;
            };
            if producer.recent.len() < 2 {
                continue;
            }
            if producer.rank == noted_rank {
                let bytes_before = producer.recent_bytes();
                producer.forget(1);
                self.entries -= 1;
                self.recent_bytes = self.recent_bytes - bytes_before + producer.recent_bytes();
                if producer.recent.len() > 1 {
                    self.several.insert((noted_rank, number));
                }
                return true;
            }
            // It has published since it was noted.
            producer.several_rank = producer.rank;
            self.several.insert((producer.rank, number));
        }
        false
    }

    /// A recent publication of a producer that was noted with `from` has got an offset.
    pub fn placed(&mut self, publication: &Sequenced, from: u64, offset: u64) {
        let Some(number) = self.find(publication.producer) else {
            return;
        };
        let Some(producer) = self.producers.get_mut(number) else {
            return;
        };
        let mut recent = producer.recent.iter_mut().rev();
        let Some(found) = recent.find(|recent| recent.offset() == from) else {
            return;
        };
        found.offset = halves(offset);
        if producer.oldest > offset {
            self.oldest.remove(&(producer.partition, producer.oldest, number));
            producer.oldest = offset;
            self.oldest.insert((producer.partition, offset, number));
        }
    }

    /// Forgets the newest publication of a producer if it has this offset.
    pub fn take_back(&mut self, publication: &Sequenced, offset: u64) {
        let Some(number) = self.find(publication.producer) else {
            return;
        };
        let Some(producer) = self.producers.get_mut(number) else {
            return;
        };
        if producer.recent.back().is_some_and(|newest| newest.offset() == offset) {
            producer.recent.pop_back();
            self.entries -= 1;
            self.rest_if_idle(number);
        }
    }

    /// The connection that may publish as a producer.
    pub fn owner(&self, id: Identity) -> u64 {
        let known = self.find(id).and_then(|number| self.producers.get(number));
        known.map_or(0, |producer| producer.owner)
    }

    /// Publications of a partition up to this offset have no record any more.
    pub fn evicted(&mut self, partition: u32, through: u64) {
        while let Some(&(_, offset, number)) =
            self.oldest.range((partition, 0, 0)..=(partition, through, u32::MAX)).next()
        {
            let Some(producer) = self.producers.get_mut(number) else {
                self.oldest.remove(&(partition, offset, number));
                continue;
            };
            let bytes_before = producer.recent_bytes();
            let count = producer.recent.partition_point(|recent| recent.offset() <= through);
            producer.forget(count);
            self.entries -= count;
            self.recent_bytes = self.recent_bytes - bytes_before + producer.recent_bytes();
            if let Some(oldest) = producer.recent.front() {
                self.oldest.remove(&(partition, offset, number));
                producer.oldest = oldest.offset();
                self.oldest.insert((partition, oldest.offset(), number));
            }
            self.rest_if_idle(number);
        }
    }

    pub fn len(&self) -> usize {
        self.producers.len()
    }

    pub fn allocated_bytes(&self) -> usize {
        const SET_ENTRY_BYTES: usize = 32; // about, with the tree's slack
        self.producers.allocated_bytes()
            + self.table.allocation_size()
            + self.recent_bytes
            + (self.oldest.len() + self.idle.len() + self.several.len()) * SET_ENTRY_BYTES
    }

    /// A producer without recent publications becomes idle, and keeps its owner; also one whose
    /// only publications were taken back.
    fn rest_if_idle(&mut self, number: u32) {
        let Some(producer) = self.producers.get(number) else {
            return;
        };
        if !producer.recent.is_empty() {
            return;
        }
        self.oldest.remove(&(producer.partition, producer.oldest, number));
        self.several.remove(&(producer.several_rank, number));
        self.idle.insert((producer.rank, number));
    }

    fn find(&self, id: Identity) -> Option<u32> {
        let same =
            |number: &u32| self.producers.get(*number).is_some_and(|producer| producer.id == id);
        self.table.find(id[0], same).copied()
    }

    /// A place for a new producer; if there is none, that of the one that has been idle for
    /// longest. `check` has seen that there is one; records that a start finds are taken in any
    /// case.
    fn add(&mut self, partition: u32, id: Identity) -> u32 {
        if self.producers.len() >= self.producers_max
            && let Some((_, longest)) = self.idle.pop_first()
        {
            self.remove(longest);
        }
        let number = self.producers.insert(Producer {
            id,
            recent: VecDeque::new(),
            before: None,
            owner: 0,
            rank: 0,
            oldest: 0,
            several_rank: 0,
            partition,
        });
        let producers = &self.producers;
        self.table.insert_unique(id[0], number, |number| {
            producers.get(*number).map_or(0, |producer| producer.id[0])
        });
        number
    }

    /// Removes a producer that is in neither set.
    fn remove(&mut self, number: u32) {
        let Some(producer) = self.producers.remove(number) else {
            return;
        };
        self.recent_bytes -= producer.recent_bytes();
        if let Ok(found) = self.table.find_entry(producer.id[0], |other| *other == number) {
            found.remove();
        }
    }
}

impl Hand for Producers {
    fn give(&self, out: &mut Vec<u8>) {
        self.producers.give(out);
        self.oldest.give(out);
        self.idle.give(out);
        self.several.give(out);
        (self.producers_max, self.window_max, self.entries_max).give(out);
        (self.entries, self.recent_bytes, self.rank).give(out);
        give_table(&self.table, out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        let producers = <Slab<Producer>>::take(input)?;
        let oldest = Hand::take(input)?;
        let idle = Hand::take(input)?;
        let several = Hand::take(input)?;
        let (producers_max, window_max, entries_max) = Hand::take(input)?;
        let (entries, recent_bytes, rank) = Hand::take(input)?;
        let hash = |number| producers.get(number).map_or(0, |producer| producer.id[0]);
        let table = table_of(Hand::take(input)?, hash);
        Some(Producers {
            producers,
            table,
            oldest,
            idle,
            several,
            producers_max,
            window_max,
            entries_max,
            entries,
            recent_bytes,
            rank,
        })
    }

    fn layout(layout: &mut Layout) {
        layout.name("Producers");
        <(Slab<Producer>, BTreeSet<(u32, u64, u32)>)>::layout(layout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publication(producer: u64, sequence: u64) -> Sequenced {
        Sequenced {
            producer: [producer.wrapping_mul(0x9e37_79b9_7f4a_7c15), producer],
            sequence,
            connection: 1,
            topic: 0,
        }
    }

    /// Windows of all producers together are bounded; each keeps its last publication, and its
    /// order.
    #[test]
    fn entries_of_all_producers() {
        let mut producers = Producers::new(10, 100, 6);
        let mut offset = 0;
        let mut publish = |producers: &mut Producers, producer, sequence| {
            offset += 1;
            producers.note(0, &publication(producer, sequence), offset);
        };
        for sequence in 1..=3 {
            publish(&mut producers, 1, sequence);
            publish(&mut producers, 2, sequence);
        }
        // The first has been quiet for longest.
        for sequence in 1..=3 {
            publish(&mut producers, 3, sequence);
        }
        let mut check = |producer, sequence| producers.check(&publication(producer, sequence));
        for (producer, sequence, offset) in [(1, 3, 5), (2, 2, 4), (2, 3, 6), (3, 1, 7)] {
            assert_eq!(check(producer, sequence), Ok(Found::Duplicate(offset)));
        }
        for (producer, sequence) in [(1, 1), (1, 2), (2, 1)] {
            assert_eq!(check(producer, sequence), Err(Code::OutOfOrder));
        }
        assert_eq!(check(1, 4), Ok(Found::New));
        assert_eq!(producers.entries, 6);
        // One for each is always there.
        for producer in 4..=10 {
            publish(&mut producers, producer, 1);
        }
        assert_eq!(producers.entries, 10);
        assert_eq!(producers.check(&publication(11, 1)), Err(Code::ProducersFull));
        producers.evicted(0, 100);
        assert_eq!((producers.entries, producers.several.len()), (0, 0));
        assert_eq!(producers.idle.len(), 10);
    }

    /// The bytes per producer that `docs/operating.md` gives; the memory is freed with the records.
    #[test]
    fn bytes_per_producer() {
        let mut producers = Producers::new(100_000, 4_096, 1_000_000);
        let mut offset = 0;
        let mut note = |producers: &mut Producers, producer, sequence| {
            offset += 1;
            producers.note(0, &publication(producer, sequence), offset);
            offset
        };
        for producer in 0..100_000 {
            note(&mut producers, producer, 1);
        }
        let each = producers.allocated_bytes() / 100_000;
        assert!(each <= 240, "{each} bytes for a producer");
        let before = producers.allocated_bytes();
        let mut last = 0;
        for sequence in 2..=10_000 {
            last = note(&mut producers, 7, sequence);
        }
        assert_eq!(producers.allocated_bytes() - before, (4_096 - 4) * 20 + 32);
        assert_eq!(
            producers.check(&publication(7, 10_000 - 4_095)),
            Ok(Found::Duplicate(last - 4_095))
        );
        assert_eq!(producers.check(&publication(7, 10_000 - 4_096)), Err(Code::OutOfOrder));
        producers.evicted(0, last);
        let idle = producers.allocated_bytes() / 100_000;
        assert!(idle <= 160, "{idle} bytes for an idle producer");
        assert_eq!(producers.recent_bytes, 0);
        assert_eq!(producers.check(&publication(7, 10_000)), Err(Code::OutOfOrder));
        assert_eq!(producers.check(&publication(7, 10_001)), Ok(Found::New));
    }
}
