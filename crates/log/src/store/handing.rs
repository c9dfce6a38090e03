//! Handing a log to the next process: the one closes it and says what there is, the other opens it
//! and finds the same.
//!
//! What is handed over is the directory. Closed, it says everything that a start needs to know, so
//! nothing of a store's memory goes along but how its retention stands; the rest of what is said is
//! there to be compared. Both may do that while the other one is there, as long as only one of them
//! writes.
//!
//! Invariants: [`Store::take_over`] writes nothing, and neither does what it gives until
//! [`Store::begin`]. It gives a log that is, position by position, the one that was handed over, or
//! none: what a start would cut, carry or count as damage is left to a start. Who has handed a log
//! over may go on with it until the other one begins.

use super::disk::{Disk, DiskError};
use super::expire::Sweep;
use super::found::FoundLog;
use super::recover::{Purpose, check_partitions, load};
use super::{OpenError, Store, StoreError, StoreSettings};
use std::fmt;
use stdx::handing::Hand;

/// What a log is that was handed over.
#[derive(Clone, PartialEq, Eq, Debug, Hand)]
pub struct HandedLog {
    epoch: u64,
    heads: Vec<u64>,
    floors: Vec<u64>,
    sweep: Sweep,
}

/// Why a log was not taken over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TakeOverError {
    /// It cannot be opened.
    Open(OpenError),
    /// What was found is not what was handed over.
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
    /// Closes the log and says what it is. It may go on: the next batch begins a segment.
    ///
    /// # Errors
    /// As for [`Store::close`].
    pub fn hand_over(&mut self) -> Result<HandedLog, StoreError> {
        self.remove_leftovers();
        self.close()?;
        self.is_directory_dirty = false;
        Ok(self.handed())
    }

    /// Opens a log that was handed over, as it lies on the disk. It can be read; [`Store::begin`]
    /// makes it whole.
    ///
    /// # Errors
    /// It is another one, or a start would have to change it.
    pub fn take_over(
        disk: D,
        settings: StoreSettings,
        handed: &HandedLog,
    ) -> Result<Store<D>, TakeOverError> {
        let settings = settings.bounded()?;
        let mut files = super::Files::new(disk);
        let found = FoundLog::find(&mut files, Purpose::Look)?;
        check_partitions(&found.segments, settings.partitions_count)?;
        let (mut store, mut findings) = load(files, settings, &found, Purpose::Look)?;
        store.settle(&mut findings, 0, Purpose::Look)?;
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

    /// From now on this is the store that writes. What does not belong to the log goes.
    ///
    /// # Errors
    /// The directory cannot be read. The log goes on; what does not belong to it is left to the
    /// next start.
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
