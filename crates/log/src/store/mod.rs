//! The durable log: one stream of batches of all partitions, in segment files with checksums.
//!
//! Place on the path: a log thread owns one [`Store`] and gives it the records that homes have
//! numbered, in batches. A batch that [`Store::append`] has answered with `Ok` is on disk; only
//! then may anybody see it. What homes do not keep in memory they read back from here, page by
//! page. `docs/decisions/0004-durable-log.md` has the reasons, `docs/formats.md` the bytes.
//!
//! Pure: files are a port ([`Disk`]), the time comes from the caller.
//!
//! Invariants:
//! - A byte of a segment file is written once. A file in which a write or a sync has failed is
//!   never written again: the next segment's head says how many bytes of it count. A start without
//!   room makes one exception, below.
//! - Segments form a chain by their heads. A file that is not in the chain of the newest segment is
//!   what is left of a refused batch, and is removed.
//! - A restart begins a new segment, and copies into it the last batch of the old one unless
//!   something proves that the batch had been synced: after a failed sync and the death of the
//!   process, what can be read need not be on disk. Where there is no room for that, the batch is
//!   written over itself, the same bytes at the same place, and synced.
//! - Offsets of a partition increase from record to record and are never used again: every head
//!   says the greatest offset of each partition before its segment.
//! - For a sealed segment nothing stays in memory that grows with its records.

mod checksum;
mod disk;
mod end;
mod epochs;
mod expire;
mod files;
mod format;
mod found;
mod handing;
pub mod hostile;
mod index;
mod index_file;
mod inspect;
mod memory_index;
mod mend;
mod once;
mod once_file;
mod read;
mod recover;
mod start;
mod unreadable;
mod walk;
mod write;

pub use disk::{Disk, DiskError};
pub use end::{End, WITNESS_NAME};
pub use expire::Dropped;
pub use format::PARTITIONS_MAX;
pub use handing::{HandedLog, TakeOverError};
pub use inspect::{Dumped, Finding, StoreStats};
pub use mend::{Lost, Mended};
pub use once::{KeyOnce, OnceWindow, ProducerOnce, SegmentOnce, SequenceOnce};
pub use read::{ScanQuery, StartQuery, StorePage, StoreScan, StoreStart};
pub use write::Append;

use crate::record::RECORD_HEADER_BYTES;
use end::Notes;
use epochs::Epochs;
use files::{Files, ReadError};
use format::{SegmentHead, segment_name};
use index::Index;
use memory_index::{MemoryIndex, Scan};
use std::collections::VecDeque;
use std::fmt;
use stdx::hash::Seed;
use stdx::memory::vector_bytes;

/// The greatest `segment_bytes`: a segment is read as a whole where its index has to be made again.
pub const SEGMENT_BYTES_MAX: u64 = 256 << 20;
/// The least `segment_bytes`.
pub const SEGMENT_BYTES_MIN: u64 = 4 << 10;
/// The greatest payload.
pub const PAYLOAD_BYTES_MAX: usize = 256 << 20;
/// Bytes of all records of one batch and of the mark behind them: the greatest payload, with all
/// fields that a record can have, is one.
pub const BATCH_BYTES_MAX: usize =
    PAYLOAD_BYTES_MAX + RECORD_HEADER_BYTES + u16::MAX as usize + format::MARK_BYTES;

/// What a store is told when it is opened.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// Partitions of the log, from 1 to [`PARTITIONS_MAX`]. A log that exists with another number
    /// is not opened.
    pub partitions_count: u32,
    /// Bytes after which a segment is sealed. Brought into
    /// [`SEGMENT_BYTES_MIN`]..=[`SEGMENT_BYTES_MAX`] and to at most a quarter of `bytes_max`,
    /// because whole segments are dropped.
    pub segment_bytes: u64,
    /// Bytes of all segments and indexes above which the oldest segment is dropped.
    pub bytes_max: u64,
    /// Age at which a segment is dropped, by its newest record; 0: never.
    pub age_max_ms: u64,
    /// The epoch to begin if one has to be begun; one that this log has never had.
    pub new_epoch: u64,
    /// Key of the hash of topics' names.
    pub hash_seed: Seed,
}

/// What was found when a log was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// The present epoch.
    pub epoch: u64,
    /// Epochs before it, oldest first.
    pub older: Vec<OlderEpoch>,
    /// For each partition the greatest offset ever used; 0: none.
    pub heads: Vec<u64>,
    /// For each partition the least offset that may be on disk.
    pub floors: Vec<u64>,
    /// For each partition the greatest offset that damage may have taken away, found now or by an
    /// earlier start; 0: none. What lies below the floor does not count.
    pub damaged_through: Vec<u64>,
    /// Bytes cut from the tail: a batch that was never acknowledged.
    pub torn_bytes: u64,
    /// Damage of acknowledged data found now. If there is any, `epoch` is new.
    pub damages: Vec<Damage>,
    /// Bytes of segments that had to be read because they had no index.
    pub scanned_bytes: u64,
    /// Segments of the log.
    pub segments_count: u64,
    /// There was no log.
    pub is_new: bool,
}

/// An epoch that is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OlderEpoch {
    /// Its number.
    pub epoch: u64,
    /// For each partition: positions of this epoch with an offset below this are valid still.
    pub valid_below: Vec<u64>,
}

/// Bytes of a segment that could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damage {
    /// Number of the segment; 0 for the file of epochs.
    pub segment: u64,
    /// First byte.
    pub from: u64,
    /// The byte behind; equal to `from` where the segment's file, or the file of epochs, is gone.
    pub through: u64,
}

/// Why a log was not opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// The disk refused.
    Disk(DiskError),
    /// The log was made with another number of partitions.
    Partitions {
        /// In the files.
        found: u32,
        /// In the settings.
        configured: u32,
    },
    /// The number of partitions in the settings is 0 or above [`PARTITIONS_MAX`].
    PartitionsCount(u32),
    /// A file was written by a version, or with a feature, that this one does not know.
    Version {
        /// The file.
        name: String,
        /// Its version.
        version: u16,
        /// Its flags.
        flags: u16,
    },
    /// There is no log to look at.
    Missing,
    /// The disk does not give the bytes of a segment that must be read.
    Unreadable {
        /// The file.
        name: String,
        /// Why.
        error: DiskError,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Disk(error) => error.fmt(f),
            OpenError::Partitions { found, configured } => write!(
                f,
                "the log has {found} partitions and the configuration says {configured}: partitions_count of a log \
                 cannot be changed"
            ),
            OpenError::PartitionsCount(count) => {
                write!(f, "{count} partitions: a log must have 1 to {PARTITIONS_MAX}")
            }
            OpenError::Version { name, version, flags } => write!(
                f,
                "{name} has version {version} with flags {flags:#x}, which is not supported"
            ),
            OpenError::Missing => write!(f, "no log exists here"),
            OpenError::Unreadable { name, error } => write!(f, "{name}: {error}"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<DiskError> for OpenError {
    fn from(error: DiskError) -> OpenError {
        OpenError::Disk(error)
    }
}

/// Why a store refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// The disk refused. Of an append: the batch is refused as a whole, and the store goes on with
    /// a new segment at the next one.
    Disk(DiskError),
    /// An offset is not above those of its partition. Nothing was written.
    Order {
        /// The partition.
        partition: u32,
        /// The offset.
        offset: u64,
        /// The greatest before it.
        head: u64,
    },
    /// Bytes are not one whole publication, or a name is too long. Nothing was written.
    Record,
    /// The log has no such partition.
    Partition(u32),
    /// The batch exceeds [`BATCH_BYTES_MAX`]. Nothing was written.
    BatchTooLong,
    /// The log was opened to look at it only.
    ReadOnly,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Disk(error) => error.fmt(f),
            StoreError::Order { partition, offset, head } => {
                write!(f, "offset {offset} of partition {partition} is not above {head}")
            }
            StoreError::Record => write!(f, "not a complete publication with a topic name"),
            StoreError::Partition(partition) => write!(f, "partition {partition} does not exist"),
            StoreError::BatchTooLong => write!(f, "the batch exceeds {BATCH_BYTES_MAX} bytes"),
            StoreError::ReadOnly => write!(f, "the log was opened for reading only"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<DiskError> for StoreError {
    fn from(error: DiskError) -> StoreError {
        StoreError::Disk(error)
    }
}

/// A durable log. Owned by one thread.
#[derive(Debug)]
pub struct Store<D: Disk> {
    files: Files<D>,
    settings: StoreSettings,
    /// To look at only, or not begun.
    is_read_only: bool,
    epochs: Epochs,
    /// The chain, oldest first.
    segments: VecDeque<Segment>,
    /// The newest segment, while it takes batches.
    active: Option<D::File>,
    /// What the next segment has to begin with.
    carry: Option<Carry>,
    /// The end that is lost, until the next segment begins.
    lost: Option<mend::LostEnd>,
    heads: Vec<u64>,
    next_sequence: u64,
    is_available: bool,
    /// Names whose removal failed.
    leftovers: Vec<String>,
    /// A name was removed and the directory not synced since.
    is_directory_dirty: bool,
    sweep: expire::Sweep,
    batch: write::Batch,
    notes: Notes<D::File>,
    unreadable: unreadable::Unreadable,
    /// Looks of retention in a row that failed.
    expiries_failed: u32,
    removals_failed: u64,
}

/// One segment of the chain.
#[derive(Debug)]
struct Segment {
    head: SegmentHead,
    /// Head and batches that count.
    valid_bytes: u64,
    index: Index,
    /// Damage was found when its index was made, and no epoch accounts for it yet.
    is_unsettled: bool,
    /// Its index says what a scan of the file would not: where it ends though the file may go on
    /// behind that, or that the end was synced. The next segment's head says so too, but that may
    /// get lost; so the index is synced.
    wants_synced_index: bool,
}

/// The last batch of a segment that was found, which nothing proves to be durable.
#[derive(Debug)]
struct Carry {
    /// Where it starts in the segment.
    from: u64,
    /// It, and how the segment's index is without it.
    bytes: Vec<u8>,
    index: MemoryIndex,
    heads: Vec<u64>,
}

impl<D: Disk> Store<D> {
    /// The present epoch.
    pub fn epoch(&self) -> u64 {
        self.epochs.present()
    }

    /// For each partition the greatest offset ever used; 0: none.
    pub fn heads(&self) -> &[u64] {
        &self.heads
    }

    /// The least offset of a partition that may be on disk.
    pub fn floor(&self, partition: u32) -> u64 {
        let heads = match self.segments.front() {
            Some(segment) => &segment.head.heads,
            None => &self.heads,
        };
        heads.get(partition as usize).map_or(1, |head| head + 1)
    }

    /// The same of all partitions.
    pub(crate) fn floors(&self) -> Vec<u64> {
        let partitions = 0..self.settings.partitions_count;
        partitions.map(|partition| self.floor(partition)).collect()
    }

    /// Whether the last batch got through.
    pub fn is_available(&self) -> bool {
        self.is_available
    }

    /// Bytes of segments and indexes that count.
    pub fn bytes(&self) -> u64 {
        let bytes_of = |segment: &Segment| segment.valid_bytes + segment.index.file_bytes();
        self.segments.iter().map(bytes_of).sum()
    }

    /// Bytes of memory, about: the indexes of segments, that of the newest in full, and the batch
    /// that is made.
    pub fn memory_bytes(&self) -> usize {
        let indexes = self.segments.iter().map(|segment| segment.index.memory_bytes());
        vector_bytes::<Segment>(self.segments.capacity())
            + indexes.sum::<usize>()
            + self.batch.memory_bytes()
    }

    /// The disk.
    pub fn disk(&self) -> &D {
        &self.files.disk
    }

    /// The disk, to inject faults.
    pub fn disk_mut(&mut self) -> &mut D {
        &mut self.files.disk
    }

    /// Gives the disk back, as a process that ends does: without [`Store::close`] the next start
    /// has to look for the end of the log.
    pub fn into_disk(self) -> D {
        self.files.disk
    }

    /// For each partition the greatest offset at the end of a segment.
    fn end_heads(&self, segment: usize) -> &[u64] {
        match self.segments.get(segment + 1) {
            Some(next) => &next.head.heads,
            None => &self.heads,
        }
    }

    /// Runs a read; where it meets a damaged index, makes that again from its segment and runs the
    /// read anew.
    fn repairing<T>(
        &mut self,
        mut read: impl FnMut(&mut Store<D>) -> Result<T, ReadError>,
    ) -> Result<T, StoreError> {
        // Every round turns one index of a file into one in memory or a whole file.
        for _ in 0..=self.segments.len() {
            match read(self) {
                Ok(value) => return Ok(value),
                Err(ReadError::Disk(error)) => return Err(StoreError::Disk(error)),
                Err(ReadError::Index(sequence)) => self.rebuild(sequence)?,
            }
        }
        Err(StoreError::Disk(DiskError::Io(0)))
    }

    /// Makes the index of a segment again.
    fn rebuild(&mut self, sequence: u64) -> Result<(), StoreError> {
        let is_it = |segment: &Segment| segment.head.sequence == sequence;
        let Some(place) = self.segments.iter().position(is_it) else {
            return Err(StoreError::Disk(DiskError::Io(0)));
        };
        let scan = self.index_of(place)?;
        let is_damaged = !scan.damages.is_empty();
        let segment = &mut self.segments[place];
        segment.index = Index::Memory(Box::new(scan.index));
        // An index on disk hides the damage from the next start, which has to begin an epoch for
        // it.
        segment.is_unsettled = is_damaged;
        let _ = self.write_index(place); // the next start makes it once more
        Ok(())
    }

    /// Reads a segment's bytes that count and makes its index from them.
    fn index_of(&mut self, place: usize) -> Result<Scan, DiskError> {
        let segment = &self.segments[place];
        let (head, valid_bytes) = (&segment.head, segment.valid_bytes);
        let name = segment_name(head.sequence);
        let bytes = self.files.read_what_can_be(&name, valid_bytes)?.bytes;
        let mut scan = Scan::new(&head.heads, self.settings.hash_seed);
        scan.take(&bytes, head.sequence, head.bytes());
        if (bytes.len() as u64) < valid_bytes {
            scan.damage(bytes.len() as u64, valid_bytes);
        }
        scan.finish(Some(self.end_heads(place)));
        Ok(scan)
    }

    /// Writes the index of a sealed segment to its file. Where that fails it stays in memory.
    fn write_index(&mut self, place: usize) -> Result<(), DiskError> {
        let segment = &mut self.segments[place];
        let Index::Memory(index) = &segment.index else {
            return Ok(());
        };
        if self.is_read_only || segment.is_unsettled {
            return Ok(());
        }
        let written = index_file::write_index(&mut self.files, segment, index);
        match written {
            Ok(file) => segment.index = Index::File(file),
            Err(ReadError::Disk(error)) => return Err(error),
            Err(ReadError::Index(_)) => return Err(DiskError::Io(0)),
        }
        Ok(())
    }
}
