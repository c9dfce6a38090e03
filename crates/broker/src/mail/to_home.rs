//! Requests of an edge to a home, and the class in which each is counted.

use super::*;

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
    /// Retained messages of the topics that a filter covers. Answered by
    /// [`ToEdge::RetainedFound`].
    FindRetained(FindRetained),
    /// One record of a partition, for a client that is sent it again. Answered by
    /// [`ToEdge::RecordFound`].
    ReadRecord(ReadRecord),
    /// A client takes its name, which ends the connection that has it. Answered by
    /// [`ToEdge::Claimed`].
    Claim(Claim),
    /// A connection gives the name of its client back, perhaps with a session that outlives it.
    Leave(Leave),
    /// The session of a connection as it would sleep, for the log.
    KeepSession(Leave),
    /// A member of a group joins, leaves or acknowledges.
    Group(GroupRequest),
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
#[derive(Clone, Debug, Hand)]
pub struct AddFilter {
    /// The hash of the user; 0 where clients present no credentials.
    pub user: u64,
    /// The filter; valid, with wildcards. The edge may have it here already.
    pub filter: Slice,
    /// The subscription that asks.
    pub subscription: SubscriptionKey,
    /// Positions that it comes with, of partitions of this home, ascending.
    pub since: Vec<PartitionCursor>,
    /// It comes with no positions, and begins with the next message that each log gets. What a
    /// stream that lags brings before that is left out.
    pub begins_at_head: bool,
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

/// Asks for retained messages, for a subscription.
#[derive(Clone, Debug, Hand)]
pub struct FindRetained {
    /// The filter; valid.
    pub filter: Slice,
    /// The subscription that asks.
    pub subscription: SubscriptionKey,
    /// The end of the page before; 0 at first.
    pub from: u32,
    /// Bounds of the page.
    pub limits: PageLimits,
}

/// Asks for one record, by its position.
#[derive(Clone, Copy, Debug, Hand)]
pub struct ReadRecord {
    /// A partition of this home.
    pub partition: PartitionId,
    /// The record's position, as it was when the record was sent.
    pub position: Position,
    /// The connection that asks.
    pub connection: Key,
}

/// A client of MQTT takes its name (`home::clients`).
#[derive(Clone, Debug, Hand)]
pub struct Claim {
    /// The client's name for itself, or the one that it was given.
    pub name: Slice,
    /// The user, as a hash; a session belongs to its user.
    pub user: u64,
    /// The connection that asks.
    pub connection: Key,
    /// The client begins a new session: one that it has left ends.
    pub is_clean: bool,
    /// The session outlives the connection.
    pub lasts: bool,
}

/// A connection of MQTT ends (`home::clients`).
#[derive(Clone, Debug, Hand)]
pub struct Leave {
    /// The client's name.
    pub name: Slice,
    /// The connection that ends.
    pub connection: Key,
    /// The session, if it outlives the connection.
    pub session: Option<Box<SleepingSession>>,
    /// The connection waits until the log has the session ([`Reply::SESSION_KEPT`]).
    pub is_answered: bool,
}

/// Classes: the counts of an edge's requests under way to a home. Logs are indexes into the
/// settings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hand)]
pub enum RequestClass {
    /// The home deals with it from memory, at once.
    Memory,
    /// Requests that may have to wait for this log: for its disk, or for an engine.
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
