//! A small GET for a key set: `http` or `https`, blocking, on the fetching thread only.
//!
//! Limits: the bytes of head and body, and the total time (except for the system's name
//! resolution). Redirects are failures, so no other scheme or host is ever used. Errors are
//! sentences for the operator.

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::Step;
use wire::http::{BodyDecoder, BodyPart, HeadLimits, HeadScan, Response};

/// Maximum length of a URL, in bytes.
pub const URL_BYTES_MAX: usize = 2_048;

/// A parsed URL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Url {
    /// Whether it uses TLS.
    pub is_https: bool,
    /// Host name or address; an IPv6 address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The value of the header field `Host`.
    authority: String,
    /// Path and query.
    target: String,
}

impl Url {
    /// Parses an absolute URL; user names and fragments are refused.
    pub fn parse(text: &str) -> Option<Url> {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"#\\\"<>".contains(&byte);
        if text.len() > URL_BYTES_MAX || !text.bytes().all(is_plain) {
            return None;
        }
        let (is_https, rest) = match text.split_once("://")? {
            ("https", rest) => (true, rest),
            ("http", rest) => (false, rest),
            _ => return None,
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                host.parse::<std::net::Ipv6Addr>().ok()?;
                (host, port)
            }
            None => {
                let end = authority.find(':').unwrap_or(authority.len());
                authority.split_at(end)
            }
        };
        let port = match port.strip_prefix(':') {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok()?
            }
            None if port.is_empty() => [80, 443][usize::from(is_https)],
            _ => return None,
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_name) || port == 0 {
            return None;
        }
        Some(Url {
            is_https,
            host: host.into(),
            port,
            authority: authority.into(),
            target: match target.starts_with('/') {
                true => target.into(),
                false => format!("/{target}"),
            },
        })
    }

    /// Whether the host is this machine, so that no attacker can listen in between.
    pub fn is_local(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

/// Fetches the body of a URL: the answer must have status 200 and at most `body_bytes_max` bytes,
/// within `timeout`.
///
/// # Errors
/// The reason, as a sentence.
pub fn get(
    url: &Url,
    tls: &Arc<ClientConfig>,
    timeout: Duration,
    body_bytes_max: usize,
) -> Result<Vec<u8>, String> {
    let deadline = Instant::now() + timeout;
    let tcp = connect(url, deadline)?;
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nAccept: application/json\r\nUser-Agent: crore\r\nConnection: close\r\n\r\n",
        url.target, url.authority
    );
    let failed = |error: io::Error| format!("the connection failed: {error}");
    if url.is_https {
        let name = ServerName::try_from(url.host.clone())
            .map_err(|_| format!("{} is not a valid server name for TLS", url.host))?;
        let session =
            ClientConnection::new(Arc::clone(tls), name).map_err(|error| error.to_string())?;
        let mut stream = StreamOwned::new(session, Timed { tcp, deadline });
        stream.write_all(request.as_bytes()).map_err(failed)?;
        answer(&mut stream, body_bytes_max)
    } else {
        let mut stream = Timed { tcp, deadline };
        stream.write_all(request.as_bytes()).map_err(failed)?;
        answer(&mut stream, body_bytes_max)
    }
}

fn connect(url: &Url, deadline: Instant) -> Result<TcpStream, String> {
    let addresses = (url.host.as_str(), url.port)
        .to_socket_addrs()
        .map_err(|error| format!("cannot resolve {}: {error}", url.host))?;
    let mut last = format!("{} has no address", url.host);
    for address in addresses {
        let Some(left) = left_until(deadline) else {
            return Err("the request timed out".into());
        };
        match TcpStream::connect_timeout(&address, left) {
            Ok(tcp) => return Ok(tcp),
            Err(error) => last = format!("cannot connect to {address}: {error}"),
        }
    }
    Err(last)
}

fn left_until(deadline: Instant) -> Option<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    (!left.is_zero()).then_some(left)
}

/// A stream whose waits all end at the deadline.
struct Timed {
    tcp: TcpStream,
    deadline: Instant,
}

impl Timed {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = left_until(self.deadline);
        left.map(Some).ok_or_else(|| io::ErrorKind::TimedOut.into())
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.tcp.set_read_timeout(self.left()?)?;
        self.tcp.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tcp.set_write_timeout(self.left()?)?;
        self.tcp.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tcp.flush()
    }
}

fn answer(stream: &mut impl Read, body_bytes_max: usize) -> Result<Vec<u8>, String> {
    let limits = HeadLimits::default();
    let bytes_max = body_bytes_max + usize::from(limits.head_bytes_max) + FRAMING_BYTES_MAX;
    let mut received = Vec::new();
    let is_ended = read_all(stream, &mut received, bytes_max)?;
    let head = Response::decode(&received, &mut HeadScan::new(), &limits, "GET")
        .map_err(|_| "the answer is not HTTP".to_owned())?;
    let Step::Done { value: response, consumed } = head else {
        return Err("the answer ended within its head".into());
    };
    if response.status != 200 {
        return Err(format!("the answer has the status {}", response.status));
    }
    let broken = |_| "the answer's body is too large or malformed".to_owned();
    let mut decoder = BodyDecoder::new(response.body, body_bytes_max as u64).map_err(broken)?;
    let mut rest = &received[consumed..];
    let mut body = Vec::new();
    while let Step::Done { value, consumed } = decoder.decode(rest).map_err(broken)? {
        rest = &rest[consumed..];
        match value {
            BodyPart::Data(data) => body.extend_from_slice(data),
            BodyPart::End => return Ok(body),
        }
    }
    if !is_ended {
        return Err("the answer is too large".into());
    }
    decoder.finish().map_err(broken)?;
    Ok(body)
}

/// Maximum overhead of chunks in a body.
const FRAMING_BYTES_MAX: usize = 64 << 10;

/// Reads until the end or the limit; returns whether it was the end.
fn read_all(
    stream: &mut impl Read,
    received: &mut Vec<u8>,
    bytes_max: usize,
) -> Result<bool, String> {
    let mut buffer = [0; 16 << 10];
    while received.len() < bytes_max {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(bytes) => received.extend_from_slice(&buffer[..bytes]),
            // Many servers omit the close_notify of TLS; the framing of the body shows whether it
            // is complete.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) => return Err("the request timed out".into()),
            Err(error) => return Err(format!("the connection failed: {error}")),
        }
    }
    Ok(false)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_or_refused() {
        for (text, expected) in [
            ("https://a.example/x?y=1", (true, "a.example", 443, "/x?y=1")),
            ("http://a.example", (false, "a.example", 80, "/")),
            ("http://127.0.0.1:81?x", (false, "127.0.0.1", 81, "/?x")),
            ("https://[::1]:82/", (true, "::1", 82, "/")),
        ] {
            let url = Url::parse(text).unwrap();
            let seen = (url.is_https, url.host.as_str(), url.port, url.target.as_str());
            assert_eq!(seen, expected);
        }
        for bad in [
            "",
            "a.example",
            "ftp://a.example/",
            "file:///etc/passwd",
            "HTTPS://a.example",
            "https://",
            "https:///x",
            "https://user@a.example/",
            "https://a.example:0/",
            "https://a.example:66000/",
            "https://a.example:+1/",
            "https://a.example:/",
            "https://[::1/",
            "https://[a]/",
            "https://a.example/ x",
            "https://a.example/\r\nX: y",
            "https://a.example/#f",
            "https://ä.example/",
        ] {
            assert_eq!(Url::parse(bad), None, "{bad}");
        }
        assert!(Url::parse("http://localhost:1/").unwrap().is_local());
        assert!(!Url::parse("http://a.example/").unwrap().is_local());
    }

    #[test]
    fn answers_are_accepted_or_refused() {
        let get = |bytes: &str| answer(&mut bytes.as_bytes(), 8);
        let good = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}more";
        assert_eq!(get(good).as_deref(), Ok(&b"{}"[..]));
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n";
        assert_eq!(get(chunked).as_deref(), Ok(&b"{}"[..]));
        assert_eq!(get("HTTP/1.0 200 OK\r\n\r\n{}").as_deref(), Ok(&b"{}"[..]));
        for bad in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789",
            "HTTP/1.0 200 OK\r\n\r\n123456789",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n123456789\r\n0\r\n\r\n",
            "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 2\r\n\r\n{}",
            "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}",
            "{}",
        ] {
            assert!(get(bad).is_err(), "{bad}");
        }
    }
}
