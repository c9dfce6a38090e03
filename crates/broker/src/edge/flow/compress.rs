//! Compressed messages: a frame is packed once for all subscribers that take it, and inflated when a
//! client sends it so.
//!
//! Steps 2, 3 and 9 of the path. The bounds are those of
//! [`Compression`](super::super::compression::Compression).

use crate::edge::Edge;
use crate::edge::compression::{Packed, fits};
use crate::edge::outbox::{BODY_COPY_MAX, Origin};
use crate::ids::ConnIndex;
use stdx::chunk::Slice;
use wire::websocket::deflate::{Deflater, InflateError};
use wire::websocket::frame::{Opcode, encode_header};
use wire::websocket::message::{Event, Kind, MessageError};

impl Edge {
    /// A turn begins.
    pub(crate) fn renew_compression(&mut self) {
        self.work.compression.private_bytes = 0;
    }

    /// Bytes compressed and inflated so far.
    pub(crate) fn compression_work(&self) -> u64 {
        self.work.compression.work_bytes
    }

    /// The window of the connection's client in bits; 0: it takes nothing compressed.
    pub(crate) fn window_bits(&self, index: ConnIndex) -> u8 {
        self.connections.slots[index].window_bits()
    }

    /// Whether a message is long enough.
    pub(crate) fn is_worth_packing(&self, plain_bytes: usize) -> bool {
        let settings = self.settings.compression.as_ref();
        settings.is_some_and(|settings| plain_bytes >= settings.bytes_min as usize)
    }

    /// Puts a binary message of these parts into the ring, compressed; `None` if that is not worth
    /// it.
    pub(crate) fn enter_packed(&mut self, parts: &[&[u8]], origin: Origin) -> Option<Packed> {
        self.enter_packed_as(Opcode::Binary, parts, origin)
    }

    /// The same for a frame that is for one connection, within the turn's share.
    pub(crate) fn enter_packed_privately(
        &mut self,
        window_bits: u8,
        parts: &[&[u8]],
        origin: Origin,
    ) -> Option<Packed> {
        let plain_bytes: usize = parts.iter().map(|part| part.len()).sum();
        if !fits(window_bits, plain_bytes)
            || self.work.compression.private_bytes + plain_bytes > PRIVATE_BYTES_TURN_MAX
            || !self.is_worth_packing(plain_bytes)
        {
            return None;
        }
        self.work.compression.private_bytes += plain_bytes;
        self.enter_packed(parts, origin)
    }

    /// Queues an answer to one connection, compressed; false if that is not worth it.
    pub(crate) fn send_packed(&mut self, index: ConnIndex, message: &[u8]) -> bool {
        let window_bits = self.window_bits(index);
        let packed = self.enter_packed_privately(window_bits, &[message], Origin::Private);
        if let Some(packed) = packed {
            self.push_place(index, packed.place);
        }
        packed.is_some()
    }

    /// Queues an echo, compressed; false if that is not worth it. Who sends pays for it with its
    /// share of the turn.
    pub(crate) fn send_packed_echo(
        &mut self,
        index: ConnIndex,
        opcode: Opcode,
        message: &[u8],
    ) -> bool {
        if !fits(self.window_bits(index), message.len()) || !self.is_worth_packing(message.len()) {
            return false;
        }
        let packed = self.enter_packed_as(opcode, &[message], Origin::Private);
        if let Some(packed) = packed {
            self.push_place(index, packed.place);
        }
        packed.is_some()
    }

    fn enter_packed_as(
        &mut self,
        opcode: Opcode,
        parts: &[&[u8]],
        origin: Origin,
    ) -> Option<Packed> {
        let level = self.settings.compression.as_ref()?.level;
        let plain_bytes: usize = parts.iter().map(|part| part.len()).sum();
        let mut bytes = std::mem::take(&mut self.work.compression.packed);
        bytes.clear();
        let deflater = self.work.compression.deflater.get_or_insert_with(|| Deflater::new(level));
        let is_shorter = deflater.deflate(parts, &mut bytes);
        self.work.compression.work_bytes += plain_bytes as u64;
        let packed = if is_shorter {
            self.statistics.compressed += 1;
            self.statistics.compressed_plain_bytes += plain_bytes as u64;
            self.statistics.compressed_bytes += bytes.len() as u64;
            let header = encode_header(true, opcode, bytes.len(), None).compressed();
            let place = if bytes.len() > BODY_COPY_MAX {
                self.enter(&[header.as_bytes()], Slice::copy_of(&bytes), origin)
            } else {
                self.enter(&[header.as_bytes(), &bytes], Slice::empty(), origin)
            };
            Some(Packed { place, plain_bytes })
        } else {
            self.statistics.incompressible += 1;
            None
        };
        bytes.truncate(KEPT_BYTES_MAX);
        bytes.shrink_to(KEPT_BYTES_MAX);
        self.work.compression.packed = bytes;
        packed
    }

    /// Inflates a client's message and has `take` deal with it.
    pub(crate) fn inflate(
        &mut self,
        kind: Kind,
        payload: &[u8],
        message_bytes_max: usize,
        take: impl FnOnce(&mut Edge, Event<'_>),
    ) -> Result<(), MessageError> {
        // Not where `take` could reach it: the message lies in the inflater's buffer.
        let mut inflater = self.work.compression.inflater.take().unwrap_or_default();
        let result = match inflater.message(kind, payload, message_bytes_max) {
            Ok(event) => {
                let plain_bytes = match event {
                    Event::Text(text) => text.len(),
                    Event::Binary(bytes) => bytes.len(),
                    _ => 0,
                };
                self.statistics.inflated += 1;
                self.work.compression.work_bytes += (payload.len() + plain_bytes) as u64;
                take(self, event);
                Ok(())
            }
            Err(error) => {
                if matches!(error, MessageError::Inflate(InflateError::TooLarge { .. })) {
                    self.statistics.inflate_too_large += 1;
                }
                Err(error)
            }
        };
        self.work.compression.inflater = Some(inflater);
        result
    }
}

/// Bytes that one turn compresses for single connections; what is beyond goes as it is.
const PRIVATE_BYTES_TURN_MAX: usize = 256 << 10;
/// What is kept of the buffer between messages.
const KEPT_BYTES_MAX: usize = 64 << 10;
