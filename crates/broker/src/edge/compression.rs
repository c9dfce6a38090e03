//! Compressed messages (RFC 7692) of an edge: one compressor and one inflater for all its
//! connections, made when the first message needs them.
//!
//! Steps 2, 3 and 9 of the path. Nothing here belongs to a connection but four bits of its flags:
//! the window that its client has asked for. Context is never taken over, so a compressed frame is
//! a further wire format: made once, shared by all subscribers that take it.
//!
//! Invariants: nothing is compressed that is shorter than the configured bound, or that does not
//! get shorter; no frame goes to a client whose window is smaller than the message; what is
//! compressed for one connection alone (pages, answers) stays within a turn's share, and goes as it
//! is beyond; what a connection has the edge inflate counts against its own share of the turn.

use super::Edge;
use super::outbox::{BODY_COPY_MAX, Origin, Place};
use crate::ids::ConnIndex;
use stdx::chunk::Slice;
use wire::websocket::deflate::{Deflater, InflateError, Inflater, WINDOW_BITS_MAX};
use wire::websocket::frame::{Opcode, encode_header};
use wire::websocket::message::{Event, Kind, MessageError};

/// What the connections of an edge share; empty where compression is not configured or not asked
/// for.
#[derive(Default)]
pub(crate) struct Compression {
    deflater: Option<Deflater>,
    inflater: Option<Inflater>,
    packed: Vec<u8>,
    /// Bytes that this turn has compressed for single connections.
    private_bytes: usize,
    /// Bytes compressed and inflated since the start, both sides counted.
    work_bytes: u64,
}

/// A compressed frame in the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Packed {
    pub place: Place,
    /// Length of the message that it holds.
    pub plain_bytes: usize,
}

impl Compression {
    /// The next one is made for the level that is configured then.
    pub fn forget_compressor(&mut self) {
        self.deflater = None;
    }
}

impl Packed {
    /// Whether it may go to a client with this window: what is no longer than the window cannot
    /// refer beyond it.
    pub fn fits(&self, window_bits: u8) -> bool {
        fits(window_bits, self.plain_bytes)
    }
}

fn fits(window_bits: u8, plain_bytes: usize) -> bool {
    match window_bits {
        0 => false,
        WINDOW_BITS_MAX => true,
        bits => plain_bytes <= 1 << bits,
    }
}

/// Bytes that one turn compresses for single connections; what is beyond goes as it is.
const PRIVATE_BYTES_TURN_MAX: usize = 256 << 10;
/// So many bytes compressed or inflated count as a frame of the connection's share of a turn.
pub(super) const WORK_BYTES_FRAME: u64 = 16 << 10;
/// What is kept of the buffer between messages.
const KEPT_BYTES_MAX: usize = 64 << 10;

impl Edge {
    /// A turn begins.
    pub(super) fn renew_compression(&mut self) {
        self.work.compression.private_bytes = 0;
    }

    /// Bytes compressed and inflated so far.
    pub(super) fn compression_work(&self) -> u64 {
        self.work.compression.work_bytes
    }

    /// The window of the connection's client in bits; 0: it takes nothing compressed.
    pub(crate) fn window_bits(&self, index: ConnIndex) -> u8 {
        self.connections.slots[index].window_bits()
    }

    /// Whether a message is long enough.
    pub(super) fn is_worth_packing(&self, plain_bytes: usize) -> bool {
        let settings = self.settings.compression.as_ref();
        settings.is_some_and(|settings| plain_bytes >= settings.bytes_min as usize)
    }

    /// Puts a binary message of these parts into the ring, compressed; `None` if that is not worth
    /// it.
    pub(super) fn enter_packed(&mut self, parts: &[&[u8]], origin: Origin) -> Option<Packed> {
        self.enter_packed_as(Opcode::Binary, parts, origin)
    }

    /// The same for a frame that is for one connection, within the turn's share.
    pub(super) fn enter_packed_privately(
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
