//! `crore cluster`: several nodes on an engine. Its demo runs all of them on this machine.
//!
//! The demo needs the cargo feature `engine`; a program without it names the feature.

#[cfg(feature = "engine")]
mod audit;
#[cfg(feature = "engine")]
mod demo;
#[cfg(feature = "engine")]
mod machines;
#[cfg(feature = "engine")]
mod traffic;
#[cfg(feature = "engine")]
mod view;

use crate::exit::Ending;
use std::path::PathBuf;

/// Arguments of `cluster`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Run three brokers of Apache Kafka and three nodes on this machine, with publishers and
    /// subscribers, and count every message. Keys kill and restart brokers and nodes. Without a
    /// terminal it follows a fixed schedule of kills. The exit code is 1 if a message was lost,
    /// delivered twice or out of order, or if a subscriber got a gap. It needs Java 17, three
    /// gigabytes of memory, and Kafka's jars.
    Demo(DemoArguments),
}

/// Arguments of `cluster demo`.
#[derive(Debug, clap::Args)]
pub struct DemoArguments {
    /// Folder with the jars of Apache Kafka 4: the folder `libs` of its archive, or the one that
    /// `cargo xtask kafka --fetch` fills.
    #[arg(long, value_name = "FOLDER", default_value = "target/foreign/kafka/jars")]
    pub jars: PathBuf,
    /// Publications of all publishers together, a second.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=5_000))]
    pub rate: u64,
    /// Follow the schedule on a terminal, too.
    #[arg(long)]
    pub scheduled: bool,
}

/// Runs the command.
///
/// # Errors
/// Java or the jars are missing, a broker or a node does not start, or the audit found a fault.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    let What::Demo(arguments) = &arguments.what;
    run_demo(arguments)
}

#[cfg(feature = "engine")]
fn run_demo(arguments: &DemoArguments) -> Result<(), Ending> {
    demo::run(arguments)
}

#[cfg(not(feature = "engine"))]
fn run_demo(_: &DemoArguments) -> Result<(), Ending> {
    Err(crate::engine_client::missing())
}
