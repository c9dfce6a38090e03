//! Names of MQTT's clients that the nodes of a cluster share: homes of several nodes on one engine,
//! which takes their records in the order in which the test lets it.

use crate::engine::in_engine;
use crate::support::Setup;
use broker::engine::*;
use broker::home::{Home, HomeOutputs};
use broker::mail::*;
use broker::now::Now;
use broker::settings::Settings;
use log::HeapMemory;
use std::sync::Arc;
use stdx::chunk::Slice;
use stdx::key::Key;
use stdx::prng::Prng;

const PARTITION: PartitionId = PartitionId(0);
/// The node's clocks at the begin of a test, in milliseconds since 1970.
const BEGIN_MS: u64 = 1_700_000_000_000;

struct Node {
    home: Home,
    memory: HeapMemory,
    out: HomeOutputs,
    proposed: Vec<EnginePublish>,
    /// Records of the log that it has read.
    read: usize,
}

/// The nodes and the log.
struct World {
    nodes: Vec<Node>,
    log: Vec<TailRecord>,
    now_ms: u64,
    runs: u64,
    /// The engine may have removed records that are older than this; milliseconds since 1970.
    complete_from_ms: u64,
}

/// A letter to a connection, by its number.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Heard {
    /// It has the name, and the session of this instance; 0: none.
    Claimed(u32, u64),
    Refused(u32, Code),
    TakenOver(u32, bool),
    /// Its session is in the log, or not.
    Kept(u32, Result<(), Code>),
    /// The will of a connection that is gone follows after so many seconds.
    Will(u32),
}

impl Node {
    fn begin(&mut self, now: Now, restart: Restart) {
        self.read = 0;
        let letter = EngineLetter::Restart(restart);
        self.home.engine(now, letter, &mut self.memory, &mut self.out);
        self.read(now, &[], 0);
    }

    fn read(&mut self, now: Now, log: &[TailRecord], through: usize) {
        let records = log[self.read..through].to_vec();
        self.read = through;
        let through = through as u64;
        let tail = Tail { partition: PARTITION, records, through, ended_ago_ms: Some(0) };
        self.home.engine(now, EngineLetter::Tail(tail), &mut self.memory, &mut self.out);
    }
}

fn settings(node: &str) -> Arc<Settings> {
    let settings = Setup { is_compacted: true, ..in_engine() }.settings();
    Arc::new(Settings { node_name: node.to_owned(), ..(*settings).clone() })
}

impl World {
    fn new(nodes: usize) -> World {
        let mut world = World {
            nodes: Vec::new(),
            log: Vec::new(),
            now_ms: BEGIN_MS,
            runs: 0,
            complete_from_ms: 0,
        };
        for node in 0..nodes {
            let node = world.started(node);
            world.nodes.push(node);
        }
        world
    }

    fn now(&self) -> Now {
        Now { monotonic_ms: self.now_ms - BEGIN_MS + 1_000, unix_ms: self.now_ms }
    }

    /// A node that begins now.
    fn started(&mut self, node: usize) -> Node {
        self.runs += 1;
        let home = Home::new(settings(&format!("n{node}")), HomeId(0), (self.runs, 7));
        let (memory, out) = (HeapMemory::new(1 << 26), HomeOutputs::new(2));
        let mut node = Node { home, memory, out, proposed: Vec::new(), read: 0 };
        node.begin(self.now(), self.restart(1));
        node
    }

    fn restart(&self, topic_id: u32) -> Restart {
        Restart {
            partition: PARTITION,
            topic_id,
            lineages: vec![LineageStart { lineage: 1, start: 1 }],
            after: 0,
            complete_from_ms: self.complete_from_ms,
            primed_through: 0,
            follows_mirror: false,
            head: self.log.len() as u64,
        }
    }

    fn ask(&mut self, node: usize, request: ToHome) {
        let now = self.now();
        let Node { home, memory, out, .. } = &mut self.nodes[node];
        home.handle(now, EdgeId(0), request, memory, out);
    }

    fn claim(&mut self, node: usize, connection: u32) {
        self.ask(node, claim(connection, 1, false, true));
    }

    fn leave(&mut self, node: usize, connection: u32, instance: u64) {
        self.ask(node, ToHome::Leave(self.session_of(connection, instance, false)));
    }

    fn keep(&mut self, node: usize, connection: u32, instance: u64) {
        self.ask(node, ToHome::KeepSession(self.session_of(connection, instance, true)));
    }

    /// A letter with the session of this instance, which lasts for 100 s; 0: none.
    fn session_of(&self, connection: u32, instance: u64, is_awake: bool) -> Leave {
        let session = SleepingSession {
            user: 1,
            is_awake,
            expiry_s: 100,
            expires_ms: self.now_ms + 100_000,
            instance,
            will: is_awake.then(|| Box::new(Will { topic: "will".into(), ..Will::default() })),
            ..SleepingSession::default()
        };
        Leave {
            name: name(),
            connection: key(connection),
            session: (instance > 0).then(|| Box::new(session)),
            is_answered: is_awake,
        }
    }

    /// A turn of a node; what its connections hear.
    fn turn(&mut self, node: usize) -> Vec<Heard> {
        let now = self.now();
        let Node { home, memory, out, proposed, .. } = &mut self.nodes[node];
        while home.pump(now, memory, out) {}
        home.finish_turn(out);
        for request in std::mem::take(&mut out.engine) {
            if let EngineRequest::Publish(publish) = request {
                proposed.push(publish);
            }
        }
        let letters = std::mem::take(&mut out.letters[0]);
        letters.into_iter().filter_map(heard).collect()
    }

    /// The log takes everything that a node has proposed.
    fn append(&mut self, node: usize) {
        let proposed = std::mem::take(&mut self.nodes[node].proposed);
        for EnginePublish { name, publication, restored, is_register, .. } in proposed {
            let (offset, lineage) = (self.log.len() as u64 + 1, 1);
            let (name, time_ms) = (Some(name), self.now_ms);
            let record =
                TailRecord { offset, lineage, time_ms, name, publication, restored, is_register };
            self.log.push(record);
        }
    }

    /// A node reads on, through a number of records of the log.
    fn read(&mut self, node: usize, through: usize) {
        let now = self.now();
        self.nodes[node].read(now, &self.log, through);
    }

    /// Everything that is under way arrives, until nothing is; what connections hear.
    fn settle(&mut self) -> Vec<Heard> {
        let mut heard = Vec::new();
        loop {
            for node in 0..self.nodes.len() {
                heard.extend(self.turn(node));
                self.append(node);
            }
            let end = self.log.len();
            if self.nodes.iter().all(|node| node.read == end) {
                return heard;
            }
            for node in 0..self.nodes.len() {
                self.read(node, end);
            }
        }
    }

    /// A node is gone, as all nodes hear.
    fn gone(&mut self, name: &str) {
        let now = self.now();
        let names = (0..self.nodes.len()).map(|node| format!("n{node}"));
        let living: Vec<String> = names.filter(|living| living != name).collect();
        for node in &mut self.nodes {
            node.home.nodes_live(now, &living);
        }
    }

    fn wait(&mut self, ms: u64) -> Vec<Heard> {
        self.now_ms += ms;
        self.settle()
    }

    /// The number of sessions that each node takes for asleep.
    fn asleep(&self) -> Vec<u64> {
        let sleeping = |node: &Node| node.home.statistics().mqtt_sessions_sleeping;
        self.nodes.iter().map(sleeping).collect()
    }
}

fn name() -> Slice {
    Slice::copy_of(b"client")
}

fn key(connection: u32) -> Key {
    Key { index: connection, generation: 1 }
}

fn claim(connection: u32, user: u64, is_clean: bool, lasts: bool) -> ToHome {
    ToHome::Claim(Claim { name: name(), user, connection: key(connection), is_clean, lasts })
}

fn heard(letter: ToEdge) -> Option<Heard> {
    match letter {
        ToEdge::Claimed { connection, result: Ok(session), .. } => {
            let instance = session.map_or(0, |session| session.instance);
            Some(Heard::Claimed(connection.index, instance))
        }
        ToEdge::Claimed { connection, result: Err(code), .. } => {
            Some(Heard::Refused(connection.index, code))
        }
        ToEdge::TakenOver { connection, is_clean } => {
            Some(Heard::TakenOver(connection.index, is_clean))
        }
        ToEdge::WillLeft { will, .. } => {
            assert_eq!(&*will.topic, "will");
            Some(Heard::Will(will.delay_s))
        }
        ToEdge::Published { reply, result } => {
            let result = result.map(|_| ()).map_err(|refusal| refusal.code);
            Some(Heard::Kept(reply.connection.index, result))
        }
        _ => None,
    }
}

#[test]
fn a_session_continues_on_another_node() {
    let mut world = World::new(3);
    world.claim(0, 1);
    assert_eq!(world.settle(), [Heard::Claimed(1, 0)]);
    world.keep(0, 1, 5);
    assert_eq!(world.settle(), [Heard::Kept(1, Ok(()))]);
    world.leave(0, 1, 6);
    assert_eq!(world.settle(), []);
    assert_eq!(world.asleep(), [1, 1, 1]);
    world.claim(1, 2);
    // The edge of the connection before may have the will of the session.
    assert_eq!(world.settle(), [Heard::TakenOver(1, false), Heard::Claimed(2, 6)]);
    assert_eq!(world.asleep(), [0, 0, 0]);
    world.leave(1, 2, 7);
    world.settle();
    world.claim(1, 3);
    assert_eq!(world.settle(), [Heard::TakenOver(2, false), Heard::Claimed(3, 7)]);
}

#[test]
fn the_new_holder_waits_for_the_session_of_the_one_before() {
    let mut world = World::new(2);
    world.claim(0, 1);
    world.settle();
    world.keep(0, 1, 5);
    world.settle();
    world.claim(1, 2);
    assert_eq!(world.settle(), [Heard::TakenOver(1, false)]);
    world.leave(0, 1, 6);
    assert_eq!(world.settle(), [Heard::Claimed(2, 6)]);
}

#[test]
fn the_new_holder_waits_no_longer_than_two_seconds() {
    let mut world = World::new(2);
    world.claim(0, 1);
    world.settle();
    world.keep(0, 1, 5);
    world.settle();
    world.claim(1, 2);
    world.settle();
    assert_eq!(world.wait(1_999), []);
    assert_eq!(world.wait(1), [Heard::Claimed(2, 5)]);
    world.keep(1, 2, 8);
    world.settle();
    // The loser comes late. Its session does not count, and what counts is written again.
    world.leave(0, 1, 6);
    world.settle();
    world.nodes[0] = world.started(0);
    world.settle();
    world.leave(1, 2, 0);
    world.settle();
    world.claim(0, 3);
    assert_eq!(world.settle(), [Heard::Claimed(3, 0)]);
}

#[test]
fn a_clean_start_ends_the_session_on_every_node() {
    let mut world = World::new(2);
    world.claim(0, 1);
    world.settle();
    world.leave(0, 1, 5);
    world.settle();
    world.ask(1, claim(2, 1, true, false));
    assert_eq!(world.settle(), [Heard::TakenOver(1, true), Heard::Claimed(2, 0)]);
    world.leave(1, 2, 0);
    world.settle();
    assert_eq!(world.asleep(), [0, 0]);
    world.claim(0, 3);
    assert_eq!(world.settle(), [Heard::Claimed(3, 0)]);
}

/// A connection whose session ends with it costs no record, unless the log knows its name.
#[test]
fn a_session_that_does_not_last_is_of_its_node() {
    let mut world = World::new(2);
    world.settle();
    world.ask(0, claim(1, 1, true, false));
    world.ask(1, claim(2, 1, true, false));
    assert_eq!(world.settle(), [Heard::Claimed(1, 0), Heard::Claimed(2, 0)]);
    assert_eq!(world.log.len(), 0);
    world.claim(1, 3);
    let heard = world.settle();
    assert_eq!(heard[..2], [Heard::TakenOver(1, false), Heard::TakenOver(2, false)]);
    assert_eq!(heard[2..], [Heard::Claimed(3, 0)]);
}

#[test]
fn a_name_belongs_to_its_user() {
    let mut world = World::new(2);
    world.claim(0, 1);
    world.settle();
    world.ask(1, claim(2, 2, false, true));
    assert_eq!(world.settle(), [Heard::Refused(2, Code::Forbidden)]);
    // The other node has not read the first claim yet.
    let mut world = World::new(2);
    world.settle();
    world.claim(0, 1);
    world.ask(1, claim(2, 2, false, true));
    let heard = world.settle();
    assert_eq!(heard, [Heard::Claimed(1, 0), Heard::Refused(2, Code::Forbidden)]);
    // A node that begins reads the newest record of the name only.
    let last = world.log.last().cloned();
    world.log = last.map(|last| TailRecord { offset: 1, ..last }).into_iter().collect();
    let mut third = World::new(0);
    third.log = world.log;
    third.complete_from_ms = BEGIN_MS + 1;
    let node = third.started(0);
    third.nodes.push(node);
    third.read(0, 1);
    third.ask(0, claim(3, 2, false, true));
    assert_eq!(third.settle(), [Heard::Refused(3, Code::Forbidden)]);
}

/// The engine takes a claim whose connection was refused: no connection holds the name then.
#[test]
fn a_claim_that_comes_late_gives_the_name_back() {
    let mut world = World::new(2);
    world.settle();
    world.claim(0, 1);
    assert_eq!(world.turn(0), []);
    let late = std::mem::take(&mut world.nodes[0].proposed);
    assert_eq!(world.wait(10_000), [Heard::Refused(1, Code::LogUnavailable)]);
    world.nodes[0].proposed = late;
    world.settle();
    world.claim(1, 2);
    assert_eq!(world.settle(), [Heard::Claimed(2, 0)]);
}

/// The engine has lost all records: who has a name takes it again, with its session.
#[test]
fn a_holder_keeps_its_name_over_a_loss() {
    let mut world = World::new(2);
    world.claim(0, 1);
    world.settle();
    world.keep(0, 1, 5);
    world.settle();
    world.log.clear();
    let (now, restart) = (world.now(), world.restart(2));
    for node in &mut world.nodes {
        node.begin(now, restart.clone());
    }
    assert_eq!(world.settle(), []);
    world.claim(1, 2);
    assert_eq!(world.settle(), [Heard::TakenOver(1, false)]);
    world.leave(0, 1, 6);
    assert_eq!(world.settle(), [Heard::Claimed(2, 6)]);
}

/// The session of a connection that a crash has ended sleeps from the next start of its node on,
/// and ends in its time.
#[test]
fn sessions_of_a_node_that_was_killed_sleep_and_end() {
    let mut world = World::new(2);
    world.claim(0, 1);
    world.settle();
    world.keep(0, 1, 5);
    world.settle();
    world.now_ms += 500_000;
    world.nodes[0] = world.started(0);
    world.settle();
    assert_eq!(world.asleep(), [1, 1]);
    world.wait(99_999);
    world.claim(1, 2);
    assert_eq!(world.settle()[1..], [Heard::Claimed(2, 5)], "the first is for the will");
    world.leave(1, 2, 6);
    world.settle();
    world.wait(100_000);
    assert_eq!(world.asleep(), [0, 0]);
    let last = world.log.last().map(|last| last.publication.payload.len());
    assert_eq!(last, Some(0), "the name is removed from the topic");
}

/// One of the other nodes puts the session of a node that is gone to sleep, and publishes its will,
/// unless the client comes back before.
#[test]
fn the_will_of_a_node_that_is_gone_follows_once() {
    let mut world = World::new(3);
    world.claim(2, 1);
    world.settle();
    world.keep(2, 1, 5);
    world.settle();
    world.nodes.truncate(2);
    world.gone("n2");
    assert_eq!(world.wait(4_999), []);
    assert_eq!(world.asleep(), [0, 0]);
    assert_eq!(world.wait(5_001), [Heard::Will(10)]);
    assert_eq!(world.asleep(), [1, 1]);
    assert_eq!(world.wait(60_000), []);
    world.claim(0, 3);
    let heard = world.settle();
    assert!(matches!(heard[0], Heard::TakenOver(index, false) if index > 1_000), "{heard:?}");
    assert_eq!(heard[1..], [Heard::Claimed(3, 5)]);
}

/// The node may have gone before all others started.
#[test]
fn the_will_of_a_node_that_others_never_met_follows() {
    let mut world = World::new(3);
    world.claim(2, 1);
    world.settle();
    world.keep(2, 1, 5);
    world.settle();
    world.nodes.truncate(2);
    for node in 0..2 {
        world.nodes[node] = world.started(node);
    }
    world.gone("n2");
    world.settle();
    assert_eq!(world.wait(10_000), [Heard::Will(10)]);
    assert_eq!(world.asleep(), [1, 1]);
}

/// The last session of a holder is lost on its way. Meanwhile, another connection takes the name
/// and ends the session. The holder's home writes again: the session does not come back.
#[test]
fn a_last_session_that_comes_too_late_is_settled() {
    let mut world = World::new(2);
    world.claim(0, 1);
    world.settle();
    world.keep(0, 1, 5);
    world.settle();
    world.leave(0, 1, 6);
    assert_eq!(world.turn(0), []);
    world.nodes[0].proposed.clear();
    world.ask(1, claim(2, 1, true, false));
    world.settle();
    assert!(world.wait(2_000).contains(&Heard::Claimed(2, 0)));
    world.leave(1, 2, 0);
    world.settle();
    world.wait(5_000);
    let records = world.log.len();
    world.wait(60_000);
    assert_eq!(world.log.len(), records, "nothing is written for ever");
    assert_eq!(world.asleep(), [0, 0]);
    world.claim(1, 3);
    assert_eq!(world.settle(), [Heard::Claimed(3, 0)]);
}

/// A node that others take for gone, and is not, keeps its connections.
#[test]
fn a_node_that_is_not_gone_keeps_its_names() {
    let mut world = World::new(3);
    world.claim(2, 1);
    world.settle();
    world.keep(2, 1, 5);
    world.settle();
    world.gone("n2");
    let heard = world.wait(10_000);
    assert!(matches!(heard[..], [Heard::Will(10), Heard::TakenOver(..)]), "{heard:?}");
    assert_eq!(world.asleep(), [0, 0, 0]);
    world.claim(0, 2);
    assert_eq!(world.settle(), [Heard::TakenOver(1, false)]);
    world.leave(2, 1, 6);
    assert_eq!(world.settle(), [Heard::Claimed(2, 6)]);
}

/// Clients of many nodes take one name from each other, in any order, with nodes that are slow to
/// read: in the end one connection has it, with the newest session that a holder has left.
#[test]
fn one_connection_has_a_name_in_the_end() {
    for seed in 0..300 {
        contest(seed);
    }
}

fn contest(seed: u64) {
    let mut random = Prng::new(seed);
    let mut world = World::new(3);
    world.settle();
    // The connections that have the name, as far as they know, with their nodes and sessions.
    let mut holding: Vec<(u32, usize)> = Vec::new();
    let mut node_of = vec![0; 1];
    let mut kept = 0;
    for step in 0..60 {
        let node = random.below(3) as usize;
        match random.below(8) {
            0 if step < 50 => {
                let connection = node_of.len() as u32;
                node_of.push(node);
                world.claim(node, connection);
            }
            1 => {
                if let Some((connection, node)) = holding.last().copied() {
                    kept += 1;
                    world.keep(node, connection, kept);
                }
            }
            2 => world.append(node),
            _ => {
                let read = world.nodes[node].read;
                let through = random.between(read as u64, world.log.len() as u64) as usize;
                world.read(node, through);
            }
        }
        let heard = world.turn(node);
        hear(&mut world, heard, &node_of, &mut holding, &mut kept, seed);
    }
    while let heard = world.settle()
        && !heard.is_empty()
    {
        hear(&mut world, heard, &node_of, &mut holding, &mut kept, seed);
    }
    assert!(holding.len() <= 1, "seed {seed}: {holding:?}");
    let claims = node_of.len() - 1;
    assert_eq!(holding.is_empty(), claims == 0, "seed {seed}");
    world.claim(0, 1_000);
    node_of.resize(1_001, 0);
    let mut heard = world.settle();
    while !heard.iter().any(|heard| matches!(heard, Heard::Claimed(1_000, _))) {
        assert!(!heard.is_empty(), "seed {seed}: the name is not granted");
        hear(&mut world, heard, &node_of, &mut holding, &mut kept, seed);
        heard = world.settle();
    }
    let granted = heard.iter().find(|heard| matches!(heard, Heard::Claimed(1_000, _)));
    assert_eq!(granted, Some(&Heard::Claimed(1_000, kept)), "seed {seed}");
}

/// Connections do what edges do: they leave when they have lost the name.
fn hear(
    world: &mut World,
    heard: Vec<Heard>,
    node_of: &[usize],
    holding: &mut Vec<(u32, usize)>,
    kept: &mut u64,
    seed: u64,
) {
    for heard in heard {
        match heard {
            Heard::Claimed(connection, instance) => {
                assert_eq!(instance, *kept, "seed {seed}: the session of connection {connection}");
                holding.push((connection, node_of[connection as usize]));
            }
            Heard::TakenOver(connection, _) => {
                if let Some(at) = holding.iter().position(|(held, _)| *held == connection) {
                    let (_, node) = holding.remove(at);
                    *kept += 1;
                    world.leave(node, connection, *kept);
                }
            }
            Heard::Kept(..) | Heard::Refused(..) | Heard::Will(_) => {}
        }
    }
}

/// Nodes are killed, too: a connection gets a session if the holder had written one before the
/// claim.
#[test]
fn a_session_in_the_log_outlives_killed_nodes() {
    for seed in 0..300 {
        contest_with_kills(seed);
    }
}

/// The place of the step in a record of a node whose name has two bytes, and steps there.
const STEP_AT: usize = 35;
const STEP_CLAIM: u8 = 0;
const STEP_KEPT: u8 = 2;

/// Whether a claim comes behind a session that its holder then had written.
fn is_behind_session(log: &[TailRecord], claim: &[u8]) -> bool {
    let mut holder: &[u8] = &[];
    for record in log {
        let payload = &record.publication.payload[..];
        match payload.get(STEP_AT) {
            Some(&STEP_CLAIM) if payload[1..17] == *claim => return false,
            Some(&STEP_CLAIM) => holder = &payload[1..17],
            Some(&STEP_KEPT) if payload[1..17] == *holder => {
                return log.iter().any(|later| {
                    let payload = &later.publication.payload[..];
                    later.offset > record.offset
                        && payload.get(STEP_AT) == Some(&STEP_CLAIM)
                        && payload[1..17] == *claim
                });
            }
            Some(_) | None => {}
        }
    }
    false
}

fn contest_with_kills(seed: u64) {
    let mut random = Prng::new(seed);
    let mut world = World::new(3);
    world.settle();
    let mut holding: Vec<(u32, usize)> = Vec::new();
    // The claims of connections.
    let mut claims: Vec<Vec<u8>> = vec![Vec::new()];
    for _ in 0..100 {
        let node = random.below(3) as usize;
        match random.below(14) {
            0 | 1 => {
                let connection = claims.len() as u32;
                world.claim(node, connection);
                let out = &world.nodes[node].out.engine;
                let claim = out.iter().rev().find_map(|request| match request {
                    EngineRequest::Publish(publish) => Some(publish.publication.payload.clone()),
                    _ => None,
                });
                claims.push(claim.map(|claim| claim[1..17].to_vec()).unwrap_or_default());
            }
            2 => {
                world.nodes[node] = world.started(node);
                holding.retain(|(_, of)| *of != node);
            }
            3 => world.now_ms += random.below(3_000),
            4..7 => world.append(node),
            _ => {
                let read = world.nodes[node].read;
                let through = random.between(read as u64, world.log.len() as u64) as usize;
                world.read(node, through);
            }
        }
        for heard in world.turn(node) {
            match heard {
                Heard::Claimed(connection, instance) => {
                    let claim = &claims[connection as usize];
                    let is_due = is_behind_session(&world.log, claim);
                    assert!(!is_due || instance > 0, "seed {seed}: {connection} gets no session");
                    holding.push((connection, node));
                    world.keep(node, connection, 7);
                }
                Heard::TakenOver(connection, _) => {
                    if let Some(at) = holding.iter().position(|(held, _)| *held == connection) {
                        holding.remove(at);
                        world.leave(node, connection, 7);
                    }
                }
                Heard::Kept(..) | Heard::Refused(..) | Heard::Will(_) => {}
            }
        }
    }
}
