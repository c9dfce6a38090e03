//! HTTP/1.1 connections: heads, bodies, routing, answers, cross-origin rules. One request at a
//! time: the next head is not looked at before the answer to this one has been queued (pipelining
//! keeps its order that way).

use super::fault::Fault;
use super::publish::Intent;
use crate::edge::Edge;
use crate::ids::ConnIndex;
use crate::topic::TopicName;
use stdx::handing::Hand;
use wire::http::request::Request;
use wire::http::{BodyDecoder, BodyFraming, ResponseWriter};
use wire::native::ErrorCode;

/// How an answer goes back.
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

/// A body on its way.
#[derive(Hand)]
pub(crate) struct Body {
    pub decoder: BodyDecoder,
    pub bytes: Vec<u8>,
    /// What it will have, or may have at most.
    pub bytes_max: usize,
    pub intent: Intent,
    pub answer: Answer,
}

impl Body {
    /// Bytes of the buffer for what comes.
    pub fn buffer_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// A client behind a proxy is not served. Its request has not been consumed, and nothing more is
/// read.
pub(crate) fn refuse_client(edge: &mut Edge, index: ConnIndex, code: ErrorCode) {
    edge.statistics.turned_away.clients_refused += 1;
    edge.answer_fault(index, &Answer::default(), &code.into());
}

/// So much of an origin is told to those who ask why it was refused.
pub(crate) const ORIGIN_BYTES_MAX: usize = 256;

/// Status and first fields of an answer with an end.
pub(crate) fn begin_answer<'o>(
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

pub(crate) fn check_topic(topic: &str) -> Result<(), Fault> {
    match TopicName::parse(topic) {
        Ok(_) => Ok(()),
        Err(error) => Err(Fault::topic(ErrorCode::MalformedTopic, error)),
    }
}

pub(crate) fn reject_body(request: &Request<'_>) -> Result<(), Fault> {
    match request.body {
        BodyFraming::None | BodyFraming::Length(0) => Ok(()),
        _ => Err(Fault::new(
            ErrorCode::MalformedRequest,
            "a request of this method has no body here".to_owned(),
        )),
    }
}
