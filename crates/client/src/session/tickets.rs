//! Resume tickets: requested while connected and presented at a reconnect, so that one frame
//! restores all subscriptions.
//!
//! Place: beside the subscriptions. A ticket is an optimisation: without one, or after its refusal,
//! the subscriptions are requested one by one, from the same cursors.

use std::collections::BTreeSet;

use wire::native::{
    ClientFrame, ErrorCode, GoAway, ResumeCursor, TICKET_BYTES_MAX, TicketIssued, Unsubscribe,
    Welcome,
};

use super::Session;
use super::event::ServerError;
use crate::fault::{self, Fault};

/// The time without new subscriptions before a ticket is requested.
const ASK_DELAY_MS: u64 = 1_000;
/// The time after a temporary refusal before another ticket is requested.
const RETRY_DELAY_MS: u64 = 60_000;
/// The maximum number of cursors in a HELLO, which stays below 32 KiB with ticket and token: a
/// cursor takes at most 30 bytes.
const CURSORS_MAX: usize = 250;

/// The present ticket, and the requested one.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    held: Option<Ticket>,
    /// The lifetime of the server's tickets; 0 if it issues none, or none to this session.
    lifetime_ms: u64,
    /// The server's clock, and the own clock at the same time.
    clocks: (u64, u64),
    asked: Option<u32>,
    /// The time after a refusal when the next request is possible.
    not_before_ms: u64,
    ask_at_ms: Option<u64>,
    /// This connection began with a ticket.
    was_presented: bool,
}

#[derive(Debug)]
struct Ticket {
    bytes: Vec<u8>,
    /// The expiry by the own clock.
    expires_at_ms: u64,
    renew_at_ms: u64,
    /// The subscriptions of the ticket.
    covers: BTreeSet<u32>,
}

impl Tickets {
    pub(super) fn connection_lost(&mut self) {
        self.lifetime_ms = 0;
        self.asked = None;
        self.not_before_ms = 0;
        self.ask_at_ms = None;
        self.was_presented = false;
    }

    pub(super) fn was_presented(&self) -> bool {
        self.was_presented
    }

    /// Whether the ticket of this connection restores the subscription.
    pub(super) fn brings(&self, subscription: u32) -> bool {
        let held = self.held.as_ref().filter(|_| self.was_presented);
        held.is_some_and(|held| held.covers.contains(&subscription))
    }

    pub(super) fn next_due_ms(&self) -> Option<u64> {
        self.ask_at_ms
    }

    fn by_our_clock(&self, server_ms: u64) -> u64 {
        let (server_then_ms, then_ms) = self.clocks;
        then_ms.saturating_add(server_ms.saturating_sub(server_then_ms))
    }
}

impl Session {
    /// The ticket and the cursors for a reconnect, if a ticket may be valid.
    pub(super) fn ticket_to_present(
        &mut self,
        now_ms: u64,
    ) -> Option<(Vec<u8>, Vec<ResumeCursor>)> {
        self.tickets.was_presented = false;
        let held = self.tickets.held.as_ref()?;
        // A subscription that was ended since would be restored, and collide with a new
        // subscription to the same filter.
        let is_ours = held.covers.iter().all(|id| self.subscriptions.get(*id).is_some());
        let has_expired = now_ms >= held.expires_at_ms && !fault::is(Fault::KeepsExpiredTicket);
        if !self.settings.tickets || !is_ours || has_expired {
            self.tickets.held = None;
            return None;
        }
        let mut cursors = Vec::new();
        for id in &held.covers {
            let Some(subscription) = self.subscriptions.get(*id) else {
                continue;
            };
            let topic = subscription.proof.cursor().map(|position| (None, position));
            let partitions = subscription.cursors.positions().into_iter();
            let partitions = partitions.map(|at| (Some(at.partition), at.position));
            cursors.extend(topic.into_iter().chain(partitions).map(|(partition, position)| {
                ResumeCursor { subscription: *id, partition, position }
            }));
        }
        // A cursor that does not fit would be replaced by the ticket's older one; if the log no
        // longer has its records, the gap would move the newer cursor back, and messages would be
        // delivered twice.
        if cursors.len() > CURSORS_MAX {
            return None;
        }
        if fault::is(Fault::SendsStaleTicket) {
            cursors.clear();
        }
        let bytes = held.bytes.clone();
        self.tickets.was_presented = true;
        Some((bytes, cursors))
    }

    /// The subscriptions to request in addition to the ticket.
    pub(super) fn beside_the_ticket(&self) -> Vec<u32> {
        let mut ids = self.subscriptions.ids();
        if let (true, Some(held)) = (self.tickets.was_presented, &self.tickets.held) {
            ids.retain(|id| !held.covers.contains(id));
        }
        ids
    }

    /// Processes the ticket fields of WELCOME. A refused ticket is dropped, and its subscriptions
    /// are requested.
    pub(super) fn welcomed_with(&mut self, welcome: &Welcome<'_>, now_ms: u64) {
        let lifetime_s = welcome.ticket_lifetime_s.unwrap_or(0);
        self.tickets.lifetime_ms = u64::from(lifetime_s) * 1_000;
        self.tickets.clocks = (welcome.time_ms, now_ms);
        if !self.tickets.was_presented {
            return;
        }
        if let Some(count) = welcome.resumed {
            self.counters.resumptions += 1;
            let covers = self.tickets.held.as_ref().map(|held| &held.covers);
            let covers = covers.filter(|covers| covers.len() != count as usize);
            if let Some(covers) = covers {
                // Some were granted while the ticket was issued and are not in it. The server
                // refuses those that are, as already subscribed.
                let ids: Vec<u32> = covers.iter().copied().collect();
                self.send_subscribe(&ids);
            }
            return;
        }
        if let Some(refused) = self.tickets.held.take() {
            let covers: Vec<u32> = refused.covers.into_iter().collect();
            if fault::is(Fault::TrustsTicket) {
                return;
            }
            self.send_subscribe(&covers);
        }
    }

    /// Plans the request of another ticket after a change.
    pub(super) fn plan_ticket(&mut self, now_ms: u64) {
        if !self.settings.tickets
            || self.tickets.lifetime_ms == 0
            || !self.is_ready()
            || self.tickets.asked.is_some()
        {
            return;
        }
        let at_ms = match &self.tickets.held {
            _ if self.subscriptions.len() == 0 => return,
            Some(held) if self.subscriptions.is_covered_by(&held.covers) => held.renew_at_ms,
            _ => 0,
        };
        let soonest_ms = now_ms + ASK_DELAY_MS;
        let at_ms = at_ms.max(soonest_ms).max(self.tickets.not_before_ms);
        let ask_at_ms = self.tickets.ask_at_ms.get_or_insert(at_ms);
        *ask_at_ms = (*ask_at_ms).min(at_ms);
    }

    /// Requests a ticket, if it is due and all subscriptions are granted.
    pub(super) fn ask_for_ticket(&mut self, now_ms: u64) {
        if self.tickets.ask_at_ms.is_none_or(|at_ms| now_ms < at_ms) {
            return;
        }
        self.tickets.ask_at_ms = None;
        if !self.is_ready() {
            return;
        }
        if self.subscriptions.granted().is_none_or(|ids| ids.is_empty()) {
            // A missing grant is in flight, and plans again.
            return;
        }
        self.last_request = self.last_request.checked_add(1).unwrap_or(1);
        self.tickets.asked = Some(self.last_request);
        self.send(&ClientFrame::Ticket(self.last_request));
    }

    pub(super) fn ticket_issued(&mut self, frame: &TicketIssued<'_>, now_ms: u64) {
        let asked = self.tickets.asked.take_if(|request| *request == frame.request);
        if asked.is_none() {
            return;
        }
        if frame.ticket.len() > TICKET_BYTES_MAX {
            return;
        }
        let expires_at_ms = self.tickets.by_our_clock(frame.expires_ms);
        self.tickets.held = Some(Ticket {
            bytes: frame.ticket.to_vec(),
            expires_at_ms,
            renew_at_ms: now_ms + expires_at_ms.saturating_sub(now_ms) / 2,
            // The ticket contains all subscriptions granted before it, even if they are newer than
            // its request.
            covers: self.subscriptions.all_granted(),
        });
    }

    /// Handles an error; true if it refuses a requested ticket.
    pub(super) fn ticket_not_issued(
        &mut self,
        request: u32,
        error: &ServerError,
        now_ms: u64,
    ) -> bool {
        let asked = self.tickets.asked.take_if(|asked| *asked == request);
        match (asked.is_some(), error.temporary) {
            (true, true) => self.tickets.not_before_ms = now_ms + RETRY_DELAY_MS,
            // This server issues none to this session.
            (true, false) => self.tickets.lifetime_ms = 0,
            (false, _) => {}
        }
        asked.is_some()
    }

    /// Whether the error only repeats that the ticket is invalid, which WELCOME has already
    /// reported.
    pub(super) fn is_ticket_refusal(&self, error: &ServerError) -> bool {
        self.tickets.was_presented && error.code == u32::from(ErrorCode::TicketRefused.number())
    }

    /// Stores the ticket of a go-away. It covers the granted subscriptions; only the server knows
    /// its expiry.
    pub(super) fn keep_return_ticket(&mut self, frame: &GoAway<'_>) {
        let Some(ticket) = frame.ticket.filter(|it| it.len() <= TICKET_BYTES_MAX) else {
            return;
        };
        self.tickets.held = Some(Ticket {
            bytes: ticket.to_vec(),
            expires_at_ms: u64::MAX,
            renew_at_ms: 0,
            covers: self.subscriptions.all_granted(),
        });
    }

    /// Unsubscribes a subscription that the ticket restored although it was ended.
    pub(super) fn give_back(&mut self, subscription: u32) {
        if self.tickets.was_presented {
            let subscriptions = [subscription];
            self.send(&ClientFrame::Unsubscribe(Unsubscribe {
                subscriptions: (&subscriptions).into(),
            }));
        }
    }
}
