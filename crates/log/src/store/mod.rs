//! The durable log: one stream of batches of all partitions, in segment files with checksums.
//!
//! Place on the path: a log thread owns one [`Store`] and passes it the records that homes have
//! numbered, in batches. A batch is on disk once [`Store::append`] returns `Ok`; only then may it
//! become visible. Homes read records that are not in memory from here, page by page.
//! `docs/decisions/0004-durable-log.md` has the reasons, `docs/formats.md` the bytes.
//!
//! Pure: files are a port ([`Disk`]); the caller supplies the time.
//!
//! Invariants:
//! - A byte of a segment file is written once. After a failed write or sync, a file is never
//!   written again: the next segment's head has its valid length. A start without room makes one
//!   exception, below.
//! - Segments form a chain by their heads. A file that is not in the chain of the newest segment
//!   remains from a refused batch, and is removed.
//! - A restart begins a new segment, and copies the last batch of the old one into it unless the
//!   batch was provably synced: after a failed sync and the death of the process, readable data
//!   need not be on disk. Without room for the copy, the batch is written over itself, the same
//!   bytes at the same position, and synced. So is a damaged batch, or one before a lost end.
//! - Offsets of a partition increase from record to record and are never reused: every head has the
//!   greatest offset of each partition before its segment.
//! - The memory for a sealed segment does not grow with its records.
//!
//! A log whose records are in another place as well may be written without waiting for the disk
//! (`lazy`): a crash then takes its newest records away, and the rest is as valid as ever.

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
mod lazy;
mod memory_index;
mod mend;
mod mirrored;
mod once;
mod once_file;
mod page;
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
pub use mirrored::MirroredPartition;
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

/// The maximum `segment_bytes`: a segment is read as a whole to rebuild its index.
pub const SEGMENT_BYTES_MAX: u64 = 256 << 20;
/// The minimum `segment_bytes`.
pub const SEGMENT_BYTES_MIN: u64 = 4 << 10;
/// The maximum payload.
pub const PAYLOAD_BYTES_MAX: usize = 256 << 20;
/// The maximum size of a batch with its mark: the largest payload, with all possible fields, fits.
pub const BATCH_BYTES_MAX: usize =
    PAYLOAD_BYTES_MAX + RECORD_HEADER_BYTES + u16::MAX as usize + format::MARK_BYTES;

/// Settings of a store.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// The number of partitions, from 1 to [`PARTITIONS_MAX`]. An existing log with another number
    /// is not opened.
    pub partitions_count: u32,
    /// The size at which a segment is sealed. Clamped to
    /// [`SEGMENT_BYTES_MIN`]..=[`SEGMENT_BYTES_MAX`] and to a quarter of `bytes_max`, because whole
    /// segments are dropped.
    pub segment_bytes: u64,
    /// The size of all segments and indexes above which the oldest segment is dropped.
    pub bytes_max: u64,
    /// The age at which a segment is dropped, by its newest record; 0: never.
    pub age_max_ms: u64,
    /// The next epoch, if one has to begin; one that this log has never had.
    pub new_epoch: u64,
    /// The key of the hash of topic names.
    pub hash_seed: Seed,
}

/// The result of opening a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// The present epoch.
    pub epoch: u64,
    /// Earlier epochs, oldest first.
    pub older: Vec<OlderEpoch>,
    /// The greatest offset ever used, for each partition; 0: none.
    pub heads: Vec<u64>,
    /// The lowest offset that may be on disk, for each partition.
    pub floors: Vec<u64>,
    /// The greatest offset that damage may have removed, for each partition, found now or earlier;
    /// 0: none. Offsets below the floor are ignored.
    pub damaged_through: Vec<u64>,
    /// The bytes cut from the tail: a batch that was never acknowledged.
    pub torn_bytes: u64,
    /// Newly found damage of acknowledged data. If there is any, `epoch` is new.
    pub damages: Vec<Damage>,
    /// The bytes of segments that were scanned for lack of an index.
    pub scanned_bytes: u64,
    /// The number of segments.
    pub segments_count: u64,
    /// Whether the log was created.
    pub is_new: bool,
}

/// An epoch that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OlderEpoch {
    /// Its number.
    pub epoch: u64,
    /// Positions of this epoch with an offset below this stay valid, for each partition.
    pub valid_below: Vec<u64>,
}

/// Unreadable bytes of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The number of the segment; 0 for the file of epochs.
    pub segment: u64,
    /// The first byte.
    pub from: u64,
    /// The end, exclusive; equal to `from` if the segment's file, or the file of epochs, is
    /// missing.
    pub through: u64,
}

/// The reason why a log was not opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// The disk refused.
    Disk(DiskError),
    /// The log has another number of partitions.
    Partitions {
        /// The number in the files.
        found: u32,
        /// The number in the settings.
        configured: u32,
    },
    /// The number of partitions in the settings is 0 or above [`PARTITIONS_MAX`].
    PartitionsCount(u32),
    /// The version or a feature of a file is unknown.
    Version {
        /// The file.
        name: String,
        /// Its version.
        version: u16,
        /// Its flags.
        flags: u16,
    },
    /// There is no log.
    Missing,
    /// The disk does not return the bytes of a segment that must be read.
    Unreadable {
        /// The file.
        name: String,
        /// The reason.
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

/// The reason why a store refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// A disk error. A failed append refuses the whole batch, and the next one begins a new
    /// segment.
    Disk(DiskError),
    /// An offset is not above those of its partition. Nothing was written.
    Order {
        /// The partition.
        partition: u32,
        /// The offset.
        offset: u64,
        /// The greatest offset before it.
        head: u64,
    },
    /// The bytes are not one complete publication, or a name is too long. Nothing was written.
    Record,
    /// The partition does not exist.
    Partition(u32),
    /// The batch exceeds [`BATCH_BYTES_MAX`]. Nothing was written.
    BatchTooLong,
    /// The log was opened for inspection only.
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
    /// Opened for inspection, or not begun.
    is_read_only: bool,
    epochs: Epochs,
    /// The chain, oldest first.
    segments: VecDeque<Segment>,
    /// The newest segment, while it accepts batches.
    active: Option<D::File>,
    /// The batch that the next segment must begin with.
    carry: Option<Carry>,
    /// The lost end, until the next segment begins.
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
    /// The number of consecutive failed checks of retention.
    expiries_failed: u32,
    removals_failed: u64,
    /// Present in a log that is written without waiting for the disk.
    lazy: Option<lazy::Lazy>,
}

/// One segment of the chain.
#[derive(Debug)]
struct Segment {
    head: SegmentHead,
    /// The length of the head and the valid batches.
    valid_bytes: u64,
    index: Index,
    /// The rebuilt index found damage that no epoch accounts for yet.
    is_unsettled: bool,
    /// The index contains facts that a scan of the file would not give: an end before the end of
    /// the file, or that the end was synced. The next segment's head has them too, but may get
    /// lost; so the index is synced.
    wants_synced_index: bool,
}

/// The last batch of an existing segment, which is not provably durable.
#[derive(Debug)]
struct Carry {
    /// Its start in the segment.
    from: u64,
    /// Its bytes, and the segment's index without it.
    bytes: Vec<u8>,
    index: MemoryIndex,
    heads: Vec<u64>,
    /// Some of its records contradict earlier ones, or have a damaged definition. A copy would lack
    /// them, and later starts would not know of the loss.
    is_damaged: bool,
}

impl<D: Disk> Store<D> {
    /// The present epoch.
    pub fn epoch(&self) -> u64 {
        self.epochs.present()
    }

    /// The greatest offset ever used, for each partition; 0: none.
    pub fn heads(&self) -> &[u64] {
        &self.heads
    }

    /// The lowest offset of a partition that may be on disk.
    pub fn floor(&self, partition: u32) -> u64 {
        let heads = match self.segments.front() {
            Some(segment) => &segment.head.heads,
            None => &self.heads,
        };
        heads.get(partition as usize).map_or(1, |head| head + 1)
    }

    /// The floors of all partitions.
    pub(crate) fn floors(&self) -> Vec<u64> {
        let partitions = 0..self.settings.partitions_count;
        partitions.map(|partition| self.floor(partition)).collect()
    }

    /// Whether the last batch succeeded.
    pub fn is_available(&self) -> bool {
        self.is_available
    }

    /// The size of valid segments and indexes.
    pub fn bytes(&self) -> u64 {
        let bytes_of = |segment: &Segment| segment.valid_bytes + segment.index.file_bytes();
        self.segments.iter().map(bytes_of).sum()
    }

    /// The approximate memory: the indexes of segments, that of the newest in full, and the current
    /// batch.
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

    /// Returns the disk without [`Store::close`], like a process that dies: the next start has to
    /// search for the end of the log.
    pub fn into_disk(self) -> D {
        self.files.disk
    }

    /// The greatest offset of each partition at the end of a segment.
    fn end_heads(&self, segment: usize) -> &[u64] {
        match self.segments.get(segment + 1) {
            Some(next) => &next.head.heads,
            None => &self.heads,
        }
    }

    /// Runs a read; after a damaged index, rebuilds it from its segment and repeats the read.
    fn repairing<T>(
        &mut self,
        mut read: impl FnMut(&mut Store<D>) -> Result<T, ReadError>,
    ) -> Result<T, StoreError> {
        // Every round replaces one index in a file by one in memory or a valid file.
        for _ in 0..=self.segments.len() {
            match read(self) {
                Ok(value) => return Ok(value),
                Err(ReadError::Disk(error)) => return Err(StoreError::Disk(error)),
                Err(ReadError::Index(sequence)) => self.rebuild(sequence)?,
            }
        }
        Err(StoreError::Disk(DiskError::Io(0)))
    }

    /// Rebuilds the index of a segment.
    fn rebuild(&mut self, sequence: u64) -> Result<(), StoreError> {
        let is_it = |segment: &Segment| segment.head.sequence == sequence;
        let Some(place) = self.segments.iter().position(is_it) else {
            return Err(StoreError::Disk(DiskError::Io(0)));
        };
        let scan = self.index_of(place)?;
        let is_damaged = !scan.damages.is_empty();
        let segment = &mut self.segments[place];
        segment.index = Index::Memory(Box::new(scan.index));
        // The new index hides the damage from the next start, which has to begin an epoch for it.
        segment.is_unsettled = is_damaged;
        let _ = self.write_index(place); // the next start rebuilds it
        Ok(())
    }

    /// Reads a segment's valid bytes and builds its index from them.
    fn index_of(&mut self, place: usize) -> Result<Scan, DiskError> {
        let segment = &self.segments[place];
        let (head, valid_bytes) = (&segment.head, segment.valid_bytes);
        let name = segment_name(head.sequence);
        let bytes = self.files.read_readable(&name, valid_bytes)?.bytes;
        let mut scan = Scan::new(&head.heads, self.settings.hash_seed);
        scan.take(&bytes, head.sequence, head.bytes());
        if (bytes.len() as u64) < valid_bytes {
            scan.damage(bytes.len() as u64, valid_bytes);
        }
        scan.finish(Some(self.end_heads(place)));
        Ok(scan)
    }

    /// Writes the index of a sealed segment to its file. After a failure it stays in memory.
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
