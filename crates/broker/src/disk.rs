//! Messages between a home and a durable log. Plain values, carried by the node between the home's
//! thread and the log's.
//!
//! A publication to a durable log waits at its home, *staged*, until its batch is on disk; only
//! then is it appended to the home's memory, acknowledged and delivered. Records that memory no
//! longer holds are read through [`DiskRequest::Read`].
//!
//! Order: between one home and one log both directions are first in, first out. Appends are
//! answered in their order, by counts. Reads may overtake appends and each other. A new floor is
//! reported before the answer to a read that no longer saw the records below it.
//!
//! The log of an engine may have a *mirror* on disk. Its home appends what it has delivered, and
//! nothing waits for that: an answer says only that the log thread has taken the record, or that it
//! has given the mirror up with everything in it. The home gives a mirror up by another generation,
//! and asks to begin anew by [`DiskRequest::Resume`]. Reads do not overtake appends there.
//!
//! Failure: when a batch cannot be made durable, everything of that home that the log thread has or
//! gets with the same `generation` is refused; the home raises its generation when it learns of it.
//! So no record can ever follow, within the log, one that was refused and that its `prev` names.

use crate::mail::{Code, PageLimits, PartitionId};
pub use log::store::MirroredPartition as Mirrored;
use stdx::chunk::Slice;
use stdx::handing::Hand;

/// A home's number for a question to a log.
pub type Token = u64;

/// Home to log thread.
#[derive(Clone, Debug, Hand)]
pub enum DiskRequest {
    /// Make a record durable. Answered by [`DiskLetter::Committed`], together with others.
    Append {
        /// See the module.
        generation: u32,
        /// Numbered over all logs.
        partition: PartitionId,
        /// The topic's name.
        topic: Slice,
        /// The whole record (`log::record`) with its offset; its topic id is the home's own and
        /// means nothing elsewhere.
        record: Slice,
    },
    /// Describes the records of a mirror's partition that follow. Answered like an append, by
    /// [`DiskLetter::Committed`].
    Describe {
        /// See the module.
        generation: u32,
        /// Numbered over all logs.
        partition: PartitionId,
        /// The offset of the first record that follows. A mirror with later records is another
        /// life of the partition, and is given up.
        from: u64,
        /// The description.
        mirrored: Mirrored,
    },
    /// A mirror may begin anew when all requests before are dealt with. Answered like an append.
    Resume {
        /// The generation of the records that follow.
        generation: u32,
        /// The home had given the mirror up, because the disk hung or was too slow.
        was_slow: bool,
    },
    /// Read what memory does not hold. Answered by [`DiskLetter::Answer`].
    Read {
        /// Comes back with the answer.
        token: Token,
        /// Numbered over all logs.
        partition: PartitionId,
        /// The question.
        query: DiskQuery,
    },
}

/// A question to a log.
#[derive(Clone, Debug, Hand)]
pub enum DiskQuery {
    /// A topic's records in (`after`, `through`], oldest first. [`DiskAnswer::Page`].
    Page {
        /// The topic's name.
        topic: Slice,
        /// Exclusive.
        after: u64,
        /// Inclusive.
        through: u64,
        /// Bounds of the page; one record always fits.
        limits: PageLimits,
    },
    /// A topic's records in [`oldest`, `before`), newest first. [`DiskAnswer::Page`].
    PageBack {
        /// The topic's name.
        topic: Slice,
        /// Exclusive.
        before: u64,
        /// Inclusive.
        oldest: u64,
        /// Bounds of the page; one record always fits.
        limits: PageLimits,
    },
    /// Asks for the beginning of "the newest `count` records at or below `through`, none older than
    /// `not_before_ms`", and for the beginning of a replay after `after` among them.
    /// [`DiskAnswer::Start`].
    Start {
        /// The topic's name.
        topic: Slice,
        /// Inclusive.
        through: u64,
        /// The maximum number of records.
        count: u32,
        /// Milliseconds since 1970.
        not_before_ms: u64,
        /// Exclusive.
        after: u64,
    },
    /// A partition's records in (`after`, `through`] whose topic one of the filters covers, oldest
    /// first. [`DiskAnswer::Scan`].
    Scan {
        /// The filters; valid.
        filters: Vec<Slice>,
        /// Exclusive.
        after: u64,
        /// Inclusive.
        through: u64,
        /// Bounds of the page; one record always fits.
        limits: PageLimits,
        /// Bytes of records examined, about; at least one record is.
        bytes_scanned_max: u32,
    },
}

/// Log thread to home.
#[derive(Clone, Debug)]
pub enum DiskLetter {
    /// The oldest `count` appends of this generation that were not answered are on disk, or
    /// refused.
    Committed {
        /// The generation of these appends.
        generation: u32,
        /// The number of appends.
        count: u32,
        /// On disk, or why not.
        result: Result<(), Code>,
    },
    /// The answer to a read.
    Answer {
        /// The token of the question.
        token: Token,
        /// The records, or `log_unavailable` when the disk could not be read.
        result: Result<DiskAnswer, Code>,
    },
    /// Retention has dropped a segment.
    Floor {
        /// Partitions of this home, numbered over all logs, each with the least offset that the
        /// disk may still hold.
        floors: Vec<(PartitionId, u64)>,
        /// Topics of these partitions that had records in the dropped part: they may have none
        /// left.
        topics: Vec<(PartitionId, Slice)>,
    },
    /// Whether the log takes appends now. Said when it changes.
    Available(bool),
}

/// An answer of a log.
#[derive(Clone, Debug, Hand)]
pub enum DiskAnswer {
    /// Records of one topic. Their topic ids mean nothing.
    Page {
        /// In the order that was asked for.
        records: Vec<Slice>,
        /// `prev` of the oldest record in the page.
        first_prev: Option<u64>,
        /// The range has been read to its end.
        complete: bool,
        /// Records of the range were there and could not be read: they are lost.
        damaged: bool,
    },
    /// The beginning of a replay.
    Start {
        /// The oldest of the records that qualify; none if none does.
        oldest: Option<u64>,
        /// `prev` of the first record above both `after` and `oldest - 1`.
        prev: Option<u64>,
        /// The number of records that qualify; at most `count`.
        count: u32,
        /// Between `after` and the first record of the replay (up to `through` if there is none)
        /// some may have been lost that `count` and `not_before_ms` would not have left out.
        damaged: bool,
    },
    /// Records of a partition.
    Scan {
        /// Name and record, ascending. Their topic ids mean nothing.
        records: Vec<(Slice, Slice)>,
        /// The partition's least offset on disk when this was read. What lay below had been
        /// dropped; when the home deals with the answer, more may have been.
        floor: u64,
        /// The end of the range that was read.
        through: u64,
        /// The records of the range are damaged and lost. Whole records are on other pages.
        damaged: bool,
    },
}
