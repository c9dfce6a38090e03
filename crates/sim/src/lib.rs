//! Deterministic simulation of whole nodes on one thread.
//!
//! The real reactor runs over a simulated network, simulated mailboxes and a virtual clock, with
//! clients of every protocol; a seed determines the order and the faults. A reference model checks
//! all data that clients receive. Equal seeds give equal runs. `docs/reliability.md` lists the
//! promises that are checked here.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

pub mod client;
pub mod cluster;
pub mod covering;
pub mod disks;
pub mod entitlement;
pub mod faults;
pub mod http;
pub mod kinds;
pub mod log_thread;
mod memory;
pub mod mesh;
pub mod mqtt;
pub mod mutation;
pub mod native;
pub mod network;
pub mod oracle;
pub mod plan;
mod reloads;
pub mod resumer;
pub mod witness;
pub mod world;

pub use mutation::Mutation;
pub use plan::Scale;
pub use world::{Options, Outcome, run};
