//! The target of pushed metrics and benchmark figures: a file, a UDP socket or an HTTP server.
//!
//! HTTP has no TLS here: the server is an agent on the same machine or in the same network, which
//! speaks TLS and has credentials of its own.

use crate::Request;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

/// Maximum size of a datagram that common networks do not fragment.
const DATAGRAM_BYTES_MAX: usize = 1_400;
/// Time limit of connecting, sending and the answer together.
const HTTP_PATIENCE: Duration = Duration::from_secs(5);
/// Maximum size of an answer's body in bytes.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// The forms in the configuration.
pub const EXPECTED: &str = "file:PATH, udp:HOST:PORT or http://HOST:PORT/PATH, such as http://127.0.0.1:8086/write?db=crore";

/// The target of pushes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// Lines are appended to a file. A file that would exceed its maximum is renamed to `NAME.1`,
    /// which replaces an older `NAME.1`.
    File {
        /// The path.
        path: PathBuf,
        /// Maximum size in bytes.
        bytes_max: u64,
    },
    /// Lines are sent as datagrams to `HOST:PORT`.
    Udp(String),
    /// Each push is a `POST` on a connection of its own.
    Http {
        /// `HOST:PORT`.
        authority: String,
        /// Path and query.
        path: String,
    },
}

impl Target {
    /// Parses a target. `file_bytes_max` is the maximum size of a file.
    pub fn parse(text: &str, file_bytes_max: u64) -> Option<Target> {
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if let Some(path) = text.strip_prefix("file:") {
            return (!path.is_empty())
                .then(|| Target::File { path: path.into(), bytes_max: file_bytes_max });
        }
        if let Some(address) = text.strip_prefix("udp:") {
            return (is_plain(address) && has_port(address))
                .then(|| Target::Udp(address.to_owned()));
        }
        let rest = text.strip_prefix("http://")?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if !is_plain(rest) || authority.contains('@') || path.contains('#') {
            return None;
        }
        let has_name = !authority.is_empty() && !authority.starts_with(':');
        let authority = match has_port(authority) {
            true => authority.to_owned(),
            false if has_name && !authority.ends_with(':') => format!("{authority}:80"),
            false => return None,
        };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Some(Target::Http { authority, path })
    }

    /// Sends lines, each with its line end.
    ///
    /// # Errors
    /// The target did not accept all lines in time. It may have accepted some.
    pub fn send(&self, lines: &[String]) -> io::Result<()> {
        match self {
            Target::File { path, bytes_max } => append(path, *bytes_max, &lines.concat()),
            Target::Udp(address) => send_datagrams(address, lines),
            Target::Http { authority, path } => post(authority, path, &lines.concat()),
        }
    }
}

impl fmt::Display for Target {
    /// The query is left out, because it may contain credentials.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::File { path, .. } => write!(formatter, "file:{}", path.display()),
            Target::Udp(address) => write!(formatter, "udp:{address}"),
            Target::Http { authority, path } => {
                let path = path.split('?').next().unwrap_or_default();
                write!(formatter, "http://{authority}{path}")
            }
        }
    }
}

/// Whether this is a host with a port.
fn has_port(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else {
        return false;
    };
    // The colons of an IPv6 address stand in brackets.
    let is_host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|host| host.parse::<Ipv6Addr>().is_ok()),
        None => !host.is_empty() && !host.contains(':'),
    };
    is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn append(path: &PathBuf, bytes_max: u64, text: &str) -> io::Result<()> {
    let length = match fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    if length > 0 && length + text.len() as u64 > bytes_max {
        let mut older = path.clone().into_os_string();
        older.push(".1");
        fs::rename(path, older)?;
    }
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// Sends datagrams of as many lines as fit; a longer line gets one of its own.
fn send_datagrams(address: &str, lines: &[String]) -> io::Result<()> {
    let to = resolve(address)?;
    let from: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(from)?;
    socket.connect(to)?;
    let mut datagram = String::new();
    for line in lines {
        if !datagram.is_empty() && datagram.len() + line.len() > DATAGRAM_BYTES_MAX {
            socket.send(datagram.as_bytes())?;
            datagram.clear();
        }
        datagram.push_str(line);
    }
    if !datagram.is_empty() {
        socket.send(datagram.as_bytes())?;
    }
    Ok(())
}

fn post(authority: &str, path: &str, text: &str) -> io::Result<()> {
    let request = Request {
        method: "POST",
        authority,
        target: path,
        fields: &[("Content-Type", "text/plain; charset=utf-8")],
        body: text.as_bytes(),
    };
    let answer = request.ask(HTTP_PATIENCE, ANSWER_BYTES_MAX).map_err(io::Error::other)?;
    match answer.status {
        200..=299 => Ok(()),
        status => Err(io::Error::other(format!("the server answered with status {status}"))),
    }
}

/// The first of the host's addresses.
fn resolve(address: &str) -> io::Result<SocketAddr> {
    let mut addresses = address.to_socket_addrs()?;
    addresses.next().ok_or_else(|| io::Error::other("the name has no address"))
}
