//! Publications that follow one that was refused for the moment.
//!
//! A producer has many publications under way. If one is refused for the moment and the next is
//! taken, the first can never be taken again: its sequence lies below the last. So while a producer
//! is *held*, its later publications of the same connection are refused with the code of the first.
//! That ends with
//!
//! - a sequence that was refused since: the producer has heard of it and sends again, in its order.
//!   A sequence that it leaves out then is given up.
//! - a newer connection of the producer: it repeats unanswered publications. The older one is
//!   fenced.
//! - [`HOLD_MS_MAX`]: a producer that never sends the refused one again continues without it.
//!
//! Only publications that ask for an acknowledgement hold and are held: without one, a publisher
//! does not learn which to send again. Costs nothing as long as nothing is refused. When there are
//! more than `producers_max` of them, the oldest hold ends.

use super::{Identity, Sequenced};
use crate::mail::Code;
use std::collections::BTreeMap;
use stdx::handing::Hand;

/// A hold ends at the latest after this number of milliseconds.
pub(super) const HOLD_MS_MAX: u64 = 10_000;

/// The producers that are held; see the module.
#[derive(Debug, Hand)]
pub(super) struct Holds {
    holds: BTreeMap<Identity, Hold>,
    /// Producers by their ranks.
    by_age: BTreeMap<u64, Identity>,
    next_rank: u64,
    holds_max: usize,
}

#[derive(Debug, Hand)]
struct Hold {
    connection: u64,
    /// The greatest sequence that was refused since it began.
    through: u64,
    code: Code,
    ends_ms: u64,
    /// Later holds have higher ones.
    rank: u64,
}

impl Holds {
    pub fn new(holds_max: u32) -> Holds {
        Holds {
            holds: BTreeMap::new(),
            by_age: BTreeMap::new(),
            next_rank: 0,
            holds_max: holds_max as usize,
        }
    }

    /// Looks at a publication that is new and asks for an acknowledgement. Ends a hold that it does
    /// not fall under.
    pub fn check(&mut self, now_ms: u64, publication: &Sequenced) -> Result<(), Code> {
        let Some(hold) = self.holds.get(&publication.producer) else {
            return Ok(());
        };
        if now_ms < hold.ends_ms {
            if publication.connection < hold.connection {
                return Err(Code::ProducerFenced);
            }
            if publication.connection == hold.connection && publication.sequence > hold.through {
                return Err(hold.code);
            }
        }
        self.end(publication.producer);
        Ok(())
    }

    /// A publication was refused for the moment.
    pub fn refused(&mut self, now_ms: u64, publication: &Sequenced, code: Code) {
        let known = self.holds.get(&publication.producer);
        if known.is_some_and(|hold| hold.ends_ms <= now_ms) {
            self.end(publication.producer);
        }
        let rank = self.next_rank;
        let hold = self.holds.entry(publication.producer).or_insert_with(|| {
            self.by_age.insert(rank, publication.producer);
            self.next_rank += 1;
            Hold {
                connection: publication.connection,
                through: publication.sequence,
                code,
                ends_ms: now_ms + HOLD_MS_MAX,
                rank,
            }
        });
        hold.connection = hold.connection.max(publication.connection);
        hold.through = hold.through.max(publication.sequence);
        while self.holds.len() > self.holds_max
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.holds.remove(&oldest);
        }
    }

    pub fn allocated_bytes(&self) -> usize {
        const ENTRY_BYTES: usize = 128; // of both trees, about, with their slack
        self.holds.len() * ENTRY_BYTES
    }

    fn end(&mut self, producer: Identity) {
        if let Some(hold) = self.holds.remove(&producer) {
            self.by_age.remove(&hold.rank);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publication(producer: u64, sequence: u64, connection: u64) -> Sequenced {
        Sequenced { producer: [producer, 0], sequence, connection, topic: 0 }
    }

    #[test]
    fn a_refused_publication_comes_first() {
        let mut holds = Holds::new(10);
        let refusal = Err(Code::LogFull);
        holds.refused(0, &publication(1, 3, 5), Code::LogFull);
        for sequence in [4, 6] {
            let next = publication(1, sequence, 5);
            assert_eq!(holds.check(1, &next), refusal);
            holds.refused(1, &next, Code::LogFull);
        }
        assert_eq!(holds.check(1, &publication(2, 4, 5)), Ok(()));
        assert_eq!(holds.check(1, &publication(1, 7, 4)), Err(Code::ProducerFenced));
        // It gives up the third.
        assert_eq!(holds.check(1, &publication(1, 4, 5)), Ok(()));
        assert_eq!(holds.check(1, &publication(1, 7, 5)), Ok(()));
        assert_eq!(holds.allocated_bytes(), 0);
    }

    #[test]
    fn holds_end() {
        let mut holds = Holds::new(10);
        let first = publication(1, 3, 5);
        let next = publication(1, 4, 5);
        holds.refused(7, &first, Code::MemoryFull);
        // A refusal by a hold does not prolong it.
        let last_ms = 7 + HOLD_MS_MAX - 1;
        assert_eq!(holds.check(last_ms, &next), Err(Code::MemoryFull));
        holds.refused(last_ms, &next, Code::MemoryFull);
        assert_eq!(holds.check(last_ms + 1, &publication(1, 5, 5)), Ok(()), "in time");
        // One that nothing has come after begins anew.
        for now_ms in [0, HOLD_MS_MAX] {
            holds.refused(now_ms, &first, Code::MemoryFull);
        }
        let now_ms = 2 * HOLD_MS_MAX - 1;
        assert_eq!(holds.check(now_ms, &next), Err(Code::MemoryFull));
        let returned = publication(1, 5, 6);
        assert_eq!(holds.check(now_ms, &returned), Ok(()), "returned");
        assert_eq!(holds.check(now_ms, &next), Ok(()));
    }

    #[test]
    fn holds_are_bounded() {
        let mut holds = Holds::new(2);
        for producer in 1..=3 {
            holds.refused(0, &publication(producer, 1, 1), Code::ProducersFull);
        }
        assert_eq!((holds.holds.len(), holds.by_age.len()), (2, 2));
        assert_eq!(holds.check(0, &publication(1, 2, 1)), Ok(()));
        assert_eq!(holds.check(0, &publication(2, 2, 1)), Err(Code::ProducersFull));
    }
}
