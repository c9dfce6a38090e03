//! Connections through a proxy, as a [`net::Net`] over another: the proxy's header (`wire::proxy`)
//! is removed before the layers above, TLS included, see the connection.
//!
//! Place: between `net` and `tls`, on nodes with a listener for proxies. [`Proxied`] keeps all
//! rules of [`net`]; in addition:
//!
//! - **Connections.** Only those of the configured listeners. All others pass through and cost four
//!   bytes.
//! - **`Accepted`** is reported when the header is complete, with the address in the header. Until
//!   then, the layers above do not know the connection.
//! - **Trust.** Only the configured networks may send a header; from another address it would prove
//!   nothing. Other connections are closed, and so are those with no header, a malformed one, or a
//!   late one: without an answer, because their protocol is unknown.
//! - **Limits.** The size of a header is bounded; all connections have the same time limit, so they
//!   wait in order. Bytes after the header are given to the first reads, and then nothing is
//!   stored.

use net::{Close, Conn, Event, Net, Read, Write};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use stdx::Counters;
use stdx::memory::{Component, Components, vector_bytes};
use stdx::networks::{Networks, UNNAMED};
use stdx::slab::Slab;
use wire::Step;
use wire::proxy::{Announced, HEADER_BYTES_MAX, decode};

/// The requirements for proxies.
#[derive(Clone, Debug)]
pub struct ProxiedOptions {
    /// The listeners, by number, whose connections begin with a header.
    pub listeners: Vec<bool>,
    /// Networks that may send a header.
    pub proxies: Networks,
    /// Time limit for the header.
    pub timeout: Duration,
}

/// Counts of proxies' connections at one moment; those of several threads can be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Counters)]
#[counters(shared = ProxiedCounters)]
pub struct ProxiedStatistics {
    /// Removed headers.
    pub headers: u64,
    /// Connections closed because they came from an unknown proxy.
    pub refused: u64,
    /// Connections closed because they did not begin with a valid header.
    pub malformed: u64,
    /// Connections closed because the header was late.
    pub late: u64,
    /// Connections closed by the peer before the header was complete.
    pub gone: u64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A connection without stored state.
const OPEN: u32 = 0;
/// A connection that was closed here: later events of the network for it are outdated.
const DEAD: u32 = u32::MAX;

/// A connection with an incomplete header, or with unread bytes after it.
struct Beginning {
    conn: Conn,
    peer: SocketAddr,
    listener: u8,
    /// The received bytes, including the complete header, up to `given`.
    bytes: Vec<u8>,
    given: usize,
    is_told: bool,
    /// Whether the last read filled its buffer: the network reports nothing before the next one.
    is_ready: bool,
}

/// Proxies' connections over `N`. The module documentation has the rules.
pub struct Proxied<N> {
    net: N,
    options: ProxiedOptions,
    /// The state of each connection by its index: [`OPEN`], [`DEAD`], or 1 plus its index in
    /// `beginnings`.
    places: Vec<u32>,
    beginnings: Slab<Beginning>,
    /// Time limits of headers, the first one first; an entry whose connection no longer waits is
    /// ignored.
    deadlines: VecDeque<(Instant, Conn)>,
    /// Connections with more bytes to read after a short read.
    again: Vec<Conn>,
    events: Vec<Event>,
    counters: Arc<ProxiedCounters>,
}

impl<N: Net> Proxied<N> {
    /// Wraps `net`, which must have no connections yet.
    pub fn new(net: N, options: ProxiedOptions) -> Proxied<N> {
        Proxied {
            net,
            options,
            places: Vec::new(),
            beginnings: Slab::new(),
            deadlines: VecDeque::new(),
            again: Vec::new(),
            events: Vec::new(),
            counters: Arc::default(),
        }
    }

    /// The counts of this thread, to be read on others.
    pub fn counters(&self) -> Arc<ProxiedCounters> {
        Arc::clone(&self.counters)
    }

    fn place(&self, conn: Conn) -> Option<u32> {
        let place = *self.places.get(conn.index as usize)?;
        (place != OPEN && place != DEAD).then(|| place - 1)
    }

    fn is_dead(&self, conn: Conn) -> bool {
        self.places.get(conn.index as usize) == Some(&DEAD)
    }

    fn set(&mut self, conn: Conn, place: u32) {
        let index = conn.index as usize;
        if index >= self.places.len() {
            if place == OPEN {
                return;
            }
            self.places.resize(index + 1, OPEN);
        }
        self.places[index] = place;
    }

    fn forget(&mut self, place: u32, as_what: u32) {
        if let Some(beginning) = self.beginnings.remove(place) {
            self.set(beginning.conn, as_what);
        }
    }

    fn close_without_a_word(&mut self, place: u32) {
        let conn = self.beginnings[place].conn;
        self.net.close(conn, Close::Reset);
        self.forget(place, DEAD);
    }

    fn translate(&mut self, event: Event, events: &mut Vec<Event>) {
        match event {
            Event::Accepted { conn, peer, listener } => {
                self.set(conn, OPEN);
                let listeners = &self.options.listeners;
                match listeners.get(usize::from(listener)) {
                    Some(true) => self.begin(conn, peer, listener),
                    _ => events.push(event),
                }
            }
            Event::Readable(conn) | Event::Writable(conn) | Event::Closed { conn, .. }
                if self.is_dead(conn) => {}
            Event::Readable(conn) => match self.place(conn) {
                Some(place) => self.readable(place, events),
                None => events.push(event),
            },
            Event::Closed { conn, .. } => match self.place(conn) {
                Some(place) => {
                    let is_told = self.beginnings[place].is_told;
                    self.forget(place, OPEN);
                    if is_told { events.push(event) } else { count(&self.counters.gone) }
                }
                None => events.push(event),
            },
            Event::Connected(_) | Event::Writable(_) | Event::Woken => events.push(event),
        }
    }

    fn begin(&mut self, conn: Conn, peer: SocketAddr, listener: u8) {
        if !self.options.proxies.contains(peer.ip()) {
            count(&self.counters.refused);
            self.net.close(conn, Close::Reset);
            return self.set(conn, DEAD);
        }
        let place = self.beginnings.insert(Beginning {
            conn,
            peer,
            listener,
            bytes: Vec::new(),
            given: 0,
            is_told: false,
            is_ready: false,
        });
        self.set(conn, place + 1);
        let until = Instant::now() + self.options.timeout;
        self.deadlines.push_back((until, conn));
    }

    /// Reads at most the maximum size of a header, so that little is stored.
    fn readable(&mut self, place: u32, events: &mut Vec<Event>) {
        let Beginning { conn, is_told, ref mut bytes, .. } = self.beginnings[place];
        if is_told {
            return events.push(Event::Readable(conn));
        }
        let had = bytes.len();
        let mut buffer = [0; HEADER_BYTES_MAX];
        match self.net.read(conn, &mut buffer[had..]) {
            Read::Data(count) => bytes.extend_from_slice(&buffer[had..had + count]),
            Read::Blocked => return,
            Read::Ended | Read::Failed(_) => {
                count(&self.counters.gone);
                return self.close_without_a_word(place);
            }
        }
        match decode(bytes) {
            Ok(Step::More { .. }) => {}
            Ok(Step::Done { value, consumed }) => self.tell(place, value, consumed, events),
            Err(_) => {
                count(&self.counters.malformed);
                self.close_without_a_word(place);
            }
        }
    }

    fn tell(&mut self, place: u32, announced: Announced, header: usize, events: &mut Vec<Event>) {
        count(&self.counters.headers);
        let beginning = &mut self.beginnings[place];
        beginning.is_told = true;
        beginning.given = header;
        beginning.is_ready = beginning.bytes.len() == HEADER_BYTES_MAX;
        let Beginning { conn, peer, listener, .. } = *beginning;
        let peer = match announced {
            Announced::Tcp { source, .. } => {
                SocketAddr::new(source.ip().to_canonical(), source.port())
            }
            // The proxy's own address would count as its client's, and may have permissions.
            Announced::Local | Announced::Unknown | Announced::Unix => {
                SocketAddr::new(UNNAMED, peer.port())
            }
        };
        events.push(Event::Accepted { conn, peer, listener });
        if beginning.bytes.len() > header || beginning.is_ready {
            events.push(Event::Readable(conn));
        }
        if beginning.bytes.len() == header {
            self.forget(place, OPEN);
        }
    }

    /// Returns bytes that arrived with the header.
    fn read_beginning(&mut self, place: u32, buffer: &mut [u8]) -> Read {
        let Beginning { conn, ref bytes, ref mut given, is_ready, .. } = self.beginnings[place];
        let rest = &bytes[*given..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        *given += count;
        if *given == bytes.len() {
            self.forget(place, OPEN);
            if is_ready && count < buffer.len() {
                // The reader may stop after a short read, and the network has reported everything.
                self.again.push(conn);
            }
        }
        Read::Data(count)
    }

    fn sweep_late(&mut self) {
        if self.deadlines.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some(&(until, conn)) = self.deadlines.front() {
            match self.waiting(conn) {
                Some(_) if until > now => break,
                Some(place) => {
                    count(&self.counters.late);
                    self.close_without_a_word(place);
                }
                None => {}
            }
            self.deadlines.pop_front();
        }
    }

    /// The connection's index, if it still waits for its header.
    fn waiting(&self, conn: Conn) -> Option<u32> {
        let place = self.place(conn)?;
        let beginning = &self.beginnings[place];
        (beginning.conn == conn && !beginning.is_told).then_some(place)
    }

    fn wait_time(&self, timeout: Option<Duration>) -> Option<Duration> {
        if !self.again.is_empty() {
            return Some(Duration::ZERO);
        }
        match self.deadlines.front() {
            None => timeout,
            Some((until, _)) => {
                let left = until.saturating_duration_since(Instant::now());
                Some(timeout.map_or(left, |timeout| timeout.min(left)))
            }
        }
    }
}

impl<N: Net> Net for Proxied<N> {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.sweep_late();
        let wait = self.wait_time(timeout);
        let mut reported = std::mem::take(&mut self.events);
        let polled = self.net.poll(wait, &mut reported);
        events.extend(self.again.drain(..).map(Event::Readable));
        for event in reported.drain(..) {
            self.translate(event, events);
        }
        self.events = reported;
        polled
    }

    fn read(&mut self, conn: Conn, buffer: &mut [u8]) -> Read {
        match self.place(conn) {
            None => self.net.read(conn, buffer),
            Some(place) => self.read_beginning(place, buffer),
        }
    }

    fn write(&mut self, conn: Conn, parts: &[IoSlice<'_>]) -> Write {
        self.net.write(conn, parts)
    }

    fn shutdown_write(&mut self, conn: Conn) {
        self.net.shutdown_write(conn);
    }

    fn close(&mut self, conn: Conn, how: Close) {
        if let Some(place) = self.place(conn) {
            self.forget(place, OPEN);
        }
        self.again.retain(|other| *other != conn);
        self.net.close(conn, how);
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

    fn pause_accepting(&mut self) {
        self.net.pause_accepting();
    }

    fn stop_accepting(&mut self) {
        self.net.stop_accepting();
    }

    fn resume_accepting(&mut self) {
        self.net.resume_accepting();
    }

    fn memory(&self, memory: &mut Components) {
        self.net.memory(memory);
        let beginnings = self.beginnings.iter();
        let bytes: usize = beginnings.map(|(_, beginning)| beginning.bytes.capacity()).sum();
        let lists = vector_bytes::<u32>(self.places.len())
            + vector_bytes::<(Instant, Conn)>(self.deadlines.capacity())
            + vector_bytes::<Event>(self.events.capacity())
            + vector_bytes::<Conn>(self.again.capacity());
        memory.add(Component::Network, bytes + lists + self.beginnings.allocated_bytes());
    }
}

mod handing;
#[cfg(test)]
mod tests;

pub(crate) use handing::layout;
