//! Frames from the server to the client: what they say. `server_codec` reads and writes them.

use super::{
    Attributes, Beginning, ErrorCode, FrameError, List, PartitionBeginning, Position, Reference,
    Retained,
};

/// One frame from the server, borrowed from the message that carried it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ServerFrame<'a> {
    /// The answer to HELLO.
    Welcome(Welcome<'a>),
    /// A subscription holds.
    Subscribed(Subscribed<'a>),
    /// A subscription has ended.
    Unsubscribed(Unsubscribed),
    /// A message of a plain topic.
    Message(Message<'a>),
    /// A message for filters.
    NamedMessage(NamedMessage<'a>),
    /// Replay is over.
    CaughtUp(CaughtUp),
    /// Messages that can no longer be replayed.
    Gap(Gap),
    /// Messages left out on purpose.
    Skipped(Skipped),
    /// A publication's acknowledgement.
    Published(Published),
    /// One page of history.
    HistoryPage(HistoryPage<'a>),
    /// Something was refused.
    Error(ErrorFrame<'a>),
    /// Leave, and when and where to return.
    GoAway(GoAway<'a>),
    /// To be answered by a PONG with the same token.
    Ping(u64),
    /// The answer to the client's PING, with its token.
    Pong(u64),
    /// A resume ticket.
    TicketIssued(TicketIssued<'a>),
    /// The session goes on with a new token.
    Renewed(Renewed),
    /// The token expires soon: when, milliseconds since 1970 by the server's clock.
    TokenExpires(u64),
}

/// WELCOME.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Welcome<'a> {
    /// The node's name for the connection.
    pub connection: u64,
    /// Seconds within which the server expects a sign of life; 0 for never.
    pub ping_interval_s: u32,
    /// The server's clock, milliseconds since 1970.
    pub time_ms: u64,
    /// The longest frame that the server takes, in bytes.
    pub frame_bytes_max: u64,
    /// The longest payload that the server takes, in bytes.
    pub message_bytes_max: u64,
    /// How many subscriptions the session may hold.
    pub subscriptions_per_session_max: u32,
    /// The node's name.
    pub node: Option<&'a str>,
    /// The ticket was accepted: how many subscriptions it holds, each of which is answered now.
    pub resumed: Option<u32>,
    /// Tickets are issued here, and hold for so many seconds.
    pub ticket_lifetime_s: Option<u32>,
}

/// SUBSCRIBED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subscribed<'a> {
    /// The client's number.
    pub subscription: u32,
    /// What it is subscribed to.
    pub to: SubscribedTo<'a>,
}

/// What a subscription is to, and where it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubscribedTo<'a> {
    /// A plain topic.
    Topic(PlainTopic),
    /// A filter: where it begins in each partition. Of one that is not listed nothing is settled.
    Filter(List<'a, PartitionBeginning>),
}

/// What a subscription to a plain topic starts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlainTopic {
    /// Names the topic in MESSAGE, until a newer SUBSCRIBED takes it.
    pub alias: u32,
    /// Where it begins.
    pub beginning: Beginning,
}

/// UNSUBSCRIBED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unsubscribed {
    /// The client's number, free again.
    pub subscription: u32,
    /// An [`super::UnsubscribeCode`]'s number; unknown ones below 2500 are final.
    pub code: u32,
}

/// MESSAGE.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Message<'a> {
    /// Names the topic, by the newest SUBSCRIBED that gave this alias.
    pub alias: u32,
    /// Its place in the partition.
    pub offset: u64,
    /// The topic has no record between this offset and `offset`.
    pub prev: u64,
    /// Whether it was published to be retained.
    pub retained: Retained,
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
    /// The partition where it lives.
    pub partition: u32,
    /// Its place: the log's epoch and the partition's offset.
    pub position: Position,
    /// The topic has no record between this offset and the message's.
    pub prev: u64,
    /// Whether it was published to be retained.
    pub retained: Retained,
    /// A replay's: the one subscription that it is for. None: for all that match and are not
    /// replaying the partition.
    pub subscription: Option<u32>,
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
    /// For a filter: the partition whose replay is over.
    pub partition: Option<u32>,
    /// Everything up to and including this offset is settled.
    pub through: u64,
}

/// GAP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The client's number.
    pub subscription: u32,
    /// For a filter: the partition that the offsets belong to.
    pub partition: Option<u32>,
    /// The epoch that holds from here on.
    pub epoch: u64,
    /// The last settled offset; 0 when the asked position belongs to another epoch.
    pub from: u64,
    /// Everything up to and including this offset is settled now, as lost or unknown.
    pub to: u64,
    /// Why.
    pub reason: GapReason,
}

/// Why messages can no longer be replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GapReason {
    /// The log has dropped them for age or size.
    Evicted,
    /// The position's epoch is not this log's.
    UnknownEpoch,
    /// The position lies beyond the log's head.
    BeyondHead,
    /// The rule serves no more history than this.
    HistoryLimit,
    /// They were damaged on disk and are lost.
    Damaged,
    /// A reason of a later version.
    Other(u8),
}

/// SKIPPED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skipped {
    /// The client's number.
    pub subscription: u32,
    /// For a filter: the partition that the offsets belong to.
    pub partition: Option<PartitionEpoch>,
    /// Exclusive: the last offset before what was left out.
    pub from: u64,
    /// Inclusive: everything up to this offset is settled.
    pub through: u64,
    /// Why.
    pub reason: SkipReason,
}

/// A partition of a log, in one life of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionEpoch {
    /// The partition's number.
    pub partition: u32,
    /// The log's epoch.
    pub epoch: u64,
}

/// Why messages were left out on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SkipReason {
    /// Only the newest is sent.
    Conflated,
    /// The policy of the subscription drops them.
    Dropped,
    /// A reason of another version.
    Other(u8),
}

/// PUBLISHED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Published {
    /// The client's number.
    pub request: u32,
    /// Where the message is.
    pub position: Position,
    /// The log had it already.
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
    /// There is more behind the last record.
    pub more: bool,
    /// Newest first.
    pub reverse: bool,
    /// What lies between the asked position and the first record and can no longer be had.
    pub gap: Option<PageGap>,
    /// The records.
    pub records: List<'a, HistoryRecord<'a>>,
}

/// What a page of history could not serve, in the page's epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageGap {
    /// Exclusive: the asked offset, or 0 where the asked position belongs to another epoch.
    pub from: u64,
    /// Inclusive.
    pub to: u64,
    /// Why.
    pub reason: GapReason,
}

/// One record of a page of history.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HistoryRecord<'a> {
    /// Its place in the partition.
    pub offset: u64,
    /// The topic has no record between this offset and `offset`.
    pub prev: u64,
    /// When the server took it, milliseconds since 1970.
    pub time_ms: u64,
    /// Whether it was published to be retained.
    pub retained: Retained,
    /// Content type and tags.
    pub attributes: Attributes<'a>,
    /// The message.
    pub payload: &'a [u8],
}

/// ERROR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorFrame<'a> {
    /// What is refused.
    pub reference: Reference,
    /// An [`ErrorCode`]'s number; a client must bear unknown ones.
    pub code: u32,
    /// The same may succeed later.
    pub temporary: bool,
    /// For people.
    pub message: &'a str,
    /// With `position_unavailable`: where to go on. With `epoch_mismatch`: the log's epoch and
    /// head.
    pub restart: Option<Position>,
    /// The limit that would have been passed.
    pub limit: Option<u64>,
}

impl<'a> ErrorFrame<'a> {
    /// The error `code` with its own text.
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

    /// What a client is told whose bytes were no frame.
    #[must_use]
    pub fn of_frame(error: &FrameError) -> Self {
        Self { limit: error.limit(), ..Self::new(error.reference(), error.code()) }
    }
}

/// GO_AWAY.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GoAway<'a> {
    /// A [`super::CloseCode`]'s number: what the connection will be closed with.
    pub code: u32,
    /// How long to wait before returning, in milliseconds.
    pub return_after_ms: u64,
    /// Where to return, best first; empty for the same address.
    pub urls: List<'a, &'a str>,
    /// A resume ticket to return with.
    pub ticket: Option<&'a [u8]>,
}

/// TICKET_ISSUED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TicketIssued<'a> {
    /// The client's number.
    pub request: u32,
    /// Until when it holds, milliseconds since 1970 by the server's clock.
    pub expires_ms: u64,
    /// The ticket: at most [`super::TICKET_BYTES_MAX`] bytes, which mean nothing to the client.
    pub ticket: &'a [u8],
}

/// RENEWED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Renewed {
    /// The client's number.
    pub request: u32,
    /// When the new token expires, milliseconds since 1970 by the server's clock; 0 for never.
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
    /// The reason with this number; later versions' reasons are kept as numbers.
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
    /// The reason with this number; later versions' reasons are kept as numbers.
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
