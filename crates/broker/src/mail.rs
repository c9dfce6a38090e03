//! Messages between edges and homes. Plain immutable values, carried by the mailboxes of `node`.
//!
//! An edge sends [`ToHome`]s to a home and receives [`ToEdge`]s back. Between one edge and one home
//! both directions are first in, first out; that order is what makes history, live messages and
//! answers one stream without a window in which a message could be lost, repeated or overtaken.
//!
//! Credit. A home sends live messages ([`ToEdge::Message`], [`ToEdge::Announce`]) only while the
//! edge's credit lasts ([`ToHome::Credit`], pooled over the partitions of that home); out of credit
//! it keeps one number for each (partition, edge), `lag_from`, and later reads the log forward from
//! there. Answers are paid for by the request that asked for them, and never wait. An edge sends at
//! most [`Limits::requests_inflight_max`](crate::settings::Limits) requests to one home before
//! [`ToEdge::Consumed`] gives credit back; without it the edge stops reading the sockets concerned.
//! They are counted in classes ([`RequestClass`]). Requests that may have to wait for a log on disk
//! have one for each of these logs, so that a disk that hangs holds up only its own users; and a
//! log without progress for a while ([`ToEdge::Stalled`]) holds up none: requests that need its
//! disk are refused. Pages for subscriptions that replay or lag have classes of their own, so that
//! a storm of them does not hold up publishers and other subscribers.

mod group;
mod sleeping;
mod to_edge;
mod to_home;

pub use self::group::*;
pub use self::sleeping::*;
pub use self::to_edge::*;
pub use self::to_home::*;
pub use crate::ids::{EdgeId, HomeId, PartitionId};
use crate::position::Position;
use stdx::chunk::Slice;
use stdx::handing::Hand;
use stdx::key::Key;
pub use wire::native::ErrorCode as Code;
pub use wire::native::{IDEMPOTENCY_KEY_BYTES_MAX, PRODUCER_ID_BYTES_MAX};

/// The subscription that a letter concerns: its slab index in the edge and a generation against
/// reuse.
pub type SubscriptionKey = Key;

/// The address of an answer: a connection of the edge and the number that the session gave to its
/// question.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub struct Reply {
    /// The connection.
    pub connection: Key,
    /// The session's own number.
    pub request: u32,
}

impl Reply {
    /// The request of a publisher that wants no acknowledgement.
    pub const REFUSALS_ONLY: u32 = 0;
    /// The request of a connection of MQTT that waits for a record of its session.
    pub const SESSION_KEPT: u32 = u32::MAX;
}

/// The beginning of a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub enum Start {
    /// With the next message.
    Live,
    /// With the next message that the log gets. What a stream that lags brings before that is left
    /// out.
    AtHead,
    /// After a position: replay, then live.
    Since(Position),
    /// After the position of these two of one client that is valid and further; if none is valid,
    /// the first is asked for. Behind a gap, if the first is the later one and lost.
    SinceEither(Position, Position),
    /// With the newest `n` messages that history serves, then live.
    Last(u32),
    /// With the retained message, or else the newest in history, then live.
    Snapshot,
}

impl Start {
    /// The client's positions in it.
    pub(crate) fn positions(self) -> impl Iterator<Item = Position> {
        let positions = match self {
            Start::Since(position) => [Some(position), None],
            Start::SinceEither(first, other) => [Some(first), Some(other)],
            Start::Live | Start::AtHead | Start::Last(_) | Start::Snapshot => [None, None],
        };
        positions.into_iter().flatten()
    }
}

/// A message as a publisher gave it, under way to the log.
#[derive(Clone, Debug, Default, Hand)]
pub struct Publication {
    /// The topic's name; valid.
    pub topic: Slice,
    /// Content type and tags as one block of `wire::native::Attributes` (`encode_block`), valid; or
    /// empty for none.
    pub attributes: Slice,
    /// The body.
    pub payload: Slice,
    /// Keep it as the topic's retained message; an empty payload removes the retained one.
    pub retain: bool,
    /// The producer that numbers its publications, so that each is appended once.
    pub producer: Option<ProducerStamp>,
    /// Publications of one topic with the same key are appended once; empty for none. A
    /// message of a batch has its place behind the batch's key.
    pub idempotency_key: Slice,
    /// Append only in this life of the log.
    pub expected_epoch: Option<u64>,
    /// The QoS of a publication of MQTT, 0 to 2; none of another protocol.
    pub qos: Option<u8>,
    /// The publisher said that the payload is UTF-8.
    pub is_said_text: bool,
    /// Further fields of the record, encoded (`log::FurtherFields`).
    pub further: Slice,
}

/// Whether bytes may be the further fields of a publication.
pub fn are_further_fields(bytes: &[u8]) -> bool {
    log::FurtherFields::are_valid(bytes)
}

/// The producer that numbered a publication.
#[derive(Clone, Debug, Hand)]
pub struct ProducerStamp {
    /// The producer's name for itself, 1 to [`PRODUCER_ID_BYTES_MAX`] bytes.
    pub id: Slice,
    /// Increases with every publication of the producer; holes are allowed.
    pub sequence: u64,
    /// The begin of the connection's session, in milliseconds of the clock that all edges share: a
    /// newer one fences the older.
    pub connection: u64,
}

/// The cursor of a subscription to a filter in one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub struct PartitionCursor {
    /// The partition, numbered over all logs.
    pub partition: PartitionId,
    /// The position up to which everything is settled.
    pub position: Position,
}

/// The position of a subscription to a filter in one partition when its home has granted it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilterStart {
    /// The partition, numbered over all logs.
    pub partition: PartitionId,
    /// The life of the log.
    pub epoch: u64,
    /// The stream carries what matches after this offset.
    pub through: u64,
    /// The decision on the position that it came with.
    pub resumed: Option<Resumed>,
}

/// The decision on the position of a returning subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub struct Resumed {
    /// Records after this offset are to come: by pages up to the start of the stream; above that,
    /// it waits.
    pub after: u64,
    /// The records up to `after` that are no longer available.
    pub gap: Option<Gap>,
}

/// Bounds of one page of history.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub struct PageLimits {
    /// The maximum number of records.
    pub records_max: u32,
    /// The approximate maximum of bytes; one record always fits.
    pub bytes_max: u32,
}

/// The records that a page for a subscription brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand)]
pub enum ReadMode {
    /// All records, page by page.
    #[default]
    Replay,
    /// The newest record only, or, for filters, that of each topic; what lies before it is skipped.
    /// One page of a topic catches up.
    Newest,
    /// No record: all is skipped. One page catches up.
    Skip,
}

/// Messages left out of a page on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub struct Skip {
    /// Exclusive: everything before is settled.
    pub from: u64,
    /// Inclusive.
    pub through: u64,
}

/// Records of one topic, or of those that a filter covers in one partition, that are lost:
/// those after `from` up to and including `to`. With [`GapReason::UnknownEpoch`] and
/// [`GapReason::BeyondHead`] also all that the client had, or could have had, after `to`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub struct Gap {
    /// Exclusive: the last settled offset. Where the log lacks the asked position, the last one
    /// that it still has as the client knows it; 0 if nothing tells.
    pub from: u64,
    /// Inclusive.
    pub to: u64,
    /// Why.
    pub reason: GapReason,
}

/// The reason why records are no longer available.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub enum GapReason {
    /// The log has evicted them.
    Evicted,
    /// The position belongs to another life of the log.
    UnknownEpoch,
    /// The position is beyond the head.
    BeyondHead,
    /// The rule's `history_messages_max` or `history_age_max` keeps them from being served.
    HistoryLimit,
    /// The records were damaged on disk and are lost.
    Damaged,
}

impl GapReason {
    /// Its word in JSON and in user properties of MQTT.
    pub fn word(self) -> &'static str {
        match self {
            GapReason::Evicted => "evicted",
            GapReason::UnknownEpoch => "unknown_epoch",
            GapReason::BeyondHead => "beyond_head",
            GapReason::HistoryLimit => "history_limit",
            GapReason::Damaged => "damaged",
        }
    }
}
