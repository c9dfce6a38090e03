//! The counters of the authenticator. No counter is for a single user.

use crate::refusal::Refusal;
use broker::entitlement::Decision;
use std::sync::atomic::Ordering::Relaxed;
use stdx::metrics::Metrics;
use wire::native::ErrorCode;

/// Counters and gauges of the authenticator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, stdx::Counters, Metrics)]
#[counters(shared = Counters)]
pub struct Statistics {
    /// Accepted credentials.
    pub accepted: u64,
    /// Refused credentials, except those below.
    pub unauthorized: u64,
    /// Credentials refused because they have expired.
    pub expired: u64,
    /// Credentials refused because they were revoked.
    pub revoked: u64,
    /// Credentials refused temporarily because keys or the cluster's revocations were missing.
    pub not_ready: u64,
    /// Tokens whose signature was in the cache of verified signatures.
    #[metric("crore_token_cache_hits_total")]
    pub cache_hits: u64,
    /// Tokens whose signature was verified by computation.
    #[metric("crore_token_signatures_total")]
    pub signatures: u64,
    /// Passwords of known users whose hash was computed.
    #[metric("crore_password_hashes_total")]
    pub password_hashes: u64,
    /// Passwords that were accepted before, so that their hash was not computed.
    #[metric("crore_password_cache_hits_total")]
    pub password_cache_hits: u64,
    /// Fetches of the issuer's key set.
    #[metric("crore_key_set_fetches_total")]
    pub fetches: u64,
    /// Failed fetches of the issuer's key set; the current keys stay in use.
    #[metric("crore_key_set_fetches_failed_total")]
    pub fetches_failed: u64,
    /// Keys that verify tokens.
    #[metric("crore_token_keys")]
    pub keys: u64,
    /// API keys.
    #[metric("crore_api_keys")]
    pub api_keys: u64,
    /// Users with passwords.
    #[metric("crore_password_users")]
    pub users: u64,
    /// Tokens in the cache of verified signatures.
    #[metric("crore_verified_tokens")]
    pub verified_tokens: u64,
    /// Revocations in force.
    #[metric("crore_revocations")]
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
}

// A decision stays on its thread and is used at once: it need not be small, but should not grow
// unnoticed.
const _: () = assert!(size_of::<Decision>() <= 80);
