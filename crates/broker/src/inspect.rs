//! Operators' questions to a shard and its answers, as values.
//!
//! Beside the path: [`Edge::inspect`](crate::edge::Edge::inspect) and
//! [`Home::inspect`](crate::home::Home::inspect) answer, the node asks shard after shard and puts
//! the answers together. Invariants: one question examines a bounded number of entries in a turn
//! ([`LOOKED_AT_MAX`]), however much a shard holds: an answer has the start of the next question.
//! No state is kept for questions: an answer has the facts of the connection's slot, and unknown
//! ones are `None`. It has names and subjects, payloads only of a topic's history, credentials
//! never.

use crate::mail::{
    Appended, Code, EdgeId, HistoryPage, HomeId, PageLimits, PartitionId, Publication,
    PublishRefusal,
};
use crate::position::Position;
pub use crate::protocol::Transport;
use crate::session::{DataForm, append_message};
use crate::settings::LagPolicy;
use crate::topic::Filter;
use log::RecordView;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use stdx::chunk::Slice;
use stdx::key::Key;
use stdx::networks::Network;
use wire::native::Attributes;

/// Places (of connections, subscriptions or topics) that one question examines, at most.
pub const LOOKED_AT_MAX: u32 = 4_096;
/// Entries of one answer, at most.
pub const ANSWER_LEN_MAX: u32 = 1_000;
/// The maximum number of counted records of one topic; beyond that an answer has "at least".
pub const COUNTED_RECORDS_MAX: u32 = 10_000;
/// Bytes of them.
pub const COUNTED_BYTES_MAX: u32 = 64 << 20;
/// The age up to which messages are recent, in milliseconds.
pub const RECENT_MS: u64 = 10_000;
/// Recent messages that are counted of one topic, at most.
pub const RECENT_RECORDS_MAX: u32 = 64;
/// And of all topics of one answer: counting them must not hold up a shard.
pub const RECENT_RECORDS_OF_ANSWER_MAX: u32 = 8_192;

/// The id of a connection of the node; a native client gets it in WELCOME. As text it is
/// hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    /// The shard that serves it.
    pub fn edge(self) -> EdgeId {
        EdgeId((self.0 >> 48) as u16)
    }

    /// The index of the connection's slot.
    pub(crate) fn index(self) -> u32 {
        (self.0 & 0xff_ffff) as u32
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:x}", self.0)
    }
}

impl FromStr for ConnectionId {
    type Err = std::num::ParseIntError;

    /// Reads what `Display` writes, and nothing else.
    fn from_str(text: &str) -> Result<ConnectionId, Self::Err> {
        let plain = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        // `from_str_radix` would accept a sign.
        u64::from_str_radix(if plain { text } else { "" }, 16).map(ConnectionId)
    }
}

/// Selection of connections; the default selects all.
#[derive(Clone, Debug, Default)]
pub struct ConnectionsWanted {
    /// Only clients in this network; none where addresses are not known.
    pub network: Option<Network>,
    /// The protocol of the connections.
    pub spoken: Option<Transport>,
    /// Whose subject begins so.
    pub subject: Option<Box<str>>,
    /// Only connections that do not read as fast as messages come.
    pub lagging: bool,
}

/// Selection of topics; the default selects all.
#[derive(Clone, Debug, Default)]
pub struct TopicsWanted {
    /// Whose names begin so.
    pub prefix: Box<str>,
    /// A filter that covers the topics; valid, empty for all.
    pub filter: Box<str>,
}

impl TopicsWanted {
    /// Whether a topic is.
    pub fn wants(&self, name: &str) -> bool {
        name.starts_with(&*self.prefix)
            && (self.filter.is_empty()
                || Filter::parse(&self.filter).is_ok_and(|filter| filter.matches(name)))
    }
}

/// A question to an edge or a home.
#[derive(Clone, Debug)]
pub enum Question {
    /// Asks an edge for its connections from this place on.
    Connections {
        /// The first place to look at.
        from: u32,
        /// The selection.
        wanted: ConnectionsWanted,
        /// The maximum number of entries.
        len_max: u32,
    },
    /// Asks an edge for one connection.
    Connection(ConnectionId),
    /// Asks an edge for the subscriptions of a connection, newest first.
    Subscriptions {
        /// The id of the connection.
        connection: ConnectionId,
        /// The number of newest subscriptions to leave out.
        skipped: u32,
        /// The maximum number of entries.
        len_max: u32,
    },
    /// Asks an edge to end a connection.
    Disconnect {
        /// The id of the connection.
        connection: ConnectionId,
        /// The close code permits the client to come back.
        may_return: bool,
    },
    /// Asks an edge for the number of its subscriptions to these topics of a home, by their
    /// indexes.
    Subscribers {
        /// The home.
        home: HomeId,
        /// The indexes between it and this edge.
        indexes: Vec<u32>,
    },
    /// Asks the home of a topic for its history. Goes to the edge beside it; answered later.
    History {
        /// The name; valid.
        topic: Box<str>,
        /// Records beyond this position.
        beyond: Option<Position>,
        /// Newest first.
        reverse: bool,
        /// Bounds of the page.
        limits: PageLimits,
    },
    /// Publishes with the authority of the node's operators. Asked of any edge; answered later.
    Publish(Publication),
    /// Asks a home for its topics from this place on.
    Topics {
        /// The first place to look at.
        from: u32,
        /// The selection.
        wanted: TopicsWanted,
        /// The maximum number of entries.
        len_max: u32,
        /// The time, in milliseconds since 1970-01-01 UTC: messages are recent by it.
        now_ms: u64,
    },
    /// Asks a topic's home for the topic.
    Topic {
        /// The partition of the topic.
        partition: PartitionId,
        /// The name.
        name: Box<str>,
        /// The time, as for [`Question::Topics`].
        now_ms: u64,
    },
    /// Asks a home for the names of topics that an edge knows by these indexes.
    Names {
        /// The edge.
        edge: EdgeId,
        /// The indexes.
        indexes: Vec<u32>,
    },
}

/// A shard's answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The connections, and the place to continue from; none at the end.
    Connections(Vec<Connection>, Option<u32>),
    /// The connection, if it is there.
    Connection(Option<Connection>),
    /// The subscriptions of the connection, and whether more follow; none if the connection is not
    /// there.
    Subscriptions(Option<(Vec<Subscription>, bool)>),
    /// Whether there was such a connection.
    Disconnected(bool),
    /// In the order of the question.
    Subscribers(Vec<Subscribers>),
    /// The page, or why not.
    History(Result<HistoryPage, Code>),
    /// The position of the record, or the refusal.
    Published(Result<Appended, PublishRefusal>),
    /// The topics, and the place to continue from; none at the end.
    Topics(Vec<Topic>, Option<u32>),
    /// The topic, if it is known.
    Topic(Option<Box<TopicDetail>>),
    /// In the order of the question; empty for an index that stands for nothing any more.
    Names(Vec<Box<str>>),
    /// The shard does not have this role.
    NotHere,
}

/// One connection, as far as its edge knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connection {
    /// The id.
    pub id: ConnectionId,
    /// The key of the connection in the network.
    pub key: Key,
    /// The protocol.
    pub spoken: Transport,
    /// The address of the client.
    pub address: Option<IpAddr>,
    /// Whether the connection uses TLS; the shell knows, and adds it.
    pub is_encrypted: Option<bool>,
    /// The subject of the credential.
    pub subject: Option<Box<str>>,
    /// The expiry of the credential, seconds since 1970.
    pub expires_s: Option<u32>,
    /// The age of the session, in milliseconds; of the native protocol.
    pub session_ms: Option<u32>,
    /// Seconds of silence after which it is asked for a sign of life.
    pub ping_interval_s: u16,
    /// Subscriptions.
    pub subscriptions: u32,
    /// Frames that wait for its socket.
    pub outbox_len: u32,
    /// Bytes of these frames, and of owned frames.
    pub outbox_bytes: u64,
    /// Some subscription is read from the log, because it replays or did not keep up.
    pub is_lagging: bool,
    /// The socket takes no bytes at present.
    pub is_blocked: bool,
    /// The connection is being closed.
    pub is_closing: bool,
}

/// One subscription of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscription {
    /// The client's own number for it.
    pub number: u32,
    /// The filter of one to a filter.
    pub filter: Option<Box<str>>,
    /// The topic of a plain one, by its home and index; none before it is granted.
    pub topic: Option<(HomeId, u32)>,
    /// The stage, in one word: `pending`, `live`, `reading`, `lagging`.
    pub stage: &'static str,
    /// The settled position of a plain subscription.
    pub position: Option<Position>,
    /// The lag policy.
    pub policy: LagPolicy,
}

/// The number of an edge's subscriptions to one topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Subscribers {
    /// To the topic itself.
    pub plain: u32,
    /// To filters that cover it.
    pub by_filter: u32,
}

/// One topic, as its home knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topic {
    /// The name.
    pub name: Box<str>,
    /// The partition of the topic.
    pub partition: PartitionId,
    /// The position of the newest record; none without a record.
    pub head: Option<Position>,
    /// The recent messages; none where too many records were counted for other topics of the same
    /// answer.
    pub recent: Option<Recent>,
    /// Bytes of the payload of its retained message, if there is one.
    pub retained_bytes: Option<u32>,
    /// The edges with interest in it, each with its index there.
    pub edges: Vec<(EdgeId, u32)>,
}

/// The number of recent messages of a topic: the base of its rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recent {
    /// Messages in memory, at most [`RECENT_RECORDS_MAX`].
    pub messages: u32,
    /// The time that they are of, in milliseconds: [`RECENT_MS`], or less where there are as many
    /// as may be counted.
    pub span_ms: u64,
}

/// One topic, in detail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicDetail {
    /// The entry of the topic in a list.
    pub topic: Topic,
    /// The newest offset of its partition, in the life of the log that is now.
    pub partition_head: Position,
    /// Records in memory, at most [`COUNTED_RECORDS_MAX`].
    pub records: u32,
    /// Bytes of these.
    pub records_bytes: u64,
    /// There are no more of it in memory.
    pub is_all: bool,
    /// The oldest of these.
    pub oldest: Option<Position>,
    /// The retained message's.
    pub retained: Option<Position>,
}

/// A record of a life of the log, as an object in JSON: the form that clients get over HTTP. Empty
/// if it is none.
pub fn message_json(record: &[u8], epoch: u64) -> Vec<u8> {
    let mut json = Vec::new();
    if let Some(view) = RecordView::parse(record) {
        json.push(b'{');
        append_message(&mut json, epoch, &view, DataForm::Text);
        json.push(b'}');
    }
    json
}

/// Attributes of a publication beside its payload, from a media type.
pub fn attributes_of(content_type: Option<&str>) -> Slice {
    let attributes = Attributes { content_type, ..Attributes::default() };
    let mut block = Vec::new();
    if !attributes.is_empty() {
        attributes.encode_block(&mut block);
    }
    Slice::copy_of(&block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connections_name_there_and_back() {
        for number in [0, 5, 1 << 48 | 2 << 24 | 7, u64::MAX] {
            let id = ConnectionId(number);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        let id: ConnectionId = "1000002000007".parse().unwrap();
        assert_eq!((id.edge(), id.index()), (EdgeId(1), 7));
        for text in ["", "+5", "-1", "0x5", "g", " 5", "10000000000000000"] {
            assert!(text.parse::<ConnectionId>().is_err(), "{text}");
        }
    }

    #[test]
    fn selections_of_topics() {
        let wants = |prefix: &str, filter: &str, name| {
            let (prefix, filter) = (prefix.into(), filter.into());
            TopicsWanted { prefix, filter }.wants(name)
        };
        assert!(wants("", "", "a/b") && wants("a", "", "a/b") && wants("", "a/+", "a/b"));
        assert!(!wants("b", "", "a/b") && !wants("", "b/#", "a/b") && !wants("a", "+/c", "a/b"));
    }
}
