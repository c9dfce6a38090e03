//! The applications of a world: streams in both directions, by a plan.

use super::pick;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::Duration;
use stdx::prng::Prng;
use tcp::{Close, Conn, Event, Frames, Read, Stack, Time, Write};

/// The plan of one connection.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Bytes of the opener's stream, and of the other end's.
    pub bytes: [usize; 2],
    /// Greatest number of bytes of one write.
    pub write_max: usize,
    /// Pause between writes, in microseconds.
    pub pause_us: u64,
    /// Bytes of one read, and the pause after a read of a slow end.
    pub read_max: usize,
    pub read_pause_us: u64,
    /// The opener ends the connection before everything is written: with a reset.
    pub is_reset: bool,
    /// The opener ends its direction before it reads; else it closes when it has everything.
    pub has_half_close: bool,
    /// The time of the opening after the start, in microseconds.
    pub start_us: u64,
}

impl Plan {
    pub fn random(prng: &mut Prng) -> Plan {
        let bytes = |prng: &mut Prng| match prng.below(4) {
            0 => 0,
            1 => prng.below(100) as usize,
            2 => prng.below(20_000) as usize,
            _ => prng.below(400_000) as usize,
        };
        Plan {
            bytes: [bytes(prng), bytes(prng)],
            write_max: pick(prng, [1, 100, 1_460, 100_000]),
            pause_us: if prng.chance(0.5) { 0 } else { prng.below(3_000) },
            read_max: pick(prng, [7, 1_000, 65_536]),
            read_pause_us: if prng.chance(0.7) { 0 } else { prng.below(20_000) },
            is_reset: prng.chance(0.1),
            has_half_close: prng.chance(0.5),
            start_us: prng.below(1_000_000),
        }
    }

    /// Tiny writes of long streams would only take time.
    fn write_max(&self) -> usize {
        self.write_max.max(self.bytes[0].max(self.bytes[1]) / 2_000)
    }
}

/// The byte of a stream at a place.
fn byte(plan: usize, direction: usize, at: usize) -> u8 {
    (at * 31 + at / 251 + plan * 7 + direction * 101) as u8
}

struct Stream {
    conn: Option<Conn>,
    plan: usize,
    is_live: bool,
    written: usize,
    read: usize,
    is_readable: bool,
    is_blocked: bool,
    has_ended: bool,
    has_shut_down: bool,
    is_closed: bool,
    lost: Option<std::io::ErrorKind>,
    write_at: Time,
    read_at: Time,
    event_at: Time,
}

/// The time after which an end stops waiting for a peer that has reset the connection: the reset,
/// or the answer that it needs, may be lost.
const RESET_PATIENCE: Duration = Duration::from_secs(300);

pub struct Application {
    is_opener: bool,
    to: SocketAddr,
    plans: Vec<Plan>,
    prng: Prng,
    start: Option<Time>,
    streams: Vec<Stream>,
    /// Streams by connection. The opener's port tells the plan to the other end.
    by_conn: BTreeMap<Conn, usize>,
    next_plan: usize,
    writes: u64,
}

impl Application {
    pub fn new(is_opener: bool, to: SocketAddr, plans: Vec<Plan>, prng: Prng) -> Application {
        Application {
            is_opener,
            to,
            plans,
            prng,
            start: None,
            streams: Vec::new(),
            by_conn: BTreeMap::new(),
            next_plan: 0,
            writes: 0,
        }
    }

    /// Calls of `write` that took bytes.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    pub fn read_bytes(&self) -> u64 {
        self.streams.iter().map(|stream| stream.read as u64).sum()
    }

    fn stream(&mut self, plan: usize, conn: Option<Conn>) -> usize {
        self.streams.push(Stream {
            conn,
            plan,
            is_live: false,
            written: 0,
            read: 0,
            is_readable: false,
            is_blocked: false,
            has_ended: false,
            has_shut_down: false,
            is_closed: false,
            lost: None,
            write_at: Time(0),
            read_at: Time(0),
            event_at: Time(0),
        });
        self.streams.len() - 1
    }

    pub fn event(&mut self, event: &Event) {
        match *event {
            Event::Accepted { conn, peer, .. } => {
                // The opener's ports count from the first one.
                let plan = usize::from(peer.port()) - 32_768;
                let number = self.stream(plan, Some(conn));
                self.streams[number].is_live = true;
                let is_taken = |stream: &Stream| {
                    let has_index = stream.conn.is_some_and(|other| other.index == conn.index);
                    has_index && !stream.is_closed
                };
                assert!(!self.streams[..number].iter().any(is_taken), "{conn:?} is taken");
                assert!(self.by_conn.insert(conn, number).is_none(), "{conn:?} twice");
            }
            Event::Connected(conn) => {
                let stream = &mut self.streams[self.by_conn[&conn]];
                assert!(!stream.is_live);
                stream.is_live = true;
            }
            Event::Readable(conn) => {
                let stream = &mut self.streams[self.by_conn[&conn]];
                assert!(!stream.is_readable, "readable twice");
                stream.is_readable = true;
            }
            Event::Writable(conn) => {
                let stream = &mut self.streams[self.by_conn[&conn]];
                assert!(stream.is_blocked, "writable without a short write");
                stream.is_blocked = false;
            }
            Event::Closed { conn, reason } => {
                let stream = &mut self.streams[self.by_conn[&conn]];
                assert!(!stream.is_closed && stream.lost.is_none());
                stream.lost = Some(reason);
                stream.is_closed = true;
            }
        }
    }

    pub fn next_time(&self) -> Option<Time> {
        let start = self.start?;
        let opening = self.plans.get(self.next_plan).filter(|_| self.is_opener);
        let opening = opening.map(|plan| start + Duration::from_micros(plan.start_us));
        let streams = self.streams.iter().filter(|stream| stream.is_live && !stream.is_closed);
        let moments = streams.flat_map(|stream| {
            let total = self.plans[stream.plan].bytes[usize::from(!self.is_opener)];
            let is_writing = !stream.is_blocked && stream.written < total;
            [
                is_writing.then_some(stream.write_at),
                (stream.is_readable && !stream.has_ended).then_some(stream.read_at),
                self.may_be_reset(stream).then(|| stream.event_at + RESET_PATIENCE),
            ]
        });
        moments.flatten().chain(opening).min()
    }

    fn may_be_reset(&self, stream: &Stream) -> bool {
        self.plans[stream.plan].is_reset && !self.is_opener
    }

    pub fn act(&mut self, now: Time, stack: &mut Stack, frames: &mut dyn Frames) {
        let start = *self.start.get_or_insert(now);
        while self.is_opener
            && let Some(plan) = self.plans.get(self.next_plan)
            && start + Duration::from_micros(plan.start_us) <= now
        {
            let number = self.stream(self.next_plan, None);
            let conn = stack.connect(now, None, self.to, frames).expect("a port");
            self.streams[number].conn = Some(conn);
            self.by_conn.insert(conn, number);
            self.next_plan += 1;
        }
        for number in 0..self.streams.len() {
            if self.streams[number].is_live && !self.streams[number].is_closed {
                self.read_some(number, now, stack);
                self.write_some(number, now, stack, frames);
                self.end_some(number, now, stack, frames);
            }
        }
    }

    fn read_some(&mut self, number: usize, now: Time, stack: &mut Stack) {
        let direction = usize::from(self.is_opener);
        let stream = &mut self.streams[number];
        let (plan, conn) = (&self.plans[stream.plan], stream.conn.expect("a key"));
        while stream.is_readable && !stream.has_ended && stream.read_at <= now {
            let mut buffer = vec![0; self.prng.between(1, plan.read_max as u64) as usize];
            match stack.read(conn, &mut buffer) {
                Read::Data(count) => {
                    for (at, found) in buffer[..count].iter().enumerate() {
                        let expected = byte(stream.plan, direction, stream.read + at);
                        assert_eq!(*found, expected, "byte {} of {number}", stream.read + at);
                    }
                    stream.read += count;
                    stream.is_readable = count == buffer.len();
                }
                Read::Blocked => stream.is_readable = false,
                Read::Ended => stream.has_ended = true,
                Read::Lost(reason) => {
                    assert!(stream.lost.is_none(), "lost twice");
                    stream.lost = Some(reason);
                    stream.is_closed = true;
                    stack.close(conn, Close::Reset);
                    return;
                }
                Read::Dead => panic!("a dead key without an event"),
            }
            if plan.read_pause_us > 0 {
                stream.read_at = now + Duration::from_micros(plan.read_pause_us);
            }
        }
    }

    fn write_some(&mut self, number: usize, now: Time, stack: &mut Stack, frames: &mut dyn Frames) {
        let direction = usize::from(!self.is_opener);
        let stream = &mut self.streams[number];
        let (plan, conn) = (&self.plans[stream.plan], stream.conn.expect("a key"));
        let total = plan.bytes[direction];
        while stream.written < total && !stream.is_blocked && stream.write_at <= now {
            let length = self.prng.between(1, plan.write_max() as u64) as usize;
            let length = length.min(total - stream.written);
            let bytes: Vec<u8> =
                (0..length).map(|at| byte(stream.plan, direction, stream.written + at)).collect();
            let (first, second) = bytes.split_at(length / 3);
            match stack.write(now, conn, &[IoSlice::new(first), IoSlice::new(second)], frames) {
                Write::Wrote(count) => {
                    self.writes += 1;
                    stream.written += count;
                    stream.is_blocked = count < length;
                }
                Write::Blocked => stream.is_blocked = true,
                Write::Dead => panic!("a dead key without an event"),
            }
            if plan.pause_us > 0 {
                stream.write_at = now + Duration::from_micros(plan.pause_us);
            }
        }
    }

    fn end_some(&mut self, number: usize, now: Time, stack: &mut Stack, frames: &mut dyn Frames) {
        let direction = usize::from(!self.is_opener);
        let stream = &mut self.streams[number];
        let (plan, conn) = (&self.plans[stream.plan], stream.conn.expect("a key"));
        if self.is_opener && plan.is_reset && stream.written >= plan.bytes[0] / 2 {
            stack.close(conn, Close::Reset);
            stream.is_closed = true;
            return;
        }
        let has_written = stream.written == plan.bytes[direction];
        if plan.is_reset && !self.is_opener {
            if stream.event_at == Time(0) {
                stream.event_at = now;
            }
            if stream.event_at + RESET_PATIENCE <= now {
                stack.close(conn, Close::Reset);
                stream.is_closed = true;
                return;
            }
        }
        if has_written && !stream.has_shut_down && (plan.has_half_close || !self.is_opener) {
            stream.has_shut_down = true;
            stack.shutdown_write(now, conn, frames);
        }
        let has_all = stream.read == plan.bytes[1 - direction];
        // The opener may close as soon as it has everything; the other end waits for the end.
        if has_written && has_all && (stream.has_ended || self.is_opener && !plan.has_half_close) {
            stack.close(conn, Close::Graceful);
            stream.is_closed = true;
        }
    }

    pub fn is_over(&self, stack: &Stack) -> bool {
        let is_opened = !self.is_opener || self.next_plan == self.plans.len();
        let is_closed = self.streams.iter().all(|stream| stream.is_closed);
        is_opened
            && is_closed
            && stack.connections_count() == 0
            && stack.statistics().half_open == 0
    }

    pub fn check(&self) {
        for stream in &self.streams {
            let plan = &self.plans[stream.plan];
            let direction = usize::from(!self.is_opener);
            if plan.is_reset {
                continue;
            }
            assert!(stream.lost.is_none(), "lost {:?}\n{}", stream.lost, self.describe());
            assert_eq!(stream.written, plan.bytes[direction]);
            assert_eq!(stream.read, plan.bytes[1 - direction], "{}", self.describe());
        }
    }

    pub fn describe(&self) -> String {
        let line = |stream: &Stream| {
            format!(
                "  {:?} {:?} live {} written {} read {} readable {} blocked {} ended {} shut {} closed {} lost {:?}\n",
                stream.conn,
                self.plans[stream.plan],
                stream.is_live,
                stream.written,
                stream.read,
                stream.is_readable,
                stream.is_blocked,
                stream.has_ended,
                stream.has_shut_down,
                stream.is_closed,
                stream.lost
            )
        };
        self.streams.iter().map(line).collect()
    }
}
