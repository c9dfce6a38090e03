//! The one load generator for all servers: many connections and one publisher on one loop, which
//! never sleeps.
//!
//! Place: between `work` and a `Dialect`. It does not sleep, so that no server pays for waking it
//! and no message waits for it. Invariants: each message is checked against what its subscriber
//! asked for and has had before; a connection that ends is an error of the measurement, with the
//! server's reason.

use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use bench::payload::{Clock, Header, seed_from_entropy, topic_hash};
use bench::statistics::Recorder;
use net::kernel::{ConnectOptions, Handover, Kernel, KernelOptions, Waker};
use net::{Close, Conn, Event, Net, Read, Write};
use stdx::prng::Prng;

use super::dialect::{Dialect, Party, Role, Unit};

/// Connections on their way at once: below the backlog of every server.
const CONNECTING_MAX: u64 = 64;
/// Source addresses taken in turn.
const SOURCES: u32 = 100;
/// Connects and messages must come within this, one after the other.
const PATIENCE: Duration = Duration::from_secs(20);
const RECEIVE_BYTES: usize = 256 * 1024;
/// Maximum unsent bytes of the publisher; beyond it, the server counts as too slow.
const BACKLOG_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The topics of subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topics {
    /// All to one.
    Common,
    /// Each to its own.
    Own,
}

impl Topics {
    /// The topic of the subscriber of this number; letters and digits, which all servers take.
    pub fn name(self, number: u64) -> String {
        match self {
            Topics::Common => "hot".to_owned(),
            Topics::Own => format!("topic{number:06}"),
        }
    }
}

/// All connections to one server.
pub struct Crowd {
    wires: Wires,
    dialect: Box<dyn Dialect>,
    remote: SocketAddr,
    topics: Topics,
    /// Members by the index of their connection.
    members: Vec<Option<Member>>,
    /// Subscribers, in the order of their topics.
    subscribers: Vec<Conn>,
    publisher: Option<Conn>,
    connecting: u64,
    live: u64,
    connections: u32,
    events: Vec<Event>,
    buffer: Vec<u8>,
    random: Prng,
    run: u32,
    sequence: u64,
    tally: Tally,
}

/// The counts since the last call of [`Crowd::take_tally`].
#[derive(Default)]
pub struct Tally {
    /// Messages that were ours, on the right topic, and new.
    pub received: u64,
    /// From their intended times.
    pub latency: Recorder,
    /// Others: of another topic, or again, or out of order.
    pub strays: u64,
}

struct Member {
    role: Role,
    topic: String,
    topic_hash: u32,
    number: u32,
    stage: u8,
    is_live: bool,
    last_sequence: u64,
    /// Unfinished input.
    input: Vec<u8>,
}

/// The sockets, and bytes that they did not take.
struct Wires {
    kernel: Kernel,
    pending: std::collections::HashMap<u32, Vec<u8>>,
}

impl Crowd {
    /// A load generator without connections.
    pub fn new(remote: SocketAddr, dialect: Box<dyn Dialect>) -> anyhow::Result<Crowd> {
        let kernel = Kernel::new(KernelOptions::default(), Waker::new()?, Handover::alone())?;
        Ok(Crowd {
            wires: Wires { kernel, pending: Default::default() },
            dialect,
            remote,
            topics: Topics::Own,
            members: Vec::new(),
            subscribers: Vec::new(),
            publisher: None,
            connecting: 0,
            live: 0,
            connections: 0,
            events: Vec::new(),
            buffer: vec![0; RECEIVE_BYTES],
            random: Prng::new(seed_from_entropy()),
            run: seed_from_entropy() as u32,
            sequence: 0,
            tally: Tally::default(),
        })
    }

    /// Sets the topics of new subscribers.
    pub fn set_topics(&mut self, topics: Topics) {
        self.topics = topics;
    }

    /// Connects subscribers as fast as the server takes them, until so many are live.
    pub fn grow(&mut self, count: u64) -> anyhow::Result<()> {
        let mut watch = Watch::new(self.live);
        while self.live < count {
            while self.connecting < CONNECTING_MAX && (self.subscribers.len() as u64) < count {
                let topic = self.topics.name(self.subscribers.len() as u64);
                let conn = self.connect(Role::Subscriber, topic)?;
                self.subscribers.push(conn);
            }
            self.turn()?;
            watch.look(self.live, || format!("{} of {count} are subscribed", self.live))?;
        }
        Ok(())
    }

    /// Ends the newest subscribers until so many are left.
    pub fn shrink(&mut self, count: u64) {
        for conn in self.subscribers.drain(count as usize..) {
            self.members[conn.index as usize] = None;
            self.wires.pending.remove(&conn.index);
            self.wires.kernel.close(conn, Close::Graceful);
            self.live -= 1;
        }
    }

    /// Connects the publisher.
    pub fn open_publisher(&mut self) -> anyhow::Result<()> {
        let conn = self.connect(Role::Publisher, String::new())?;
        self.publisher = Some(conn);
        let mut watch = Watch::new(0);
        while !self.members[conn.index as usize].as_ref().is_some_and(|member| member.is_live) {
            self.turn()?;
            watch.look(0, || "the publisher is not let in".to_owned())?;
        }
        Ok(())
    }

    /// Publishes on the topic of the subscriber of this number, with the time when it should have
    /// been.
    pub fn publish(&mut self, number: u64, size: usize, intended_ns: u64) -> anyhow::Result<()> {
        let topic = self.topics.name(number);
        self.sequence += 1;
        let header = Header {
            clock: Clock::Monotonic,
            publisher: self.run,
            topic_hash: topic_hash(&topic),
            intended_ns,
            sequence: self.sequence,
        };
        let (mut payload, mut out) = (Vec::new(), Vec::new());
        header.write(size, &mut self.random, &mut payload);
        self.dialect.publish(&topic, &payload, &mut out);
        let conn = self.publisher.context("a publisher")?;
        self.wires.send(conn, &out)
    }

    /// Turns until so many messages have come, or none has for some time.
    pub fn wait_for(&mut self, received: u64, patience: Duration) -> anyhow::Result<()> {
        let mut last = (self.tally.received, Instant::now());
        while self.tally.received < received && last.1.elapsed() < patience {
            self.turn()?;
            if self.tally.received > last.0 {
                last = (self.tally.received, Instant::now());
            }
        }
        Ok(())
    }

    /// Turns for this time.
    pub fn stay(&mut self, time: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            // Nothing is measured that a sleep would disturb.
            self.turn_within(Duration::from_millis(20))?;
        }
        Ok(())
    }

    /// Returns the counts since the last call.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    /// Processes the pending events.
    pub fn turn(&mut self) -> anyhow::Result<()> {
        self.turn_within(Duration::ZERO)
    }

    fn turn_within(&mut self, time: Duration) -> anyhow::Result<()> {
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        self.wires.kernel.poll(Some(time), &mut events)?;
        for event in &events {
            match *event {
                Event::Connected(conn) => self.begin(conn)?,
                Event::Readable(conn) => self.read(conn)?,
                Event::Writable(conn) => self.wires.resume(conn)?,
                Event::Closed { conn, reason } => {
                    // Those that were told to go are not there any more.
                    if self.members[conn.index as usize].is_some() {
                        bail!("the server closed a connection: {reason}");
                    }
                }
                Event::Accepted { .. } | Event::Woken => {}
            }
        }
        self.events = events;
        Ok(())
    }

    fn connect(&mut self, role: Role, topic: String) -> anyhow::Result<Conn> {
        let number = self.connections;
        self.connections += 1;
        let source = Ipv4Addr::new(127, 0, (number % SOURCES) as u8 + 1, 1);
        let options = ConnectOptions {
            local: Some(SocketAddr::new(IpAddr::V4(source), 0)),
            ..ConnectOptions::default()
        };
        let conn = self.wires.kernel.connect(self.remote, &options)?;
        let index = conn.index as usize;
        if self.members.len() <= index {
            self.members.resize_with(index + 1, || None);
        }
        self.members[index] = Some(Member {
            role,
            topic_hash: topic_hash(&topic),
            topic,
            number,
            stage: 0,
            is_live: false,
            last_sequence: 0,
            input: Vec::new(),
        });
        self.connecting += 1;
        Ok(conn)
    }

    fn begin(&mut self, conn: Conn) -> anyhow::Result<()> {
        let Some(member) = self.members[conn.index as usize].as_mut() else {
            return Ok(());
        };
        let mut out = Vec::new();
        if self.dialect.begin(&mut member.party(), &mut out)? {
            member.is_live = true;
            self.connecting -= 1;
        }
        self.wires.send(conn, &out)
    }

    fn read(&mut self, conn: Conn) -> anyhow::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.read_into(conn, &mut buffer);
        self.buffer = buffer;
        result
    }

    fn read_into(&mut self, conn: Conn, buffer: &mut [u8]) -> anyhow::Result<()> {
        loop {
            if self.members[conn.index as usize].is_none() {
                return Ok(());
            }
            let count = match self.wires.kernel.read(conn, buffer) {
                Read::Data(count) => count,
                Read::Blocked => return Ok(()),
                Read::Ended => bail!("the server ended a connection"),
                Read::Failed(reason) => bail!("a connection failed: {reason}"),
            };
            self.received(conn, &mut buffer[..count])?;
            if count < buffer.len() {
                return Ok(());
            }
        }
    }

    fn received(&mut self, conn: Conn, bytes: &mut [u8]) -> anyhow::Result<()> {
        let Some(member) = self.members[conn.index as usize].as_mut() else {
            return Ok(());
        };
        let mut kept = std::mem::take(&mut member.input);
        let input = if kept.is_empty() {
            bytes
        } else {
            kept.extend_from_slice(bytes);
            &mut kept
        };
        let now_ns = Clock::Monotonic.now_ns();
        let (mut taken, mut out) = (0, Vec::new());
        while taken < input.len() {
            let unread = &mut input[taken..];
            let found = self.dialect.next(&mut member.party(), unread, &mut out);
            let Some((length, unit)) = found.with_context(|| format!("{:?}", member.role))? else {
                break;
            };
            match unit {
                Unit::Nothing => {}
                Unit::Live => {
                    if !std::mem::replace(&mut member.is_live, true) {
                        self.connecting -= 1;
                        self.live += u64::from(member.role == Role::Subscriber);
                    }
                }
                Unit::Message(payload) => {
                    let header = Header::read(&unread[payload]);
                    self.tally.count(member, header, self.run, now_ns);
                }
            }
            taken += length;
        }
        member.input.extend_from_slice(&input[taken..]);
        self.wires.send(conn, &out)
    }
}

impl Member {
    fn party(&mut self) -> Party<'_> {
        Party { role: self.role, topic: &self.topic, number: self.number, stage: &mut self.stage }
    }
}

impl Tally {
    fn count(&mut self, member: &mut Member, header: Option<Header>, run: u32, now_ns: u64) {
        let is_ours = |header: &Header| {
            (header.publisher, header.topic_hash) == (run, member.topic_hash)
                && header.sequence > member.last_sequence
        };
        match header.filter(is_ours) {
            Some(header) => {
                member.last_sequence = header.sequence;
                self.received += 1;
                self.latency.record_ns(now_ns.saturating_sub(header.intended_ns));
            }
            None => self.strays += 1,
        }
    }
}

impl Wires {
    fn send(&mut self, conn: Conn, bytes: &[u8]) -> anyhow::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if let Some(pending) = self.pending.get_mut(&conn.index) {
            pending.extend_from_slice(bytes);
            if pending.len() > BACKLOG_BYTES_MAX {
                bail!("the server does not read what is published");
            }
            return Ok(());
        }
        let wrote = self.write(conn, bytes)?;
        if wrote < bytes.len() {
            self.pending.insert(conn.index, bytes[wrote..].to_vec());
        }
        Ok(())
    }

    fn resume(&mut self, conn: Conn) -> anyhow::Result<()> {
        if let Some(pending) = self.pending.remove(&conn.index) {
            self.send(conn, &pending)?;
        }
        Ok(())
    }

    fn write(&mut self, conn: Conn, bytes: &[u8]) -> anyhow::Result<usize> {
        match self.kernel.write(conn, &[IoSlice::new(bytes)]) {
            Write::Wrote(count) => Ok(count),
            Write::Blocked => Ok(0),
            Write::Failed(reason) => Err(anyhow!("a connection failed: {reason}")),
        }
    }
}

/// Detects a lack of progress.
struct Watch {
    last: u64,
    since: Instant,
}

impl Watch {
    fn new(value: u64) -> Watch {
        Watch { last: value, since: Instant::now() }
    }

    fn look(&mut self, value: u64, what: impl Fn() -> String) -> anyhow::Result<()> {
        if value != self.last {
            *self = Watch::new(value);
        } else if self.since.elapsed() > PATIENCE {
            bail!("{}, and no more come", what());
        }
        Ok(())
    }
}
