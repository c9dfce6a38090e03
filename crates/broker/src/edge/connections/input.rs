//! Input of a connection: the bytes that have been read and not yet understood.
//!
//! Invariant: a buffer is never more than twice as long as the bytes that have come.

use stdx::handing::Hand;
use wire::http::HeadScan;

/// Buffered input of a connection.
#[derive(Default, Hand)]
pub(crate) struct Input {
    pub bytes: Vec<u8>,
    pub scan: HeadScan,
    /// Length of the unit in front, as far as it is known.
    needs: usize,
}

/// The outcome of a connection's input in the sessions.
pub(crate) struct Driven {
    /// Bytes that were handled.
    pub consumed: usize,
    /// Length of the next unit; 0 if it is unknown.
    pub needs: usize,
    /// Frames of a handshake or a list that wait, before the rest of the input.
    pub early: Vec<u8>,
    /// A unit of it was a whole frame, message or request.
    pub is_whole: bool,
}

impl Input {
    /// The unhandled rest of new bytes, in the order in which it is handled later.
    pub fn of_rest(bytes: &[u8], driven: &Driven, scan: HeadScan) -> Input {
        let rest = &bytes[driven.consumed..];
        let mut input = Input { bytes: Vec::new(), scan, needs: driven.needs };
        make_room(&mut input.bytes, driven.early.len() + rest.len(), driven.needs);
        input.bytes.extend_from_slice(&driven.early);
        input.bytes.extend_from_slice(rest);
        input
    }

    /// Adds bytes that have come.
    pub fn append(&mut self, bytes: &[u8]) {
        make_room(&mut self.bytes, bytes.len(), self.needs);
        self.bytes.extend_from_slice(bytes);
    }

    /// Keeps unhandled bytes, with at most `spare_bytes_max` of room beyond them.
    pub fn keep_rest(&mut self, driven: Driven, scan: HeadScan, spare_bytes_max: usize) {
        self.bytes.splice(..driven.consumed, driven.early);
        let used = 2 * self.bytes.len() + spare_bytes_max;
        if self.bytes.capacity() > used {
            self.bytes.shrink_to(used);
        }
        self.scan = scan;
        self.needs = driven.needs;
    }
}

/// The outcome of the first bytes of the input in a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// The number of bytes that are dealt with; more may follow.
    Consumed(usize),
    /// The bytes of a handshake, or of a list of frames, and the frames that came in it; they
    /// precede later ones.
    Brought(usize, Vec<u8>),
    /// An unfinished unit, and its minimum length in bytes.
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
