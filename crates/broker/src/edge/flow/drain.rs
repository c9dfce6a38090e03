//! The drain: all clients of an edge are sent to other nodes, and every promise to them is kept.
//!
//! A drain has three steps, and each handles some connections in a turn. *Telling*: event streams
//! end with the time to return, long polls are answered, native sessions get GO_AWAY, those with
//! subscriptions after their ticket; their subscriptions end with it, so that the ticket stays
//! true. Requests of these clients are still read and answered: a client closes when it has its
//! answers, and most have gone after a round trip. *Holding*: the patience is over. The remaining
//! clients are not read any more, and the homes answer their requests. *Closing*: no request is
//! under way any more, so that everything accepted has been acknowledged; the remaining clients are
//! closed.
//!
//! Invariant: each client gets one notice. The shell bounds the time of a drain: a disk that hangs,
//! or a client that reads nothing, holds it up until then.

use crate::edge::Edge;
use crate::edge::connections::draining::{Drain, Draining, Progress};
use crate::ids::{ConnIndex, NONE};
use crate::protocol::flag;
use crate::settings::Settings;
use std::ops::Range;
use wire::native::CloseCode;

impl Edge {
    /// Drains the edge: refuses new sessions, ends streams, and asks sessions to return within
    /// `window_ms`. The turns that follow do it. A window of 0 closes them at once.
    pub fn drain(&mut self, window_ms: u64) {
        if !self.is_draining() {
            self.connections.drain = Some(Drain::new(window_ms));
        }
    }

    /// Whether the edge sends its clients away.
    pub(crate) fn is_draining(&self) -> bool {
        self.connections.drain.is_some()
    }

    /// Whether notified clients may finish first.
    pub(crate) fn lets_finish(&self) -> bool {
        self.connections.drain.is_some_and(|drain| drain.lets_finish())
    }

    /// Drains some connections.
    pub(crate) fn drain_some(&mut self) {
        let Some(mut drain) = self.connections.drain else {
            return;
        };
        let progress = Progress {
            now_ms: self.now.monotonic_ms,
            has_room: self.has_room(),
            is_settled: self.is_settled(),
            connections: self.connections.slots.count(),
            places: self.connections.slots.places(),
        };
        match drain.advance(progress) {
            Draining::Tell(range) => self.each_present(range, |edge, index| {
                edge.send_away(index, drain.return_after_ms(edge.id, index));
            }),
            Draining::Hold(range) => self.each_present(range, Edge::stop_reading),
            Draining::Close(range) => self.each_present(range, Edge::end_drained),
            Draining::Nothing => {}
        }
        self.connections.drain = Some(drain);
    }

    fn each_present(&mut self, range: Range<u32>, act: impl Fn(&mut Edge, ConnIndex)) {
        for index in range.map(ConnIndex) {
            if self.connections.slots.is_present(index) {
                act(self, index);
            }
        }
    }

    /// Whether a further step is due at once.
    pub(crate) fn has_more_to_drain(&self) -> bool {
        self.connections
            .drain
            .is_some_and(|drain| drain.has_more(self.has_room(), self.is_settled()))
    }

    /// The time of the next step; milliseconds of the monotonic clock.
    pub(crate) fn drain_deadline_ms(&self) -> Option<u64> {
        self.connections.drain?.deadline_ms(self.connections.slots.count())
    }

    /// The addresses of other nodes for a client that is sent away. Each of them is the first for
    /// as many clients.
    pub(crate) fn other_addresses<'a>(
        &self,
        settings: &'a Settings,
        index: ConnIndex,
    ) -> Vec<&'a str> {
        let mut urls: Vec<&str> = settings.other_addresses.iter().map(String::as_str).collect();
        let first = (index.0 as usize + usize::from(self.id)) % urls.len().max(1);
        urls.rotate_left(first);
        urls
    }

    /// Reads nothing more from a session.
    fn stop_reading(&mut self, index: ConnIndex) {
        let slot = &mut self.connections.slots[index];
        if slot.facts().is_session {
            slot.set(flag::HELD);
        }
    }

    /// Nothing is under way for the connection any more.
    fn end_drained(&mut self, index: ConnIndex) {
        let slot = &mut self.connections.slots[index];
        slot.clear(flag::HELD);
        let facts = slot.facts();
        if facts.is_session {
            // The client has not even read the frames before its ticket.
            self.go_away_without_ticket(index);
            self.close_native(index, CloseCode::GoingAway);
        } else if facts.answers_requests && !slot.is(flag::PAUSED) && slot.state == NONE {
            // The client came late and has sent nothing.
            self.close_idle(index);
        }
    }
}
