//! Positions: the only place that compares them.
//!
//! A log on disk that may have lost acknowledged records begins a new epoch; a position of an older
//! one still says the same as long as it lies below everything that may differ since.

use crate::ids::PartitionId;
use crate::settings::LogSettings;
use std::fmt;
use std::str::FromStr;
use stdx::handing::Hand;

/// A place in a log: which life of the log, and the partition's counter in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Hand)]
pub struct Position {
    /// The life of the log.
    pub epoch: u64,
    /// The partition's counter; 0 is before the first record.
    pub offset: u64,
}

/// The relation of a position to a log of some epoch and head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The records after this offset are missing.
    After(u64),
    /// The position belongs to another life of the log: everything is a gap.
    UnknownEpoch,
    /// The position is beyond the log's head: everything is a gap.
    BeyondHead,
}

impl Position {
    /// Compares with the present state of the log, of which `partition` is a number over all logs
    /// and `head` that one's head.
    pub fn standing(self, log: &LogSettings, partition: PartitionId, head: u64) -> Standing {
        if !self.is_known(log, partition) {
            Standing::UnknownEpoch
        } else if self.offset > head {
            Standing::BeyondHead
        } else {
            Standing::After(self.offset)
        }
    }

    /// Whether it is of the present life of the log, or every life since has had the same records
    /// up to it.
    pub fn is_known(self, log: &LogSettings, partition: PartitionId) -> bool {
        self.epoch == log.epoch || self.outlived(log, partition)
    }

    /// Whether it is of an older epoch, and every life since has had the same records up to it.
    fn outlived(self, log: &LogSettings, partition: PartitionId) -> bool {
        let Some(place) = partition.place_after(log.first_partition) else {
            return false;
        };
        let since = log.older_epochs.iter().position(|older| older.epoch == self.epoch);
        since.is_some_and(|since| {
            log.older_epochs[since..].iter().all(|older| {
                let valid_below = older.valid_below.get(place as usize);
                valid_below.is_some_and(|valid_below| self.offset < *valid_below)
            })
        })
    }
}

/// A position as text: `<epoch>:<offset>`, both decimal.
impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.epoch, self.offset)
    }
}

/// The text is not `<epoch>:<offset>`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MalformedPosition;

impl FromStr for Position {
    type Err = MalformedPosition;

    fn from_str(text: &str) -> Result<Self, MalformedPosition> {
        let (epoch, offset) = text.split_once(':').ok_or(MalformedPosition)?;
        Ok(Position { epoch: number(epoch)?, offset: number(offset)? })
    }
}

/// Digits only: `u64::from_str` would also take a sign.
fn number(text: &str) -> Result<u64, MalformedPosition> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(MalformedPosition);
    }
    text.parse().map_err(|_| MalformedPosition)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Durability, OlderEpoch};

    #[test]
    fn text_round_trip_and_refusals() {
        let position = Position { epoch: u64::MAX, offset: 7 };
        assert_eq!(position.to_string().parse(), Ok(position));
        for bad in ["", ":", "1:", ":1", "1:2:3", "+1:2", "1:-2", " 1:2", "1:99999999999999999999"]
        {
            assert_eq!(bad.parse::<Position>(), Err(MalformedPosition), "{bad}");
        }
    }

    #[test]
    fn standing() {
        let older =
            |epoch, valid_below: &[u64]| OlderEpoch { epoch, valid_below: valid_below.to_vec() };
        let log = LogSettings {
            name: "disk".into(),
            partitions_count: 2,
            first_partition: PartitionId(10),
            durability: Durability::Disk,
            epoch: 30,
            older_epochs: vec![older(10, &[8, 1]), older(20, &[6, 9])],
            ..LogSettings::default()
        };
        use Standing::*;
        let cases = [
            // The present epoch.
            (30, 5, 10, 5, After(5)),
            (30, 5, 10, 4, BeyondHead),
            // The one before: below the start of the present one, and of that partition.
            (20, 5, 10, 9, After(5)),
            (20, 6, 10, 9, UnknownEpoch),
            (20, 8, 11, 9, After(8)),
            (20, 0, 11, 9, After(0)),
            // Two before: below the starts of both that followed.
            (10, 5, 10, 9, After(5)),
            (10, 7, 10, 9, UnknownEpoch),
            (10, 0, 11, 9, After(0)),
            (10, 1, 11, 9, UnknownEpoch),
            // Never heard of, and partitions that are not of this log.
            (40, 0, 10, 9, UnknownEpoch),
            (20, 0, 12, 9, UnknownEpoch),
            (20, 0, 9, 9, UnknownEpoch),
        ];
        for (epoch, offset, partition, head, expected) in cases {
            let standing = Position { epoch, offset }.standing(&log, PartitionId(partition), head);
            assert_eq!(standing, expected, "{epoch}:{offset} of {partition}");
        }
    }
}
