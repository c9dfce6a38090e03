//! The events of a session for its owner: owned values, in the order of their occurrence.
//!
//! Place: from the session to the shell and on to the application.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::fault::{self, Fault};
use wire::native::{Attributes, ErrorCode, GapReason, Position, SkipReason, Tag};

/// Identifies one subscription of a session over all reconnects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SubscriptionId(pub u32);

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The subscription of the message; `None` in a page of history.
    pub subscription: Option<SubscriptionId>,
    /// Further filters of this client that match the topic. The server sends such a message once.
    pub also: Vec<SubscriptionId>,
    /// Its topic.
    pub topic: Arc<str>,
    /// Its position in the log.
    pub position: Position,
    /// Its partition; only known for messages of filters.
    pub partition: Option<u32>,
    /// The topic has no record between this offset and the message's own.
    pub prev: u64,
    /// The payload.
    pub payload: Vec<u8>,
    /// The media type, if the publisher gave one.
    pub content_type: Option<String>,
    /// Key and value pairs of the publisher, in its order; keys may repeat.
    pub tags: Vec<(String, String)>,
    /// Whether it was published as the topic's retained message.
    pub retained: bool,
    /// The time of its receipt by the server, in milliseconds since 1970; known only in pages of
    /// history.
    pub time_ms: Option<u64>,
}

impl Message {
    /// A message without what only some have.
    #[inline]
    pub(super) fn new(
        topic: Arc<str>,
        position: Position,
        attributes: &Attributes<'_>,
        payload: &[u8],
    ) -> Message {
        let content_type = attributes.content_type.map(str::to_owned);
        let owned = |tag: Tag<'_>| (tag.key.to_owned(), tag.value.to_owned());
        // Most have none, and this is quicker than an empty iteration.
        let tags = if attributes.tags.is_empty() {
            Vec::new()
        } else {
            attributes.tags.iter().map(owned).collect()
        };
        Message {
            subscription: None,
            also: Vec::new(),
            topic,
            position,
            partition: None,
            prev: 0,
            payload: payload.to_vec(),
            content_type,
            tags,
            retained: false,
            time_ms: None,
        }
    }
}

/// The cause of a reported hole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GapCause {
    /// The server announced it.
    Announced(GapReason),
    /// The proof found it: the server neither delivered nor announced the missing messages.
    Unannounced,
    /// A filter was subscribed anew, live, because the server cannot continue from its positions:
    /// messages published in the meantime are not recovered.
    Reconnected,
}

/// A refusal by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// The number in the table of codes; unknown ones come from a newer server.
    pub code: u32,
    /// Whether the same request may succeed later.
    pub temporary: bool,
    /// A description for people.
    pub message: String,
    /// With `position_unavailable`: the position to continue from.
    pub restart: Option<Position>,
    /// The limit that the request would have exceeded.
    pub limit: Option<u64>,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The number alone would look like a status of HTTP.
        match ErrorCode::from_number(self.code.into()) {
            Some(code) => write!(f, "{} ({}", self.message, code.name())?,
            None => write!(f, "{} (Crore error {}", self.message, self.code)?,
        }
        if let Some(limit) = self.limit {
            write!(f, ", limit {limit}")?;
        }
        f.write_str(")")
    }
}

impl std::error::Error for ServerError {}

/// The reason why a connection ended or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An error of the network.
    Network(io::ErrorKind),
    /// TLS failed: the certificate is not trusted, or the two sides have no common parameters.
    Tls(String),
    /// The host name cannot be resolved now.
    NameNotFound,
    /// The peer ended its stream without a reason.
    Ended,
    /// The server answered the handshake with another status than 101.
    HandshakeRefused {
        /// The HTTP status.
        status: u16,
        /// The value of `Retry-After`, if given in seconds.
        retry_after_s: Option<u64>,
    },
    /// The server violated the protocol; the text has details.
    Protocol(String),
    /// The server uses a feature of the protocol that this version of the client does not know.
    Unsupported(String),
    /// The server closed with this code.
    Closed {
        /// The WebSocket close code; 1005 if there was none.
        code: u16,
        /// The reason, for people.
        reason: String,
    },
    /// The session left because the server requested it.
    GoAway {
        /// The close code that the server announced.
        code: u32,
    },
    /// The server was silent for twice the ping interval, in spite of a ping.
    Idle,
    /// The handshake or WELCOME did not complete in time.
    HandshakeTimeout,
}

impl Reason {
    /// Whether another attempt makes sense; a close code decides by its range.
    pub fn reconnects(&self) -> bool {
        match self {
            Reason::HandshakeRefused { status, .. } => {
                matches!(status, 408 | 425 | 429 | 500..=599)
            }
            // Bytes may have been damaged in transit, and backoff limits the load.
            Reason::Protocol(_) => true,
            Reason::Unsupported(_) => false,
            Reason::Closed { code, .. } => close_code_reconnects(u32::from(*code)),
            Reason::GoAway { code } => close_code_reconnects(*code),
            // A certificate may be renewed.
            Reason::Network(_)
            | Reason::Tls(_)
            | Reason::NameNotFound
            | Reason::Ended
            | Reason::Idle
            | Reason::HandshakeTimeout => true,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Network(kind) => write!(f, "{kind}"),
            Reason::Tls(what) => write!(f, "TLS: {what}"),
            Reason::NameNotFound => f.write_str("the host's name has no address"),
            Reason::Ended => f.write_str("the server closed the connection"),
            Reason::HandshakeRefused { status, .. } => {
                write!(f, "the server answered the handshake with status {status}")
            }
            Reason::Protocol(what) => write!(f, "protocol violation: {what}"),
            Reason::Unsupported(what) => write!(f, "not supported by this client: {what}"),
            Reason::Closed { code, reason } if reason.is_empty() => write!(f, "closed with {code}"),
            Reason::Closed { code, reason } => write!(f, "closed with {code}: {reason}"),
            Reason::GoAway { code } => {
                write!(f, "the server asked the client to disconnect ({code})")
            }
            Reason::Idle => f.write_str("the server was silent for too long"),
            Reason::HandshakeTimeout => f.write_str("the handshake took too long"),
        }
    }
}

/// Whether a client may reconnect after this close code: decided by range for codes of Crore, by
/// meaning for those of RFC 6455 section 7.4.1.
pub fn close_code_reconnects(code: u32) -> bool {
    fault::is(Fault::IgnoresCloseCode)
        || matches!(code, 1001 | 1005 | 1006 | 1011..=1014 | 3000..=3499 | 4000..=4499)
}

/// An event of a session. Messages, gaps and markers of one topic are in the log's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The server has accepted the session.
    Connected {
        /// The server's identifier of the connection.
        connection: u64,
        /// The node's name, if it has one.
        node: Option<String>,
    },
    /// A subscription is active.
    Subscribed {
        /// The subscription.
        subscription: SubscriptionId,
        /// Its topic or filter.
        filter: Arc<str>,
        /// The last settled position, for a topic.
        position: Option<Position>,
        /// A replay follows, up to [`Event::CaughtUp`].
        replaying: bool,
    },
    /// A message.
    Message(Message),
    /// Everything up to `position` was delivered or reported; live from here. Occurs at least once
    /// after each [`Event::Subscribed`] of a topic, and for each replayed partition of a filter. A
    /// live filter receives it repeatedly while other topics keep a partition busy, so that the
    /// position does not fall behind the log's oldest record.
    CaughtUp {
        /// The subscription.
        subscription: SubscriptionId,
        /// Its topic or filter.
        filter: Arc<str>,
        /// The partition, for a filter.
        partition: Option<u32>,
        /// The settled position.
        position: Position,
        /// Whether no gap was reported since the connection began: then nothing after the requested
        /// cursor is missing.
        complete: bool,
    },
    /// Messages of this subscription are missing.
    Gap {
        /// The subscription.
        subscription: SubscriptionId,
        /// Its topic or filter.
        filter: Arc<str>,
        /// The partition, for a filter; `None` if it is unknown.
        partition: Option<u32>,
        /// The last settled position before the hole, if known.
        from: Option<Position>,
        /// Everything up to and including this position is lost or unknown, if known.
        to: Option<Position>,
        /// The cause.
        cause: GapCause,
    },
    /// The server skipped messages on purpose.
    Skipped {
        /// The subscription.
        subscription: SubscriptionId,
        /// Its topic or filter.
        filter: Arc<str>,
        /// The partition, for a filter.
        partition: Option<u32>,
        /// The start, exclusive.
        from: u64,
        /// The end, inclusive.
        through: u64,
        /// The reason.
        reason: SkipReason,
    },
    /// The server ended or refused a subscription permanently; the session has removed it.
    Unsubscribed {
        /// The subscription.
        subscription: SubscriptionId,
        /// Its topic or filter.
        filter: Arc<str>,
        /// The refusal, or the unsubscribe code as its `code`; `None` if the application requested
        /// it.
        error: Option<ServerError>,
    },
    /// An error about the connection as a whole; the server usually closes next.
    Error(ServerError),
    /// The token expires soon: the application must provide a new one ([`super::Session::renew`]),
    /// or the server will close.
    TokenExpires {
        /// The time until then, in milliseconds.
        in_ms: u64,
    },
    /// The session continues with the new token.
    TokenRenewed {
        /// The time until it expires, in milliseconds; `None`: never.
        expires_in_ms: Option<u64>,
    },
    /// The server refused the new token; the old one is still valid.
    TokenRefused(ServerError),
    /// The server requested that the client leave.
    GoAway {
        /// The announced close code.
        code: u32,
        /// The delay before the return, in milliseconds.
        return_after_ms: u64,
        /// URLs for the return, best first; empty for the same address.
        urls: Vec<String>,
    },
    /// The connection is lost. Subscriptions remain and will be resumed from their cursors.
    Disconnected {
        /// The reason.
        reason: Reason,
        /// The time until the next attempt, in milliseconds; `None` if there will be none.
        retry_in_ms: Option<u64>,
    },
}

/// The answer to a request, by the request's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A publication was appended to the log.
    Published(Published),
    /// One page of history.
    History(HistoryPage),
    /// The server refused the request; nothing was done.
    Refused(ServerError),
    /// The connection was lost before the answer: the request may have been carried out. For a
    /// publication with an [`super::Once`], it also means that there will be no further connection
    /// to repeat it on.
    Unknown,
}

/// The acknowledgement of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The position of the message.
    pub position: Position,
    /// The log already contained it; the position is that of the first copy.
    pub duplicate: bool,
}

/// One page of a topic's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryPage {
    /// The log's epoch.
    pub epoch: u64,
    /// The partition's newest offset.
    pub head: u64,
    /// More messages follow the last one.
    pub more: bool,
    /// The range between the requested position and the first message that is no longer available.
    pub gap: Option<HistoryGap>,
    /// The messages, in the requested order.
    pub messages: Vec<Message>,
}

/// A range that a page of history cannot show: the topic may have had messages there, but they are
/// lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryGap {
    /// The start, exclusive; an offset of the page's epoch. 0 if the requested position is of
    /// another epoch: then all messages up to `to` are missing.
    pub from: u64,
    /// The end, inclusive.
    pub to: u64,
    /// The reason.
    pub reason: GapReason,
}

/// The counters of a session since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages passed to the owner.
    pub messages: u64,
    /// Messages dropped because they were settled before.
    pub duplicates: u64,
    /// Messages dropped because the server sent them after a later one.
    pub out_of_order: u64,
    /// Reported gaps of all causes.
    pub gaps: u64,
    /// Reported skips.
    pub skipped: u64,
    /// Messages for an unknown alias or for no filter of this session.
    pub unexpected: u64,
    /// Publications that were repeated after a reconnect.
    pub repeated: u64,
    /// Connections that were resumed with a ticket.
    pub resumptions: u64,
    /// Connections that the server accepted.
    pub connections: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_codes_decide_about_a_reconnect() {
        for code in [1001, 1005, 1006, 1012, 3000, 3499, 4000, 4499] {
            assert!(close_code_reconnects(code), "{code}");
        }
        for code in
            [1000, 1002, 1003, 1007, 1008, 1009, 1010, 1015, 2999, 3500, 3999, 4500, 4999, 5000]
        {
            assert!(!close_code_reconnects(code), "{code}");
        }
        for code in wire::native::CloseCode::ALL {
            assert_eq!(close_code_reconnects(u32::from(code.number())), code.reconnects());
        }
        let refused = |status| Reason::HandshakeRefused { status, retry_after_s: None };
        assert!(refused(503).reconnects() && refused(429).reconnects());
        assert!(!refused(401).reconnects() && !refused(404).reconnects());
    }
}
