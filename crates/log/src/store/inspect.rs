//! Inspection of a log for operators: counts, all its content in order, and verification.

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
    /// The number of segments.
    pub segments_count: u64,
    /// The size of valid segments and indexes.
    pub bytes: u64,
    /// The number of publications on disk.
    pub records_count: u64,
    /// Epochs with their start, in milliseconds since 1970; the last is the present one.
    pub epochs: Vec<(u64, u64)>,
    /// The lowest offset that may be on disk, and the greatest ever used, for each partition.
    pub partitions: Vec<(u64, u64)>,
    /// The least and greatest time of the records, in milliseconds since 1970; None without
    /// records.
    pub times_ms: Option<(u64, u64)>,
}

/// A fault of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// The head of a segment is damaged.
    Head {
        /// The file.
        name: String,
    },
    /// The bytes are not valid records.
    Damage {
        /// The file.
        name: String,
        /// The first byte.
        from: u64,
        /// The end, exclusive.
        through: u64,
    },
    /// The index does not match its segment. It can be removed: the next start rebuilds it.
    Index {
        /// The file.
        name: String,
    },
    /// A segment is missing: in the middle of the chain, or at the recorded end.
    Missing {
        /// The file.
        name: String,
    },
    /// The file of epochs is missing or damaged.
    Epochs,
    /// The disk did not return the bytes.
    Unreadable {
        /// The file.
        name: String,
        /// The reason.
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

/// One item of a log.
#[derive(Clone, Copy, Debug)]
pub enum Dumped<'a> {
    /// The start of a segment.
    Segment {
        /// Its number.
        sequence: u64,
        /// The epoch in which it was created.
        epoch: u64,
        /// The time of its creation, in milliseconds since 1970.
        created_ms: u64,
        /// The number of valid bytes.
        valid_bytes: u64,
    },
    /// A publication; its topic id is local to the segment.
    Record {
        /// The partition.
        partition: u32,
        /// The topic's name.
        topic: &'a [u8],
        /// The record.
        record: RecordView<'a>,
        /// Whether this is a copy of a retained message whose segment was dropped.
        is_copy: bool,
    },
    /// Damaged bytes in the current segment.
    Damage {
        /// The first byte.
        from: u64,
        /// The end, exclusive.
        through: u64,
    },
}

impl<D: Disk> Store<D> {
    /// Returns the counts.
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

    /// Visits all content in the order of the log.
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
            let bytes = self.files.read_readable(&name, valid_bytes)?.bytes;
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

    /// Verifies the log: all checksums, the chain of segments, and every index against its segment.
    /// It also reports damage that an epoch accounts for: the data is still missing. (An unfinished
    /// batch behind the last complete one of the newest segment was not acknowledged, and is not
    /// reported.)
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

    /// Whether the index file equals, byte for byte, the one built from the segment. For a damaged
    /// segment only the file's own checksums are checked: it may contain more than can still be
    /// read.
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
