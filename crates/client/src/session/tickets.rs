//! Resume tickets: asked for while connected, presented on return, so that one frame brings
//! everything back.
//!
//! Place: beside the subscriptions. A ticket is an optimisation: without one, or when it is
//! refused, the subscriptions are asked for one by one, from the same cursors.

use std::collections::BTreeSet;

use wire::native::{
    ClientFrame, ErrorCode, GoAway, ResumeCursor, TICKET_BYTES_MAX, TicketIssued, Unsubscribe,
    Welcome,
};

use super::Session;
use super::event::ServerError;

/// How long the subscriptions are left alone before a ticket is asked for, as more of them may
/// come.
const ASK_DELAY_MS: u64 = 1_000;
/// How long after a temporary refusal another ticket is asked for.
const RETRY_DELAY_MS: u64 = 60_000;
/// Cursors that go into a HELLO, which stays below 32 KiB with ticket and token: a cursor takes at
/// most 30 bytes.
const CURSORS_MAX: usize = 250;

/// The ticket that is held, and the one that is asked for.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    held: Option<Ticket>,
    /// How long the server's tickets hold; 0 while it issues none, or none to us.
    lifetime_ms: u64,
    /// The server's clock when ours stood at the second.
    clocks: (u64, u64),
    asked: Option<u32>,
    /// Not before this time, after a refusal.
    not_before_ms: u64,
    ask_at_ms: Option<u64>,
    /// This connection began with a ticket.
    was_presented: bool,
}

#[derive(Debug)]
struct Ticket {
    bytes: Vec<u8>,
    /// By our clock.
    expires_at_ms: u64,
    renew_at_ms: u64,
    /// The subscriptions that are in it.
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

    /// Whether the subscription comes back by the ticket of this connection.
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
    /// The ticket to return with and the cursors to go with it, if there is one that may hold.
    pub(super) fn ticket_to_present(
        &mut self,
        now_ms: u64,
    ) -> Option<(Vec<u8>, Vec<ResumeCursor>)> {
        let held = self.tickets.held.as_ref()?;
        // What was unsubscribed since would come back, and be in the way of whoever subscribes it
        // anew.
        let is_ours = held.covers.iter().all(|id| self.subscriptions.get(*id).is_some());
        if !self.settings.tickets || !is_ours || now_ms >= held.expires_at_ms {
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
        // One that does not fit would be served from the ticket's own; if that is beyond what the
        // log still has, the gap would take our newer cursor back, and messages would be handed on
        // twice.
        if cursors.len() > CURSORS_MAX {
            return None;
        }
        let bytes = held.bytes.clone();
        self.tickets.was_presented = true;
        Some((bytes, cursors))
    }

    /// The subscriptions that are to be asked for although a ticket was presented.
    pub(super) fn beside_the_ticket(&self) -> Vec<u32> {
        let mut ids = self.subscriptions.ids();
        if let (true, Some(held)) = (self.tickets.was_presented, &self.tickets.held) {
            ids.retain(|id| !held.covers.contains(id));
        }
        ids
    }

    /// What WELCOME says of tickets. One that was not accepted is forgotten, and its subscriptions
    /// are asked for.
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
                // Some were granted while it was made and are not in it. Those that are will be
                // refused as held already.
                let ids: Vec<u32> = covers.iter().copied().collect();
                self.send_subscribe(&ids);
            }
            return;
        }
        if let Some(refused) = self.tickets.held.take() {
            let covers: Vec<u32> = refused.covers.into_iter().collect();
            self.send_subscribe(&covers);
        }
    }

    /// Something has come: another ticket may be due.
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

    /// Asks, if it is time and all subscriptions hold.
    pub(super) fn ask_for_ticket(&mut self, now_ms: u64) {
        if self.tickets.ask_at_ms.is_none_or(|at_ms| now_ms < at_ms) {
            return;
        }
        self.tickets.ask_at_ms = None;
        if !self.is_ready() {
            return;
        }
        if self.subscriptions.granted().is_none_or(|ids| ids.is_empty()) {
            // What is missing is on its way, and its grant plans again.
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
            // It has all that was granted before it, asked for or not when it was.
            covers: self.subscriptions.all_granted(),
        });
    }

    /// Whether the error was about our asking for a ticket.
    pub(super) fn ticket_not_issued(
        &mut self,
        request: u32,
        error: &ServerError,
        now_ms: u64,
    ) -> bool {
        let asked = self.tickets.asked.take_if(|asked| *asked == request);
        match (asked.is_some(), error.temporary) {
            (true, true) => self.tickets.not_before_ms = now_ms + RETRY_DELAY_MS,
            // This server has none for us.
            (true, false) => self.tickets.lifetime_ms = 0,
            (false, _) => {}
        }
        asked.is_some()
    }

    /// Whether the error only says that the ticket does not hold, which WELCOME has said already.
    pub(super) fn is_ticket_refusal(&self, error: &ServerError) -> bool {
        self.tickets.was_presented && error.code == u32::from(ErrorCode::TicketRefused.number())
    }

    /// A ticket to return with. It covers what holds now; how long, only the server knows.
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

    /// The ticket held a subscription that was given up since.
    pub(super) fn give_back(&mut self, subscription: u32) {
        if self.tickets.was_presented {
            let subscriptions = [subscription];
            self.send(&ClientFrame::Unsubscribe(Unsubscribe {
                subscriptions: (&subscriptions).into(),
            }));
        }
    }
}
