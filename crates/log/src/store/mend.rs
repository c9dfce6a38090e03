//! A log whose end is lost, and a log that is mended apart from any node.
//!
//! What a lost end held is not known. So the log goes on as if a segment were missing there:
//! offsets begin above all that it may have had, the new segment names the lost one as the one
//! before it, and every later start finds the hole again by that, as it does for a segment that is
//! lost from the middle.

use super::disk::{Disk, DiskError};
use super::epochs::{self, Epochs, EpochsFound};
use super::files::{Files, Read};
use super::format::{SegmentHead, sequence_of, unfinished_name};
use super::found::FoundLog;
use super::memory_index::Hole;
use super::recover::{Findings, Purpose};
use super::{Damage, OpenError, Recovered, SEGMENT_BYTES_MAX, Store};
use crate::record::RECORD_HEADER_BYTES;

/// Offsets that are passed over in each partition where the end of a log is lost: as many records
/// as the longest segment has.
pub const LOST_OFFSETS: u64 = SEGMENT_BYTES_MAX / RECORD_HEADER_BYTES as u64;

/// A lost end, of which no segment says anything yet.
#[derive(Debug)]
pub(super) struct LostEnd {
    /// Number of a segment that is lost, or that stands for what is lost.
    pub segment: u64,
    pub holes: Vec<Hole>,
}

/// Offsets of a partition that may have been lost, both inclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// The partition.
    pub partition: u32,
    /// First of them.
    pub from: u64,
    /// Last of them.
    pub through: u64,
}

/// What mending a log has come to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mended {
    /// The log as it is now. `damages` are those that no epoch had accounted for before.
    pub recovered: Recovered,
    /// What is lost, also what was lost before.
    pub lost: Vec<Lost>,
    /// Files of which the disk does not give everything, with first byte and byte behind. They were
    /// written anew without it.
    pub unreadable: Vec<(String, Vec<(u64, u64)>)>,
}

/// A segment's file that is not there.
pub(super) fn gone(segment: u64) -> Damage {
    Damage { segment, from: 0, through: 0 }
}

impl<D: Disk> Store<D> {
    /// Begins a new epoch, for a log that was put back from an older copy: what came behind its
    /// present end may have been acknowledged, and is lost. Positions up to the end stay valid, and
    /// who comes with one is told of a gap behind it; positions beyond it are of an epoch that is
    /// over.
    ///
    /// # Errors
    /// There is no log, or its disk refuses.
    pub fn begin_epoch(disk: D, new_epoch: u64, now_ms: u64) -> Result<Mended, OpenError> {
        Store::mend(disk, new_epoch, now_ms, Purpose::NewEpoch)
    }

    /// Reads all of a log, gives up what cannot be read, and makes all indexes again. Begins an
    /// epoch if acknowledged data is lost that no epoch accounts for.
    ///
    /// # Errors
    /// There is no log, or its disk refuses what has to be written. What was written until then is
    /// right.
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

    /// Finds out whether the log has come farther than its segments say.
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

    /// The bytes of a segment that is to be scanned.
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

    /// The file of epochs. For a repair one that the disk does not give is a damaged one: it is
    /// written anew.
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

    /// Reads a segment for a repair. Returns the bytes that the disk gives, and the offset behind
    /// the last byte that it does not give. If bytes are missing, the file is written anew, with
    /// its head if the head is known. If nothing says yet where the segment ends, the file is
    /// written at the end of the repair.
    pub(super) fn read_to_repair(
        &mut self,
        name: &str,
        bytes_max: Option<u64>,
        head: Option<&SegmentHead>,
        findings: &mut Findings,
    ) -> Result<(Vec<u8>, u64), OpenError> {
        let is_end_known = bytes_max.is_some();
        let bytes_max = bytes_max.unwrap_or(u32::MAX.into());
        let mut read = match self.files.read_what_can_be(name, bytes_max) {
            Err(DiskError::Io(_)) => {
                let length = self.files.len(name)?.min(bytes_max);
                let bytes = vec![0; usize::try_from(length).map_err(|_| DiskError::Io(0))?];
                let lacks = vec![(0, length)];
                Read { bytes, lacks }
            }
            read => read?,
        };
        let lacks_through = read.lacks.last().map_or(0, |lack| lack.1);
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
            findings.unreadable.push((name.to_owned(), read.lacks));
        }
        Ok((read.bytes, lacks_through))
    }

    /// Writes those segments anew of which nothing said where they end. Only now that the next one
    /// says it, and an epoch accounts for what they lack: a repair that died before would leave an
    /// end that looks like one that was torn by a crash.
    pub(super) fn replace_unreadable(&mut self, findings: &mut Findings) -> Result<(), DiskError> {
        for (name, bytes) in std::mem::take(&mut findings.replacements) {
            self.replace_segment(&name, &bytes)?;
        }
        Ok(())
    }

    /// Puts other bytes in place of a segment's file, durably.
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
    /// Whether a whole file is gone, and not some bytes of it damaged.
    pub fn is_gone(&self) -> bool {
        self.from == self.through
    }
}
