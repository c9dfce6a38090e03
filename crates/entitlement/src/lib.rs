//! Authentication and authorization: turns tokens (JWT), API keys, and users with passwords into
//! entitlements, behind the interface `broker::entitlement`.
//!
//! Place: beside the path of messages. An I/O thread presents a credential when a client connects
//! or renews, and gets a decision at once; only the thread that fetches key sets waits
//! ([`refresh`]). All I/O threads share the state, so it has locks, each held briefly.
//!
//! Invariants: the algorithm belongs to the key and never comes from the token alone; malformed or
//! unknown content grants nothing; every list is bounded; no code here logs or prints a credential
//! or a key.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

pub mod algorithm;
pub mod api_keys;
pub mod authenticator;
mod cache;
pub mod claims;
mod counters;
mod handing;
pub mod https;
pub mod issue;
pub mod jwks;
pub mod keys;
pub mod notices;
pub mod password_file;
pub mod refresh;
pub mod refusal;
pub mod revocation_file;
pub mod revocations;
pub mod revoking;
mod terms;
pub mod token;
pub mod users;

pub use authenticator::{AuthenticatorSettings, TokenAuthenticator};
pub use counters::Statistics;
