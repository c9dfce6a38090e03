//! Rates of one connection: publications, requests, subscriptions, pings and refusals.
//!
//! Invariant: only a connection that uses a rate owns buckets, until a sweep finds them full again.

use crate::admission::TooFast;
use crate::ids::ConnIndex;
use crate::settings::Limits;
use std::collections::BTreeMap;
use stdx::handing::{Hand, Input, Layout};
use stdx::memory::tree_bytes;
use stdx::rate::{Allowance, Bucket};
use wire::native::ErrorCode;

/// The rates that have a limit, and what connections have used of them.
#[derive(Default)]
pub(crate) struct Rates {
    publish: Option<Allowance>,
    publish_bytes: Option<Allowance>,
    requests: Option<Allowance>,
    pings: Option<Allowance>,
    subscribe: Option<Allowance>,
    errors: Option<Allowance>,
    buckets: BTreeMap<ConnIndex, Buckets>,
}

/// The buckets of one connection.
#[derive(Default, Hand)]
struct Buckets {
    publish: Bucket,
    publish_bytes: Bucket,
    requests: Bucket,
    pings: Bucket,
    subscribe: Bucket,
    errors: Bucket,
}

/// Rates are in the settings; what connections have used of them is handed over.
impl Hand for Rates {
    fn give(&self, out: &mut Vec<u8>) {
        self.buckets.give(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        Some(Rates { buckets: Hand::take(input)?, ..Rates::default() })
    }

    fn layout(layout: &mut Layout) {
        layout.name("Rates");
        <BTreeMap<ConnIndex, Buckets>>::layout(layout);
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

    /// Applies new limits; the used part of each bucket stays used.
    pub fn renew(&mut self, limits: &Limits) {
        let buckets = std::mem::take(&mut self.buckets);
        *self = Rates { buckets, ..Rates::new(limits) };
    }

    /// Takes from the rates for so many messages of so many bytes together; `own_max` is the rate
    /// of the connection's entitlement.
    ///
    /// # Errors
    /// The connection publishes too fast; none of the messages may be published.
    #[inline]
    pub fn take_publish(
        &mut self,
        index: ConnIndex,
        (messages, bytes): (u64, u64),
        own_max: Option<u32>,
        limits: &Limits,
        now_ms: u64,
    ) -> Result<(), TooFast> {
        if self.publish.is_none() && self.publish_bytes.is_none() && own_max.is_none() {
            return Ok(());
        }
        let node_max = Some(limits.publish_rate_max).filter(|max| *max > 0);
        let buckets = self.buckets.entry(index).or_default();
        let too_fast = |limit: u64| move |after_ms: u64| TooFast { limit, after_ms };
        if let Some(max) = [node_max, own_max].into_iter().flatten().min() {
            let allowance = Allowance::per_second(max.into());
            let taken = buckets.publish.take(allowance, now_ms, messages);
            taken.map_err(too_fast(max.into()))?;
        }
        if let Some(allowance) = self.publish_bytes {
            let taken = buckets.publish_bytes.take(allowance, now_ms, bytes);
            taken.map_err(too_fast(limits.publish_bytes_rate_max))?;
        }
        Ok(())
    }

    /// Takes from the rate of HTTP requests. False: one too many.
    #[inline]
    pub fn take_request(&mut self, index: ConnIndex, now_ms: u64) -> bool {
        let taken = self.requests.map(|allowance| {
            self.buckets.entry(index).or_default().requests.take(allowance, now_ms, 1)
        });
        taken.is_none_or(|taken| taken.is_ok())
    }

    /// Takes from the rate of a session's new subscriptions.
    ///
    /// # Errors
    /// The session begins them too fast.
    #[inline]
    pub fn take_subscription(
        &mut self,
        index: ConnIndex,
        limits: &Limits,
        now_ms: u64,
    ) -> Result<(), TooFast> {
        let Some(allowance) = self.subscribe else {
            return Ok(());
        };
        let buckets = self.buckets.entry(index).or_default();
        let limit = limits.subscribe_rate_max.into();
        let taken = buckets.subscribe.take(allowance, now_ms, 1);
        taken.map_err(|after_ms| TooFast { limit, after_ms })
    }

    /// Takes from the rate of pings. False: one too many.
    #[inline]
    pub fn take_ping(&mut self, index: ConnIndex, now_ms: u64) -> bool {
        let taken = self.pings.map(|allowance| {
            self.buckets.entry(index).or_default().pings.take(allowance, now_ms, 1)
        });
        taken.is_none_or(|taken| taken.is_ok())
    }

    /// Takes from the rate of errors. False: one too many. An error that may be over a moment later
    /// is not the client's fault, unless the client is too fast.
    pub fn take_error(
        &mut self,
        index: ConnIndex,
        is_temporary: bool,
        code: u32,
        now_ms: u64,
    ) -> bool {
        let Some(allowance) = self.errors else {
            return true;
        };
        if is_temporary && code != u32::from(ErrorCode::RateLimited.number()) {
            return true;
        }
        let buckets = self.buckets.entry(index).or_default();
        buckets.errors.take(allowance, now_ms, 1).is_ok()
    }

    /// Releases the buckets of a connection that goes.
    pub fn release(&mut self, index: ConnIndex) {
        self.buckets.remove(&index);
    }

    /// Releases the buckets of a connection when they are full again.
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
        tree_bytes(self.buckets.len(), size_of::<(ConnIndex, Buckets)>())
    }
}
