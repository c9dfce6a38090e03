//! Responses: the server's encoder and the clients' decoder (RFC 9112 sections 4 and 6).
//!
//! Place on the path: step 7 outbound; step 2 in the client and the benchmark.
//!
//! Invariants: the writer produces one complete head, and no value can begin another field. This
//! module reads no clock: the caller may pass a `Date` as a header.

use std::mem::MaybeUninit;

use super::body::BodyFraming;
use super::head::{
    Fields, HEADERS_MAX, HeadError, HeadLimits, HeadScan, Version, append_decimal, append_field,
    parse_error,
};
use crate::codec::Step;

/// The standard reason phrase of a status, or an empty string.
pub const fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        425 => "Too Early",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        _ => "",
    }
}

/// The interim response after which a waiting client sends its body.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Writes one response into the caller's buffer. Every `finish` ends the head; dropping the writer
/// leaves an incomplete head.
#[derive(Debug)]
#[must_use = "a response needs one of the `finish` methods"]
pub struct ResponseWriter<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> ResponseWriter<'o> {
    /// Begins an HTTP/1.1 response. `status` is three digits, 100 to 999.
    pub fn new(out: &'o mut Vec<u8>, status: u16) -> ResponseWriter<'o> {
        debug_assert!((100..=999).contains(&status));
        out.extend_from_slice(b"HTTP/1.1 ");
        append_decimal(out, u64::from(status));
        out.push(b' ');
        out.extend_from_slice(reason_phrase(status).as_bytes());
        out.extend_from_slice(b"\r\n");
        ResponseWriter { out }
    }

    /// Adds a field. Control bytes in the value become spaces; `name` must be a token.
    pub fn header(self, name: &str, value: &str) -> ResponseWriter<'o> {
        self.header_bytes(name, value.as_bytes())
    }

    /// Adds a field whose value need not be UTF-8, like [`header`](Self::header).
    pub fn header_bytes(self, name: &str, value: &[u8]) -> ResponseWriter<'o> {
        append_field(self.out, name, value);
        self
    }

    /// Adds `Connection: close`, unless the connection stays open.
    pub fn keep_alive(self, keep_alive: bool) -> ResponseWriter<'o> {
        if keep_alive { self } else { self.header("Connection", "close") }
    }

    /// Ends the head with a `Content-Length` and appends the body.
    pub fn finish_with_body(self, body: &[u8]) {
        let out = self.finish_length(body.len() as u64);
        out.extend_from_slice(body);
    }

    /// Ends the head with a `Content-Length`, for an answer to HEAD or a separate body. Returns the
    /// buffer for the body.
    pub fn finish_length(self, body_bytes: u64) -> &'o mut Vec<u8> {
        self.out.extend_from_slice(b"Content-Length: ");
        append_decimal(self.out, body_bytes);
        self.out.extend_from_slice(b"\r\n\r\n");
        self.out
    }

    /// Ends the head of a response without a body (1xx, 204, 304) or whose body ends with the
    /// connection.
    pub fn finish_head(self) {
        self.out.extend_from_slice(b"\r\n");
    }

    /// Ends the head of a stream whose body follows in chunks; see
    /// [`body::append_chunk`](super::body::append_chunk). Not for HTTP/1.0 clients.
    pub fn finish_chunked(self) {
        self.out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
    }
}

/// The decoded head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// The status code.
    pub status: u16,
    /// The reason phrase, for people only.
    pub reason: &'a str,
    /// The version.
    pub version: Version,
    /// The header fields.
    pub fields: Fields<'a>,
    /// The framing of the body.
    pub body: BodyFraming,
    keep_alive: bool,
}

impl<'a> Response<'a> {
    /// Decodes a head from the front of `input`. `scan` is the state that the caller stores for
    /// this head. `request_method` is the method of the request: the response to `HEAD` has no
    /// body.
    ///
    /// # Errors
    /// See [`HeadError`]; a client then closes the connection.
    pub fn decode(
        input: &'a [u8],
        scan: &mut HeadScan,
        limits: &HeadLimits,
        request_method: &str,
    ) -> Result<Step<Response<'a>>, HeadError> {
        match scan.find_head(input, limits.head_bytes_max)? {
            None => Ok(Step::More { needed: input.len() + 1 }),
            Some((head, consumed)) => {
                Ok(Step::Done { value: Response::parse(head, request_method)?, consumed })
            }
        }
    }

    /// Whether the connection accepts another request after this response.
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

    fn parse(head: &'a [u8], request_method: &str) -> Result<Response<'a>, HeadError> {
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut parsed = httparse::Response::new(&mut []);
        let status = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut parsed,
            head,
            &mut headers,
        );
        match status.map_err(parse_error)? {
            httparse::Status::Complete(bytes) if bytes == head.len() => {}
            _ => return Err(HeadError::BadField),
        }
        let version = match parsed.version {
            Some(0) => Version::Http10,
            Some(1) => Version::Http11,
            _ => return Err(HeadError::UnsupportedVersion),
        };
        let (Some(status @ 100..=999), Some(reason)) = (parsed.code, parsed.reason) else {
            return Err(HeadError::BadStartLine);
        };
        let fields = Fields::new(head, parsed.headers);
        // RFC 9112 section 6.3: these have no body, regardless of their fields; without framing,
        // the body ends with the connection.
        let bodyless = request_method == "HEAD" || matches!(status, 100..=199 | 204 | 304);
        let body = match fields.body_framing(version)? {
            _ if bodyless => BodyFraming::None,
            BodyFraming::None => BodyFraming::UntilClose,
            framing => framing,
        };
        let keep_alive = fields.keep_alive(version) && body != BodyFraming::UntilClose;
        Ok(Response { status, reason, version, fields, body, keep_alive })
    }
}
