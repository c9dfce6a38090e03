//! `crore login`: prints a link that logs a browser in to the operators' page, for operators
//! without an API key.

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
/// The operators' port does not answer, or the node requires an API key.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    let body = serde_json::json!({});
    let answer = ask(&arguments.port, "POST", "/api/v1/session/link", Some(&body))?;
    let url = answer["url"].as_str().context("the node returned no link")?;
    writeln!(std::io::stdout(), "{url}")?;
    Ok(())
}
