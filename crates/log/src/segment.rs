//! A segment: a header followed by records, in one chunk.
//!
//! ```text
//!  0  magic         8 bytes  "CRORESEG"
//!  8  version       u16      1
//! 10  header_bytes  u16      64; records start here
//! 12  partition     u32
//! 16  epoch         u64      which log this is
//! 24  base_offset   u64      offset of the first record
//! 32  flags         u32      0; a reader that does not know a set bit refuses the segment
//! 36  reserved      24 bytes 0; a reader ignores them
//! 60  crc32c        u32      0
//! 64  records                one after the other; a length of 0, or the end, ends them
//! ```

use crate::index::{Table, TopicIndex};
use crate::record::{Flags, RecordView};
use std::fmt;
use stdx::chunk::{ChunkWriter, Slice};

/// The size of a segment before its records.
pub const SEGMENT_HEADER_BYTES: usize = 64;

const MAGIC: [u8; 8] = *b"CRORESEG";
const VERSION: u16 = 1;

/// The content of a segment's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// The partition within its log.
    pub partition: u32,
    /// The epoch of the log.
    pub epoch: u64,
    /// Offset of the first record.
    pub base_offset: u64,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut header = [0; SEGMENT_HEADER_BYTES];
        header[0..8].copy_from_slice(&MAGIC);
        header[8..10].copy_from_slice(&VERSION.to_le_bytes());
        header[10..12].copy_from_slice(&(SEGMENT_HEADER_BYTES as u16).to_le_bytes());
        header[12..16].copy_from_slice(&self.partition.to_le_bytes());
        header[16..24].copy_from_slice(&self.epoch.to_le_bytes());
        header[24..32].copy_from_slice(&self.base_offset.to_le_bytes());
        header
    }

    /// Decodes the header. Returns it with the start of the records.
    fn decode(bytes: &[u8]) -> Result<(SegmentHeader, usize), SegmentError> {
        let (magic, rest) = bytes.split_first_chunk().ok_or(SegmentError::Header)?;
        let head: &[u8; SEGMENT_HEADER_BYTES - 8] =
            rest.first_chunk().filter(|_| *magic == MAGIC).ok_or(SegmentError::Header)?;
        let version = u16::from_le_bytes([head[0], head[1]]);
        let header_bytes = u16::from_le_bytes([head[2], head[3]]) as usize;
        let flags = u32::from_le_bytes([head[24], head[25], head[26], head[27]]);
        if version != VERSION || flags != 0 {
            return Err(SegmentError::Version { version, flags });
        }
        if header_bytes < SEGMENT_HEADER_BYTES || header_bytes > bytes.len() {
            return Err(SegmentError::Header);
        }
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| head[at + byte]));
        let partition = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let header = SegmentHeader { partition, epoch: u64_at(8), base_offset: u64_at(16) };
        Ok((header, header_bytes))
    }
}

/// The reason why bytes are not a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentError {
    /// The bytes do not start with a segment's header.
    Header,
    /// The version or a feature is unknown.
    Version {
        /// The version in the header.
        version: u16,
        /// The flags in the header.
        flags: u32,
    },
    /// An incomplete record, or an offset that is not above the previous one.
    Record {
        /// The byte in the segment; all records before it are valid.
        position: usize,
    },
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SegmentError::Header => write!(f, "not a segment: its header is missing or damaged"),
            SegmentError::Version { version, flags } => {
                write!(f, "segment of version {version} with flags {flags:#x} is not supported")
            }
            SegmentError::Record { position } => {
                write!(f, "no whole record in order at byte {position}")
            }
        }
    }
}

impl std::error::Error for SegmentError {}

/// Decodes a segment from its bytes alone: its header and the table of its records, from which
/// [`TopicIndex::build`] makes the index. Does not check checksums. For segments that were handed
/// over or reopened.
pub fn scan_segment(bytes: &[u8]) -> Result<(SegmentHeader, Table), SegmentError> {
    let (header, mut position) = SegmentHeader::decode(bytes)?;
    let mut table = Table::default();
    let mut next_relative = 0;
    while let Some(rest) = bytes.get(position..).filter(|rest| !rest.is_empty()) {
        if rest.first_chunk() == Some(&[0; 4]) {
            break;
        }
        let damaged = SegmentError::Record { position };
        let record = RecordView::parse(rest).ok_or(damaged)?;
        if !record.flags().has(Flags::CONTROL) {
            let relative = record.offset().checked_sub(header.base_offset);
            let relative = relative.filter(|relative| *relative >= next_relative).ok_or(damaged)?;
            let place = u32::try_from(position).map_err(|_| damaged)?;
            table.push(u32::try_from(relative).map_err(|_| damaged)?, place);
            next_relative = relative + 1;
        }
        position += record.bytes().len();
    }
    table.shrink();
    Ok((header, table))
}

/// A segment in memory. It has at least one record; the newest one of a partition may be active,
/// without an index and with room for more.
#[derive(Debug)]
pub(crate) struct Segment {
    pub base: u64,
    pub last: u64,
    /// The greatest time of its records.
    pub newest_ms: u64,
    pub memory_id: u64,
    pub table: Table,
    pub index: Option<TopicIndex>,
    chunk: ChunkWriter,
}

impl Segment {
    /// Creates a segment in an empty chunk; the first record, at the header's base offset, follows.
    /// None if the chunk has no room for the header.
    pub fn new(header: SegmentHeader, mut chunk: ChunkWriter, memory_id: u64) -> Option<Segment> {
        chunk.append(&[&header.encode()])?;
        let (base, last) = (header.base_offset, header.base_offset);
        Some(Segment {
            base,
            last,
            newest_ms: 0,
            memory_id,
            table: Table::default(),
            index: None,
            chunk,
        })
    }

    /// Restores a segment after a hand-over: base, last offset and newest time; the chunk with its
    /// name; the locations of its records.
    pub fn of_parts(
        (base, last, newest_ms): (u64, u64, u64),
        (memory_id, chunk): (u64, ChunkWriter),
        table: Table,
        index: Option<TopicIndex>,
    ) -> Segment {
        Segment { base, last, newest_ms, memory_id, table, index, chunk }
    }

    /// Whether a record of this length may follow at this offset.
    pub fn takes(&self, offset: u64, length: usize) -> bool {
        let near = offset.checked_sub(self.base).is_some_and(|ahead| ahead <= u32::MAX.into());
        self.index.is_none() && near && length <= self.chunk.remaining()
    }

    /// Appends a record in parts. None, and nothing changed, unless the segment `takes` it.
    pub fn append(&mut self, offset: u64, time_ms: u64, parts: &[&[u8]]) -> Option<Slice> {
        let relative = u32::try_from(offset.checked_sub(self.base)?).ok()?;
        let position = self.chunk.len() as u32; // a chunk holds less than 4 GiB
        let slice = self.chunk.append(parts)?;
        self.table.push(relative, position);
        self.last = offset;
        self.newest_ms = self.newest_ms.max(time_ms);
        Some(slice)
    }

    /// Seals the segment and builds its index; nothing if it is sealed already.
    pub fn seal(&mut self) {
        if self.index.is_none() {
            self.table.shrink();
            self.index = Some(TopicIndex::build(self.chunk.published(), &self.table));
        }
    }

    /// The record at a position of the table or index.
    pub fn record(&self, position: u32) -> Option<RecordView<'_>> {
        RecordView::parse(self.bytes().get(position as usize..)?)
    }

    /// The bytes of a record of this segment, shared.
    pub fn slice_of(&self, position: u32, record: &RecordView<'_>) -> Slice {
        self.chunk.slice(position as usize, record.bytes().len())
    }

    /// The header and the records.
    pub fn bytes(&self) -> &[u8] {
        self.chunk.published()
    }

    pub fn capacity(&self) -> usize {
        self.chunk.capacity()
    }

    /// The bytes of table and index.
    pub fn index_bytes(&self) -> usize {
        self.table.allocated_bytes() + self.index.as_ref().map_or(0, TopicIndex::allocated_bytes)
    }
}
