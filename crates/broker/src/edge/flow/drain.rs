//! The drain: all clients of an edge are led away, and what they have been promised is kept.
//!
//! It has three steps, and each looks at some connections in a turn. *Telling*: event streams end
//! with the time to return, long polls are answered, native sessions get GO_AWAY, those with
//! subscriptions behind their ticket; their subscriptions end with it, so that the ticket stays
//! true. What they have sent is still read and answered: a client closes when it has its answers,
//! and most have gone after a round trip. *Holding*: the patience is over. Nothing more is read
//! from those that are left, and the homes answer what was asked. *Closing*: nothing is on its way
//! any more, so that everything accepted has been acknowledged; who is left is closed.
//!
//! Invariants: return times lie evenly in the window, on one edge and on all of them together; a
//! client is told once. How long a drain takes is the shell's to bound: a disk that hangs, or a
//! client that reads nothing, holds it up until then.

use crate::edge::Edge;
use crate::edge::draining::{Drain, Step};
use crate::ids::ConnIndex;
use crate::ids::NONE;
use crate::protocol::Protocol;
use crate::protocol::flag;
use crate::settings::Settings;
use wire::native::CloseCode;

impl Edge {
    /// Leads clients away: no new sessions are begun, streams end, sessions are told to return
    /// within `window_ms`. The turns that follow do it. A window of nothing closes them at once.
    pub fn drain(&mut self, window_ms: u64) {
        if self.draining {
            return;
        }
        self.draining = true;
        self.drains = Some(Drain { window_ms: window_ms.min(DAY_MS), step: Step::Telling(0) });
    }

    /// Whether clients that have been told to go may finish first.
    pub(crate) fn lets_finish(&self) -> bool {
        self.drains.is_some_and(|drain| {
            drain.window_ms > 0 && matches!(drain.step, Step::Telling(_) | Step::Waiting { .. })
        })
    }

    pub(crate) fn drain_some(&mut self) {
        let Some(drain) = self.drains else {
            return;
        };
        let now_ms = self.now.monotonic_ms;
        let patience_ms = (drain.window_ms / 2).min(PATIENCE_MS_MAX);
        let step = match drain.step {
            // A ticket asks the homes.
            Step::Telling(_) if !self.has_room() => return,
            Step::Telling(next) => match self.some_from(next, |edge, index| {
                let return_after_ms = edge.return_after_ms(index, drain.window_ms);
                edge.send_away(index, return_after_ms);
            }) {
                Some(next) => Step::Telling(next),
                None if drain.window_ms == 0 => Step::Over,
                None => Step::Waiting { until_ms: now_ms + patience_ms },
            },
            Step::Waiting { until_ms }
                if now_ms < until_ms && self.connections.slots.count() > 0 =>
            {
                return;
            }
            Step::Waiting { .. } => Step::Holding(0),
            Step::Holding(next) => match self.some_from(next, Edge::stop_reading) {
                Some(next) => Step::Holding(next),
                None => Step::Settling,
            },
            Step::Settling if !self.is_settled() => return,
            Step::Settling => Step::Closing(0),
            Step::Closing(next) => match self.some_from(next, Edge::end_drained) {
                Some(next) => Step::Closing(next),
                None => Step::Over,
            },
            Step::Over => return,
        };
        self.drains = Some(Drain { step, ..drain });
    }

    /// Whether a further step is due at once.
    pub(crate) fn has_more_to_drain(&self) -> bool {
        match self.drains.map(|drain| drain.step) {
            Some(Step::Telling(_)) => self.has_room(),
            Some(Step::Holding(_) | Step::Closing(_)) => true,
            Some(Step::Settling) => self.is_settled(),
            Some(Step::Waiting { .. } | Step::Over) | None => false,
        }
    }

    /// When the next step is due; milliseconds of the monotonic clock.
    pub(crate) fn drain_deadline_ms(&self) -> Option<u64> {
        match self.drains?.step {
            Step::Waiting { until_ms } if self.connections.slots.count() > 0 => Some(until_ms),
            _ => None,
        }
    }

    /// Goes on through the connections that there are, some at a time; where to go on, if there are
    /// more.
    fn some_from(&mut self, next: u32, act: impl Fn(&mut Edge, u32)) -> Option<u32> {
        let end = self.connections.slots.places().min(next + CONNECTIONS_TURN_MAX);
        for index in next..end {
            if self.connections.slots[index].protocol != Protocol::Free {
                act(self, index);
            }
        }
        (end < self.connections.slots.places()).then_some(end)
    }

    /// Where clients that are led away find other nodes. Each of them is the first of as many
    /// clients.
    pub(crate) fn other_addresses<'a>(
        &self,
        settings: &'a Settings,
        index: ConnIndex,
    ) -> Vec<&'a str> {
        let mut urls: Vec<&str> = settings.other_addresses.iter().map(String::as_str).collect();
        let first = (index as usize + usize::from(self.id)) % urls.len().max(1);
        urls.rotate_left(first);
        urls
    }

    /// Evenly over the window, however few there are: neighbours lie far apart, and so do edges.
    fn return_after_ms(&self, index: ConnIndex, window_ms: u64) -> u64 {
        let of_edge = u32::from(self.id).wrapping_mul(EDGES_APART);
        let place = index.wrapping_mul(GOLDEN).wrapping_add(of_edge);
        (u64::from(place) * window_ms) >> 32
    }

    /// Reads nothing more from a session.
    fn stop_reading(&mut self, index: ConnIndex) {
        if self.connections.slots[index].protocol == Protocol::Native {
            self.connections.slots[index].set(flag::HELD);
        }
    }

    /// Nothing is on its way for the connection any more.
    fn end_drained(&mut self, index: ConnIndex) {
        let slot = &mut self.connections.slots[index];
        slot.clear(flag::HELD);
        match slot.protocol {
            Protocol::Native => {
                // It has not even read what stands before its ticket.
                self.go_away_without_ticket(index);
                self.close_native(index, CloseCode::GoingAway);
            }
            // It came late and has said nothing.
            Protocol::Http if !slot.is(flag::PAUSED) && slot.state == NONE => {
                self.close_idle(index);
            }
            _ => {}
        }
    }
}

/// Clients that have been told to go have so long to take their answers and close, or half the
/// window.
const PATIENCE_MS_MAX: u64 = 1_000;
/// Connections that one turn looks at.
const CONNECTIONS_TURN_MAX: u32 = 1_024;
/// The golden ratio of 32 bits: its multiples fall evenly.
const GOLDEN: u32 = 0x9e37_79b9;
/// Where the sequences of edges begin, apart from each other: the square root of two, less one.
const EDGES_APART: u32 = 0x6a09_e667;
/// A window is not longer.
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
