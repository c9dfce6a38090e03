//! Hand-over of a partition to the next process: the state of its segments; their bytes stay in
//! place.
//!
//! The port [`Memory`] names each segment's chunk and reopens it ([`Memory::reopen`]). Tables and
//! indexes are part of the state: rebuilding them would read every record while the node serves no
//! client.

use crate::index::{Table, TopicIndex};
use crate::memory::{Memory, MemoryRefused};
use crate::partition::{Partition, Settings};
use crate::segment::Segment;
use stdx::handing::{Hand, Input, Layout};

/// The state of a segment without its bytes: its offsets and newest time, the chunk's name and
/// published bytes, and the locations of its records.
type Known = ((u64, u64, u64), (u64, u64), Table, Option<TopicIndex>);

impl Partition {
    /// Appends the state, without the segments' bytes.
    pub fn give(&self, out: &mut Vec<u8>) {
        let (settings, next_offset, bytes) = self.handed();
        settings.give(out);
        (next_offset, bytes, self.segments.len()).give(out);
        for segment in &self.segments {
            let offsets = (segment.base, segment.last, segment.newest_ms);
            offsets.give(out);
            (segment.memory_id, segment.bytes().len() as u64).give(out);
            segment.table.give(out);
            segment.index.give(out);
        }
    }

    /// Restores a partition. `None` if the bytes are invalid.
    ///
    /// # Errors
    /// The memory of a segment is missing.
    pub fn take(
        input: &mut Input<'_>,
        memory: &mut dyn Memory,
    ) -> Result<Option<Partition>, MemoryRefused> {
        let Some(settings) = Settings::take(input) else {
            return Ok(None);
        };
        let Some((next_offset, bytes, count)) = <(u64, usize, usize)>::take(input) else {
            return Ok(None);
        };
        let mut partition = Partition::new(settings, next_offset);
        for _ in 0..count {
            let Some((offsets, (memory_id, len), table, index)) = Known::take(input) else {
                return Ok(None);
            };
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            let chunk = memory.reopen(memory_id, len)?;
            let segment = Segment::of_parts(offsets, (memory_id, chunk), table, index);
            partition.segments.push_back(segment);
        }
        partition.set_bytes(bytes);
        Ok(Some(partition))
    }

    /// Describes the layout of the state.
    pub fn layout(layout: &mut Layout) {
        layout.name("Partition");
        <(Settings, (u64, usize, usize), Known)>::layout(layout);
    }

    /// The segments' names in the port [`Memory`], oldest first, with their bytes.
    pub fn chunks(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let segments = self.segments.iter();
        segments.map(|segment| (segment.memory_id, segment.bytes()))
    }
}
