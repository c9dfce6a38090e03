//! Input of a connection: the bytes that have been read and not yet understood.
//!
//! Invariant: a buffer is never more than twice as long as the bytes that have come.

use stdx::handing::Hand;
use wire::http::HeadScan;

/// Bytes kept for a connection.
#[derive(Default, Hand)]
pub(crate) struct Input {
    pub bytes: Vec<u8>,
    pub scan: HeadScan,
    /// How long the unit in front will be, as far as that is known.
    pub needs: usize,
}

/// What a session made of the front of its input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// So many bytes are dealt with; go on.
    Consumed(usize),
    /// So many bytes were a handshake. These frames came with it, and precede what follows it.
    Upgraded(usize, Vec<u8>),
    /// An unfinished unit; it will have at least so many bytes.
    Needs(usize),
    /// Nothing more for now: paused, or closing.
    Stop,
}

/// Room for so little is taken at once.
pub(crate) const ROOM_BYTES_MIN: usize = 512;

/// Makes room for `more` bytes of a unit that will have `unit_bytes` if its length is known. A peer
/// that announces a long one gets its room only as it sends: at most as much again as has come.
pub(crate) fn make_room(bytes: &mut Vec<u8>, more: usize, unit_bytes: usize) {
    let needed = bytes.len() + more;
    if needed > bytes.capacity() {
        let ahead = (2 * needed).min(unit_bytes.max(ROOM_BYTES_MIN));
        bytes.reserve_exact(needed.max(ahead) - bytes.len());
    }
}
