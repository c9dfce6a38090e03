//! Records that the disk does not give: how often each was tried, and when it counts as damaged.
//!
//! A read that fails once may succeed a moment later: a cable, a controller, a path to a network
//! disk. So the reader is refused at first, for the moment. A record that was tried at
//! [`TRIES_MAX`] looks of retention (one a second), [`LOOKS_MAX`] from the first to the last,
//! counts as damaged: its readers are told of a gap, and go on behind it.

use super::Store;
use super::disk::{Disk, DiskError};
use std::collections::BTreeMap;

/// Tries without a success in between. However many readers try between two looks, that is one.
const TRIES_MAX: u32 = 4;
/// Looks of retention between the first try and the last.
const LOOKS_MAX: u64 = 5;
/// Records that are remembered. Of more the first are forgotten, and tried anew.
const RECORDS_MAX: usize = 4096;

/// Segment, position and length of what was to be read.
type Place = (u64, u32, u32);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Unreadable {
    /// Looks of retention so far.
    pub looks: u64,
    /// Tries, and the looks before the first and the last one.
    records: BTreeMap<Place, (u32, u64, u64)>,
}

impl Unreadable {
    /// Counts a try that failed. Whether the record counts as damaged.
    fn count(&mut self, place: Place) -> bool {
        let looks = self.looks;
        let (tries, first, last) = self.records.entry(place).or_insert((1, looks, looks));
        *tries = tries.saturating_add(u32::from(*last < looks));
        *last = looks;
        let is_lost = *tries >= TRIES_MAX && looks - *first >= LOOKS_MAX;
        if self.records.len() > RECORDS_MAX {
            self.records.pop_first();
        }
        is_lost
    }

    /// The record can be read.
    pub fn forget(&mut self, place: Place) {
        self.records.remove(&place);
    }
}

impl<D: Disk> Store<D> {
    /// Bytes of a segment, fewer where its file ends; none where the disk has not given them for a
    /// while.
    ///
    /// # Errors
    /// The disk does not give them now.
    pub(super) fn read_or_give_up(
        &mut self,
        sequence: u64,
        position: u32,
        length: u32,
    ) -> Result<Option<Vec<u8>>, DiskError> {
        let place = (sequence, position, length);
        match self.read_bytes(sequence, position, length) {
            Ok(bytes) => {
                self.unreadable.forget(place);
                Ok(Some(bytes))
            }
            Err(DiskError::Io(_) | DiskError::NotFound) if self.unreadable.count(place) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
