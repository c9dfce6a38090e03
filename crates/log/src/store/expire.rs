//! Retention: the oldest segment goes when the log is too large or the segment too old. Its
//! retained messages that nothing has replaced are copied to the end of the log first, and synced.
//!
//! A segment of mostly such messages frees little. Were it always copied, a log whose retained
//! messages come near its bound would copy them again and again; were it kept, nothing behind it
//! could go. So it waits until the log is half as large again as it may be ([`Sweep`]); then
//! everything before the present end is gone through once. So files take one and a half times the
//! greater of `bytes_max` and what the retained messages take, and a segment, but not more. Between
//! two sweeps half of that is appended, and a sweep copies no more than the retained messages:
//! about two bytes for each byte.
//!
//! A disk with faults does not stop it. A segment that is due goes without its retained messages,
//! and these are counted, where
//! - the disk has not given a message for a while (see `unreadable`): that one;
//! - [`LOOKS_FAILED_MAX`] looks in a row have failed because the disk has no room for the copies,
//!   or does not give the segment and its index: all of the segment that were not copied yet.
//!
//! A file that cannot be removed is tried again with each look. Meanwhile the file `end` says that
//! it does not count, and what comes behind it is dropped in turn.

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

/// Bytes of retained messages copied in one batch, about.
const COPY_BATCH_BYTES: usize = 1 << 20;

/// Looks in a row that may fail before the oldest segment goes as it is: ten seconds, where a look
/// is due each second.
const LOOKS_FAILED_MAX: u32 = 10;

/// Retained messages of a segment that are looked for one by one in those behind it. More are
/// compared list by list: a hundred thousand times forty searches would hold up every batch for
/// minutes.
const LOOKUPS_MAX: usize = 64;

/// A segment has been dropped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// Partitions whose floor rose, and the least offset that may still be on disk.
    pub floors: Vec<(u32, u64)>,
    /// Topics, by partition and name, that had something in the segment: they may have nothing
    /// left.
    pub topics: Vec<(u32, Slice)>,
    /// Bytes that went.
    pub bytes: u64,
    /// Retained messages that went with it although nothing has replaced them: they could not be
    /// read or copied.
    pub retained_lost: u64,
}

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand)]
pub(super) struct Sweep {
    /// Segments through this number are copied whatever part of them is kept; none: no sweep.
    through: Option<u64>,
    /// What the last sweep could not bring below `bytes_max`: the log was so large behind it.
    bytes_left: u64,
}

/// A retained message of the oldest segment.
struct Kept {
    partition: u32,
    name: Vec<u8>,
    retained: Retained,
}

impl<D: Disk> Store<D> {
    /// Drops the oldest segment if retention says so; call it again until it answers none. A quiet
    /// log's newest segment is ended here too once it is old enough, so that it can be dropped
    /// later.
    ///
    /// A segment is as old as its newest record, or as the segment after it where a clock ran
    /// ahead.
    pub fn expire(&mut self, now_ms: u64) -> Result<Option<Dropped>, StoreError> {
        if self.is_read_only {
            return Err(StoreError::ReadOnly);
        }
        self.unreadable.looks += 1;
        let _ = self.note_end(false); // the next look tries again
        let looked = self.look(now_ms);
        self.expiries_failed = match looked {
            Ok(_) => 0,
            Err(_) => self.expiries_failed.saturating_add(1),
        };
        looked
    }

    /// Files that could not be removed since this was last asked. Each is tried again with every
    /// look.
    pub fn take_removals_failed(&mut self) -> u64 {
        std::mem::take(&mut self.removals_failed)
    }

    fn look(&mut self, now_ms: u64) -> Result<Option<Dropped>, StoreError> {
        self.remove_leftovers();
        let oldest = self.segments.front().map_or(0, |oldest| oldest.head.sequence);
        let is_dropped = |name: &String| {
            super::format::sequence_of(name, ".log").is_some_and(|sequence| sequence < oldest)
        };
        if self.leftovers.iter().any(is_dropped) {
            self.note_first()?;
        }
        if self.is_directory_dirty {
            // One dropped segment at most may come back after a crash, or the chain would seem to
            // have lost its middle.
            self.files.disk.sync_directory()?;
            self.is_directory_dirty = false;
        }
        let is_quiet = |last: &Segment| self.is_over_age(last, now_ms);
        if self.active.is_some() && self.segments.back().is_some_and(is_quiet) {
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
            // The heads of the partitions must not go with the last segment.
            self.active = None;
            self.begin_segment(now_ms)?;
        }
        let oldest = self.segments.front();
        let retained_count = oldest.map_or(0, |oldest| oldest.index.retained_count());
        let is_hopeless = self.expiries_failed >= LOOKS_FAILED_MAX;
        let found = match retained_count > LOOKUPS_MAX {
            true => self.compare_kept(),
            false => self.repairing(|store| store.find_kept()),
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
            // Homes keep topics that may have nothing left.
            Err(StoreError::Disk(_)) if is_hopeless => Vec::new(),
            topics => topics?,
        };
        Ok(self.drop_oldest(topics).map(|dropped| Dropped {
            retained_lost: kept.len() as u64 - copied + unknown,
            ..dropped
        }))
    }

    /// Whether the oldest segment is to be copied although most of it is kept.
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
            // It is sealed.
            Some(next) if oldest.index.records_count() > 0 => {
                oldest.index.times().1.min(next.head.created_ms)
            }
            Some(_) => oldest.head.created_ms,
            None if oldest.index.records_count() > 0 => oldest.index.times().1,
            None => return false,
        };
        age_max_ms > 0 && now_ms.saturating_sub(newest_ms) >= age_max_ms
    }

    /// As [`Store::find_kept`], by one walk over the retained messages of all segments.
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

    /// Retained messages of the oldest segment that no later segment replaces.
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
        // The newest first: what is published again and again is found there.
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

    /// Copies retained messages to the end of the log and counts them. What cannot be read any more
    /// is lost.
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

    /// A retained publication of a segment; none if it is damaged.
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
