//! What the end-to-end tests share: a running server, and clients that others wrote.
//!
//! The tests know the built binary only from outside: its command line, its ports, its exit codes.
//! So they depend on no crate of the server. `cargo xtask ci` installs the clients and builds the
//! binary first.
//!
//! Invariants: every wait has a deadline; every server listens on ports of its own and ends with
//! its test.

#![forbid(unsafe_code)]

pub mod answers;
pub mod bench;
pub mod curl;
pub mod event_stream;
pub mod hanging_disk;
pub mod hoarders;
pub mod key_set;
pub mod memory_group;
pub mod metrics;
pub mod moved;
pub mod native;
pub mod network;
pub mod process;
pub mod prometheus;
pub mod proxy;
pub mod rate;
pub mod raw;
pub mod served;
pub mod server;
pub mod small_disk;
pub mod successor;
pub mod terminal;
pub mod tokens;
pub mod tools;
pub mod tunnel;
pub mod upgrading;

use std::time::Duration;

/// How long anything may take that should happen at once: generous, since a busy machine is no
/// failure. Only what never comes is waited for so long.
pub const PATIENCE: Duration = Duration::from_secs(60);
