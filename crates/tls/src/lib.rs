//! TLS as a [`net::Net`] over another: the caller above sees plain connections and byte streams,
//! the network below carries records.
//!
//! First and last step of a message's path, between `net` and the reactor. [`Tls`] keeps all rules
//! of [`net`]; beyond them:
//!
//! - **Connections with TLS** are those of the listeners from [`Tls::serve`]'s on, and those of
//!   [`Tls::start`]. Others pass through, and cost four bytes each.
//! - **A server's `Accepted`** is reported when the socket is accepted, so that the caller's
//!   deadlines cover the handshake; until it completes, reads return `Blocked`, and a write fails:
//!   it can only be the answer to a slow client. **A client's `Connected`** is reported when the
//!   handshake completes. A failed handshake is a `Closed` with `InvalidData`.
//! - **The end of the peer's stream** is its `close_notify`. An end without one may be an attack:
//!   it is [`net::Read::Failed`] with `UnexpectedEof`.
//! - **Memory**: an idle connection has its keys; a busy one also the peer's unfinished record, and
//!   the rest of at most one of ours that the socket did not take. A sealed record of which no byte
//!   was sent is dropped, and sealed again.
//! - **The end of a handshake** (a client's last message, a server's ticket) goes out with the
//!   first data, or at the start of the next poll: one write instead of two.
//! - **Handshakes** run in order, at most [`HANDSHAKES_TURN_MAX`] steps in one poll: this bounds
//!   the delay of live connections during a storm of them.
//!
//! The handshake is rustls's; the record layer after it is ours (`record`), because it is small and
//! has no buffers.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::{Certified, Close, Conn, Event, Net, Read, Write};
use rustls::pki_types::ServerName;
use stdx::memory::{Component, Components, vector_bytes};
use stdx::slab::Slab;

mod alert;
mod client;
mod clients;
mod connection;
mod counters;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handing;
mod handshake;
mod handshaking;
mod keys;
mod reading;
mod record;
mod self_signed;
mod server;
mod suites;
mod writing;
mod x509;

pub use alert::Fault;
pub use client::{Client, ClientSettings, Identity, Roots, plain_client};
pub use clients::ClientCertificates;
pub use counters::{Counters, Statistics};
pub use handing::layout;
pub use self_signed::{SelfSigned, self_signed};
pub use server::{Loaded, Server, ServerSettings};
pub use suites::cipher_suites;

use connection::{Connection, Flags, State};
use counters::{add, subtract};
use reading::INCOMING_BYTES;
use server::Current;

/// Steps of handshakes in one poll; a full handshake takes two.
pub const HANDSHAKES_TURN_MAX: usize = 16;
/// Maximum number of the peer's key updates (RFC 8446, section 4.6.3) in one read of a connection:
/// each costs some microseconds, and fits 30 bytes. The next poll reads the rest.
pub const KEY_UPDATES_READ_MAX: u32 = 16;
/// Number of key updates in one poll, over all connections, after which each read accepts one.
pub const KEY_UPDATES_TURN_MAX: u32 = 256;
/// Maximum number of closed connections whose last record still goes out; beyond it, the oldest is
/// cut short.
const ENDING_MAX: usize = 256;
/// Time limit for such a record.
const ENDING_TIMEOUT: Duration = Duration::from_secs(2);
/// A connection without TLS, in [`Tls::places`].
const PLAIN: u32 = 0;

/// The reason why a file of certificates or keys cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadError {
    /// The file.
    pub file: std::path::PathBuf,
    /// The problem.
    pub problem: String,
    /// The expected content.
    pub expected: &'static str,
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LoadError { file, problem, expected } = self;
        write!(formatter, "{}: {problem}; expected {expected}", file.display())
    }
}

impl std::error::Error for LoadError {}

/// TLS over `N`. The module's introduction holds the rules.
pub struct Tls<N> {
    net: N,
    accepts: Option<Accepts>,
    /// The place of each connection by its index: 1 plus its place in `connections`, or [`PLAIN`].
    places: Vec<u32>,
    connections: Slab<Connection>,
    /// Number of running handshakes.
    begun_count: usize,
    /// Whether no handshake may begin.
    is_held: bool,
    /// The latest events of `net`.
    events: Vec<Event>,
    /// Connections with more bytes to read after a short read.
    again: Vec<Conn>,
    /// Number of peers' key updates since the last poll.
    key_updates: u32,
    /// Handshakes with work to do.
    handshakes: VecDeque<Conn>,
    /// Connections whose last handshake message waits for the first data.
    held: Vec<Conn>,
    /// Closed connections with an unsent record.
    ending: VecDeque<(Instant, Conn)>,
    /// Records that are being opened. Allocated with the first one; its memory is touched only as
    /// far as it was filled.
    incoming: Vec<u8>,
    incoming_filled: usize,
    /// Records that are being sealed.
    sealed: Vec<u8>,
    counters: Arc<Counters>,
    /// Peers that have proved who they are, for the caller.
    certified: Vec<Certified>,
    /// The reason why the last handshake of a client failed.
    failure: Option<(Conn, String)>,
    /// Maximum number of records that one key seals; smaller only in tests.
    records_max: u64,
}

struct Accepts {
    listener: u8,
    current: Current,
}

impl<N: Net> Tls<N> {
    /// Over `net`, of which no connection is known yet.
    pub fn new(net: N) -> Tls<N> {
        Tls {
            net,
            accepts: None,
            places: Vec::new(),
            connections: Slab::new(),
            begun_count: 0,
            is_held: false,
            events: Vec::new(),
            again: Vec::new(),
            key_updates: 0,
            handshakes: VecDeque::new(),
            held: Vec::new(),
            ending: VecDeque::new(),
            incoming: Vec::new(),
            incoming_filled: 0,
            sealed: Vec::new(),
            counters: Arc::default(),
            certified: Vec::new(),
            failure: None,
            records_max: u64::MAX,
        }
    }

    /// Serves TLS on the listeners from this number on.
    pub fn serve(&mut self, listener: u8, server: &Server) {
        self.accepts = Some(Accepts { listener, current: server.current() });
    }

    /// Makes a connection that was just begun one of TLS: a client's, to the server of this
    /// name or IP address.
    ///
    /// # Errors
    /// No name, or the library cannot make a handshake of this configuration.
    pub fn start(&mut self, conn: Conn, client: &Client, host: &str) -> Result<(), rustls::Error> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| rustls::Error::General(format!("`{host}` is not a valid server name")))?;
        let handshake = client.handshake(name)?;
        self.insert(conn, State::Handshake(Box::new(handshake)), Flags::CLIENT);
        Ok(())
    }

    /// The fault of the last client that failed, in its handshake or later, if it was this
    /// connection's.
    pub fn take_failure(&mut self, conn: Conn) -> Option<String> {
        let (_, failure) = self.failure.take_if(|(failed, _)| *failed == conn)?;
        Some(failure)
    }

    /// This thread's counters, to be read on others.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// The network below, for its owner's own calls.
    pub fn net(&self) -> &N {
        &self.net
    }

    /// The same, to change it. Reading, writing and closing connections is for [`Tls`] alone.
    pub fn net_mut(&mut self) -> &mut N {
        &mut self.net
    }

    /// Announces new keys after so many records, at least 8; the algorithms' own limits hold
    /// anyway.
    #[doc(hidden)]
    pub fn update_keys_after(&mut self, records_max: u64) {
        self.records_max = records_max.max(8);
    }

    /// Lends the memory for records that are being opened.
    fn take_incoming(&mut self) -> Vec<u8> {
        if self.incoming.is_empty() {
            // Zeroed by the system, page by page as it is used.
            self.incoming = vec![0; INCOMING_BYTES];
        }
        std::mem::take(&mut self.incoming)
    }

    fn give_incoming(&mut self, incoming: Vec<u8>, filled: usize) {
        self.incoming = incoming;
        self.incoming_filled = self.incoming_filled.max(filled);
    }

    fn place(&self, conn: Conn) -> Option<u32> {
        let place = self.places.get(conn.index as usize)?.checked_sub(1)?;
        (self.connections.get(place)?.conn == conn).then_some(place)
    }

    fn insert(&mut self, conn: Conn, state: State, flags: Flags) {
        let index = conn.index as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, PLAIN);
        }
        let connection = Connection::new(conn, state, flags);
        self.begun_count += usize::from(connection.has_begun());
        add(connection.gauge(&self.counters), 1);
        add(&self.counters.state_bytes, connection.state_bytes());
        add(&self.counters.buffer_bytes, connection.buffer_bytes());
        self.places[index] = 1 + self.connections.insert(connection);
    }

    /// Forgets the connection; what it was is wiped.
    fn remove(&mut self, place: u32) {
        let Some(connection) = self.connections.remove(place) else {
            return;
        };
        self.places[connection.conn.index as usize] = PLAIN;
        self.begun_count -= usize::from(connection.has_begun());
        subtract(connection.gauge(&self.counters), 1);
        subtract(&self.counters.state_bytes, connection.state_bytes());
        subtract(&self.counters.buffer_bytes, connection.buffer_bytes());
    }

    /// Puts a state in for another, which it gives, and keeps the account of memory.
    fn put(&mut self, place: u32, state: State) -> State {
        let connection = &mut self.connections[place];
        subtract(connection.gauge(&self.counters), 1);
        self.begun_count -= usize::from(connection.has_begun());
        let before = (connection.state_bytes(), connection.buffer_bytes());
        let former = std::mem::replace(&mut connection.state, state);
        self.begun_count += usize::from(connection.has_begun());
        add(connection.gauge(&self.counters), 1);
        add(&self.counters.state_bytes, connection.state_bytes());
        add(&self.counters.buffer_bytes, connection.buffer_bytes());
        subtract(&self.counters.state_bytes, before.0);
        subtract(&self.counters.buffer_bytes, before.1);
        former
    }

    fn translate(&mut self, event: Event, events: &mut Vec<Event>) {
        match event {
            Event::Accepted { conn, listener, .. } => {
                if let Some(accepts) = &self.accepts
                    && listener >= accepts.listener
                {
                    self.insert(conn, State::Fresh, Flags::default());
                }
                events.push(event);
            }
            Event::Connected(conn) => match self.place(conn) {
                Some(place) => self.queue(place),
                None => events.push(event),
            },
            Event::Readable(conn) => match self.place(conn) {
                Some(place) => self.readable(place, events),
                None => events.push(event),
            },
            Event::Writable(conn) => match self.place(conn) {
                Some(place) => self.writable(place, events),
                None => events.push(event),
            },
            Event::Closed { conn, .. } => {
                let Some(place) = self.place(conn) else {
                    return events.push(event);
                };
                let connection = &self.connections[place];
                let is_told = !connection.flags.has(Flags::CLOSED);
                if connection.is_handshaking() {
                    add(&self.counters.failed_gone, 1);
                }
                self.remove(place);
                if is_told {
                    events.push(event);
                }
            }
            Event::Woken => events.push(event),
        }
    }

    fn readable(&mut self, place: u32, events: &mut Vec<Event>) {
        let connection = &mut self.connections[place];
        connection.flags.set(Flags::NET_READY);
        if connection.is_handshaking() {
            self.queue(place);
        } else {
            tell_readable(connection, events);
        }
    }

    /// The time for which the network may wait, as there may be work of our own.
    fn wait_time(&self, timeout: Option<Duration>) -> Option<Duration> {
        if !self.again.is_empty() || !self.handshakes.is_empty() {
            return Some(Duration::ZERO);
        }
        match self.ending.front() {
            None => timeout,
            Some((at, _)) => {
                let until = at.saturating_duration_since(Instant::now());
                Some(timeout.map_or(until, |timeout| timeout.min(until)))
            }
        }
    }
}

/// Reports `Readable`, unless it was reported before or the caller has closed the connection.
fn tell_readable(connection: &mut Connection, events: &mut Vec<Event>) {
    if !connection.flags.has_any(Flags::READ_TOLD | Flags::CLOSED) {
        connection.flags.set(Flags::READ_TOLD);
        events.push(Event::Readable(connection.conn));
    }
}

impl<N: Net> Net for Tls<N> {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.send_held();
        self.key_updates = 0;
        let wait = self.wait_time(timeout);
        let mut reported = std::mem::take(&mut self.events);
        let polled = self.net.poll(wait, &mut reported);
        for conn in std::mem::take(&mut self.again) {
            if let Some(place) = self.place(conn) {
                let connection = &mut self.connections[place];
                connection.flags.clear(Flags::AGAIN);
                tell_readable(connection, events);
            }
        }
        for event in reported.drain(..) {
            self.translate(event, events);
        }
        self.events = reported;
        polled?;
        self.sweep_ending();
        self.handshake_turn(events);
        Ok(())
    }

    fn read(&mut self, conn: Conn, buffer: &mut [u8]) -> Read {
        match self.place(conn) {
            None => self.net.read(conn, buffer),
            Some(place) => self.read_records(place, buffer),
        }
    }

    fn write(&mut self, conn: Conn, parts: &[IoSlice<'_>]) -> Write {
        match self.place(conn) {
            None => self.net.write(conn, parts),
            Some(place) => self.write_records(place, parts),
        }
    }

    fn shutdown_write(&mut self, conn: Conn) {
        match self.place(conn) {
            None => self.net.shutdown_write(conn),
            Some(place) => self.end_stream(place),
        }
    }

    fn close(&mut self, conn: Conn, how: Close) {
        match self.place(conn) {
            None => self.net.close(conn, how),
            Some(place) => self.end_connection(place, how),
        }
    }

    fn expect_acknowledgements(&mut self, conn: Conn, within: Duration) {
        self.net.expect_acknowledgements(conn, within);
    }

    fn heard(&self, conn: Conn) -> Option<Duration> {
        self.net.heard(conn)
    }

    fn knows_heard(&self) -> bool {
        self.net.knows_heard()
    }

    fn peer_address(&self, conn: Conn) -> Option<SocketAddr> {
        self.net.peer_address(conn)
    }

    fn is_encrypted(&self, conn: Conn) -> bool {
        self.place(conn).is_some()
    }

    fn take_certified(&mut self) -> Vec<Certified> {
        std::mem::take(&mut self.certified)
    }

    fn memory(&self, memory: &mut Components) {
        self.net.memory(memory);
        let Statistics { state_bytes, buffer_bytes, .. } = self.counters.statistics();
        let slots = self.connections.len() * Slab::<Connection>::ENTRY_BYTES;
        let bytes = (state_bytes + buffer_bytes) as usize - slots.min(state_bytes as usize)
            + self.connections.allocated_bytes()
            + vector_bytes::<u32>(self.places.len())
            + vector_bytes::<Event>(self.events.capacity())
            + vector_bytes::<Conn>(
                self.again.capacity() + self.handshakes.capacity() + self.held.capacity(),
            )
            + self.incoming_filled
            + self.sealed.capacity();
        memory.add(Component::Tls, bytes);
    }

    fn pause_accepting(&mut self) {
        self.net.pause_accepting();
    }

    fn stop_accepting(&mut self) {
        self.net.stop_accepting();
    }

    fn resume_accepting(&mut self) {
        self.net.resume_accepting();
    }
}
