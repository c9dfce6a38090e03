//! Requests to a running node's operators' port, for the commands that look at a node or act on it.
//!
//! A node of this machine is asked by its operators' socket, where that is there: no key is needed then. Invariants: an API key comes
//! from a file and goes nowhere but into its field; an answer is bounded, and so is the wait for each part of it.

use crate::entitled::secret_of_file;
use crate::operators_socket;
use anyhow::{Context, anyhow, bail};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of an answer, at most.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// A node's operators' port, and who asks there.
#[derive(Debug, clap::Args)]
pub struct Port {
    /// The node's operators' port, or unix:PATH of its operators' socket. For a node on this machine the socket is found automatically.
    #[arg(
        long = "operators",
        visible_alias = "url",
        value_name = "URL",
        env = "CRORE_OPERATORS",
        default_value = "http://127.0.0.1:8801"
    )]
    url: String,
    /// A file with an API key that has operate = true. It is needed if the operators' socket cannot be used.
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
}

impl Port {
    /// The port of a node of this machine, which is asked without a key.
    pub fn here(url: &str) -> Port {
        Port { url: url.into(), api_key_file: None }
    }

    /// A request without a body, and its answer.
    ///
    /// # Errors
    /// Nobody answers there, or the answer is no success.
    pub fn ask(&self, method: &str, path: &str) -> anyhow::Result<Value> {
        ask(self, method, path, None)
    }
}

/// Asks the port, with this body if any, and gives the body of its answer; null where it has nothing to say.
///
/// # Errors
/// Nobody answers there, or the answer is no success.
pub fn ask(port: &Port, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
    ask_within(PATIENCE, port, (method, path), body)
}

/// The same of what takes longer: the answer has to begin within `patience`.
///
/// # Errors
/// As [`ask`].
pub fn ask_within(
    patience: Duration,
    port: &Port,
    (method, path): (&str, &str),
    body: Option<&Value>,
) -> anyhow::Result<Value> {
    let url = &port.url;
    let mut stream = connect(port, patience)?;
    let authority = url.strip_prefix("http://").unwrap_or("localhost");
    let authority = authority.trim_end_matches('/');
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
        request.push_str(&format!("Content-Type: application/json\r\nContent-Length: {bytes}\r\n"));
    }
    stream.write_all(format!("{request}\r\n{body}").as_bytes())?;
    let mut answer = Vec::new();
    let read = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer);
    read.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            anyhow!("{url} has not answered within {patience:?}; it may still do what it was asked")
        }
        _ => anyhow::Error::new(error).context(format!("{url} has not answered")),
    })?;
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

/// A way to a node.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// By the socket that is named, or by the one of a port of this machine where no key is given; else by the port.
fn connect(port: &Port, patience: Duration) -> anyhow::Result<Box<dyn Stream>> {
    let url = &port.url;
    let nobody = || format!("no node answers at {url}");
    let by_socket = |stream: UnixStream| -> anyhow::Result<Box<dyn Stream>> {
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Box::new(stream))
    };
    if let Some(path) = url.strip_prefix("unix:") {
        return by_socket(UnixStream::connect(path).with_context(nobody)?);
    }
    let authority = url.strip_prefix("http://").ok_or_else(|| {
        anyhow!("{url} is no address of an operators' port (http://... or unix:...)")
    })?;
    let addresses = authority.trim_end_matches('/').to_socket_addrs();
    let addresses: Vec<SocketAddr> = addresses.with_context(nobody)?.collect();
    if port.api_key_file.is_none()
        && let Some(here) = addresses.iter().find(|address| address.ip().is_loopback())
        && let Some(stream) = operators_socket::connect(here.port())
    {
        return by_socket(stream);
    }
    let mut result = Err(io::Error::other("the name has no address"));
    for address in addresses {
        result = TcpStream::connect_timeout(&address, PATIENCE);
        if result.is_ok() {
            break;
        }
    }
    let stream = result.with_context(nobody)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(Box::new(stream))
}

/// A text as part of a query.
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
        assert!(text.contains(&format!("has not answered within {patience:?}")), "{text}");
    }

    #[test]
    fn queries() {
        assert_eq!(encoded("a/b c+&=ä"), "a/b%20c%2B%26%3D%C3%A4");
    }
}
