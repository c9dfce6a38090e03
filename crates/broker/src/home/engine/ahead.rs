//! Positions that this node has not reached: another node has served its client further.
//!
//! The tail of this node is behind, by milliseconds as a rule. So the request waits here until the
//! tail has come so far, for [`WAIT_MS_MAX`] at most; then the position counts as beyond the head.
//! Requests that wait do not count against their edge's bounds; there are bounded many of them.

use super::super::turn::Turn;
use super::super::work::Caller;
use super::Home;
use crate::mail::{AddFilter, EdgeId, ReadHistory, Start, Subscribe, ToHome};
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
    request: Request,
}

#[derive(Debug, Hand)]
enum Request {
    Subscribe(Subscribe),
    History(ReadHistory),
    AddFilter(AddFilter),
}

impl From<Request> for ToHome {
    fn from(request: Request) -> ToHome {
        match request {
            Request::Subscribe(asked) => ToHome::Subscribe(asked),
            Request::History(asked) => ToHome::History(asked),
            Request::AddFilter(asked) => ToHome::AddFilter(asked),
        }
    }
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
                && matches!(&waiting.request, Request::AddFilter(asked) if asked.filter == *filter)
        };
        self.waiting.retain(|waiting| !is_it(waiting));
    }
}

impl Home {
    /// Lets a request wait whose position this node has not reached; gives any other back.
    pub(in crate::home) fn wait_for_tail(
        &mut self,
        from: Caller,
        request: ToHome,
    ) -> Option<ToHome> {
        let request = match request {
            ToHome::Subscribe(asked) => Request::Subscribe(asked),
            ToHome::History(asked) => Request::History(asked),
            ToHome::AddFilter(asked) => Request::AddFilter(asked),
            other @ (ToHome::Release { .. }
            | ToHome::Read(_)
            | ToHome::Retained { .. }
            | ToHome::Describe(_)
            | ToHome::Positions
            | ToHome::Publish(_)
            | ToHome::ReadFilter(_)
            | ToHome::RemoveFilter { .. }
            | ToHome::Credit { .. }) => return Some(other),
        };
        if !self.is_ahead_of_tail(&request) || self.ahead.len() >= WAITING_MAX {
            return Some(request.into());
        }
        self.consumed(from);
        let until_ms = self.elapsed.ms + WAIT_MS_MAX;
        self.ahead.waiting.push_back(Waiting { from: from.consumed(), until_ms, request });
        self.statistics.positions_ahead += 1;
        None
    }

    fn is_ahead_of_tail(&self, request: &Request) -> bool {
        let of = |partition, position| {
            let local = self.local(partition);
            local.is_some_and(|local| self.is_beyond_tail(local, position))
        };
        match request {
            Request::Subscribe(Subscribe { partition, start: Start::Since(position), .. })
            | Request::History(ReadHistory { partition, beyond: Some(position), .. }) => {
                of(*partition, *position)
            }
            Request::AddFilter(AddFilter { since, .. }) => {
                since.iter().any(|cursor| of(cursor.partition, cursor.position))
            }
            Request::Subscribe(_) | Request::History(_) => false,
        }
    }

    /// Whether the position may name a record that the engine has and this node has not seen.
    fn is_beyond_tail(&self, local: u32, position: Position) -> bool {
        let partition = &self.partitions[local as usize];
        partition.engine.as_deref().is_some_and(|engine| {
            let is_of_topic =
                engine.began.is_none_or(|began| position.epoch >> 32 == u64::from(began.topic_id));
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
            if self.elapsed.ms < waiting.until_ms && self.is_ahead_of_tail(&waiting.request) {
                self.ahead.waiting.push_back(waiting);
            } else {
                self.deal_with_request(waiting.from, waiting.request.into(), turn);
            }
        }
    }

    /// The time of the next look; milliseconds of the home's clock.
    pub(in crate::home) fn next_look_ahead(&self) -> Option<u64> {
        (self.ahead.len() > 0).then_some(self.elapsed.ms + LOOK_MS)
    }
}
