//! The progress of a subscription to a filter: one cursor for each partition.
//!
//! Place: beside [`crate::proof`], which does the same for a plain topic. `spec/protocol.md`,
//! section 6.1, has the rules. A filter receives each partition in order, with announced gaps;
//! there is no `prev` that would prove more.

use std::collections::BTreeMap;

use wire::native::{Beginning, PartitionPosition, Position};

use crate::proof::advanced;

/// The cursors of one filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursors {
    partitions: BTreeMap<u32, Position>,
}

/// The classification of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A new message; to be delivered.
    New,
    /// A message of another epoch than the cursor's without an announced gap: the messages in
    /// between are unknown. To be delivered.
    NewEpoch {
        /// The last settled position.
        from: Position,
    },
    /// A message that was already settled; to be dropped.
    Settled,
}

impl Cursors {
    /// Begins at positions that the application stored in an earlier run.
    pub fn resume_at(positions: &[PartitionPosition]) -> Cursors {
        let position = |at: &PartitionPosition| (at.partition, at.position);
        Cursors { partitions: positions.iter().map(position).collect() }
    }

    /// The positions for a resume: the last settled position of each known partition, in order.
    pub fn positions(&self) -> Vec<PartitionPosition> {
        let position = |(partition, position): (&u32, &Position)| PartitionPosition {
            partition: *partition,
            position: *position,
        };
        self.partitions.iter().map(position).collect()
    }

    /// Whether no partition is known.
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// Removes all cursors: the filter begins anew.
    pub fn clear(&mut self) {
        self.partitions.clear();
    }

    /// Sets the server's start of the filter in a partition. A known cursor moves by an announced
    /// gap only.
    pub fn subscribed(&mut self, partition: u32, beginning: &Beginning) {
        let position = self.partitions.entry(partition).or_insert(beginning.through);
        if beginning.continued {
            position.epoch = beginning.through.epoch;
        }
    }

    /// Classifies a message and moves the cursor. With a lineage a further epoch of the same log
    /// has lost nothing.
    pub fn message(&mut self, partition: u32, at: Position, lineage: Option<u8>) -> Arrival {
        let Some(cursor) = self.partitions.get_mut(&partition) else {
            self.partitions.insert(partition, at);
            return Arrival::New;
        };
        let expected = lineage.map_or(cursor.epoch, |lineage| advanced(cursor.epoch, lineage));
        let has_lost_nothing = expected == at.epoch;
        if has_lost_nothing && at.offset <= cursor.offset {
            return Arrival::Settled;
        }
        let from = std::mem::replace(cursor, at);
        if has_lost_nothing { Arrival::New } else { Arrival::NewEpoch { from } }
    }

    /// Processes an announced gap: the cursor moves to its end, even if that is lower. Returns the
    /// last settled position.
    pub fn gap(&mut self, partition: u32, to: Position) -> Option<Position> {
        self.partitions.insert(partition, to)
    }

    /// Processes messages that the server skipped intentionally, up to `through`.
    pub fn skipped(&mut self, partition: u32, through: Position) {
        let cursor = self.partitions.entry(partition).or_default();
        if cursor.epoch != through.epoch || cursor.offset < through.offset {
            *cursor = through;
        }
    }

    /// Processes the end of a partition's replay: everything up to `through` is settled. Returns
    /// the cursor.
    pub fn caught_up(
        &mut self,
        partition: u32,
        through: u64,
        lineage: Option<u8>,
    ) -> Option<Position> {
        let cursor = self.partitions.get_mut(&partition)?;
        cursor.offset = cursor.offset.max(through);
        if let Some(lineage) = lineage {
            cursor.epoch = advanced(cursor.epoch, lineage);
        }
        Some(*cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(epoch: u64, offset: u64) -> Position {
        Position { epoch, offset }
    }

    fn beginning(through: Position, replaying: bool, continued: bool) -> Beginning {
        Beginning { through, replaying, continued }
    }

    fn known(cursors: &Cursors) -> Vec<(u32, u64, u64)> {
        let known = cursors.positions().into_iter();
        known.map(|at| (at.partition, at.position.epoch, at.position.offset)).collect()
    }

    #[test]
    fn each_partition_has_its_own_cursor() {
        let mut cursors = Cursors::default();
        cursors.subscribed(0, &beginning(at(7, 10), false, false));
        cursors.subscribed(1, &beginning(at(7, 20), false, false));
        assert_eq!(cursors.message(0, at(7, 11), None), Arrival::New);
        assert_eq!(cursors.message(0, at(7, 11), None), Arrival::Settled);
        assert_eq!(cursors.message(1, at(7, 11), None), Arrival::Settled);
        // A partition that was not listed begins with its first message.
        assert_eq!(cursors.message(2, at(7, 5), None), Arrival::New);
        assert_eq!(known(&cursors), [(0, 7, 11), (1, 7, 20), (2, 7, 5)]);
    }

    #[test]
    fn a_replay_settles_up_to_its_end() {
        let mut cursors =
            Cursors::resume_at(&[PartitionPosition { partition: 3, position: at(7, 10) }]);
        cursors.subscribed(3, &beginning(at(7, 8), true, true));
        assert_eq!(cursors.message(3, at(7, 9), None), Arrival::Settled);
        assert_eq!(cursors.message(3, at(7, 12), None), Arrival::New);
        assert_eq!(cursors.caught_up(3, 30, None), Some(at(7, 30)));
        assert_eq!(cursors.message(3, at(7, 30), None), Arrival::Settled);
        assert_eq!(cursors.message(3, at(7, 31), None), Arrival::New);
        assert_eq!(cursors.caught_up(3, 20, None), Some(at(7, 31)));
        assert_eq!(cursors.caught_up(4, 20, None), None);
    }

    #[test]
    fn epochs_and_gaps_move_cursors() {
        let mut cursors =
            Cursors::resume_at(&[PartitionPosition { partition: 0, position: at(7, 10) }]);
        // Continued under another epoch: the position stayed valid.
        cursors.subscribed(0, &beginning(at(8, 10), true, true));
        assert_eq!(cursors.message(0, at(8, 12), None), Arrival::New);
        // Not continued: the gap has the new position.
        cursors.subscribed(0, &beginning(at(9, 3), true, false));
        assert_eq!(cursors.gap(0, at(9, 3)), Some(at(8, 12)));
        assert_eq!(cursors.message(0, at(9, 4), None), Arrival::New);
        // Without the gap that was due.
        cursors.subscribed(0, &beginning(at(10, 2), false, false));
        let from = at(9, 4);
        assert_eq!(cursors.message(0, at(10, 5), None), Arrival::NewEpoch { from });
        cursors.skipped(0, at(10, 9));
        cursors.skipped(0, at(10, 8));
        assert_eq!(known(&cursors), [(0, 10, 9)]);
    }

    #[test]
    fn a_lineage_is_no_gap() {
        let mut cursors = Cursors::default();
        let of = |lineage: u64, offset| at(5 << 32 | lineage, offset);
        cursors.subscribed(0, &beginning(of(7, 10), false, false));
        assert_eq!(cursors.message(0, of(9, 10), Some(9)), Arrival::Settled);
        assert_eq!(cursors.message(0, of(9, 11), Some(9)), Arrival::New);
        assert_eq!(cursors.caught_up(0, 12, Some(2)), Some(of(0x102, 12)));
        // Another topic, and a server that does not say that nothing is lost.
        let other = at(6 << 32 | 9, 13);
        assert_eq!(cursors.message(0, other, Some(9)), Arrival::NewEpoch { from: of(0x102, 12) });
        assert_eq!(cursors.message(0, of(9, 14), None), Arrival::NewEpoch { from: other });
    }
}
