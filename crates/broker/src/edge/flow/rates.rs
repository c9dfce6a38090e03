//! Rates: publications, requests, subscriptions, pings and errors of a connection count against
//! their limits, and refusals are counted.
//!
//! Step 3 of the path, behind a branch that is never taken where a rate has no limit. Invariant: a
//! client that is over a rate is refused by name, and one that floods is closed
//! ([`CloseCode::ErrorFlood`]).

use crate::admission::TooFast;
use crate::edge::Edge;
use crate::ids::ConnIndex;
use crate::protocol::flag;
use wire::native::{CloseCode, ErrorCode};

impl Edge {
    /// The connection publishes so many messages of so many bytes together, within the node's rates
    /// and that of the connection's entitlement.
    ///
    /// # Errors
    /// The connection is too fast; none of them may be published.
    pub(crate) fn take_publish(
        &mut self,
        index: ConnIndex,
        messages: u64,
        bytes: u64,
    ) -> Result<(), TooFast> {
        let own_max = self.own_publish_rate(index);
        let (limits, now_ms) = (&self.settings.limits, self.now.monotonic_ms);
        let rates = &mut self.connections.rates;
        let taken = rates.take_publish(index, (messages, bytes), own_max, limits, now_ms);
        if taken.is_err() {
            self.statistics.turned_away.publishes_too_fast += messages;
        }
        taken
    }

    /// An HTTP request has come.
    ///
    /// # Errors
    /// One too many.
    pub(crate) fn take_request(&mut self, index: ConnIndex) -> Result<(), ErrorCode> {
        if self.connections.rates.take_request(index, self.now.monotonic_ms) {
            Ok(())
        } else {
            self.statistics.turned_away.requests_too_fast += 1;
            Err(ErrorCode::RateLimited)
        }
    }

    /// A session begins another subscription.
    ///
    /// # Errors
    /// The session begins them too fast.
    pub(crate) fn take_subscription(&mut self, index: ConnIndex) -> Result<(), TooFast> {
        let (limits, now_ms) = (&self.settings.limits, self.now.monotonic_ms);
        let taken = self.connections.rates.take_subscription(index, limits, now_ms);
        self.statistics.turned_away.subscriptions_too_fast += u64::from(taken.is_err());
        taken
    }

    /// The client has sent a ping. False: one too many, and the connection is closed.
    pub(crate) fn take_ping(&mut self, index: ConnIndex) -> bool {
        let is_taken = self.connections.rates.take_ping(index, self.now.monotonic_ms);
        if !is_taken {
            self.statistics.turned_away.ping_floods += 1;
            self.close_native(index, CloseCode::ErrorFlood);
        }
        is_taken
    }

    /// Counts an error to a client that goes at once, or was not even let in.
    pub fn count_code(&mut self, code: ErrorCode) {
        self.statistics.errors.count(code);
    }

    /// The client gets an error over HTTP. False: it had too many, and the connection is to be
    /// closed.
    pub(crate) fn take_error(&mut self, index: ConnIndex, code: ErrorCode) -> bool {
        self.statistics.errors.count(code);
        self.take_fault(index, code)
    }

    /// The client gets an error in the native protocol; when it had too many, its connection is
    /// closed.
    pub(crate) fn count_error(&mut self, index: ConnIndex, code: ErrorCode) {
        self.statistics.errors.count(code);
        if !self.connections.slots[index].is(flag::CLOSING) && !self.take_fault(index, code) {
            self.close_native(index, CloseCode::ErrorFlood);
        }
    }

    fn take_fault(&mut self, index: ConnIndex, code: ErrorCode) -> bool {
        let (is_temporary, number) = (code.temporary(), u32::from(code.number()));
        let now_ms = self.now.monotonic_ms;
        let is_taken = self.connections.rates.take_error(index, is_temporary, number, now_ms);
        self.statistics.turned_away.error_floods += u64::from(!is_taken);
        is_taken
    }
}
