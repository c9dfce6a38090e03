//! Hand-over of a log to the next process: one process closes and describes it, the other opens it
//! and compares.
//!
//! The directory is handed over. A closed log contains all that a start needs, so the only state
//! from memory is that of its retention; the rest of the description is for comparison. Both
//! processes may have the log open, as long as only one of them writes.
//!
//! Invariants: [`Store::take_over`] writes nothing, and neither does the result until
//! [`Store::begin`]. The result equals the log that was handed over, position by position, or there
//! is none: a log whose start would cut, carry or report damage is left to a normal start. After a
//! hand-over, the old process may continue with the log until the other one begins.

use super::disk::{Disk, DiskError};
use super::expire::Sweep;
use super::found::FoundLog;
use super::recover::{Purpose, check_partitions, load};
use super::{OpenError, Store, StoreError, StoreSettings};
use std::fmt;
use stdx::handing::Hand;

/// The description of a log that was handed over.
#[derive(Clone, PartialEq, Eq, Debug, Hand)]
pub struct HandedLog {
    epoch: u64,
    heads: Vec<u64>,
    floors: Vec<u64>,
    sweep: Sweep,
}

/// The reason why a log was not taken over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TakeOverError {
    /// The log cannot be opened.
    Open(OpenError),
    /// The log on disk differs from the description.
    Differs,
}

impl fmt::Display for TakeOverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TakeOverError::Open(error) => error.fmt(f),
            TakeOverError::Differs => {
                write!(f, "the files on disk differ from the state handed over")
            }
        }
    }
}

impl std::error::Error for TakeOverError {}

impl From<OpenError> for TakeOverError {
    fn from(error: OpenError) -> TakeOverError {
        TakeOverError::Open(error)
    }
}

impl<D: Disk> Store<D> {
    /// Closes the log and describes it. The store remains usable: the next batch begins a segment.
    ///
    /// # Errors
    /// See [`Store::close`].
    pub fn hand_over(&mut self) -> Result<HandedLog, StoreError> {
        self.remove_leftovers();
        self.close()?;
        self.is_directory_dirty = false;
        Ok(self.handed())
    }

    /// Opens a log that was handed over, unchanged. It can be read; [`Store::begin`] makes it
    /// writable.
    ///
    /// # Errors
    /// The log differs, or a normal start would have to change it.
    pub fn take_over(
        disk: D,
        settings: StoreSettings,
        handed: &HandedLog,
    ) -> Result<Store<D>, TakeOverError> {
        let settings = settings.bounded()?;
        let mut files = super::Files::new(disk);
        let found = FoundLog::find(&mut files, Purpose::Inspect)?;
        check_partitions(&found.segments, settings.partitions_count)?;
        let (mut store, mut findings) = load(files, settings, &found, Purpose::Inspect)?;
        store.settle(&mut findings, 0, Purpose::Inspect)?;
        let newest = store.segments.back().map(|last| last.head.epoch);
        let is_whole = store.carry.is_none()
            && findings.torn_bytes == 0
            && findings.damages.is_empty()
            && newest == Some(handed.epoch);
        store.sweep = handed.sweep;
        if !is_whole || store.handed() != *handed {
            return Err(TakeOverError::Differs);
        }
        Ok(store)
    }

    /// Makes this store the one that writes, and removes files that do not belong to the log.
    ///
    /// # Errors
    /// The directory cannot be read. The log remains usable; the next start removes the remaining
    /// files.
    pub fn begin(&mut self) -> Result<(), DiskError> {
        self.is_read_only = false;
        self.tidy()
    }

    fn handed(&self) -> HandedLog {
        HandedLog {
            epoch: self.epoch(),
            heads: self.heads.clone(),
            floors: self.floors(),
            sweep: self.sweep,
        }
    }
}
