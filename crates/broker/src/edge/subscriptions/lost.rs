//! Streams that have lost records: all that was live there goes on by pages, which know each gap.
//!
//! Beside the path. An edge does not keep which of its topics lie in a partition, so it looks at
//! all that it has of a home. A home tells of all its streams that have lost something in a row
//! ([`crate::home`]), and the edge looks once for all of them: before the next letter of another
//! kind, or with the flush.

use crate::mail::{HomeId, PartitionId};
use std::collections::BTreeMap;

/// Streams that have lost something, and the last offset that they have brought.
pub(crate) type Lost = BTreeMap<(HomeId, PartitionId), u64>;

/// Takes in a loss. Of two in a row the first counts: behind it the stream has gone on, and has
/// brought nothing before it lost again.
pub(crate) fn note_loss(lost: &mut Lost, stream: (HomeId, PartitionId), from: u64) {
    let first = lost.entry(stream).or_insert(from);
    *first = from.min(*first);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_losses_in_a_row_the_first_counts() {
        let mut lost = Lost::new();
        for (stream, from) in [((0, 1), 38), ((0, 2), 7), ((0, 1), 40)] {
            note_loss(&mut lost, stream, from);
        }
        assert_eq!(lost, Lost::from([((0, 1), 38), ((0, 2), 7)]));
    }
}
