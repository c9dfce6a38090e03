//! Notices: what a client is sent beside messages, before it has the form of a protocol.
//!
//! An edge makes a [`Notice`] with all facts that an encoder needs; the session's protocol turns it
//! into bytes (`session::encode`). Invariant: nothing here knows an edge or a session.

/// A granted subscription: the home's grant goes to the client unchanged.
pub(crate) use crate::mail::Grant;
use crate::mail::{
    Appended, Gap, HistoryPage, PartitionCursor, PartitionId, PublishRefusal, Start,
};
use crate::position::Position;
use crate::settings::LagPolicy;
pub(crate) use wire::native::Welcome;
use wire::native::{ErrorCode, Reference, SkipReason, UnsubscribeCode};

/// A notice to one client. `client` is the number of a subscription on its connection, `lineage`
/// the low byte of an epoch that advances ([`crate::epochs`]).
pub(crate) enum Notice<'a> {
    /// A subscription to a topic is granted; `alias` stands for the topic in messages.
    Subscribed { client: u32, alias: u32, grant: &'a Grant },
    /// The gap of the grant, if there is one, has been queued: the client may have the position.
    Started { client: u32, position: Position, is_replaying: bool },
    /// The retained message of a snapshot has been queued, which stands before the position.
    RetainedSent { client: u32, position: Position, lineage: Option<u8>, is_replaying: bool },
    /// A subscription to a filter is granted. `is_complete`: nothing before it is missing.
    SubscribedFilter { client: u32, beginnings: &'a [Beginning], is_complete: bool },
    /// All gaps of filters that were granted together have been queued; a partition that is live
    /// is settled up to this offset.
    FiltersStarted { partition: PartitionId, through: u64 },
    /// A subscription is refused.
    Refused { client: u32, refusal: Refusal },
    /// A command was not carried out; without a message, the text of the code is the reason.
    Failed { reference: Reference, refusal: Refusal, message: Option<&'a str> },
    /// Messages are missing: of a topic, or of a filter in one partition.
    Gap { client: u32, epoch: u64, partition: Option<PartitionId>, gap: Gap, found: Found },
    /// The lag policy of a subscription left messages out.
    LeftOut {
        client: u32,
        epoch: u64,
        lineage: Option<u8>,
        partition: Option<PartitionId>,
        left_out: LeftOut,
    },
    /// The replay of a topic is over. The frames before this one settle it up to `from`.
    CaughtUp { client: u32, from: u64, position: Position, lineage: Option<u8> },
    /// The replay of a filter is over in one partition; `is_last`: now in all of them.
    FilterCaughtUp {
        client: u32,
        epoch: u64,
        lineage: Option<u8>,
        partition: PartitionId,
        through: u64,
        is_last: bool,
    },
    /// A subscription ends.
    Unsubscribed { client: u32, code: UnsubscribeCode },
    /// A publication was appended, or was not.
    Published { request: u32, result: Result<Appended, PublishRefusal> },
    /// A page of history, or the reason why there is none.
    History { request: u32, result: &'a Result<HistoryPage, ErrorCode> },
    /// The node drains: the client is to return after this time, and may try these addresses.
    GoAway { return_after_ms: u64, urls: &'a [&'a str], ticket: Option<&'a [u8]> },
    /// The client's token expires at this time, in milliseconds since 1970.
    TokenExpires { expires_ms: u64 },
    /// The session begins.
    Welcome(Welcome<'a>),
    /// The client shows that it is there by sending the token back.
    Ping { token: u64 },
    /// The answer to a ping of the client.
    Pong { token: u64 },
    /// The ticket that the client asked for; it expires at this time, in milliseconds since 1970.
    TicketIssued { request: u32, expires_ms: u64, ticket: &'a [u8] },
    /// The client's new token holds, until this time in milliseconds since 1970; 0: for ever.
    Renewed { request: u32, expires_ms: u64 },
}

impl Notice<'_> {
    /// The error that the notice reports.
    pub fn error(&self) -> Option<ErrorCode> {
        match self {
            Notice::Refused { refusal, .. } | Notice::Failed { refusal, .. } => Some(refusal.code),
            Notice::Published { result: Err(refusal), .. } => Some(refusal.code),
            Notice::History { result: Err(code), .. } => Some(*code),
            Notice::Subscribed { .. }
            | Notice::Started { .. }
            | Notice::RetainedSent { .. }
            | Notice::SubscribedFilter { .. }
            | Notice::FiltersStarted { .. }
            | Notice::Gap { .. }
            | Notice::LeftOut { .. }
            | Notice::CaughtUp { .. }
            | Notice::FilterCaughtUp { .. }
            | Notice::Unsubscribed { .. }
            | Notice::Published { .. }
            | Notice::History { .. }
            | Notice::GoAway { .. }
            | Notice::TokenExpires { .. }
            | Notice::Welcome(_)
            | Notice::Ping { .. }
            | Notice::Pong { .. }
            | Notice::TicketIssued { .. }
            | Notice::Renewed { .. } => None,
        }
    }
}

/// The place where a gap was found.
#[derive(Clone, Copy)]
pub(crate) enum Found {
    /// In the grant, which begins at this position.
    AtStart(Position),
    /// The filter was refused when the client's cursor was made, so that the cursor does not know
    /// it.
    AfterRefusal,
    /// In a page of the log.
    InPage,
}

/// The part that the client has settled when it receives a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Settles {
    /// The frame is an answer: it settles nothing, and is never dropped.
    Nothing,
    /// One topic, after `from` up to the position.
    Topic { client: u32, from: u64, position: Position },
    /// Filters in one partition, after `after` up to `through`.
    Filters { partition: PartitionId, after: u64, through: u64 },
}

/// The body of a frame lies in the buffer of the caller; an empty body is not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Encoded {
    pub settles: Settles,
    /// The frame brings the session's cursor.
    pub has_cursor: bool,
    pub then: Then,
}

/// The follow-up of a notice for the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    /// Nothing more.
    Continue,
    /// The next flush visits the connection.
    MarkDirty,
    /// It closes when everything has been written.
    Close,
    /// Its request is answered with an error.
    Fail(ErrorCode),
}

impl Encoded {
    /// An answer, or nothing at all.
    pub const ANSWER: Encoded =
        Encoded { settles: Settles::Nothing, has_cursor: false, then: Then::Continue };

    /// A frame that settles something and brings the session's cursor, if it has one.
    pub fn mark(settles: Settles) -> Encoded {
        Encoded { settles, has_cursor: true, then: Then::Continue }
    }

    /// The frame with this follow-up.
    pub fn then(self, then: Then) -> Encoded {
        Encoded { then, ..self }
    }
}

/// The client's terms of a subscription to a plain topic.
#[derive(Clone, Copy)]
pub(crate) struct SubscribeTerms {
    pub start: Start,
    pub fail_on_gap: bool,
    /// Without one the rule's holds.
    pub policy: Option<LagPolicy>,
}

impl SubscribeTerms {
    /// To begin at `start`; a gap is announced, the rule says what becomes of it when it lags.
    pub fn from(start: Start) -> SubscribeTerms {
        SubscribeTerms { start, fail_on_gap: false, policy: None }
    }
}

/// The beginning of a subscription to filters.
#[derive(Clone, Copy)]
pub(crate) enum Since<'a> {
    /// After these cursors, and live in other partitions.
    After(&'a [PartitionCursor]),
    /// With the next message that each log gets, also where the stream lags.
    AtHead,
}

/// The start of a subscription to filters in one partition.
pub(crate) struct Beginning {
    pub partition: PartitionId,
    pub epoch: u64,
    /// The offset up to which everything is settled, or reported as a gap.
    pub through: u64,
    pub is_replaying: bool,
    /// It came with a position here.
    pub is_resumed: bool,
    pub gap: Option<Gap>,
}

impl Beginning {
    /// Its gap, and where.
    pub fn gap(&self) -> Option<(PartitionId, Gap)> {
        Some((self.partition, self.gap?))
    }
}

/// The refusal of a subscription.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub code: ErrorCode,
    /// The limit that would have been passed.
    pub limit: Option<u64>,
    /// From where it could continue.
    pub restart: Option<Position>,
}

impl Refusal {
    pub fn of(code: ErrorCode) -> Refusal {
        Refusal { code, limit: None, restart: None }
    }
}

/// The messages that a subscription was not sent, after `from` up to and including `through`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeftOut {
    /// Exclusive: settled by the client.
    pub from: u64,
    /// Inclusive.
    pub through: u64,
    pub reason: SkipReason,
}
