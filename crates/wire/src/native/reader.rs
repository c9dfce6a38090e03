//! A cursor over one frame's bytes: each call reads one field from the front.

use super::{FrameError, Position, TOPIC_BYTES_MAX, flag, varint};

/// The unread rest of a frame. A list copies it to remember its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, FrameError> {
        let (&byte, rest) = self.rest.split_first().ok_or(FrameError::Truncated)?;
        self.rest = rest;
        Ok(byte)
    }

    /// Reads a flags byte; only bits in `defined` and the options bit may be set.
    #[inline]
    pub(super) fn flags(&mut self, defined: u8) -> Result<u8, FrameError> {
        let flags = self.byte()?;
        match flags & !(defined | flag::OPTIONS) {
            0 => Ok(flags),
            undefined => Err(FrameError::UnsupportedFlags(undefined)),
        }
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, FrameError> {
        let (value, rest) = varint::decode(self.rest)?;
        self.rest = rest;
        Ok(value)
    }

    #[inline]
    pub(super) fn varint_u32(&mut self) -> Result<u32, FrameError> {
        u32::try_from(self.varint()?).map_err(|_| FrameError::NumberTooLarge)
    }

    pub(super) fn fixed_u64(&mut self) -> Result<u64, FrameError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(FrameError::Truncated)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    pub(super) fn position(&mut self) -> Result<Position, FrameError> {
        let epoch = self.varint()?;
        let offset = self.varint()?;
        Ok(Position { epoch, offset })
    }

    /// Reads an offset and its `prev`, which is encoded as the distance to it: at least 1, and
    /// never before offset 0.
    #[inline]
    pub(super) fn offset_and_prev(&mut self) -> Result<(u64, u64), FrameError> {
        let offset = self.varint()?;
        let delta = self.varint()?;
        match offset.checked_sub(delta) {
            Some(prev) if delta > 0 => Ok((offset, prev)),
            _ => Err(FrameError::InvalidValue("prev_delta")),
        }
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], FrameError> {
        let length = usize::try_from(self.varint()?).map_err(|_| FrameError::Truncated)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(FrameError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(super) fn string(&mut self) -> Result<&'a str, FrameError> {
        text(self.bytes()?)
    }

    /// Reads a topic or filter; the inner error is its invalid length, and the reader stands behind
    /// it in both cases.
    pub(super) fn topic(&mut self) -> Result<Result<&'a str, u64>, FrameError> {
        let bytes = self.bytes()?;
        if bytes.is_empty() || bytes.len() > TOPIC_BYTES_MAX {
            return Ok(Err(bytes.len() as u64));
        }
        text(bytes).map(Ok)
    }

    /// Reads the rest of the frame as the payload.
    #[inline]
    pub(super) fn payload(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(super) fn end(self) -> Result<(), FrameError> {
        if self.rest.is_empty() { Ok(()) } else { Err(FrameError::TrailingBytes) }
    }
}

pub(super) fn text(bytes: &[u8]) -> Result<&str, FrameError> {
    simdutf8::basic::from_utf8(bytes).map_err(|_| FrameError::InvalidUtf8)
}

pub(super) fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    varint::encode(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

pub(super) fn write_position(position: Position, out: &mut Vec<u8>) {
    varint::encode(position.epoch, out);
    varint::encode(position.offset, out);
}
