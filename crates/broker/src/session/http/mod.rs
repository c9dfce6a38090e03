//! HTTP/1.1 (RFC 9112): requests are checked and decoded here, and answers encoded.
//!
//! Values in, values out. The edge decides between them: `edge::flow::http`.

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod envelope;
pub(crate) mod fault;
pub(crate) mod history;
pub(crate) mod once;
pub(crate) mod origin;
pub(crate) mod parameters;
pub(crate) mod publish;
pub(crate) mod route;

use crate::topic::TopicName;
use fault::Fault;
use wire::http::BodyFraming;
use wire::http::request::Request;
use wire::native::ErrorCode;

pub(crate) fn check_topic(topic: &str) -> Result<(), Fault> {
    match TopicName::parse(topic) {
        Ok(_) => Ok(()),
        Err(error) => Err(Fault::topic(ErrorCode::MalformedTopic, error)),
    }
}

pub(crate) fn reject_body(request: &Request<'_>) -> Result<(), Fault> {
    match request.body {
        BodyFraming::None | BodyFraming::Length(0) => Ok(()),
        BodyFraming::Length(_) | BodyFraming::Chunked | BodyFraming::UntilClose => Err(Fault::new(
            ErrorCode::MalformedRequest,
            "a request of this method has no body here".to_owned(),
        )),
    }
}

/// The error of a head that cannot be decoded, by the status that the decoder gives.
pub(crate) fn code_of_head(status: u16) -> ErrorCode {
    match status {
        414 => ErrorCode::UriTooLong,
        417 => ErrorCode::UnsupportedExpectation,
        431 => ErrorCode::HeaderTooLarge,
        501 => ErrorCode::UnsupportedTransferCoding,
        505 => ErrorCode::UnsupportedHttpVersion,
        _ => ErrorCode::MalformedRequest,
    }
}
