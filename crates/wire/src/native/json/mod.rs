//! The frames of the native protocol as JSON: the subprotocol `crore.v1.json`, for clients without
//! a library (`spec/protocol.md` section 15).
//!
//! Place on the path: as the binary form. A received frame becomes the same frame in binary, so
//! that all code behind the decoder is common; a sent one is written from the same values.
//!
//! Invariants: decoding never panics, and takes memory in proportion to the text; a decoded frame
//! is one that the binary decoder accepts, or refuses for the reason that the text has. serde_json
//! reads; writing is by hand, because it is on the path of a message.

pub mod client;
mod members;
mod reading;
pub mod server;
mod writing;

use super::{FrameError, Reference};
use serde_json::value::RawValue;

/// The largest number in a frame: 2^53 - 1, up to which JavaScript's numbers are exact. Larger ones
/// are decimal text.
pub const NUMBER_MAX: u64 = (1 << 53) - 1;

/// The first character of the name of a member that its receiver must understand.
pub const MUST_UNDERSTAND: char = '!';

/// The maximum length of an explanation.
const EXPLANATION_BYTES_MAX: usize = 200;

/// The reason why a text is not a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JsonError {
    /// The error of the frame; it decides on the code for the sender and on the connection.
    pub error: FrameError,
    /// The explanation for people.
    pub explanation: String,
}

impl JsonError {
    fn malformed(explanation: impl Into<String>) -> Self {
        Self::new(FrameError::MalformedJson, explanation.into())
    }

    /// The explanation may repeat parts of the text, and is cut.
    fn new(error: FrameError, mut explanation: String) -> Self {
        let mut end = explanation.len().min(EXPLANATION_BYTES_MAX);
        while !explanation.is_char_boundary(end) {
            end -= 1;
        }
        explanation.truncate(end);
        Self { error, explanation }
    }

    /// A member that must be understood, and is not.
    fn unsupported(name: &str, reference: Reference) -> Self {
        let error = FrameError::UnsupportedOption { key: UNKNOWN_OPTION, reference };
        Self::new(error, format!("member `{name}` is not supported"))
    }

    fn invalid(key: u64, reference: Reference, explanation: &str) -> Self {
        let error = FrameError::InvalidOption { key, reference };
        Self::new(error, explanation.into())
    }
}

impl From<serde_json::Error> for JsonError {
    fn from(error: serde_json::Error) -> Self {
        Self::malformed(error.to_string())
    }
}

impl std::fmt::Display for JsonError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.explanation)
    }
}

impl std::error::Error for JsonError {}

/// An odd key of no option, for a member without a number.
const UNKNOWN_OPTION: u64 = u64::MAX;

/// Whether a message is a list of frames instead of one frame.
#[must_use]
pub fn is_list(message: &str) -> bool {
    message.trim_ascii_start().starts_with('[')
}

/// Calls `each` with the frames of a message that is a list, in order.
///
/// # Errors
/// The message is not a list of objects. Its frames are not decoded here.
pub fn split<'a>(message: &'a str, mut each: impl FnMut(&'a str)) -> Result<(), JsonError> {
    let frames: Vec<&'a RawValue> = serde_json::from_str(message)?;
    if !frames.iter().all(|frame| frame.get().starts_with('{')) {
        return Err(JsonError::malformed("a message is a frame or a list of frames"));
    }
    frames.iter().for_each(|frame| each(frame.get()));
    Ok(())
}
