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

use crate::edge::outbox::Place;
use wire::websocket::deflate::{Deflater, Inflater, WINDOW_BITS_MAX};

/// What the connections of an edge share; empty where compression is not configured or not asked
/// for.
#[derive(Default)]
pub(crate) struct Compression {
    pub deflater: Option<Deflater>,
    pub inflater: Option<Inflater>,
    pub packed: Vec<u8>,
    /// Bytes that this turn has compressed for single connections.
    pub private_bytes: usize,
    /// Bytes compressed and inflated since the start, both sides counted.
    pub work_bytes: u64,
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

pub(crate) fn fits(window_bits: u8, plain_bytes: usize) -> bool {
    match window_bits {
        0 => false,
        WINDOW_BITS_MAX => true,
        bits => plain_bytes <= 1 << bits,
    }
}

/// So many bytes compressed or inflated count as a frame of the connection's share of a turn.
pub(crate) const WORK_BYTES_FRAME: u64 = 16 << 10;
