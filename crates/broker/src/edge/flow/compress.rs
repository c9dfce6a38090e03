//! Compressed messages: a frame is packed once for all subscribers that take it, and inflated when
//! a client sends it so.
//!
//! Steps 2, 3 and 9 of the path. The bounds are those of `edge::compression`.

use crate::edge::Edge;
use crate::edge::compression::{Packed, fits};
use crate::edge::outbox::{BODY_COPY_MAX, Origin};
use crate::ids::ConnIndex;
use stdx::chunk::Slice;
use wire::websocket::deflate::InflateError;
use wire::websocket::frame::{Opcode, encode_header};
use wire::websocket::message::{Event, Kind, MessageError};

impl Edge {
    /// A turn begins.
    pub(crate) fn renew_compression(&mut self) {
        self.work.compression.begin_turn();
    }

    /// Bytes compressed and inflated so far.
    pub(crate) fn compression_work(&self) -> u64 {
        self.work.compression.work_bytes()
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

    /// Puts a frame for one connection into the ring, compressed, within the turn's share.
    pub(crate) fn enter_packed_privately(
        &mut self,
        opcode: Opcode,
        window_bits: u8,
        parts: &[&[u8]],
        origin: Origin,
    ) -> Option<Packed> {
        let plain_bytes: usize = parts.iter().map(|part| part.len()).sum();
        if !fits(window_bits, plain_bytes)
            || !self.work.compression.has_share(plain_bytes)
            || !self.is_worth_packing(plain_bytes)
        {
            return None;
        }
        self.work.compression.take_share(plain_bytes);
        self.enter_packed(opcode, parts, origin)
    }

    /// Queues an answer to one connection, compressed; false if that is not worth it.
    pub(crate) fn send_packed(&mut self, index: ConnIndex, message: &[u8]) -> bool {
        let slot = &self.connections.slots[index];
        let (opcode, window_bits) = (slot.facts().form.opcode(), slot.window_bits());
        let packed = self.enter_packed_privately(opcode, window_bits, &[message], Origin::Private);
        if let Some(packed) = packed {
            self.push_place(index, packed.place);
        }
        packed.is_some()
    }

    /// Queues an echo, compressed; false if that is not worth it. Its work counts against the
    /// connection's share of the turn.
    pub(crate) fn send_packed_echo(
        &mut self,
        index: ConnIndex,
        opcode: Opcode,
        message: &[u8],
    ) -> bool {
        if !fits(self.window_bits(index), message.len()) || !self.is_worth_packing(message.len()) {
            return false;
        }
        let packed = self.enter_packed(opcode, &[message], Origin::Private);
        if let Some(packed) = packed {
            self.push_place(index, packed.place);
        }
        packed.is_some()
    }

    /// Puts a message of these parts into the ring, compressed; `None` if that is not worth it.
    pub(crate) fn enter_packed(
        &mut self,
        opcode: Opcode,
        parts: &[&[u8]],
        origin: Origin,
    ) -> Option<Packed> {
        let level = self.settings.compression.as_ref()?.level;
        let plain_bytes: usize = parts.iter().map(|part| part.len()).sum();
        let Some(bytes) = self.work.compression.pack(level, parts, plain_bytes) else {
            self.statistics.incompressible += 1;
            return None;
        };
        self.statistics.compressed += 1;
        self.statistics.compressed_plain_bytes += plain_bytes as u64;
        self.statistics.compressed_bytes += bytes.len() as u64;
        let header = encode_header(true, opcode, bytes.len(), None).compressed();
        let place = if bytes.len() > BODY_COPY_MAX {
            self.enter(&[header.as_bytes()], Slice::copy_of(&bytes), origin)
        } else {
            self.enter(&[header.as_bytes(), &bytes], Slice::empty(), origin)
        };
        self.work.compression.give_back(bytes);
        Some(Packed::new(place, plain_bytes))
    }

    /// Inflates a client's message and passes it to `take`.
    pub(crate) fn inflate(
        &mut self,
        kind: Kind,
        payload: &[u8],
        message_bytes_max: usize,
        take: impl FnOnce(&mut Edge, Event<'_>),
    ) -> Result<(), MessageError> {
        let mut inflater = self.work.compression.take_inflater();
        let result = inflater.message(kind, payload, message_bytes_max).map(|event| {
            self.statistics.inflated += 1;
            self.work.compression.count_inflated(payload.len(), &event);
            take(self, event);
        });
        if let Err(MessageError::Inflate(InflateError::TooLarge { .. })) = result {
            self.statistics.inflate_too_large += 1;
        }
        self.work.compression.put_inflater(inflater);
        result
    }
}
