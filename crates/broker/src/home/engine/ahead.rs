//! Positions that this node has not reached: another node has served its client further.
//!
//! The tail of this node is behind, by milliseconds as a rule. So the request waits here until the
//! tail has come so far. A position in a hole behind the newest record waits as well: it is the one
//! before the next record, which another node has, or that of a lost record. The lineage of the
//! next record tells which.
//!
//! After [`WAIT_MS_MIN`] the position counts as lost if the engine has meanwhile reported the end
//! of its log. An engine that reports nothing may have the record: the request is refused, and the
//! client tries again, here or at another node. So an outage of the engine causes no gap.
//!
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

/// The wait before a position counts as lost, in milliseconds. A leader that was just elected may
/// know a lower end than the one before.
const WAIT_MS_MIN: u64 = 5_000;
/// The longest wait for the engine's word, in milliseconds: longer than the engine's client takes
/// to ask for the end of a quiet partition.
const WAIT_MS_MAX: u64 = 15_000;
/// Requests of a home that wait; others are refused.
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
    since_ms: u64,
    request: BeyondTail,
}

/// The future of a request that waits.
enum Outlook {
    /// The tail has come up to it.
    Ready,
    /// The tail may still come.
    Waits,
    /// The engine does not have its positions.
    Lost,
    /// The engine may have its positions, and reports nothing.
    Unknown,
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
        let waiting = Waiting { from: from.consumed(), since_ms: self.elapsed.ms, request };
        self.statistics.positions_ahead += 1;
        if self.ahead.len() >= WAITING_MAX {
            self.refuse_waiting(&waiting, turn);
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
            || asked
                .since
                .iter()
                .any(|cursor| self.is_ahead_of_tail(from, cursor.partition, [cursor.position]))
    }

    /// The partitions whose tails are behind the positions of a request; some perhaps twice.
    fn behind(&self, request: &BeyondTail) -> Vec<u32> {
        let behind = |partition: PartitionId, positions: &mut dyn Iterator<Item = Position>| {
            self.local(partition).filter(|local| self.is_beyond_tail(*local, positions))
        };
        match request {
            BeyondTail::Subscribe(asked) => {
                behind(asked.partition, &mut asked.start.positions()).into_iter().collect()
            }
            BeyondTail::History(asked) => {
                behind(asked.partition, &mut asked.beyond.into_iter()).into_iter().collect()
            }
            BeyondTail::AddFilter(asked) => {
                let all = 0..self.partitions.len() as u32;
                let not_begun = all.filter(|local| self.is_beyond_tail(*local, None));
                let of_cursors = asked.since.iter().filter_map(|cursor| {
                    behind(cursor.partition, &mut std::iter::once(cursor.position))
                });
                not_begun.chain(of_cursors).collect()
            }
        }
    }

    fn outlook(&self, waiting: &Waiting) -> Outlook {
        let behind = self.behind(&waiting.request);
        let engine_of = |local: &u32| {
            let has_begun = !self.is_beyond_tail(*local, None);
            self.partitions[*local as usize].engine.as_deref().filter(|_| has_begun)
        };
        let has_ended = |local: &u32| {
            let ended_ms = engine_of(local).and_then(|engine| engine.ended_ms);
            ended_ms.is_some_and(|ended_ms| ended_ms > waiting.since_ms)
        };
        let is_available = |local: &u32| engine_of(local).is_some_and(|it| it.is_available);
        match self.elapsed.ms - waiting.since_ms {
            _ if behind.is_empty() => Outlook::Ready,
            ..WAIT_MS_MIN => Outlook::Waits,
            _ if behind.iter().all(has_ended) => Outlook::Lost,
            ..WAIT_MS_MAX if behind.iter().all(is_available) => Outlook::Waits,
            _ => Outlook::Unknown,
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
            let needed = partition.lineages.needed_for(position);
            is_of_topic && (needed > partition.log.head() || is_later)
        })
    }

    /// Deals with the requests that the tail has come up to, or that have waited for too long;
    /// examines some of them.
    pub(in crate::home) fn return_ahead(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..self.ahead.len().min(TURN_EXAMINED_MAX) {
            let Some(waiting) = self.ahead.waiting.pop_front() else {
                break;
            };
            match self.outlook(&waiting) {
                Outlook::Ready => {
                    self.deal_with_request(waiting.from, waiting.request.into(), turn);
                }
                Outlook::Waits => self.ahead.waiting.push_back(waiting),
                Outlook::Lost => {
                    let from = Caller { has_waited: true, ..waiting.from };
                    self.deal_with_request(from, waiting.request.into(), turn);
                }
                Outlook::Unknown => self.refuse_waiting(&waiting, turn),
            }
        }
    }

    fn refuse_waiting(&mut self, waiting: &Waiting, turn: &mut Turn<'_>) {
        let code = Code::LogUnavailable;
        let refusal = match &waiting.request {
            BeyondTail::Subscribe(asked) => {
                ToEdge::Refused { subscription: asked.subscription, code }
            }
            BeyondTail::History(asked) => ToEdge::History { reply: asked.reply, result: Err(code) },
            BeyondTail::AddFilter(AddFilter { subscription, .. }) => {
                ToEdge::FilterGranted { subscription: *subscription, result: Err(code) }
            }
        };
        self.take_step(waiting.from, Step::Refuse(refusal, code), turn);
    }

    /// The time of the next look; milliseconds of the home's clock.
    pub(in crate::home) fn next_look_ahead(&self) -> Option<u64> {
        (self.ahead.len() > 0).then_some(self.elapsed.ms + LOOK_MS)
    }
}
