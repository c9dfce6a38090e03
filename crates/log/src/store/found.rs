//! The content of a log's directory: its segments with their heads, and its recorded end.

use super::disk::{Disk, DiskError};
use super::end::End;
use super::epochs::Epochs;
use super::files::{Files, ReadError, with_retries};
use super::format::{HeadError, SegmentHead, head_bytes, sequence_of};
use super::index_file::IndexFile;
use super::recover::Purpose;
use super::{OpenError, SEGMENT_BYTES_MAX, StoreSettings};
use std::collections::BTreeMap;
use stdx::hash::Seed;

/// The content of a log's directory.
pub(super) struct FoundLog {
    pub segments: BTreeMap<u64, Found>,
    /// The recorded end of the log.
    pub end: End,
}

/// A segment file.
pub(super) struct Found {
    /// The head; if it is damaged, its copy in the index; None if that is damaged too.
    pub head: Option<SegmentHead>,
    pub is_whole: bool,
}

impl FoundLog {
    pub fn find<D: Disk>(files: &mut Files<D>, purpose: Purpose) -> Result<FoundLog, OpenError> {
        // Read the end before the directory: if the log is being written meanwhile, the listed
        // files are at least as new.
        let end = End::read(&mut files.disk)?;
        let mut segments = find_segments(files, purpose)?;
        // Remains of dropped segments are not valid; a restored directory has no newer ones.
        if segments.last_key_value().is_some_and(|(newest, _)| *newest >= end.first) {
            segments.retain(|sequence, _| *sequence >= end.first);
        }
        Ok(FoundLog { segments, end })
    }

    /// The settings of an existing log, for use without a configuration.
    pub fn settings<D: Disk>(
        &self,
        files: &mut Files<D>,
        new_epoch: u64,
    ) -> Result<StoreSettings, OpenError> {
        let heads = self.segments.values().rev().map(|found| found.head.as_ref());
        let head = heads.flatten().next();
        let counted = head.map(|head| head.heads.len() as u32);
        // Without a readable head, the file of epochs has the number.
        let is_there = !self.segments.is_empty();
        let counted = counted.or_else(|| is_there.then(|| Epochs::partitions_count(files))?);
        Ok(StoreSettings {
            partitions_count: counted.ok_or(OpenError::Missing)?,
            segment_bytes: SEGMENT_BYTES_MAX,
            bytes_max: u64::MAX,
            age_max_ms: 0,
            new_epoch,
            hash_seed: Seed(0, 0),
        })
    }
}

/// Finds all segment files and their heads.
fn find_segments<D: Disk>(
    files: &mut Files<D>,
    purpose: Purpose,
) -> Result<BTreeMap<u64, Found>, OpenError> {
    let mut found = BTreeMap::new();
    for name in files.disk.list()? {
        let Some(sequence) = sequence_of(&name, ".log") else {
            continue;
        };
        let (bytes, error) = match with_retries(|| read_head(files, &name)) {
            // The index has a copy of the head.
            Err(error @ DiskError::Io(_)) => (Vec::new(), Some(error)),
            bytes => (bytes?, None),
        };
        let head = match SegmentHead::decode(&bytes) {
            Ok(head) => Some(head).filter(|head| head.sequence == sequence),
            Err(HeadError::Damaged) => None,
            Err(HeadError::Version { version, flags }) => {
                return Err(OpenError::Version { name, version, flags });
            }
        };
        let is_whole = head.is_some();
        let head = match head {
            Some(head) => Some(head),
            None => match IndexFile::open(files, sequence) {
                Ok((_, head)) => Some(head),
                Err(ReadError::Index(_) | ReadError::Disk(DiskError::NotFound)) => None,
                Err(ReadError::Disk(error)) => return Err(error.into()),
            },
        };
        if let (Some(error), None, true) = (error, &head, purpose != Purpose::Repair) {
            return Err(OpenError::Unreadable { name, error });
        }
        found.insert(sequence, Found { head, is_whole });
    }
    Ok(found)
}

fn read_head<D: Disk>(files: &mut Files<D>, name: &str) -> Result<Vec<u8>, DiskError> {
    let bytes = files.read_whole(name, head_bytes(0))?;
    match SegmentHead::partitions_count(&bytes) {
        Some(count) => files.read_whole(name, head_bytes(count)),
        None => Ok(bytes),
    }
}
