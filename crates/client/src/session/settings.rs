//! What a session is told from outside: its settings, the options of commands, and why a command is
//! not taken.
//!
//! Place: the session's interface. Pure data.

use std::fmt;

use wire::native::{
    IDEMPOTENCY_KEY_BYTES_MAX, PRODUCER_ID_BYTES_MAX, PartitionPosition, Policy, Position,
    Producer, TOPIC_BYTES_MAX,
};

/// How a session behaves.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// The bearer token.
    pub token: Option<String>,
    /// The client's name, for operators.
    pub name: Option<String>,
    /// Seconds between signs of life that we wish; 0 leaves it to the server.
    pub ping_interval_s: u32,
    /// The longest message that we take from the server, in bytes.
    pub message_bytes_max: usize,
    /// Requests that may wait for their answers.
    pub inflight_max: usize,
    /// The producer of publications that are [`Once::Numbered`]: 1 to 64 bytes, of this session
    /// only. Without it, it is a name of the session's own, which does not outlive it.
    pub producer_id: Option<Vec<u8>>,
    /// The producer's first sequence, at least 1: above all that earlier sessions of this name have
    /// used.
    pub producer_sequence: u64,
    /// Bytes of unanswered publications that are kept to be repeated; above that no further one is
    /// taken.
    pub kept_bytes_max: usize,
    /// Ask for resume tickets where the server issues them, and return with them.
    pub tickets: bool,
    /// Offer compressed messages (RFC 7692, without context takeover). Where the server takes that,
    /// long frames are sent compressed too.
    pub compression: bool,
    /// How long handshake and welcome may take, in milliseconds.
    pub handshake_timeout_ms: u64,
}

impl fmt::Debug for Settings {
    /// Without the token: settings are printed, and a token is a secret.
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
            handshake_timeout_ms: 10_000,
        }
    }
}

/// How to subscribe, beside from where on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscribeOptions {
    /// The server refuses a position that it cannot continue from, and names the one to restart
    /// from, instead of announcing a gap.
    pub fail_on_gap: bool,
    /// What the server does when we do not keep up; without it, what the topic's rule says.
    pub policy: Option<Policy>,
    /// For a filter: go on behind these positions, as an earlier run left them; other partitions
    /// begin live.
    pub cursors: Vec<PartitionPosition>,
}

/// What to publish beside topic and payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishOptions {
    /// The media type.
    pub content_type: Option<String>,
    /// Key and value pairs.
    pub tags: Vec<(String, String)>,
    /// Keep it as the topic's retained message; an empty payload then clears it.
    pub retain: bool,
    /// By what a repeat is known: it is answered with the first position, and not appended again.
    /// The session repeats such a publication after a reconnect by itself, if it is to be
    /// acknowledged.
    pub once: Option<Once>,
    /// Append only if this is the epoch of the topic's log.
    pub expected_epoch: Option<u64>,
}

/// By what a repeat of a publication is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Once {
    /// The session's own number for it: see [`Settings::producer_id`].
    Numbered,
    /// A producer's number for it.
    Producer {
        /// The producer's name for itself, 1 to 64 bytes. The newest connection that publishes with
        /// it owns it.
        id: Vec<u8>,
        /// At least 1, rising, holes allowed; of one topic's message only.
        sequence: u64,
    },
    /// A key of the topic, 1 to 128 bytes. The node forgets it after a while.
    Key(Vec<u8>),
}

impl Once {
    /// What is sent; `own` is what the session would number it with.
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
        match is_numbered && (1..=bytes_max).contains(&bytes.len()) {
            true => Ok(once),
            false => Err(CommandError::Once),
        }
    }
}

/// Which part of a topic's history to ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryOptions {
    /// Go on behind this position (before it when `reverse`); without it, from the oldest (newest)
    /// record.
    pub position: Option<Position>,
    /// Newest first.
    pub reverse: bool,
    /// The most messages; 0 leaves it to the server.
    pub messages_max: u32,
}

/// Why a command was not taken; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// There is no welcomed connection now.
    NotConnected,
    /// [`Settings::inflight_max`] requests, or [`Settings::kept_bytes_max`] bytes of publications,
    /// wait for their answers; or publications that were refused for the moment go first.
    InflightFull,
    /// A topic or filter has 1 to 255 bytes.
    TopicLength(usize),
    /// The payload exceeds what the server takes.
    MessageTooLarge {
        /// The server's limit in bytes.
        bytes_max: u64,
    },
    /// The filter is subscribed already.
    AlreadySubscribed,
    /// A producer's id or sequence, or a key, is out of its bounds: see [`Once`].
    Once,
    /// A newer connection publishes as this producer: nothing more is published as it by this
    /// session.
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

/// When and where the server wants us back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnPlan {
    /// Milliseconds to stay away.
    pub after_ms: u64,
    /// Where to, best first; empty for the same address.
    pub urls: Vec<String>,
}
