//! A connection at rest: one cache line.
//!
//! Everything else about a connection exists only while bytes are unacknowledged
//! ([`crate::active`]) or unread ([`crate::inbox`]). The line's index is the connection's.

use crate::seq::Seq;
use crate::{active, inbox};
use stdx::pages::Pages;

/// A state of RFC 9293, 3.3.2. LISTEN, SYN-RECEIVED of a passive opening and TIME-WAIT are not
/// here: these connections have no line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub(crate) enum State {
    /// The line is vacant.
    #[default]
    Vacant,
    /// We have sent SYN.
    SynSent,
    /// Both have sent SYN at the same time.
    SynReceived,
    /// Both directions are open.
    Established,
    /// We have sent FIN.
    FinWait1,
    /// Our FIN is acknowledged; the peer may still send.
    FinWait2,
    /// Both have sent FIN at the same time.
    Closing,
    /// The peer has sent FIN; we may still send.
    CloseWait,
    /// Both have sent FIN, the peer first.
    LastAck,
    /// The connection is over, and its owner has not closed it yet.
    Over,
    /// The peer has reset the connection, and its owner has not read all earlier bytes.
    Reset,
    /// The connection is lost because of silence; otherwise like `Reset`.
    Silent,
}

impl State {
    /// Whether the application's bytes may still be sent.
    pub fn can_send(self) -> bool {
        matches!(self, State::Established | State::CloseWait)
    }

    /// Whether the connection is over for the network.
    pub fn is_over(self) -> bool {
        self == State::Over || self.is_lost()
    }

    /// Whether the connection is lost, and bytes of the peer are still to be read.
    pub fn is_lost(self) -> bool {
        matches!(self, State::Reset | State::Silent)
    }

    /// Whether the peer's bytes may still arrive.
    pub fn can_receive(self) -> bool {
        matches!(self, State::Established | State::FinWait1 | State::FinWait2)
    }
}

/// The address of the peer is a slot of the table of IPv6 addresses.
pub(crate) const V6: u16 = 1;
/// Both ends understand selective acknowledgements.
pub(crate) const SACK: u16 = 2;
/// Both ends shift their windows.
pub(crate) const SCALED: u16 = 4;
/// The connection was begun here.
pub(crate) const OPENER: u16 = 8;
/// The application has closed the connection: its key is dead.
pub(crate) const ORPHAN: u16 = 16;
/// `Readable` was reported, and no read was short since.
pub(crate) const READ_TOLD: u16 = 32;
/// A write found too little room.
pub(crate) const WRITE_BLOCKED: u16 = 64;
/// The peer's FIN has arrived in order.
pub(crate) const PEER_ENDED: u16 = 128;
/// An acknowledgement is due at the end of the turn.
pub(crate) const ACK_DUE: u16 = 256;
/// An acknowledgement waits for bytes to go with.
pub(crate) const ACK_DELAYED: u16 = 512;
/// The last acknowledgement went with an answer of the application.
pub(crate) const INTERACTIVE: u16 = 1024;
/// The connection is lost, and its line becomes vacant at the end of the turn.
pub(crate) const LOST: u16 = 2048;
/// The line is in the list of acknowledgements of this turn.
pub(crate) const IN_ACK_LIST: u16 = 4096;
/// The line is in the list of connections with unsent segments.
pub(crate) const IN_EMIT_LIST: u16 = 8192;
/// The network has reported that the peer cannot be reached.
pub(crate) const UNREACHABLE: u16 = 16_384;
/// The round trip is a guess: timeouts have passed before the first sample.
pub(crate) const GUESSED: u16 = 32_768;

/// A connection at rest.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Line {
    /// The peer's IPv4 address, or the slot of its IPv6 address.
    pub peer: u32,
    /// Tells occupants apart; never 0.
    pub generation: u32,
    /// The oldest unacknowledged number; all are acknowledged without an active block.
    pub una: Seq,
    /// The next number that the peer will send.
    pub rcv_nxt: Seq,
    /// The number after the last that the peer may send. It never goes back.
    pub edge: Seq,
    /// The number of the segment that changed the peer's window last (SND.WL1).
    pub wl1: Seq,
    /// The active block, or [`active::NONE`]. In a vacant line, the next vacant one.
    pub active: u32,
    /// The inbox, or [`inbox::NONE`].
    pub inbox: u32,
    /// Time of the last good segment, in milliseconds.
    pub heard_ms: u32,
    /// Time of the last sent bytes, in milliseconds.
    pub sent_ms: u32,
    /// The peer's port.
    pub peer_port: u16,
    /// Our port.
    pub local_port: u16,
    /// The peer's window, without its scale.
    pub wnd: u16,
    /// The greatest payload of a segment to the peer, in bytes.
    pub mss: u16,
    /// Smoothed round trip, in quarters of a millisecond; `u16::MAX` before the first sample.
    pub srtt: u16,
    /// Its variation, in the same unit.
    pub rttvar: u16,
    /// The congestion window, in segments.
    pub cwnd: u16,
    /// The slow start threshold, in segments.
    pub ssthresh: u16,
    /// The time after which unacknowledged bytes end the connection, in tenths of a second; 0
    /// without one.
    pub user_timeout: u16,
    /// The flags above.
    pub flags: u16,
    /// The index of our address.
    pub local: u8,
    /// The state.
    pub state: State,
    /// The shift of the peer's windows in the lower half; in the upper one, the number of our own
    /// receive window's doublings.
    pub shifts: u8,
    /// The next hop of packets to the peer, as the device knows it.
    pub hop: u8,
}

const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    pub fn vacant(generation: u32, next: u32) -> Line {
        Line {
            peer: 0,
            generation,
            una: Seq(0),
            rcv_nxt: Seq(0),
            edge: Seq(0),
            wl1: Seq(0),
            active: next,
            inbox: inbox::NONE,
            heard_ms: 0,
            sent_ms: 0,
            peer_port: 0,
            local_port: 0,
            wnd: 0,
            mss: 0,
            srtt: u16::MAX,
            rttvar: 0,
            cwnd: 0,
            ssthresh: u16::MAX,
            user_timeout: 0,
            flags: 0,
            local: 0,
            state: State::Vacant,
            shifts: 0,
            hop: 0,
        }
    }

    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    pub fn set(&mut self, flag: u16) {
        self.flags |= flag;
    }

    pub fn clear(&mut self, flag: u16) {
        self.flags &= !flag;
    }

    /// The peer's window in bytes.
    pub fn window(&self) -> u32 {
        u32::from(self.wnd) << (self.shifts & 15)
    }

    /// Number of the receive window's doublings.
    pub fn doublings(&self) -> u8 {
        self.shifts >> 4
    }

    pub fn double_receive_window(&mut self) {
        self.shifts += 16;
    }

    /// Whether nothing is in flight. Meaningless for a vacant line.
    pub fn is_idle(&self) -> bool {
        self.active == active::NONE
    }
}

/// Lines by the index of their connections. Owned by one shard.
#[derive(Debug)]
pub(crate) struct Lines {
    /// 2 MiB to a page, so that a system with huge pages can use one for each.
    pages: Pages<Line, 32_768>,
    free: u32,
    count: u32,
    max: u32,
}

const NO_LINE: u32 = u32::MAX;

impl Lines {
    pub fn new(max: u32) -> Lines {
        Lines { pages: Pages::new(), free: NO_LINE, count: 0, max }
    }

    /// The number of lines in use.
    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn is_full(&self) -> bool {
        self.count >= self.max
    }

    /// Asks for the memory of a line; see [`stdx::prefetch`].
    #[inline]
    pub fn prefetch(&self, index: u32) {
        self.pages.prefetch(index);
    }

    /// Takes a vacant line. None if the bound is reached.
    pub fn take(&mut self) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        self.count += 1;
        if self.free == NO_LINE {
            return Some(self.pages.push(Line::vacant(1, NO_LINE)));
        }
        let index = self.free;
        self.free = self.pages[index].active;
        let generation = self.pages[index].generation;
        self.pages[index] = Line::vacant(generation, active::NONE);
        Some(index)
    }

    /// Makes a line vacant.
    pub fn give_back(&mut self, index: u32) {
        debug_assert!(self.pages[index].is_idle(), "its active block would be lost");
        let generation = self.pages[index].generation;
        let next = if generation == u32::MAX { 1 } else { generation + 1 };
        self.pages[index] = Line::vacant(next, self.free);
        self.free = index;
        self.count -= 1;
    }

    pub fn get(&self, index: u32) -> Option<&Line> {
        self.pages.get(index).filter(|line| line.state != State::Vacant)
    }

    /// Bytes in use.
    pub fn memory_bytes(&self) -> usize {
        self.pages.memory_bytes()
    }
}

impl std::ops::Index<u32> for Lines {
    type Output = Line;

    fn index(&self, index: u32) -> &Line {
        &self.pages[index]
    }
}

impl std::ops::IndexMut<u32> for Lines {
    fn index_mut(&mut self, index: u32) -> &mut Line {
        &mut self.pages[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_reused_under_another_generation() {
        let mut lines = Lines::new(2);
        let (first, second) = (lines.take().unwrap(), lines.take().unwrap());
        assert_eq!((first, second, lines.take()), (0, 1, None));
        lines[first].state = State::Established;
        assert!(lines.get(first).is_some() && lines.get(second).is_none());
        let generation = lines[first].generation;
        lines.give_back(first);
        assert!(lines.get(first).is_none());
        assert_eq!(lines.take(), Some(first));
        assert_eq!(lines[first].generation, generation + 1);
        assert!(lines[first].is_idle() && lines[first].inbox == inbox::NONE);
        lines[first].generation = u32::MAX;
        lines.give_back(first);
        lines.take();
        assert_eq!((lines[first].generation, lines.count()), (1, 2));
    }
}
