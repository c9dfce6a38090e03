//! A node: the reactor over a network, mailboxes between shards, and their wiring into threads.
//!
//! The binary runs it on kernel sockets ([`start`]); the simulator runs [`reactor::Reactor`] on its
//! own network, mailboxes and clock.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

pub mod admission;
mod age_clock;
mod asker;
mod authenticating;
pub mod door;
pub mod engine;
mod engine_thread;
pub mod engine_worker;
mod fail;
pub mod inspection;
mod io_thread;
pub mod journal;
mod log_thread;
pub mod logs;
pub mod mailbox;
mod memory;
mod options;
mod orders;
pub mod pressure;
pub mod proxied;
pub mod reactor;
mod report;
pub mod restore;
mod running;
mod slow_decisions;
pub mod timing;
pub mod upgrade;
pub mod users;
mod vital;

pub use log_thread::{LogError, Troubles};
pub use options::{NodeOptions, ProxyOptions, StartError, TlsOptions};
pub use running::{DoorStatistics, IO_THREADS_END, Node, NodeStatistics, start};
