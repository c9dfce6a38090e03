//! `crore token revoke`: asks a node's operators' port to revoke tokens, to take that back, or to list what was revoked.

use super::operators::{Port, ask};
use crate::configuration::value::parse_moment_s;
use crate::exit::Ending;
use serde_json::{Map, Value};
use std::io::Write;

/// Flags of `token revoke`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub struct Arguments {
    /// The one token with this `jti`.
    #[arg(long, value_name = "ID", group = "what", conflicts_with_all = ["sub", "issued_before", "key"])]
    jti: Option<String>,
    /// All tokens of this `sub` that were issued until now, or before --issued-before.
    #[arg(long, value_name = "NAME", group = "what")]
    sub: Option<String>,
    /// Of --sub: the tokens of this `iss` alone.
    #[arg(long, value_name = "NAME", requires = "sub")]
    issuer: Option<String>,
    /// All that this key has signed, by its name (`kid`) or, of a key without one, its thumbprint (`crore token check` shows both).
    #[arg(long, value_name = "KID", group = "what", conflicts_with_all = ["sub", "issued_before"])]
    key: Option<String>,
    /// Tokens that were issued before this moment (seconds since 1970, or `2026-01-31T12:00:00Z`); without --sub, of everybody.
    #[arg(long, value_name = "MOMENT", group = "what", value_parser = parse_moment_s)]
    issued_before: Option<u32>,
    /// Take back the revocation of this number.
    #[arg(long, value_name = "NUMBER", group = "what", conflicts_with_all = ["jti", "sub", "key", "issued_before", "ends"])]
    take_back: Option<u64>,
    /// List what was revoked.
    #[arg(long, group = "what", conflicts_with_all = ["jti", "sub", "key", "issued_before", "ends", "take_back"])]
    list: bool,
    /// Until when it is kept; without it, until the last such token has expired, and of --key for ever.
    #[arg(long, value_name = "MOMENT", value_parser = parse_moment_s)]
    ends: Option<u32>,
    #[command(flatten)]
    port: Port,
}

/// Where revocations are.
const PATH: &str = "/api/v1/revocations";

/// Runs the command.
///
/// # Errors
/// Nobody answers there, or the node says no.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    if arguments.list {
        return list(arguments);
    }
    if let Some(number) = arguments.take_back {
        ask(&arguments.port, "DELETE", &format!("{PATH}/{number}"), None)?;
        return Ok(());
    }
    let mut body = Map::new();
    let texts = [
        ("jti", &arguments.jti),
        ("sub", &arguments.sub),
        ("iss", &arguments.issuer),
        ("kid", &arguments.key),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            body.insert(name.into(), text.as_str().into());
        }
    }
    let moments = [("issued_before", arguments.issued_before), ("ends", arguments.ends)];
    for (name, moment_s) in moments {
        if let Some(moment_s) = moment_s {
            body.insert(name.into(), moment_s.into());
        }
    }
    let answer = ask(&arguments.port, "POST", PATH, Some(&Value::from(body)))?;
    writeln!(std::io::stdout(), "{answer}")?;
    Ok(())
}

fn list(arguments: &Arguments) -> Result<(), Ending> {
    let mut after = 0;
    loop {
        let page = ask(&arguments.port, "GET", &format!("{PATH}?after={after}"), None)?;
        for revocation in page["revocations"].as_array().into_iter().flatten() {
            writeln!(std::io::stdout(), "{revocation}")?;
        }
        match page["next"].as_u64() {
            Some(next) if next > after => after = next,
            _ => return Ok(()),
        }
    }
}
