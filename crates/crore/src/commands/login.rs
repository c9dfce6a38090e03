//! `crore login`: a link by which a browser logs in at the operators' page, for operators who have no API key.

use super::operators::{Port, ask};
use crate::exit::Ending;
use anyhow::Context;
use std::io::Write;

/// Flags of `login`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    port: Port,
}

/// Runs the command: prints the link.
///
/// # Errors
/// Nobody answers there, or the node asks for a key.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    let body = serde_json::json!({});
    let answer = ask(&arguments.port, "POST", "/api/v1/session/link", Some(&body))?;
    let url = answer["url"].as_str().context("the node has sent no link")?;
    writeln!(std::io::stdout(), "{url}")?;
    Ok(())
}
