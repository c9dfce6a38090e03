//! Compressed messages (RFC 7692) of an edge: one compressor and one inflater for all its
//! connections, made when the first message needs them.
//!
//! Nothing here belongs to a connection but four bits of its flags:
//! the window that its client has asked for. Context is never taken over, so a compressed frame is
//! a further wire format: made once, shared by all subscribers that take it.
//!
//! Invariants: messages below the configured length, and those that compression does not shorten,
//! go out uncompressed; no frame goes to a client whose window is smaller than the message; pages
//! and answers, which are compressed for one connection alone, stay within the turn's share and go
//! out uncompressed beyond it; inflated input counts against its connection's own share of the
//! turn.

use crate::edge::outbox::FrameNumber;
use wire::websocket::deflate::{Deflater, Inflater, WINDOW_BITS_MAX, WINDOW_BITS_MIN};
use wire::websocket::message::Event;

/// Compression state that the connections of an edge share; empty where compression is not
/// configured or not used.
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
    pub place: FrameNumber,
    /// The smallest window, in bits, of a client that can inflate it.
    window_bits_min: u8,
}

impl Packed {
    /// No frame: compression does not shorten the message, or the message is too short to try.
    pub const USELESS: Packed = Packed { place: 0, window_bits_min: u8::MAX };

    /// The frame of a message with this length.
    pub fn new(place: FrameNumber, plain_bytes: usize) -> Packed {
        Packed { place, window_bits_min: window_bits_min(plain_bytes) }
    }

    /// Whether a client with this window can inflate it.
    pub fn fits(&self, window_bits: u8) -> bool {
        window_bits >= self.window_bits_min
    }
}

/// Whether a message of this length may go to a client with this window; 0: the client takes
/// nothing compressed.
pub(crate) fn fits(window_bits: u8, plain_bytes: usize) -> bool {
    window_bits >= window_bits_min(plain_bytes)
}

/// The smallest window for a message of this length: a message no longer than the window cannot
/// refer beyond it.
fn window_bits_min(plain_bytes: usize) -> u8 {
    let mut windows = WINDOW_BITS_MIN..WINDOW_BITS_MAX;
    windows.find(|&bits| plain_bytes <= 1 << bits).unwrap_or(WINDOW_BITS_MAX)
}

/// Bytes compressed or inflated that count as a frame of the connection's share of a turn.
pub(crate) const WORK_BYTES_FRAME: u64 = 16 << 10;
/// Bytes that one turn compresses for single connections; the rest goes out uncompressed.
const PRIVATE_BYTES_TURN_MAX: usize = 256 << 10;
/// Bytes of the buffer that stay between messages.
const BUFFER_BYTES_MAX: usize = 64 << 10;

impl Compression {
    /// The next compressor is made for the level that is configured then.
    pub fn release_compressor(&mut self) {
        self.deflater = None;
    }

    /// A turn begins.
    pub fn begin_turn(&mut self) {
        self.private_bytes = 0;
    }

    /// Bytes compressed and inflated so far.
    #[inline]
    pub fn work_bytes(&self) -> u64 {
        self.work_bytes
    }

    /// Whether this turn may compress this number of further bytes for a single connection.
    pub fn has_share(&self, plain_bytes: usize) -> bool {
        self.private_bytes + plain_bytes <= PRIVATE_BYTES_TURN_MAX
    }

    /// Takes this number of bytes of the turn's share.
    pub fn take_share(&mut self, plain_bytes: usize) {
        self.private_bytes += plain_bytes;
    }

    /// Compresses a message of these parts into a buffer that [`Compression::give_back`] takes;
    /// none if the message does not get shorter.
    pub fn pack(&mut self, level: u8, parts: &[&[u8]], plain_bytes: usize) -> Option<Vec<u8>> {
        let mut bytes = std::mem::take(&mut self.packed);
        bytes.clear();
        let deflater = self.deflater.get_or_insert_with(|| Deflater::new(level));
        let is_shorter = deflater.deflate(parts, &mut bytes);
        self.work_bytes += plain_bytes as u64;
        if is_shorter {
            return Some(bytes);
        }
        self.give_back(bytes);
        None
    }

    /// Takes the buffer back.
    pub fn give_back(&mut self, mut bytes: Vec<u8>) {
        bytes.truncate(BUFFER_BYTES_MAX);
        bytes.shrink_to(BUFFER_BYTES_MAX);
        self.packed = bytes;
    }

    /// The inflater, which [`Compression::put_inflater`] takes back: the inflated message lies in
    /// it, and must not be where its handling could reach it.
    pub fn take_inflater(&mut self) -> Inflater {
        self.inflater.take().unwrap_or_default()
    }

    /// Takes the inflater back.
    pub fn put_inflater(&mut self, inflater: Inflater) {
        self.inflater = Some(inflater);
    }

    /// Counts the work of an inflated message.
    pub fn count_inflated(&mut self, packed_bytes: usize, event: &Event<'_>) {
        let plain_bytes = match event {
            Event::Text(text) => text.len(),
            Event::Binary(bytes) => bytes.len(),
            Event::Fragment
            | Event::Compressed(..)
            | Event::Ping(_)
            | Event::Pong(_)
            | Event::Close(_) => 0,
        };
        self.work_bytes += (packed_bytes + plain_bytes) as u64;
    }
}
