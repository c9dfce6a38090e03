//! What a judge counts. Never by user.

use crate::refusal::Refusal;
use broker::entitlement::Judged;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use wire::native::ErrorCode;

/// Counted by all I/O threads.
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

/// Counters and gauges of a judge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Credentials that entitle.
    pub accepted: u64,
    /// Credentials that were refused: wrong in any way that is not below.
    pub unauthorized: u64,
    /// Refused because they have expired.
    pub expired: u64,
    /// Refused because they were revoked.
    pub revoked: u64,
    /// Refused for the moment, because keys were not there yet.
    pub not_ready: u64,
    /// Tokens whose signature was known.
    pub cache_hits: u64,
    /// Signatures that were computed, one for each key that a token was tried with.
    pub signatures: u64,
    /// Key sets fetched, or tried to.
    pub fetches: u64,
    /// Of these: failed.
    pub fetches_failed: u64,
    /// Keys that verify tokens, now.
    pub keys: u64,
    /// API keys, now.
    pub api_keys: u64,
    /// Tokens known by their digests, now.
    pub verified_tokens: u64,
    /// Revocations in force, now.
    pub revocations: u64,
}

impl Counters {
    /// Counts a verdict.
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

// A verdict crosses no thread and is looked at once: it need not be small, but should not grow unseen.
const _: () = assert!(size_of::<Judged>() <= 80);
