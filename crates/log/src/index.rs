//! Locations of the records of a segment: by offset, and by topic once it is sealed.
//!
//! The segment's bytes alone determine both, so they can be rebuilt. Memory: 8 bytes per record for
//! the table; a sealed segment has 4 more per record and 8 per topic. A topic's positions ascend,
//! and so do its offsets.

use crate::record::RecordView;
use stdx::handing::Hand;

/// Offset and position of every record of a segment, ascending.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hand)]
pub struct Table {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hand)]
struct Entry {
    /// The offset minus the segment's base offset.
    relative: u32,
    /// The byte in the segment.
    position: u32,
}

/// Maps a topic to the positions of its records, ascending. Only for sealed segments; immutable.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hand)]
pub struct TopicIndex {
    /// Topics, ascending, each with the end of its positions; they start at the end of the previous
    /// topic's.
    topics: Box<[(u32, u32)]>,
    positions: Box<[u32]>,
}

impl Table {
    /// Adds the next record; its offset is above all earlier ones.
    pub(crate) fn push(&mut self, relative: u32, position: u32) {
        self.entries.push(Entry { relative, position });
    }

    pub(crate) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// The number of records in the segment.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the segment has no record.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of the first record whose relative offset is at or above `relative`; `len()` if
    /// there is none.
    pub(crate) fn first_at_or_after(&self, relative: u64) -> usize {
        self.entries.partition_point(|entry| u64::from(entry.relative) < relative)
    }

    /// The number of the record with this relative offset.
    pub(crate) fn find(&self, relative: u64) -> Option<usize> {
        let relative = u32::try_from(relative).ok()?;
        self.entries.binary_search_by_key(&relative, |entry| entry.relative).ok()
    }

    /// The position of a record by its number.
    pub fn position(&self, number: usize) -> Option<u32> {
        self.entries.get(number).map(|entry| entry.position)
    }

    pub(crate) fn positions(&self) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator {
        self.entries.iter().map(|entry| entry.position)
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }
}

impl TopicIndex {
    /// Builds the index of the records in `table` from `bytes`, the whole segment.
    pub fn build(bytes: &[u8], table: &Table) -> TopicIndex {
        let topic_and_position = |position: u32| {
            let record = RecordView::parse(bytes.get(position as usize..)?)?;
            Some(u64::from(record.topic()) << 32 | u64::from(position))
        };
        let mut sorted: Vec<u64> = table.positions().filter_map(topic_and_position).collect();
        sorted.sort_unstable();
        let mut topics: Vec<(u32, u32)> = Vec::new();
        for (place, both) in (1u32..).zip(&sorted) {
            let topic = (both >> 32) as u32;
            match topics.last_mut() {
                Some((last, end)) if *last == topic => *end = place,
                _ => topics.push((topic, place)),
            }
        }
        let positions = sorted.iter().map(|both| *both as u32).collect();
        TopicIndex { topics: topics.into_boxed_slice(), positions }
    }

    /// The positions of the topic's records, ascending; empty if it has none here.
    pub fn positions_of(&self, topic: u32) -> &[u32] {
        let Ok(place) = self.topics.binary_search_by_key(&topic, |(topic, _)| *topic) else {
            return &[];
        };
        let start = place.checked_sub(1).map_or(0, |before| self.topics[before].1);
        self.positions.get(start as usize..self.topics[place].1 as usize).unwrap_or_default()
    }

    /// The ids of the topics with records in the segment, ascending.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = u32> {
        self.topics.iter().map(|(topic, _)| *topic)
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        size_of_val(&*self.topics) + size_of_val(&*self.positions)
    }
}
