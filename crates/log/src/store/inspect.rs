//! Looking at a log as an operator does: counts, everything in it one after the other, and whether
//! it is whole.

use super::disk::Disk;
use super::files::ReadError;
use super::format::{index_name, segment_name};
use super::index::Index;
use super::index_file::IndexFile;
use super::memory_index::Scan;
use super::walk::{Item, Walk};
use super::{Store, StoreError};
use crate::record::RecordView;
use std::fmt;

/// Counts of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreStats {
    /// Segments.
    pub segments_count: u64,
    /// Bytes of segments and indexes that count.
    pub bytes: u64,
    /// Publications on disk.
    pub records_count: u64,
    /// Epochs and when they began, in milliseconds since 1970; the last is the present one.
    pub epochs: Vec<(u64, u64)>,
    /// For each partition the least offset that may be on disk, and the greatest ever used.
    pub partitions: Vec<(u64, u64)>,
    /// Least and greatest time of the records, in milliseconds since 1970; none without records.
    pub times_ms: Option<(u64, u64)>,
}

/// Something that is wrong with a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// The head of a segment is damaged.
    Head {
        /// The file.
        name: String,
    },
    /// Bytes that are no sound records.
    Damage {
        /// The file.
        name: String,
        /// First byte.
        from: u64,
        /// The byte behind.
        through: u64,
    },
    /// An index does not say what its segment says. It can be removed: the next start makes it
    /// again.
    Index {
        /// The file.
        name: String,
    },
    /// A segment is missing: in the middle of the chain, or at the end, which lies as far as that
    /// at least.
    Missing {
        /// The file.
        name: String,
    },
    /// The file of epochs is missing or damaged.
    Epochs,
    /// The disk did not give the bytes.
    Unreadable {
        /// The file.
        name: String,
        /// Why.
        error: super::DiskError,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Head { name } => write!(f, "{name}: the head is damaged"),
            Finding::Damage { name, from, through } => {
                write!(f, "{name}: bytes {from} to {through} are damaged")
            }
            Finding::Index { name } => {
                write!(f, "{name}: not the index of its segment; the start will rebuild it")
            }
            Finding::Missing { name } => write!(f, "{name}: missing"),
            Finding::Epochs => write!(f, "epochs: missing, damaged, or of another log"),
            Finding::Unreadable { name, error } => write!(f, "{name}: {error}"),
        }
    }
}

/// One thing in a log.
#[derive(Clone, Copy, Debug)]
pub enum Dumped<'a> {
    /// A segment begins.
    Segment {
        /// Its number.
        sequence: u64,
        /// The epoch in which it was made.
        epoch: u64,
        /// When, in milliseconds since 1970.
        created_ms: u64,
        /// Bytes of it that count.
        valid_bytes: u64,
    },
    /// A publication; its topic id is the segment's own.
    Record {
        /// Partition of the log.
        partition: u32,
        /// The topic's name.
        topic: &'a [u8],
        /// The record.
        record: RecordView<'a>,
        /// A retained message that was copied when its segment was dropped.
        is_copy: bool,
    },
    /// Bytes that are damaged, in the segment that has begun.
    Damage {
        /// First byte.
        from: u64,
        /// The byte behind.
        through: u64,
    },
}

impl<D: Disk> Store<D> {
    /// Counts.
    pub fn stats(&self) -> StoreStats {
        let with_records = self.segments.iter().filter(|segment| segment.index.records_count() > 0);
        let times = with_records.map(|segment| segment.index.times());
        let partitions = 0..self.settings.partitions_count;
        StoreStats {
            segments_count: self.segments.len() as u64,
            bytes: self.bytes(),
            records_count: self.segments.iter().map(|segment| segment.index.records_count()).sum(),
            epochs: self.epochs.list.iter().map(|epoch| (epoch.epoch, epoch.started_ms)).collect(),
            partitions: partitions
                .map(|partition| (self.floor(partition), self.heads[partition as usize]))
                .collect(),
            times_ms: times.reduce(|(a, b), (c, d)| (a.min(c), b.max(d))),
        }
    }

    /// Everything, in the order of the log.
    pub fn dump(&mut self, visit: &mut dyn FnMut(Dumped<'_>)) -> Result<(), StoreError> {
        for place in 0..self.segments.len() {
            let segment = &self.segments[place];
            let (sequence, start) = (segment.head.sequence, segment.head.bytes());
            visit(Dumped::Segment {
                sequence,
                epoch: segment.head.epoch,
                created_ms: segment.head.created_ms,
                valid_bytes: segment.valid_bytes,
            });
            let valid_bytes = segment.valid_bytes;
            let name = segment_name(sequence);
            let bytes = self.files.read_what_can_be(&name, valid_bytes)?.bytes;
            let mut scan = Scan::new(&segment.head.heads, self.settings.hash_seed);
            for (from, through, item) in Walk::new(&bytes, sequence, start) {
                let is_sound = scan.take_item(from, through, &item);
                let (number, record, is_copy) = match item {
                    _ if !is_sound => {
                        visit(Dumped::Damage { from, through });
                        continue;
                    }
                    Item::Record(record) => (record.topic(), record, false),
                    Item::Retained { number, record } => (number, record, true),
                    _ => continue,
                };
                if let Some(topic) = scan.index.topics.get(number as usize) {
                    visit(Dumped::Record {
                        partition: topic.partition,
                        topic: &topic.name,
                        record,
                        is_copy,
                    });
                }
            }
            let read = bytes.len() as u64;
            if read < valid_bytes {
                visit(Dumped::Damage { from: read, through: valid_bytes });
            }
        }
        Ok(())
    }

    /// Reads everything: all checksums, the chain of segments, and every index against its segment.
    /// Damage that an epoch accounts for is reported too: the data is still missing. (What ends
    /// behind the last whole batch of the newest segment is a batch that was not acknowledged, and
    /// no finding.)
    pub fn verify(&mut self, report: &mut dyn FnMut(Finding)) {
        match super::epochs::Epochs::read(&mut self.files, self.settings.partitions_count) {
            Ok(super::epochs::EpochsFound::Whole(_)) => {}
            _ => report(Finding::Epochs),
        }
        for place in 0..self.segments.len() {
            self.verify_segment(place, report);
        }
        let newest = self.segments.back().map_or(0, |last| last.head.sequence);
        let noted = self.notes.end.segment;
        if noted > newest {
            let name = segment_name(noted);
            report(Finding::Missing { name });
        }
    }

    fn verify_segment(&mut self, place: usize, report: &mut dyn FnMut(Finding)) {
        let head = self.segments[place].head.clone();
        let name = segment_name(head.sequence);
        let before = place.checked_sub(1).map(|before| self.segments[before].head.sequence);
        if before.is_some_and(|before| before != head.previous) {
            report(Finding::Missing { name: segment_name(head.previous) });
        }
        let mut encoded = Vec::new();
        head.encode(&mut encoded);
        match self.files.read_whole(&name, head.bytes()) {
            Ok(bytes) if bytes == encoded => {}
            Ok(_) => report(Finding::Head { name: name.clone() }),
            Err(error) => return report(Finding::Unreadable { name, error }),
        }
        let scan = match self.index_of(place) {
            Ok(scan) => scan,
            Err(error) => return report(Finding::Unreadable { name, error }),
        };
        for (from, through) in &scan.damages {
            report(Finding::Damage { name: name.clone(), from: *from, through: *through });
        }
        if let Index::File(_) = &self.segments[place].index {
            match self.is_index_right(place, &scan) {
                Ok(true) => {}
                Ok(false) | Err(ReadError::Index(_)) => {
                    report(Finding::Index { name: index_name(head.sequence) })
                }
                Err(ReadError::Disk(error)) => {
                    report(Finding::Unreadable { name: index_name(head.sequence), error })
                }
            }
        }
    }

    /// Whether the index file is, byte for byte, the one that the segment gives. Where the segment
    /// is damaged only the file's own checksums are looked at: it may know more than can be read
    /// any more.
    fn is_index_right(&mut self, place: usize, scan: &Scan) -> Result<bool, ReadError> {
        let segment = &self.segments[place];
        let file_bytes = segment.index.file_bytes();
        let name = index_name(segment.head.sequence);
        let found = self.files.read_whole(&name, file_bytes)?;
        if scan.damages.is_empty() && segment.index.holes().is_empty() {
            let expected = IndexFile::encode(&segment.head, segment.valid_bytes, &scan.index);
            return Ok(found == expected);
        }
        Ok(IndexFile::pages_are_whole(&found, segment.head.sequence))
    }
}
