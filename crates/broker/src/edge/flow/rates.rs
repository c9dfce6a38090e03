//! Rates of one connection: publications, requests, subscriptions, pings and errors.
//!
//! Step 3 of the path, behind a branch that is never taken where a rate has no limit.

use crate::admission::TooFast;
use crate::edge::Edge;
use crate::ids::ConnIndex;
use crate::protocol::flag;
use stdx::rate::Allowance;
use wire::native::{CloseCode, ErrorCode, ErrorFrame};

impl Edge {
    /// So many messages of so many bytes together are to be published, within the node's rates and
    /// that of the connection's entitlement.
    ///
    /// # Errors
    /// It is too fast; nothing of it may be published.
    pub(crate) fn take_publish(
        &mut self,
        index: ConnIndex,
        messages: u64,
        bytes: u64,
    ) -> Result<(), TooFast> {
        let own_max = self.own_publish_rate(index);
        let rates = &mut self.connections.rates;
        if rates.publish.is_none() && rates.publish_bytes.is_none() && own_max.is_none() {
            return Ok(());
        }
        let limits = &self.settings.limits;
        let node_max = Some(limits.publish_rate_max).filter(|max| *max > 0);
        let now_ms = self.now.monotonic_ms;
        let buckets = rates.buckets.entry(index).or_default();
        let too_fast = |limit: u64| move |after_ms: u64| TooFast { limit, after_ms };
        let mut taken = Ok(());
        if let Some(max) = [node_max, own_max].into_iter().flatten().min() {
            let allowance = Allowance::per_second(max.into());
            let bucket = &mut buckets.publish;
            taken = bucket.take(allowance, now_ms, messages).map_err(too_fast(max.into()));
        }
        if let (Ok(()), Some(allowance)) = (taken, rates.publish_bytes) {
            let bucket = &mut buckets.publish_bytes;
            taken = bucket
                .take(allowance, now_ms, bytes)
                .map_err(too_fast(limits.publish_bytes_rate_max));
        }
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
        let Some(allowance) = self.connections.rates.requests else {
            return Ok(());
        };
        let buckets = self.connections.rates.buckets.entry(index).or_default();
        let taken = buckets.requests.take(allowance, self.now.monotonic_ms, 1);
        taken.map_err(|_| {
            self.statistics.turned_away.requests_too_fast += 1;
            ErrorCode::RateLimited
        })
    }

    /// A session wants another subscription.
    ///
    /// # Errors
    /// It begins them too fast.
    pub(crate) fn take_subscription(&mut self, index: ConnIndex) -> Result<(), TooFast> {
        let Some(allowance) = self.connections.rates.subscribe else {
            return Ok(());
        };
        let buckets = self.connections.rates.buckets.entry(index).or_default();
        let taken = buckets.subscribe.take(allowance, self.now.monotonic_ms, 1);
        let limit = self.settings.limits.subscribe_rate_max.into();
        taken.map_err(|after_ms| {
            self.statistics.turned_away.subscriptions_too_fast += 1;
            TooFast { limit, after_ms }
        })
    }

    /// The client has sent a ping. False: one too many, and the connection is closed.
    pub(crate) fn take_ping(&mut self, index: ConnIndex) -> bool {
        let Some(allowance) = self.connections.rates.pings else {
            return true;
        };
        let buckets = self.connections.rates.buckets.entry(index).or_default();
        let taken = buckets.pings.take(allowance, self.now.monotonic_ms, 1);
        if taken.is_err() {
            self.statistics.turned_away.ping_floods += 1;
            self.close_native(index, CloseCode::ErrorFlood);
        }
        taken.is_ok()
    }

    /// Somebody has been told an error who goes at once, or was not even let in.
    pub fn count_told(&mut self, code: ErrorCode) {
        self.statistics.errors.count(code);
    }

    /// The client is told an error over HTTP. False: it had too many, and the connection is to be
    /// closed.
    pub(crate) fn take_error(&mut self, index: ConnIndex, code: ErrorCode) -> bool {
        self.statistics.errors.count(code);
        self.take_fault(index, code.temporary(), u32::from(code.number()))
    }

    /// The client is told an error in the native protocol; when it had too many, its connection is
    /// closed.
    pub(crate) fn count_error(&mut self, index: ConnIndex, error: &ErrorFrame<'_>) {
        if let Some(code) = ErrorCode::from_number(error.code.into()) {
            self.statistics.errors.count(code);
        }
        if !self.connections.slots[index].is(flag::CLOSING)
            && !self.take_fault(index, error.temporary, error.code)
        {
            self.close_native(index, CloseCode::ErrorFlood);
        }
    }

    /// What may be better a moment later is not the client's fault, unless it is too fast.
    fn take_fault(&mut self, index: ConnIndex, is_temporary: bool, code: u32) -> bool {
        let Some(allowance) = self.connections.rates.errors else {
            return true;
        };
        if is_temporary && code != u32::from(ErrorCode::RateLimited.number()) {
            return true;
        }
        let buckets = self.connections.rates.buckets.entry(index).or_default();
        let taken = buckets.errors.take(allowance, self.now.monotonic_ms, 1);
        self.statistics.turned_away.error_floods += u64::from(taken.is_err());
        taken.is_ok()
    }
}
