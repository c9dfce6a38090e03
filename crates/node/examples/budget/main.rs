//! The cost of a message's path, to be counted: a whole reactor on a network of plain memory,
//! driven from one thread.
//!
//! `budget WORKLOAD N M` does M things to prepare and then N that count. Their turns run inside of
//! [`measured`], which is what `callgrind --toggle-collect=*measured*` counts; calls of functions
//! it counts from the start, so what one more costs is the difference of two runs. On standard
//! output stand the calls to the network. The gate's step `budget` runs it (`cargo xtask ci --only
//! budget`); `docs/performance.md` has the table.
//!
//! Invariants: no time but what the workload says, no randomness but a fixed seed, so two runs
//! count the same. Frames of clients are made beforehand, as many however many count, and nothing
//! is allocated for them after; the network's own work is one copy of the read bytes.
//!
//! `budget WORKLOAD N 0` with a workload of [`scaling`] does one thing with N items; see there.

mod scaling;

use broker::entitlement::Authenticator;
use broker::now::Now;
use broker::settings::{CompressionSettings, LagPolicy, LogSettings, RuleSettings, Settings};
use log::HeapMemory;
use net::{Close, Conn, Event, Net, Read, Write};
use node::mailbox::{Mailbox, Post};
use node::reactor::{Clock, Reactor, ReactorParts};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::prng::Prng;
use wire::native::{
    Attributes, ClientFrame, EARLY_FRAME_PREFIX, Hello, Publish, PublishOptions, SUBPROTOCOL,
    SUBPROTOCOL_JSON, Start, Subscribe, SubscribeItem, SubscribeRequest,
};
use wire::websocket::handshake::{ClientHandshake, early_message};
use wire::websocket::{Opcode, frame};

const PAYLOAD_BYTES: usize = 512;
const PING_INTERVAL_S: u32 = 60;
/// Frames that are made beforehand.
const FRAMES: u32 = 4_000;
/// Publications that come with one read.
const BATCH: u32 = 32;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [workload, count, beforehand] = arguments.as_slice() else {
        panic!("budget WORKLOAD N M");
    };
    let count: u32 = count.parse().expect("a number of things that count");
    let beforehand: u32 = beforehand.parse().expect("a number of things to prepare");
    if scaling::run(workload, count) {
        return;
    }
    let mut world = World::new(workload.starts_with("packed"));
    world.subscribes_in_json = workload.starts_with("json");
    match workload.as_str() {
        "fan-out" | "packed-fan-out" | "json-fan-out" => fan_out(&mut world, count, beforehand),
        "unicast" | "json-unicast" => unicast(&mut world, count, beforehand),
        "unicast-batches" => unicast_batches(&mut world, count, beforehand),
        "connect" => connect(&mut world, count, beforehand),
        "connect-early" => connect_early(&mut world, count),
        "pings" => pings(&mut world, count, beforehand),
        "idle" => idle(&mut world, count, beforehand),
        other => panic!("no such workload: {other}"),
    }
}

/// N publications on one topic with M subscribers.
fn fan_out(world: &mut World, count: u32, beforehand: u32) {
    let publisher = world.connect(None, 0);
    for _ in 0..beforehand {
        world.connect(Some("prices"), 0);
    }
    let frame = publication("prices");
    world.count(count, |world, _| world.send(publisher, &frame));
}

/// N publications, each on one of M topics with one subscriber each.
fn unicast(world: &mut World, count: u32, beforehand: u32) {
    let (publisher, frames) = unicast_frames(world, beforehand);
    world.count(count, |world, at| world.send(publisher, &frames[(at % FRAMES) as usize]));
}

/// N times [`BATCH`] publications with one read, each on one of M topics with one subscriber each.
fn unicast_batches(world: &mut World, count: u32, beforehand: u32) {
    let (publisher, frames) = unicast_frames(world, beforehand);
    let batches: Vec<Bytes> =
        frames.chunks_exact(BATCH as usize).map(|frames| frames.concat().into()).collect();
    world.count(count, |world, at| world.send(publisher, &batches[at as usize % batches.len()]));
}

/// A publisher, M subscribers of a topic each, and publications on these topics.
fn unicast_frames(world: &mut World, topics: u32) -> (Conn, Vec<Bytes>) {
    let publisher = world.connect(None, 0);
    let topic = |number: u32| format!("prices/{number}");
    for number in 0..topics {
        world.connect(Some(&topic(number)), 0);
    }
    let mut random = Prng::new(1);
    let frame = |_| publication(&topic(random.below(u64::from(topics)) as u32));
    (publisher, (0..FRAMES).map(frame).collect())
}

/// N connections beside M earlier ones, each upgraded, welcomed and subscribed to its own topic.
fn connect(world: &mut World, count: u32, beforehand: u32) {
    for number in 0..beforehand {
        world.connect(Some(&format!("before/{number}")), 0);
    }
    assert!(count <= FRAMES, "one for each connection");
    let openings: Vec<[Bytes; 2]> = (0..FRAMES)
        .map(|number| [handshake(world.is_packed), greeting(Some(&format!("prices/{number}")), 0)])
        .collect();
    world.reactor.net_mut().events.reserve(4);
    world.count(count, |world, at| {
        let conn = world.accept();
        let [request, frames] = &openings[at as usize];
        world.send(conn, request);
        world.turn();
        world.send(conn, frames);
    });
}

/// N connections with HELLO and SUBSCRIBE in the handshake.
fn connect_early(world: &mut World, count: u32) {
    assert!(count <= FRAMES, "one for each connection");
    let openings: Vec<Bytes> =
        (0..FRAMES).map(|number| early_handshake(&format!("prices/{number}"))).collect();
    world.reactor.net_mut().events.reserve(4);
    world.count(count, |world, at| {
        let conn = world.accept();
        world.send(conn, &openings[at as usize]);
    });
}

/// N rounds of pings to M connections, which all answer.
fn pings(world: &mut World, count: u32, beforehand: u32) {
    for number in 0..beforehand {
        world.connect(Some(&format!("prices/{number}")), PING_INTERVAL_S);
    }
    let pong = masked(&{
        let mut bytes = Vec::new();
        ClientFrame::Pong(0).encode(&mut bytes);
        bytes
    });
    let net = world.reactor.net_mut();
    net.input.reserve(beforehand as usize);
    net.events.reserve(beforehand as usize);
    world.count(count, |world, _| {
        let pinged = world.written().writes;
        // The sweep examines a part of the connections in each turn.
        while world.written().writes < pinged + u64::from(beforehand) {
            world.wait(1_000);
            world.turn();
        }
        for index in 0..beforehand {
            world.send(world.conn(index), &pong);
        }
    });
}

/// N seconds without an event for M connections.
fn idle(world: &mut World, count: u32, beforehand: u32) {
    for number in 0..beforehand {
        world.connect(Some(&format!("prices/{number}")), 3_600);
    }
    world.count(count, |world, _| world.wait(1_000));
}

/// Bytes of a client, which may be sent many times without a copy.
type Bytes = Rc<[u8]>;

struct World {
    reactor: Reactor<PlainNet, Nobody, Hand>,
    now: Rc<Cell<Now>>,
    is_packed: bool,
    /// Subscribers have `crore.v1.json`.
    subscribes_in_json: bool,
}

/// The counted part, which the counter finds by the function's name.
#[inline(never)]
fn measured(reactor: &mut Reactor<PlainNet, Nobody, Hand>) {
    loop {
        reactor.turn().expect("a network of memory does not fail");
        let net = reactor.net_mut();
        if !net.has_input() {
            break;
        }
        net.offer_again();
    }
}

impl World {
    fn new(is_packed: bool) -> World {
        World::with(settings(is_packed), None, Nobody::default())
    }

    fn with(
        settings: Settings,
        authenticator: Option<Arc<dyn Authenticator>>,
        mailbox: Nobody,
    ) -> World {
        let is_packed = settings.compression.is_some();
        let now = Rc::new(Cell::new(Now { monotonic_ms: 1_000_000, unix_ms: 1_795_314_000_000 }));
        let reactor = Reactor::new(ReactorParts {
            net: PlainNet::default(),
            mailbox,
            clock: Hand(now.clone()),
            id: 0,
            settings: Arc::new(settings),
            memory: Box::new(HeapMemory::new(1 << 30)),
            hash_seed: (1, 2),
            home: None,
            authenticator,
            door: None,
            users: Arc::default(),
            pressure: Arc::default(),
            journal: None,
        });
        World { reactor, now, is_packed, subscribes_in_json: false }
    }

    /// A connection with a session, and a subscription if a topic is given.
    fn connect(&mut self, topic: Option<&str>, ping_interval_s: u32) -> Conn {
        let conn = self.accept();
        let in_json = self.subscribes_in_json && topic.is_some();
        let subprotocol = if in_json { SUBPROTOCOL_JSON } else { SUBPROTOCOL };
        self.send(conn, &handshake_with(&[subprotocol], self.is_packed));
        self.settle();
        self.send(conn, &greeting_in(in_json, topic, ping_interval_s));
        self.settle();
        conn
    }

    fn settle(&mut self) {
        self.reactor.turn().expect("a network of memory does not fail");
    }

    fn accept(&mut self) -> Conn {
        self.reactor.net_mut().accept()
    }

    fn conn(&self, index: u32) -> Conn {
        Conn { index, generation: 1 }
    }

    fn send(&mut self, conn: Conn, bytes: &Bytes) {
        self.reactor.net_mut().send(conn, bytes);
    }

    fn wait(&mut self, milliseconds: u64) {
        let mut now = self.now.get();
        now.monotonic_ms += milliseconds;
        now.unix_ms += milliseconds;
        self.now.set(now);
    }

    fn written(&mut self) -> Calls {
        self.reactor.net_mut().calls
    }

    /// A turn that counts.
    fn turn(&mut self) {
        measured(&mut self.reactor);
    }

    /// Does something `count` times, with a turn that counts after each, and tells the calls.
    fn count(&mut self, count: u32, mut step: impl FnMut(&mut World, u32)) {
        let before = self.written();
        for at in 0..count {
            step(self, at);
            self.turn();
        }
        self.tell_calls(before);
    }

    fn tell_calls(&mut self, before: Calls) {
        let after = self.written();
        println!("polls {}", after.polls - before.polls);
        println!("reads {}", after.reads - before.reads);
        println!("writes {}", after.writes - before.writes);
        println!("written_bytes {}", after.written_bytes - before.written_bytes);
    }
}

/// Calls that would be calls of the system.
#[derive(Clone, Copy, Default)]
struct Calls {
    polls: u64,
    reads: u64,
    writes: u64,
    written_bytes: u64,
}

/// A network that takes all that is written, and gives what the workload has put there.
#[derive(Default)]
struct PlainNet {
    events: Vec<Event>,
    accepted: u32,
    /// In the order in which it is read.
    input: VecDeque<(Conn, Bytes)>,
    calls: Calls,
    /// The reactor has nothing to do but to wait.
    is_idle: bool,
    /// No socket takes anything.
    is_blocked: bool,
    /// Connections that were written to in vain.
    blocked: BTreeSet<u32>,
    /// Connections may be closed.
    may_close: bool,
    /// The last written bytes.
    written: Vec<u8>,
    keeps_written: bool,
}

impl PlainNet {
    fn accept(&mut self) -> Conn {
        let conn = Conn { index: self.accepted, generation: 1 };
        self.accepted += 1;
        self.events.push(Event::Accepted {
            conn,
            peer: SocketAddr::from(([127, 0, 0, 1], 1)),
            listener: 0,
        });
        conn
    }

    fn send(&mut self, conn: Conn, bytes: &Bytes) {
        self.input.push_back((conn, bytes.clone()));
        self.events.push(Event::Readable(conn));
    }

    fn next_of(&mut self, conn: Conn) -> Option<(Conn, Bytes)> {
        let is_next = self.input.front().is_some_and(|(of, _)| *of == conn);
        is_next.then(|| self.input.pop_front())?
    }

    fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// A connection that was not read when its bytes came is reported again, as a level-triggered
    /// network does.
    fn offer_again(&mut self) {
        if let Some(&(conn, _)) = self.input.front()
            && !self.events.contains(&Event::Readable(conn))
        {
            self.events.push(Event::Readable(conn));
        }
    }
}

impl Net for PlainNet {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.calls.polls += 1;
        self.is_idle = timeout != Some(Duration::ZERO);
        events.append(&mut self.events);
        Ok(())
    }

    fn read(&mut self, conn: Conn, buffer: &mut [u8]) -> Read {
        self.calls.reads += 1;
        match self.next_of(conn) {
            None => Read::Blocked,
            Some((_, bytes)) => {
                buffer[..bytes.len()].copy_from_slice(&bytes);
                Read::Data(bytes.len())
            }
        }
    }

    fn write(&mut self, conn: Conn, parts: &[IoSlice<'_>]) -> Write {
        if self.is_blocked {
            self.blocked.insert(conn.index);
            return Write::Blocked;
        }
        if self.keeps_written {
            self.written.extend(parts.iter().flat_map(|part| part.iter()));
        }
        let bytes = parts.iter().map(|part| part.len()).sum();
        self.calls.writes += 1;
        self.calls.written_bytes += bytes as u64;
        Write::Wrote(bytes)
    }

    fn shutdown_write(&mut self, _: Conn) {}

    fn close(&mut self, conn: Conn, _: Close) {
        assert!(self.may_close, "the node has closed connection {}", conn.index);
    }

    fn pause_accepting(&mut self) {}

    fn resume_accepting(&mut self) {}
}

/// There is one shard. What the node has to say is put there by the workload.
#[derive(Default)]
struct Nobody(Rc<RefCell<Vec<Post>>>);

impl Mailbox for Nobody {
    fn send(&mut self, _: u16, _: Post) {
        panic!("there is no other shard");
    }

    fn ask(&mut self, _: u16, _: u64, _: Vec<broker::disk::DiskRequest>) {
        panic!("there is no log on disk");
    }

    fn receive(&mut self, posts: &mut Vec<Post>) {
        posts.append(&mut self.0.borrow_mut());
    }
}

/// A clock that is moved by hand.
struct Hand(Rc<Cell<Now>>);

impl Clock for Hand {
    fn now(&mut self) -> Now {
        self.0.get()
    }
}

fn masked(frame_bytes: &[u8]) -> Bytes {
    message(Opcode::Binary, frame_bytes)
}

fn message(opcode: Opcode, bytes: &[u8]) -> Bytes {
    let mut out = Vec::new();
    frame::encode(&mut out, true, opcode, bytes, Some([0x37, 0xfa, 0x21, 0x3d]));
    out.into()
}

fn handshake(deflate: bool) -> Bytes {
    handshake_with(&[SUBPROTOCOL], deflate)
}

fn handshake_with(subprotocols: &[&str], deflate: bool) -> Bytes {
    let mut out = Vec::new();
    ClientHandshake {
        host: "127.0.0.1:8800",
        target: "/crore",
        nonce: [7; 16],
        subprotocols,
        headers: &[],
        deflate,
    }
    .encode_request(&mut out);
    out.into()
}

fn early_handshake(topic: &str) -> Bytes {
    let frames = first_frames(false, Some(topic), 0);
    let early = |frame: &Vec<u8>| early_message(EARLY_FRAME_PREFIX, frame);
    let offers: Vec<String> = frames.iter().map(early).collect();
    let mut subprotocols = vec![SUBPROTOCOL];
    subprotocols.extend(offers.iter().map(String::as_str));
    handshake_with(&subprotocols, false)
}

/// HELLO, and SUBSCRIBE in the same packet.
fn greeting(topic: Option<&str>, ping_interval_s: u32) -> Bytes {
    greeting_in(false, topic, ping_interval_s)
}

fn greeting_in(in_json: bool, topic: Option<&str>, ping_interval_s: u32) -> Bytes {
    let opcode = if in_json { Opcode::Text } else { Opcode::Binary };
    let frames = first_frames(in_json, topic, ping_interval_s);
    let messages = frames.iter().map(|frame| message(opcode, frame));
    messages.flat_map(|message| message.to_vec()).collect()
}

fn first_frames(in_json: bool, topic: Option<&str>, ping_interval_s: u32) -> Vec<Vec<u8>> {
    let encoded = |frame: &ClientFrame<'_>| {
        let mut bytes = Vec::new();
        if in_json {
            frame.encode_json(&mut bytes);
        } else {
            frame.encode(&mut bytes);
        }
        bytes
    };
    let hello = Hello { ping_interval_s, ..Hello::default() };
    let mut frames = vec![encoded(&ClientFrame::Hello(hello))];
    if let Some(topic) = topic {
        let items = [SubscribeItem::new(1, SubscribeRequest::new(topic, Start::Live))];
        let items = items.as_slice().into();
        frames.push(encoded(&ClientFrame::Subscribe(Subscribe { items })));
    }
    frames
}

/// An acknowledged publication of JSON.
fn publication(topic: &str) -> Bytes {
    let mut random = Prng::new(5);
    let mut payload = Vec::new();
    while payload.len() < PAYLOAD_BYTES {
        let entry =
            format!("{{\"price\":1.{:05},\"size\":{}}},", random.below(100_000), random.below(900));
        payload.extend_from_slice(entry.as_bytes());
    }
    payload.truncate(PAYLOAD_BYTES);
    let mut bytes = Vec::new();
    ClientFrame::Publish(Publish {
        request: 1,
        topic,
        options: PublishOptions::default(),
        attributes: Attributes::default(),
        payload: &payload,
    })
    .encode(&mut bytes);
    masked(&bytes)
}

fn settings(is_packed: bool) -> Settings {
    Settings {
        edges_count: 1,
        homes_count: 1,
        logs: vec![LogSettings {
            name: "memory".into(),
            partitions_count: 64,
            epoch: 7,
            log_bytes_max: 256 << 20,
            age_max_ms: 180_000,
            segment_bytes: 2 << 20,
            retained_bytes_max: 1 << 20,
            ..LogSettings::default()
        }],
        rules: vec![RuleSettings {
            log: 0,
            history_messages_max: 1_000,
            history_age_max_ms: 180_000,
            message_bytes_max: 1 << 20,
            when_lagging: LagPolicy::Replay,
            ..RuleSettings::default()
        }],
        node_name: "crore".into(),
        compression: is_packed.then_some(CompressionSettings { bytes_min: 256, level: 1 }),
        ..Settings::default()
    }
}
