//! Requests to a running node's operators' port, for commands that inspect or control a node.
//!
//! A node on this machine is reached through its operators' socket, if there is one; then no key is
//! needed. Invariants: an API key comes from a file and is sent only in its header field; the size
//! of an answer is bounded, and so is the time until it is complete.

use crate::entitled::secret_of_file;
use crate::operators_socket;
use anyhow::{Context, anyhow, bail};
use fetch::{Request, Timed};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Maximum time to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum size of an answer in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// A node's operators' port, and the API key for it.
#[derive(Debug, clap::Args)]
pub struct Port {
    /// URL of the node's operators' port, or unix:PATH of its operators' socket. The socket of a
    /// node on this machine is found automatically.
    #[arg(
        long = "operators",
        visible_alias = "url",
        value_name = "URL",
        env = "CRORE_OPERATORS",
        default_value = "http://127.0.0.1:8801"
    )]
    url: String,
    /// File with an API key that has operate = true. It is required if the operators' socket cannot
    /// be used.
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
}

impl Port {
    /// The port of a node on this machine, which needs no key.
    pub fn here(url: &str) -> Port {
        Port { url: url.into(), api_key_file: None }
    }

    /// Sends a request without a body, and returns the answer.
    ///
    /// # Errors
    /// The operators' port does not answer, or the answer is an error.
    pub fn ask(&self, method: &str, path: &str) -> anyhow::Result<Value> {
        ask(self, method, path, None)
    }
}

/// Sends a request with an optional body, and returns the body of the answer, or null if it is
/// empty.
///
/// # Errors
/// The operators' port does not answer, or the answer is an error.
pub fn ask(port: &Port, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
    ask_within(PATIENCE, port, (method, path), body)
}

/// Sends a request like [`ask`], for slow actions: the answer has to come within `patience`.
///
/// # Errors
/// The errors of [`ask`].
pub fn ask_within(
    patience: Duration,
    port: &Port,
    (method, path): (&str, &str),
    body: Option<&Value>,
) -> anyhow::Result<Value> {
    let url = &port.url;
    let mut stream = connect(port, patience)?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut fields = Vec::new();
    if !body.is_empty() {
        fields.push(("Content-Type", "application/json"));
    }
    let authorization;
    if let Some(file) = &port.api_key_file {
        let key = secret_of_file(file).map_err(|problem| anyhow!(problem))?;
        let key = std::str::from_utf8(&key).ok().filter(|key| {
            // A line break would begin another header field.
            key.bytes().all(|byte| byte.is_ascii_graphic())
        });
        let key = key.ok_or_else(|| anyhow!("{} contains no API key", file.display()))?;
        authorization = format!("Bearer {key}");
        fields.push(("Authorization", &authorization));
    }
    let request = Request {
        method,
        authority: url.strip_prefix("http://").unwrap_or("localhost").trim_end_matches('/'),
        target: path,
        fields: &fields,
        body: body.as_bytes(),
    };
    let answer = request.send(&mut stream, ANSWER_BYTES_MAX).map_err(|error| match error {
        fetch::Error::TimedOut => {
            anyhow!("{url} did not answer within {patience:?}; it may still carry out the request")
        }
        _ => anyhow::Error::new(error).context(format!("{url} did not answer")),
    })?;
    let status = answer.status;
    let value: Value = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
    if !matches!(status, 200 | 201 | 202 | 204) {
        let text = value["detail"].as_str().or(value["status"].as_str());
        let detail = text.unwrap_or("the answer is not a node's");
        bail!("{url} answers {status}: {detail}");
    }
    Ok(value)
}

/// A connection to a node.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// Connects to the given socket, or to the socket of a port on this machine if no key is given;
/// else to the port.
fn connect(port: &Port, patience: Duration) -> anyhow::Result<Box<dyn Stream>> {
    let url = &port.url;
    let nobody = || format!("no node answers at {url}");
    let by_socket = |stream: UnixStream| -> Box<dyn Stream> {
        Box::new(Timed { stream, deadline: Instant::now() + patience })
    };
    if let Some(path) = url.strip_prefix("unix:") {
        return Ok(by_socket(UnixStream::connect(path).with_context(nobody)?));
    }
    let authority = url.strip_prefix("http://").ok_or_else(|| {
        anyhow!("{url} is not an address of an operators' port (http://... or unix:...)")
    })?;
    let authority = authority.trim_end_matches('/');
    let addresses: Vec<SocketAddr> = authority.to_socket_addrs().with_context(nobody)?.collect();
    if port.api_key_file.is_none()
        && let Some(here) = addresses.iter().find(|address| address.ip().is_loopback())
        && let Some(stream) = operators_socket::connect(here.port())
    {
        return Ok(by_socket(stream));
    }
    let connected = fetch::connect(authority, &addresses[..], Instant::now() + PATIENCE);
    let stream = connected.with_context(nobody)?.stream;
    Ok(Box::new(Timed { stream, deadline: Instant::now() + patience }))
}

/// Encodes a text for a query string.
pub fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_answer_in_time_is_named() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port =
            Port { url: format!("http://{}", silent.local_addr().unwrap()), api_key_file: None };
        let mut patience = Duration::from_millis(20);
        let text = loop {
            let error = ask_within(patience, &port, ("GET", "/"), None).unwrap_err();
            let text = format!("{error:#}");
            // A busy machine may take longer to connect.
            if !text.contains("no node answers") || patience > PATIENCE {
                break text;
            }
            patience *= 2;
        };
        assert!(text.contains(&format!("did not answer within {patience:?}")), "{text}");
    }

    #[test]
    fn queries() {
        assert_eq!(encoded("a/b c+&=ä"), "a/b%20c%2B%26%3D%C3%A4");
    }
}
