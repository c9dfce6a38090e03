//! How fast one connection may publish, ask and ping, and how much of what it sends may be refused.
//!
//! Place on the path: step 3, behind a branch that is never taken where a rate has no limit.
//! Invariants: only a connection that uses a rate owns buckets, until a sweep finds them full
//! again; whoever is over a rate is refused by name, and whoever floods is closed
//! ([`CloseCode::ErrorFlood`]).

use super::Edge;
use super::slots::flag;
use crate::admission::TooFast;
use crate::ids::ConnIndex;
use crate::settings::Limits;
use std::collections::BTreeMap;
use stdx::handing::{Hand, Input, Layout};
use stdx::memory::tree_bytes;
use stdx::rate::{Allowance, Bucket};
use wire::native::{CloseCode, ErrorCode, ErrorFrame};

/// What rates there are, and who has used some of them.
#[derive(Default)]
pub(crate) struct Rates {
    publish: Option<Allowance>,
    publish_bytes: Option<Allowance>,
    requests: Option<Allowance>,
    pings: Option<Allowance>,
    subscribe: Option<Allowance>,
    errors: Option<Allowance>,
    /// By the connection's index.
    buckets: BTreeMap<u32, Buckets>,
}

/// Of one connection.
#[derive(Default, Hand)]
struct Buckets {
    publish: Bucket,
    publish_bytes: Bucket,
    requests: Bucket,
    pings: Bucket,
    subscribe: Bucket,
    errors: Bucket,
}

/// Rates are in the settings; who has used some of them is handed over.
impl Hand for Rates {
    fn give(&self, out: &mut Vec<u8>) {
        self.buckets.give(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        Some(Rates { buckets: Hand::take(input)?, ..Rates::default() })
    }

    fn layout(layout: &mut Layout) {
        layout.name("Rates");
        <BTreeMap<u32, Buckets>>::layout(layout);
    }
}

impl Rates {
    pub fn new(limits: &Limits) -> Rates {
        let per_second = |units: u64| (units > 0).then(|| Allowance::per_second(units));
        let errors = u64::from(limits.errors_max);
        Rates {
            publish: per_second(limits.publish_rate_max.into()),
            publish_bytes: per_second(limits.publish_bytes_rate_max),
            requests: per_second(limits.requests_rate_max.into()),
            pings: per_second(limits.ping_rate_max.into()),
            subscribe: (limits.subscribe_rate_max > 0).then(|| {
                let at_once = limits.subscriptions_per_session_max;
                Allowance::per_second(limits.subscribe_rate_max.into()).with_more(at_once.into())
            }),
            errors: (errors > 0).then(|| Allowance::per_minute(errors)),
            buckets: BTreeMap::new(),
        }
    }

    /// Goes by other limits from now on; what has been used stays so.
    pub fn renew(&mut self, limits: &Limits) {
        let buckets = std::mem::take(&mut self.buckets);
        *self = Rates { buckets, ..Rates::new(limits) };
    }

    pub fn forget(&mut self, index: ConnIndex) {
        self.buckets.remove(&index);
    }

    /// Buckets that are full again go.
    #[inline]
    pub fn rest(&mut self, index: ConnIndex, now_ms: u64) {
        if !self.buckets.is_empty() {
            self.rest_one(index, now_ms);
        }
    }

    #[cold]
    fn rest_one(&mut self, index: ConnIndex, now_ms: u64) {
        if let Some(buckets) = self.buckets.get(&index) {
            let Buckets { publish, publish_bytes, requests, pings, subscribe, errors } = buckets;
            let all = [publish, publish_bytes, requests, pings, subscribe, errors];
            if all.iter().all(|bucket| bucket.is_full(now_ms)) {
                self.buckets.remove(&index);
            }
        }
    }

    pub fn memory_bytes(&self) -> usize {
        tree_bytes(self.buckets.len(), size_of::<(u32, Buckets)>())
    }
}

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
