//! A partition: appends, eviction and counts. Reading is in `read`.
//!
//! Owned by one home shard. Segments are ordered by offset; only the newest may be active.
//!
//! A topic id must not be reused while the log has records with it: an evicted segment reports its
//! topics, and a topic whose last offset was evicted has no records left.

use crate::index::TopicIndex;
use crate::memory::{Memory, MemoryRefused};
use crate::record::{AppendError, NewRecord, RECORD_BYTES_MAX, RECORD_HEADER_BYTES, RecordView};
use crate::segment::{SEGMENT_HEADER_BYTES, Segment, SegmentHeader};
use std::collections::VecDeque;
use stdx::chunk::{CHUNK_BYTES_MAX, Slice};
use stdx::handing::Hand;

/// Settings of a new partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub struct Settings {
    /// The size of a segment, header included, from 104 bytes to 4 GiB; other values are clamped. A
    /// larger record has its own segment. Eviction drops whole segments, so a partition needs
    /// several within its size.
    pub segment_bytes: usize,
    /// The partition's number in its log; written into segments.
    pub partition: u32,
    /// The log's epoch; written into segments.
    pub epoch: u64,
}

/// One append-only partition.
#[derive(Debug)]
pub struct Partition {
    settings: Settings,
    next_offset: u64,
    pub(crate) segments: VecDeque<Segment>,
    bytes: usize,
    /// The header and optional fields of the record being appended; little more than 64 KiB at
    /// most.
    head: Vec<u8>,
}

/// The result of an append.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Appended {
    /// The record's offset.
    pub offset: u64,
    /// The whole record.
    pub slice: Slice,
}

/// A dropped segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Evicted {
    /// The offset of its first record.
    pub first: u64,
    /// The offset of its last record.
    pub last: u64,
    /// The bytes subtracted from `Partition::bytes`.
    pub bytes: usize,
    index: TopicIndex,
}

impl Evicted {
    /// The ids of the topics with records in the segment, ascending, without repetition. A topic
    /// whose last offset is at or below [`Evicted::last`] has no record left.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = u32> {
        self.index.topics()
    }
}

impl Partition {
    /// Creates an empty partition. `first_offset` is its lowest offset; 0 counts as 1, as offset 0
    /// means "none".
    pub fn new(settings: Settings, first_offset: u64) -> Partition {
        let segment_bytes_min = SEGMENT_HEADER_BYTES + RECORD_HEADER_BYTES;
        let segment_bytes = settings.segment_bytes.clamp(segment_bytes_min, CHUNK_BYTES_MAX);
        Partition {
            settings: Settings { segment_bytes, ..settings },
            next_offset: first_offset.max(1),
            segments: VecDeque::new(),
            bytes: 0,
            head: Vec::new(),
        }
    }

    /// The state for a hand-over, without the segments.
    pub(crate) fn handed(&self) -> (&Settings, u64, usize) {
        (&self.settings, self.next_offset, self.bytes)
    }

    /// Sets the bytes of the restored segments.
    pub(crate) fn set_bytes(&mut self, bytes: usize) {
        self.bytes = bytes;
    }

    /// Appends a record at `offset`, or at the next one. Copies the record's bytes once; if a new
    /// segment is needed, builds the index of the previous one.
    pub fn append(
        &mut self,
        memory: &mut dyn Memory,
        offset: Option<u64>,
        record: &NewRecord<'_>,
    ) -> Result<Appended, AppendError> {
        let next_offset = self.next_offset;
        let offset = offset.unwrap_or(next_offset);
        if offset < next_offset || offset == u64::MAX {
            return Err(AppendError::Offset { next_offset });
        }
        if record.prev >= offset {
            return Err(AppendError::Prev);
        }
        let mut head = std::mem::take(&mut self.head);
        let appended = record
            .encode_head(offset, &mut head)
            .and_then(|()| self.place(memory, offset, record.time_ms, &[&head, record.payload]));
        self.head = head;
        appended
    }

    /// Appends a record that is already encoded, at its own offset; its topic id becomes `topic`.
    pub fn append_record(
        &mut self,
        memory: &mut dyn Memory,
        topic: u32,
        record: &RecordView<'_>,
    ) -> Result<Appended, AppendError> {
        let next_offset = self.next_offset;
        let offset = record.offset();
        if offset < next_offset || offset == u64::MAX {
            return Err(AppendError::Offset { next_offset });
        }
        if record.prev() >= offset {
            return Err(AppendError::Prev);
        }
        let head = record.head_with_topic(topic);
        let rest = record.bytes().get(RECORD_HEADER_BYTES..).unwrap_or_default();
        self.place(memory, offset, record.time_ms(), &[&head, rest])
    }

    /// Raises the next offset. For a partition whose newest records are elsewhere, and after
    /// offsets that were assigned but not used.
    pub fn skip_to(&mut self, next_offset: u64) {
        self.next_offset = self.next_offset.max(next_offset);
    }

    /// Begins another life of a partition without records: its lowest offset is `first_offset`,
    /// which may lie below those given before. For callers that have evicted everything.
    pub fn begin_anew(&mut self, first_offset: u64, epoch: u64) {
        debug_assert!(self.segments.is_empty(), "a partition with records goes on");
        self.settings.epoch = epoch;
        self.next_offset = first_offset.max(1);
    }

    /// Puts a complete record, in parts, into the active segment or a new one.
    fn place(
        &mut self,
        memory: &mut dyn Memory,
        offset: u64,
        time_ms: u64,
        parts: &[&[u8]; 2],
    ) -> Result<Appended, AppendError> {
        let length = parts[0].len().saturating_add(parts[1].len());
        if length > RECORD_BYTES_MAX {
            return Err(AppendError::RecordTooLong);
        }
        if !self.segments.back().is_some_and(|active| active.takes(offset, length)) {
            self.start_segment(memory, offset, length)?;
        }
        let active = self.segments.back_mut();
        let slice = active.and_then(|active| active.append(offset, time_ms, parts));
        let slice = slice.ok_or(AppendError::RecordTooLong)?;
        self.bytes += length;
        self.next_offset = offset + 1;
        Ok(Appended { offset, slice })
    }

    /// Seals the active segment, so that the next record begins a new one; builds its index. For
    /// callers that bound the age of a segment. Does nothing without an active segment.
    pub fn seal(&mut self) {
        if let Some(active) = self.segments.back_mut() {
            active.seal();
        }
    }

    /// Drops the oldest segment if its newest record is older than `time_ms`, even if it is active.
    /// Call again until it returns None.
    pub fn evict_older_than(&mut self, memory: &mut dyn Memory, time_ms: u64) -> Option<Evicted> {
        self.segments.front().filter(|oldest| oldest.newest_ms < time_ms)?;
        self.evict_oldest_segment(memory)
    }

    /// Drops the oldest segment, even if it is active. None if there is none. Slices of its records
    /// stay readable.
    pub fn evict_oldest_segment(&mut self, memory: &mut dyn Memory) -> Option<Evicted> {
        let mut oldest = self.segments.pop_front()?;
        oldest.seal();
        let bytes = oldest.bytes().len();
        self.bytes -= bytes;
        let Segment { base, last, memory_id, index, .. } = oldest;
        memory.release(memory_id);
        Some(Evicted { first: base, last, bytes, index: index.unwrap_or_default() })
    }

    /// Drops all segments, so that the port gets all memory back.
    pub fn close(mut self, memory: &mut dyn Memory) {
        while self.evict_oldest_segment(memory).is_some() {}
    }

    /// The last assigned offset, whether its record is still present or not; 0 if there is none.
    /// Before the first append it is one below the first offset.
    pub fn head(&self) -> u64 {
        self.next_offset - 1
    }

    /// The offset of the next record, unless the caller chooses a higher one.
    pub fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// The offset of the oldest record.
    pub fn oldest(&self) -> Option<u64> {
        self.segments.front().map(|segment| segment.base)
    }

    /// The bytes of all records and of their segments' headers.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes of the chunks of all segments, used or not. Untouched pages may cost nothing.
    pub fn allocated_bytes(&self) -> usize {
        self.segments.iter().map(Segment::capacity).sum()
    }

    /// The bytes of tables and indexes: 8 per record in the active segment (up to 16 while its
    /// table grows), 12 per record and 8 per topic in each sealed one.
    pub fn index_bytes(&self) -> usize {
        self.segments.iter().map(Segment::index_bytes).sum()
    }

    /// The number of segments.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// The number of records.
    pub fn records(&self) -> usize {
        self.segments.iter().map(|segment| segment.table.len()).sum()
    }

    /// The bytes of each segment, oldest first, header included.
    pub fn segment_bytes(&self) -> impl Iterator<Item = &[u8]> {
        self.segments.iter().map(Segment::bytes)
    }

    /// The record at exactly this offset.
    pub fn record_at(&self, offset: u64) -> Option<Slice> {
        let slice = self.first_at_or_after(offset)?;
        RecordView::parse(&slice).is_some_and(|record| record.offset() == offset).then_some(slice)
    }

    /// The first record at or after this offset.
    pub fn first_at_or_after(&self, offset: u64) -> Option<Slice> {
        let segment = self.segments.get(self.segment_at_or_after(offset))?;
        let number = segment.table.first_at_or_after(offset.saturating_sub(segment.base));
        let position = segment.table.position(number)?;
        Some(segment.slice_of(position, &segment.record(position)?))
    }

    /// The number of the first segment whose last offset is at or above `offset`.
    pub(crate) fn segment_at_or_after(&self, offset: u64) -> usize {
        self.segments.partition_point(|segment| segment.last < offset)
    }

    /// Allocates memory first, so that a failure changes nothing.
    fn start_segment(
        &mut self,
        memory: &mut dyn Memory,
        base_offset: u64,
        length: usize,
    ) -> Result<(), AppendError> {
        let capacity = self.settings.segment_bytes.max(SEGMENT_HEADER_BYTES + length);
        let (chunk, memory_id) = memory.allocate(capacity).map_err(AppendError::Memory)?;
        let Settings { partition, epoch, .. } = self.settings;
        let header = SegmentHeader { partition, epoch, base_offset };
        let segment = Segment::new(header, chunk, memory_id)
            .filter(|segment| segment.takes(base_offset, length));
        let Some(segment) = segment else {
            memory.release(memory_id);
            return Err(AppendError::Memory(MemoryRefused { capacity }));
        };
        self.seal();
        self.bytes += segment.bytes().len();
        self.segments.push_back(segment);
        Ok(())
    }
}
