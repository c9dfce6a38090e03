//! `lab`: experiments with the node, beside other programs and in parts.
//!
//! Place: outside of the product, for the figures in `docs/performance.md` and
//! `docs/benchmarks.md`. Each experiment is a subcommand in a module of its own. Load comes from
//! `bench` where an experiment speaks the native protocol; [`process`] starts and measures servers.
//!
//! ```text
//! cargo build --release -p crore -p lab
//! target/release/lab --help
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

mod decisions;
mod deflate;
mod drain;
mod floor;
mod handshakes;
mod idle;
mod packets;
mod pairs;
mod peers;
mod process;
mod store_start;
mod streams;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use rustix::time::{ClockId, clock_gettime};

/// Experiments for the documentation's figures
#[derive(Debug, Parser)]
#[command(name = "lab")]
enum Experiment {
    /// Run the floor: a server that only receives and sends
    Floor(floor::Options),
    /// Compare the node with the floor, in alternating pairs
    Pairs(pairs::Options),
    /// Compare the node with other servers
    Peers(peers::Options),
    /// Drain a node under load, and check that every client returns without a gap
    Drain(drain::Options),
    /// CPU time of a packet by AF_XDP, TUN and shared memory (root only)
    Packets(packets::Options),
    /// A stream over a bad line, by the kernel's TCP and by our own (root only)
    Streams(streams::Options),
    /// Memory of idle connections, without sockets
    Idle(idle::Options),
    /// CPU time of TLS handshakes
    Handshakes(handshakes::Options),
    /// CPU time of decisions about tokens
    Decisions,
    /// Size, CPU time and memory of compression
    Deflate(deflate::Options),
    /// Time to open a durable log
    StoreStart(store_start::Options),
}

fn main() -> anyhow::Result<ExitCode> {
    match Experiment::parse() {
        Experiment::Floor(options) => floor::run(&options)?,
        Experiment::Pairs(options) => return pairs::run(&options),
        Experiment::Peers(options) => return peers::run(options),
        Experiment::Drain(options) => drain::run(&options)?,
        Experiment::Packets(options) => packets::run(&options)?,
        Experiment::Streams(options) => streams::run(&options),
        Experiment::Idle(options) => idle::run(&options)?,
        Experiment::Handshakes(options) => handshakes::run(&options)?,
        Experiment::Decisions => decisions::run(),
        Experiment::Deflate(options) => deflate::run(&options)?,
        Experiment::StoreStart(options) => store_start::run(&options)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The median; 0 without values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match (values.len(), values.len() / 2) {
        (0, _) => 0.0,
        (count, middle) if count % 2 == 1 => values[middle],
        (_, middle) => (values[middle - 1] + values[middle]) / 2.0,
    }
}

/// CPU time of the calling thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Anonymous memory of this process, in bytes.
fn anonymous_bytes() -> u64 {
    let figures = bench::run::ProcessFigures::read(std::process::id());
    figures.and_then(|figures| figures.anonymous_bytes).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_values() {
        assert_eq!(super::median(vec![4.0, 1.0]), 2.5);
        assert_eq!(super::median(vec![4.0, 1.0, 2.0]), 2.0);
        assert_eq!(super::median(Vec::new()), 0.0);
    }
}
