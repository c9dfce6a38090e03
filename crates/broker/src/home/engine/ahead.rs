//! Positions that this node has not reached: another node has served its client further.
//!
//! The tail of this node is behind, by milliseconds as a rule. So the request waits here until the
//! tail has come so far, for [`WAIT_MS_MAX`] at most; then the position counts as beyond the head,
//! or as one of another life if this node does not know its lineage. A position in a hole behind
//! the newest record waits as well: it is the one before the next record, which another node has,
//! or that of a lost record. The lineage of the next record tells which.
//! Requests to a partition that has not begun wait as well, and are refused then; a filter is one
//! to all partitions. A partition has begun when the tail has passed the records that only prime:
//! before, its present lineage is older than the records at the offset that an answer would name.
//! Requests that wait do not count against their edge's bounds; there are bounded many of them.

use super::super::turn::Turn;
use super::super::work::{BeyondTail, Caller, Step};
use super::Home;
use crate::mail::{AddFilter, Code, EdgeId, PartitionId, ToEdge};
use crate::position::Position;
use std::collections::VecDeque;
use stdx::chunk::Slice;
use stdx::handing::Hand;
use stdx::memory::vector_bytes;

/// The longest wait, in milliseconds.
const WAIT_MS_MAX: u64 = 5_000;
/// Requests of a home that wait; beyond that the position counts as beyond the head at once.
const WAITING_MAX: usize = 65_536;
/// Waiting requests that one turn examines.
const TURN_EXAMINED_MAX: usize = 4_096;
/// The time between two looks, in milliseconds, if nothing else happens.
const LOOK_MS: u64 = 50;

/// The requests that wait.
#[derive(Debug, Default, Hand)]
pub(in crate::home) struct Ahead {
    waiting: VecDeque<Waiting>,
}

#[derive(Debug, Hand)]
struct Waiting {
    from: Caller,
    until_ms: u64,
    request: BeyondTail,
}

impl Ahead {
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn memory_bytes(&self) -> usize {
        vector_bytes::<Waiting>(self.waiting.capacity())
    }

    /// The edge has no subscription to this filter any more.
    pub fn remove_filter(&mut self, edge: EdgeId, filter: &Slice) {
        let is_it = |waiting: &Waiting| {
            waiting.from.edge == edge
                && matches!(&waiting.request, BeyondTail::AddFilter(asked) if asked.filter == *filter)
        };
        self.waiting.retain(|waiting| !is_it(waiting));
    }
}

impl Home {
    /// Lets a request wait whose position this node has not reached, or deals with it if too many
    /// wait.
    pub(in crate::home) fn wait_for_tail(
        &mut self,
        from: Caller,
        request: BeyondTail,
        turn: &mut Turn<'_>,
    ) {
        self.consumed(from);
        let until_ms = self.elapsed.ms + WAIT_MS_MAX;
        let waiting = Waiting { from: from.consumed(), until_ms, request };
        self.statistics.positions_ahead += 1;
        if self.ahead.len() >= WAITING_MAX {
            self.give_up_waiting(waiting, turn);
        } else {
            self.ahead.waiting.push_back(waiting);
        }
    }

    /// Whether a request with these positions waits for the tail. Handlers check this each time
    /// that a request reaches them: its partition may have begun anew since the last time.
    pub(in crate::home) fn is_ahead_of_tail(
        &self,
        from: Caller,
        partition: PartitionId,
        positions: impl IntoIterator<Item = Position>,
    ) -> bool {
        let local = self.local(partition);
        !from.has_waited && local.is_some_and(|local| self.is_beyond_tail(local, positions))
    }

    /// Whether a subscription to filters waits for the tails.
    pub(in crate::home) fn is_filter_ahead(&self, from: Caller, asked: &AddFilter) -> bool {
        !from.has_waited && !self.have_all_begun()
            || !asked.begins_live
                && asked
                    .since
                    .iter()
                    .any(|cursor| self.is_ahead_of_tail(from, cursor.partition, [cursor.position]))
    }

    fn is_still_ahead(&self, waiting: &Waiting) -> bool {
        let from = waiting.from;
        match &waiting.request {
            BeyondTail::Subscribe(asked) => {
                self.is_ahead_of_tail(from, asked.partition, asked.start.positions())
            }
            BeyondTail::History(asked) => {
                self.is_ahead_of_tail(from, asked.partition, asked.beyond)
            }
            BeyondTail::AddFilter(asked) => self.is_filter_ahead(from, asked),
        }
    }

    /// Whether the tails of all partitions have begun; see the module.
    fn have_all_begun(&self) -> bool {
        (0..self.partitions.len() as u32).all(|local| !self.is_beyond_tail(local, None))
    }

    /// Whether the positions may name a record that the engine has and this node has not seen, or
    /// the partition has not begun; see the module.
    pub(in crate::home) fn is_beyond_tail(
        &self,
        local: u32,
        positions: impl IntoIterator<Item = Position>,
    ) -> bool {
        let partition = &self.partitions[local as usize];
        let Some(engine) = partition.engine.as_deref() else {
            return false;
        };
        let Some(began) = engine.began.filter(|began| engine.through >= began.primed_through)
        else {
            return true;
        };
        positions.into_iter().any(|position| {
            let is_of_topic = position.epoch >> 32 == u64::from(began.topic_id);
            let is_later = position.epoch > partition.lineages.present_epoch();
            is_of_topic && (position.offset > partition.log.head() || is_later)
        })
    }

    /// Deals with the requests that the tail has come up to, or that have waited for too long;
    /// examines some of them.
    pub(in crate::home) fn return_ahead(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..self.ahead.len().min(TURN_EXAMINED_MAX) {
            let Some(waiting) = self.ahead.waiting.pop_front() else {
                break;
            };
            if !self.is_still_ahead(&waiting) {
                self.deal_with_request(waiting.from, waiting.request.into(), turn);
            } else if self.elapsed.ms < waiting.until_ms {
                self.ahead.waiting.push_back(waiting);
            } else {
                self.give_up_waiting(waiting, turn);
            }
        }
    }

    /// A request has waited for too long. Of a partition that has not begun nothing can be said.
    fn give_up_waiting(&mut self, waiting: Waiting, turn: &mut Turn<'_>) {
        let Waiting { from, request, .. } = waiting;
        let code = Code::LogUnavailable;
        let has_begun = |partition: PartitionId| {
            self.local(partition).is_none_or(|local| !self.is_beyond_tail(local, None))
        };
        let refusal = match &request {
            BeyondTail::Subscribe(asked) if !has_begun(asked.partition) => {
                ToEdge::Refused { subscription: asked.subscription, code }
            }
            BeyondTail::History(asked) if !has_begun(asked.partition) => {
                ToEdge::History { reply: asked.reply, result: Err(code) }
            }
            // Its beginning there would have an epoch that never was.
            BeyondTail::AddFilter(AddFilter { subscription, .. }) if !self.have_all_begun() => {
                ToEdge::FilterGranted { subscription: *subscription, result: Err(code) }
            }
            BeyondTail::Subscribe(_) | BeyondTail::History(_) | BeyondTail::AddFilter(_) => {
                let from = Caller { has_waited: true, ..from };
                return self.deal_with_request(from, request.into(), turn);
            }
        };
        self.take_step(from, Step::Refuse(refusal, code), turn);
    }

    /// The time of the next look; milliseconds of the home's clock.
    pub(in crate::home) fn next_look_ahead(&self) -> Option<u64> {
        (self.ahead.len() > 0).then_some(self.elapsed.ms + LOOK_MS)
    }
}
