//! Reads of cursors of subscriptions to filters (`catch_up`): those that wait for a page, and the
//! number of pages under way.
//!
//! A session may have many filters, each with a cursor in each partition, and the next page is
//! asked for whenever the socket has drained. Waiting cursors are stored apart, so that a turn
//! visits the next of them, not all cursors.
//!
//! Invariants: `waiting` holds exactly the cursors that are not being read; `under_way` counts the
//! others.

use super::cursor::{Cursor, Member};
use super::lagging::READS_MAX;
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::PartitionId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// The place of a waiting cursor among those of its connection and log: the member, whether the
/// cursor is paid, the partition. Paid ones of a member come last, so that all of them can be
/// passed over when there is no credit.
pub(crate) type Turn = (SubIndex, bool, PartitionId);

/// See the module.
#[derive(Default, Hand)]
pub(super) struct Reads {
    /// The number of pages under way, by connection and log.
    under_way: BTreeMap<(ConnIndex, u16), usize>,
    waiting: BTreeSet<(ConnIndex, u16, Turn)>,
}

impl Reads {
    /// A cursor in a partition of a log has changed.
    pub fn change(
        &mut self,
        (index, member, partition): Member,
        log: u16,
        before: Option<Cursor>,
        now: Option<Cursor>,
    ) {
        if let Some(before) = before {
            if before.is_reading {
                self.leave(index, log);
            } else {
                let turn = (member, before.is_paid, partition);
                self.waiting.remove(&(index, log, turn));
            }
        }
        if let Some(now) = now {
            if now.is_reading {
                *self.under_way.entry((index, log)).or_default() += 1;
            } else {
                let turn = (member, now.is_paid, partition);
                self.waiting.insert((index, log, turn));
            }
        }
    }

    fn leave(&mut self, index: ConnIndex, log: u16) {
        let Some(count) = self.under_way.get_mut(&(index, log)) else {
            debug_assert!(false, "only what is on its way comes");
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.under_way.remove(&(index, log));
        }
    }

    /// Whether a connection may ask for no more pages of a log for now.
    pub fn is_full(&self, index: ConnIndex, log: u16) -> bool {
        let count = self.under_way.get(&(index, log));
        count.is_some_and(|count| *count >= READS_MAX)
    }

    /// The next waiting cursor of a connection in a log.
    pub fn next(&self, index: ConnIndex, log: u16, from: Bound<Turn>) -> Option<Turn> {
        const LAST: Turn = (SubIndex::MAX, true, PartitionId::MAX);
        let from = match from {
            Bound::Unbounded => {
                Bound::Included((index, log, (SubIndex::MIN, false, PartitionId::MIN)))
            }
            Bound::Included(turn) => Bound::Included((index, log, turn)),
            Bound::Excluded(LAST) => return None,
            Bound::Excluded(turn) => Bound::Excluded((index, log, turn)),
        };
        let to = Bound::Included((index, log, LAST));
        self.waiting.range((from, to)).next().map(|at| at.2)
    }

    /// About how many bytes both take.
    pub fn memory_bytes(&self) -> usize {
        tree_bytes(self.under_way.len(), size_of::<((ConnIndex, u16), usize)>())
            + tree_bytes(self.waiting.len(), size_of::<(ConnIndex, u16, Turn)>())
    }
}
