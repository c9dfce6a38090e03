//! `crore upgrade`: asks a node's operators' port to hand over to its program as it is on disk now.

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

/// Longer than a node gives any upgrade: a new process that reads its configuration, millions of sockets to copy, and the end
/// (docs/decisions/0011-live-upgrade.md). The node's own word on why it took too long comes before.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs the command: prints the new process and for how long nobody was served.
///
/// # Errors
/// Nobody answers there, or why nothing came of it; the node serves on then.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    let body = serde_json::json!({});
    let request = ("POST", "/api/v1/upgrade");
    let answer = ask_within(PATIENCE, &arguments.port, request, Some(&body))?;
    writeln!(std::io::stdout(), "{answer}")?;
    Ok(())
}
