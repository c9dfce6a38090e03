//! `crore upgrade`: asks a node's operators' port to hand over to its program as it is on disk now.

use super::operators::{Port, ask};
use crate::exit::Ending;
use std::io::Write;

/// Flags of `upgrade`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    port: Port,
}

/// Runs the command: prints the new process and for how long nobody was served.
///
/// # Errors
/// Nobody answers there, or why nothing came of it; the node serves on then.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    let body = serde_json::json!({});
    let answer = ask(&arguments.port, "POST", "/api/v1/upgrade", Some(&body))?;
    writeln!(std::io::stdout(), "{answer}")?;
    Ok(())
}
