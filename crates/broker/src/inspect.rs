//! What operators ask of a shard, and what it answers: questions and answers as values.
//!
//! Beside the path: [`Edge::inspect`](crate::edge::Edge::inspect) and
//! [`Home::inspect`](crate::home::Home::inspect) answer, the node asks shard after shard and puts
//! the answers together. Invariants: one question costs a turn a bounded look ([`LOOKED_AT_MAX`]),
//! however much a shard holds: an answer says where the next question goes on. Nothing is kept for
//! it: a connection says what its slot knows, and what nobody knows is `None`. Names and subjects
//! are told, payloads only where a topic's history is asked for, credentials never.

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

/// Places (of connections, subscriptions or topics) that one question looks at, at most.
pub const LOOKED_AT_MAX: u32 = 4_096;
/// Entries of one answer, at most.
pub const ANSWER_LEN_MAX: u32 = 1_000;
/// Records that are counted of one topic, at most; beyond that an answer says "at least".
pub const COUNTED_RECORDS_MAX: u32 = 10_000;
/// Bytes of them.
pub const COUNTED_BYTES_MAX: u32 = 64 << 20;
/// Messages of the last so many milliseconds are recent.
pub const RECENT_MS: u64 = 10_000;
/// Recent messages that are counted of one topic, at most.
pub const RECENT_RECORDS_MAX: u32 = 64;
/// And of all topics of one answer: counting them must not hold up a shard.
pub const RECENT_RECORDS_OF_ANSWER_MAX: u32 = 8_192;

/// Names a connection of the node; the number that a native client is told in WELCOME. As text it
/// is hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    /// The shard that serves it.
    pub fn edge(self) -> EdgeId {
        (self.0 >> 48) as EdgeId
    }

    /// Its place there.
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
        // A sign is no digit here.
        u64::from_str_radix(if plain { text } else { "" }, 16).map(ConnectionId)
    }
}

/// Which connections are wanted; the default wants all.
#[derive(Clone, Debug, Default)]
pub struct ConnectionsWanted {
    /// Of clients in this network. Where addresses are not known nobody is.
    pub network: Option<Network>,
    /// That speak this.
    pub spoken: Option<Transport>,
    /// Whose subject begins so.
    pub subject: Option<Box<str>>,
    /// That do not take what they are sent as fast as it comes.
    pub lagging: bool,
}

/// Which topics are wanted; the default wants all.
#[derive(Clone, Debug, Default)]
pub struct TopicsWanted {
    /// Whose names begin so.
    pub prefix: Box<str>,
    /// That this filter covers; valid, empty for all.
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

/// What is asked.
#[derive(Clone, Debug)]
pub enum Question {
    /// Of an edge: its connections from this place on.
    Connections {
        /// The first place to look at.
        from: u32,
        /// Which.
        wanted: ConnectionsWanted,
        /// At most so many.
        len_max: u32,
    },
    /// Of an edge: one connection.
    Connection(ConnectionId),
    /// Of an edge: what a connection is subscribed to, newest first.
    Subscriptions {
        /// Which connection.
        connection: ConnectionId,
        /// So many of the newest are left out.
        skipped: u32,
        /// At most so many.
        len_max: u32,
    },
    /// Of an edge: ends a connection.
    Disconnect {
        /// Which.
        connection: ConnectionId,
        /// Its client is told that it may come back.
        may_return: bool,
    },
    /// Of an edge: how many subscriptions it has to these topics of a home, by their indexes.
    Subscribers {
        /// The home.
        home: HomeId,
        /// The indexes between it and this edge.
        indexes: Vec<u32>,
    },
    /// Of the home of a topic: its history. Asked of the edge beside it; answered later.
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
    /// Of a home: its topics from this place on.
    Topics {
        /// The first place to look at.
        from: u32,
        /// Which.
        wanted: TopicsWanted,
        /// At most so many.
        len_max: u32,
        /// The time, in milliseconds since 1970-01-01 UTC: messages are recent by it.
        now_ms: u64,
    },
    /// Of a topic's home: the topic.
    Topic {
        /// Where it lives.
        partition: PartitionId,
        /// The name.
        name: Box<str>,
        /// The time, as for [`Question::Topics`].
        now_ms: u64,
    },
    /// Of a home: the names of topics that an edge knows by these indexes.
    Names {
        /// The edge.
        edge: EdgeId,
        /// The indexes.
        indexes: Vec<u32>,
    },
}

/// What a shard answers.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The connections, and the place to go on from; none at the end.
    Connections(Vec<Connection>, Option<u32>),
    /// The connection, if it is there.
    Connection(Option<Connection>),
    /// What the connection is subscribed to, and whether more follows; none if the connection is
    /// not there.
    Subscriptions(Option<(Vec<Subscription>, bool)>),
    /// Whether there was such a connection.
    Disconnected(bool),
    /// In the order of the question.
    Subscribers(Vec<Subscribers>),
    /// The page, or why not.
    History(Result<HistoryPage, Code>),
    /// Where it was appended, or why it was not.
    Published(Result<Appended, PublishRefusal>),
    /// The topics, and the place to go on from; none at the end.
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
    /// Its name.
    pub id: ConnectionId,
    /// The same for the network.
    pub key: Key,
    /// What it speaks.
    pub spoken: Transport,
    /// Where its client is.
    pub address: Option<IpAddr>,
    /// It speaks TLS; the shell knows, and adds it.
    pub is_encrypted: Option<bool>,
    /// Who it is.
    pub subject: Option<Box<str>>,
    /// When what it has shown expires, seconds since 1970.
    pub expires_s: Option<u32>,
    /// How long ago its session began, in milliseconds; of the native protocol.
    pub session_ms: Option<u32>,
    /// Seconds of silence after which it is asked for a sign of life.
    pub ping_interval_s: u16,
    /// Subscriptions.
    pub subscriptions: u32,
    /// Frames that wait for its socket.
    pub outbox_len: u32,
    /// Bytes of these, and of what it owns.
    pub outbox_bytes: u64,
    /// Some subscription is read from the log, because it replays or did not keep up.
    pub is_lagging: bool,
    /// Its socket takes nothing at present.
    pub is_blocked: bool,
    /// It is being closed.
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
    /// Where it stands, in one word: `pending`, `live`, `reading`, `lagging`.
    pub stage: &'static str,
    /// Of a plain one: everything up to here is settled.
    pub position: Option<Position>,
    /// What becomes of it when its client does not keep up.
    pub policy: LagPolicy,
}

/// How many subscriptions an edge has to one topic.
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
    /// Where it lives.
    pub partition: PartitionId,
    /// Its newest record's; none without a record.
    pub head: Option<Position>,
    /// How fast it grows; none where too many records were counted for other topics of the same
    /// answer.
    pub recent: Option<Recent>,
    /// Bytes of the payload of its retained message, if there is one.
    pub retained_bytes: Option<u32>,
    /// The edges with interest in it, each with its index there.
    pub edges: Vec<(EdgeId, u32)>,
}

/// How many messages of a topic are recent: what its rate is told by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recent {
    /// Messages in memory, at most [`RECENT_RECORDS_MAX`].
    pub messages: u32,
    /// The time that they are of, in milliseconds: [`RECENT_MS`], or less where there are as many
    /// as may be counted.
    pub span_ms: u64,
}

/// One topic, looked at closely.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicDetail {
    /// What a list says of it.
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

/// What a publication carries beside its payload, from a media type.
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
        assert_eq!((id.edge(), id.index()), (1, 7));
        for text in ["", "+5", "-1", "0x5", "g", " 5", "10000000000000000"] {
            assert!(text.parse::<ConnectionId>().is_err(), "{text}");
        }
    }

    #[test]
    fn which_topics_are_wanted() {
        let wants = |prefix: &str, filter: &str, name| {
            let (prefix, filter) = (prefix.into(), filter.into());
            TopicsWanted { prefix, filter }.wants(name)
        };
        assert!(wants("", "", "a/b") && wants("a", "", "a/b") && wants("", "a/+", "a/b"));
        assert!(!wants("b", "", "a/b") && !wants("", "b/#", "a/b") && !wants("a", "+/c", "a/b"));
    }
}
