//! Compressed messages of one session (RFC 7692), both directions.
//!
//! Place: between the session's frames and the connection. Messages share no compression context;
//! compressor and inflater are created for the first message that needs them, and outlive
//! connections.

use wire::websocket::deflate::{Deflater, Inflater};
use wire::websocket::frame::{Opcode, encode_header};
use wire::websocket::mask::mask;

/// Minimum length of a compressed frame, in bytes; shorter frames are sent uncompressed.
const BYTES_MIN: usize = 256;
/// The fastest level: publishers rarely lack bandwidth.
const LEVEL: u8 = 1;

#[derive(Debug, Default)]
pub(super) struct Compression {
    is_agreed: bool,
    deflater: Option<Deflater>,
    inflater: Option<Inflater>,
    packed: Vec<u8>,
}

impl Compression {
    /// Stores the result of a connection's handshake.
    pub(super) fn agreed(&mut self, is_agreed: bool) {
        self.is_agreed = is_agreed;
    }

    /// Appends the whole frame, compressed and masked; false if it must be sent uncompressed.
    pub(super) fn encode(
        &mut self,
        opcode: Opcode,
        payload: &[u8],
        key: [u8; 4],
        out: &mut Vec<u8>,
    ) -> bool {
        if !self.is_agreed || opcode.is_control() || payload.len() < BYTES_MIN {
            return false;
        }
        let deflater = self.deflater.get_or_insert_with(|| Deflater::new(LEVEL));
        self.packed.clear();
        if !deflater.deflate(&[payload], &mut self.packed) {
            return false;
        }
        mask(&mut self.packed, key);
        let header = encode_header(true, opcode, self.packed.len(), Some(key)).compressed();
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(&self.packed);
        true
    }

    /// Takes the inflater; the caller returns it with `give_inflater`.
    pub(super) fn take_inflater(&mut self) -> Inflater {
        self.inflater.take().unwrap_or_default()
    }

    pub(super) fn give_inflater(&mut self, inflater: Inflater) {
        self.inflater = Some(inflater);
    }
}
