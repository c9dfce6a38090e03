//! Positions: the only place that compares them.

use std::fmt;
use std::str::FromStr;

/// A place in a log: which life of the log, and the partition's counter in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Position {
    /// The life of the log.
    pub epoch: u64,
    /// The partition's counter; 0 is before the first record.
    pub offset: u64,
}

/// How a position stands to a log of some epoch and head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Records after this offset are what is missing.
    After(u64),
    /// It belongs to another life of the log: nothing can be said, all is a gap.
    UnknownEpoch,
    /// It is beyond what the log has ever held: all is a gap.
    BeyondHead,
}

impl Position {
    /// Compares with the log's present epoch and head.
    pub fn standing(self, epoch: u64, head: u64) -> Standing {
        if self.epoch != epoch {
            Standing::UnknownEpoch
        } else if self.offset > head {
            Standing::BeyondHead
        } else {
            Standing::After(self.offset)
        }
    }
}

/// As text: `<epoch>:<offset>`, both decimal.
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
        Ok(Position {
            epoch: number(epoch)?,
            offset: number(offset)?,
        })
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

    #[test]
    fn text_round_trip_and_refusals() {
        let position = Position {
            epoch: u64::MAX,
            offset: 7,
        };
        assert_eq!(position.to_string().parse(), Ok(position));
        for bad in [
            "",
            ":",
            "1:",
            ":1",
            "1:2:3",
            "+1:2",
            "1:-2",
            " 1:2",
            "1:99999999999999999999",
        ] {
            assert_eq!(bad.parse::<Position>(), Err(MalformedPosition), "{bad}");
        }
    }

    #[test]
    fn standing() {
        let position = Position {
            epoch: 1,
            offset: 5,
        };
        assert_eq!(position.standing(1, 5), Standing::After(5));
        assert_eq!(position.standing(1, 4), Standing::BeyondHead);
        assert_eq!(position.standing(2, 9), Standing::UnknownEpoch);
    }
}
