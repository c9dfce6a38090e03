//! TCP without sockets, threads or a clock: packets and time in, packets and events out.
//!
//! The kernel's sockets cost kilobytes for each connection. Here a connection at rest is one cache
//! line ([`Stack`], `line`), and everything else about it exists only while bytes are
//! unacknowledged (`active`, `retained`) or unread (`inbox`). So millions of connections fit a
//! machine, and the same code runs over real devices, in tests, and in the simulator.
//!
//! Specifications: RFC 9293 (TCP), 5681 and 6937 (congestion), 6298 (timeout), 8985 (loss by time),
//! 6582 (loss without selective acknowledgements), 2018 (selective acknowledgements), 7323 (window
//! scale; no timestamps), 5961 (forged segments), 6528 (first numbers), 4987 (cookies), 5927
//! (reports of the network).
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

mod active;
mod checksum;
mod config;
mod flow;
mod half_open;
mod inbox;
mod line;
pub mod neighbours;
pub mod packet;
mod retained;
mod rtt;
mod seq;
mod stack;
mod statistics;
mod table;
mod time;
mod time_wait;
mod wheel;

pub use config::Config;
pub use seq::Seq;
pub use stack::{Close, Conn, Event, Frames, HOP_UNKNOWN, PACKETS_AHEAD, Read, Stack, Write};
pub use statistics::Statistics;
pub use table::PLACES_MAX as CONNECTIONS_MAX;
pub use time::Time;
