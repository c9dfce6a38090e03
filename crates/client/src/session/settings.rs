//! The inputs of a session: its settings, the options of commands, and the errors of refused
//! commands.
//!
//! Place: the session's interface. Pure data.

use std::fmt;

use wire::native::{
    IDEMPOTENCY_KEY_BYTES_MAX, PRODUCER_ID_BYTES_MAX, PartitionPosition, Policy, Position,
    Producer, TOPIC_BYTES_MAX,
};

/// Settings of a session.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// The bearer token.
    pub token: Option<String>,
    /// The client's name, for operators.
    pub name: Option<String>,
    /// The requested heartbeat interval in seconds; 0 leaves it to the server.
    pub ping_interval_s: u32,
    /// The maximum size of a message from the server, in bytes.
    pub message_bytes_max: usize,
    /// The maximum number of requests in flight.
    pub inflight_max: usize,
    /// The producer of publications with [`Once::Numbered`]: 1 to 64 bytes, used by this session
    /// only. Without it, the session generates an id, which does not outlive it.
    pub producer_id: Option<Vec<u8>>,
    /// The producer's first sequence, at least 1: above all that earlier sessions with this id have
    /// used.
    pub producer_sequence: u64,
    /// The maximum size of stored unanswered publications; above it, no further one is accepted.
    pub kept_bytes_max: usize,
    /// Whether to request resume tickets if the server issues them, and to reconnect with them.
    pub tickets: bool,
    /// Whether to offer compressed messages (RFC 7692, without context takeover). If the server
    /// accepts, long frames are sent compressed too.
    pub compression: bool,
    /// Whether HELLO and SUBSCRIBE go with the handshake if they have at most 4 KiB, which saves a
    /// round trip.
    pub early_frames: bool,
    /// The time limit for handshake and WELCOME, in milliseconds.
    pub handshake_timeout_ms: u64,
}

impl fmt::Debug for Settings {
    /// Omits the token: settings are printed, and a token is a secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Settings")
            .field("token", &self.token.as_ref().map(|_| ".."))
            .field("name", &self.name)
            .field("ping_interval_s", &self.ping_interval_s)
            .field("message_bytes_max", &self.message_bytes_max)
            .field("inflight_max", &self.inflight_max)
            .field("producer_id", &self.producer_id)
            .field("producer_sequence", &self.producer_sequence)
            .field("kept_bytes_max", &self.kept_bytes_max)
            .field("tickets", &self.tickets)
            .field("compression", &self.compression)
            .field("early_frames", &self.early_frames)
            .field("handshake_timeout_ms", &self.handshake_timeout_ms)
            .finish()
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            token: None,
            name: None,
            ping_interval_s: 0,
            message_bytes_max: 16 * 1024 * 1024,
            inflight_max: 1024,
            producer_id: None,
            producer_sequence: 1,
            kept_bytes_max: 16 * 1024 * 1024,
            tickets: true,
            compression: false,
            early_frames: true,
            handshake_timeout_ms: 10_000,
        }
    }
}

/// Options of a subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscribeOptions {
    /// Requests a refusal of a position that the server cannot continue from, with the position to
    /// restart from, instead of a gap.
    pub fail_on_gap: bool,
    /// The policy of a lagging subscription; without it, the topic's rule decides.
    pub policy: Option<Policy>,
    /// Positions of an earlier run, for a filter: it continues behind them; other partitions begin
    /// live.
    pub cursors: Vec<PartitionPosition>,
}

/// Options of a publication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishOptions {
    /// The media type.
    pub content_type: Option<String>,
    /// Key and value pairs.
    pub tags: Vec<(String, String)>,
    /// Stores it as the topic's retained message; an empty payload then clears it.
    pub retain: bool,
    /// The identity for deduplication: a repeat is answered with the first position, and not
    /// appended again. The session repeats such a publication after a reconnect by itself, if it is
    /// acknowledged.
    pub once: Option<Once>,
    /// Appends only if this is the epoch of the topic's log.
    pub expected_epoch: Option<u64>,
}

/// The identity of a publication, for deduplication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Once {
    /// A number assigned by the session: see [`Settings::producer_id`].
    Numbered,
    /// A number assigned by a producer.
    Producer {
        /// The producer's id, 1 to 64 bytes. The newest connection that publishes with it owns it.
        id: Vec<u8>,
        /// At least 1, increasing, may skip numbers; each number belongs to one message of one
        /// topic.
        sequence: u64,
    },
    /// A key, unique within the topic, 1 to 128 bytes. The node forgets it after some time.
    Key(Vec<u8>),
}

impl Once {
    /// The wire form; `own` is the session's own number.
    pub(super) fn as_wire<'a>(
        &'a self,
        own: Producer<'a>,
    ) -> Result<wire::native::Once<'a>, CommandError> {
        let (once, bytes, bytes_max) = match self {
            Once::Numbered => (wire::native::Once::Producer(own), own.id, PRODUCER_ID_BYTES_MAX),
            Once::Producer { id, sequence } => {
                let sequence = *sequence;
                let producer = Producer { id, sequence };
                let once = wire::native::Once::Producer(producer);
                (once, id.as_slice(), PRODUCER_ID_BYTES_MAX)
            }
            Once::Key(key) => {
                (wire::native::Once::Key(key), key.as_slice(), IDEMPOTENCY_KEY_BYTES_MAX)
            }
        };
        let is_numbered = match once {
            wire::native::Once::Producer(producer) => producer.sequence > 0,
            wire::native::Once::Key(_) => true,
        };
        if is_numbered && (1..=bytes_max).contains(&bytes.len()) {
            Ok(once)
        } else {
            Err(CommandError::Once)
        }
    }
}

/// The part of a topic's history to request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryOptions {
    /// The page begins behind this position (before it if `reverse`); without it, at the oldest
    /// (newest) record.
    pub position: Option<Position>,
    /// Returns the newest message first.
    pub reverse: bool,
    /// The maximum number of messages; 0 leaves it to the server.
    pub messages_max: u32,
}

/// The reason why a command was refused; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// The session has no accepted connection now.
    NotConnected,
    /// [`Settings::inflight_max`] requests, or [`Settings::kept_bytes_max`] bytes of publications,
    /// wait for their answers; or temporarily refused publications must be repeated first.
    InflightFull,
    /// A topic or filter has 1 to 255 bytes.
    TopicLength(usize),
    /// The payload exceeds the server's limit.
    MessageTooLarge {
        /// The server's limit in bytes.
        bytes_max: u64,
    },
    /// The filter is already subscribed.
    AlreadySubscribed,
    /// A producer's id or sequence, or a key, is out of bounds: see [`Once`].
    Once,
    /// A newer connection publishes with this producer id: this session publishes nothing more for
    /// it.
    Fenced,
}

impl std::fmt::Display for CommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CommandError::NotConnected => f.write_str("not connected"),
            CommandError::InflightFull => f.write_str("too many requests wait for answers"),
            CommandError::TopicLength(bytes) => {
                write!(
                    f,
                    "a topic or filter must have 1 to {TOPIC_BYTES_MAX} bytes, this one has {bytes}"
                )
            }
            CommandError::MessageTooLarge { bytes_max } => {
                write!(f, "the server accepts payloads up to {bytes_max} bytes")
            }
            CommandError::Once => write!(
                f,
                "a producer id must have 1 to {PRODUCER_ID_BYTES_MAX} bytes, a sequence must be at least 1, and a key must have 1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes"
            ),
            CommandError::Fenced => f.write_str("a newer connection publishes as this producer"),
            CommandError::AlreadySubscribed => {
                f.write_str("the client is already subscribed to this filter")
            }
        }
    }
}

impl std::error::Error for CommandError {}

/// The server's request to leave and return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnPlan {
    /// The delay before the return, in milliseconds.
    pub after_ms: u64,
    /// URLs for the return, best first; empty for the same address.
    pub urls: Vec<String>,
}
