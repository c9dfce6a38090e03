//! The output of encoders: one function writes a packet's body, once to count its bytes, and once
//! into the caller's buffer. So a length field never disagrees with its content.

use super::{EncodeError, FIELD_BYTES_MAX, PACKET_BYTES_MAX, PacketId, VARIABLE_MAX};

/// Bounds for an outgoing packet: the receiver's wishes in CONNECT or CONNACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The receiver's Maximum Packet Size, in bytes. Where a packet exceeds it, user properties are
    /// dropped first, then the reason string (MQTT-3.2.2-19 and the like).
    pub packet_bytes_max: u32,
    /// The client's Request Problem Information. If false, only CONNACK, PUBLISH and DISCONNECT may
    /// have reason strings and user properties (MQTT-3.1.2-29).
    pub problem_information: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { packet_bytes_max: PACKET_BYTES_MAX, problem_information: true }
    }
}

/// The properties of a body that are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Keep {
    All,
    WithoutUser,
    WithoutProblem,
}

/// A packet after its fixed header.
pub(super) trait Body {
    fn write<S: Sink>(&self, keep: Keep, out: &mut S);
}

/// Receives the bytes of a body.
pub(super) trait Sink {
    fn bytes(&mut self, bytes: &[u8]);

    /// Remembers that a field exceeds [`FIELD_BYTES_MAX`].
    fn refuse(&mut self);

    #[inline]
    fn byte(&mut self, byte: u8) {
        self.bytes(&[byte]);
    }

    #[inline]
    fn u16(&mut self, number: u16) {
        self.bytes(&number.to_be_bytes());
    }

    fn u32(&mut self, number: u32) {
        self.bytes(&number.to_be_bytes());
    }

    #[inline]
    fn packet_id(&mut self, id: PacketId) {
        self.u16(id.get());
    }

    /// Writes a variable byte integer of at most [`VARIABLE_MAX`].
    #[inline]
    fn variable(&mut self, mut number: u32) {
        while number > 0x7F {
            self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8);
    }

    #[inline]
    fn binary(&mut self, bytes: &[u8]) {
        match u16::try_from(bytes.len()) {
            Ok(length) => {
                self.u16(length);
                self.bytes(bytes);
            }
            Err(_) => self.refuse(),
        }
    }

    #[inline]
    fn string(&mut self, text: &str) {
        self.binary(text.as_bytes());
    }
}

impl Sink for Vec<u8> {
    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    /// Does nothing: [`Count`] has refused the packet before.
    fn refuse(&mut self) {}
}

/// Counts bytes.
#[derive(Default)]
pub(super) struct Count {
    pub(super) bytes: usize,
    is_refused: bool,
}

impl Count {
    /// Counts the bytes that `write` writes.
    pub(super) fn of(write: impl FnOnce(&mut Count)) -> Self {
        let mut count = Self::default();
        write(&mut count);
        count
    }

    /// The counted bytes as a length field; the maximum if they exceed it, which the packet's own
    /// length then exceeds as well.
    pub(super) fn length(&self) -> u32 {
        u32::try_from(self.bytes).map_or(VARIABLE_MAX, |bytes| bytes.min(VARIABLE_MAX))
    }

    /// The remaining length of a packet with this body.
    ///
    /// # Errors
    /// [`EncodeError`] if a field is too long, or the whole packet exceeds `packet_bytes_max`.
    pub(super) fn remaining(&self, packet_bytes_max: u32) -> Result<u32, EncodeError> {
        if self.is_refused {
            return Err(EncodeError::FieldTooLong);
        }
        let remaining = u32::try_from(self.bytes).ok().filter(|bytes| *bytes <= VARIABLE_MAX);
        let remaining = remaining.ok_or(EncodeError::PacketTooLarge)?;
        if packet_bytes(remaining) > packet_bytes_max {
            return Err(EncodeError::PacketTooLarge);
        }
        Ok(remaining)
    }
}

impl Sink for Count {
    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
    }

    fn refuse(&mut self) {
        self.is_refused = true;
    }

    #[inline]
    fn binary(&mut self, bytes: &[u8]) {
        self.bytes += 2 + bytes.len();
        self.is_refused |= bytes.len() > FIELD_BYTES_MAX;
    }
}

/// The length of a packet with this remaining length, which is at most [`VARIABLE_MAX`].
pub(super) fn packet_bytes(remaining: u32) -> u32 {
    let length_bytes = match remaining {
        0..=0x7F => 1,
        0x80..=0x3FFF => 2,
        0x4000..=0x1F_FFFF => 3,
        _ => 4,
    };
    1 + length_bytes + remaining
}

/// Appends a packet whose properties are all necessary.
pub(super) fn write_packet(
    first: u8,
    body: &impl Body,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    write_with(first, body, &[Keep::All], limits, out)
}

/// Appends CONNACK or DISCONNECT, without reason string or user properties if necessary.
pub(super) fn write_notice(
    first: u8,
    body: &impl Body,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let keeps = [Keep::All, Keep::WithoutUser, Keep::WithoutProblem];
    write_with(first, body, &keeps, limits, out)
}

/// Appends an answer, without reason string or user properties if necessary or if the receiver does
/// not want them.
pub(super) fn write_answer(
    first: u8,
    body: &impl Body,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    if limits.problem_information {
        write_notice(first, body, limits, out)
    } else {
        write_with(first, body, &[Keep::WithoutProblem], limits, out)
    }
}

/// Appends the first form of the packet that fits.
fn write_with(
    first: u8,
    body: &impl Body,
    keeps: &[Keep],
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut result = Err(EncodeError::PacketTooLarge);
    for &keep in keeps {
        let count = Count::of(|count| body.write(keep, count));
        result = count.remaining(limits.packet_bytes_max).map(|remaining| (keep, remaining));
        if result != Err(EncodeError::PacketTooLarge) {
            break;
        }
    }
    let (keep, remaining) = result?;
    out.reserve(packet_bytes(remaining) as usize);
    out.byte(first);
    out.variable(remaining);
    body.write(keep, out);
    Ok(())
}
