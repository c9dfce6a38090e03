//! Counters of a stack.

use stdx::Counters;

/// Counters and present numbers of a stack; those of several stacks can be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Counters)]
pub struct Statistics {
    /// Present connections.
    pub connections: u64,
    /// Present connections with unacknowledged bytes or a timer.
    pub active: u64,
    /// Present openings that wait for the peer.
    pub half_open: u64,
    /// Present ended connections that are remembered.
    pub time_wait: u64,
    /// Present bytes of slots for unacknowledged segments.
    pub retained_bytes: u64,
    /// Present unread bytes.
    pub unread_bytes: u64,
    /// Received segments.
    pub segments_in: u64,
    /// Sent segments, repeated ones included.
    pub segments_out: u64,
    /// Segments that were sent again.
    pub resent: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Connections that were given up because the shard lacked room for unacknowledged bytes.
    pub hoarders: u64,
    /// Tail loss probes.
    pub probes: u64,
    /// Accepted connections.
    pub accepted: u64,
    /// Connections begun from here.
    pub connecting: u64,
    /// Openings for which there was no room.
    pub refused: u64,
    /// Cookies that were sent.
    pub cookies_sent: u64,
    /// Cookies that came back.
    pub cookies_accepted: u64,
    /// Resets that ended a connection.
    pub resets_in: u64,
    /// Sent resets.
    pub resets_out: u64,
    /// Challenge acknowledgements (RFC 5961).
    pub challenges: u64,
    /// Packets that are malformed, fragments, or carry IP options.
    pub malformed: u64,
    /// Packets with a wrong checksum.
    pub checksums: u64,
    /// Packets to other addresses, of other protocols, or from impossible senders.
    pub foreign: u64,
    /// Segments of no connection.
    pub unknown: u64,
    /// Payload that was dropped because too many bytes were unread.
    pub dropped_unread: u64,
    /// Times when the device had no room for a segment.
    pub device_full: u64,
}
