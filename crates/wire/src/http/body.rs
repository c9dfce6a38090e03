//! The content of an HTTP message: the decoder removes its framing (RFC 9112 sections 6 and 7), and
//! the encoder writes chunks.
//!
//! Place on the path: step 2. A stream decoder: it consumes all of its input and owns no buffer.
//!
//! Invariants: content never exceeds the caller's limit, and too large a length is refused before a
//! byte is read. Chunk extensions and trailers are bounded over the whole body, and dropped. Lines
//! end only with CRLF.

use std::fmt;
use stdx::handing::Hand;

use crate::codec::Step;

/// The maximum size of all chunk extensions in one body.
pub const EXTENSION_BYTES_MAX: u16 = 16 * 1024;
/// The maximum size of the trailers.
pub const TRAILER_BYTES_MAX: u16 = 8 * 1024;

/// The rule that determines the end of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// There is no body.
    None,
    /// The body has this length in bytes.
    Length(u64),
    /// The body arrives in chunks.
    Chunked,
    /// The body ends with the connection; responses only.
    UntilClose,
}

/// The result of one step of the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyPart<'a> {
    /// The next bytes of content; empty when only framing was consumed.
    Data(&'a [u8]),
    /// The body is complete. The rest of the input is the next message.
    End,
}

/// The reason why a body is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// The content is larger than the limit.
    TooLarge {
        /// The limit of content in bytes.
        body_bytes_max: u64,
    },
    /// The size line of a chunk is malformed.
    BadChunkSize,
    /// The end of a chunk does not match its size.
    BadChunkEnd,
    /// The extensions exceed [`EXTENSION_BYTES_MAX`].
    ExtensionsTooLarge,
    /// The trailers exceed [`TRAILER_BYTES_MAX`].
    TrailersTooLarge,
    /// An extension or trailer contains a control byte, or a CR or LF alone.
    BadByte(u8),
    /// The connection ended before the body.
    Truncated,
}

impl BodyError {
    /// The status of the answer; then the connection is closed.
    pub const fn status(self) -> u16 {
        match self {
            BodyError::TooLarge { .. } => 413,
            BodyError::TrailersTooLarge => 431,
            _ => 400,
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BodyError::TooLarge { body_bytes_max } => {
                return write!(f, "body over the limit of {body_bytes_max} bytes");
            }
            BodyError::BadByte(byte) => return write!(f, "byte {byte:#04x} between chunks"),
            BodyError::BadChunkSize => "malformed chunk size",
            BodyError::BadChunkEnd => "chunk is not followed by CRLF",
            BodyError::ExtensionsTooLarge => "chunk extensions over the limit",
            BodyError::TrailersTooLarge => "trailers over the limit",
            BodyError::Truncated => "connection closed inside the body",
        })
    }
}

impl std::error::Error for BodyError {}

/// The decoder's position in the framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hand)]
enum State {
    Length,
    UntilClose,
    /// Before or in the digits of a size.
    Size {
        digits: u8,
    },
    /// Space after the digits, which some senders add before the end of the line.
    SizeSpace,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the start of a trailer line, or of the final empty line.
    TrailerStart,
    Trailer,
    TrailerLf,
    EndLf,
    End,
}

/// The decoder of one body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hand)]
pub struct BodyDecoder {
    /// Remaining content of this chunk, or of the whole body if its length is known.
    remaining_bytes: u64,
    content_bytes: u64,
    body_bytes_max: u64,
    extension_bytes: u16,
    trailer_bytes: u16,
    state: State,
}

const _: () = assert!(size_of::<BodyDecoder>() <= 32);

impl BodyDecoder {
    /// Creates a decoder for one body of at most `body_bytes_max` bytes of content.
    ///
    /// # Errors
    /// [`BodyError::TooLarge`] if the announced length is over the limit.
    pub fn new(framing: BodyFraming, body_bytes_max: u64) -> Result<BodyDecoder, BodyError> {
        let (state, remaining_bytes) = match framing {
            BodyFraming::None => (State::End, 0),
            BodyFraming::Length(0) => (State::End, 0),
            BodyFraming::Length(length) if length > body_bytes_max => {
                return Err(BodyError::TooLarge { body_bytes_max });
            }
            BodyFraming::Length(length) => (State::Length, length),
            BodyFraming::Chunked => (State::Size { digits: 0 }, 0),
            BodyFraming::UntilClose => (State::UntilClose, 0),
        };
        Ok(BodyDecoder {
            remaining_bytes,
            content_bytes: 0,
            body_bytes_max,
            extension_bytes: 0,
            trailer_bytes: 0,
            state,
        })
    }

    /// Whether the body is complete.
    pub fn is_end(&self) -> bool {
        self.state == State::End
    }

    /// The size of the content decoded so far.
    pub fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// Decodes the front of `input`: up to one slice of content, or the end.
    ///
    /// After the end of the body, every call returns [`BodyPart::End`] and consumes nothing.
    ///
    /// # Errors
    /// See [`BodyError`].
    pub fn decode<'a>(&mut self, input: &'a [u8]) -> Result<Step<BodyPart<'a>>, BodyError> {
        let mut at = 0;
        loop {
            if self.state == State::End {
                return Ok(Step::Done { value: BodyPart::End, consumed: at });
            }
            let Some(&byte) = input.get(at) else { break };
            match self.state {
                State::Length | State::Data | State::UntilClose => {
                    let data = self.take_content(&input[at..])?;
                    let consumed = at + data.len();
                    return Ok(Step::Done { value: BodyPart::Data(data), consumed });
                }
                _ => self.take_framing(byte)?,
            }
            at += 1;
        }
        if at == 0 {
            return Ok(Step::More { needed: 1 });
        }
        Ok(Step::Done { value: BodyPart::Data(&[]), consumed: at })
    }

    /// Reports that the peer closed the connection.
    ///
    /// # Errors
    /// [`BodyError::Truncated`] unless the body is complete or ends with the connection.
    pub fn finish(&self) -> Result<(), BodyError> {
        match self.state {
            State::End | State::UntilClose => Ok(()),
            _ => Err(BodyError::Truncated),
        }
    }

    fn take_content<'a>(&mut self, input: &'a [u8]) -> Result<&'a [u8], BodyError> {
        let allowed_bytes = match self.state {
            State::UntilClose => self.body_bytes_max - self.content_bytes,
            _ => self.remaining_bytes,
        };
        // Only content whose end is not announced can reach the limit here; other framings are
        // refused earlier.
        if allowed_bytes == 0 {
            return Err(BodyError::TooLarge { body_bytes_max: self.body_bytes_max });
        }
        let data_bytes = allowed_bytes.min(input.len() as u64);
        let data = &input[..data_bytes as usize];
        if self.state != State::UntilClose {
            self.remaining_bytes -= data_bytes;
            if self.remaining_bytes == 0 {
                self.state = match self.state {
                    State::Length => State::End,
                    _ => State::DataCr,
                };
            }
        }
        self.content_bytes += data_bytes;
        Ok(data)
    }

    /// RFC 9112 section 7.1, one byte at a time.
    fn take_framing(&mut self, byte: u8) -> Result<(), BodyError> {
        self.state = match (self.state, byte) {
            (State::Size { digits }, _) if byte.is_ascii_hexdigit() => {
                // Sixteen digits fill a `u64`; more, zeros included, are refused.
                if digits == 16 {
                    return Err(BodyError::BadChunkSize);
                }
                let digit = (byte as char).to_digit(16).unwrap_or(0);
                self.remaining_bytes = self.remaining_bytes << 4 | u64::from(digit);
                // Refuse at once: further digits only increase the size.
                if self.remaining_bytes > self.body_bytes_max - self.content_bytes {
                    return Err(BodyError::TooLarge { body_bytes_max: self.body_bytes_max });
                }
                State::Size { digits: digits + 1 }
            }
            (State::Size { digits: 1.. } | State::SizeSpace, b' ' | b'\t') => {
                self.count_extension()?;
                State::SizeSpace
            }
            (State::Size { digits: 1.. } | State::SizeSpace, b';') => {
                self.count_extension()?;
                State::Extension
            }
            (State::Size { digits: 1.. } | State::SizeSpace | State::Extension, b'\r') => {
                State::SizeLf
            }
            (State::Extension, b'\t' | 0x20..=0x7e | 0x80..) => {
                self.count_extension()?;
                State::Extension
            }
            (State::SizeLf, b'\n') if self.remaining_bytes == 0 => State::TrailerStart,
            (State::SizeLf, b'\n') => State::Data,
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Size { digits: 0 },
            (State::TrailerStart, b'\r') => State::EndLf,
            (State::EndLf, b'\n') => State::End,
            (State::Trailer, b'\r') => State::TrailerLf,
            (State::TrailerLf, b'\n') => State::TrailerStart,
            (State::TrailerStart | State::Trailer, b'\t' | 0x20..=0x7e | 0x80..) => {
                self.trailer_bytes += 1;
                if self.trailer_bytes > TRAILER_BYTES_MAX {
                    return Err(BodyError::TrailersTooLarge);
                }
                State::Trailer
            }
            (State::Size { .. } | State::SizeSpace, _) => return Err(BodyError::BadChunkSize),
            (State::DataCr | State::DataLf, _) => return Err(BodyError::BadChunkEnd),
            (_, byte) => return Err(BodyError::BadByte(byte)),
        };
        Ok(())
    }

    fn count_extension(&mut self) -> Result<(), BodyError> {
        self.extension_bytes += 1;
        if self.extension_bytes > EXTENSION_BYTES_MAX {
            return Err(BodyError::ExtensionsTooLarge);
        }
        Ok(())
    }
}

/// The end of a chunked body.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Appends one chunk. An empty `data` appends nothing, because an empty chunk would end the body.
pub fn append_chunk(out: &mut Vec<u8>, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    append_chunk_size(out, data.len());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// Appends the line before a chunk of `data_bytes` (not 0) bytes; the data and CRLF must follow.
pub fn append_chunk_size(out: &mut Vec<u8>, data_bytes: usize) {
    debug_assert!(data_bytes > 0);
    let digits_count = (usize::BITS - data_bytes.leading_zeros()).div_ceil(4).max(1);
    for place in (0..digits_count).rev() {
        out.push(b"0123456789abcdef"[data_bytes >> (4 * place) & 0xf]);
    }
    out.extend_from_slice(b"\r\n");
}
