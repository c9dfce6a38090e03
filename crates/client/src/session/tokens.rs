//! Tokens that expire: told ahead, renewed over the live connection.
//!
//! Place: beside the tickets. The session does not know where tokens come from; its owner gives it
//! a new one when told that the old one expires, and each further connection shows the newest.

use wire::native::{ClientFrame, Renew, Renewed};

use super::event::{Event, ServerError};
use super::{Phase, Session};

/// The renewal that is under way.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    asked: Option<u32>,
    /// A newer token came after HELLO had shown the one before, or while a renewal is under way: it
    /// is shown next.
    is_due: bool,
    /// The server's clock when ours stood at the second.
    clocks: (u64, u64),
}

impl Tokens {
    pub(super) fn connection_lost(&mut self) {
        self.asked = None;
        self.is_due = false;
    }

    /// Whether an error is about our renewal, which it ends.
    pub(super) fn is_renewal(&mut self, request: u32) -> bool {
        self.asked.take_if(|asked| *asked == request).is_some()
    }

    /// How long until the server's clock stands at a time.
    fn left_ms(&self, at_ms: u64, now_ms: u64) -> u64 {
        let (server_ms, then_ms) = self.clocks;
        let server_now_ms = server_ms.saturating_add(now_ms.saturating_sub(then_ms));
        at_ms.saturating_sub(server_now_ms)
    }
}

impl Session {
    /// Goes on with a new token: at once if there is a connection ([`Event::TokenRenewed`] or
    /// [`Event::TokenRefused`] follows), and on every further one. It has to be of the same
    /// subject.
    pub fn renew(&mut self, token: String) {
        self.settings.token = Some(token);
        match self.phase {
            Phase::Ready if self.tokens.asked.is_none() => self.send_renewal(),
            // One at a time.
            Phase::Ready | Phase::Greeting => self.tokens.is_due = true,
            Phase::Offline | Phase::Upgrading | Phase::Closing => {}
        }
    }

    /// The token that the next connection shows.
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

    /// WELCOME has come; the server's clock stood at `server_ms`.
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

    /// The server does not take the token that it was shown.
    pub(super) fn renewal_refused(&mut self, error: ServerError) {
        self.events.push_back(Event::TokenRefused(error));
        self.renew_if_due();
    }

    pub(super) fn token_expires(&mut self, at_ms: u64, now_ms: u64) {
        let in_ms = self.tokens.left_ms(at_ms, now_ms);
        self.events.push_back(Event::TokenExpires { in_ms });
    }
}
