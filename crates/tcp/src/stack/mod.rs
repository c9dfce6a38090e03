//! The stack of one shard: packets and time in, packets and events out.
//!
//! A caller gives every received packet to [`Stack::receive`], then takes the events, reads and
//! writes, and ends its turn with [`Stack::end_turn`], which closes, acknowledges, and does what
//! timers ask for. Packets leave through [`Frames`], most of them at once.
//!
//! The modules are the parts of one automaton, in the order of a connection's life: `opening`,
//! `arriving`, `acknowledging` with `recovering`, `receiving`, `sending`, `timing`, `closing`.
//! Invariants: a connection without an active block has nothing in flight, and one without an inbox
//! nothing unread; events of a turn name each connection in the order of [`Event`]; an index is
//! never used again within a turn.

mod acknowledging;
mod ahead;
mod arriving;
mod closing;
mod opening;
mod receiving;
mod recovering;
mod sending;
mod timing;

pub use ahead::PACKETS_AHEAD;

use crate::active::Actives;
use crate::config::Config;
use crate::flow::Flow;
use crate::half_open::HalfOpens;
use crate::inbox::Inboxes;
use crate::line::{LOST, Line, Lines, ORPHAN, V6};
use crate::packet::{IPV4_BYTES, TCP_BYTES};
use crate::retained::{Retained, SEGMENT_MAX};
use crate::statistics::Statistics;
use crate::table::Table;
use crate::time::{Time, elapsed};
use crate::time_wait::TimeWaits;
use crate::wheel::Wheel;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use stdx::key::Key;
use stdx::memory::vector_bytes;
use stdx::slab::Slab;

/// Names one connection of one stack: `index` is small and dense, `generation` is never 0.
pub type Conn = Key;

/// Packets on their way out.
pub trait Frames {
    /// The place for the next IP packet, at least as long as the configured maximum. None if the
    /// device has no room now.
    fn next_frame(&mut self) -> Option<&mut [u8]>;

    /// Sends the first `length` bytes of the place that was lent last to this next hop.
    fn send(&mut self, length: usize, hop: u8);
}

/// An event of a turn. A connection's events come in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A peer has connected to us; it may be written to at once.
    Accepted {
        /// The new connection.
        conn: Conn,
        /// Its address.
        peer: SocketAddr,
        /// The listener, by the order of [`Stack::listen`].
        listener: u8,
    },
    /// A connection that we began is established.
    Connected(Conn),
    /// Bytes, or the end of the peer's stream, can be read.
    Readable(Conn),
    /// There is room again after a write that was blocked or short.
    Writable(Conn),
    /// The connection is lost, or could not be established. Its key is dead, and bytes not yet read
    /// are gone.
    Closed {
        /// The lost connection.
        conn: Conn,
        /// The reason: `ConnectionReset`, `ConnectionRefused`, `TimedOut`, `HostUnreachable`.
        reason: io::ErrorKind,
    },
}

/// The answer of [`Stack::read`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// This number of bytes, at least one, is now at the start of the buffer.
    Data(usize),
    /// No bytes at present; `Readable` will follow.
    Blocked,
    /// The peer has ended its stream, and everything before the end was read.
    Ended,
    /// The connection is lost, and everything that came before was read.
    Lost(io::ErrorKind),
    /// The key names no connection.
    Dead,
}

/// The answer of [`Stack::write`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Write {
    /// This number of bytes was taken. Fewer than offered: `Writable` will follow.
    Wrote(usize),
    /// No room at present; `Writable` will follow.
    Blocked,
    /// The key names no connection that can be written to.
    Dead,
}

/// The way in which [`Stack::close`] ends a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Close {
    /// The written bytes still go out, then FIN. The peer's later bytes are discarded for a while.
    Graceful,
    /// RST at once; written bytes that were not sent are discarded.
    Reset,
}

/// Bounds of the greatest IP packet: what every host takes, and what a retained segment holds.
const MTU_MIN: u16 = 576;
const MTU_MAX: u16 = (SEGMENT_MAX + IPV4_BYTES + TCP_BYTES) as u16;

const RECEIVE_WINDOW_MIN: u16 = 4096;

/// The next hop before a packet has come from it: the device decides.
pub const HOP_UNKNOWN: u8 = 0;

/// One turn's input and output, handed to everything that may send.
pub(crate) struct Turn<'a> {
    pub now: Time,
    pub frames: &'a mut dyn Frames,
}

#[derive(Debug)]
struct Listener {
    address: SocketAddr,
    is_open: bool,
}

/// Events by kind, so that a connection's come in order.
#[derive(Debug, Default)]
struct Events {
    opened: Vec<Event>,
    readable: Vec<Event>,
    writable: Vec<Event>,
    closed: Vec<Event>,
}

/// The connections of one shard. Owned by one thread.
#[derive(Debug)]
pub struct Stack {
    config: Config,
    /// Sorted.
    addresses: Vec<IpAddr>,
    listeners: Vec<Listener>,
    is_accepting: bool,
    lines: Lines,
    peers_v6: Slab<[u8; 16]>,
    table: Table,
    actives: Actives,
    retained: Retained,
    inboxes: Inboxes,
    wheel: Wheel,
    half_opens: HalfOpens,
    time_waits: TimeWaits,
    /// Acknowledgements that wait for bytes to go with, in the order of their deadlines.
    delayed_acks: VecDeque<(u32, Conn)>,
    /// Connections that the application has closed, and when their patience ends.
    orphans: VecDeque<(u32, Conn)>,
    /// Closes that were requested in this turn.
    closing: Vec<(Conn, Close)>,
    /// Lines that owe an acknowledgement at the end of the turn.
    acks_due: Vec<u32>,
    /// Lines with segments that wait for room in the device.
    emitting: VecDeque<u32>,
    /// Lines that become vacant at the end of the turn.
    dying: Vec<u32>,
    events: Events,
    /// The second in which challenge acknowledgements are counted, and how many are left.
    challenges: (u64, u32),
    next_port: u16,
    statistics: Statistics,
    expired: Vec<u32>,
}

impl Stack {
    /// Creates a stack without connections.
    pub fn new(config: Config, now: Time) -> Stack {
        let mtu = config.mtu.clamp(MTU_MIN, MTU_MAX);
        let receive_window = config.receive_window.max(RECEIVE_WINDOW_MIN);
        let config = Config { mtu, receive_window, ..config };
        let mut addresses = config.addresses.clone();
        addresses.sort_unstable();
        addresses.dedup();
        addresses.truncate(usize::from(u8::MAX));
        let lines = Lines::new(config.connections_max.min(crate::table::PLACES_MAX));
        Stack {
            addresses,
            listeners: Vec::new(),
            is_accepting: true,
            lines,
            peers_v6: Slab::new(),
            table: Table::new(config.table_segment_bits),
            actives: Actives::default(),
            retained: Retained::default(),
            inboxes: Inboxes::default(),
            wheel: Wheel::new(now.ms()),
            half_opens: HalfOpens::new(config.half_open_max, config.secret),
            time_waits: TimeWaits::new(config.time_wait_max),
            delayed_acks: VecDeque::new(),
            orphans: VecDeque::new(),
            closing: Vec::new(),
            acks_due: Vec::new(),
            emitting: VecDeque::new(),
            dying: Vec::new(),
            events: Events::default(),
            challenges: (0, 0),
            next_port: config.ports_first,
            statistics: Statistics::default(),
            expired: Vec::new(),
            config,
        }
    }

    /// Appends the events since the last call.
    pub fn take_events(&mut self, events: &mut Vec<Event>) {
        events.append(&mut self.events.opened);
        // A read may have announced an end to an owner that has closed the connection since.
        let lines = &self.lines;
        let is_open = |conn: Conn| {
            let line = lines.get(conn.index).filter(|line| line.generation == conn.generation);
            line.is_some_and(|line| !line.has(ORPHAN))
        };
        let readable = self.events.readable.drain(..);
        events.extend(
            readable.filter(|event| !matches!(event, Event::Readable(conn) if !is_open(*conn))),
        );
        events.append(&mut self.events.writable);
        events.append(&mut self.events.closed);
    }

    /// Whether there are events.
    pub fn has_events(&self) -> bool {
        let Events { opened, readable, writable, closed } = &self.events;
        !(opened.is_empty() && readable.is_empty() && writable.is_empty() && closed.is_empty())
    }

    /// Ends the turn: carries out closes, sends what waited for room, acknowledges, and does what
    /// timers ask for. Call it before the thread waits.
    pub fn end_turn(&mut self, now: Time, frames: &mut dyn Frames) {
        self.end_turn_after(now, now, frames);
    }

    /// [`Stack::end_turn`] of an owner that has given the stack every packet up to `received` only.
    /// An answer that came later may still wait, so no timer for an answer expires after it.
    pub fn end_turn_after(&mut self, now: Time, received: Time, frames: &mut dyn Frames) {
        let turn = &mut Turn { now, frames };
        self.carry_out_closes(turn);
        // The owner has closed these, or has seen their last event. It does not know yet of those
        // that are lost below, so another connection must not get their index.
        let known = self.dying.len();
        self.expire(received.min(now), turn);
        self.emit_waiting(turn);
        self.acknowledge_due(turn);
        for index in self.dying.drain(..known) {
            self.lines.give_back(index);
        }
    }

    /// Our addresses.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// The number of connections, closing ones included.
    pub fn connections_count(&self) -> u32 {
        self.lines.count() - self.dying.len() as u32
    }

    /// The peer's address. None for a dead key.
    pub fn peer_address(&self, conn: Conn) -> Option<SocketAddr> {
        let index = self.alive(conn)?;
        Some(self.flow(index).peer_address())
    }

    /// The time since the peer's host was heard. None for a dead key.
    pub fn heard(&self, now: Time, conn: Conn) -> Option<Duration> {
        let line = &self.lines[self.alive(conn)?];
        Some(Duration::from_millis(u64::from(elapsed(now.ms(), line.heard_ms))))
    }

    /// The counters, and present numbers.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            connections: u64::from(self.connections_count()),
            active: u64::from(self.actives.count()),
            half_open: self.half_opens.count() as u64,
            time_wait: self.time_waits.count() as u64,
            retained_bytes: self.retained.bytes() as u64,
            unread_bytes: self.inboxes.bytes() as u64,
            ..self.statistics
        }
    }

    /// Bytes in use, without those of unread data.
    pub fn memory_bytes(&self) -> usize {
        self.lines.memory_bytes()
            + self.peers_v6.memory_bytes()
            + self.table.memory_bytes()
            + self.actives.memory_bytes()
            + self.retained.memory_bytes()
            + self.half_opens.memory_bytes()
            + self.time_waits.memory_bytes()
            + vector_bytes::<(u32, Conn)>(self.delayed_acks.capacity() + self.orphans.capacity())
            + vector_bytes::<u32>(self.acks_due.capacity() + self.emitting.capacity())
    }

    /// The line of a key that is not dead.
    fn alive(&self, conn: Conn) -> Option<u32> {
        let line = self.lines.get(conn.index)?;
        let is_alive = line.generation == conn.generation && !line.has(ORPHAN | LOST);
        is_alive.then_some(conn.index)
    }

    fn conn(&self, index: u32) -> Conn {
        Conn { index, generation: self.lines[index].generation }
    }

    /// The index of one of our addresses.
    fn local(&self, address: IpAddr) -> Option<u8> {
        self.addresses.binary_search(&address).ok().map(|local| local as u8)
    }

    /// The flow of a line.
    fn flow(&self, index: u32) -> Flow {
        let line = &self.lines[index];
        let peer = if line.has(V6) {
            IpAddr::V6(Ipv6Addr::from(self.peers_v6[line.peer]))
        } else {
            IpAddr::V4(Ipv4Addr::from_bits(line.peer))
        };
        let Line { peer_port, local_port, local, .. } = *line;
        Flow { peer, peer_port, local_port, local }
    }

    fn hash(&self, flow: &Flow) -> u64 {
        flow.hash(self.config.secret)
    }

    fn find(&self, flow: &Flow, hash: u64) -> Option<u32> {
        self.table.find(hash, |index| {
            let line = &self.lines[index];
            line.peer_port == flow.peer_port
                && line.local_port == flow.local_port
                && line.local == flow.local
                && match flow.peer {
                    IpAddr::V4(peer) => !line.has(V6) && line.peer == peer.to_bits(),
                    IpAddr::V6(peer) => line.has(V6) && self.peers_v6[line.peer] == peer.octets(),
                }
        })
    }
}
