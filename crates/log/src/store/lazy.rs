//! A log that is written without waiting for the disk: a copy of records that are in another place
//! as well, the mirror of an engine's log.
//!
//! A batch is written, and not synced. [`Store::sync`] syncs the written batches, now and then.
//! Each mark says how far the segment was synced, and so does the file `end`; a start trusts no
//! batch behind that but the one that follows it directly. So after any crash the log has a
//! beginning of the written batches, and lacks the rest. A segment is synced before the next one
//! begins.
//!
//! The caller gives a log that has failed up, and begins it anew ([`Store::discard`]).

use super::disk::{Disk, DiskError};
use super::format::sequence_of;
use super::{Segment, Store, StoreError};

/// The state of a lazy log.
#[derive(Debug, Default)]
pub(super) struct Lazy {
    /// Bytes of the newest segment that were synced.
    pub synced_bytes: u64,
    /// The first offset of each partition that is read; 0: all of them.
    pub floors: Vec<u64>,
}

impl<D: Disk> Store<D> {
    /// Writes without waiting for the disk from now on: [`Store::append`] returns before its batch
    /// is durable.
    pub fn write_lazily(&mut self) {
        let synced_bytes = self.segments.back().map_or(0, |last| last.valid_bytes);
        let floors = vec![0; self.heads.len()];
        self.lazy = Some(Lazy { synced_bytes, floors });
    }

    /// Reads no record of a partition below this offset any more: the log does not have all of
    /// them.
    /// Until the next start, or [`Store::discard`].
    pub fn set_read_floor(&mut self, partition: u32, floor: u64) {
        let floors = self.lazy.as_mut().map(|lazy| &mut lazy.floors);
        if let Some(known) = floors.and_then(|floors| floors.get_mut(partition as usize)) {
            *known = floor;
        }
    }

    /// The lowest offset of a partition that may be read.
    pub fn read_floor(&self, partition: u32) -> u64 {
        let floors = self.lazy.as_ref().map(|lazy| &lazy.floors);
        let floor = floors.and_then(|floors| floors.get(partition as usize)).copied();
        self.floor(partition).max(floor.unwrap_or(0))
    }

    /// Syncs all written batches. Does nothing in a log that is not lazy.
    ///
    /// # Errors
    /// The disk refused; batches since the last success may be lost.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        let newest = self.segments.back().zip(self.active.as_mut());
        let (Some((segment, file)), Some(lazy)) = (newest, &mut self.lazy) else {
            return Ok(());
        };
        if lazy.synced_bytes >= segment.valid_bytes {
            return Ok(());
        }
        if let Err(error) = self.files.disk.sync(file) {
            // The content of the file is unknown from here on.
            self.active = None;
            self.is_available = false;
            return Err(error.into());
        }
        lazy.synced_bytes = segment.valid_bytes;
        let _ = self.note_end(false); // the next mark says it as well
        Ok(())
    }

    /// Drops all records and begins anew: offsets may be any again.
    ///
    /// # Errors
    /// The disk refused. The log takes nothing then; another attempt may succeed. A start finds a
    /// later part of the records, or damage.
    pub fn discard(&mut self, now_ms: u64) -> Result<(), StoreError> {
        if self.is_read_only {
            return Err(StoreError::ReadOnly);
        }
        self.is_available = false;
        (self.active, self.carry, self.lost) = (None, None, None);
        for segment in self.segments.drain(..) {
            self.files.forget(segment.head.sequence);
        }
        let is_segment = |name: &String| {
            [".log", ".idx", ".new"].iter().any(|ending| sequence_of(name, ending).is_some())
        };
        let mut names = self.files.disk.list()?;
        names.retain(is_segment);
        // Oldest first: what an interruption leaves is a log that has dropped its beginning.
        names.sort_unstable();
        for name in names {
            match self.files.disk.remove(&name) {
                Ok(()) | Err(DiskError::NotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.files.disk.sync_directory()?;
        self.heads.fill(0);
        if let Some(lazy) = &mut self.lazy {
            lazy.floors.fill(0);
        }
        self.leftovers.clear();
        self.is_directory_dirty = false;
        self.sweep = Default::default();
        self.unreadable = Default::default();
        self.expiries_failed = 0;
        self.begin_segment(now_ms)?;
        self.is_available = true;
        Ok(())
    }

    /// All of a segment that has just begun is synced.
    pub(super) fn segment_synced(&mut self) {
        let bytes = self.segments.back().map_or(0, |last| last.valid_bytes);
        if let Some(lazy) = &mut self.lazy {
            lazy.synced_bytes = bytes;
        }
    }

    /// The bytes of a segment that were synced.
    pub(super) fn synced_bytes_of(&self, segment: &Segment) -> u64 {
        let newest = self.segments.back().map(|last| last.head.sequence);
        match &self.lazy {
            Some(lazy) if newest == Some(segment.head.sequence) => lazy.synced_bytes,
            _ => segment.valid_bytes,
        }
    }
}
