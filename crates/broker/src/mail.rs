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
}

/// The beginning of a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub enum Start {
    /// With the next message.
    Live,
    /// After a position: replay, then live.
    Since(Position),
    /// With the newest `n` messages that history serves, then live.
    Last(u32),
    /// With the retained message, or else the newest in history, then live.
    Snapshot,
}

/// A message as a publisher gave it, under way to the log.
#[derive(Clone, Debug, Default)]
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
}

/// The producer that numbered a publication.
#[derive(Clone, Debug)]
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

/// Edge to home.
#[derive(Clone, Debug)]
pub enum ToHome {
    /// Interest in a topic, for one subscription. Answered by [`ToEdge::Granted`] or
    /// [`ToEdge::Refused`].
    Subscribe(Subscribe),
    /// The edge has no plain subscription for this index any more. Honoured only if `generation` is
    /// that of the newest grant; otherwise a newer grant is under way and the edge will speak
    /// again.
    Release {
        /// The index of the topic between this home and this edge.
        index: u32,
        /// The newest generation that the edge has seen for it.
        generation: u32,
    },
    /// The next page for a replaying or lagging subscription. Answered by [`ToEdge::Page`].
    Read(ReadTopic),
    /// One page of a topic's history. Answered by [`ToEdge::History`].
    History(ReadHistory),
    /// A topic's retained message. Answered by [`ToEdge::History`], with it as the only record or
    /// with none.
    Retained {
        /// The topic's partition.
        partition: PartitionId,
        /// The topic's name; valid.
        topic: Slice,
        /// The connection that asks.
        reply: Reply,
    },
    /// Names of topics, and how far this edge's streams have come: what a resume ticket is made of,
    /// and what a new token is held against. Answered by [`ToEdge::Described`].
    Describe(Describe),
    /// Asks how far this edge's streams have come, for the positions of filters. Answered by
    /// [`ToEdge::Positions`].
    Positions,
    /// Append a message. Answered by [`ToEdge::Published`] if `reply` is given.
    Publish(Publish),
    /// A subscription to a filter, asked of every home. Answered by [`ToEdge::FilterGranted`].
    AddFilter(AddFilter),
    /// The next page of one partition for a subscription to filters that replays or lags. Answered
    /// by [`ToEdge::FilterPage`], after other requests of the same edge if need be.
    ReadFilter(ReadFilter),
    /// The edge has no subscription to this filter any more.
    RemoveFilter {
        /// The filter.
        filter: Slice,
    },
    /// Grants further bytes of live messages under way. Costs no request credit.
    Credit {
        /// Bytes, counted by [`ToEdge::cost`].
        bytes: u32,
    },
}

/// Asks for interest in a topic, for one subscription.
#[derive(Clone, Debug, Hand)]
pub struct Subscribe {
    /// The topic's partition.
    pub partition: PartitionId,
    /// The rule that governs the topic (index into the settings).
    pub rule: u16,
    /// The topic's name; valid.
    pub topic: Slice,
    /// The subscription that asks.
    pub subscription: SubscriptionKey,
    /// The beginning.
    pub start: Start,
}

/// Asks for the next page of a topic, for a subscription that replays or lags.
#[derive(Clone, Copy, Debug, Hand)]
pub struct ReadTopic {
    /// The topic's partition.
    pub partition: PartitionId,
    /// The index of the topic between this home and this edge.
    pub index: u32,
    /// The subscription that asks.
    pub subscription: SubscriptionKey,
    /// Records after this offset.
    pub after: u64,
    /// The selection of the records.
    pub mode: ReadMode,
    /// Bounds of the page.
    pub limits: PageLimits,
}

/// Asks for one page of a topic's history.
#[derive(Clone, Debug, Hand)]
pub struct ReadHistory {
    /// The topic's partition.
    pub partition: PartitionId,
    /// The rule that governs the topic.
    pub rule: u16,
    /// The topic's name; valid.
    pub topic: Slice,
    /// The connection that asks.
    pub reply: Reply,
    /// Records beyond this position (exclusive): after it, or before it when `reverse`.
    pub beyond: Option<Position>,
    /// Newest first.
    pub reverse: bool,
    /// Bounds of the page.
    pub limits: PageLimits,
}

/// Asks for names of topics, and for how far this edge's streams have come.
#[derive(Clone, Debug)]
pub struct Describe {
    /// The connection whose subscriptions they are.
    pub connection: Key,
    /// Comes back with the answer.
    pub number: u32,
    /// Topics between this home and this edge; the edge has subscriptions to all of them.
    pub indexes: Vec<u32>,
    /// Positions of partitions are wanted too.
    pub positions: bool,
}

/// Asks for a message to be appended.
#[derive(Clone, Debug)]
pub struct Publish {
    /// The topic's partition.
    pub partition: PartitionId,
    /// The rule that governs the topic.
    pub rule: u16,
    /// The address of the answer. With [`Reply::REFUSALS_ONLY`] as its request the answer is a
    /// refusal only, and costs no letter otherwise.
    pub reply: Option<Reply>,
    /// The message.
    pub publication: Publication,
}

/// Asks for interest in the topics that a filter covers, for one subscription.
#[derive(Clone, Debug)]
pub struct AddFilter {
    /// The hash of the user; 0 where clients present no credentials.
    pub user: u64,
    /// The filter; valid, with wildcards. The edge may have it here already.
    pub filter: Slice,
    /// The subscription that asks.
    pub subscription: SubscriptionKey,
    /// Positions that it comes with, of partitions of this home, ascending.
    pub since: Vec<PartitionCursor>,
}

/// Asks for the next page of one partition, for a subscription to filters that replays or lags.
#[derive(Clone, Debug, Hand)]
pub struct ReadFilter {
    /// A partition of this home.
    pub partition: PartitionId,
    /// Filters, valid; the page brings topics that any of them covers.
    pub filters: Vec<Slice>,
    /// The subscription that asks.
    pub subscription: SubscriptionKey,
    /// Records after this offset.
    pub after: u64,
    /// The records that the page brings.
    pub mode: ReadMode,
    /// Bounds of the page.
    pub limits: PageLimits,
}

/// Home to edge.
#[derive(Clone, Debug)]
pub enum ToEdge {
    /// The subscription has interest. From here on the stream carries the topic's messages after
    /// `position`.
    ///
    /// A `Live` start is live at once, complete from `position`. Any other start is replaying: the
    /// edge asks for pages ([`ToHome::Read`]) from `position` on and ignores the live messages of
    /// the stream until a page says `caught_up`.
    Granted(Grant),
    /// The subscription was refused; nothing has changed.
    Refused {
        /// The subscription that asked.
        subscription: SubscriptionKey,
        /// Why.
        code: Code,
    },
    /// Every home answers; live messages of matching topics follow on this home's stream.
    FilterGranted {
        /// The subscription that asked.
        subscription: SubscriptionKey,
        /// Its beginning in each partition of this home, or the reason of the refusal.
        result: Result<Vec<FilterStart>, Code>,
    },
    /// A page of one partition for a subscription to filters.
    FilterPage(FilterPage),
    /// The first delivery for a filter: from here on `index` stands for this topic, until
    /// [`ToEdge::Released`].
    Announce {
        /// The topic between this home and this edge.
        index: u32,
        /// The topic's partition.
        partition: PartitionId,
        /// The topic's name.
        topic: Slice,
    },
    /// A live message.
    Message {
        /// The topic between this home and this edge.
        index: u32,
        /// The whole record as it lies in the log (`log::record`).
        record: Slice,
    },
    /// The index stands for nothing any more, and may be granted anew by a later letter.
    Released {
        /// The index.
        index: u32,
    },
    /// A page for a replaying or lagging subscription.
    Page(Page),
    /// The stream of a partition lost records that the log evicted before the edge had credit for
    /// them: every subscription of the partition, to a topic or to a filter, continues by pages
    /// from `from`.
    StreamGap {
        /// The partition.
        partition: PartitionId,
        /// Exclusive: the last offset that the stream had carried.
        from: u64,
        /// Inclusive: the stream continues after this offset.
        to: u64,
    },
    /// A page of history.
    History {
        /// The connection that asked.
        reply: Reply,
        /// The page, or why not.
        result: Result<HistoryPage, Code>,
    },
    /// The answer to [`ToHome::Describe`]. Of each partition, everything up to its position that
    /// this edge has interest in has been posted before this letter.
    Described(Description),
    /// The answer to [`ToHome::Positions`]: of each partition of this home how far the stream to
    /// this edge has come.
    Positions {
        /// In the order of the partitions.
        positions: Vec<StreamPosition>,
    },
    /// The acknowledgement of a publish.
    Published {
        /// The connection that asked.
        reply: Reply,
        /// The position of the message, or the reason of the refusal.
        result: Result<Appended, PublishRefusal>,
    },
    /// The home has dealt with so many requests of this edge; not always the oldest, as some wait
    /// for a disk.
    Consumed {
        /// Those of this class.
        class: RequestClass,
        /// The number of requests.
        requests: u32,
        /// The cost of these requests together ([`ToHome::cost`]).
        bytes: u64,
    },
    /// A log on disk has made no progress for a while, although it was asked, or continues. While
    /// it is stalled, this home refuses requests that need its disk at once.
    Stalled {
        /// Index into the settings.
        log: u16,
        /// Whether it hangs.
        is_stalled: bool,
    },
}

/// Interest in a topic, as its home gives it to a subscription.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The subscription that asked.
    pub subscription: SubscriptionKey,
    /// The topic between this home and this edge, small and dense.
    pub index: u32,
    /// The index's generation; rises with every grant.
    pub generation: u32,
    /// The topic's partition.
    pub partition: PartitionId,
    /// The position up to which everything is settled for the subscription.
    pub position: Position,
    /// Whether pages follow.
    pub replaying: bool,
    /// A start behind a position: it is valid, and all after it follows.
    pub continued: bool,
    /// The records after the asked position that are no longer available.
    pub gap: Option<Gap>,
    /// The retained message, when a snapshot start found one that history no longer holds after
    /// `position`.
    pub retained: Option<Slice>,
}

/// A page of one partition for a subscription to filters.
#[derive(Clone, Debug)]
pub struct FilterPage {
    /// The subscription that asked.
    pub subscription: SubscriptionKey,
    /// The partition.
    pub partition: PartitionId,
    /// The offset in the question: the page answers this question and no other.
    pub after: u64,
    /// The records before the first one that are no longer available.
    pub gap: Option<Gap>,
    /// Names of topics and records, in log order.
    pub records: Vec<(Slice, Slice)>,
    /// Stretches that the mode left out, in log order: none of `records` lies within.
    pub skipped: Vec<Skip>,
    /// The offset up to which everything is settled.
    pub through: u64,
    /// The live messages that follow this letter on the stream continue from `through`.
    pub caught_up: bool,
}

/// A page of a topic for a subscription that replays or lags.
#[derive(Clone, Debug)]
pub struct Page {
    /// The subscription that asked.
    pub subscription: SubscriptionKey,
    /// The records before the first one that are no longer available.
    pub gap: Option<Gap>,
    /// Left out by the mode before the first record: the topic's records after the asked
    /// offset up to and including this.
    pub skipped: Option<u64>,
    /// The records, in log order.
    pub records: Vec<Slice>,
    /// The offset up to which everything is settled.
    pub through: u64,
    /// The live messages that follow this letter on the stream continue from `through`; those
    /// at or below it, which a stream that lags may still carry, are dropped by the edge.
    pub caught_up: bool,
}

/// Names of topics, and how far the streams to an edge have come.
#[derive(Clone, Debug)]
pub struct Description {
    /// The connection.
    pub connection: Key,
    /// The number of the question.
    pub number: u32,
    /// The names, in the order of the question; each behind its length in one byte.
    pub names: Slice,
    /// Positions of all partitions of this home, if asked for.
    pub positions: Vec<(PartitionId, u64)>,
}

/// The content of an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub struct Appended {
    /// The message's position.
    pub position: Position,
    /// The message had been appended earlier; this is its original position.
    pub duplicate: bool,
}

/// The reason why a message was not appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub struct PublishRefusal {
    /// Why.
    pub code: Code,
    /// With `epoch_mismatch`: the epoch and head of the partition.
    pub present: Option<Position>,
}

impl From<Code> for PublishRefusal {
    fn from(code: Code) -> PublishRefusal {
        PublishRefusal { code, present: None }
    }
}

/// One page of a topic's history.
#[derive(Clone, Debug)]
pub struct HistoryPage {
    /// The life of the log.
    pub epoch: u64,
    /// The partition's head at this moment.
    pub head: u64,
    /// The records between the asked position and the first record that are no longer available.
    pub gap: Option<Gap>,
    /// Records, oldest first, or newest first when reversed.
    pub records: Vec<Slice>,
    /// There are more beyond the last record.
    pub more: bool,
    /// Newest first, as asked.
    pub reverse: bool,
}

/// Records of one topic, or of those that a filter covers in one partition, that are lost:
/// those after `from` up to and including `to`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub struct Gap {
    /// Exclusive: the last settled offset (0 where the asked position belonged to another epoch).
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

/// The position of a stream in one partition, and the oldest record that the log has there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamPosition {
    /// The partition.
    pub partition: PartitionId,
    /// The offset up to which all messages that the edge has interest in have been posted before.
    pub through: u64,
    /// The least offset that a record may have; above the head if there is none.
    pub oldest: u64,
}

/// Classes: the counts of an edge's requests under way to a home. Logs are indexes into the
/// settings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hand)]
pub enum RequestClass {
    /// The home deals with it from memory, at once.
    Memory,
    /// Requests that may have to wait for this log on disk.
    Disk(u16),
    /// Pages of this log, in memory or on disk, for subscriptions that replay or lag.
    Pages(u16),
}

impl ToHome {
    /// The part that this request takes of the bytes that may be under way to a home.
    pub fn cost(&self) -> u32 {
        let message_bytes = if let ToHome::Publish(Publish { publication, .. }) = self {
            publication.payload.len() + publication.attributes.len()
        } else {
            0
        };
        publication_cost(message_bytes)
    }
}

/// The cost of a publication by the bytes of its payload, content type and tags.
pub(crate) fn publication_cost(message_bytes: usize) -> u32 {
    (message_bytes as u32).saturating_add(REQUEST_BYTES)
}

impl ToEdge {
    /// The part that this letter takes of the edge's credit, in bytes. Only live traffic costs.
    pub fn cost(&self) -> u32 {
        match self {
            ToEdge::Message { record, .. } => LETTER_BYTES + record.len() as u32,
            ToEdge::Announce { topic, .. } => LETTER_BYTES + topic.len() as u32,
            ToEdge::Granted(_)
            | ToEdge::Refused { .. }
            | ToEdge::FilterGranted { .. }
            | ToEdge::FilterPage(_)
            | ToEdge::Released { .. }
            | ToEdge::Page(_)
            | ToEdge::StreamGap { .. }
            | ToEdge::Published { .. }
            | ToEdge::History { .. }
            | ToEdge::Described(_)
            | ToEdge::Positions { .. }
            | ToEdge::Consumed { .. }
            | ToEdge::Stalled { .. } => 0,
        }
    }
}

/// The cost of a live letter beside its bytes.
pub const LETTER_BYTES: u32 = 64;
/// The cost of a request beside its payload, content type and tags.
const REQUEST_BYTES: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Else a publisher could have far more under way than the bound of a link.
    #[test]
    fn tags_cost_as_much_as_a_payload() {
        let cost = |payload: usize, attributes: usize| {
            let publication = Publication {
                payload: Slice::copy_of(&vec![0; payload]),
                attributes: Slice::copy_of(&vec![0; attributes]),
                ..Publication::default()
            };
            let request = ToHome::Publish(Publish {
                partition: PartitionId(0),
                rule: 0,
                reply: None,
                publication,
            });
            request.cost()
        };
        assert_eq!(cost(1_000, 0), cost(0, 1_000));
        assert_eq!(cost(1_000, 20_000), 21_000 + REQUEST_BYTES);
    }
}
