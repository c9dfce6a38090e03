//! Identities of publications in the index of a segment: a start restores deduplication from them,
//! without reading records.
//!
//! A producer has a row in each segment, so that a producer without recent publications is found
//! without visiting the publications of others; only as many publications as requested are read.

use super::disk::Disk;
use super::files::ReadError;
use super::{Store, StoreError};
use crate::record::{Field, Producer, RecordView};
use hashbrown::HashTable;
use std::collections::BTreeMap;
use stdx::hash::{Seed, keyed};

/// The identities that a start requests. Called segment by segment, the newest first.
pub trait OnceWindow {
    /// The number of a producer's newest publications in the segment that are requested.
    fn publications_wanted(&self, partition: u32, producer: &[u8]) -> u32;

    /// Whether idempotency keys are requested.
    fn wants_keys(&self) -> bool;

    /// Receives the identities of one segment.
    fn take(&mut self, found: SegmentOnce);
}

/// The identities of one segment's publications.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SegmentOnce {
    /// Partition and name of the topics; the other fields refer to them by index.
    pub topics: Vec<(u32, Box<[u8]>)>,
    /// Producers with a requested publication, in the order of their last publications.
    pub producers: Vec<ProducerOnce>,
    /// Keys in the order of the log.
    pub keys: Vec<KeyOnce>,
}

/// A producer in a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProducerOnce {
    /// The partition; each partition counts a producer's publications separately.
    pub partition: u32,
    /// The producer's id.
    pub id: Box<[u8]>,
    /// The time of its last publication in the segment; milliseconds since 1970.
    pub last_ms: u64,
    /// Its publications, oldest first.
    pub publications: Vec<SequenceOnce>,
}

/// A producer's publication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceOnce {
    /// The producer's sequence number.
    pub sequence: u64,
    /// Its offset.
    pub offset: u64,
    /// The index of its topic.
    pub topic: u32,
}

/// A publication with an idempotency key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyOnce {
    /// The key.
    pub key: Box<[u8]>,
    /// Its offset.
    pub offset: u64,
    /// Its time; milliseconds since 1970.
    pub time_ms: u64,
    /// The index of its topic.
    pub topic: u32,
}

/// The identities of a segment's publications in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct OnceTable {
    pub producers: Vec<ProducerRow>,
    table: HashTable<u32>,
    /// Keys in the order of the log.
    pub keys: Vec<KeyRow>,
    pub key_bytes: Vec<u8>,
}

/// A producer; topics by their numbers.
#[derive(Clone, Debug)]
pub(super) struct ProducerRow {
    pub partition: u32,
    pub id: Box<[u8]>,
    /// Publications in the order of the log.
    pub publications: Vec<SequenceOnce>,
    /// The position of its last record.
    pub last_position: u32,
    pub last_ms: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct KeyRow {
    pub offset: u64,
    pub time_ms: u64,
    /// The number of its topic.
    pub topic: u32,
    /// The start in the bytes of all keys.
    pub start: u32,
    pub length: u16,
}

/// The identity of a record's publication. The first of repeated fields counts.
fn names_of<'a>(record: &RecordView<'a>) -> (Option<Producer<'a>>, Option<&'a [u8]>) {
    let (mut producer, mut key) = (None, None);
    for field in record.fields() {
        match field {
            Field::Producer(found) => producer = producer.or(Some(found)),
            Field::IdempotencyKey(found) => key = key.or(Some(found)),
            _ => {}
        }
    }
    (producer, key.filter(|key| !key.is_empty()))
}

/// Whether a record's publication has an identity.
pub(super) fn is_named(record: &RecordView<'_>) -> bool {
    let (producer, key) = names_of(record);
    producer.is_some() || key.is_some()
}

impl OnceTable {
    /// Adds a record of a topic, by its number, at a position.
    pub fn push(
        &mut self,
        seed: Seed,
        (partition, topic): (u32, u32),
        position: u32,
        record: &RecordView<'_>,
    ) {
        let (producer, key) = names_of(record);
        if let Some(Producer { id, sequence }) = producer {
            let place = self.producer(seed, partition, id);
            let row = &mut self.producers[place];
            row.publications.push(SequenceOnce { sequence, offset: record.offset(), topic });
            (row.last_position, row.last_ms) = (position, record.time_ms());
        }
        if let Some(key) = key {
            self.keys.push(KeyRow {
                offset: record.offset(),
                time_ms: record.time_ms(),
                topic,
                start: self.key_bytes.len() as u32, // less than the segment's size
                length: key.len() as u16,           // as in the record
            });
            self.key_bytes.extend_from_slice(key);
        }
    }

    fn producer(&mut self, seed: Seed, partition: u32, id: &[u8]) -> usize {
        let hash = |partition: u32, id: &[u8]| {
            keyed(seed, id) ^ u64::from(partition).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        };
        let producers = &self.producers;
        let is_it = |place: &u32| {
            let row = &producers[*place as usize];
            row.partition == partition && *row.id == *id
        };
        if let Some(place) = self.table.find(hash(partition, id), is_it) {
            return *place as usize;
        }
        let place = producers.len();
        self.producers.push(ProducerRow {
            partition,
            id: id.into(),
            publications: Vec::new(),
            last_position: 0,
            last_ms: 0,
        });
        let producers = &self.producers;
        let rehash = |place: &u32| {
            let row = &producers[*place as usize];
            hash(row.partition, &row.id)
        };
        // There are fewer than records in the segment.
        self.table.insert_unique(hash(partition, id), place as u32, rehash);
        place
    }

    /// The indexes of the producers, by partition and id.
    pub fn sorted(&self) -> Vec<u32> {
        let mut places: Vec<u32> = (0..self.producers.len() as u32).collect();
        places.sort_unstable_by_key(|place| {
            let row = &self.producers[*place as usize];
            (row.partition, &row.id)
        });
        places
    }

    pub(super) fn found(&self, window: &dyn OnceWindow) -> FoundOnce {
        let mut found = FoundOnce::default();
        for row in &self.producers {
            let wanted = window.publications_wanted(row.partition, &row.id) as usize;
            let skipped = row.publications.len().saturating_sub(wanted);
            found.producer(
                row.last_position,
                ProducerOnce {
                    partition: row.partition,
                    id: row.id.clone(),
                    last_ms: row.last_ms,
                    publications: row.publications[skipped..].to_vec(),
                },
            );
        }
        if window.wants_keys() {
            found.keys = self.keys.iter().map(|row| self.key(row)).collect();
        }
        found
    }

    fn key(&self, row: &KeyRow) -> KeyOnce {
        let start = row.start as usize;
        let key = &self.key_bytes[start..start + usize::from(row.length)];
        KeyOnce { key: key.into(), offset: row.offset, time_ms: row.time_ms, topic: row.topic }
    }
}

/// The identities found in an index; topics by their numbers or rows.
#[derive(Debug, Default)]
pub(super) struct FoundOnce {
    /// Producers with the positions of their last records.
    producers: Vec<(u32, ProducerOnce)>,
    pub keys: Vec<KeyOnce>,
}

impl FoundOnce {
    /// Adds a producer whose last record is at a position.
    pub fn producer(&mut self, last_position: u32, producer: ProducerOnce) {
        if !producer.publications.is_empty() {
            self.producers.push((last_position, producer));
        }
    }

    /// Replaces topic numbers by indexes; `name` returns partition and name of a topic.
    pub(super) fn resolve(
        mut self,
        mut name: impl FnMut(u32) -> Result<(u32, Box<[u8]>), ReadError>,
    ) -> Result<SegmentOnce, ReadError> {
        self.producers.sort_by_key(|(position, _)| *position);
        let mut producers: Vec<ProducerOnce> =
            self.producers.into_iter().map(|(_, row)| row).collect();
        let publications = producers.iter_mut().flat_map(|row| &mut row.publications);
        let mut topics: Vec<&mut u32> = publications.map(|row| &mut row.topic).collect();
        topics.extend(self.keys.iter_mut().map(|key| &mut key.topic));
        // Without repetition, and in the order of the file.
        let mut places: BTreeMap<u32, u32> = topics.iter().map(|topic| (**topic, 0)).collect();
        let mut names = Vec::with_capacity(places.len());
        for (topic, place) in &mut places {
            *place = names.len() as u32;
            names.push(name(*topic)?);
        }
        for topic in topics {
            *topic = places[topic];
        }
        Ok(SegmentOnce { topics: names, producers, keys: self.keys })
    }
}

impl<D: Disk> Store<D> {
    /// Passes identities of publications to a window, segment by segment, the newest first.
    /// Unreadable ones are left out.
    ///
    /// # Errors
    /// A disk error.
    pub fn once(&mut self, window: &mut dyn OnceWindow) -> Result<(), StoreError> {
        for segment in (0..self.segments.len()).rev() {
            // The segment as a whole: after a rebuild of a damaged index the read starts again.
            let mut found = self.repairing(|store| {
                let index = &store.segments[segment].index;
                index.once(&mut store.files, window)
            })?;
            let count = self.settings.partitions_count;
            let SegmentOnce { topics, producers, keys } = &mut found;
            producers.retain(|row| row.partition < count);
            keys.retain(|key| topics[key.topic as usize].0 < count);
            window.take(found);
        }
        Ok(())
    }
}
