//! Tokens that expire: an event before the expiry, and renewal over the live connection.
//!
//! Place: beside the tickets. The session does not know the source of tokens; its owner provides a
//! new one after the event, and each further connection presents the newest.

use wire::native::{ClientFrame, Renew, Renewed};

use super::event::{Event, ServerError};
use super::{Phase, Session};
use crate::fault::{self, Fault};

/// The renewal in progress.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    asked: Option<u32>,
    /// A newer token arrived after HELLO, or during a renewal: it is sent next.
    is_due: bool,
    /// The server has announced the token's end, and the owner has not asked for that yet.
    is_expiring: bool,
    /// The server's clock, and the own clock at the same time.
    clocks: (u64, u64),
}

impl Tokens {
    pub(super) fn connection_lost(&mut self) {
        self.asked = None;
        self.is_due = false;
    }

    /// Ends the renewal with number `request`; false if there is none.
    pub(super) fn is_renewal(&mut self, request: u32) -> bool {
        self.asked.take_if(|asked| *asked == request).is_some()
    }

    /// The time until the server's clock reaches `at_ms`.
    fn left_ms(&self, at_ms: u64, now_ms: u64) -> u64 {
        let (server_ms, then_ms) = self.clocks;
        let server_now_ms = server_ms.saturating_add(now_ms.saturating_sub(then_ms));
        at_ms.saturating_sub(server_now_ms)
    }
}

impl Session {
    /// Continues with a new token: at once if there is a connection ([`Event::TokenRenewed`] or
    /// [`Event::TokenRefused`] follows), and on every further one. The token must have the same
    /// subject.
    pub fn renew(&mut self, token: String) {
        let old = self.settings.token.replace(token);
        match self.phase {
            Phase::Ready if self.tokens.asked.is_none() || fault::is(Fault::RenewsTwice) => {
                self.send_renewal();
            }
            // One renewal at a time.
            Phase::Ready | Phase::Greeting => self.tokens.is_due = true,
            Phase::Offline | Phase::Upgrading if self.early.has_hello() => {
                self.tokens.is_due = true;
            }
            Phase::Offline | Phase::Upgrading | Phase::Closing => {}
        }
        if fault::is(Fault::KeepsFirstToken) {
            self.settings.token = old;
        }
    }

    /// The token for the next connection.
    pub fn token(&self) -> Option<&str> {
        self.settings.token.as_deref()
    }

    fn send_renewal(&mut self) {
        let Some(token) = self.settings.token.take() else {
            return;
        };
        self.last_request = self.last_request.checked_add(1).unwrap_or(1);
        let request = self.last_request;
        self.tokens.asked = Some(request);
        self.send(&ClientFrame::Renew(Renew { request, token: &token }));
        self.settings.token = Some(token);
    }

    /// Processes the server's clock in WELCOME.
    pub(super) fn welcomed_at(&mut self, server_ms: u64, now_ms: u64) {
        self.tokens.clocks = (server_ms, now_ms);
        self.renew_if_due();
    }

    fn renew_if_due(&mut self) {
        if std::mem::take(&mut self.tokens.is_due) {
            self.send_renewal();
        }
    }

    pub(super) fn renewed(&mut self, frame: &Renewed, now_ms: u64) {
        if self.tokens.is_renewal(frame.request) {
            let left_ms = self.tokens.left_ms(frame.expires_ms, now_ms);
            let expires_in_ms = (frame.expires_ms > 0).then_some(left_ms);
            self.events.push_back(Event::TokenRenewed { expires_in_ms });
            self.renew_if_due();
        }
    }

    /// Handles the server's refusal of the new token.
    pub(super) fn renewal_refused(&mut self, error: ServerError) {
        self.events.push_back(Event::TokenRefused(error));
        self.renew_if_due();
    }

    pub(super) fn token_expires(&mut self, at_ms: u64, now_ms: u64) {
        let in_ms = self.tokens.left_ms(at_ms, now_ms);
        self.tokens.is_expiring = true;
        self.events.push_back(Event::TokenExpires { in_ms });
    }

    /// Whether the server has announced the end of the token since the last call.
    pub(crate) fn take_expiry(&mut self) -> bool {
        std::mem::take(&mut self.tokens.is_expiring)
    }
}
