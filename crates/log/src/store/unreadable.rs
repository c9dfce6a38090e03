//! Unreadable records: the number of attempts, and when a record counts as damaged.
//!
//! A failed read may succeed a moment later: a cable, a controller, a path to a network disk. So
//! the reader is refused at first, temporarily. A record that was tried at [`TRIES_MAX`] checks of
//! retention (one a second), [`CHECKS_MAX`] from the first to the last, counts as damaged: its
//! readers receive a gap, and continue behind it.

use super::Store;
use super::disk::{Disk, DiskError};
use std::collections::BTreeMap;

/// The number of attempts without a success in between. All attempts between two checks count as
/// one.
const TRIES_MAX: u32 = 4;
/// The number of retention checks between the first attempt and the last.
const CHECKS_MAX: u64 = 5;
/// The maximum number of stored records. Beyond it the first ones are removed, and tried again.
const RECORDS_MAX: usize = 4096;

/// Segment, position and length of a read.
type Place = (u64, u32, u32);

/// The attempts by record; see the module.
#[derive(Debug, Default)]
pub(super) struct Unreadable {
    /// The number of retention checks so far.
    pub checks: u64,
    /// The attempts, and the checks before the first and the last one.
    records: BTreeMap<Place, (u32, u64, u64)>,
}

impl Unreadable {
    /// Counts a failed attempt. Returns whether the record counts as damaged.
    fn count(&mut self, place: Place) -> bool {
        let checks = self.checks;
        let (tries, first, last) = self.records.entry(place).or_insert((1, checks, checks));
        *tries = tries.saturating_add(u32::from(*last < checks));
        *last = checks;
        let is_lost = *tries >= TRIES_MAX && checks - *first >= CHECKS_MAX;
        if self.records.len() > RECORDS_MAX {
            self.records.pop_first();
        }
        is_lost
    }

    /// Reports that the record can be read.
    pub fn forget(&mut self, place: Place) {
        self.records.remove(&place);
    }
}

impl<D: Disk> Store<D> {
    /// Reads bytes of a segment, fewer at the end of its file; None if the disk has not returned
    /// them for some time.
    ///
    /// # Errors
    /// The disk does not return them now.
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
