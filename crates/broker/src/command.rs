//! Commands: what a client asks for, whatever its protocol.
//!
//! Step 3 of the path. A session decodes bytes to commands; the edge carries them out
//! (`edge::flow::command`). Values borrow from the input; nothing here is checked against state,
//! limits or permissions.

use crate::mail::{PartitionCursor, Start};
use crate::position::Position;
use crate::settings::LagPolicy;
use wire::native::{Attributes, ErrorCode, Once};

/// A client's command.
pub(crate) enum Command<'a> {
    /// Publishes one message to one topic.
    Publish(Publish<'a>),
    /// Reads a page of a topic's history.
    History(History<'a>),
    /// Allows more messages of a replay.
    Credit { client: u32, messages: u32 },
    /// Asks for an answer with the same number.
    Ping(u64),
    /// Answers a ping: the peer is alive, which its bytes have shown.
    Pong,
    /// Asks for a resume ticket.
    Ticket { request: u32 },
    /// Continues the session with a new token.
    Renew { request: u32, token: &'a str },
}

/// A subscription that a client asks for.
pub(crate) struct Subscribe<'a> {
    /// A topic, or a filter with wildcards; its syntax is unchecked.
    pub filter: &'a str,
    pub begin: Begin,
    /// A refusal instead of a gap.
    pub fail_on_gap: bool,
    /// Without one the topic's rule decides.
    pub policy: Option<LagPolicy>,
    /// Messages that may be replayed before the client allows more; without it, the socket sets the
    /// pace.
    pub replay_credit: Option<u32>,
}

/// The start of a subscription.
#[derive(Clone)]
pub(crate) enum Begin {
    /// A filter begins live only.
    At(Start),
    /// A filter: after these positions; partitions that are not listed begin live.
    After(Vec<PartitionCursor>),
}

/// The reason that an item of a request cannot be a command.
#[derive(Clone, Copy)]
pub(crate) struct Malformed {
    pub code: ErrorCode,
    /// The limit that it passes.
    pub limit: Option<u64>,
}

/// A publication that a client asks for.
pub(crate) struct Publish<'a> {
    /// The client's number for it. 0 is answered only by a refusal.
    pub request: u32,
    /// Unchecked.
    pub topic: &'a str,
    pub attributes: Attributes<'a>,
    pub payload: &'a [u8],
    pub retain: bool,
    /// The names by which a repetition is recognized.
    pub once: Option<Once<'a>>,
    /// Only in this life of the log.
    pub expected_epoch: Option<u64>,
    /// Properties of MQTT; none of another protocol.
    pub mqtt: Option<OfMqtt<'a>>,
}

/// Properties that only publications of MQTT have.
#[derive(Clone, Copy)]
pub(crate) struct OfMqtt<'a> {
    /// 0 to 2.
    pub qos: u8,
    /// The publisher said that the payload is UTF-8.
    pub is_said_text: bool,
    /// Further fields of the record, encoded.
    pub further: &'a [u8],
}

/// A page of history that a client asks for.
pub(crate) struct History<'a> {
    pub request: u32,
    /// Unchecked.
    pub topic: &'a str,
    /// Records after this position, or before it in reverse.
    pub beyond: Option<Position>,
    pub reverse: bool,
    /// 0: the server's bound.
    pub records_max: u32,
    /// 0: the server's bound.
    pub bytes_max: u32,
}
