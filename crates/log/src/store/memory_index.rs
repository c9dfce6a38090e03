//! The index of a segment in memory: of the active one, or of one that was just scanned.
//!
//! Topics have the numbers of their definitions. A number whose definition is missing, behind
//! damage, is a topic without a partition.

use super::once::OnceTable;
use super::walk::{Item, Walk};
use crate::record::{Flags, RecordView};
use hashbrown::HashTable;
use stdx::hash::{Seed, keyed};
use stdx::memory::vector_bytes;

/// A record in its segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub offset: u64,
    pub position: u32,
    pub length: u32,
}

/// The newest retained publication of a topic in a segment, or the one that cleared it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Retained {
    /// The position of the record, or of the control record that copies it.
    pub position: u32,
    pub length: u32,
    /// The offset of the publication.
    pub offset: u64,
    /// The publication had no payload.
    pub clears: bool,
}

/// Offsets of a partition, both inclusive, that may have been lost with damaged bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hole {
    pub partition: u32,
    pub from: u64,
    pub through: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Topic {
    pub partition: u32,
    pub name: Box<[u8]>,
    /// The places of its records in the partition's entries.
    pub records: Vec<u32>,
    pub retained: Option<Retained>,
    /// The greatest offset of its records and copies.
    pub last_offset: u64,
}

/// The maximum number of cached topic numbers: 1 MiB.
const FOUND_MAX: usize = 1 << 18;
/// A number without a definition.
const UNDEFINED: u32 = u32::MAX;

impl Topic {
    /// Whether it has a record in the segment: its definition may be part of a refused batch.
    pub fn is_present(&self) -> bool {
        self.partition != UNDEFINED && (!self.records.is_empty() || self.retained.is_some())
    }
}

#[derive(Clone, Debug)]
pub(super) struct MemoryIndex {
    seed: Seed,
    /// Topics by number.
    pub topics: Vec<Topic>,
    table: HashTable<u32>,
    /// A cache of topic numbers, by partition and the home's topic id.
    found: Vec<u32>,
    /// Entries by partition, ascending.
    pub partitions: Vec<Vec<Entry>>,
    pub holes: Vec<Hole>,
    pub oldest_ms: u64,
    /// The greatest time of its records; 0 without any.
    pub newest_ms: u64,
    /// The time of its first record.
    pub first_ms: u64,
    pub records_count: u64,
    /// Identities of publications, for deduplication.
    pub once: OnceTable,
}

impl MemoryIndex {
    /// The approximate memory: names and lists are counted, not visited.
    pub fn memory_bytes(&self) -> usize {
        const NAME_BYTES: usize = 32;
        let entries = self.partitions.iter().map(Vec::capacity);
        let names = self.topics.len() * NAME_BYTES;
        let places = vector_bytes::<u32>(self.records_count as usize * 3 / 2);
        vector_bytes::<Topic>(self.topics.capacity())
            + names
            + places
            + self.table.allocation_size()
            + vector_bytes::<u32>(self.found.capacity())
            + vector_bytes::<Vec<Entry>>(self.partitions.capacity())
            + vector_bytes::<Entry>(entries.sum())
    }

    pub fn new(partitions_count: u32, seed: Seed) -> MemoryIndex {
        MemoryIndex {
            seed,
            topics: Vec::new(),
            table: HashTable::new(),
            found: Vec::new(),
            partitions: vec![Vec::new(); partitions_count as usize],
            holes: Vec::new(),
            oldest_ms: u64::MAX,
            newest_ms: 0,
            first_ms: 0,
            records_count: 0,
            once: OnceTable::default(),
        }
    }

    /// The key of its hashes.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// The number of a topic.
    pub fn number_of(&self, partition: u32, name: &[u8]) -> Option<u32> {
        let is_it = |number: &u32| {
            let topic = &self.topics[*number as usize];
            topic.partition == partition && *topic.name == *name
        };
        self.table.find(hash(self.seed, partition, name), is_it).copied()
    }

    /// Does the work of [`MemoryIndex::number_of`], for a topic that is likely to be requested
    /// again under the same id: then its name is compared instead of hashed. The id affects only
    /// the speed.
    pub fn number_of_known(&mut self, partition: u32, id: u32, name: &[u8]) -> Option<u32> {
        // Enough slots that few topics share one.
        if self.found.len() < (4 * self.topics.len()).min(FOUND_MAX) {
            let slots_count = (8 * self.topics.len()).next_power_of_two().min(FOUND_MAX);
            self.found.clear();
            self.found.resize(slots_count.max(64), UNDEFINED);
        }
        let mixed = u64::from(id) << 32 | u64::from(partition);
        let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let slot = (mixed as usize).checked_rem(self.found.len());
        let recent = slot.map_or(UNDEFINED, |slot| self.found[slot]);
        let is_it = |topic: &Topic| topic.partition == partition && *topic.name == *name;
        if self.topics.get(recent as usize).is_some_and(is_it) {
            return Some(recent);
        }
        let number = self.number_of(partition, name)?;
        if let Some(slot) = slot {
            self.found[slot] = number;
        }
        Some(number)
    }

    /// Assigns the next number to a topic without one.
    pub fn define(&mut self, partition: u32, name: &[u8]) -> u32 {
        let number = self.topics.len() as u32; // a definition takes 52 bytes, a segment has less than 4 GiB
        self.topics.push(Topic::undefined());
        self.define_as(number, partition, name);
        number
    }

    fn define_as(&mut self, number: u32, partition: u32, name: &[u8]) {
        let topic = &mut self.topics[number as usize];
        (topic.partition, topic.name) = (partition, name.into());
        let (seed, topics) = (self.seed, &self.topics);
        let rehash = |number: &u32| {
            let topic = &topics[*number as usize];
            hash(seed, topic.partition, &topic.name)
        };
        self.table.insert_unique(hash(seed, partition, name), number, rehash);
    }

    /// Adds a definition from a segment. False if it contradicts another.
    fn define_found(&mut self, number: u32, partition: u32, name: &[u8]) -> bool {
        if partition as usize >= self.partitions.len() || self.number_of(partition, name).is_some()
        {
            return false;
        }
        while self.topics.len() <= number as usize {
            self.topics.push(Topic::undefined());
        }
        let is_free = self.topics[number as usize].partition == UNDEFINED;
        if is_free {
            self.define_as(number, partition, name);
        }
        is_free
    }

    /// The topic of a number from a segment.
    pub fn defined(&self, number: u32) -> Option<&Topic> {
        let topic = self.topics.get(number as usize);
        topic.filter(|topic| topic.partition != UNDEFINED)
    }

    /// Adds a record; its offset is above those of its partition.
    pub fn push(&mut self, number: u32, entry: Entry, flags: Flags, time_ms: u64, is_empty: bool) {
        let topic = &mut self.topics[number as usize];
        let entries = &mut self.partitions[topic.partition as usize];
        topic.records.push(entries.len() as u32);
        topic.last_offset = topic.last_offset.max(entry.offset);
        entries.push(entry);
        if self.records_count == 0 {
            self.first_ms = time_ms;
        }
        self.records_count += 1;
        self.oldest_ms = self.oldest_ms.min(time_ms);
        self.newest_ms = self.newest_ms.max(time_ms);
        if flags.has(Flags::RETAINED) {
            topic.retained = Some(Retained {
                position: entry.position,
                length: entry.length,
                offset: entry.offset,
                clears: is_empty,
            });
        }
    }

    /// Adds a copy of a retained message.
    pub fn push_retained(&mut self, number: u32, retained: Retained) {
        let topic = &mut self.topics[number as usize];
        topic.last_offset = topic.last_offset.max(retained.offset);
        topic.retained = Some(retained);
    }

    /// The numbers of the topics with records, by partition and name.
    pub fn sorted(&self) -> Vec<u32> {
        let is_present = |number: &u32| self.topics[*number as usize].is_present();
        let mut numbers: Vec<u32> = (0..self.topics.len() as u32).filter(is_present).collect();
        numbers.sort_unstable_by_key(|number| {
            let topic = &self.topics[*number as usize];
            (topic.partition, &topic.name)
        });
        numbers
    }
}

impl Topic {
    fn undefined() -> Topic {
        Topic {
            partition: UNDEFINED,
            name: Box::default(),
            records: Vec::new(),
            retained: None,
            last_offset: 0,
        }
    }
}

fn hash(seed: Seed, partition: u32, name: &[u8]) -> u64 {
    // A name belongs to one partition, so the number only matters after damage or an attack.
    keyed(seed, name) ^ u64::from(partition).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Builds an index from the bytes of a segment, piece by piece.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    pub index: MemoryIndex,
    /// The damaged ranges.
    pub damages: Vec<(u64, u64)>,
    /// The greatest offset so far, for each partition.
    pub lasts: Vec<u64>,
    /// The start of a hole that no later record has ended yet, for each partition.
    open: Vec<Option<u64>>,
    /// Whether any hole is open.
    is_open: bool,
    /// The highest valid offset of each partition; empty: no limit.
    pub limits: Vec<u64>,
}

impl Scan {
    /// Starts before a segment whose partitions end at `heads`.
    pub fn new(heads: &[u64], seed: Seed) -> Scan {
        Scan {
            index: MemoryIndex::new(heads.len() as u32, seed),
            damages: Vec::new(),
            lasts: heads.to_vec(),
            open: vec![None; heads.len()],
            is_open: false,
            limits: Vec::new(),
        }
    }

    /// Adds the bytes from `from` to the end of the slice.
    pub fn take(&mut self, bytes: &[u8], sequence: u64, from: u64) {
        for (start, end, item) in Walk::new(bytes, sequence, from) {
            if !self.take_item(start, end, &item) {
                self.damage(start, end);
            }
        }
    }

    /// Opens holes in all partitions, for offsets that may be missing without damaged bytes.
    pub fn open_everywhere(&mut self) {
        self.is_open = true;
        for (open, last) in self.open.iter_mut().zip(&self.lasts) {
            open.get_or_insert(last + 1);
        }
    }

    /// Records damaged bytes.
    pub fn damage(&mut self, start: u64, end: u64) {
        self.open_everywhere();
        match self.damages.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.damages.push((start, end)),
        }
    }

    /// Ends the segment. `heads` are those of the next segment. Without them the loss behind a
    /// partition's last record is only bounded by the minimum record size of 40 bytes.
    pub fn finish(&mut self, heads: Option<&[u64]>) {
        let lost: u64 = self.damages.iter().map(|(start, end)| end - start).sum();
        for partition in 0..self.lasts.len() {
            let Some(from) = self.open[partition].take() else {
                continue;
            };
            let through = match heads {
                Some(heads) => heads[partition],
                None => from.saturating_add(lost / 40),
            };
            self.lasts[partition] = self.lasts[partition].max(through);
            self.hole(partition as u32, from, through);
        }
        self.is_open = false;
    }

    fn hole(&mut self, partition: u32, from: u64, through: u64) {
        if from <= through {
            self.index.holes.push(Hole { partition, from, through });
        }
    }

    /// Adds an item. False if it contradicts earlier ones.
    pub fn take_item(&mut self, start: u64, end: u64, item: &Item<'_>) -> bool {
        let (Ok(position), Ok(length)) = (u32::try_from(start), u32::try_from(end - start)) else {
            return false;
        };
        match item {
            Item::Mark(_) => true,
            Item::Damage => false,
            Item::Definition { number, partition, name } => {
                let is_possible =
                    u64::from(*number) <= start / super::format::DEFINITION_BYTES_MIN as u64;
                is_possible && self.index.define_found(*number, *partition, name)
            }
            Item::Retained { number, record } => {
                let is_known = self.index.defined(*number).is_some();
                if is_known {
                    let retained = Retained {
                        position,
                        length,
                        offset: record.offset(),
                        clears: record.payload().is_empty(),
                    };
                    self.index.push_retained(*number, retained);
                }
                is_known
            }
            Item::Record(record) => self.take_record(position, record),
        }
    }

    fn take_record(&mut self, position: u32, record: &RecordView<'_>) -> bool {
        let Some(topic) = self.index.defined(record.topic()) else {
            return false;
        };
        let (partition, offset) = (topic.partition as usize, record.offset());
        if self.limits.get(partition).is_some_and(|limit| offset > *limit) {
            return true;
        }
        if offset <= self.lasts[partition] || offset == u64::MAX {
            return false;
        }
        if self.is_open
            && let Some(from) = self.open[partition].take()
        {
            self.hole(partition as u32, from, offset - 1);
        }
        self.lasts[partition] = offset;
        let entry = Entry { offset, position, length: record.bytes().len() as u32 };
        let is_empty = record.payload().is_empty();
        self.index.push(record.topic(), entry, record.flags(), record.time_ms(), is_empty);
        self.index.push_once(record.topic(), position, record);
        true
    }
}

impl MemoryIndex {
    /// Adds the identity of a record that was pushed.
    pub fn push_once(&mut self, number: u32, position: u32, record: &RecordView<'_>) {
        let partition = self.topics[number as usize].partition;
        self.once.push(self.seed(), (partition, number), position, record);
    }
}
