//! Who may do what: tokens (JWT) and API keys become entitlements; the judge behind the port of `broker::entitlement`.
//!
//! Place: beside the path of messages. An I/O thread shows a credential when a client connects or renews, and gets a verdict at
//! once; nothing here waits but the thread that fetches key sets ([`refresh`]). Shared by all I/O threads, so it has locks,
//! each taken for a moment.
//!
//! Invariants: the algorithm belongs to the key and is never taken from the token alone; what cannot be read, or is not known,
//! permits nothing; every list has a bound; nothing here logs or prints a credential or a key.
#![forbid(unsafe_code)]

pub mod algorithm;
pub mod api_keys;
mod cache;
pub mod claims;
mod counters;
pub mod fetch;
mod handing;
pub mod issue;
pub mod judge;
pub mod jwks;
pub mod keys;
pub mod notices;
pub mod refresh;
pub mod refusal;
pub mod revocation_file;
pub mod revocations;
pub mod revoking;
mod terms;
pub mod token;

pub use counters::Statistics;
pub use judge::{JudgeSettings, TokenJudge};
