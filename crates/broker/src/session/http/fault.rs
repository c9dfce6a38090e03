//! Faults of HTTP requests, and the answers to them.

use crate::admission::{Detail, NotAdmitted};

use crate::entitlement::Action;
use crate::mail::PublishRefusal;
use crate::position::Position;
use crate::topic::TopicError;
use wire::native::ErrorCode;

/// A fault of a request, found before the request had any effect.
pub(crate) struct Fault {
    pub code: ErrorCode,
    pub detail: String,
    /// The allowed methods, for status 405.
    pub allow: &'static str,
    /// The log's current position, if the request expected another epoch.
    pub present: Option<Position>,
    /// The challenge (`WWW-Authenticate`, RFC 6750, section 3); empty if credentials are not the
    /// fault.
    pub challenge: &'static str,
    /// Seconds after which the client may try again; 0: at once.
    pub retry_after_s: u64,
}

impl From<ErrorCode> for Fault {
    fn from(code: ErrorCode) -> Fault {
        Fault::new(code, code.text().to_owned())
    }
}

impl From<PublishRefusal> for Fault {
    fn from(refusal: PublishRefusal) -> Fault {
        Fault { present: refusal.present, ..Fault::from(refusal.code) }
    }
}

impl From<NotAdmitted<'_>> for Fault {
    fn from(NotAdmitted { code, detail }: NotAdmitted<'_>) -> Fault {
        match detail {
            Detail::None => code.into(),
            Detail::Name(error) => Fault::new(code, error.to_string()),
            Detail::Topic(_) if code == ErrorCode::Unauthorized => Fault::anonymous(),
            Detail::Topic(topic) => Fault::of_act((Action::Publish, topic), code),
            Detail::Message(topic, bytes_max) => {
                Fault::new(code, format!("a message of {topic} has at most {bytes_max} bytes"))
            }
            Detail::Attributes(bytes_max) => {
                Fault::new(code, format!("content type and tags take at most {bytes_max} bytes"))
            }
            Detail::Request(bytes, bytes_max) => Fault::new(
                code,
                format!(
                    "the request would append {bytes} bytes; one request appends at most {bytes_max}"
                ),
            ),
            Detail::Rate(too_fast) => Fault {
                retry_after_s: too_fast.after_ms.div_ceil(1_000),
                ..Fault::new(
                    code,
                    format!("a connection publishes at most {} in a second", too_fast.limit),
                )
            },
        }
    }
}

/// The challenge of an answer with this code (RFC 6750, section 3.1); mostly none.
fn challenge_of(code: ErrorCode) -> &'static str {
    use ErrorCode::{Forbidden, TokenExpired, TokenRevoked, Unauthorized};
    if matches!(code, Unauthorized | TokenExpired | TokenRevoked) {
        "Bearer error=\"invalid_token\""
    } else if code == Forbidden {
        "Bearer error=\"insufficient_scope\""
    } else {
        ""
    }
}

impl Fault {
    pub(crate) fn new(code: ErrorCode, detail: String) -> Fault {
        Fault {
            code,
            detail,
            allow: "",
            present: None,
            challenge: challenge_of(code),
            retry_after_s: u64::from(matches!(code.http_status(), 429 | 503)),
        }
    }

    /// A refusal that names the action and the topic, if permission is missing.
    pub(crate) fn of_act((action, wanted): (Action, &str), code: ErrorCode) -> Fault {
        if code == ErrorCode::Forbidden {
            Fault::new(code, action.refusal(wanted))
        } else {
            code.into()
        }
    }

    /// The refusal of a request without a credential.
    pub(crate) fn anonymous() -> Fault {
        Fault { challenge: "Bearer", ..Fault::from(ErrorCode::Unauthorized) }
    }

    /// RFC 6750, section 2: one method, once.
    pub(crate) fn several_credentials() -> Fault {
        let detail = "a request carries at most one credential".to_owned();
        Fault {
            challenge: "Bearer error=\"invalid_request\"",
            ..Fault::new(ErrorCode::MalformedRequest, detail)
        }
    }

    /// A name or filter that is none.
    pub(crate) fn topic(malformed: ErrorCode, error: TopicError) -> Fault {
        Fault::new(error.code(malformed), error.to_string())
    }

    pub(crate) fn method(allow: &'static str) -> Fault {
        Fault { allow, ..Fault::from(ErrorCode::MethodNotAllowed) }
    }
}
