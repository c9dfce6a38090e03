//! `crore token revoke`: asks a node's operators' port to revoke tokens, to take that back, or to list what was revoked.

use crate::configuration::value::parse_moment_s;
use crate::entitled::secret_of_file;
use crate::exit::Ending;
use anyhow::{Context, anyhow, bail};
use serde_json::{Map, Value};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

/// Flags of `token revoke`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub struct Arguments {
    /// The one token with this `jti`.
    #[arg(long, value_name = "ID", group = "what", conflicts_with_all = ["sub", "issued_before"])]
    jti: Option<String>,
    /// All tokens of this `sub` that were issued until now, or before --issued-before.
    #[arg(long, value_name = "NAME", group = "what")]
    sub: Option<String>,
    /// Tokens that were issued before this moment (seconds since 1970, or `2026-01-31T12:00:00Z`); without --sub, of everybody.
    #[arg(long, value_name = "MOMENT", group = "what", value_parser = parse_moment_s)]
    issued_before: Option<u32>,
    /// Take back the revocation of this number.
    #[arg(long, value_name = "NUMBER", group = "what", conflicts_with_all = ["jti", "sub", "issued_before", "ends"])]
    take_back: Option<u64>,
    /// List what was revoked.
    #[arg(long, group = "what", conflicts_with_all = ["jti", "sub", "issued_before", "ends", "take_back"])]
    list: bool,
    /// Until when it is kept; without it, until the last such token has expired.
    #[arg(long, value_name = "MOMENT", value_parser = parse_moment_s)]
    ends: Option<u32>,
    #[command(flatten)]
    port: Port,
}

/// A node's operators' port, and who asks there.
#[derive(Debug, clap::Args)]
pub struct Port {
    /// The node's operators' port.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8801")]
    url: String,
    /// An API key with operate = true, in a file; needed where the port is not of this machine.
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
}

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of an answer, at most.
const ANSWER_BYTES_MAX: u64 = 4 << 20;
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
    let texts = [("jti", &arguments.jti), ("sub", &arguments.sub)];
    for (name, text) in texts {
        if let Some(text) = text {
            body.insert(name.into(), text.as_str().into());
        }
    }
    let moments = [
        ("issued_before", arguments.issued_before),
        ("ends", arguments.ends),
    ];
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
        let page = ask(
            &arguments.port,
            "GET",
            &format!("{PATH}?after={after}"),
            None,
        )?;
        for revocation in page["revocations"].as_array().into_iter().flatten() {
            writeln!(std::io::stdout(), "{revocation}")?;
        }
        match page["next"].as_u64() {
            Some(next) if next > after => after = next,
            _ => return Ok(()),
        }
    }
}

/// Asks the port, and gives the body of its answer.
///
/// # Errors
/// Nobody answers there, or the answer is no success.
pub fn ask(port: &Port, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
    let url = &port.url;
    let authority = url
        .strip_prefix("http://")
        .ok_or_else(|| anyhow!("{url} is no address of an operators' port (http://...)"))?;
    let authority = authority.trim_end_matches('/');
    let mut stream =
        TcpStream::connect(authority).with_context(|| format!("no node answers at {url}"))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request =
        format!("{method} {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n");
    if let Some(file) = &port.api_key_file {
        let key = secret_of_file(file).map_err(|problem| anyhow!(problem))?;
        let key = std::str::from_utf8(&key).ok().filter(|key| {
            // Nothing that would begin another field.
            key.bytes().all(|byte| byte.is_ascii_graphic())
        });
        let key = key.ok_or_else(|| anyhow!("{} holds no API key", file.display()))?;
        request.push_str(&format!("Authorization: Bearer {key}\r\n"));
    }
    let body = body.map(Value::to_string).unwrap_or_default();
    if !body.is_empty() {
        let bytes = body.len();
        request.push_str(&format!(
            "Content-Type: application/json\r\nContent-Length: {bytes}\r\n"
        ));
    }
    stream.write_all(format!("{request}\r\n{body}").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or("");
    let value: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    if !matches!(status, "200" | "201" | "202" | "204") {
        let text = value["detail"].as_str().or(value["status"].as_str());
        let detail = text.unwrap_or("it is no node's answer");
        bail!("{url} answers {status}: {detail}");
    }
    Ok(value)
}
