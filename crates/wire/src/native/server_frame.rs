//! Frames from the server to the client. `server_codec` encodes and decodes them.

use super::{
    Attributes, Beginning, ErrorCode, FrameError, List, PartitionBeginning, Position, Reference,
    Retained,
};

/// One frame from the server, borrowed from its message.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ServerFrame<'a> {
    /// The answer to HELLO.
    Welcome(Welcome<'a>),
    /// A subscription is active.
    Subscribed(Subscribed<'a>),
    /// A subscription has ended.
    Unsubscribed(Unsubscribed),
    /// A message of a plain topic.
    Message(Message<'a>),
    /// A message for filters.
    NamedMessage(NamedMessage<'a>),
    /// Replay is complete.
    CaughtUp(CaughtUp),
    /// Messages that can no longer be replayed.
    Gap(Gap),
    /// Messages skipped on purpose.
    Skipped(Skipped),
    /// Acknowledgement of a publication.
    Published(Published),
    /// One page of history.
    HistoryPage(HistoryPage<'a>),
    /// A refusal.
    Error(ErrorFrame<'a>),
    /// The client must disconnect; time and addresses for its return.
    GoAway(GoAway<'a>),
    /// Requests a PONG with the same token.
    Ping(u64),
    /// The answer to the client's PING, with its token.
    Pong(u64),
    /// A resume ticket.
    TicketIssued(TicketIssued<'a>),
    /// The session continues with a new token.
    Renewed(Renewed),
    /// The token expires soon: the time in milliseconds since 1970 by the server's clock.
    TokenExpires(u64),
}

/// WELCOME.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Welcome<'a> {
    /// The connection's identifier on this node.
    pub connection: u64,
    /// The maximum interval between heartbeats from the client, in seconds; 0 for none.
    pub ping_interval_s: u32,
    /// The server's clock, milliseconds since 1970.
    pub time_ms: u64,
    /// The maximum frame size that the server accepts, in bytes.
    pub frame_bytes_max: u64,
    /// The maximum payload size that the server accepts, in bytes.
    pub message_bytes_max: u64,
    /// The maximum number of subscriptions per session.
    pub subscriptions_per_session_max: u32,
    /// The node's name.
    pub node: Option<&'a str>,
    /// The number of subscriptions in the accepted ticket; the server answers each of them now.
    pub resumed: Option<u32>,
    /// The lifetime of tickets in seconds, if the server issues them.
    pub ticket_lifetime_s: Option<u32>,
}

/// SUBSCRIBED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subscribed<'a> {
    /// The client's number.
    pub subscription: u32,
    /// The topic or filter, and the beginning.
    pub to: SubscribedTo<'a>,
}

/// The topic or filter of a subscription, and its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubscribedTo<'a> {
    /// A plain topic.
    Topic(PlainTopic),
    /// A filter: the beginning in each partition. Partitions that are not listed have no settled
    /// offset.
    Filter(List<'a, PartitionBeginning>),
}

/// The beginning of a subscription to a plain topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlainTopic {
    /// The alias of the topic in MESSAGE, until a newer SUBSCRIBED uses it.
    pub alias: u32,
    /// The beginning of the subscription.
    pub beginning: Beginning,
}

/// UNSUBSCRIBED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unsubscribed {
    /// The client's number, which is free again.
    pub subscription: u32,
    /// The number of an [`super::UnsubscribeCode`]; unknown ones below 2500 are final.
    pub code: u32,
}

/// MESSAGE.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Message<'a> {
    /// The topic, by the newest SUBSCRIBED with this alias.
    pub alias: u32,
    /// The message's offset in the partition.
    pub offset: u64,
    /// The topic has no record between this offset and `offset`.
    pub prev: u64,
    /// Whether it was published with RETAIN.
    pub retained: Retained,
    /// The low byte of the epoch, of a log whose epoch may advance without loss.
    pub lineage: Option<u8>,
    /// Content type and tags.
    pub attributes: Attributes<'a>,
    /// The message.
    pub payload: &'a [u8],
}

/// NAMED_MESSAGE.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NamedMessage<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The topic's partition.
    pub partition: u32,
    /// The message's position: the log's epoch and the partition's offset.
    pub position: Position,
    /// The topic has no record between this offset and the message's.
    pub prev: u64,
    /// Whether it was published with RETAIN.
    pub retained: Retained,
    /// The subscription of a replay. None: for all matching ones that are not replaying the
    /// partition.
    pub subscription: Option<u32>,
    /// The lineage, as in MESSAGE.
    pub lineage: Option<u8>,
    /// Content type and tags.
    pub attributes: Attributes<'a>,
    /// The message.
    pub payload: &'a [u8],
}

/// CAUGHT_UP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CaughtUp {
    /// The client's number.
    pub subscription: u32,
    /// The partition whose replay is complete, for a filter.
    pub partition: Option<u32>,
    /// Everything up to and including this offset is settled.
    pub through: u64,
    /// The lineage, as in MESSAGE.
    pub lineage: Option<u8>,
}

/// GAP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The client's number.
    pub subscription: u32,
    /// The partition of the offsets, for a filter.
    pub partition: Option<u32>,
    /// The log's epoch from here on.
    pub epoch: u64,
    /// The last settled offset; 0 if the requested position belongs to another epoch.
    pub from: u64,
    /// Everything up to and including this offset is settled now, as lost or unknown.
    pub to: u64,
    /// The reason.
    pub reason: GapReason,
}

/// The reason why messages can no longer be replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GapReason {
    /// The log has dropped them because of age or size.
    Evicted,
    /// The position's epoch is not this log's.
    UnknownEpoch,
    /// The position lies beyond the log's head.
    BeyondHead,
    /// The rule limits the history to less than this.
    HistoryLimit,
    /// They were lost through damage on disk.
    Damaged,
    /// A reason of a later version.
    Other(u8),
}

/// SKIPPED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skipped {
    /// The client's number.
    pub subscription: u32,
    /// The partition of the offsets, for a filter.
    pub partition: Option<PartitionEpoch>,
    /// Exclusive: the last offset before the skipped messages.
    pub from: u64,
    /// Inclusive: everything up to this offset is settled.
    pub through: u64,
    /// The reason.
    pub reason: SkipReason,
    /// The lineage, as in MESSAGE; none where `partition` has the epoch.
    pub lineage: Option<u8>,
}

/// A partition, and the epoch of its log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionEpoch {
    /// The partition's number.
    pub partition: u32,
    /// The log's epoch.
    pub epoch: u64,
}

/// The reason why messages were skipped on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SkipReason {
    /// Only the newest message is sent.
    Conflated,
    /// The subscription's policy drops them.
    Dropped,
    /// A reason of another version.
    Other(u8),
}

/// PUBLISHED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Published {
    /// The client's number.
    pub request: u32,
    /// The message's position.
    pub position: Position,
    /// The log already contained the message.
    pub duplicate: bool,
}

/// HISTORY_PAGE.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HistoryPage<'a> {
    /// The client's number.
    pub request: u32,
    /// The log's epoch, for all records.
    pub epoch: u64,
    /// The partition's newest offset.
    pub head: u64,
    /// More records follow the last one.
    pub more: bool,
    /// Newest first.
    pub reverse: bool,
    /// The messages between the requested position and the first record that are no longer
    /// available.
    pub gap: Option<PageGap>,
    /// The records.
    pub records: List<'a, HistoryRecord<'a>>,
}

/// The messages that a page of history could not include, in the page's epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageGap {
    /// Exclusive: the requested offset, or 0 if the requested position belongs to another epoch.
    pub from: u64,
    /// Inclusive: the last missing offset.
    pub to: u64,
    /// The reason.
    pub reason: GapReason,
}

/// One record of a page of history.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HistoryRecord<'a> {
    /// The record's offset in the partition.
    pub offset: u64,
    /// The topic has no record between this offset and `offset`.
    pub prev: u64,
    /// The time when the server accepted it, milliseconds since 1970.
    pub time_ms: u64,
    /// Whether it was published with RETAIN.
    pub retained: Retained,
    /// Content type and tags.
    pub attributes: Attributes<'a>,
    /// The message.
    pub payload: &'a [u8],
}

/// ERROR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorFrame<'a> {
    /// The subject of the error.
    pub reference: Reference,
    /// The number of an [`ErrorCode`]; a client must tolerate unknown ones.
    pub code: u32,
    /// A later repetition of the request may succeed.
    pub temporary: bool,
    /// The text for people.
    pub message: &'a str,
    /// With `position_unavailable`: the position for a restart. With `epoch_mismatch`: the log's
    /// epoch and head.
    pub restart: Option<Position>,
    /// The exceeded limit.
    pub limit: Option<u64>,
}

impl<'a> ErrorFrame<'a> {
    /// Creates an error with the text of `code`.
    #[must_use]
    pub fn new(reference: Reference, code: ErrorCode) -> Self {
        Self {
            reference,
            code: u32::from(code.number()),
            temporary: code.temporary(),
            message: code.text(),
            restart: None,
            limit: None,
        }
    }

    /// Creates the answer to a malformed frame.
    #[must_use]
    pub fn of_frame(error: &FrameError) -> Self {
        Self { limit: error.limit(), ..Self::new(error.reference(), error.code()) }
    }
}

/// GO_AWAY.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GoAway<'a> {
    /// The number of the [`super::CloseCode`] with which the connection will be closed.
    pub code: u32,
    /// The delay before the return, in milliseconds.
    pub return_after_ms: u64,
    /// URLs for the return, best first; empty for the same address.
    pub urls: List<'a, &'a str>,
    /// A resume ticket for the return.
    pub ticket: Option<&'a [u8]>,
}

/// TICKET_ISSUED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TicketIssued<'a> {
    /// The client's number.
    pub request: u32,
    /// The expiry, milliseconds since 1970 by the server's clock.
    pub expires_ms: u64,
    /// The ticket: at most [`super::TICKET_BYTES_MAX`] bytes, opaque to the client.
    pub ticket: &'a [u8],
}

/// RENEWED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Renewed {
    /// The client's number.
    pub request: u32,
    /// The expiry of the new token, milliseconds since 1970 by the server's clock; 0 for never.
    pub expires_ms: u64,
}

impl Subscribed<'_> {
    /// The plain topic, if it is one.
    #[must_use]
    pub fn topic(&self) -> Option<PlainTopic> {
        match self.to {
            SubscribedTo::Topic(topic) => Some(topic),
            SubscribedTo::Filter(_) => None,
        }
    }
}

impl GapReason {
    /// The reason with this number; unknown ones are stored as numbers.
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Evicted,
            1 => Self::UnknownEpoch,
            2 => Self::BeyondHead,
            3 => Self::HistoryLimit,
            4 => Self::Damaged,
            other => Self::Other(other),
        }
    }

    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Evicted => 0,
            Self::UnknownEpoch => 1,
            Self::BeyondHead => 2,
            Self::HistoryLimit => 3,
            Self::Damaged => 4,
            Self::Other(number) => number,
        }
    }
}

impl SkipReason {
    /// The reason with this number; unknown ones are stored as numbers.
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Conflated,
            3 => Self::Dropped,
            other => Self::Other(other),
        }
    }

    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Conflated => 1,
            Self::Dropped => 3,
            Self::Other(number) => number,
        }
    }
}
