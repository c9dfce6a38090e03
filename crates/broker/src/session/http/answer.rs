//! Answers: how each goes back, and its bytes.

use super::fault::Fault;
use crate::position::Position;
use log::RecordView;
use stdx::handing::Hand;
use wire::http::request::Request;
use wire::http::{Problem, ResponseWriter, Version};

const GREETING: &[u8] = include_bytes!("greeting.txt");

/// The form of an answer: its headers, and whether the connection stays open.
#[derive(Clone, Debug, Default, Hand)]
pub(crate) struct Answer {
    pub keep_alive: bool,
    /// The client closes unless it hears that the connection stays open.
    pub expects_close: bool,
    /// The request was HEAD: nothing may follow the head of the answer.
    pub head_only: bool,
    /// The page's origin, when it is allowed and has to be named.
    pub origin: Option<Box<str>>,
}

impl Answer {
    /// The answer to a request, before its origin is known.
    pub fn to(request: &Request<'_>, keep_alive: bool) -> Answer {
        Answer {
            keep_alive,
            expects_close: request.version == Version::Http10,
            head_only: request.method == "HEAD",
            origin: None,
        }
    }

    /// The text for people that find this port with a browser or with curl. It tells nothing of
    /// the node but its kind.
    pub fn greeting(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + GREETING.len());
        begin_answer(&mut out, 200, self, self.keep_alive)
            .header("Content-Type", "text/plain; charset=utf-8")
            .header("X-Content-Type-Options", "nosniff")
            .finish_with_body(GREETING);
        out
    }

    /// An answer of JSON.
    pub fn json(&self, status: u16, keep_alive: bool, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + body.len());
        begin_answer(&mut out, status, self, keep_alive)
            .header("Content-Type", "application/json")
            .header("Cache-Control", "no-store")
            // Payloads come from any client: no browser is to find a page in them.
            .header("X-Content-Type-Options", "nosniff")
            .finish_with_body(body);
        out
    }

    /// A problem (RFC 9457). `challenges`: the node asks for credentials.
    pub fn problem(&self, fault: &Fault, keep_alive: bool, challenges: bool) -> Vec<u8> {
        let status = fault.code.http_status();
        let mut out = Vec::with_capacity(512);
        let mut writer = begin_answer(&mut out, status, self, keep_alive);
        if fault.retry_after_s > 0 {
            writer = writer.header("Retry-After", &fault.retry_after_s.to_string());
        }
        if !fault.challenge.is_empty() && challenges {
            writer = writer.header("WWW-Authenticate", fault.challenge);
        }
        if !fault.allow.is_empty() {
            writer = writer.header("Allow", fault.allow);
        }
        let problem = Problem {
            type_uri: "",
            title: wire::http::response::reason_phrase(status),
            status,
            detail: &fault.detail,
            code: fault.code.name(),
            present: fault.present.map(|position| (position.epoch, position.offset)),
        };
        problem.finish(writer);
        out
    }

    /// The answer to a preflight request (Fetch, section 3.2.2).
    pub fn preflight(&self, request: &Request<'_>, methods: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer =
            begin_answer(&mut out, 204, self, self.keep_alive).header("Allow", methods);
        if self.origin.is_some() {
            writer = writer
                .header("Access-Control-Allow-Methods", methods)
                .header("Access-Control-Max-Age", "600");
            if let Some(wanted) = request.header_text("access-control-request-headers") {
                writer = writer.header("Access-Control-Allow-Headers", wanted);
            }
        }
        writer.finish_head();
        out
    }

    /// A topic's retained message: its payload is the body.
    pub fn retained(&self, epoch: u64, record: &RecordView<'_>, keep_alive: bool) -> Vec<u8> {
        let position = Position { epoch, offset: record.offset() };
        let content_type = match record.content_type() {
            Some(content_type) => content_type,
            None if std::str::from_utf8(record.payload()).is_ok() => b"text/plain; charset=utf-8",
            None => b"application/octet-stream",
        };
        let mut out = Vec::with_capacity(512 + record.payload().len());
        begin_answer(&mut out, 200, self, keep_alive)
            .header_bytes("Content-Type", content_type)
            .header("Crore-Position", &position.to_string())
            .header("Crore-Time-Ms", &record.time_ms().to_string())
            .header("Cache-Control", "no-store")
            // The payload comes from any client, and so does its type: a browser shows it as a page
            // without rights, or not at all.
            .header("X-Content-Type-Options", "nosniff")
            .header("Content-Security-Policy", "sandbox; default-src 'none'")
            .finish_with_body(record.payload());
        out
    }

    /// RFC 9110 section 9.3.2: an answer to HEAD has no body; one would be taken for the next
    /// answer.
    pub fn cut(&self, out: &mut Vec<u8>) {
        if self.head_only
            && let Some(end) = out.windows(4).position(|window| window == b"\r\n\r\n")
        {
            out.truncate(end + 4);
        }
    }
}

/// Status and first fields of an answer with an end.
fn begin_answer<'o>(
    out: &'o mut Vec<u8>,
    status: u16,
    answer: &Answer,
    keep_alive: bool,
) -> ResponseWriter<'o> {
    let mut writer = ResponseWriter::new(out, status).keep_alive(keep_alive);
    if keep_alive && answer.expects_close {
        // RFC 9112, appendix C.2.2.
        writer = writer.header("Connection", "keep-alive");
    }
    cross_origin(writer, answer)
}

/// Names the allowed origin.
pub(crate) fn cross_origin<'o>(writer: ResponseWriter<'o>, answer: &Answer) -> ResponseWriter<'o> {
    match &answer.origin {
        Some(origin) => {
            writer.header("Access-Control-Allow-Origin", origin).header("Vary", "Origin")
        }
        None => writer,
    }
}
