//! Nodes on one engine: two homes whose clients move between them, and homes that start later.
//!
//! A client has one publication under way. It sends it again, over another connection and mostly to
//! the other node, until it is acknowledged. The engine takes what the homes propose in any order
//! between them, sometimes again, with holes between; each home reads the tail at its own pace.

use crate::engine::in_engine;
use broker::engine::*;
use broker::home::{Home, HomeOutputs};
use broker::mail::*;
use broker::now::Now;
use broker::settings::Settings;
use log::{HeapMemory, RecordView};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use stdx::chunk::Slice;
use stdx::key::Key;
use stdx::prng::Prng;

const PARTITION: PartitionId = PartitionId(0);
const TOPICS: [&str; 3] = ["a", "b", "c"];
const CLIENTS: usize = 4;

struct Node {
    home: Home,
    memory: HeapMemory,
    out: HomeOutputs,
    /// The reading of this node's clocks at the world's begin, in milliseconds.
    monotonic_from_ms: u64,
    unix_from_ms: u64,
    proposed: VecDeque<EnginePublish>,
    /// Records of the log that it has read.
    read: usize,
    delivered: Vec<Delivered>,
    names: BTreeMap<u32, String>,
}

/// A message as a subscriber gets it: topic, offset, `prev`, payload.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Delivered {
    topic: String,
    offset: u64,
    prev: u64,
    payload: String,
}

impl Node {
    fn new(settings: &Arc<Settings>, seed: u64, restart: Restart, at_ms: u64) -> Node {
        let mut node = Node {
            home: Home::new(settings.clone(), HomeId(0), (seed, seed + 1)),
            memory: HeapMemory::new(1 << 26),
            out: HomeOutputs::new(2),
            monotonic_from_ms: 1_000 * seed,
            // The clocks of the first two nodes are 3 s apart.
            unix_from_ms: 1_700_000_000_000 + seed % 2 * 3_000,
            proposed: VecDeque::new(),
            read: restart.after as usize,
            delivered: Vec::new(),
            names: BTreeMap::new(),
        };
        let filter = ToHome::AddFilter(AddFilter {
            begins_at_head: false,
            user: 0,
            filter: Slice::copy_of(b"#"),
            subscription: Key { index: 0, generation: 0 },
            since: Vec::new(),
        });
        node.home.engine(
            node.now(at_ms),
            EngineLetter::Restart(restart),
            &mut node.memory,
            &mut node.out,
        );
        node.home.handle(node.now(at_ms), EdgeId(0), filter, &mut node.memory, &mut node.out);
        node
    }

    fn now(&self, at_ms: u64) -> Now {
        Now { monotonic_ms: self.monotonic_from_ms + at_ms, unix_ms: self.unix_from_ms + at_ms }
    }

    fn publish(&mut self, at_ms: u64, request: u32, publication: Publication) {
        let reply = Some(Reply { connection: Key { index: 0, generation: 0 }, request });
        let publish =
            ToHome::Publish(Publish { partition: PARTITION, rule: 0, reply, publication });
        self.home.handle(self.now(at_ms), EdgeId(0), publish, &mut self.memory, &mut self.out);
    }

    /// Reads a number of records of the log, in one letter.
    fn read(&mut self, at_ms: u64, log: &[TailRecord], count: usize) {
        let records = &log[self.read..(self.read + count).min(log.len())];
        let Some(last) = records.last() else {
            return;
        };
        // The hole behind them, as far as it is known.
        let next = log.get(self.read + records.len());
        let through = next.map_or(last.offset, |next| next.offset - 1);
        let tail =
            Tail { partition: PARTITION, records: records.to_vec(), through, ended_ago_ms: None };
        self.read += records.len();
        let letter = EngineLetter::Tail(tail);
        self.home.engine(self.now(at_ms), letter, &mut self.memory, &mut self.out);
    }

    /// Answers to publishers, by their requests. Keeps the messages.
    fn turn(&mut self, at_ms: u64) -> Vec<(u32, Result<Appended, Code>)> {
        while self.home.pump(self.now(at_ms), &mut self.memory, &mut self.out) {}
        self.home.finish_turn(&mut self.out);
        for request in std::mem::take(&mut self.out.engine) {
            if let EngineRequest::Publish(publish) = request {
                self.proposed.push_back(publish);
            }
        }
        let mut answers = Vec::new();
        for letter in std::mem::take(&mut self.out.letters[0]) {
            match letter {
                ToEdge::Announce { index, topic, .. } => {
                    let name = String::from_utf8_lossy(&topic).into_owned();
                    self.names.insert(index, name);
                }
                ToEdge::Message { index, record } => {
                    let record = RecordView::parse(&record).unwrap();
                    self.delivered.push(Delivered {
                        topic: self.names[&index].clone(),
                        offset: record.offset(),
                        prev: record.prev(),
                        payload: String::from_utf8_lossy(record.payload()).into_owned(),
                    });
                }
                ToEdge::Published { reply, result } => {
                    answers.push((reply.request, result.map_err(|refusal| refusal.code)));
                }
                _ => {}
            }
        }
        let credit = self.home.statistics().delivered * 100 + 1_000_000;
        let credit = ToHome::Credit { bytes: credit.min(1 << 20) as u32 };
        self.home.handle(self.now(at_ms), EdgeId(0), credit, &mut self.memory, &mut self.out);
        answers
    }
}

/// One client and the publication that it has under way.
struct Client {
    /// A producer numbers its publications; others give a key.
    is_producer: bool,
    sequence: u64,
    node: usize,
    /// The connection's begin by the clock of its node.
    connection: u64,
    /// The newest request, and the time at which it was sent.
    sent: Option<(u32, u64)>,
}

struct World {
    prng: Prng,
    at_ms: u64,
    nodes: [Node; 2],
    log: Vec<TailRecord>,
    clients: Vec<Client>,
    requests: u32,
    /// Acknowledged positions by client and sequence.
    acknowledged: BTreeMap<(usize, u64), u64>,
}

fn begin() -> Restart {
    Restart {
        partition: PARTITION,
        topic_id: 5,
        lineages: vec![LineageStart { lineage: 1, start: 1 }],
        after: 0,
        complete_from_ms: 0,
        primed_through: 0,
        follows_mirror: false,
        head: 0,
    }
}

impl World {
    fn new(seed: u64, settings: &Arc<Settings>) -> World {
        let client = |number: usize| Client {
            is_producer: number.is_multiple_of(2),
            sequence: 1,
            node: number % 2,
            connection: 0,
            sent: None,
        };
        let mut world = World {
            prng: Prng::new(seed),
            at_ms: 0,
            nodes: [7, 8].map(|node| Node::new(settings, node, begin(), 0)),
            log: Vec::new(),
            clients: (0..CLIENTS).map(client).collect(),
            requests: 0,
            acknowledged: BTreeMap::new(),
        };
        for client in 0..CLIENTS {
            world.connect(client, client % 2);
        }
        world
    }

    fn connect(&mut self, client: usize, node: usize) {
        let now = self.nodes[node].now(self.at_ms);
        let client = &mut self.clients[client];
        (client.node, client.connection) = (node, now.monotonic_ms);
    }

    fn send(&mut self, number: usize) {
        let client = &mut self.clients[number];
        self.requests += 1;
        client.sent = Some((self.requests, self.at_ms));
        let text = format!("{number}-{}", client.sequence);
        let stamp = ProducerStamp {
            id: Slice::copy_of(&[number as u8]),
            sequence: client.sequence,
            connection: client.connection,
        };
        let key = if client.is_producer { "" } else { &text[..] };
        let publication = Publication {
            topic: Slice::copy_of(TOPICS[number % TOPICS.len()].as_bytes()),
            payload: Slice::copy_of(text.as_bytes()),
            producer: client.is_producer.then_some(stamp),
            idempotency_key: Slice::copy_of(key.as_bytes()),
            ..Publication::default()
        };
        let (node, request) = (client.node, self.requests);
        self.nodes[node].publish(self.at_ms, request, publication);
    }

    fn step(&mut self) {
        self.at_ms += 10 + self.prng.below(400);
        for number in 0..CLIENTS {
            let late = self.clients[number].sent.is_some_and(|(_, at)| self.at_ms - at > 900);
            if self.clients[number].sent.is_none() && self.prng.chance(0.5) {
                self.send(number);
            } else if late && self.prng.chance(0.5) {
                let other = self.prng.below(2) as usize;
                self.connect(number, other);
                self.send(number);
            }
        }
        for node in 0..2 {
            self.append(node);
            let count = self.prng.below(6) as usize;
            self.nodes[node].read(self.at_ms, &self.log, count);
            for (request, result) in self.nodes[node].turn(self.at_ms) {
                self.answered(request, result);
            }
        }
    }

    /// The engine takes some of the proposals of a node, and some of them twice.
    fn append(&mut self, node: usize) {
        for _ in 0..self.prng.below(3) {
            let Some(publish) = self.nodes[node].proposed.pop_front() else {
                break;
            };
            let copies = if self.prng.chance(0.2) { 2 } else { 1 };
            for _ in 0..copies {
                self.take(&publish);
            }
            if self.prng.chance(0.1) {
                // A copy that comes late, behind others of this node.
                self.nodes[node].proposed.insert(0, publish);
            }
        }
    }

    fn take(&mut self, publish: &EnginePublish) {
        let last = self.log.last().map_or(0, |record| record.offset);
        let lineage = 1 + (self.log.len() / 50) as u32;
        self.log.push(TailRecord {
            restored: None,
            is_register: false,
            offset: last + 1 + self.prng.below(3),
            lineage,
            time_ms: 1_700_000_000_000 + self.at_ms,
            name: Some(publish.name),
            publication: publish.publication.clone(),
        });
    }

    fn answered(&mut self, request: u32, result: Result<Appended, Code>) {
        let is_it = |client: &Client| client.sent.is_some_and(|(sent, _)| sent == request);
        let Some(number) = self.clients.iter().position(is_it) else {
            return; // the client has moved meanwhile
        };
        match result {
            Ok(appended) => {
                let client = &mut self.clients[number];
                client.sent = None;
                let name = (number, client.sequence);
                client.sequence += 1;
                self.acknowledged.insert(name, appended.position.offset);
            }
            Err(code) => {
                assert!(code.temporary(), "client {number} has the newest connection: {code:?}");
                self.clients[number].sent = None;
            }
        }
    }
}

/// Every message names the one before it of its topic, over all that others may have dropped.
fn check_order(delivered: &[Delivered], floor: u64) {
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for message in delivered {
        let before = last.insert(&message.topic, message.offset).unwrap_or(floor);
        assert_eq!(message.prev, before, "{message:?}");
    }
}

/// The first message of a topic names an offset behind all messages of the topic before, which the
/// node does not serve.
fn check_floors(delivered: &[Delivered], others: &[Delivered]) {
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for message in delivered {
        match last.insert(&message.topic, message.offset) {
            Some(before) => assert_eq!(message.prev, before, "{message:?}"),
            None => {
                let is_before =
                    |it: &&Delivered| it.topic == message.topic && it.offset < message.offset;
                let before = others.iter().rfind(is_before).map_or(0, |it| it.offset);
                assert!((before..message.offset).contains(&message.prev), "{message:?}");
            }
        }
    }
}

#[test]
fn nodes_agree_and_each_publication_is_delivered_once() {
    let settings = in_engine().settings();
    let (mut acknowledged, mut dropped) = (0, 0);
    for seed in 0..40 {
        let mut world = World::new(seed, &settings);
        for _ in 0..400 {
            world.step();
        }
        for node in 0..2 {
            let left = world.log.len();
            world.nodes[node].read(world.at_ms, &world.log, left);
            world.nodes[node].turn(world.at_ms);
        }
        let [one, other] = &world.nodes;
        assert!(one.delivered == other.delivered, "seed {seed}");
        check_order(&one.delivered, 0);
        let mut times: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for message in &one.delivered {
            times.entry(&message.payload).or_default().push(message.offset);
        }
        for ((client, sequence), offset) in &world.acknowledged {
            let payload = format!("{client}-{sequence}");
            assert_eq!(times[&payload[..]], [*offset], "seed {seed}: {payload}");
        }
        assert!(times.values().all(|offsets| offsets.len() == 1), "seed {seed}");
        acknowledged += world.acknowledged.len();
        dropped += one.home.statistics().tail_dropped;
    }
    assert!(acknowledged > 5_000 && dropped > 1_000, "{acknowledged}, {dropped}");
}

/// The last offset at which a home that reads from the record at `first` on may have another
/// verdict than others: one of the records that it does not know is in the window, or one of those
/// that it has judged then.
fn unprimed_through(log: &[TailRecord], first: usize) -> u64 {
    let window_s = WINDOW_MS / 1_000;
    let second = |record: &TailRecord| record.time_ms / 1_000;
    let whole = log.iter().skip(first).position(|it| second(it) >= second(&log[first]) + window_s);
    let unprimed = match (first, whole) {
        (0, _) => None,
        (_, None) => log.last(),
        (_, Some(place)) => {
            let unwhole = &log[first + place - 1];
            log.iter().take_while(|it| second(it) < second(unwhole) + window_s).last()
        }
    };
    unprimed.map_or(0, |record| record.offset)
}

/// A home that starts later and reads two windows back serves the same records.
#[test]
fn a_later_start_serves_the_same() {
    let settings = in_engine().settings();
    let mut compared = 0;
    for seed in 100..104 {
        let mut world = World::new(seed, &settings);
        while world.at_ms < 5 * WINDOW_MS {
            world.step();
            world.at_ms += 700; // an engine whose window ends in the course of the test
        }
        let log = &world.log;
        world.nodes[0].read(world.at_ms, log, log.len());
        world.nodes[0].turn(world.at_ms);
        for first in (0..log.len()).step_by(211) {
            let from_ms = log[first].time_ms + 2 * WINDOW_MS - 60_000;
            let primed = log.iter().take_while(|record| record.time_ms < from_ms).last();
            let primed_through = primed.map_or(0, |record| record.offset);
            let after = if first == 0 { 0 } else { log[first - 1].offset };
            let head = log.last().map_or(0, |record| record.offset);
            let complete_from_ms = if first == 0 { 0 } else { log[first].time_ms };
            let restart = Restart { after, complete_from_ms, primed_through, head, ..begin() };
            // The home finds out by itself where two windows end.
            let unserved = unprimed_through(log, first).max(primed_through);
            let mut late = Node::new(&settings, 30 + seed, restart, world.at_ms);
            late.read = first;
            while late.read < log.len() {
                // One by one: a stream with a gap continues in pages.
                let count = if log[late.read].offset <= unserved { 1 } else { 100 };
                late.read(world.at_ms, log, count);
                late.turn(world.at_ms);
            }
            let is_served = |message: &&Delivered| message.offset > unserved;
            let of_others = world.nodes[0].delivered.iter().filter(is_served);
            let without_prev = |message: &Delivered| Delivered { prev: 0, ..message.clone() };
            let expected: Vec<Delivered> = of_others.map(without_prev).collect();
            let found: Vec<Delivered> = late.delivered.iter().map(without_prev).collect();
            assert!(found == expected, "seed {seed}, from {first}");
            check_floors(&late.delivered, &world.nodes[0].delivered);
            compared += found.len();
        }
    }
    assert!(compared > 3_000, "{compared}");
}
