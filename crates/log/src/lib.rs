//! The log: append-only partitions of records in segments, with indexes for replay.
//!
//! Place on the path: a home shard appends each publication to its partition and posts the record's
//! slice to the edges; recovery, history, lagging subscriptions and replay by filter all read from
//! here.
//!
//! Pure: memory and files are ports ([`Memory`], [`store::Disk`]); the caller supplies the time and
//! the offsets. One [`Partition`] belongs to one home shard and is in memory. [`store`] is a log on
//! disk: its records are the same bytes, with checksums, in segments of another layout
//! (`docs/formats.md`).
//!
//! Invariants: offsets strictly increase within a partition but need not be contiguous; a record is
//! never changed once appended; `prev` of a record is below its offset; eviction drops whole
//! segments, oldest first.

#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

mod further;
mod handing;
mod index;
mod memory;
mod partition;
mod read;
mod record;
mod segment;
pub mod store;

pub use further::FurtherFields;
pub use index::{Table, TopicIndex};
pub use memory::{HeapMemory, Memory, MemoryRefused};
pub use partition::{Appended, Evicted, Partition, Settings};
pub use read::{ForwardLimits, PageLimits, RecentRecords, TopicPage, TopicStart};
pub use record::{
    AppendError, Field, Fields, Flags, NewRecord, Producer, RECORD_HEADER_BYTES, RecordView,
};
pub use segment::{SEGMENT_HEADER_BYTES, SegmentError, SegmentHeader, scan_segment};
