//! The loop of one I/O thread: the network and the mailboxes in, the network and the mailboxes out.
//!
//! Steps 1, 4, 7 and 8 of the path. A turn: wait, read ready connections, let edge and home process
//! the bytes, exchange letters, write every dirty connection once. Generic over the network and the
//! mailbox, so that the simulator runs the same code. Invariants: one `now` per turn; a
//! turn does a bounded amount of work and continues with the rest in the next; only `poll` waits.

use crate::authenticating::Authenticating;
use crate::door::Door;
use crate::journal::JournalSender;
use crate::mailbox::{Control, Mailbox, Post};
use crate::orders::Order;
use crate::pressure::SharedPressure;
use crate::timing::Watch;
use crate::users::Users;
use broker::disk::DiskLetter;
use broker::edge::{Edge, LETTERS_AHEAD, Pressure, Written};
use broker::engine::EngineLetter;
use broker::entitlement::Authenticator;
use broker::home::{Home, HomeOutputs};
use broker::mail::{EdgeId, HomeId, ToEdge, ToHome};
use broker::now::Now;
use broker::settings::Settings;
use log::Memory;
use net::{Certified, Close, Conn, Event, Net, Read, Write};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

mod doorway;
mod exchanging;
mod frozen;
mod handing;
mod inspecting;
mod reporting;

pub use handing::state_layout;

/// Size of the receive buffer of a thread, in bytes.
const RECEIVE_BYTES: usize = 128 << 10;
/// Maximum number of reads in one turn; the next turn continues with readable sockets.
const READS_MAX: usize = 512;

/// The clock of a reactor.
pub trait Clock {
    /// The present time.
    fn now(&mut self) -> Now;

    /// The monotonic part of the time in microseconds, at half the cost.
    fn monotonic_us(&mut self) -> u64 {
        self.now().monotonic_ms * 1_000
    }

    /// Both times of the same moment.
    fn now_and_us(&mut self) -> (Now, u64) {
        let now = self.now();
        (now, now.monotonic_ms * 1_000)
    }
}

/// Whether the loop continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Take another turn.
    Continue,
    /// The shard must stop.
    Stop,
}

/// One I/O thread: an edge, and a home if it has that role.
pub struct Reactor<N, M, C> {
    net: N,
    mailbox: M,
    clock: C,
    id: u16,
    edge: Edge,
    home: Option<Home>,
    home_out: HomeOutputs,
    door: Option<Door>,
    users: Arc<Users>,
    pressure: Arc<SharedPressure>,
    pressed: Pressure,
    is_draining: bool,
    memory: Box<dyn Memory>,
    authenticating: Authenticating,
    inspecting: inspecting::Inspecting,
    journal: Option<JournalSender>,
    events: Vec<Event>,
    posts: Vec<Post>,
    ready: VecDeque<Conn>,
    buffer: Box<[u8]>,
    /// The largest number of bytes of one read.
    buffer_filled: usize,
    pump_again: bool,
    /// Steps of a live upgrade, for the thread.
    orders: VecDeque<Order>,
    /// Requests of the node that wait until the shard serves again; see `frozen`.
    held: Vec<Post>,
    /// Take another turn at once, even without events.
    turn_soon: bool,
    /// Whether accepting is suspended.
    is_held: bool,
    stopping: bool,
    watch: Watch,
    now: Now,
}

/// The parts of a reactor.
pub struct ReactorParts<N, M, C> {
    /// The network.
    pub net: N,
    /// The mailbox.
    pub mailbox: M,
    /// The clock.
    pub clock: C,
    /// The number of the thread, from 0.
    pub id: u16,
    /// The settings of all shards.
    pub settings: Arc<Settings>,
    /// The memory of segments.
    pub memory: Box<dyn Memory>,
    /// A random secret for the hash of topic names.
    pub hash_seed: (u64, u64),
    /// A home restored from logs on disk; without it, the home begins empty.
    pub home: Option<Home>,
    /// The authenticator, if any.
    pub authenticator: Option<Arc<dyn Authenticator>>,
    /// The admission table; none without limits.
    pub door: Option<Door>,
    /// Numbers of connections of each user, over all threads.
    pub users: Arc<Users>,
    /// The memory pressure of the process.
    pub pressure: Arc<SharedPressure>,
    /// The destination of events of clients, if any.
    pub journal: Option<JournalSender>,
}

impl<N: Net, M: Mailbox, C: Clock> Reactor<N, M, C> {
    /// Creates a reactor before its first turn.
    pub fn new(parts: ReactorParts<N, M, C>) -> Self {
        let ReactorParts {
            net,
            mailbox,
            mut clock,
            id,
            settings,
            memory,
            hash_seed,
            home,
            authenticator,
            door,
            users,
            pressure,
            journal,
        } = parts;
        let now = clock.now();
        let home = home.or_else(|| {
            (id < settings.homes_count).then(|| Home::new(settings.clone(), HomeId(id), hash_seed))
        });
        let authenticating = Authenticating::new(authenticator, mailbox.address());
        let mut edge = Edge::new(settings.clone(), EdgeId(id), now);
        edge.out.silent = net.knows_heard().then(Vec::new);
        Reactor {
            net,
            mailbox,
            clock,
            id,
            edge,
            home,
            home_out: HomeOutputs::new(settings.edges_count),
            door,
            users,
            pressure,
            pressed: Pressure::None,
            is_draining: false,
            memory,
            authenticating,
            inspecting: inspecting::Inspecting::default(),
            journal,
            events: Vec::new(),
            posts: Vec::new(),
            ready: VecDeque::new(),
            buffer: vec![0; RECEIVE_BYTES].into(),
            buffer_filled: 0,
            pump_again: false,
            orders: VecDeque::new(),
            held: Vec::new(),
            turn_soon: false,
            is_held: false,
            stopping: false,
            watch: Watch::new(),
            now,
        }
    }

    /// Takes turns until it must stop.
    ///
    /// # Errors
    /// The network as a whole fails.
    pub fn run(mut self) -> io::Result<()> {
        while self.turn()? == Turn::Continue {}
        Ok(())
    }

    /// Takes one turn: waits for events (unless work is left), and processes a bounded number of
    /// them.
    ///
    /// # Errors
    /// The network as a whole fails.
    pub fn turn(&mut self) -> io::Result<Turn> {
        let timeout =
            if std::mem::take(&mut self.turn_soon) { Some(Duration::ZERO) } else { self.timeout() };
        let mut events = std::mem::take(&mut self.events);
        self.net.poll(timeout, &mut events)?;
        let (now, now_us) = self.clock.now_and_us();
        self.now = now;
        self.watch.begin(now_us);
        self.feel_pressure();
        self.edge.turn(self.now);
        self.ask_about_silent();
        self.take_posts();
        self.edge.continue_resumed();
        for event in events.drain(..) {
            match event {
                Event::Accepted { conn, peer, listener } => self.accept(conn, peer.ip(), listener),
                Event::Readable(conn) => self.ready.push_back(conn),
                Event::Writable(conn) => self.edge.writable(conn),
                Event::Closed { conn, reason } => self.lose(conn, reason),
                Event::Connected(_) | Event::Woken => {}
            }
        }
        self.events = events;
        for Certified { conn, name, expires_s } in self.net.take_certified() {
            self.edge.certified(conn, &name, expires_s);
        }
        self.pace_listeners();
        self.read_ready();
        self.authenticating.turn(&mut self.edge, self.now);
        self.exchange();
        self.pump();
        self.exchange();
        self.flush();
        // Draining sockets request pages, and closed connections release topics: their letters
        // leave in this turn, too.
        self.exchange();
        if let Some(home) = &mut self.home {
            home.finish_turn(&mut self.home_out);
        }
        self.exchange();
        if !self.edge.out.journal.is_empty() {
            self.hand_over_journal();
        }
        self.watch.end(self.clock.monotonic_us());
        Ok(if self.stopping { Turn::Stop } else { Turn::Continue })
    }

    /// Sets the start of 32-bit counters of an edge before its first turn. For simulations.
    pub fn begin_counters_at(&mut self, value: u32) {
        self.edge.begin_counters_at(value);
    }

    /// Applies a revocation.
    pub fn revocations_changed(&mut self) {
        self.edge.revocations_changed();
    }

    /// The edge role, for inspection.
    pub fn edge(&self) -> &Edge {
        &self.edge
    }

    /// The home role, if this thread has it.
    pub fn home(&self) -> Option<&Home> {
        self.home.as_ref()
    }

    /// The network, for its owner's own calls.
    pub fn net_mut(&mut self) -> &mut N {
        &mut self.net
    }

    fn timeout(&self) -> Option<Duration> {
        let home_has_more = self.home.as_ref().is_some_and(Home::has_more);
        if !self.ready.is_empty()
            || self.edge.has_more()
            || self.pump_again
            || home_has_more
            || self.authenticating.has_more()
        {
            return Some(Duration::ZERO);
        }
        let edge = self.edge.next_deadline_ms().map(|at| at.saturating_sub(self.now.monotonic_ms));
        let home = self
            .home
            .as_ref()
            .and_then(Home::next_deadline_ms)
            .map(|at| at.saturating_sub(self.now.monotonic_ms));
        let door = self
            .door
            .as_ref()
            .and_then(Door::next_deadline_ms)
            .map(|at| at.saturating_sub(self.now.monotonic_ms));
        [edge, home, door].into_iter().flatten().min().map(Duration::from_millis)
    }

    fn take_posts(&mut self) {
        let mut posts = std::mem::take(&mut self.posts);
        self.mailbox.receive(&mut posts);
        self.deal_with(&mut posts);
        self.posts = posts;
    }

    fn deal_with(&mut self, posts: &mut Vec<Post>) {
        for post in posts.drain(..) {
            match post {
                Post::Requests { from, stamps, mut requests } => {
                    self.watch.received(stamps);
                    self.give_home(from, stamps.since_us, &mut requests);
                }
                Post::Letters { from, stamps, mut letters } => {
                    self.watch.received(stamps);
                    self.give_edge(from, stamps.since_us, &mut letters);
                }
                Post::Disk { log, since_us, letters } => {
                    self.watch.home_takes(since_us);
                    self.give_home_from_disk(log, letters);
                }
                Post::Engine { letters } => self.give_home_from_engine(letters),
                Post::Control(control) => self.control(control),
            }
        }
    }

    fn control(&mut self, control: Control) {
        match control {
            Control::Report(reply) => {
                let report = self.report();
                // The caller has stopped waiting: nothing is lost.
                let _ = reply.send(report);
            }
            Control::Drain { window_ms } => {
                self.is_draining = true;
                self.net.stop_accepting();
                self.edge.drain(window_ms);
            }
            Control::Publish(message) => self.edge.publish_own(&message),
            Control::NodesLive(names) => {
                if let Some(home) = &mut self.home {
                    home.nodes_live(self.now, &names);
                }
            }
            Control::Revoked => self.edge.revocations_changed(),
            Control::Settings(settings) => {
                if let Some(home) = &mut self.home {
                    home.set_settings(settings.clone());
                }
                self.edge.set_settings(settings);
            }
            Control::Decided(decided) => {
                self.authenticating.answered(&mut self.edge, decided, self.now);
            }
            Control::Inspect(question, asker) => self.inspect(question, asker),
            Control::Upgrade(order) => self.orders.push_back(order),
            Control::Stop => self.stopping = true,
        }
    }

    fn give_home(&mut self, from: u16, since_us: u64, requests: &mut Vec<ToHome>) {
        self.watch.home_takes(since_us);
        let Some(home) = &mut self.home else {
            debug_assert!(false, "requests go to homes");
            return;
        };
        let (memory, out) = (&mut *self.memory, &mut self.home_out);
        home.handle_all(self.now, EdgeId(from), requests, memory, out);
    }

    fn give_home_from_disk(&mut self, log: u16, letters: Vec<DiskLetter>) {
        let Some(home) = &mut self.home else {
            debug_assert!(false, "logs answer homes");
            return;
        };
        for letter in letters {
            home.disk(self.now, log, letter, &mut *self.memory, &mut self.home_out);
        }
    }

    fn give_home_from_engine(&mut self, letters: Vec<EngineLetter>) {
        let Some(home) = &mut self.home else {
            debug_assert!(false, "the engine's letters go to homes");
            return;
        };
        for letter in letters {
            home.engine(self.now, letter, &mut *self.memory, &mut self.home_out);
        }
    }

    fn give_edge(&mut self, from: u16, since_us: u64, letters: &mut Vec<ToEdge>) {
        let before = self.edge.delivered_live();
        let mut left = letters.drain(..);
        while !left.as_slice().is_empty() {
            self.edge.look_ahead(HomeId(from), left.as_slice());
            for letter in left.by_ref().take(LETTERS_AHEAD) {
                self.edge.handle(HomeId(from), letter);
                if self.edge.wants_flush() {
                    self.flush();
                }
            }
        }
        let count = self.edge.delivered_live().wrapping_sub(before);
        self.watch.delivered(since_us, count);
    }

    fn read_ready(&mut self) {
        for _ in 0..self.ready.len().min(READS_MAX) {
            let Some(conn) = self.ready.pop_front() else {
                break;
            };
            if !self.edge.wants_read(conn) {
                continue;
            }
            match self.net.read(conn, &mut self.buffer) {
                Read::Data(bytes) => {
                    self.buffer_filled = self.buffer_filled.max(bytes);
                    self.edge.received(conn, &mut self.buffer[..bytes]);
                    if bytes == self.buffer.len() {
                        self.ready.push_back(conn);
                    }
                }
                Read::Blocked => {}
                Read::Ended => self.edge.ended(conn),
                Read::Failed(reason) => {
                    self.lose(conn, reason);
                    self.net.close(conn, Close::Reset);
                }
            }
            if self.edge.wants_flush() {
                self.flush();
            }
        }
    }

    fn lose(&mut self, conn: Conn, reason: io::ErrorKind) {
        self.leave(conn);
        if is_silence(reason) { self.edge.vanished(conn) } else { self.edge.lost(conn) }
    }

    fn pump(&mut self) {
        if let Some(home) = &mut self.home {
            self.pump_again = home.pump(self.now, &mut *self.memory, &mut self.home_out);
        }
    }

    fn flush(&mut self) {
        let net = &mut self.net;
        self.edge.flush(&mut |conn, parts| match net.write(conn, parts) {
            Write::Wrote(bytes) => Written::Bytes(bytes),
            Write::Blocked => Written::Blocked,
            Write::Failed(_) => Written::Failed,
        });
    }
}

/// Whether a connection was lost because the peer's host is silent: on the same link its address
/// does not resolve, and the kernel reports that instead.
fn is_silence(reason: io::ErrorKind) -> bool {
    matches!(
        reason,
        io::ErrorKind::TimedOut
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
    )
}
