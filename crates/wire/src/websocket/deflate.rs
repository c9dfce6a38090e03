//! Compressed messages (RFC 7692 section 7.2): whole messages to DEFLATE and back, without context
//! from one to the next.
//!
//! Place on the path: line 2 inbound, behind [`message`](super::message); line 9 outbound, before a
//! frame's header.
//!
//! Invariants: a message depends on no other, so one [`Deflater`] and one [`Inflater`] serve all
//! connections of a thread, and a compressed message is the same for all that take it. What is
//! inflated never exceeds the caller's bound, whatever the input promises. Nothing refers further
//! back than the message is long, so a message of at most 2^N bytes may go to a peer whose window
//! has N bits.

use std::fmt;

use zlib_rs::{Deflate, DeflateFlush, Inflate, InflateFlush, Status};

use super::message::{Event, Kind, MessageError};

/// The window of what we write and of what we read, in bits: the largest there is.
pub const WINDOW_BITS_MAX: u8 = 15;
/// The smallest window that a peer may ask for, in bits.
pub const WINDOW_BITS_MIN: u8 = 8;

/// Section 7.2.1: a flush ends with an empty stored block, of which these four bytes do not travel.
const TAIL: [u8; 4] = [0x00, 0x00, 0xff, 0xff];
/// What stands behind a payload when it is read: the tail, and a final empty block of our own. The
/// stream ends exactly there if, and only if, the payload ends between two blocks: so a message
/// that was cut short is recognised.
const END: [u8; 6] = [0x00, 0x00, 0xff, 0xff, 0x03, 0x00];

/// Bytes of output that an [`Inflater`] keeps between messages.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Compresses messages, one at a time. About 370 KiB.
pub struct Deflater {
    stream: Deflate,
    level: i32,
}

impl Deflater {
    /// `level` is 1 (quick) to 9 (small); others are brought into that range.
    pub fn new(level: u8) -> Deflater {
        let level = i32::from(level.clamp(1, 9));
        Deflater { stream: Deflate::new(level, false, WINDOW_BITS_MAX), level }
    }

    /// Appends to `out` the compressed payload of a message that is the concatenation of `parts`.
    /// False, and nothing appended, if that would not be shorter.
    pub fn deflate(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let plain_bytes: usize = parts.iter().map(|part| part.len()).sum();
        // Room for the worst that may come out. To stop before the end, because it has become too
        // long, would leave bytes in the library's own buffer, and those take its room from all
        // messages that follow.
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

    /// The payload's length; `None` if the library has not done what it promises.
    fn write(&mut self, parts: &[&[u8]], room: &mut [u8]) -> Option<usize> {
        self.stream.reset();
        // The library calls it an error to be given nothing.
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

/// Why a compressed payload is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InflateError {
    /// Not DEFLATE, or it ends within a block.
    Corrupt,
    /// It would be longer than allowed.
    TooLarge {
        /// What the caller allowed.
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

/// Inflates messages, one at a time, into a buffer of its own.
pub struct Inflater {
    stream: Inflate,
    /// Room that has been used before; what a message fills is in front.
    room: Vec<u8>,
}

impl Default for Inflater {
    fn default() -> Inflater {
        Inflater::new()
    }
}

impl Inflater {
    /// An inflater that takes whatever window the sender uses.
    pub fn new() -> Inflater {
        Inflater { stream: Inflate::new(false, WINDOW_BITS_MAX), room: Vec::new() }
    }

    /// The message that `payload` is: [`Event::Text`] or [`Event::Binary`].
    ///
    /// # Errors
    /// As [`Inflater::decode`], and text that is not UTF-8.
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

    /// The bytes that `payload` stands for, in the inflater's own buffer. Several streams one after
    /// another (blocks with BFINAL set, section 7.2.3.4) are one message.
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
            // A correct sender writes one zero byte; nothing is what some write for nothing.
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
                // Behind a final block nothing need follow, or another stream does.
                Status::StreamEnd if input.is_empty() => return Ok(&self.room[..filled]),
                Status::StreamEnd if in_end => return Err(InflateError::Corrupt),
                Status::StreamEnd => self.stream.reset(false),
                // There may be more to come out.
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

    /// Makes room for more output: a byte beyond the bound shows that the bound is passed.
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

/// The least room to begin with, in both directions.
const ROOM_BYTES_MIN: usize = 1 << 10;

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater").finish_non_exhaustive()
    }
}
