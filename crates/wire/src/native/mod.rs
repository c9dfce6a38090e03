//! The native protocol `crore.v1`: each frame travels in one binary WebSocket message.
//!
//! Place on the path: step 2 (bytes to frames) and step 7 (deliveries to bytes). `spec/protocol.md`
//! draws every frame byte by byte; `spec/vectors/` has the test vectors of all implementations.
//!
//! Invariants: decoding allocates nothing and never panics; a decoded frame is valid, lists
//! included, so that iterating them cannot fail; integers are canonical, so that equal frames have
//! equal bytes. Topics and filters are UTF-8 of 1 to [`TOPIC_BYTES_MAX`] bytes here; the broker
//! checks their syntax.

mod attributes;
mod client_frame;
#[rustfmt::skip]
pub mod codes;
mod error;
pub mod json;
mod list;
mod message;
mod options;
mod positions;
mod publish;
mod reader;
mod server_codec;
mod server_frame;
mod subscribe;
pub mod varint;

pub use attributes::{Attributes, Tag, Tags};
pub use client_frame::{ClientFrame, Credit, Hello, History, Renew, Subscribe, Unsubscribe};
pub use codes::{CloseCode, ErrorCode, UnsubscribeCode};
pub use error::{FrameError, ItemError};
pub use list::{Element, List, ListIter};
pub use message::{
    MESSAGE_HEAD_BYTES_MAX, MessageHead, NamedHead, Retained, encode_named_message_head,
    message_head,
};
pub use positions::{Beginning, PartitionBeginning, PartitionPosition, ResumeCursor};
pub use publish::{
    IDEMPOTENCY_KEY_BYTES_MAX, Once, PRODUCER_ID_BYTES_MAX, Producer, Publish, PublishOptions,
    encode_publish_head,
};
pub use server_frame::{
    CaughtUp, ErrorFrame, Gap, GapReason, GoAway, HistoryPage, HistoryRecord, Message,
    NamedMessage, PageGap, PartitionEpoch, PlainTopic, Published, Renewed, ServerFrame, SkipReason,
    Skipped, Subscribed, SubscribedTo, TicketIssued, Unsubscribed, Welcome,
};
pub use subscribe::{Policy, Start, SubscribeItem, SubscribeRequest};

/// The WebSocket subprotocol of the client's offer and the server's answer.
pub const SUBPROTOCOL: &str = "crore.v1";

/// The WebSocket subprotocol of the same frames as JSON ([`json`]).
pub const SUBPROTOCOL_JSON: &str = "crore.v1.json";

/// The prefix of a subprotocol name that contains a frame, sent with the handshake
/// (`spec/protocol.md` section 1).
pub const EARLY_FRAME_PREFIX: &str = "crore.frame.";

/// The protocol version of this module, in HELLO and WELCOME.
pub const VERSION: u8 = 1;

/// The maximum length of a topic or filter, in bytes of UTF-8.
pub const TOPIC_BYTES_MAX: usize = 255;

/// The maximum length of a resume ticket, in bytes.
pub const TICKET_BYTES_MAX: usize = 16 * 1024;

/// A position in a log: epoch and offset. Plain data; only the broker compares positions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Position {
    /// Identifies one life of the log.
    pub epoch: u64,
    /// The partition's counter; the first record has offset 1.
    pub offset: u64,
}

/// The subject of an error.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reference {
    /// The connection as a whole.
    Connection,
    /// The request with this number (PUBLISH, HISTORY, TICKET, RENEW).
    Request(u32),
    /// The subscription with this number.
    Subscription(u32),
}

/// First byte of each frame. Client frames are below 0x80, server frames above; PING and PONG
/// travel in both directions.
pub mod frame_type {
    /// Client: introduces itself; must be first.
    pub const HELLO: u8 = 0x01;
    /// Client: subscribes to topics and filters.
    pub const SUBSCRIBE: u8 = 0x02;
    /// Client: ends subscriptions.
    pub const UNSUBSCRIBE: u8 = 0x03;
    /// Client: publishes one message.
    pub const PUBLISH: u8 = 0x04;
    /// Client: requests one page of history.
    pub const HISTORY: u8 = 0x05;
    /// Client: permits the server to replay more messages.
    pub const CREDIT: u8 = 0x06;
    /// Both: requests a PONG with the same token.
    pub const PING: u8 = 0x07;
    /// Both: the answer to PING.
    pub const PONG: u8 = 0x08;
    /// Client: continues with a new token.
    pub const RENEW: u8 = 0x09;
    /// Client: requests a resume ticket.
    pub const TICKET: u8 = 0x0A;
    /// Server: the answer to HELLO.
    pub const WELCOME: u8 = 0x81;
    /// Server: a subscription is active.
    pub const SUBSCRIBED: u8 = 0x82;
    /// Server: a subscription has ended.
    pub const UNSUBSCRIBED: u8 = 0x83;
    /// Server: a message of a plain topic, identified by its alias.
    pub const MESSAGE: u8 = 0x84;
    /// Server: a message for filters, with its topic's name.
    pub const NAMED_MESSAGE: u8 = 0x85;
    /// Server: replay is complete.
    pub const CAUGHT_UP: u8 = 0x86;
    /// Server: messages that can no longer be replayed.
    pub const GAP: u8 = 0x87;
    /// Server: messages skipped on purpose.
    pub const SKIPPED: u8 = 0x88;
    /// Server: acknowledgement of a publication.
    pub const PUBLISHED: u8 = 0x89;
    /// Server: one page of history.
    pub const HISTORY_PAGE: u8 = 0x8A;
    /// Server: a refusal.
    pub const ERROR: u8 = 0x8B;
    /// Server: the client must disconnect; time and addresses for its return.
    pub const GO_AWAY: u8 = 0x8C;
    /// Server: the answer to RENEW.
    pub const RENEWED: u8 = 0x8D;
    /// Server: a resume ticket.
    pub const TICKET_ISSUED: u8 = 0x8E;
    /// Server: the token expires soon.
    pub const TOKEN_EXPIRES: u8 = 0x8F;
}

/// Keys of the options block. A peer skips unknown even keys, and refuses unknown odd ones.
pub mod option_key {
    /// HELLO: the bearer token, UTF-8.
    pub const TOKEN: u64 = 1;
    /// PUBLISH, messages, records: the media type, UTF-8.
    pub const CONTENT_TYPE: u64 = 2;
    /// HELLO: a resume ticket.
    pub const TICKET: u64 = 3;
    /// PUBLISH, messages, records, repeatable: a tag.
    pub const TAG: u64 = 4;
    /// SUBSCRIBE item: messages that may be replayed before CREDIT, a varint.
    pub const REPLAY_CREDIT: u64 = 5;
    /// HELLO: the client's name; WELCOME: the node's name. UTF-8.
    pub const NAME: u64 = 6;
    /// SUBSCRIBE item: the policy of a lagging subscription, a byte.
    pub const POLICY: u64 = 7;
    /// GO_AWAY: a resume ticket for the return.
    pub const RETURN_TICKET: u64 = 8;
    /// NAMED_MESSAGE: part of a replay for this subscription only; a varint.
    pub const SUBSCRIPTION: u64 = 10;
    /// PUBLISH: the sequence, a varint, and the producer's id.
    pub const PRODUCER: u64 = 11;
    /// WELCOME: the number of the ticket's subscriptions that are being restored, a varint.
    pub const RESUMED: u64 = 12;
    /// PUBLISH: idempotency key.
    pub const IDEMPOTENCY_KEY: u64 = 13;
    /// WELCOME: the server issues tickets, with this lifetime in seconds; a varint.
    pub const TICKET_LIFETIME_S: u64 = 14;
    /// PUBLISH: the expected epoch, a varint.
    pub const EXPECTED_EPOCH: u64 = 15;
    /// HELLO: cursors newer than the ticket's.
    pub const CURSORS: u64 = 17;
    /// MESSAGE, NAMED_MESSAGE, CAUGHT_UP, SKIPPED: the low byte of the epoch, which may advance
    /// without loss.
    pub const LINEAGE: u64 = 18;
}

/// Bits of the flags byte, by frame. Bits that a frame does not define must be zero.
pub mod flag {
    /// Every frame, item and record: an options block follows the fixed fields.
    pub const OPTIONS: u8 = 0x80;
    /// SUBSCRIBE item: answer `position_unavailable` instead of announcing a gap.
    pub const FAIL_ON_GAP: u8 = 0x01;
    /// PUBLISH: store as the topic's retained message.
    pub const RETAIN: u8 = 0x01;
    /// MESSAGE, NAMED_MESSAGE, history records: the message was published with RETAIN.
    pub const RETAINED: u8 = 0x01;
    /// HISTORY, HISTORY_PAGE: newest first.
    pub const REVERSE: u8 = 0x01;
    /// HISTORY: a position follows.
    pub const HAS_POSITION: u8 = 0x02;
    /// HISTORY_PAGE: more records follow the last one.
    pub const MORE: u8 = 0x02;
    /// HISTORY_PAGE: a gap follows, between the requested position and the first record.
    pub const HAS_GAP: u8 = 0x04;
    /// SUBSCRIBED: a filter; partitions follow instead of alias and position.
    pub const FILTER: u8 = 0x01;
    /// SUBSCRIBED to a topic, and its partitions: a replay follows, up to CAUGHT_UP.
    pub const REPLAYING: u8 = 0x02;
    /// SUBSCRIBED to a topic, and its partitions: the requested position is valid, and everything
    /// after it follows.
    pub const CONTINUED: u8 = 0x04;
    /// SKIPPED: partition and epoch follow. GAP, CAUGHT_UP: the partition follows.
    pub const HAS_PARTITION: u8 = 0x01;
    /// PUBLISHED: the log already contained the message; the position is that of the first copy.
    pub const DUPLICATE: u8 = 0x01;
    /// ERROR: the same request may succeed later.
    pub const TEMPORARY: u8 = 0x01;
    /// ERROR: a position for a restart follows.
    pub const HAS_RESTART: u8 = 0x02;
    /// ERROR: the exceeded limit follows.
    pub const HAS_LIMIT: u8 = 0x04;
}
