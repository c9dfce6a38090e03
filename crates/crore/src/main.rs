//! The binary: command line, configuration, the operators' port, signals. Everything that serves
//! messages is behind `node`; everything that speaks to a node is behind `client` and `bench`.
//!
//! Exit codes: 0 done, 1 failed, 2 usage, 78 configuration, 130 and 143 ended by SIGINT and
//! SIGTERM.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

mod admin;
mod budget;
mod cli;
mod cluster;
mod commands;
mod configuration;
mod doctor;
mod draining;
mod engine_client;
mod entitled;
mod exit;
mod flags;
mod journal;
mod logging;
mod memory_ceiling;
mod metrics;
mod mosquitto;
mod mosquitto_figures;
mod operators_socket;
mod plan;
mod private_files;
mod process;
mod reload;
mod reloaded;
mod service_manager;
mod shortages;
mod signals;
mod sockets;
mod statistics_history;
mod sys_statistics;
mod terminal;
mod ticket_keys;
mod tls_files;
mod upgrade;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Before any thread exists: threads inherit that signals are blocked; one thread waits for
    // those that end the process.
    signals::block();
    // A usage error ends here with exit code 2, help with 0.
    let arguments = cli::Arguments::parse();
    match commands::run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(ending) => ending.report(),
    }
}
