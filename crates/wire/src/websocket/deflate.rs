//! Compressed messages (RFC 7692 section 7.2): complete messages to DEFLATE and back, without
//! context from one to the next.
//!
//! Place on the path: step 2 inbound, behind [`message`](super::message); step 7 outbound, before a
//! frame's header.
//!
//! Invariants: a message depends on no other, so one [`Deflater`] and one [`Inflater`] serve all
//! connections of a thread, and a compressed message is equal for all its receivers. Inflated data
//! never exceeds the caller's bound, whatever the input announces. References reach back at most
//! the length of the message, so a message of at most 2^N bytes may go to a peer with a window of N
//! bits.

use std::fmt;

use zlib_rs::{Deflate, DeflateFlush, Inflate, InflateFlush, Status};

use super::message::{Event, Kind, MessageError};

/// The window for both directions, in bits: the maximum.
pub const WINDOW_BITS_MAX: u8 = 15;
/// The smallest window that a peer may request, in bits.
pub const WINDOW_BITS_MIN: u8 = 8;

/// Section 7.2.1: a flush ends with an empty stored block; its last four bytes are not sent.
const TAIL: [u8; 4] = [0x00, 0x00, 0xff, 0xff];
/// The bytes appended to a payload for decoding: the tail, and a final empty block. The stream ends
/// exactly there if, and only if, the payload ends between two blocks: so a truncated message is
/// detected.
const END: [u8; 6] = [0x00, 0x00, 0xff, 0xff, 0x03, 0x00];

/// Output buffer that an [`Inflater`] keeps between messages.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Compresses messages, one at a time. About 370 KiB.
pub struct Deflater {
    stream: Deflate,
    level: i32,
}

impl Deflater {
    /// Creates a compressor. `level` is 1 (quick) to 9 (small); other values are clamped.
    pub fn new(level: u8) -> Deflater {
        let level = i32::from(level.clamp(1, 9));
        Deflater { stream: Deflate::new(level, false, WINDOW_BITS_MAX), level }
    }

    /// Appends to `out` the compressed payload of a message, the concatenation of `parts`. Returns
    /// false and appends nothing if the result would not be shorter.
    pub fn deflate(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let plain_bytes: usize = parts.iter().map(|part| part.len()).sum();
        // Reserve room for the worst case. Stopping early, after too much output, would leave bytes
        // in the library's own buffer, where they would take the room of all later messages.
        out.resize(start + plain_bytes + plain_bytes / 4 + ROOM_BYTES_MIN, 0);
        let payload_bytes = self.write(parts, &mut out[start..]);
        debug_assert!(payload_bytes.is_some(), "{plain_bytes} bytes");
        if payload_bytes.is_none() {
            self.stream = Deflate::new(self.level, false, WINDOW_BITS_MAX);
        }
        let shorter = payload_bytes.filter(|&bytes| bytes < plain_bytes);
        out.truncate(start + shorter.unwrap_or(0));
        shorter.is_some()
    }

    /// Returns the payload's length; `None` if the library breaks its contract.
    fn write(&mut self, parts: &[&[u8]], room: &mut [u8]) -> Option<usize> {
        self.stream.reset();
        // The library treats empty input as an error.
        let mut parts = parts.iter().filter(|part| !part.is_empty()).peekable();
        if parts.peek().is_none() {
            return Some(0);
        }
        while let Some(part) = parts.next() {
            let flush = match parts.peek() {
                Some(_) => DeflateFlush::NoFlush,
                None => DeflateFlush::SyncFlush,
            };
            let filled = self.stream.total_out() as usize;
            let taken = self.stream.total_in() + part.len() as u64;
            let status = self.stream.compress(part, &mut room[filled..], flush);
            let is_full = self.stream.total_out() as usize == room.len();
            if status != Ok(Status::Ok) || is_full || self.stream.total_in() != taken {
                return None;
            }
        }
        let payload = room[..self.stream.total_out() as usize].strip_suffix(&TAIL)?;
        Some(payload.len())
    }
}

impl fmt::Debug for Deflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deflater").finish_non_exhaustive()
    }
}

/// The reason why a compressed payload is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InflateError {
    /// The payload is not DEFLATE, or ends within a block.
    Corrupt,
    /// The message exceeds the limit.
    TooLarge {
        /// The caller's limit.
        message_bytes_max: usize,
    },
}

impl fmt::Display for InflateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InflateError::Corrupt => f.write_str("compressed message cannot be inflated"),
            InflateError::TooLarge { message_bytes_max } => {
                write!(f, "message inflates to more than {message_bytes_max} bytes")
            }
        }
    }
}

impl std::error::Error for InflateError {}

/// Inflates messages, one at a time, into its own buffer.
pub struct Inflater {
    stream: Inflate,
    /// A buffer that is reused; the message is at its front.
    room: Vec<u8>,
}

impl Default for Inflater {
    fn default() -> Inflater {
        Inflater::new()
    }
}

impl Inflater {
    /// Creates an inflater that accepts every window of the sender.
    pub fn new() -> Inflater {
        Inflater { stream: Inflate::new(false, WINDOW_BITS_MAX), room: Vec::new() }
    }

    /// Inflates a message of kind `kind` from `payload`: [`Event::Text`] or [`Event::Binary`].
    ///
    /// # Errors
    /// See [`Inflater::decode`]; in addition, text other than UTF-8.
    pub fn message(
        &mut self,
        kind: Kind,
        payload: &[u8],
        message_bytes_max: usize,
    ) -> Result<Event<'_>, MessageError> {
        let message = self.decode(payload, message_bytes_max)?;
        match kind {
            Kind::Binary => Ok(Event::Binary(message)),
            Kind::Text => super::message::text(message).map(Event::Text),
        }
    }

    /// Inflates `payload` into the inflater's own buffer. Several streams one after another (blocks
    /// with BFINAL set, section 7.2.3.4) are one message.
    ///
    /// # Errors
    /// See [`InflateError`].
    pub fn decode(
        &mut self,
        payload: &[u8],
        message_bytes_max: usize,
    ) -> Result<&[u8], InflateError> {
        self.stream.reset(false);
        self.room.truncate(KEPT_BYTES_MAX);
        self.room.shrink_to(KEPT_BYTES_MAX);
        if payload.is_empty() {
            // A correct sender writes one zero byte for an empty message; some write nothing.
            return Ok(&[]);
        }
        let mut filled = 0;
        let mut input = payload;
        let mut in_end = false;
        loop {
            if filled == self.room.len() {
                self.grow(filled, payload.len(), message_bytes_max)?;
            }
            let before = (self.stream.total_in(), self.stream.total_out());
            let status = self
                .stream
                .decompress(input, &mut self.room[filled..], InflateFlush::NoFlush)
                .map_err(|_| InflateError::Corrupt)?;
            let taken = (self.stream.total_in() - before.0) as usize;
            let written = (self.stream.total_out() - before.1) as usize;
            input = &input[taken..];
            filled += written;
            if filled > message_bytes_max {
                return Err(InflateError::TooLarge { message_bytes_max });
            }
            match status {
                // After a final block, the payload may end, or another stream may follow.
                Status::StreamEnd if input.is_empty() => return Ok(&self.room[..filled]),
                Status::StreamEnd if in_end => return Err(InflateError::Corrupt),
                Status::StreamEnd => self.stream.reset(false),
                // More output may follow.
                _ if filled == self.room.len() => {}
                _ if input.is_empty() && !in_end => {
                    input = &END;
                    in_end = true;
                }
                _ if taken == 0 && written == 0 => return Err(InflateError::Corrupt),
                _ => {}
            }
        }
    }

    /// Enlarges the output buffer; one byte beyond the bound detects an overrun.
    fn grow(
        &mut self,
        filled: usize,
        payload_bytes: usize,
        message_bytes_max: usize,
    ) -> Result<(), InflateError> {
        let room_max = message_bytes_max.saturating_add(1);
        if filled >= room_max {
            return Err(InflateError::TooLarge { message_bytes_max });
        }
        let wanted = (2 * filled).max(4 * payload_bytes).max(ROOM_BYTES_MIN);
        self.room.resize(wanted.min(room_max), 0);
        Ok(())
    }
}

/// The minimum initial buffer, in both directions.
const ROOM_BYTES_MIN: usize = 1 << 10;

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater").finish_non_exhaustive()
    }
}
