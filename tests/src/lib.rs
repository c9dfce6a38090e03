//! Shared parts of the end-to-end tests: a running server, and independent clients.
//!
//! The tests use the built binary only from outside: its command line, its ports, its exit codes.
//! So they depend on no crate of the server. `cargo xtask ci` installs the clients and builds the
//! binary first.
//!
//! Invariants: every wait has a deadline; every server listens on its own ports and ends with its
//! test.

#![forbid(unsafe_code)]

pub mod answers;
pub mod authority;
pub mod bench;
pub mod cable;
pub mod cluster;
pub mod curl;
pub mod event_stream;
pub mod fleet;
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
pub mod secured;
pub mod served;
pub mod server;
pub mod small_disk;
pub mod successor;
pub mod terminal;
pub mod tokens;
pub mod tools;
pub mod trial;
pub mod tunnel;
pub mod upgrading;

use std::time::Duration;

/// The time limit for events that should occur at once: generous, since a busy machine is not a
/// failure. Only a missing event takes that long.
pub const PATIENCE: Duration = Duration::from_secs(60);
