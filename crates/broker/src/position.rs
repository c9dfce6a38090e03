//! Positions: the only place that compares them.
//!
//! A home keeps the [`Lineages`] of each partition: its present epoch, and a chain that judges
//! positions of older ones.
//!
//! A log on disk that may have lost acknowledged records begins a new epoch; a position of an older
//! one still says the same as long as it lies below everything that may differ since.
//!
//! The epoch of an engine's partition is the topic's identity (31 bits) above a *lineage* (32
//! bits), the engine's leader epoch. Lineages rise. A new one replaces all records from its first
//! offset on, and mostly there are none. So a position stays valid while it lies before the start
//! of the next lineage.
//!
//! That holds only for a lineage of which the log has a record. The records of any other are lost,
//! all of them, and nothing tells what its leader had before them: it may have been a replica far
//! behind, and the next leader one that never followed it. So a position of a lineage that is not
//! in the chain is not valid. Positions get only lineages of records, so a change of leaders that
//! loses nothing invalidates none.

use crate::engine::{LineageStart, Restart};
use crate::ids::PartitionId;
use crate::settings::{LogSettings, OlderEpoch};
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

/// The relation of a position to a partition of some epoch and head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The records after this offset are missing.
    After(u64),
    /// The log has lost the record at the position, or the position belongs to another log.
    UnknownEpoch,
    /// The position is beyond the log's head.
    BeyondHead,
}

/// The better one of two positions of a client ([`Lineages::better_of`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Better {
    /// The position.
    pub position: Position,
    /// The client had come further, and the log has lost records that it had: those behind this
    /// position may have other numbers than it knows. It must get a gap.
    pub is_rewound: bool,
}

/// The lives of a partition.
#[derive(Clone, PartialEq, Eq, Debug, Hand)]
pub struct Lineages {
    present: u64,
    past: Past,
}

/// The lives before the present one.
#[derive(Clone, PartialEq, Eq, Debug, Hand)]
enum Past {
    /// Those of an embedded log, oldest first.
    Lives(Vec<Life>),
    /// Those of an engine's partition, oldest first, with the present one. Starts rise, too.
    Lineages(Vec<LineageStart>),
}

/// A life that has ended, of a partition of an embedded log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
struct Life {
    epoch: u64,
    /// The next life has the same records below this offset, and perhaps others from it on.
    valid_below: u64,
}

/// The maximum number of lineages that a partition keeps. Positions of older ones are not valid.
const LINEAGES_MAX: usize = 128;

impl Lineages {
    /// The lives of a partition of an embedded log.
    pub fn of_log(log: &LogSettings, partition: PartitionId) -> Lineages {
        let place = partition.place_after(log.first_partition);
        let life = |older: &OlderEpoch| {
            let valid_below = place.and_then(|place| older.valid_below.get(place as usize));
            Life { epoch: older.epoch, valid_below: valid_below.copied().unwrap_or(0) }
        };
        let past = Past::Lives(log.older_epochs.iter().map(life).collect());
        Lineages { present: log.epoch, past }
    }

    /// The lives of an engine's partition that begins at this node.
    pub fn of_engine(restart: &Restart) -> Lineages {
        let mut known = Lineages {
            present: u64::from(restart.topic_id) << LINEAGE_BITS,
            past: Past::Lineages(Vec::new()),
        };
        for &LineageStart { lineage, start } in &restart.lineages {
            known.advance(lineage, start);
        }
        known
    }

    /// The epoch of all that is written now.
    pub fn present_epoch(&self) -> u64 {
        self.present
    }

    /// Begins a lineage of an engine's partition: its first offset is `start`. False if the
    /// partition has this lineage already, or a later one, or is not an engine's.
    pub fn advance(&mut self, lineage: u32, start: u64) -> bool {
        let Past::Lineages(known) = &mut self.past else {
            return false;
        };
        if known.last().is_some_and(|last| last.lineage >= lineage) {
            return false;
        }
        // A lineage that lost the records of some before it ends all of them where it begins.
        while known.last().is_some_and(|last| last.start >= start) && known.len() > 1 {
            known.pop();
        }
        if known.len() == LINEAGES_MAX {
            known.remove(0);
        }
        known.push(LineageStart { lineage, start });
        self.present = with_lineage(self.present, lineage);
        true
    }

    /// The lineages of an engine's partition with their first offsets, oldest first.
    pub fn starts(&self) -> Vec<(u32, u64)> {
        match &self.past {
            Past::Lives(_) => Vec::new(),
            Past::Lineages(known) => known.iter().map(|one| (one.lineage, one.start)).collect(),
        }
    }

    /// Adds earlier lineages to those of an engine's partition, oldest first. What they say of the
    /// same lineages is more exact.
    pub fn precede(&mut self, earlier: impl Iterator<Item = (u32, u64)>) {
        let Past::Lineages(known) = &mut self.past else {
            return;
        };
        let mut all: Vec<LineageStart> =
            earlier.map(|(lineage, start)| LineageStart { lineage, start }).collect();
        let last = all.last().map(|last| last.lineage);
        all.extend(known.iter().filter(|one| last.is_none_or(|last| one.lineage > last)));
        all.drain(..all.len().saturating_sub(LINEAGES_MAX));
        *known = all;
    }

    /// Compares a position with the present state of the partition, whose newest offset is `head`.
    pub fn standing(&self, position: Position, head: u64) -> Standing {
        if !self.is_known(position) {
            Standing::UnknownEpoch
        } else if position.offset > head {
            Standing::BeyondHead
        } else {
            Standing::After(position.offset)
        }
    }

    /// The one of two positions of a client that serves it best: the further one of those that are
    /// valid, else the last one that is valid in a lineage of theirs, else `first`. A client
    /// whose `first` is lost, and later than `other`, has had records that are not in the log any
    /// more. One whose `first` is later and less far got a gap that led it back: it wants what
    /// follows again.
    pub fn better_of(&self, first: Position, other: Position, head: u64) -> Better {
        let valid = |position| Better { position, is_rewound: false };
        let rewound = |position| Better { position, is_rewound: true };
        match (self.standing(first, head), self.standing(other, head)) {
            (Standing::After(of_first), Standing::After(of_other))
                if of_first >= of_other || is_later(first, other) =>
            {
                valid(first)
            }
            (Standing::UnknownEpoch, Standing::After(of_other)) => {
                match self.common_with(first, head) {
                    Some(common) if common.offset > of_other => rewound(common),
                    _ => Better { position: other, is_rewound: is_later(first, other) },
                }
            }
            (Standing::After(_) | Standing::BeyondHead, Standing::After(_)) => valid(other),
            (Standing::After(_), Standing::UnknownEpoch | Standing::BeyondHead) => valid(first),
            (
                Standing::UnknownEpoch | Standing::BeyondHead,
                Standing::UnknownEpoch | Standing::BeyondHead,
            ) => {
                let commons = [first, other].map(|position| self.common_with(position, head));
                let furthest = commons.into_iter().flatten().max_by_key(|common| common.offset);
                furthest.map_or(valid(first), rewound)
            }
        }
    }

    /// The offset that the head must have reached, so that a position can be judged and served.
    pub fn needed_for(&self, position: Position) -> u64 {
        if self.is_known(position) {
            return position.offset;
        }
        self.common_with(position, u64::MAX).map_or(0, |common| common.offset)
    }

    /// The last valid position of a lost one's lineage: the log has all of its records up to there,
    /// and the next ones are lost, or not there yet. None if nothing tells, as in an embedded log.
    fn common_with(&self, Position { epoch, offset }: Position, head: u64) -> Option<Position> {
        let Past::Lineages(known) = &self.past else {
            return None;
        };
        let lineage = epoch as u32;
        if with_lineage(self.present, lineage) != epoch {
            return None;
        }
        let place = known.binary_search_by_key(&lineage, |one| one.lineage).ok()?;
        let common = known.get(place + 1).map_or(offset, |next| next.start.saturating_sub(1));
        Some(Position { epoch, offset: common.min(head) })
    }

    /// Whether the position is of the present life, or every life since has had the same records up
    /// to it.
    pub fn is_known(&self, Position { epoch, offset }: Position) -> bool {
        match &self.past {
            _ if epoch == self.present => true,
            Past::Lives(lives) => {
                let since = lives.iter().position(|life| life.epoch == epoch);
                let outlives = |life: &Life| offset < life.valid_below;
                since.is_some_and(|since| lives[since..].iter().all(outlives))
            }
            Past::Lineages(known) => {
                let lineage = epoch as u32;
                let place = known.binary_search_by_key(&lineage, |one| one.lineage);
                let next = place.map(|place| known.get(place + 1));
                let is_of_chain =
                    next.is_ok_and(|next| next.is_none_or(|next| offset < next.start));
                // Before the first record there is nothing that a lineage could have lost.
                let is_beginning = offset == 0 && !known.is_empty();
                with_lineage(self.present, lineage) == epoch && (is_beginning || is_of_chain)
            }
        }
    }
}

/// Bits of the lineage, the lower part of an engine's epoch.
const LINEAGE_BITS: u32 = 32;

/// The epoch of the same topic with another lineage.
fn with_lineage(epoch: u64, lineage: u32) -> u64 {
    epoch >> LINEAGE_BITS << LINEAGE_BITS | u64::from(lineage)
}

/// Whether a client of an engine's partition got to `one` after `other`, or may have. Lineages
/// rise, identities of topics do not.
fn is_later(one: Position, other: Position) -> bool {
    with_lineage(one.epoch, 0) != with_lineage(other.epoch, 0)
        || (one.epoch, one.offset) > (other.epoch, other.offset)
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
    use crate::settings::Durability;

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
    fn standing_of_a_position_in_a_log_on_disk() {
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
            let lineages = Lineages::of_log(&log, PartitionId(partition));
            let standing = lineages.standing(Position { epoch, offset }, head);
            assert_eq!(standing, expected, "{epoch}:{offset} of {partition}");
        }
    }

    fn engine(topic_id: u32, lineages: &[(u32, u64)]) -> Lineages {
        let start = |&(lineage, start)| LineageStart { lineage, start };
        Lineages::of_engine(&Restart {
            partition: PartitionId(0),
            topic_id,
            lineages: lineages.iter().map(start).collect(),
            after: 0,
            complete_from_ms: 0,
            primed_through: 0,
            follows_mirror: false,
            head: 0,
        })
    }

    #[test]
    fn standing_of_a_position_in_an_engine() {
        use Standing::*;
        let topic = 0x7fff_fffe;
        let lineages = engine(topic, &[(3, 1), (5, 40), (9, 60)]);
        let epoch = |lineage: u32| u64::from(topic) << 32 | u64::from(lineage);
        assert_eq!(lineages.present_epoch(), epoch(9));
        let cases = [
            // The present lineage.
            (epoch(9), 70, After(70)),
            (epoch(9), 71, BeyondHead),
            // Older ones: before the start of the next.
            (epoch(5), 59, After(59)),
            (epoch(5), 60, UnknownEpoch),
            (epoch(3), 39, After(39)),
            (epoch(3), 40, UnknownEpoch),
            // One that left no record, and one that this node does not know.
            (epoch(7), 30, UnknownEpoch),
            (epoch(12), 70, UnknownEpoch),
            (epoch(12), 0, After(0)),
            (epoch(3), 0, After(0)),
            // Before the first that is known, but for the beginning; and other topics.
            (epoch(2), 0, After(0)),
            (epoch(2), 1, UnknownEpoch),
            (9, 0, UnknownEpoch),
            ((u64::from(topic) + 1) << 32 | 9, 0, UnknownEpoch),
        ];
        for (epoch, offset, expected) in cases {
            let standing = lineages.standing(Position { epoch, offset }, 70);
            assert_eq!(standing, expected, "{epoch:x}:{offset}");
        }
        let of = |lineage, offset| Position { epoch: epoch(lineage), offset };
        for (first, other, position, is_rewound) in [
            (of(9, 65), of(9, 64), of(9, 65), false),
            (of(9, 64), of(9, 65), of(9, 65), false),
            (of(5, 50), of(5, 65), of(5, 50), false),
            // Led back by a gap.
            (of(9, 30), of(5, 50), of(9, 30), false),
            // Lost, and the log has the lineage's records up to 59.
            (of(5, 65), of(5, 65), of(5, 59), true),
            (of(5, 65), of(3, 65), of(5, 59), true),
            (of(3, 65), of(5, 65), of(5, 59), true),
            (of(5, 65), of(5, 50), of(5, 59), true),
            (of(7, 30), of(5, 60), of(5, 59), true),
            // Lost with all of its lineage.
            (of(7, 30), of(5, 50), of(5, 50), true),
            (of(7, 30), of(7, 30), of(7, 30), false),
            // Lost, and not as far as the other one.
            (of(7, 30), of(9, 61), of(9, 61), false),
            (of(3, 50), of(5, 50), of(5, 50), false),
            // This node is behind.
            (of(9, 71), of(9, 64), of(9, 64), false),
            (of(9, 71), of(9, 71), of(9, 70), true),
            (of(9, 71), of(5, 65), of(9, 70), true),
        ] {
            let better = Better { position, is_rewound };
            assert_eq!(lineages.better_of(first, other, 70), better, "{first} {other}");
        }
        let replaced = Position { epoch: (u64::from(topic) + 1) << 32 | 5, offset: 65 };
        let better = Better { position: replaced, is_rewound: false };
        assert_eq!(lineages.better_of(replaced, replaced, 70), better);
        let none = engine(topic, &[]);
        assert_eq!(none.standing(Position { epoch: epoch(1), offset: 0 }, 0), UnknownEpoch);
    }

    #[test]
    fn a_lineage_advances_and_an_earlier_one_does_not_return() {
        let mut lineages = engine(1, &[(3, 1)]);
        let at = |lineage: u64, offset| Position { epoch: 1 << 32 | lineage, offset };
        assert!(lineages.advance(4, 11));
        assert!(!lineages.advance(4, 12) && !lineages.advance(3, 12));
        assert_eq!(lineages.present_epoch(), 1 << 32 | 4);
        assert!(lineages.is_known(at(3, 10)) && !lineages.is_known(at(3, 11)));
        // It lost the records of the one before.
        assert!(lineages.advance(6, 9));
        assert!(lineages.is_known(at(3, 8)) && !lineages.is_known(at(3, 9)));
        assert!(!lineages.is_known(at(4, 8)) && !lineages.is_known(at(4, 10)));
        let mut embedded = Lineages::of_log(&LogSettings::default(), PartitionId(0));
        assert!(!embedded.advance(1, 1));
    }

    /// A replica without the newest records leads and takes others (lineage 6 from 5 on); then a
    /// replica with the old ones leads (lineage 7). The log has nothing of lineage 6.
    #[test]
    fn positions_between_two_unclean_elections_are_not_valid() {
        let lineages = engine(1, &[(3, 1), (4, 11), (7, 21)]);
        let at = |lineage: u64, offset| Position { epoch: 1 << 32 | lineage, offset };
        for offset in [4, 5, 12, 20] {
            assert!(!lineages.is_known(at(6, offset)), "{offset}");
        }
        assert!(lineages.is_known(at(4, 20)) && lineages.is_known(at(7, 21)));
    }

    #[test]
    fn the_beginning_of_a_topic_is_known_in_every_lineage() {
        let lineages = engine(7, &[(3, 1)]);
        let at = |lineage: u64, offset| Position { epoch: 7 << 32 | lineage, offset };
        assert!(lineages.is_known(at(1, 0)) && lineages.is_known(at(9, 0)));
        assert!(!lineages.is_known(at(1, 1)));
        assert!(!lineages.is_known(Position { epoch: 8 << 32 | 3, offset: 0 }));
    }

    #[test]
    fn the_oldest_lineages_are_forgotten() {
        let mut lineages = engine(0, &[]);
        for lineage in 1..=LINEAGES_MAX as u32 + 2 {
            assert!(lineages.advance(lineage, u64::from(lineage)));
        }
        assert!(!lineages.is_known(Position { epoch: 2, offset: 2 }));
        assert!(lineages.is_known(Position { epoch: 3, offset: 3 }));
    }
}
