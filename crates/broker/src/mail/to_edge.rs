//! Letters of a home to an edge: answers, live messages, credit.

use super::*;

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
    /// A page of retained messages.
    RetainedFound(RetainedFound),
    /// One record, or none.
    RecordFound(RecordFound),
    /// A client has its name from here on. Where the connection has ended meanwhile, its edge gives
    /// the name back, and the session.
    Claimed {
        /// The name.
        name: Slice,
        /// The connection that asked.
        connection: Key,
        /// The session that the client had left, or the reason of the refusal.
        result: Result<Option<Box<SleepingSession>>, Code>,
    },
    /// A member of a group has joined, or gets a message.
    Group(GroupLetter),
    /// Another connection has taken the name of this one's client.
    TakenOver {
        /// The connection that has lost it.
        connection: Key,
        /// The session ends: the client begins a new one.
        is_clean: bool,
    },
    /// The will of a connection that has ended without its edge: of a node that is gone.
    WillLeft {
        /// Names the will, until it is published or [`ToEdge::TakenOver`] comes. No connection.
        connection: Key,
        /// Published after its delay.
        will: Box<Will>,
    },
    /// Whether sessions of MQTT sleep at this home. A sleeping session may want a message that has
    /// no subscriber.
    SessionsSleep(bool),
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
    /// An engine's partition has this epoch: all that the edge writes of it from here on carries
    /// it. It comes before anything of the partition, and before the first record of a new lineage.
    Epoch {
        /// The partition.
        partition: PartitionId,
        /// Its present epoch.
        epoch: u64,
    },
    /// An engine's partition has begun anew, because it lost records that the stream may have
    /// brought, or because its topic was made again. Every subscription of the partition ends, and
    /// its client subscribes again with its position, which the home judges. Nothing of the life
    /// before comes behind this letter.
    Restarted {
        /// The partition.
        partition: PartitionId,
        /// Its present epoch.
        epoch: u64,
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

/// A page of retained messages.
#[derive(Clone, Debug)]
pub struct RetainedFound {
    /// The subscription that asked.
    pub subscription: SubscriptionKey,
    /// Names of topics and records.
    pub records: Vec<(Slice, Slice)>,
    /// The beginning of the next page; none: this is the last.
    pub next: Option<u32>,
}

/// A record that was asked for by its position.
#[derive(Clone, Debug)]
pub struct RecordFound {
    /// The connection that asked.
    pub connection: Key,
    /// The partition.
    pub partition: PartitionId,
    /// The offset that was asked for.
    pub offset: u64,
    /// The topic's name and the record, none if the log has it no more; or the reason why the log
    /// cannot tell.
    pub result: Result<Option<(Slice, Slice)>, Code>,
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
    /// No edge of this node has interest in the topic. Not known of an engine's log.
    pub is_unheard: bool,
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
            | ToEdge::RetainedFound(_)
            | ToEdge::RecordFound(_)
            | ToEdge::Claimed { .. }
            | ToEdge::TakenOver { .. }
            | ToEdge::WillLeft { .. }
            | ToEdge::Group(_)
            | ToEdge::SessionsSleep(_)
            | ToEdge::Released { .. }
            | ToEdge::Page(_)
            | ToEdge::StreamGap { .. }
            | ToEdge::Epoch { .. }
            | ToEdge::Restarted { .. }
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
