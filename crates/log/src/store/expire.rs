//! Retention: the oldest segment is dropped when the log is too large or the segment too old. Its
//! retained messages that are still current are first copied to the end of the log, and synced.
//!
//! Dropping a segment of mostly such messages frees little. A log whose retained messages are near
//! its bound would copy them again and again, if each segment were copied; if such a segment were
//! kept, no later one could be dropped. So it waits until the log is one and a half times its bound
//! ([`Sweep`]); then everything before the present end is processed once. So files take at most one
//! and a half times the greater of `bytes_max` and the retained messages' size, plus a segment.
//! Between two sweeps half of that is appended, and a sweep copies no more than the retained
//! messages: about two bytes for each byte.
//!
//! Disk faults do not stop retention. A segment that is due is dropped without its retained
//! messages, and these are counted, if
//! - the disk has not returned a message for some time (see `unreadable`): that message;
//! - [`CHECKS_FAILED_MAX`] consecutive checks have failed because the disk has no room for the
//!   copies, or does not return the segment and its index: all messages of the segment that were
//!   not copied yet.
//!
//! Each check tries again to remove a file whose removal failed. Meanwhile the file `end` records
//! that it is not valid, and the next segments are dropped in turn.

use super::disk::{Disk, DiskError};
use super::files::ReadError;
use super::format::{COPY_BYTES, index_name, segment_name};
use super::memory_index::Retained;
use super::write::{Append, Piece};
use super::{Segment, Store, StoreError};
use crate::record::{Flags, RecordView};
use std::collections::BTreeMap;
use stdx::chunk::Slice;
use stdx::handing::Hand;

/// The approximate size of one batch of copied retained messages.
const COPY_BATCH_BYTES: usize = 1 << 20;

/// The maximum number of consecutive failed checks before the oldest segment is dropped without
/// copies: ten seconds, with a check each second.
const CHECKS_FAILED_MAX: u32 = 10;

/// The maximum number of retained messages of a segment that are searched one by one in later
/// segments. More are compared list by list: a hundred thousand messages times forty searches would
/// delay every batch for minutes.
const LOOKUPS_MAX: usize = 64;

/// A dropped segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// The partitions whose floor rose, with the lowest offset that may still be on disk.
    pub floors: Vec<(u32, u64)>,
    /// The topics, by partition and name, that had records in the segment: they may have none left.
    pub topics: Vec<(u32, Slice)>,
    /// The freed bytes.
    pub bytes: u64,
    /// The number of current retained messages that were dropped, because they could not be read or
    /// copied.
    pub retained_lost: u64,
}

/// The state of a sweep; see the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand)]
pub(super) struct Sweep {
    /// Segments up to this number are copied, however many of their messages are current; None: no
    /// sweep.
    through: Option<u64>,
    /// The size of the log after the last sweep, if that was still above `bytes_max`.
    bytes_left: u64,
}

/// A retained message of the oldest segment.
struct Kept {
    partition: u32,
    name: Vec<u8>,
    retained: Retained,
}

impl<D: Disk> Store<D> {
    /// Drops the oldest segment if retention requires it; call it again until it returns None. It
    /// also ends the newest segment of an idle log once that is old enough, so that it can be
    /// dropped later.
    ///
    /// A segment is as old as its newest record, or as the segment after it if a clock ran ahead.
    pub fn expire(&mut self, now_ms: u64) -> Result<Option<Dropped>, StoreError> {
        if self.is_read_only {
            return Err(StoreError::ReadOnly);
        }
        self.unreadable.checks += 1;
        let _ = self.note_end(false); // the next check tries again
        let expired = self.expire_once(now_ms);
        self.expiries_failed = match expired {
            Ok(_) => 0,
            Err(_) => self.expiries_failed.saturating_add(1),
        };
        expired
    }

    /// The number of files that could not be removed since the last call. Each check tries again.
    pub fn take_removals_failed(&mut self) -> u64 {
        std::mem::take(&mut self.removals_failed)
    }

    fn expire_once(&mut self, now_ms: u64) -> Result<Option<Dropped>, StoreError> {
        self.remove_leftovers();
        let oldest = self.segments.front().map_or(0, |oldest| oldest.head.sequence);
        let is_dropped = |name: &String| {
            super::format::sequence_of(name, ".log").is_some_and(|sequence| sequence < oldest)
        };
        if self.leftovers.iter().any(is_dropped) {
            self.note_first()?;
        }
        if self.is_directory_dirty {
            // After a crash at most one dropped segment may return; otherwise the chain would seem
            // to have lost its middle.
            self.files.disk.sync_directory()?;
            self.is_directory_dirty = false;
        }
        let is_quiet = |last: &Segment| self.is_over_age(last, now_ms);
        if self.active.is_some() && self.segments.back().is_some_and(is_quiet) {
            self.sync()?;
            self.active = None;
            self.begin_segment(now_ms)?;
        }
        let is_old = self.is_oldest_over_age(now_ms);
        let is_large = self.bytes() > self.settings.bytes_max;
        let is_due = is_old || is_large && self.segments.len() > 1;
        if !is_large {
            self.sweep = Sweep::default();
        }
        if !is_due {
            return Ok(None);
        }
        if self.segments.len() < 2 {
            // The last segment's successor has to record the heads of the partitions.
            self.sync()?;
            self.active = None;
            self.begin_segment(now_ms)?;
        }
        let oldest = self.segments.front();
        let retained_count = oldest.map_or(0, |oldest| oldest.index.retained_count());
        let is_hopeless = self.expiries_failed >= CHECKS_FAILED_MAX;
        let found = if retained_count > LOOKUPS_MAX {
            self.compare_kept()
        } else {
            self.repairing(|store| store.find_kept())
        };
        let (kept, unknown) = match found {
            Err(StoreError::Disk(_)) if is_hopeless => (Vec::new(), retained_count as u64),
            found => (found?, 0),
        };
        let kept_bytes: u64 = kept.iter().map(|kept| u64::from(kept.retained.length)).sum();
        let Some(oldest) = self.segments.front() else {
            return Ok(None);
        };
        if !is_old && kept_bytes > oldest.valid_bytes / 2 && !self.is_swept() {
            return Ok(None);
        }
        let mut copied = 0;
        match self.copy(&kept, now_ms, &mut copied) {
            Err(StoreError::Disk(DiskError::NoSpace)) if is_hopeless => {}
            done => done?,
        }
        let topics = match self.repairing(|store| store.topics_of_oldest()) {
            // Homes keep topics that may have no records left.
            Err(StoreError::Disk(_)) if is_hopeless => Vec::new(),
            topics => topics?,
        };
        Ok(self.drop_oldest(topics).map(|dropped| Dropped {
            retained_lost: kept.len() as u64 - copied + unknown,
            ..dropped
        }))
    }

    /// Whether to copy the oldest segment although most of its messages are current.
    fn is_swept(&mut self) -> bool {
        let ends = (self.segments.front(), self.segments.back());
        let (Some(oldest), Some(newest)) = ends else {
            return false;
        };
        let (oldest, newest) = (oldest.head.sequence, newest.head.sequence);
        let bytes = self.bytes();
        if self.sweep.through.is_some_and(|through| oldest > through) {
            self.sweep = Sweep { through: None, bytes_left: bytes };
        }
        let base = self.settings.bytes_max.max(self.sweep.bytes_left);
        if self.sweep.through.is_none() && bytes > base.saturating_add(base / 2) {
            self.sweep.through = Some(newest);
        }
        self.sweep.through.is_some()
    }

    fn is_oldest_over_age(&self, now_ms: u64) -> bool {
        let Some(oldest) = self.segments.front() else {
            return false;
        };
        let age_max_ms = self.settings.age_max_ms;
        let newest_ms = match self.segments.get(1) {
            // The segment is sealed.
            Some(next) if oldest.index.records_count() > 0 => {
                oldest.index.times().1.min(next.head.created_ms)
            }
            Some(_) => oldest.head.created_ms,
            None if oldest.index.records_count() > 0 => oldest.index.times().1,
            None => return false,
        };
        age_max_ms > 0 && now_ms.saturating_sub(newest_ms) >= age_max_ms
    }

    /// Does the work of [`Store::find_kept`] by one walk over the retained messages of all
    /// segments.
    fn compare_kept(&mut self) -> Result<Vec<Kept>, StoreError> {
        let mut left: BTreeMap<u32, BTreeMap<Vec<u8>, Retained>> = BTreeMap::new();
        self.list(0, true, &mut |partition, name, found| {
            if let Some(retained) = found.retained.filter(|retained| !retained.clears) {
                let topics = left.entry(partition).or_default();
                topics.insert(name.to_vec(), retained);
            }
        })?;
        for segment in 1..self.segments.len() {
            self.list(segment, true, &mut |partition, name, _| {
                if let Some(topics) = left.get_mut(&partition) {
                    topics.remove(name);
                }
            })?;
        }
        let of_partition = |(partition, topics): (u32, BTreeMap<Vec<u8>, Retained>)| {
            topics.into_iter().map(move |(name, retained)| Kept { partition, name, retained })
        };
        Ok(left.into_iter().flat_map(of_partition).collect())
    }

    /// Finds the retained messages of the oldest segment that no later segment replaces.
    fn find_kept(&mut self) -> Result<Vec<Kept>, ReadError> {
        let Some(oldest) = self.segments.front() else {
            return Ok(Vec::new());
        };
        let list = oldest.index.list(true);
        let (mut kept, mut name) = (Vec::new(), Vec::new());
        for nth in 0.. {
            let listed = oldest.index.listed(&mut self.files, &list, nth, &mut name)?;
            let Some((partition, topic)) = listed else {
                break;
            };
            if let Some(retained) = topic.retained.filter(|retained| !retained.clears) {
                kept.push(Kept { partition, name: name.clone(), retained });
            }
        }
        // Search the newest segments first: they contain the topics with frequent publications.
        for segment in self.segments.iter().skip(1).rev() {
            let mut still = Vec::new();
            for kept in kept {
                let found = segment.index.find(&mut self.files, kept.partition, &kept.name)?;
                if found.is_none_or(|topic| topic.retained.is_none()) {
                    still.push(kept);
                }
            }
            kept = still;
            if kept.is_empty() {
                break;
            }
        }
        Ok(kept)
    }

    /// Copies retained messages to the end of the log and counts them. Unreadable messages are
    /// lost.
    fn copy(&mut self, kept: &[Kept], now_ms: u64, copied: &mut u64) -> Result<(), StoreError> {
        let mut rest = kept;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |kept: &&Kept| {
                bytes += kept.retained.length as usize;
                bytes <= COPY_BATCH_BYTES
            };
            let (now, later) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            rest = later;
            let mut records = Vec::new();
            for kept in now {
                if let Some(record) = self.read_retained(0, &kept.retained)? {
                    records.push((kept, record));
                }
            }
            if records.is_empty() {
                continue;
            }
            let bytes: usize = records.iter().map(|(_, record)| record.len() + COPY_BYTES).sum();
            let newest = self.segments.back().map_or(0, |last| last.valid_bytes);
            if self.segments.len() > 1 && newest + bytes as u64 > self.settings.segment_bytes {
                self.sync()?;
                self.active = None;
            }
            let pieces = records.iter().map(|(kept, record)| Piece {
                append: Append { partition: kept.partition, topic: &kept.name, record },
                is_copy: true,
            });
            self.write_pieces(now_ms, pieces)?;
            *copied += records.len() as u64;
        }
        Ok(())
    }

    /// Reads a retained publication of a segment; None if it is damaged.
    pub(super) fn read_retained(
        &mut self,
        segment: usize,
        retained: &Retained,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let sequence = self.segments[segment].head.sequence;
        let read = self.read_or_give_up(sequence, retained.position, retained.length)?;
        let Some(mut bytes) = read else {
            return Ok(None);
        };
        let Some(record) = RecordView::parse(&bytes).filter(super::format::is_sound) else {
            return Ok(None);
        };
        if !record.flags().has(Flags::CONTROL) {
            return Ok((record.offset() == retained.offset).then_some(bytes));
        }
        let is_copy = matches!(
            super::format::control_of(&record),
            Some(super::format::Control::Retained { record, .. }) if record.offset() == retained.offset
        );
        Ok(is_copy.then(|| bytes.split_off(COPY_BYTES)))
    }

    fn topics_of_oldest(&mut self) -> Result<Vec<(u32, Slice)>, ReadError> {
        let Some(oldest) = self.segments.front() else {
            return Ok(Vec::new());
        };
        let list = oldest.index.list(false);
        let (mut topics, mut name) = (Vec::new(), Vec::new());
        for nth in 0.. {
            let listed = oldest.index.listed(&mut self.files, &list, nth, &mut name)?;
            match listed {
                Some((partition, _)) => topics.push((partition, Slice::copy_of(&name))),
                None => break,
            }
        }
        Ok(topics)
    }

    fn drop_oldest(&mut self, topics: Vec<(u32, Slice)>) -> Option<Dropped> {
        let oldest = self.segments.pop_front()?;
        let sequence = oldest.head.sequence;
        self.files.forget(sequence);
        self.remove_or_remember(segment_name(sequence));
        self.remove_or_remember(index_name(sequence));
        self.is_directory_dirty = self.files.disk.sync_directory().is_err();
        let floors = (0..self.settings.partitions_count)
            .filter(|partition| {
                let before = oldest.head.heads.get(*partition as usize);
                before.is_some_and(|before| before + 1 < self.floor(*partition))
            })
            .map(|partition| (partition, self.floor(partition)))
            .collect();
        Some(Dropped {
            floors,
            topics,
            bytes: oldest.valid_bytes + oldest.index.file_bytes(),
            retained_lost: 0,
        })
    }
}
