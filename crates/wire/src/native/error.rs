//! Decoding errors, and the code that the sender receives.

use super::{ErrorCode, Reference, TOPIC_BYTES_MAX};
use stdx::handing::{Hand, Input, Layout};

/// The reason why bytes are not a frame of this protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// The frame ends inside a field. WebSocket delimits frames, so more bytes cannot help.
    Truncated,
    /// Bytes follow the last field.
    TrailingBytes,
    /// A varint is not in its shortest form.
    VarintOverlong,
    /// A varint exceeds 64 bits.
    VarintOverflow,
    /// A number is a valid varint but too large for its field.
    NumberTooLarge,
    /// A string is not UTF-8.
    InvalidUtf8,
    /// A field has a value that the protocol does not define; the field's name.
    InvalidValue(&'static str),
    /// The text is not JSON, or not a frame's members (`native::json`).
    MalformedJson,
    /// An option that may occur once is repeated; its key.
    RepeatedOption(u64),
    /// The type byte is unknown, or not valid in this direction.
    UnknownFrame(u8),
    /// The flags byte has bits that the frame does not define.
    UnsupportedFlags(u8),
    /// HELLO or WELCOME names an unsupported version.
    UnsupportedVersion(u8),
    /// An option with an unknown odd key.
    UnsupportedOption {
        /// The option's key.
        key: u64,
        /// The refused request, subscription or connection.
        reference: Reference,
    },
    /// An option has an invalid value, or excludes another one.
    InvalidOption {
        /// The option's key.
        key: u64,
        /// The refused request, subscription or connection.
        reference: Reference,
    },
    /// A topic or filter is empty or longer than [`TOPIC_BYTES_MAX`].
    TopicLength {
        /// Its length in bytes.
        bytes: u64,
        /// The refused request, subscription or connection.
        reference: Reference,
    },
}

impl FrameError {
    /// The code for the sender.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Truncated
            | Self::TrailingBytes
            | Self::NumberTooLarge
            | Self::InvalidValue(_)
            | Self::MalformedJson
            | Self::RepeatedOption(_) => ErrorCode::MalformedFrame,
            Self::VarintOverlong | Self::VarintOverflow => ErrorCode::MalformedVarint,
            Self::InvalidUtf8 => ErrorCode::MalformedUtf8,
            Self::UnknownFrame(_) => ErrorCode::UnsupportedFrame,
            Self::UnsupportedFlags(_) | Self::UnsupportedOption { .. } => {
                ErrorCode::UnsupportedOption
            }
            Self::UnsupportedVersion(_) => ErrorCode::UnsupportedVersion,
            Self::InvalidOption { .. } => ErrorCode::MalformedParameter,
            Self::TopicLength { bytes, .. } => topic_length_code(*bytes),
        }
    }

    /// The subject of the error. Only an error about a request leaves the connection usable.
    #[must_use]
    pub fn reference(&self) -> Reference {
        match self {
            Self::UnsupportedOption { reference, .. }
            | Self::InvalidOption { reference, .. }
            | Self::TopicLength { reference, .. } => *reference,
            _ => Reference::Connection,
        }
    }

    /// Whether the connection must be closed after the ERROR frame.
    #[must_use]
    pub fn closes(&self) -> bool {
        self.reference() == Reference::Connection
    }

    /// The exceeded limit, for the ERROR frame.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        match self {
            Self::TopicLength { bytes, .. } => topic_length_limit(*bytes),
            _ => None,
        }
    }
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Truncated => f.write_str("the frame ends inside a field"),
            Self::TrailingBytes => f.write_str("bytes follow the last field"),
            Self::VarintOverlong => f.write_str("a varint is not in its shortest form"),
            Self::VarintOverflow => f.write_str("a varint exceeds 64 bits"),
            Self::NumberTooLarge => f.write_str("a number is too large for its field"),
            Self::InvalidUtf8 => f.write_str("a string is not UTF-8"),
            Self::InvalidValue(field) => write!(f, "undefined value in field {field}"),
            Self::MalformedJson => f.write_str("the message is not a frame in JSON"),
            Self::RepeatedOption(key) => write!(f, "option {key} came twice"),
            Self::UnknownFrame(kind) => write!(f, "unknown frame type 0x{kind:02x}"),
            Self::UnsupportedFlags(bits) => write!(f, "undefined flags 0x{bits:02x}"),
            Self::UnsupportedVersion(version) => write!(f, "unsupported version {version}"),
            Self::UnsupportedOption { key, .. } => write!(f, "option {key} is not supported"),
            Self::InvalidOption { key, .. } => write!(f, "option {key} has an impossible value"),
            Self::TopicLength { bytes, .. } => topic_length_text(*bytes, f),
        }
    }
}

impl std::error::Error for FrameError {}

/// The reason why one item of a SUBSCRIBE is refused; the others are not affected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ItemError {
    /// An option with an unknown odd key; its key.
    UnsupportedOption(u64),
    /// The topic or filter is empty or longer than [`TOPIC_BYTES_MAX`]; its length in bytes.
    TopicLength(u64),
}

impl ItemError {
    /// The code for the sender.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::UnsupportedOption(_) => ErrorCode::UnsupportedOption,
            Self::TopicLength(bytes) => topic_length_code(*bytes),
        }
    }

    /// The exceeded limit, for the ERROR frame.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        match self {
            Self::UnsupportedOption(_) => None,
            Self::TopicLength(bytes) => topic_length_limit(*bytes),
        }
    }
}

impl std::fmt::Display for ItemError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnsupportedOption(key) => write!(f, "option {key} is not supported"),
            Self::TopicLength(bytes) => topic_length_text(*bytes, f),
        }
    }
}

impl std::error::Error for ItemError {}

fn topic_length_code(bytes: u64) -> ErrorCode {
    if bytes == 0 { ErrorCode::MalformedTopic } else { ErrorCode::TopicTooLong }
}

/// The limit for a topic of this length; none for an empty topic.
fn topic_length_limit(bytes: u64) -> Option<u64> {
    (bytes > 0).then_some(TOPIC_BYTES_MAX as u64)
}

fn topic_length_text(bytes: u64, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    write!(f, "a topic or filter has 1 to {TOPIC_BYTES_MAX} bytes, this one {bytes}")
}

impl Hand for ErrorCode {
    fn give(&self, out: &mut Vec<u8>) {
        (*self as u16).give(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        ErrorCode::from_number(u16::take(input)?.into())
    }

    fn layout(layout: &mut Layout) {
        layout.name("ErrorCode");
    }
}
