//! Options of a stack.

use crate::packet::Checksums;
use std::net::IpAddr;
use stdx::hash::Seed;

/// Options of a [`crate::Stack`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Our addresses, at most 255: packets to others are dropped.
    pub addresses: Vec<IpAddr>,
    /// The greatest IP packet that is sent, in bytes, 576 to 1,576.
    pub mtu: u16,
    /// Maximum number of connections, closing ones included; at most 2^26.
    pub connections_max: u32,
    /// Maximum number of openings that wait for the peer; beyond it the stack answers with cookies.
    pub half_open_max: u32,
    /// Maximum number of ended connections that are remembered for a minute.
    pub time_wait_max: u32,
    /// Maximum number of unacknowledged bytes of all connections. From three quarters on,
    /// connections that have some cannot write.
    pub unacknowledged_bytes_max: usize,
    /// Maximum number of unread bytes of all connections; beyond it arriving bytes are dropped, and
    /// the peers send them again.
    pub unread_bytes_max: usize,
    /// The receive window of a new connection, in bytes, at least 4,096. It grows with the stream
    /// to 16 times as much. A window is a promise, and no memory until bytes come that nothing
    /// reads.
    pub receive_window: u16,
    /// The first local port of connections that are begun here; the last one is 65,535.
    pub ports_first: u16,
    /// Two to this power is the number of parts of the table of connections: 10 for millions.
    pub table_segment_bits: u32,
    /// The checksums of received segments that are right.
    pub checksums: Checksums,
    /// A random secret: for hashes, first sequence numbers (RFC 6528) and cookies.
    pub secret: Seed,
}

impl Config {
    /// The defaults for these addresses.
    pub fn new(addresses: Vec<IpAddr>, secret: Seed) -> Config {
        Config {
            addresses,
            mtu: 1500,
            connections_max: 1 << 20,
            half_open_max: 65_536,
            time_wait_max: 262_144,
            unacknowledged_bytes_max: 256 << 20,
            unread_bytes_max: 64 << 20,
            receive_window: u16::MAX,
            ports_first: 32_768,
            table_segment_bits: 10,
            checksums: Checksums::Whole,
            secret,
        }
    }
}
