//! The state of a connection with unacknowledged bytes, or with a timer: two cache lines.

use crate::retained;
use crate::seq::Seq;
use stdx::pages::Pages;

/// No block.
pub(crate) const NONE: u32 = u32::MAX;

/// A timer of a connection; it has one at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub(crate) enum Timer {
    #[default]
    None,
    /// The answer to our SYN.
    Syn,
    /// The retransmission timeout (RFC 6298).
    Retransmit,
    /// The tail loss probe (RFC 8985, 7).
    Probe,
    /// The reordering window of a segment (RFC 8985, 6).
    Reorder,
    /// The probe of a window that is closed (RFC 9293, 3.8.6.1).
    Persist,
}

/// The sender's belief about the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Nothing is lost.
    #[default]
    Open,
    /// A segment was lost, and acknowledgements still come (RFC 5681, 6937).
    Recovery,
    /// The retransmission timeout has passed.
    Loss,
}

/// The congestion window was the reason to send less.
pub(crate) const CWND_LIMITED: u8 = 1;
/// Segments have come out of order on this path (RFC 8985, 6.2).
pub(crate) const REORDERING: u8 = 2;
/// A tail loss probe is unanswered.
pub(crate) const PROBED: u8 = 4;
/// A segment has been delivered since the block exists: the RACK fields hold.
pub(crate) const DELIVERED: u8 = 8;

/// A block.
#[derive(Clone, Debug)]
#[repr(C, align(128))]
pub(crate) struct Active {
    /// The connection.
    pub line: u32,
    /// The next number to send.
    pub nxt: Seq,
    /// The retained segments, by number.
    pub head: u32,
    pub tail: u32,
    /// The first segment that waits for room in the device.
    pub unsent: u32,
    /// The recovery ends when this is acknowledged.
    pub recovery: Seq,
    /// The delivered segment that was sent last (RFC 8985, 5.2): its time, end and round trip.
    pub rack_sent_us: u32,
    pub rack_end: Seq,
    pub rack_rtt_us: u32,
    /// The least round trip since the block exists.
    pub min_rtt_us: u32,
    /// The end of the foremost delivered segment.
    pub foremost: Seq,
    /// The end of the flight at the probe of its tail.
    pub probe_end: Seq,
    /// Proportional rate reduction (RFC 6937), in segments.
    pub prr_delivered: u32,
    pub prr_out: u32,
    pub prr_flight: u32,
    /// Start of the oldest bytes' wait for the peer, in milliseconds.
    pub since_ms: u32,
    /// Deadline of the timer, and its links in the wheel.
    pub deadline_ms: u32,
    pub wheel_previous: u32,
    pub wheel_next: u32,
    /// Bytes of the slots of retained segments.
    pub bytes: u32,
    /// Segments: retained and sent, of these selectively acknowledged, of these taken for lost.
    pub in_flight: u16,
    pub sacked: u16,
    pub lost: u16,
    /// Acknowledged segments since the congestion window grew.
    pub acked: u16,
    /// Duplicate acknowledgements, for a peer without selective ones.
    pub duplicates: u16,
    pub timer: Timer,
    pub phase: Phase,
    /// Number of the timer's expirations in a row.
    pub backoff: u8,
    pub flags: u8,
    /// Whether the wheel has the block.
    pub is_in_wheel: bool,
}

const _: () = assert!(size_of::<Active>() == 128);

impl Active {
    fn new(line: u32, nxt: Seq, now_ms: u32) -> Active {
        Active {
            line,
            nxt,
            head: retained::NONE,
            tail: retained::NONE,
            unsent: retained::NONE,
            recovery: nxt,
            rack_sent_us: 0,
            rack_end: nxt,
            rack_rtt_us: 0,
            min_rtt_us: u32::MAX,
            foremost: nxt,
            probe_end: nxt,
            prr_delivered: 0,
            prr_out: 0,
            prr_flight: 0,
            since_ms: now_ms,
            deadline_ms: 0,
            wheel_previous: NONE,
            wheel_next: NONE,
            bytes: 0,
            in_flight: 0,
            sacked: 0,
            lost: 0,
            acked: 0,
            duplicates: 0,
            timer: Timer::None,
            phase: Phase::Open,
            backoff: 0,
            flags: 0,
            is_in_wheel: false,
        }
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Segments that the network holds, as far as the sender can know (RFC 6675, "pipe").
    pub fn pipe(&self) -> u32 {
        u32::from(self.in_flight).saturating_sub(u32::from(self.sacked) + u32::from(self.lost))
    }

    /// Whether nothing is retained.
    pub fn is_empty(&self) -> bool {
        self.head == retained::NONE
    }
}

/// The blocks of a shard.
#[derive(Debug, Default)]
pub(crate) struct Actives {
    blocks: Pages<Active, 512>,
    free: Vec<u32>,
}

impl Actives {
    pub fn insert(&mut self, line: u32, nxt: Seq, now_ms: u32) -> u32 {
        let block = Active::new(line, nxt, now_ms);
        match self.free.pop() {
            Some(id) => {
                self.blocks[id] = block;
                id
            }
            None => self.blocks.push(block),
        }
    }

    /// Frees a block. Its timer is cancelled and its segments are freed before.
    pub fn remove(&mut self, id: u32) {
        debug_assert!(!self.blocks[id].is_in_wheel, "the wheel would meet a freed block");
        self.free.push(id);
    }

    /// Asks for the memory of a block; see [`stdx::prefetch`].
    #[inline]
    pub fn prefetch(&self, id: u32) {
        self.blocks.prefetch(id);
    }

    /// The number of blocks in use.
    pub fn count(&self) -> u32 {
        self.blocks.len() - self.free.len() as u32
    }

    /// Bytes in use.
    pub fn memory_bytes(&self) -> usize {
        self.blocks.memory_bytes() + self.free.capacity() * 4
    }
}

impl std::ops::Index<u32> for Actives {
    type Output = Active;

    fn index(&self, id: u32) -> &Active {
        &self.blocks[id]
    }
}

impl std::ops::IndexMut<u32> for Actives {
    fn index_mut(&mut self, id: u32) -> &mut Active {
        &mut self.blocks[id]
    }
}
