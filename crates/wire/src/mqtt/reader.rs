//! A cursor over one packet's bytes: each call reads one field from the front.

use super::{MqttError, PacketId};

/// The unread rest of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, MqttError> {
        let (&byte, rest) = self.rest.split_first().ok_or(MqttError::Truncated)?;
        self.rest = rest;
        Ok(byte)
    }

    #[inline]
    pub(super) fn u16(&mut self) -> Result<u16, MqttError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(MqttError::Truncated)?;
        self.rest = rest;
        Ok(u16::from_be_bytes(*bytes))
    }

    pub(super) fn u32(&mut self) -> Result<u32, MqttError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(MqttError::Truncated)?;
        self.rest = rest;
        Ok(u32::from_be_bytes(*bytes))
    }

    #[inline]
    pub(super) fn packet_id(&mut self) -> Result<PacketId, MqttError> {
        PacketId::new(self.u16()?).ok_or(MqttError::PacketIdZero)
    }

    /// Reads a variable byte integer in its shortest form (MQTT-1.5.5-1).
    #[inline]
    pub(super) fn variable(&mut self) -> Result<u32, MqttError> {
        let integer = variable(self.rest)?.ok_or(MqttError::Truncated)?;
        if !integer.is_minimal {
            return Err(MqttError::VariableNotMinimal);
        }
        self.take(integer.bytes)?;
        Ok(integer.value)
    }

    #[inline]
    pub(super) fn take(&mut self, bytes: usize) -> Result<&'a [u8], MqttError> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(MqttError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    pub(super) fn binary(&mut self) -> Result<&'a [u8], MqttError> {
        let bytes = usize::from(self.u16()?);
        self.take(bytes)
    }

    /// Reads a string of well-formed UTF-8 without U+0000 (section 1.5.4).
    #[inline]
    pub(super) fn string(&mut self) -> Result<&'a str, MqttError> {
        let bytes = self.binary()?;
        let text = simdutf8::basic::from_utf8(bytes).map_err(|_| MqttError::InvalidUtf8)?;
        if bytes.contains(&0) { Err(MqttError::NullCharacter) } else { Ok(text) }
    }

    /// Reads the rest of the packet as the payload.
    #[inline]
    pub(super) fn payload(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(super) fn end(self) -> Result<(), MqttError> {
        if self.rest.is_empty() { Ok(()) } else { Err(MqttError::TrailingBytes) }
    }
}

/// A variable byte integer at the front of an input.
#[derive(Clone, Copy)]
pub(super) struct Variable {
    pub(super) value: u32,
    /// Its length, 1 to 4 bytes.
    pub(super) bytes: usize,
    /// Whether no shorter form has the same value.
    pub(super) is_minimal: bool,
}

/// Reads a variable byte integer of any form; `None` if the input ends inside it.
#[inline]
pub(super) fn variable(input: &[u8]) -> Result<Option<Variable>, MqttError> {
    let mut value = 0;
    for (at, byte) in input.iter().enumerate().take(4) {
        value |= u32::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            let is_minimal = *byte != 0 || at == 0;
            return Ok(Some(Variable { value, bytes: at + 1, is_minimal }));
        }
    }
    if input.len() < 4 { Ok(None) } else { Err(MqttError::VariableTooLong) }
}
