//! `crore health`: checks whether a node is ready, for containers without another HTTP client.

use super::operators::{Port, ask};
use crate::exit::Ending;
use std::io::Write;

/// Flags of `health`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    port: Port,
}

/// Runs the command: exit code 0 if the node is ready, else 1.
///
/// # Errors
/// The operators' port does not answer, or the node is not ready.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    let health = ask(&arguments.port, "GET", "/healthz", None)?;
    let text = |name: &str| health[name].as_str().unwrap_or("").to_owned();
    let (status, node, version) = (text("status"), text("node"), text("version"));
    let uptime_s = health["uptime_s"].as_u64().unwrap_or(0);
    let line = format!("{status}: node \"{node}\", version {version}, up for {uptime_s} s");
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}
