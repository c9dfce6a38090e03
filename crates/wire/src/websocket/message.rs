//! From frames to events: fragmentation, interleaved control frames, text validation, bounded size
//! (RFC 6455 sections 5.4 to 5.6 and 8.1).
//!
//! Place on the path: step 2, the layer below a session.
//!
//! Invariants: an unfragmented message borrows from the receive buffer, and is never copied. The
//! caller owns the assembly buffer, which is used only while a fragmented message is open: its
//! bytes are exactly the fragments so far, so the state here is two bytes per connection. Text is
//! validated with each fragment, and refused with the first fragment that no continuation could
//! make valid. A compressed message is returned compressed, but assembled: the thread's
//! [`Inflater`](super::deflate::Inflater) makes it text or binary, so no connection owns one.

use std::fmt;
use stdx::handing::Hand;

use super::close::{Close, CloseCode, CloseError};
use super::deflate::InflateError;
use super::frame::{Frame, FrameError, Opcode, RSV1, Role};
use crate::codec::Step;

/// The peer's input. Payloads are borrowed from the receive buffer or from the assembly buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A fragment was added to the assembly buffer; more of its message follows.
    Fragment,
    /// A complete text message, valid UTF-8.
    Text(&'a str),
    /// A complete binary message.
    Binary(&'a [u8]),
    /// A complete compressed message, for [`Inflater::message`](super::deflate::Inflater::message).
    /// Only after an agreement.
    Compressed(Kind, &'a [u8]),
    /// A ping, which requires a pong with the same payload (at most 125 bytes).
    Ping(&'a [u8]),
    /// A pong.
    Pong(&'a [u8]),
    /// The peer closes. The caller answers with a close frame once and ignores the rest.
    Close(Close<'a>),
}

/// The type of a message, compressed or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8 text.
    Text,
    /// Arbitrary bytes.
    Binary,
}

/// The reason why the peer's input is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// A single frame is invalid.
    Frame(FrameError),
    /// A continuation without an open message.
    UnexpectedContinuation,
    /// A new message before the end of the fragmented one.
    ExpectedContinuation,
    /// The text is not UTF-8.
    InvalidUtf8,
    /// The payload of a close frame is invalid.
    Close(CloseError),
    /// The fragments together are larger than the limit.
    TooLarge {
        /// The limit of the whole message.
        message_bytes_max: usize,
    },
    /// A compressed message is invalid or exceeds the limit.
    Inflate(InflateError),
}

impl MessageError {
    /// The close code of the answer.
    pub const fn close_code(self) -> CloseCode {
        match self {
            MessageError::Frame(error) => error.close_code(),
            MessageError::UnexpectedContinuation | MessageError::ExpectedContinuation => {
                CloseCode::PROTOCOL_ERROR
            }
            MessageError::InvalidUtf8 => CloseCode::INVALID_PAYLOAD,
            MessageError::Close(error) => error.close_code(),
            MessageError::TooLarge { .. }
            | MessageError::Inflate(InflateError::TooLarge { .. }) => CloseCode::MESSAGE_TOO_BIG,
            MessageError::Inflate(InflateError::Corrupt) => CloseCode::INVALID_PAYLOAD,
        }
    }
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageError::Frame(error) => error.fmt(f),
            MessageError::UnexpectedContinuation => {
                f.write_str("continuation frame without a message")
            }
            MessageError::ExpectedContinuation => {
                f.write_str("new message inside a fragmented one")
            }
            MessageError::InvalidUtf8 => f.write_str("text is not UTF-8"),
            MessageError::Close(error) => error.fmt(f),
            MessageError::TooLarge { message_bytes_max } => {
                write!(f, "message over the limit of {message_bytes_max} bytes")
            }
            MessageError::Inflate(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for MessageError {}

impl From<CloseError> for MessageError {
    fn from(error: CloseError) -> Self {
        MessageError::Close(error)
    }
}

impl From<InflateError> for MessageError {
    fn from(error: InflateError) -> Self {
        MessageError::Inflate(error)
    }
}

/// The kind of the fragmented message that is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hand)]
enum Open {
    #[default]
    None,
    Text,
    Binary,
    CompressedText,
    CompressedBinary,
}

impl Open {
    fn of(opcode: Opcode, compressed: bool) -> Open {
        match (opcode, compressed) {
            (Opcode::Text, false) => Open::Text,
            (Opcode::Text, true) => Open::CompressedText,
            (_, false) => Open::Binary,
            (_, true) => Open::CompressedBinary,
        }
    }
}

/// The per-connection state between frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hand)]
pub struct Assembler {
    open: Open,
    /// Whether compression was agreed.
    deflate: bool,
    /// The length of the unfinished character at the end of the assembly buffer (0 to 3).
    unfinished_bytes: u8,
}

const _: () = assert!(size_of::<Assembler>() <= 16);

impl Assembler {
    /// Creates the state of a new connection without compression.
    pub const fn new() -> Assembler {
        Assembler::with_deflate(false)
    }

    /// Creates the state of a new connection; `deflate` says whether compression was agreed.
    pub const fn with_deflate(deflate: bool) -> Assembler {
        Assembler { open: Open::None, deflate, unfinished_bytes: 0 }
    }

    /// Whether a fragmented message is open. If not, the content of the assembly buffer is obsolete
    /// and the caller may remove it (the next fragmented message clears it anyway).
    pub const fn is_open(&self) -> bool {
        !matches!(self.open, Open::None)
    }

    /// Decodes the frame at the front of `input` (unmasking in place) and returns its event.
    ///
    /// `message_bytes_max` bounds a complete message, fragmented or not; `assembly` holds the
    /// fragments of an open message, and the caller must not change it between calls while
    /// [`is_open`](Self::is_open). Its capacity never grows beyond the limit. For an incomplete
    /// frame, `needed` is as for [`Frame::decode`].
    ///
    /// # Errors
    /// Every fault for which an endpoint must fail the connection; [`MessageError::close_code`] is
    /// the code.
    #[inline]
    pub fn decode<'a>(
        &mut self,
        input: &'a mut [u8],
        role: Role,
        message_bytes_max: usize,
        assembly: &'a mut Vec<u8>,
    ) -> Result<Step<Event<'a>>, MessageError> {
        let held_bytes = if self.is_open() { assembly.len() } else { 0 };
        let payload_bytes_max = message_bytes_max.saturating_sub(held_bytes);
        // Section 5.4 takes precedence over size: a frame out of sequence is a protocol error,
        // however large it is.
        if let Some(&first) = input.first() {
            self.check_sequence(first)?;
        }
        let step =
            Frame::decode_with(input, role, self.deflate, payload_bytes_max).map_err(|error| {
                match error {
                    FrameError::TooLarge { .. } if held_bytes > 0 => {
                        MessageError::TooLarge { message_bytes_max }
                    }
                    error => MessageError::Frame(error),
                }
            })?;
        let (frame, consumed) = match step {
            Step::Done { value, consumed } => (value, consumed),
            Step::More { needed } => return Ok(Step::More { needed }),
        };
        let payload: &'a [u8] = frame.payload;
        let value = match frame.opcode {
            Opcode::Text if frame.fin && frame.compressed => Event::Compressed(Kind::Text, payload),
            Opcode::Binary if frame.fin && frame.compressed => {
                Event::Compressed(Kind::Binary, payload)
            }
            Opcode::Text if frame.fin => Event::Text(text(payload)?),
            Opcode::Binary if frame.fin => Event::Binary(payload),
            Opcode::Text | Opcode::Binary => {
                self.open = Open::of(frame.opcode, frame.compressed);
                self.unfinished_bytes = 0;
                assembly.clear();
                self.append(payload, message_bytes_max, assembly)?;
                Event::Fragment
            }
            Opcode::Continuation => {
                self.append(payload, message_bytes_max, assembly)?;
                if frame.fin { self.finish(assembly)? } else { Event::Fragment }
            }
            Opcode::Ping => Event::Ping(payload),
            Opcode::Pong => Event::Pong(payload),
            Opcode::Close => Event::Close(Close::decode(payload)?),
        };
        Ok(Step::Done { value, consumed })
    }

    /// Checks that a frame with this first byte may follow. Invalid first bytes are left to the
    /// frame decoder.
    #[inline]
    fn check_sequence(&self, first: u8) -> Result<(), MessageError> {
        let allowed = if self.deflate { RSV1 } else { 0 };
        if first & 0x70 & !allowed != 0 {
            return Ok(());
        }
        match first & 0x0f {
            0x0 if !self.is_open() => Err(MessageError::UnexpectedContinuation),
            0x1 | 0x2 if self.is_open() => Err(MessageError::ExpectedContinuation),
            _ => Ok(()),
        }
    }

    fn append(
        &mut self,
        payload: &[u8],
        message_bytes_max: usize,
        assembly: &mut Vec<u8>,
    ) -> Result<(), MessageError> {
        let len = assembly.len() + payload.len();
        if len > assembly.capacity() {
            // Doubling, but never beyond the maximum size of the message.
            let capacity = len.max(assembly.capacity() * 2).min(message_bytes_max.max(len));
            assembly.reserve_exact(capacity - assembly.len());
        }
        assembly.extend_from_slice(payload);
        if self.open == Open::Text {
            let start = assembly.len() - payload.len() - usize::from(self.unfinished_bytes);
            self.unfinished_bytes = match simdutf8::compat::from_utf8(&assembly[start..]) {
                Ok(_) => 0,
                // No error length: the input ends inside a character that can still become valid.
                Err(error) if error.error_len().is_none() => {
                    (assembly.len() - start - error.valid_up_to()) as u8
                }
                Err(_) => return Err(MessageError::InvalidUtf8),
            };
        }
        Ok(())
    }

    fn finish<'a>(&mut self, assembly: &'a [u8]) -> Result<Event<'a>, MessageError> {
        let open = std::mem::take(&mut self.open);
        match open {
            Open::Text if self.unfinished_bytes > 0 => Err(MessageError::InvalidUtf8),
            Open::Text => Ok(Event::Text(text(assembly)?)),
            Open::CompressedText => Ok(Event::Compressed(Kind::Text, assembly)),
            Open::CompressedBinary => Ok(Event::Compressed(Kind::Binary, assembly)),
            Open::Binary | Open::None => Ok(Event::Binary(assembly)),
        }
    }
}

#[inline]
pub(super) fn text(payload: &[u8]) -> Result<&str, MessageError> {
    simdutf8::basic::from_utf8(payload).map_err(|_| MessageError::InvalidUtf8)
}
