//! Recovery of a log whose end is lost, and offline repair.
//!
//! The content of a lost end is unknown. So the log continues as if a segment were missing: offsets
//! begin above all that it may have had, the new segment names the lost one as its predecessor, and
//! every later start finds the hole again by that, as for a segment lost from the middle.

use super::disk::{Disk, DiskError};
use super::epochs::{self, Epochs, EpochsFound};
use super::files::{Files, Read};
use super::format::{SegmentHead, sequence_of, unfinished_name};
use super::found::FoundLog;
use super::memory_index::Hole;
use super::recover::{Findings, Purpose};
use super::{Damage, OpenError, Recovered, SEGMENT_BYTES_MAX, Store};
use crate::record::RECORD_HEADER_BYTES;

/// The offsets skipped in each partition after the loss of a log's end: as many as the longest
/// segment has records.
pub const LOST_OFFSETS: u64 = SEGMENT_BYTES_MAX / RECORD_HEADER_BYTES as u64;

/// A lost end that no segment accounts for yet.
#[derive(Debug)]
pub(super) struct LostEnd {
    /// The number of a lost segment, or of one that stands for the loss.
    pub segment: u64,
    pub holes: Vec<Hole>,
}

/// Offsets of a partition that may have been lost, both inclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// The partition.
    pub partition: u32,
    /// The first of them.
    pub from: u64,
    /// The last of them.
    pub through: u64,
}

/// The result of a repair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mended {
    /// The log after the repair. `damages` are those that no earlier epoch accounts for.
    pub recovered: Recovered,
    /// All losses, earlier ones included.
    pub lost: Vec<Lost>,
    /// Files with unreadable ranges (first byte, end exclusive). They were rewritten without those
    /// ranges.
    pub unreadable: Vec<(String, Vec<(u64, u64)>)>,
}

/// The damage of a missing segment file.
pub(super) fn gone(segment: u64) -> Damage {
    Damage { segment, from: 0, through: 0 }
}

impl<D: Disk> Store<D> {
    /// Begins a new epoch, for a log that was restored from an older copy: later messages may have
    /// been acknowledged, and are lost. Positions up to the present end stay valid, and a client
    /// with one receives a gap behind it; positions beyond it belong to an old epoch.
    ///
    /// # Errors
    /// There is no log, or a disk error.
    pub fn begin_epoch(disk: D, new_epoch: u64, now_ms: u64) -> Result<Mended, OpenError> {
        Store::mend(disk, new_epoch, now_ms, Purpose::NewEpoch)
    }

    /// Reads the whole log, abandons unreadable data, and rebuilds all indexes. Begins an epoch if
    /// acknowledged data is lost that no epoch accounts for.
    ///
    /// # Errors
    /// There is no log, or the disk refuses a write. Everything written until then is correct.
    pub fn repair(disk: D, new_epoch: u64, now_ms: u64) -> Result<Mended, OpenError> {
        Store::mend(disk, new_epoch, now_ms, Purpose::Repair)
    }

    fn mend(disk: D, new_epoch: u64, now_ms: u64, purpose: Purpose) -> Result<Mended, OpenError> {
        let mut files = Files::new(disk);
        let settings = FoundLog::find(&mut files, purpose)?.settings(&mut files, new_epoch)?;
        let (mut store, findings, _) = Store::open_for(files.disk, settings, now_ms, purpose)?;
        store.close().map_err(|error| match error {
            super::StoreError::Disk(error) => OpenError::Disk(error),
            _ => OpenError::Disk(DiskError::Io(0)),
        })?;
        let segments = store.segments.iter();
        let holes = segments.flat_map(|segment| segment.index.holes());
        let lost = holes.map(|hole| Lost {
            partition: hole.partition,
            from: hole.from,
            through: hole.through,
        });
        Ok(Mended {
            lost: lost.collect(),
            unreadable: findings.unreadable.clone(),
            recovered: store.recovered(findings, false),
        })
    }

    /// Detects whether the recorded end is beyond the segments.
    pub(super) fn find_lost_end(&mut self, findings: &mut Findings, purpose: Purpose) {
        let noted = self.notes.end.segment;
        let newest = self.segments.back().map_or(0, |last| last.head.sequence);
        let segment = match purpose {
            _ if noted > newest => noted,
            Purpose::NewEpoch => {
                self.next_sequence += 1;
                self.next_sequence - 1
            }
            _ => return,
        };
        findings.damages.push(gone(segment));
        if self.is_read_only {
            return;
        }
        let mut holes = Vec::with_capacity(self.heads.len());
        for (partition, head) in (0..).zip(&mut self.heads) {
            let hole = Hole {
                partition,
                from: head.saturating_add(1),
                through: head.saturating_add(LOST_OFFSETS).min(u64::MAX - 1),
            };
            *head = hole.through.max(*head);
            holes.push(hole);
        }
        findings.holes.extend_from_slice(&holes);
        self.lost = Some(LostEnd { segment, holes });
    }

    /// The bytes of a segment to scan.
    pub(super) fn read_to_scan(
        &mut self,
        name: &str,
        bytes_max: u64,
    ) -> Result<Vec<u8>, OpenError> {
        let read = self.files.read_whole(name, bytes_max);
        read.map_err(|error| match error {
            DiskError::Io(_) => OpenError::Unreadable { name: name.to_owned(), error },
            error => OpenError::Disk(error),
        })
    }

    /// Reads the file of epochs. A repair treats an unreadable one as damaged: it is rewritten.
    pub(super) fn read_epochs(
        &mut self,
        findings: &mut Findings,
        purpose: Purpose,
    ) -> Result<EpochsFound, OpenError> {
        let name = epochs::NAME.to_owned();
        match Epochs::read(&mut self.files, self.settings.partitions_count) {
            Err(DiskError::Io(_)) if purpose == Purpose::Repair => {
                let mut file = self.files.disk.open(&name)?;
                let length = self.files.disk.len(&mut file)?;
                findings.unreadable.push((name, vec![(0, length)]));
                Ok(EpochsFound::Damaged)
            }
            Err(error @ DiskError::Io(_)) => Err(OpenError::Unreadable { name, error }),
            found => Ok(found?),
        }
    }

    /// Reads a segment for a repair. Returns its readable bytes, and the end of the last unreadable
    /// range. If bytes are missing, the file is rewritten, with its head if that is known. If the
    /// segment's end is unknown, the file is rewritten at the end of the repair.
    pub(super) fn read_to_repair(
        &mut self,
        name: &str,
        bytes_max: Option<u64>,
        head: Option<&SegmentHead>,
        findings: &mut Findings,
    ) -> Result<(Vec<u8>, u64), OpenError> {
        let is_end_known = bytes_max.is_some();
        let bytes_max = bytes_max.unwrap_or(u32::MAX.into());
        let mut read = match self.files.read_readable(name, bytes_max) {
            Err(DiskError::Io(_)) => {
                let length = self.files.len(name)?.min(bytes_max);
                let bytes = vec![0; usize::try_from(length).map_err(|_| DiskError::Io(0))?];
                let missing = vec![(0, length)];
                Read { bytes, missing }
            }
            read => read?,
        };
        let lacks_through = read.missing.last().map_or(0, |lack| lack.1);
        if lacks_through > 0 {
            let mut encoded = Vec::new();
            head.inspect(|head| head.encode(&mut encoded));
            let known = encoded.len().min(read.bytes.len());
            read.bytes[..known].copy_from_slice(&encoded[..known]);
            if is_end_known {
                self.replace_segment(name, &read.bytes)?;
            } else {
                let replacement = (name.to_owned(), read.bytes.clone());
                findings.replacements.push(replacement);
            }
            findings.unreadable.push((name.to_owned(), read.missing));
        }
        Ok((read.bytes, lacks_through))
    }

    /// Rewrites those segments whose end was unknown. Not earlier, because now the next segment
    /// records the end, and an epoch accounts for the missing bytes: an interrupted repair would
    /// otherwise leave an end that looks torn by a crash.
    pub(super) fn replace_unreadable(&mut self, findings: &mut Findings) -> Result<(), DiskError> {
        for (name, bytes) in std::mem::take(&mut findings.replacements) {
            self.replace_segment(&name, &bytes)?;
        }
        Ok(())
    }

    /// Replaces a segment's file, durably.
    fn replace_segment(&mut self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        let sequence = sequence_of(name, ".log").unwrap_or_default();
        let unfinished = unfinished_name(sequence);
        let mut file = self.files.replace(&unfinished, bytes)?;
        self.files.disk.sync(&mut file)?;
        self.files.forget(sequence);
        self.files.disk.rename(&unfinished, name)?;
        self.files.disk.sync_directory()
    }
}

impl Damage {
    /// Whether a whole file is missing, not some of its bytes.
    pub fn is_gone(&self) -> bool {
        self.from == self.through
    }
}
