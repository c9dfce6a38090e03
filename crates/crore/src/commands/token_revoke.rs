//! `crore token revoke`: asks a node's operators' port to revoke tokens, to cancel a revocation, or
//! to list the revocations.

use super::operators::{Port, ask};
use crate::configuration::value::parse_moment_s;
use crate::exit::Ending;
use serde_json::{Map, Value};
use std::io::Write;

/// Flags of `token revoke`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub struct Arguments {
    /// Revoke the token with this `jti`.
    #[arg(long, value_name = "ID", group = "what", conflicts_with_all = ["sub", "issued_before", "key"])]
    jti: Option<String>,
    /// Revoke all tokens of this `sub` that were issued before now, or before --issued-before.
    #[arg(long, value_name = "NAME", group = "what")]
    sub: Option<String>,
    /// With --sub: revoke only tokens of this `iss`.
    #[arg(long, value_name = "NAME", requires = "sub")]
    issuer: Option<String>,
    /// Revoke all tokens that this key has signed: its name (`kid`), or the thumbprint of a key
    /// without one. `crore token check` prints both.
    #[arg(long, value_name = "KID", group = "what", conflicts_with_all = ["sub", "issued_before"])]
    key: Option<String>,
    /// Revoke tokens issued before this moment (seconds since 1970, or `2026-01-31T12:00:00Z`).
    /// Without --sub, this applies to all subjects.
    #[arg(long, value_name = "MOMENT", group = "what", value_parser = parse_moment_s)]
    issued_before: Option<u32>,
    /// Cancel the revocation with this number.
    #[arg(long, value_name = "NUMBER", group = "what", conflicts_with_all = ["jti", "sub", "key", "issued_before", "ends"])]
    take_back: Option<u64>,
    /// List the revocations.
    #[arg(long, group = "what", conflicts_with_all = ["jti", "sub", "key", "issued_before", "ends", "take_back"])]
    list: bool,
    /// Moment at which the node deletes the revocation. By default, when the last revoked token has
    /// expired; a revocation with --key stays forever.
    #[arg(long, value_name = "MOMENT", value_parser = parse_moment_s)]
    ends: Option<u32>,
    #[command(flatten)]
    port: Port,
}

/// Path of the revocations.
const PATH: &str = "/api/v1/revocations";

/// Runs the command.
///
/// # Errors
/// The operators' port does not answer, or the node refuses.
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
