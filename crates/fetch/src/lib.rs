//! One HTTP/1.1 request and its answer, blocking.
//!
//! Place: commands, the push of metrics, the fetch of key sets and the benchmark; never a thread of
//! a node that serves clients. The codec is `wire`'s. Each request has a connection of its own.
//!
//! Invariants: the bytes of head and body are bounded, and so is the total time, except for the
//! system's name resolution. A redirect is an answer like any other, so no other host is ever used.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

pub mod push;
mod url;

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use wire::Step;
use wire::http::request::RequestWriter;
use wire::http::{BodyDecoder, BodyPart, HeadLimits, HeadScan, Response};

pub use url::{URL_BYTES_MAX, Url};

/// Bytes of one read.
const READ_BYTES: usize = 16 << 10;

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method.
    pub method: &'a str,
    /// Host and port.
    pub authority: &'a str,
    /// Path and query, percent-encoded.
    pub target: &'a str,
    /// Further header fields: names and values.
    pub fields: &'a [(&'a str, &'a str)],
    /// The body; empty for none.
    pub body: &'a [u8],
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// The reason why there is no answer.
#[derive(Debug)]
pub enum Error {
    /// The host has no address, or none that accepts a connection.
    Unreachable(String),
    /// The time is over.
    TimedOut,
    /// The connection failed.
    Connection(io::Error),
    /// The answer is not HTTP, or its head is too large.
    NotHttp,
    /// The answer ended within its head.
    Truncated,
    /// The body is too large, malformed or incomplete.
    BadBody,
    /// The status is not 200.
    Status(u16),
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unreachable(text) => formatter.write_str(text),
            Error::TimedOut => formatter.write_str("the request timed out"),
            Error::Connection(error) => write!(formatter, "the connection failed: {error}"),
            Error::NotHttp => formatter.write_str("the answer is not HTTP"),
            Error::Truncated => formatter.write_str("the answer ended within its head"),
            Error::BadBody => formatter.write_str("the answer's body is too large or malformed"),
            Error::Status(status) => write!(formatter, "the answer has the status {status}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Error::TimedOut,
            _ => Error::Connection(error),
        }
    }
}

impl<'a> Request<'a> {
    /// A GET without further fields.
    pub fn get(authority: &'a str, target: &'a str) -> Request<'a> {
        Request { method: "GET", authority, target, fields: &[], body: &[] }
    }

    /// Connects to the authority, sends the request and reads the answer.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn ask(&self, timeout: Duration, body_bytes_max: u64) -> Result<Answer, Error> {
        let mut stream = connect(self.authority, self.authority, Instant::now() + timeout)?;
        self.send(&mut stream, body_bytes_max)
    }

    /// Sends the request on a connection and reads the answer. The connection ends with it.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn send(
        &self,
        stream: &mut (impl Read + Write + ?Sized),
        body_bytes_max: u64,
    ) -> Result<Answer, Error> {
        let mut out = Vec::new();
        let mut writer = RequestWriter::new(&mut out, self.method, self.target, self.authority)
            .header("Connection", "close");
        for (name, value) in self.fields {
            writer = writer.header(name, value);
        }
        if self.body.is_empty() {
            writer.finish()
        } else {
            writer.finish_with_body(self.body)
        }
        stream.write_all(&out)?;
        stream.flush()?;
        answer(stream, self.method, body_bytes_max)
    }
}

impl Answer {
    /// The body of an answer with status 200.
    ///
    /// # Errors
    /// Another status.
    pub fn ok(self) -> Result<Vec<u8>, Error> {
        match self.status {
            200 => Ok(self.body),
            status => Err(Error::Status(status)),
        }
    }
}

/// Connects to the first address of a host that accepts. Errors have its name.
///
/// # Errors
/// [`Error::Unreachable`] or [`Error::TimedOut`].
pub fn connect(
    name: &str,
    host: impl ToSocketAddrs,
    deadline: Instant,
) -> Result<Timed<TcpStream>, Error> {
    let unresolved = |error| Error::Unreachable(format!("cannot resolve {name}: {error}"));
    let addresses = host.to_socket_addrs().map_err(unresolved)?;
    let mut last = format!("{name} has no address");
    for address in addresses {
        let left = left_until(deadline).ok_or(Error::TimedOut)?;
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(Timed { stream, deadline }),
            Err(error) => last = format!("cannot connect to {address}: {error}"),
        }
    }
    Err(Error::Unreachable(last))
}

fn left_until(deadline: Instant) -> Option<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    (!left.is_zero()).then_some(left)
}

/// A socket whose waits have limits.
pub trait Socket: Read + Write {
    /// Limits each wait from now on.
    ///
    /// # Errors
    /// Those of the system.
    fn limit(&self, left: Duration) -> io::Result<()>;
}

impl Socket for TcpStream {
    fn limit(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))?;
        self.set_write_timeout(Some(left))
    }
}

impl Socket for UnixStream {
    fn limit(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))?;
        self.set_write_timeout(Some(left))
    }
}

/// A connection whose waits all end at a deadline.
#[derive(Debug)]
pub struct Timed<S> {
    /// The connection.
    pub stream: S,
    /// The deadline.
    pub deadline: Instant,
}

impl<S: Socket> Timed<S> {
    fn limit(&self) -> io::Result<()> {
        self.stream.limit(left_until(self.deadline).ok_or(ErrorKind::TimedOut)?)
    }
}

impl<S: Socket> Read for Timed<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.limit()?;
        self.stream.read(buffer)
    }
}

impl<S: Socket> Write for Timed<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limit()?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn answer(
    stream: &mut (impl Read + ?Sized),
    method: &str,
    body_bytes_max: u64,
) -> Result<Answer, Error> {
    let limits = HeadLimits::default();
    let (mut received, mut scan) = (Vec::new(), HeadScan::new());
    let mut buffer = vec![0; READ_BYTES];
    let (status, framing, head_bytes) = loop {
        match Response::decode(&received, &mut scan, &limits, method) {
            Ok(Step::Done { value, consumed }) => break (value.status, value.body, consumed),
            Ok(Step::More { .. }) => {}
            Err(_) => return Err(Error::NotHttp),
        }
        match read(stream, &mut buffer)? {
            0 => return Err(Error::Truncated),
            bytes => received.extend_from_slice(&buffer[..bytes]),
        }
    };
    let bad = |_| Error::BadBody;
    let mut decoder = BodyDecoder::new(framing, body_bytes_max).map_err(bad)?;
    let mut body = Vec::new();
    let mut input = &received[head_bytes..];
    loop {
        while let Step::Done { value, consumed } = decoder.decode(input).map_err(bad)? {
            input = &input[consumed..];
            match value {
                BodyPart::Data(data) => body.extend_from_slice(data),
                BodyPart::End => return Ok(Answer { status, body }),
            }
        }
        match read(stream, &mut buffer)? {
            0 => {
                decoder.finish().map_err(bad)?;
                return Ok(Answer { status, body });
            }
            bytes => input = &buffer[..bytes],
        }
    }
}

/// Reads some bytes; 0 at the end.
fn read(stream: &mut (impl Read + ?Sized), buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(buffer) {
            // Many servers omit the close_notify of TLS; the framing of the body shows whether it
            // is complete.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_accepted_or_refused() {
        let get = |bytes: &str| answer(&mut bytes.as_bytes(), "GET", 8)?.ok();
        let good = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}more";
        assert_eq!(get(good).unwrap(), b"{}");
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n";
        assert_eq!(get(chunked).unwrap(), b"{}");
        assert_eq!(get("HTTP/1.0 200 OK\r\n\r\n{}").unwrap(), b"{}");
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

    #[test]
    fn an_answer_may_come_in_any_pieces() {
        struct Single<'a>(&'a [u8]);
        impl Read for Single<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0.read(&mut buffer[..1])
            }
        }
        let bytes = b"HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n\
                      2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
        let found = answer(&mut Single(bytes), "POST", 8).unwrap();
        assert_eq!((found.status, &found.body[..]), (202, &b"abc"[..]));
    }

    #[test]
    fn a_silent_server_does_not_hold_the_request() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let authority = silent.local_addr().unwrap().to_string();
        let result = Request::get(&authority, "/").ask(Duration::from_millis(50), 8);
        assert!(matches!(result, Err(Error::TimedOut | Error::Unreachable(_))), "{result:?}");
    }
}
