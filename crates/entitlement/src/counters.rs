//! The counters of the authenticator. No counter is for a single user.

use crate::refusal::Refusal;
use broker::entitlement::Judged;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use wire::native::ErrorCode;

/// Counters of all I/O threads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub accepted: AtomicU64,
    pub unauthorized: AtomicU64,
    pub expired: AtomicU64,
    pub revoked: AtomicU64,
    pub not_ready: AtomicU64,
    pub cache_hits: AtomicU64,
    pub signatures: AtomicU64,
    pub fetches: AtomicU64,
    pub fetches_failed: AtomicU64,
}

/// Counters and gauges of the authenticator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Accepted credentials.
    pub accepted: u64,
    /// Refused credentials, except those below.
    pub unauthorized: u64,
    /// Credentials refused because they have expired.
    pub expired: u64,
    /// Credentials refused because they were revoked.
    pub revoked: u64,
    /// Credentials refused temporarily because keys were missing.
    pub not_ready: u64,
    /// Tokens found in the cache of verified signatures.
    pub cache_hits: u64,
    /// Computed signatures, one for each key that a token was tried with.
    pub signatures: u64,
    /// Fetches of key sets.
    pub fetches: u64,
    /// Failed fetches.
    pub fetches_failed: u64,
    /// Present number of keys that verify tokens.
    pub keys: u64,
    /// Present number of API keys.
    pub api_keys: u64,
    /// Present number of tokens in the cache.
    pub verified_tokens: u64,
    /// Present number of revocations in force.
    pub revocations: u64,
}

impl Counters {
    /// Counts a decision.
    pub fn count(&self, verdict: Result<(), &Refusal>) {
        let counter = match verdict.map_err(Refusal::code) {
            Ok(()) => &self.accepted,
            Err(ErrorCode::TokenExpired) => &self.expired,
            Err(ErrorCode::TokenRevoked) => &self.revoked,
            Err(ErrorCode::NotReady) => &self.not_ready,
            Err(_) => &self.unauthorized,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub fn statistics(&self) -> Statistics {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        Statistics {
            accepted: of(&self.accepted),
            unauthorized: of(&self.unauthorized),
            expired: of(&self.expired),
            revoked: of(&self.revoked),
            not_ready: of(&self.not_ready),
            cache_hits: of(&self.cache_hits),
            signatures: of(&self.signatures),
            fetches: of(&self.fetches),
            fetches_failed: of(&self.fetches_failed),
            ..Statistics::default()
        }
    }
}

// A decision stays on its thread and is used at once: it need not be small, but should not grow
// unnoticed.
const _: () = assert!(size_of::<Judged>() <= 80);
