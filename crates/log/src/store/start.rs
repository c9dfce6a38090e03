//! Reads of a start: all topics, the retained messages, and the newest records for the memory of
//! the homes.

use super::disk::{Disk, DiskError};
use super::files::ReadError;
use super::format::segment_name;
use super::index::{Found, Index, List};
use super::memory_index::Retained;
use super::walk::{Item, Walk};
use super::{Store, StoreError};
use crate::record::RecordView;
use hashbrown::HashTable;
use stdx::hash::{Seed, keyed};

/// The topics found so far, in order.
struct Met {
    seed: Seed,
    table: HashTable<u32>,
    topics: Vec<MetTopic>,
}

struct MetTopic {
    partition: u32,
    name: Box<[u8]>,
    /// The greatest offset in any segment that was read.
    last_offset: u64,
}

impl Met {
    fn new(seed: Seed) -> Met {
        Met { seed, table: HashTable::new(), topics: Vec::new() }
    }

    /// Adds a topic; true if it is new.
    fn meet(&mut self, partition: u32, name: &[u8], last_offset: u64) -> bool {
        // A name belongs to one partition; the number only matters after damage.
        let (seed, topics) = (self.seed, &mut self.topics);
        let is_it = |place: &u32| {
            let topic = &topics[*place as usize];
            topic.partition == partition && *topic.name == *name
        };
        let hash = keyed(seed, name);
        if let Some(place) = self.table.find(hash, is_it) {
            let last = &mut topics[*place as usize].last_offset;
            *last = last_offset.max(*last);
            return false;
        }
        topics.push(MetTopic { partition, name: name.into(), last_offset });
        let place = (topics.len() - 1) as u32; // a topic takes far more than a byte of a home's memory
        let rehash = |place: &u32| keyed(seed, &topics[*place as usize].name);
        self.table.insert_unique(hash, place, rehash);
        true
    }
}

impl<D: Disk> Store<D> {
    /// Visits every topic once: its partition, name, and its greatest offset on disk.
    pub fn topics(&mut self, visit: &mut dyn FnMut(u32, &[u8], u64)) -> Result<(), StoreError> {
        let mut met = Met::new(self.settings.hash_seed);
        for segment in (0..self.segments.len()).rev() {
            self.list(segment, false, &mut |partition, name, found| {
                met.meet(partition, name, found.last_offset);
            })?;
        }
        drop(met.table);
        for topic in met.topics {
            visit(topic.partition, &topic.name, topic.last_offset);
        }
        Ok(())
    }

    /// Visits the present retained message of every topic, with its offset and time. Damaged ones
    /// are left out.
    pub fn retained(
        &mut self,
        visit: &mut dyn FnMut(u32, &[u8], RecordView<'_>),
    ) -> Result<(), StoreError> {
        let mut met = Met::new(self.settings.hash_seed);
        // The newest segment with a retained record of a topic counts, even if the record clears
        // it.
        for segment in (0..self.segments.len()).rev() {
            let mut present = Vec::new();
            self.list(segment, true, &mut |partition, name, found| {
                let is_first = met.meet(partition, name, found.last_offset);
                let retained = found.retained.filter(|retained| !retained.clears);
                if let Some(retained) = retained.filter(|_| is_first) {
                    present.push((met.topics.len() - 1, retained));
                }
            })?;
            for (place, retained) in present {
                let bytes = self.read_retained_with_retries(segment, &retained);
                if let Some(record) = bytes.as_deref().and_then(RecordView::parse) {
                    let topic = &met.topics[place];
                    visit(topic.partition, &topic.name, record);
                }
            }
        }
        Ok(())
    }

    /// Reads a retained publication; None if it is damaged or unreadable. A start has no later
    /// attempt.
    fn read_retained_with_retries(
        &mut self,
        segment: usize,
        retained: &Retained,
    ) -> Option<Vec<u8>> {
        let tries = (0..super::files::READS_MAX).map(|_| self.read_retained(segment, retained));
        tries.flatten().next().flatten()
    }

    /// Visits the newest records of all partitions, `bytes_max` in total, in the order of the log.
    /// They begin behind all damage, so that no visited record has a hole before it.
    pub fn recent(
        &mut self,
        bytes_max: u64,
        visit: &mut dyn FnMut(u32, &[u8], RecordView<'_>),
    ) -> Result<(), StoreError> {
        let mut first = self.segments.len();
        let mut bytes = 0;
        while first > 0 && bytes < bytes_max {
            first -= 1;
            let segment = &self.segments[first];
            bytes += segment.valid_bytes.saturating_sub(segment.head.bytes());
        }
        // Control records count here, so slightly less than `bytes_max` is visited.
        let skipped = bytes.saturating_sub(bytes_max);
        let mut start = skipped + self.segments.get(first).map_or(0, |it| it.head.bytes());
        for segment in (first..self.segments.len()).rev() {
            match self.last_hole(segment) {
                Ok(Some(behind)) if segment > first || behind > start => {
                    (first, start) = (segment, behind);
                    break;
                }
                Ok(_) => {}
                // Unreadable segments, and older ones, are not loaded into memory.
                Err(StoreError::Disk(DiskError::Io(_) | DiskError::NotFound)) => {
                    (first, start) = (segment + 1, 0);
                    break;
                }
                Err(error) => return Err(error),
            }
            if segment > first && self.is_behind_hole(segment) {
                (first, start) = (segment, 0);
                break;
            }
        }
        for segment in first..self.segments.len() {
            self.visit_from(segment, start, visit)?;
            start = 0;
        }
        Ok(())
    }

    /// Whether the segment before this one is lost.
    fn is_behind_hole(&self, segment: usize) -> bool {
        let segment = &self.segments[segment];
        let head_of = |partition: u32| segment.head.heads.get(partition as usize);
        let mut holes = segment.index.holes().iter();
        holes.any(|hole| head_of(hole.partition).is_some_and(|head| hole.through <= *head))
    }

    /// The start of the records behind a segment's holes; the segment's end, if a partition has
    /// none. Its bytes need not show all holes: they may end before the damage, or be valid but
    /// contradictory.
    fn behind_holes(&mut self, segment: usize) -> Result<Option<u64>, StoreError> {
        self.repairing(|store| {
            let segment = &store.segments[segment];
            let mut behind = None;
            for hole in segment.index.holes() {
                let head = segment.head.heads.get(hole.partition as usize);
                if head.is_none_or(|head| hole.through <= *head) {
                    continue; // before the segment
                }
                let files = &mut store.files;
                let records = segment.index.records(files, hole.partition)?;
                let next = hole.through.saturating_add(1);
                let place = segment.index.place_from(files, &records, next)?;
                let begin = if place < records.count {
                    segment.index.entry(files, &records, place)?.position.into()
                } else {
                    segment.valid_bytes
                };
                behind = behind.max(Some(begin));
            }
            Ok(behind)
        })
    }

    /// The start of the valid part of a segment: behind the last bytes that are not a record, or
    /// whose topic has no name.
    fn last_hole(&mut self, segment: usize) -> Result<Option<u64>, StoreError> {
        let behind_holes = self.behind_holes(segment)?;
        let (sequence, valid_bytes, head_bytes) = {
            let segment = &self.segments[segment];
            let head = &segment.head;
            (head.sequence, segment.valid_bytes, head.bytes())
        };
        let bytes = self.files.read_whole(&segment_name(sequence), valid_bytes)?;
        let is_short = (bytes.len() as u64) < valid_bytes;
        let mut behind = is_short.then_some(valid_bytes).max(behind_holes);
        let mut named = std::collections::BTreeSet::new();
        for (_, end, item) in Walk::new(&bytes, sequence, head_bytes) {
            let is_whole = match item {
                Item::Definition { number, .. } => {
                    named.insert(number);
                    true
                }
                Item::Record(record) => named.contains(&record.topic()),
                Item::Damage => false,
                Item::Retained { .. } | Item::Mark(_) => true,
            };
            if !is_whole && !is_short {
                behind = behind.max(Some(end));
            }
        }
        Ok(behind)
    }

    /// Visits the publications of a segment from a position on; a batch that occurs twice because
    /// of damage is visited once.
    fn visit_from(
        &mut self,
        segment: usize,
        start: u64,
        visit: &mut dyn FnMut(u32, &[u8], RecordView<'_>),
    ) -> Result<(), StoreError> {
        let (sequence, valid_bytes) = {
            let segment = &self.segments[segment];
            (segment.head.sequence, segment.valid_bytes)
        };
        let name = segment_name(sequence);
        let bytes = self.files.read_whole(&name, valid_bytes)?;
        let mut names: Vec<Option<(u32, Vec<u8>)>> = Vec::new();
        let mut lasts = self.segments[segment].head.heads.clone();
        let limits = self.end_heads(segment).to_vec();
        for (position, _, item) in Walk::new(&bytes, sequence, self.segments[segment].head.bytes())
        {
            match item {
                Item::Definition { number, partition, name }
                    if u64::from(number) <= position / 40 =>
                {
                    let place = number as usize;
                    if names.len() <= place {
                        names.resize(place + 1, None);
                    }
                    names[place].get_or_insert_with(|| (partition, name.to_vec()));
                }
                Item::Record(record) => {
                    let topic = names.get(record.topic() as usize);
                    if let Some(Some((partition, name))) = topic
                        && *partition < self.settings.partitions_count
                    {
                        // As in the index.
                        let place = *partition as usize;
                        let is_indexed =
                            lasts[place] < record.offset() && record.offset() <= limits[place];
                        if !is_indexed {
                            continue;
                        }
                        lasts[place] = record.offset();
                        if position >= start {
                            visit(*partition, name, record);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Visits the topics of a segment, all or those with a retained record. Segment by segment,
    /// because a file's pages are then read once and in order, for any number of segments.
    pub(super) fn list(
        &mut self,
        segment: usize,
        is_retained: bool,
        visit: &mut dyn FnMut(u32, &[u8], &Found),
    ) -> Result<(), StoreError> {
        let mut list = self.segments[segment].index.list(is_retained);
        let mut name = Vec::new();
        for nth in 0.. {
            let listed = self.repairing(|store| {
                let index = &store.segments[segment].index;
                // An index that was rebuilt meanwhile has the same topics in the same order.
                if matches!(index, Index::Memory(_)) != matches!(list, List::Numbers(_)) {
                    list = index.list(is_retained);
                }
                let listed = index.listed(&mut store.files, &list, nth, &mut name)?;
                Ok::<_, ReadError>(listed)
            })?;
            match listed {
                Some((partition, found)) => visit(partition, &name, &found),
                None => break,
            }
        }
        Ok(())
    }
}
