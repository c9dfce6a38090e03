//! A worker: one thread with its own network (the kernel's sockets in a descriptor table of its
//! own, or a TCP of our own) and a pool of client connections.
//!
//! Place: under every benchmark. The pool paces connects, stores unfinished input, writes the
//! output of protocols, and reconnects after losses. The [`Protocol`] gives the bytes their
//! meaning.
//!
//! Invariants: an idle connection owns its [`Slot`] (32 bytes), four bytes of index, and whatever
//! the protocol keeps, and no buffer; one receive buffer per thread; a turn does a bounded amount
//! of work; counters leave ten times a second.

mod connecting;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use net::kernel::{Handover, Kernel, KernelOptions, Waker};
use net::mixed::Mixed;
use net::system::unshare_table;
use net::user::UserNetwork;
use net::{Close, Conn, Event, Net, Read, Write};
use stdx::prng::Prng;
use tls::Tls;

use super::absences::Absences;
use super::assignment::Assignment;
use super::protocol::{Outgoing, Protocol, Turn};
use super::route::Routes;
use super::shortage::Bounds;
use super::tally::Tally;
use crate::pacing::Pace;
use crate::payload::Clock;
use crate::source::Sources;

const RECEIVE_BYTES: usize = 256 * 1024;
/// Default of [`Worker::connecting_max`].
pub(super) const CONNECTING_MAX: u32 = 2_000;
const HAND_OVER_NS: u64 = 100_000_000;
/// The longest step of a protocol that gathers.
const GATHERING_MAX: Duration = Duration::from_millis(10);
/// Parts of one vectored write.
const WRITE_PARTS_MAX: usize = 64;
/// Connections of our own TCP beyond the clients': those that are closing.
const CLOSING_MAX: u32 = 65_536;
/// Pauses between attempts are random, below a bound that doubles up to this one.
pub(super) const RETRY_NS_MAX: u64 = 10_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Not begun, or waiting for its next attempt.
    Idle,
    Connecting,
    Handshaking,
    Open,
    /// Not wanted any more.
    Gone,
}

/// One client. 32 bytes.
struct Slot {
    conn: Conn,
    /// The unfinished end of the input, only while there is one. A boxed vector is 8 bytes here, a
    /// vector 24.
    #[allow(clippy::box_collection)]
    tail: Option<Box<Vec<u8>>>,
    /// The intended time of the present connect.
    since_ns: u64,
    phase: Phase,
    attempts: u8,
    /// Lost connections and failed connects; wraps around.
    losses: u8,
    is_readable: bool,
}

const _: () = assert!(size_of::<Slot>() <= 32);

/// The parameters of a worker.
pub(super) struct Worker<P> {
    pub(super) number: u64,
    pub(super) workers: u64,
    /// Places that there may ever be.
    pub(super) clients_max: u32,
    pub(super) sources: Sources,
    pub(super) connect_pace: Pace,
    /// Maximum number of connections that have not finished their handshake.
    pub(super) connecting_max: u32,
    pub(super) has_private_tables: bool,
    /// The longest pause before another attempt.
    pub(super) retry_ns_max: u64,
    pub(super) busy_poll: Arc<AtomicBool>,
    /// The TLS client, if an address uses TLS.
    pub(super) tls: Option<tls::Client>,
    pub(super) absences: Absences,
    pub(super) protocol: P,
    pub(super) seed: u64,
    pub(super) shared: Arc<Shared>,
    pub(super) waker: Arc<Waker>,
    /// Wakers of all workers: their numbers stay open in every table.
    pub(super) keep: Vec<std::os::fd::RawFd>,
    /// A TCP of our own, in place of the kernel's sockets.
    pub(super) network: Option<UserNetwork>,
    /// Gets the result of opening the network.
    pub(super) opened: Sender<io::Result<()>>,
}

/// The state that a worker and its owner share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) tally: Mutex<Tally>,
    /// The worker is to end once it is settled.
    pub(super) ending: AtomicBool,
    pub(super) assignment: Assignment,
}

impl<P> Worker<P> {
    /// The number of a place's client among those of all workers.
    fn client(&self, place: u32) -> u64 {
        u64::from(place) * self.workers + self.number
    }
}

impl<P: Protocol> Worker<P> {
    /// The thread's whole life.
    pub(super) fn run(self) {
        if self.has_private_tables {
            // Where it is refused after all, the plan's limits say so through failing connects.
            let _ = unshare_table(&self.keep);
        }
        let opened = self.open();
        let (result, net) = match opened {
            Ok(net) => (Ok(()), Some(net)),
            Err(error) => (Err(error), None),
        };
        // An owner that has failed meanwhile has set the flag to end.
        let _ = self.opened.send(result);
        if let Some(net) = net {
            Pool::new(self, Tls::new(net)).run();
        }
    }

    /// Opens the network.
    fn open(&self) -> io::Result<Mixed> {
        if let Some(network) = &self.network {
            let connections_max = self.clients_max.saturating_add(CLOSING_MAX);
            return network.open(self.waker.clone(), connections_max).map(Mixed::from);
        }
        let options = KernelOptions {
            table_threads_count: if self.has_private_tables { 1 } else { self.workers as u32 },
            registered_max: u32::MAX,
            ..KernelOptions::default()
        };
        Kernel::new(options, self.waker.clone(), Handover::alone()).map(Mixed::from)
    }
}

struct Pool<P> {
    worker: Worker<P>,
    routes: Arc<Routes>,
    /// Clients wanted now.
    wanted: u32,
    net: Tls<Mixed>,
    slots: Vec<Slot>,
    /// Which client a connection of the kernel is.
    places: Vec<u32>,
    /// Next attempts after losses, by time.
    retries: BinaryHeap<Reverse<(u64, u32)>>,
    /// A connect could not even begin: none before this time.
    rest_until_ns: u64,
    bounds: Bounds,
    /// Connects under way, in order of their begin, to find those that never end.
    handshakes: std::collections::VecDeque<(u64, u32)>,
    connecting: u32,
    next_place: u32,
    tally: Tally,
    random: Prng,
    outgoing: Outgoing,
    /// The client whose connection is to be closed after its output.
    leaving: Option<u32>,
    readable: Vec<u32>,
    handed_over_ns: u64,
    is_sent_away: bool,
    ending_since_ns: Option<u64>,
    now_ns: u64,
}

impl<P: Protocol> Pool<P> {
    fn new(worker: Worker<P>, net: Tls<Mixed>) -> Pool<P> {
        let random = Prng::new(worker.seed);
        let assignment = worker.shared.assignment.now();
        Pool {
            routes: assignment.routes,
            wanted: assignment.clients.min(worker.clients_max),
            net,
            slots: Vec::with_capacity(worker.clients_max as usize),
            places: Vec::new(),
            retries: BinaryHeap::new(),
            rest_until_ns: 0,
            bounds: Bounds::read(),
            handshakes: std::collections::VecDeque::new(),
            connecting: 0,
            next_place: 0,
            tally: Tally::default(),
            random,
            outgoing: Outgoing::default(),
            leaving: None,
            readable: Vec::new(),
            handed_over_ns: 0,
            is_sent_away: false,
            ending_since_ns: None,
            now_ns: Clock::Monotonic.now_ns(),
            worker,
        }
    }

    fn run(mut self) {
        let mut events = Vec::new();
        let mut buffer = vec![0; RECEIVE_BYTES];
        loop {
            let mut timeout = self.timeout();
            if timeout <= GATHERING_MAX && self.worker.protocol.gathers() {
                // Events wait until the step, and do not wake the thread.
                std::thread::sleep(std::mem::take(&mut timeout));
            }
            if let Err(error) = self.net.poll(Some(timeout), &mut events) {
                self.tally.trouble = Some(format!("poll: {error}"));
                break;
            }
            self.now_ns = Clock::Monotonic.now_ns();
            for event in events.drain(..) {
                self.event(event);
            }
            self.follow_assignment();
            self.send_away();
            if !self.worker.absences.is_stalled(self.now_ns) {
                self.read_all(&mut buffer);
                self.connect_due();
                self.drop_stuck_handshakes();
            }
            if self.worker.protocol.wake_ns().is_some_and(|at| at <= self.now_ns) {
                self.call(None, |protocol, turn| protocol.tick(turn));
                self.flush();
            }
            if self.now_ns >= self.handed_over_ns + HAND_OVER_NS {
                self.hand_over();
            }
            if self.is_ended() {
                break;
            }
        }
        self.part();
        self.hand_over();
    }

    /// Says goodbye where TLS has a word for it: without, an end looks like an attacker's cut.
    fn part(&mut self) {
        if self.worker.tls.is_none() {
            return;
        }
        for slot in &self.slots {
            if matches!(slot.phase, Phase::Handshaking | Phase::Open) {
                self.net.close(slot.conn, Close::Graceful);
            }
        }
        // Closes take effect in a poll. Its events are ignored.
        let _ = self.net.poll(Some(Duration::ZERO), &mut Vec::new());
    }

    fn is_ended(&mut self) -> bool {
        if !self.worker.shared.ending.load(Ordering::Acquire) {
            return false;
        }
        let since_ns = *self.ending_since_ns.get_or_insert(self.now_ns);
        self.worker.protocol.end();
        self.worker.protocol.is_settled() && self.outgoing.backlog_bytes == 0
            || self.now_ns >= since_ns + self.worker.protocol.settle_ns()
    }

    fn timeout(&self) -> Duration {
        if self.worker.busy_poll.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let mut until = self.handed_over_ns + HAND_OVER_NS;
        if self.worker.absences.is_stalled(self.now_ns) {
            // Readable connections stay readable.
            until = until.min(self.worker.absences.stall.end);
            let now_ns = Clock::Monotonic.now_ns();
            return Duration::from_nanos(until.saturating_sub(now_ns));
        }
        if !self.readable.is_empty() {
            return Duration::ZERO;
        }
        if let Some(at) = self.worker.absences.next(self.now_ns) {
            until = until.min(at);
        }
        // With as many under way as may be, none is begun before one of them ends, however long ago
        // it was due.
        if self.connecting < self.worker.connecting_max {
            let mut due = u64::MAX;
            if self.next_place < self.wanted {
                due = self.worker.connect_pace.due_ns();
            }
            if let Some(Reverse((at, _))) = self.retries.peek() {
                due = due.min(*at);
            }
            until = until.min(due.max(self.rest_until_ns));
        }
        if let Some(at) = self.worker.protocol.wake_ns() {
            until = until.min(at);
        }
        let now_ns = Clock::Monotonic.now_ns();
        Duration::from_nanos(until.saturating_sub(now_ns))
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Connected(conn) => {
                let Some(place) = self.place_of(conn) else {
                    return;
                };
                self.slots[place as usize].phase = Phase::Handshaking;
                self.call(Some(place), |protocol, turn| protocol.begin(place, turn));
                self.flush();
            }
            Event::Readable(conn) => {
                let Some(place) = self.place_of(conn) else {
                    return;
                };
                self.mark_readable(place);
            }
            Event::Writable(conn) => {
                let Some(place) = self.place_of(conn) else {
                    return;
                };
                if let Some(bytes) = self.outgoing.backlog.remove(&place) {
                    self.outgoing.backlog_bytes -= bytes.len();
                    self.write(&[(place, &bytes)]);
                }
            }
            Event::Closed { conn, reason } => {
                let Some(place) = self.place_of(conn) else {
                    return;
                };
                let failure = self.net.take_failure(conn);
                let why = failure.map(|failure| format!("TLS: {failure}"));
                self.lost(place, why.unwrap_or_else(|| reason.to_string()));
            }
            Event::Accepted { .. } | Event::Woken => {}
        }
    }

    fn mark_readable(&mut self, place: u32) {
        let slot = &mut self.slots[place as usize];
        if !slot.is_readable {
            slot.is_readable = true;
            self.readable.push(place);
        }
    }

    /// Reads once from every readable connection; those with more stay in the list for the next
    /// turn.
    fn read_all(&mut self, buffer: &mut [u8]) {
        let places = std::mem::take(&mut self.readable);
        for place in places {
            let slot = &mut self.slots[place as usize];
            if !std::mem::take(&mut slot.is_readable) {
                continue;
            }
            let mut tail = slot.tail.take();
            let held = match &mut tail {
                // The tail goes to the front of the shared buffer, unless it is too large for that.
                Some(bytes) if bytes.len() <= buffer.len() / 2 => {
                    buffer[..bytes.len()].copy_from_slice(bytes);
                    bytes.len()
                }
                Some(_) | None => 0,
            };
            let is_large = held == 0 && tail.is_some();
            match self.net.read(slot.conn, &mut buffer[held..]) {
                Read::Data(count) => {
                    if count == buffer.len() - held {
                        slot.is_readable = true;
                        self.readable.push(place);
                    }
                    self.now_ns = Clock::Monotonic.now_ns();
                    if is_large {
                        let mut bytes = tail.take().map(|bytes| *bytes).unwrap_or_default();
                        bytes.extend_from_slice(&buffer[..count]);
                        self.take_in(place, &mut bytes, None);
                    } else {
                        self.take_in(place, &mut buffer[..held + count], tail);
                    }
                }
                Read::Blocked => slot.tail = tail,
                Read::Ended => self.fail(place, "the server closed the connection".to_owned()),
                Read::Failed(kind) => self.fail(place, kind.to_string()),
            }
        }
    }

    /// Lets the protocol take what it can and keeps the rest, in `spare` if it is at hand.
    #[allow(clippy::box_collection)]
    fn take_in(&mut self, place: u32, bytes: &mut [u8], spare: Option<Box<Vec<u8>>>) {
        let result = self.call(Some(place), |protocol, turn| protocol.receive(place, bytes, turn));
        match result {
            Ok(consumed) if consumed < bytes.len() => {
                let mut rest = spare.unwrap_or_default();
                rest.clear();
                rest.extend_from_slice(&bytes[consumed..]);
                self.slots[place as usize].tail = Some(rest);
            }
            Ok(_) => {}
            Err(why) => return self.fail(place, why),
        }
        let leaving = self.leaving.take();
        self.flush();
        if let Some(place) = leaving {
            self.net.close(self.slots[place as usize].conn, Close::Graceful);
            self.lost(place, "the client left".to_owned());
        }
    }

    /// Calls the protocol about a client, and notes the end of its handshake.
    fn call<T>(&mut self, place: Option<u32>, act: impl FnOnce(&mut P, &mut Turn<'_>) -> T) -> T {
        let client = place.map_or(0, |place| self.worker.client(place));
        let slot = place.and_then(|place| self.slots.get(place as usize));
        let losses = slot.map_or(0, |slot| slot.losses);
        let mut turn = Turn {
            now_ns: self.now_ns,
            tally: &mut self.tally,
            random: &mut self.random,
            outgoing: &mut self.outgoing,
            route: self.routes.of(client, losses),
            return_ns: self.worker.absences.return_ns(self.now_ns),
            is_away: self.worker.absences.is_away(self.now_ns),
            opened: false,
            leaves: false,
        };
        let result = act(&mut self.worker.protocol, &mut turn);
        self.leaving = place.filter(|_| turn.leaves);
        if turn.opened
            && let Some(slot) = place.and_then(|place| self.slots.get_mut(place as usize))
            && slot.phase == Phase::Handshaking
        {
            slot.phase = Phase::Open;
            slot.attempts = 0;
            self.connecting -= 1;
            self.tally.connections += 1;
            self.tally.connects += 1;
            self.tally.connect_time.record_ns(self.now_ns.saturating_sub(slot.since_ns));
            self.tally.connecting.add(slot.since_ns, self.now_ns);
        }
        result
    }

    fn flush(&mut self) {
        if self.outgoing.marks.is_empty() {
            return;
        }
        let bytes = std::mem::take(&mut self.outgoing.bytes);
        let mut marks = std::mem::take(&mut self.outgoing.marks);
        let ends = marks.iter().skip(1).map(|(_, next)| *next).chain([bytes.len()]);
        let span = |((place, start), end): (&(u32, usize), usize)| (*place, &bytes[*start..end]);
        let mut spans: Vec<(u32, &[u8])> = marks.iter().zip(ends).map(span).collect();
        // One write for each client. The sort keeps the order of its bytes.
        spans.sort_by_key(|(place, _)| *place);
        for spans in spans.chunk_by(|(place, _), (next, _)| place == next) {
            for spans in spans.chunks(WRITE_PARTS_MAX) {
                self.write(spans);
            }
        }
        marks.clear();
        if self.outgoing.bytes.is_empty() {
            self.outgoing.bytes = bytes;
            self.outgoing.bytes.clear();
            self.outgoing.marks = marks;
        }
    }

    /// Writes the parts of one client, at most [`WRITE_PARTS_MAX`].
    fn write(&mut self, spans: &[(u32, &[u8])]) {
        let Some((place, _)) = spans.first().copied() else { return };
        let slot = &self.slots[place as usize];
        let length: usize = spans.iter().map(|(_, bytes)| bytes.len()).sum();
        if length == 0 || !matches!(slot.phase, Phase::Handshaking | Phase::Open) {
            return;
        }
        let mut taken = 0;
        if !self.outgoing.backlog.contains_key(&place) {
            let mut parts = [IoSlice::new(&[]); WRITE_PARTS_MAX];
            for (part, (_, bytes)) in parts.iter_mut().zip(spans) {
                *part = IoSlice::new(bytes);
            }
            taken = match self.net.write(slot.conn, &parts[..spans.len()]) {
                Write::Wrote(count) => count,
                Write::Blocked => 0,
                Write::Failed(kind) => return self.fail(place, kind.to_string()),
            };
        }
        if taken < length {
            let waiting = self.outgoing.backlog.entry(place).or_default();
            let left = spans.iter().flat_map(|(_, bytes)| *bytes).skip(taken);
            waiting.extend(left);
            self.outgoing.backlog_bytes += length - taken;
        }
    }

    /// Drops all connections at once when their time has come; they return by the pace of new ones.
    fn send_away(&mut self) {
        if self.is_sent_away || self.now_ns < self.worker.absences.away.get().start {
            return;
        }
        self.is_sent_away = true;
        for place in 0..self.next_place {
            let phase = self.slots[place as usize].phase;
            if matches!(phase, Phase::Connecting | Phase::Handshaking | Phase::Open) {
                self.net.close(self.slots[place as usize].conn, Close::Reset);
                self.forget(place);
            } else {
                // It has lost its connection already, and is away with the others.
                self.call(Some(place), |protocol, turn| protocol.lost(place, turn));
            }
            self.slots[place as usize].attempts = 0;
        }
        self.retries.clear();
        self.next_place = 0;
        let return_ns = self.worker.absences.away.get().end;
        match self.worker.absences.return_rate {
            Some(rate) => {
                let (number, workers) = (self.worker.number, self.worker.workers);
                self.worker.connect_pace = Pace::new(return_ns, rate, number, workers);
            }
            None => self.worker.connect_pace.restart(return_ns),
        }
    }

    /// Removes clients that the owner does not want any more; new ones are connected when their
    /// time has come.
    fn follow_assignment(&mut self) {
        let Some(assignment) = self.worker.shared.assignment.take() else {
            return;
        };
        if self.next_place >= self.wanted {
            self.worker.connect_pace.restart(self.now_ns);
        }
        self.wanted = assignment.clients.min(self.worker.clients_max);
        // Those who go and those who come in their places may have different routes.
        let kept = assignment.kept.min(self.wanted);
        self.keep_below(kept);
        self.routes = assignment.routes;
    }

    fn keep_below(&mut self, kept: u32) {
        if self.next_place <= kept {
            return;
        }
        for place in kept..self.next_place {
            let phase = self.slots[place as usize].phase;
            if matches!(phase, Phase::Connecting | Phase::Handshaking | Phase::Open) {
                let conn = self.slots[place as usize].conn;
                self.net.close(conn, Close::Graceful);
                self.forget(place);
            }
            self.slots[place as usize].phase = Phase::Gone;
        }
        self.next_place = kept;
        self.worker.protocol.resize(kept);
    }

    fn place_of(&self, conn: Conn) -> Option<u32> {
        let place = *self.places.get(conn.index as usize)?;
        let slot = self.slots.get(place as usize)?;
        let is_live = matches!(slot.phase, Phase::Connecting | Phase::Handshaking | Phase::Open);
        (is_live && slot.conn == conn).then_some(place)
    }

    /// We end a connection, and come back.
    fn fail(&mut self, place: u32, why: String) {
        self.net.close(self.slots[place as usize].conn, Close::Reset);
        self.lost(place, why);
    }

    fn lost(&mut self, place: u32, why: String) {
        match self.slots[place as usize].phase {
            Phase::Open => self.tally.disconnects += 1,
            Phase::Connecting | Phase::Handshaking => self.tally.connects_failed += 1,
            Phase::Idle | Phase::Gone => return,
        }
        self.tally.trouble = Some(why);
        self.forget(place);
        self.retry_later(place);
    }

    fn forget(&mut self, place: u32) {
        let slot = &mut self.slots[place as usize];
        if slot.phase == Phase::Open {
            self.tally.connections -= 1;
        } else {
            self.connecting -= 1;
        }
        slot.phase = Phase::Idle;
        slot.tail = None;
        slot.is_readable = false;
        if let Some(bytes) = self.outgoing.backlog.remove(&place) {
            self.outgoing.backlog_bytes -= bytes.len();
        }
        self.call(Some(place), |protocol, turn| protocol.lost(place, turn));
    }

    fn hand_over(&mut self) {
        self.handed_over_ns = self.now_ns;
        self.call(None, |protocol, turn| protocol.look(turn));
        let mut shared = self.worker.shared.tally.lock().unwrap_or_else(PoisonError::into_inner);
        shared.merge(&self.tally);
        self.tally.clear();
    }
}
