//! Requests: the server's decoder and the clients' encoder (RFC 9112 sections 3 to 6).
//!
//! Place on the path: step 2. A [`Request`] borrows from the receive buffer; its body, if any,
//! follows the `consumed` bytes; a [`BodyDecoder`](super::BodyDecoder) reads it.
//!
//! Invariant: a `Request` that exists has an unambiguous body framing and, in HTTP/1.1, exactly one
//! `Host`.

use std::mem::MaybeUninit;

use super::body::BodyFraming;
use super::head::{
    Fields, HEADERS_MAX, HeadError, HeadLimits, HeadScan, Version, append_decimal, append_field,
    parse_error,
};
use crate::codec::Step;

/// The head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The method, case-sensitive: `GET`.
    pub method: &'a str,
    /// The request target as sent; [`Target::parse`](super::Target::parse) splits it.
    pub target: &'a str,
    /// The version.
    pub version: Version,
    /// The header fields.
    pub fields: Fields<'a>,
    /// The framing of the body. Never [`BodyFraming::UntilClose`].
    pub body: BodyFraming,
    /// The client waits for `100 Continue` before it sends the body.
    pub expect_continue: bool,
    keep_alive: bool,
}

impl<'a> Request<'a> {
    /// Decodes a head from the front of `input`. `scan` is the state that the caller stores for
    /// this head.
    ///
    /// # Errors
    /// See [`HeadError`]; [`HeadError::status`] is the answer before the close.
    pub fn decode(
        input: &'a [u8],
        scan: &mut HeadScan,
        limits: &HeadLimits,
    ) -> Result<Step<Request<'a>>, HeadError> {
        match scan.find_head(input, limits.head_bytes_max)? {
            None => Ok(Step::More { needed: input.len() + 1 }),
            Some((head, consumed)) => {
                Ok(Step::Done { value: Request::parse(head, limits)?, consumed })
            }
        }
    }

    /// Whether the client wants to keep the connection open after the answer.
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// The first value of a field, case-insensitive.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.fields.first(name)
    }

    /// The first value of a field, if it is UTF-8; case-insensitive.
    pub fn header_text(&self, name: &str) -> Option<&'a str> {
        self.fields.first_text(name)
    }

    fn parse(head: &'a [u8], limits: &HeadLimits) -> Result<Request<'a>, HeadError> {
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut []);
        let status = parsed.parse_with_uninit_headers(head, &mut headers);
        match status.map_err(parse_error)? {
            httparse::Status::Complete(bytes) if bytes == head.len() => {}
            // The scan found the end of the head; a parser with another result disagrees with us.
            _ => return Err(HeadError::BadField),
        }
        let (Some(method), Some(target)) = (parsed.method, parsed.path) else {
            return Err(HeadError::BadStartLine);
        };
        let version = match parsed.version {
            Some(0) => Version::Http10,
            Some(1) => Version::Http11,
            _ => return Err(HeadError::UnsupportedVersion),
        };
        if target.len() > usize::from(limits.target_bytes_max) {
            return Err(HeadError::TargetTooLong { target_bytes_max: limits.target_bytes_max });
        }
        if !target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
            return Err(HeadError::BadTarget);
        }
        let fields = Fields::new(head, parsed.headers);
        check_host(&fields, version)?;
        let body = fields.body_framing(version)?;
        let expect_continue = expect_continue(&fields, version)?;
        let keep_alive = fields.keep_alive(version);
        Ok(Request { method, target, version, fields, body, expect_continue, keep_alive })
    }
}

/// Checks RFC 9112 section 3.2: exactly one valid `Host` in HTTP/1.1, at most one in HTTP/1.0.
fn check_host(fields: &Fields<'_>, version: Version) -> Result<(), HeadError> {
    let mut hosts = fields.all("host");
    let Some(host) = hosts.next() else {
        return match version {
            Version::Http10 => Ok(()),
            Version::Http11 => Err(HeadError::MissingHost),
        };
    };
    // RFC 3986 section 3.2.2: a name, an IPv4 address or a bracketed literal, and a port; no user
    // information.
    let is_host_byte =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]%".contains(byte);
    if hosts.next().is_some() || !host.iter().all(is_host_byte) {
        return Err(HeadError::BadHost);
    }
    Ok(())
}

/// Checks `Expect` (RFC 9110 section 10.1.1); HTTP/1.0 expectations are ignored.
fn expect_continue(fields: &Fields<'_>, version: Version) -> Result<bool, HeadError> {
    if version == Version::Http10 {
        return Ok(false);
    }
    let mut is_expected = false;
    for value in fields.all("expect") {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(HeadError::UnsupportedExpectation);
        }
        is_expected = true;
    }
    Ok(is_expected)
}

/// Writes the head of a request into the caller's buffer; for clients.
#[derive(Debug)]
#[must_use = "a request needs one of the `finish` methods"]
pub struct RequestWriter<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> RequestWriter<'o> {
    /// Begins an HTTP/1.1 request. `target` must be percent-encoded and `host` as in a URL (`name`
    /// or `name:port`); bytes that would break the line are replaced by `_`.
    pub fn new(out: &'o mut Vec<u8>, method: &str, target: &str, host: &str) -> RequestWriter<'o> {
        out.extend_from_slice(method.as_bytes());
        out.push(b' ');
        out.extend(target.bytes().map(|byte| if byte.is_ascii_graphic() { byte } else { b'_' }));
        out.extend_from_slice(b" HTTP/1.1\r\n");
        append_field(out, "Host", host.as_bytes());
        RequestWriter { out }
    }

    /// Adds a field. Control bytes in the value become spaces.
    pub fn header(self, name: &str, value: &str) -> RequestWriter<'o> {
        self.header_bytes(name, value.as_bytes())
    }

    /// Adds a field whose value need not be UTF-8, like [`header`](Self::header).
    pub fn header_bytes(self, name: &str, value: &[u8]) -> RequestWriter<'o> {
        append_field(self.out, name, value);
        self
    }

    /// Ends a request without a body.
    pub fn finish(self) {
        self.out.extend_from_slice(b"\r\n");
    }

    /// Ends the head with a `Content-Length` and appends the body.
    pub fn finish_with_body(self, body: &[u8]) {
        self.out.extend_from_slice(b"Content-Length: ");
        append_decimal(self.out, body.len() as u64);
        self.out.extend_from_slice(b"\r\n\r\n");
        self.out.extend_from_slice(body);
    }

    /// Ends the head of a request whose body follows in chunks; see
    /// [`body::append_chunk`](super::body::append_chunk).
    pub fn finish_chunked(self) {
        self.out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
    }
}
