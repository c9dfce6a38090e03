//! `crore upgrade`: asks a node's operators' port to hand over to the program now on disk.

use super::operators::{Port, ask_within};
use crate::exit::Ending;
use std::io::Write;
use std::time::Duration;

/// Flags of `upgrade`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    port: Port,
}

/// Longer than a node's own limit for an upgrade: start and configuration of the new process,
/// millions of sockets to copy, and the end (docs/decisions/0011-live-upgrade.md). The node reports
/// its own timeout first.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs the command: prints the new process, and the time without service.
///
/// # Errors
/// The operators' port does not answer, or the upgrade failed; then the node continues to serve.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    let body = serde_json::json!({});
    let request = ("POST", "/api/v1/upgrade");
    let answer = ask_within(PATIENCE, &arguments.port, request, Some(&body))?;
    writeln!(std::io::stdout(), "{answer}")?;
    Ok(())
}
