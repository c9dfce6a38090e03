//! How fast one connection may publish, ask and ping, and how much of what it sends may be refused.
//!
//! Place on the path: step 3, behind a branch that is never taken where a rate has no limit.
//! Invariants: only a connection that uses a rate owns buckets, until a sweep finds them full
//! again; whoever is over a rate is refused by name, and whoever floods is closed
//! ([`CloseCode::ErrorFlood`]).

use crate::ids::ConnIndex;
use crate::settings::Limits;
use std::collections::BTreeMap;
use stdx::handing::{Hand, Input, Layout};
use stdx::memory::tree_bytes;
use stdx::rate::{Allowance, Bucket};

/// What rates there are, and who has used some of them.
#[derive(Default)]
pub(crate) struct Rates {
    pub publish: Option<Allowance>,
    pub publish_bytes: Option<Allowance>,
    pub requests: Option<Allowance>,
    pub pings: Option<Allowance>,
    pub subscribe: Option<Allowance>,
    pub errors: Option<Allowance>,
    /// By the connection's index.
    pub buckets: BTreeMap<u32, Buckets>,
}

/// Of one connection.
#[derive(Default, Hand)]
pub(crate) struct Buckets {
    pub publish: Bucket,
    pub publish_bytes: Bucket,
    pub requests: Bucket,
    pub pings: Bucket,
    pub subscribe: Bucket,
    pub errors: Bucket,
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
    pub fn rest_one(&mut self, index: ConnIndex, now_ms: u64) {
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
