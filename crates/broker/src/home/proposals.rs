//! The seam between a home and the sequencer of a partition, which numbers its records.
//!
//! A home *proposes* every publication that has passed its checks, and learns from the answer at
//! which offset the record lies.
//!
//! - A log in memory is its own sequencer, and answers at once ([`Proposed::Placed`]).
//! - A log on disk keeps the number of the proposal. Its log thread answers later, in the order of
//!   the proposals ([`DiskLetter::Committed`](crate::disk::DiskLetter::Committed)).
//! - Any other sequencer answers by [`Home::settle`], in an order of its own and at any offsets
//!   above the partition's head; other records, or none, may lie between.
//!
//! Until it is placed, a publication is known by its partition and the number of its proposal, to
//! the sequencer as to the window of publications (`dedup`); `staging` holds it. Its record gets
//! its offset and its `prev` when it is placed, so that `prev` always names the record before it.
//! An outcome that a sequencer does not know is refused with a code of its own.

use super::Home;
use super::publication::{Checked, Placed, Publisher};
use super::turn::Turn;
use crate::mail::{Code, PartitionId, Publication};

/// The immediate result of a proposal.
pub(super) enum Proposed {
    /// The record lies in the log.
    Placed(Placed),
    /// The answer comes later, under this number.
    Waits(u64),
}

/// The answer to proposals that wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    /// The record of one proposal lies in the log.
    Placed {
        /// Numbered over all logs.
        partition: PartitionId,
        /// The number of the proposal: the offset in the record that was proposed.
        proposal: u64,
        /// The offset; above every record of the partition before it.
        offset: u64,
    },
    /// The refusal of all waiting proposals of the log: none lies in it, nor ever will.
    Refused(Code),
}

impl Home {
    /// Proposes a publication to the sequencer of its partition.
    pub(super) fn propose(
        &mut self,
        publisher: Publisher,
        publication: &Publication,
        checked: &Checked<'_>,
        turn: &mut Turn<'_>,
    ) -> Result<Proposed, Code> {
        if self.waits_for_disk(checked.local) {
            self.stage(publisher, publication, checked, turn).map(Proposed::Waits)
        } else {
            self.append(publication, checked, turn).map(Proposed::Placed)
        }
    }

    /// Takes the answer of a log's sequencer.
    pub(super) fn settle_proposals(&mut self, share: usize, settled: Settled, turn: &mut Turn<'_>) {
        match settled {
            Settled::Refused(code) => self.refuse_staged(share, code, turn),
            Settled::Placed { partition, proposal, offset } => {
                if let Some(local) = self.local(partition) {
                    self.place_staged(share, (local, proposal), offset, turn);
                }
            }
        }
    }
}
