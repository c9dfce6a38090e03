//! One WebSocket frame (RFC 6455 section 5): decoded in place, and encoded without a copy if the
//! caller prefers.
//!
//! Place on the path: step 2 inbound, step 7 outbound.
//!
//! Invariants: a decoded [`Frame`] obeys every rule that concerns one frame alone (reserved bits
//! and opcodes, masking by role, form of control frames, minimal length, size), so the code behind
//! `decode` does not check them again. The limit is enforced from the header alone, before a
//! payload byte arrives. Bytes are unmasked once, and only in a complete frame, so an incomplete
//! frame leaves the buffer unchanged.

use std::fmt;

use super::close::CloseCode;
use super::mask::{MASK_KEY_BYTES, mask};
use crate::codec::Step;

/// The maximum size of a header: two bytes, eight of length, four of masking key.
pub const HEADER_BYTES_MAX: usize = 14;
/// The maximum payload of a control frame.
pub const CONTROL_BYTES_MAX: usize = 125;

/// The reserved bits of a header's first byte.
const RESERVED_BITS: u8 = 0x70;
/// The reserved bit that marks the first frame of a compressed message.
pub const RSV1: u8 = 0x40;

/// The decoding end of the connection: a server requires masked frames, a client refuses them
/// (section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Decodes frames from clients.
    Server,
    /// Decodes frames from servers.
    Client,
}

/// The type of a frame. Reserved opcodes are not representable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// Continues a fragmented message.
    Continuation = 0x0,
    /// Begins (or is) a text message.
    Text = 0x1,
    /// Begins (or is) a binary message.
    Binary = 0x2,
    /// Closes the connection.
    Close = 0x8,
    /// Asks for a pong with the same payload.
    Ping = 0x9,
    /// Answers a ping, or is sent as a heartbeat without one.
    Pong = 0xa,
}

impl Opcode {
    const fn from_bits(bits: u8) -> Option<Opcode> {
        Some(match bits {
            0x0 => Opcode::Continuation,
            0x1 => Opcode::Text,
            0x2 => Opcode::Binary,
            0x8 => Opcode::Close,
            0x9 => Opcode::Ping,
            0xa => Opcode::Pong,
            _ => return None,
        })
    }

    /// Whether this is a close, ping or pong, which may stand between the fragments of a message.
    pub const fn is_control(self) -> bool {
        self as u8 & 0x8 != 0
    }
}

/// The reason why a frame is invalid for this role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// A reserved bit is set and no extension was negotiated.
    ReservedBits(u8),
    /// Opcodes 3 to 7 and 11 to 15 are reserved.
    ReservedOpcode(u8),
    /// A control frame without FIN.
    FragmentedControl,
    /// A control frame of more than [`CONTROL_BYTES_MAX`] bytes.
    ControlTooLong,
    /// The client's frame is not masked.
    Unmasked,
    /// The server's frame is masked.
    Masked,
    /// The length does not use the fewest bytes possible, or its top bit is set.
    BadLength,
    /// A data frame larger than the limit.
    TooLarge {
        /// The payload size in the header.
        payload_bytes: u64,
        /// The caller's limit.
        payload_bytes_max: usize,
    },
}

impl FrameError {
    /// The code to close with: 1009 for size, else 1002.
    pub const fn close_code(self) -> CloseCode {
        match self {
            FrameError::TooLarge { .. } => CloseCode::MESSAGE_TOO_BIG,
            _ => CloseCode::PROTOCOL_ERROR,
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::ReservedBits(bits) => write!(f, "reserved bits {bits:#x} set"),
            FrameError::ReservedOpcode(opcode) => write!(f, "reserved opcode {opcode:#x}"),
            FrameError::FragmentedControl => f.write_str("fragmented control frame"),
            FrameError::ControlTooLong => f.write_str("control frame over 125 bytes"),
            FrameError::Unmasked => f.write_str("frame from a client is not masked"),
            FrameError::Masked => f.write_str("frame from a server is masked"),
            FrameError::BadLength => f.write_str("payload length is not minimal"),
            FrameError::TooLarge { payload_bytes, payload_bytes_max } => {
                write!(f, "payload of {payload_bytes} bytes over the limit of {payload_bytes_max}")
            }
        }
    }
}

impl std::error::Error for FrameError {}

/// A valid header. The payload may not have arrived yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The last (or only) frame of its message.
    pub fin: bool,
    /// The type of the frame.
    pub opcode: Opcode,
    /// RSV1: the frame begins a compressed message (RFC 7692 section 6). Only after an agreement.
    pub compressed: bool,
    /// The payload size; within the limit, or at most 125 for control frames.
    pub payload_bytes: usize,
    /// The masking key, present exactly when the receiver is the server.
    pub mask_key: Option<[u8; MASK_KEY_BYTES]>,
}

impl FrameHeader {
    /// Decodes a header without an agreed extension. See [`FrameHeader::decode_with`].
    ///
    /// # Errors
    /// See [`FrameHeader::decode_with`].
    #[inline]
    pub fn decode(
        input: &[u8],
        role: Role,
        payload_bytes_max: usize,
    ) -> Result<Step<FrameHeader>, FrameError> {
        FrameHeader::decode_with(input, role, false, payload_bytes_max)
    }

    /// Decodes a header; `consumed` is the header's length, without the payload. `deflate` says
    /// whether compression was agreed.
    ///
    /// `payload_bytes_max` bounds data frames; control frames have their own limit of 125 bytes.
    /// Rules are checked byte by byte in order, so the error is equal for all cuts of the input,
    /// and as early as possible.
    ///
    /// # Errors
    /// Every rule of RFC 6455 section 5.2 that a header can break; see [`FrameError`].
    #[inline]
    pub fn decode_with(
        input: &[u8],
        role: Role,
        deflate: bool,
        payload_bytes_max: usize,
    ) -> Result<Step<FrameHeader>, FrameError> {
        let Some(&first) = input.first() else {
            return Ok(Step::More { needed: header_bytes_min(role) });
        };
        let (fin, opcode, compressed) = FrameHeader::decode_first(first, deflate)?;
        let Some(&second) = input.get(1) else {
            return Ok(Step::More { needed: header_bytes_min(role) });
        };
        let length = second & 0x7f;
        match (role, second & 0x80 != 0) {
            (Role::Server, false) => return Err(FrameError::Unmasked),
            (Role::Client, true) => return Err(FrameError::Masked),
            _ => {}
        }
        if opcode.is_control() && usize::from(length) > CONTROL_BYTES_MAX {
            return Err(FrameError::ControlTooLong);
        }
        let (payload_bytes, mut header_bytes) = match length {
            126 => {
                let Some(bytes) = array_at::<2>(input, 2) else {
                    return Ok(Step::More { needed: header_bytes_min(role) + 2 });
                };
                let payload_bytes = u64::from(u16::from_be_bytes(bytes));
                if payload_bytes < 126 {
                    return Err(FrameError::BadLength);
                }
                (payload_bytes, 4)
            }
            127 => {
                let Some(bytes) = array_at::<8>(input, 2) else {
                    return Ok(Step::More { needed: header_bytes_min(role) + 8 });
                };
                let payload_bytes = u64::from_be_bytes(bytes);
                if payload_bytes <= u64::from(u16::MAX) || payload_bytes >> 63 != 0 {
                    return Err(FrameError::BadLength);
                }
                (payload_bytes, 10)
            }
            length => (u64::from(length), 2),
        };
        if !opcode.is_control() && payload_bytes > payload_bytes_max as u64 {
            return Err(FrameError::TooLarge { payload_bytes, payload_bytes_max });
        }
        let mask_key = match role {
            Role::Client => None,
            Role::Server => match array_at::<MASK_KEY_BYTES>(input, header_bytes) {
                None => {
                    return Ok(Step::More { needed: header_bytes + MASK_KEY_BYTES });
                }
                key => {
                    header_bytes += MASK_KEY_BYTES;
                    key
                }
            },
        };
        // The cast is exact: the limit is a `usize`, and a control frame is tiny.
        let payload_bytes = payload_bytes as usize;
        let value = FrameHeader { fin, opcode, compressed, payload_bytes, mask_key };
        Ok(Step::Done { value, consumed: header_bytes })
    }

    /// Decodes the first byte: FIN, the opcode, and whether the frame begins a compressed message.
    #[inline]
    fn decode_first(first: u8, deflate: bool) -> Result<(bool, Opcode, bool), FrameError> {
        // Section 5.2: reserved bits must be 0 unless an extension defines them. RFC 7692 section
        // 6: RSV1 is valid only in the first frame of a data message.
        let reserved = first & RESERVED_BITS;
        let compressed = deflate && matches!(first & 0x0f, 0x1 | 0x2) && reserved == RSV1;
        if reserved != 0 && !compressed {
            return Err(FrameError::ReservedBits(reserved));
        }
        let Some(opcode) = Opcode::from_bits(first & 0x0f) else {
            return Err(FrameError::ReservedOpcode(first & 0x0f));
        };
        let fin = first & 0x80 != 0;
        // Section 5.5: control frames are not fragmented and carry at most 125 bytes.
        if opcode.is_control() && !fin {
            return Err(FrameError::FragmentedControl);
        }
        Ok((fin, opcode, compressed))
    }
}

/// A complete frame; its payload is unmasked and borrowed from the receive buffer.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The last (or only) frame of its message.
    pub fin: bool,
    /// The type of the frame.
    pub opcode: Opcode,
    /// The frame begins a compressed message.
    pub compressed: bool,
    /// The payload, unmasked. Mutable, because the buffer is the caller's and an echo may mask it
    /// again in place.
    pub payload: &'a mut [u8],
}

impl<'a> Frame<'a> {
    /// Decodes a frame without an agreed extension. See [`Frame::decode_with`].
    ///
    /// # Errors
    /// See [`FrameHeader::decode_with`].
    #[inline]
    pub fn decode(
        input: &'a mut [u8],
        role: Role,
        payload_bytes_max: usize,
    ) -> Result<Step<Frame<'a>>, FrameError> {
        Frame::decode_with(input, role, false, payload_bytes_max)
    }

    /// Decodes one frame from the front of `input` and unmasks its payload in place. `deflate` says
    /// whether compression was agreed.
    ///
    /// An incomplete frame is not changed; `needed` is then the total length of the frame in bytes,
    /// or of its header while that is incomplete; the limit is checked as soon as the header is
    /// complete.
    ///
    /// # Errors
    /// See [`FrameHeader::decode_with`].
    #[inline]
    pub fn decode_with(
        input: &'a mut [u8],
        role: Role,
        deflate: bool,
        payload_bytes_max: usize,
    ) -> Result<Step<Frame<'a>>, FrameError> {
        let step = FrameHeader::decode_with(input, role, deflate, payload_bytes_max)?;
        let (header, header_bytes) = match step {
            Step::Done { value, consumed } => (value, consumed),
            Step::More { needed } => return Ok(Step::More { needed }),
        };
        let needed = header_bytes.saturating_add(header.payload_bytes);
        let Some(payload) = input.get_mut(header_bytes..needed) else {
            return Ok(Step::More { needed });
        };
        if let Some(key) = header.mask_key {
            mask(payload, key);
        }
        let value = Frame {
            fin: header.fin,
            opcode: header.opcode,
            compressed: header.compressed,
            payload,
        };
        Ok(Step::Done { value, consumed: needed })
    }
}

/// An encoded header, on the stack.
#[derive(Clone, Copy)]
pub struct EncodedHeader {
    bytes: [u8; HEADER_BYTES_MAX],
    len: u8,
}

impl EncodedHeader {
    /// Sets the bit of the first (or only) frame of a compressed message.
    #[inline]
    pub fn compressed(mut self) -> EncodedHeader {
        self.bytes[0] |= RSV1;
        self
    }

    /// The header's bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for EncodedHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EncodedHeader").field(&self.as_bytes()).finish()
    }
}

/// Length of a server's header before a payload of `payload_bytes`; a client's is
/// [`MASK_KEY_BYTES`] longer.
#[inline]
pub const fn header_len(payload_bytes: usize) -> usize {
    match payload_bytes {
        0..=125 => 2,
        126..=0xffff => 4,
        _ => 10,
    }
}

/// Encodes a header: a server gives no `mask_key`, a client must give a fresh unpredictable one for
/// each frame and mask the payload with it ([`mask`]).
///
/// The caller obeys the rules of control frames (FIN set, at most [`CONTROL_BYTES_MAX`] bytes).
#[inline]
pub fn encode_header(
    fin: bool,
    opcode: Opcode,
    payload_bytes: usize,
    mask_key: Option<[u8; MASK_KEY_BYTES]>,
) -> EncodedHeader {
    debug_assert!(!opcode.is_control() || (fin && payload_bytes <= CONTROL_BYTES_MAX));
    let mut bytes = [0; HEADER_BYTES_MAX];
    bytes[0] = u8::from(fin) << 7 | opcode as u8;
    let mask_bit = u8::from(mask_key.is_some()) << 7;
    let mut len = header_len(payload_bytes);
    match len {
        2 => bytes[1] = mask_bit | payload_bytes as u8,
        4 => {
            bytes[1] = mask_bit | 126;
            bytes[2..4].copy_from_slice(&(payload_bytes as u16).to_be_bytes());
        }
        _ => {
            bytes[1] = mask_bit | 127;
            bytes[2..10].copy_from_slice(&(payload_bytes as u64).to_be_bytes());
        }
    }
    if let Some(key) = mask_key {
        bytes[len..len + MASK_KEY_BYTES].copy_from_slice(&key);
        len += MASK_KEY_BYTES;
    }
    EncodedHeader { bytes, len: len as u8 }
}

/// Appends a complete frame to `out`, masked if a key is given. See [`encode_header`].
#[inline]
pub fn encode(
    out: &mut Vec<u8>,
    fin: bool,
    opcode: Opcode,
    payload: &[u8],
    mask_key: Option<[u8; MASK_KEY_BYTES]>,
) {
    let header = encode_header(fin, opcode, payload.len(), mask_key);
    out.reserve(header.as_bytes().len() + payload.len());
    out.extend_from_slice(header.as_bytes());
    let payload_start = out.len();
    out.extend_from_slice(payload);
    if let Some(key) = mask_key {
        mask(&mut out[payload_start..], key);
    }
}

const fn header_bytes_min(role: Role) -> usize {
    match role {
        Role::Server => 2 + MASK_KEY_BYTES,
        Role::Client => 2,
    }
}

#[inline]
fn array_at<const N: usize>(input: &[u8], start: usize) -> Option<[u8; N]> {
    input.get(start..)?.first_chunk().copied()
}
