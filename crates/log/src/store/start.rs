//! What a start reads: all topics, the retained messages, and the newest records for the memory of the homes.

use super::disk::Disk;
use super::files::ReadError;
use super::format::segment_name;
use super::index::{Found, Index, List};
use super::walk::{Item, Walk};
use super::{Store, StoreError};
use crate::record::RecordView;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Takes a topic of the merge.
type Visit<'a, D> = dyn FnMut(&mut Store<D>, Merged) -> Result<(), StoreError> + 'a;

/// A topic that the merge of all indexes has come to.
struct Merged {
    partition: u32,
    name: Vec<u8>,
    /// Greatest offset in any segment.
    last_offset: u64,
    /// The newest segment that has it, and what it says.
    segment: usize,
    found: Found,
}

impl<D: Disk> Store<D> {
    /// Every topic once: its partition, name, and the greatest offset that it has on disk.
    pub fn topics(&mut self, visit: &mut dyn FnMut(u32, &[u8], u64)) -> Result<(), StoreError> {
        self.merge(false, &mut |_, topic| {
            visit(topic.partition, &topic.name, topic.last_offset);
            Ok(())
        })
    }

    /// The present retained message of every topic that has one, with its offset and time. One that is damaged is
    /// left out.
    pub fn retained(
        &mut self,
        visit: &mut dyn FnMut(u32, &[u8], RecordView<'_>),
    ) -> Result<(), StoreError> {
        self.merge(true, &mut |store, topic| {
            let Some(retained) = topic.found.retained.filter(|retained| !retained.clears) else {
                return Ok(());
            };
            let bytes = store.read_retained(topic.segment, &retained)?;
            if let Some(record) = bytes.as_deref().and_then(RecordView::parse) {
                visit(topic.partition, &topic.name, record);
            }
            Ok(())
        })
    }

    /// The newest records of all partitions, `bytes_max` of them together, in the order of the log. They begin behind
    /// what is damaged: none of what is visited has a hole before it.
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
        // Control records count here, and so a little less than `bytes_max` is visited.
        let skipped = bytes.saturating_sub(bytes_max);
        let mut start = skipped + self.segments.get(first).map_or(0, |it| it.head.bytes());
        for segment in (first..self.segments.len()).rev() {
            if let Some(behind) = self
                .last_hole(segment)?
                .filter(|behind| segment > first || *behind > start)
            {
                (first, start) = (segment, behind);
                break;
            }
        }
        for segment in first..self.segments.len() {
            self.visit_from(segment, start, visit)?;
            start = 0;
        }
        Ok(())
    }

    /// Where a segment is whole from: behind the last bytes that are no record, or whose topic has no name.
    fn last_hole(&mut self, segment: usize) -> Result<Option<u64>, StoreError> {
        let (sequence, valid_bytes, head_bytes) = {
            let segment = &self.segments[segment];
            let head = &segment.head;
            (head.sequence, segment.valid_bytes, head.bytes())
        };
        let bytes = self
            .files
            .read_whole(&segment_name(sequence), valid_bytes)?;
        let is_short = (bytes.len() as u64) < valid_bytes;
        let mut behind = is_short.then_some(valid_bytes);
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
                behind = Some(end);
            }
        }
        Ok(behind)
    }

    /// Visits the publications of a segment from a position on.
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
        for (position, _, item) in Walk::new(&bytes, sequence, self.segments[segment].head.bytes())
        {
            match item {
                Item::Definition {
                    number,
                    partition,
                    name,
                } if u64::from(number) <= position / 40 => {
                    let place = number as usize;
                    if names.len() <= place {
                        names.resize(place + 1, None);
                    }
                    names[place].get_or_insert_with(|| (partition, name.to_vec()));
                }
                Item::Record(record) if position >= start => {
                    let topic = names.get(record.topic() as usize);
                    if let Some(Some((partition, name))) = topic
                        && *partition < self.settings.partitions_count
                    {
                        visit(*partition, name, record);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Visits topics by partition and name, each once, over all segments.
    fn merge(&mut self, is_retained: bool, visit: &mut Visit<'_, D>) -> Result<(), StoreError> {
        let list_of = |segment: &super::Segment| segment.index.list(is_retained);
        let mut lists: Vec<List> = self.segments.iter().map(list_of).collect();
        // The least topic first; of the same topic the newest segment first.
        let mut heap = BinaryHeap::new();
        for segment in 0..lists.len() {
            let listed = self.listed(&mut lists, segment, 0, is_retained)?;
            heap.extend(
                listed.map(|(key, found)| Reverse((key, Reverse(segment), 0, Payload(found)))),
            );
        }
        let mut merged: Option<Merged> = None;
        while let Some(Reverse(((partition, name), Reverse(segment), nth, Payload(found)))) =
            heap.pop()
        {
            let listed = self.listed(&mut lists, segment, nth + 1, is_retained)?;
            let next = listed
                .map(|(key, found)| Reverse((key, Reverse(segment), nth + 1, Payload(found))));
            heap.extend(next);
            match &mut merged {
                Some(merged) if merged.partition == partition && merged.name == name => {
                    merged.last_offset = merged.last_offset.max(found.last_offset);
                }
                _ => {
                    let topic = Merged {
                        partition,
                        name,
                        last_offset: found.last_offset,
                        segment,
                        found,
                    };
                    if let Some(done) = merged.replace(topic) {
                        visit(self, done)?;
                    }
                }
            }
        }
        match merged {
            Some(last) => visit(self, last),
            None => Ok(()),
        }
    }

    /// One topic of a segment. An index that is made again meanwhile has the same topics in the same order.
    #[allow(clippy::type_complexity)] // a key and a value
    fn listed(
        &mut self,
        lists: &mut [List],
        segment: usize,
        nth: u32,
        is_retained: bool,
    ) -> Result<Option<((u32, Vec<u8>), Found)>, StoreError> {
        self.repairing(|store| {
            let index = &store.segments[segment].index;
            if matches!(index, Index::Memory(_)) != matches!(lists[segment], List::Numbers(_)) {
                lists[segment] = index.list(is_retained);
            }
            let mut name = Vec::new();
            let listed = index.listed(&mut store.files, &lists[segment], nth, &mut name)?;
            Ok::<_, ReadError>(listed.map(|(partition, found)| ((partition, name), found)))
        })
    }
}

/// What the heap carries along without comparing it.
struct Payload(Found);

impl PartialEq for Payload {
    fn eq(&self, _: &Payload) -> bool {
        true
    }
}

impl Eq for Payload {}

impl PartialOrd for Payload {
    fn partial_cmp(&self, other: &Payload) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Payload {
    fn cmp(&self, _: &Payload) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}
