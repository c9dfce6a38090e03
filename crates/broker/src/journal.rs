//! Entries about an edge's clients, as plain values: the source of the access log and the audit
//! log.
//!
//! Place: beside the path. Where the settings ask for it
//! ([`JournalSettings`](crate::settings::JournalSettings)), an edge leaves entries in its outputs,
//! and the shell writes them. Invariants: an entry holds no credential, no payload and no query of
//! a request; its texts have bounds; the settings bound the entries of a second, and the number of
//! those left out is reported.

use crate::entitlement::Action;
pub use crate::protocol::Transport;
use std::net::IpAddr;
use wire::native::ErrorCode;

/// Maximum bytes of a request's path in an entry.
pub const PATH_BYTES_MAX: usize = 512;
/// Longest method.
pub const METHOD_BYTES_MAX: usize = 32;

/// Something that a client did, or that was done to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// When: milliseconds since 1970.
    pub time_ms: u64,
    /// What.
    pub event: Event,
}

/// An event of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A session has begun.
    Connected(Client),
    /// A session is over.
    Disconnected {
        /// Whose.
        client: Client,
        /// The WebSocket close code, as the client sees it; 1000 for an event stream that was
        /// ended, 1006 for a lost or reset connection.
        code: u16,
        /// The duration in milliseconds; none if the journal was off when it began.
        duration_ms: Option<u64>,
    },
    /// An HTTP request was answered; of a request that became a session or a stream, its head.
    Requested {
        /// Whose.
        client: Client,
        /// The method; empty for a malformed request.
        method: Box<str>,
        /// The path, as it was sent, without the query; at most [`PATH_BYTES_MAX`] bytes.
        path: Box<str>,
        /// The answer's status.
        status: u16,
        /// The answer's bytes, with its head.
        bytes: u64,
        /// From the end of its head to the answer, in milliseconds.
        duration_ms: u64,
    },
    /// A client's action was permitted or refused.
    Decided {
        /// The client.
        client: Client,
        /// The requested action.
        operation: Operation,
        /// A topic or filter; empty where there is none.
        topic: Box<str>,
        /// The code of the refusal; none if the action is permitted.
        refusal: Option<ErrorCode>,
    },
    /// Pages of an origin that is not permitted ask, now and before.
    OriginRefused {
        /// The client of the last such request.
        client: Client,
        /// The origin of its page; empty if that was not one origin.
        origin: Box<str>,
        /// The number of such requests since the last entry.
        count: u64,
    },
    /// More happened in a second than the settings permit to report.
    LeftOut {
        /// Sessions and requests.
        access: u64,
        /// Decisions.
        audit: u64,
    },
}

/// The client of an event, as far as the edge knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    /// The number by which the node knows the connection.
    pub connection: u64,
    /// The protocol.
    pub transport: Transport,
    /// The address of the client.
    pub address: Option<IpAddr>,
    /// The number of its listener, if the edge knows it.
    pub listener: Option<u8>,
    /// `sub` of its token, or the name of its API key; may be empty.
    pub subject: Box<str>,
}

/// The action of a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// To do something with a topic.
    Act(Action),
    /// To be the subject of a credential.
    Authenticate,
    /// To continue under an entitlement that has ended.
    Continue,
}

impl Operation {
    /// The name of the action in entries.
    pub fn word(self) -> &'static str {
        match self {
            Operation::Act(Action::Subscribe) => "subscribe",
            Operation::Act(Action::Publish) => "publish",
            Operation::Act(Action::History) => "history",
            Operation::Authenticate => "authenticate",
            Operation::Continue => "continue",
        }
    }
}

/// The path of a request's target: without scheme and authority, which may hold a password, and
/// without the query, which may hold a token.
pub(crate) fn path_of(target: &str) -> &str {
    let path = match target.split_once("://") {
        Some((scheme, rest)) if !scheme.contains(['/', '?']) => {
            &rest[rest.find(['/', '?']).unwrap_or(rest.len())..]
        }
        _ => target,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    start_of(path, PATH_BYTES_MAX)
}

/// The first bytes of a text, as far as whole characters go.
pub(crate) fn start_of(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_hold_no_secrets() {
        for (target, path) in [
            ("/topics/a%20b?token=secret", "/topics/a%20b"),
            ("/topics?topic=a&token=secret", "/topics"),
            ("http://user:secret@host:1/a/b?token=secret", "/a/b"),
            ("http://user:secret@host", ""),
            ("http://user:secret@host?token=secret", ""),
            ("/a://b?token=x", "/a://b"),
            ("/a?b=http://c/secret", "/a"),
            ("*", "*"),
            ("/a#token=secret", "/a"),
        ] {
            assert_eq!(path_of(target), path, "{target}");
        }
        let long = format!("/{}", "\u{e9}".repeat(PATH_BYTES_MAX));
        assert!(path_of(&long).len() >= PATH_BYTES_MAX - 1);
        assert!(path_of(&long).len() <= PATH_BYTES_MAX);
    }
}
