//! `crore bench`: load with open loops, verification of every stream, and figures over all
//! messages.
//!
//! Place: outside of the server, beside any other client. Workers share nothing: each thread has
//! its own descriptor table, network, receive buffer, connections and histograms; the report merges
//! them.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

pub mod audit;
pub mod choice;
pub mod command;
pub mod control;
pub mod engine;
pub mod ledger_file;
pub mod machine;
pub mod pacing;
pub mod pattern;
pub mod payload;
pub mod report;
pub mod run;
pub mod source;
pub mod spans;
pub mod statistics;
pub mod tokens;
pub mod units;
pub mod verify;

pub use command::{BenchCommand, run};
