//! Groups of MQTT over several nodes: homes on one engine. Its log takes their records in any
//! order, and each home reads at its own pace.

use crate::engine::in_engine;
use broker::engine::*;
use broker::home::{Home, HomeOutputs};
use broker::mail::*;
use broker::now::Now;
use broker::settings::Settings;
use log::HeapMemory;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stdx::chunk::Slice;
use stdx::key::Key;
use stdx::prng::Prng;

const PARTITION: PartitionId = PartitionId(0);
const BEGIN_MS: u64 = 1_700_000_000_000;
const NODES: usize = 3;
const GROUP: &[u8] = b"g/jobs/#";
/// Sleeping sessions of the test do not end.
const FOR_EVER_MS: u64 = u64::MAX;

struct Node {
    home: Home,
    memory: HeapMemory,
    out: HomeOutputs,
    proposed: Vec<EnginePublish>,
    /// Records of the log that it has read.
    read: usize,
    /// It has the messages of so many records from a mirror, and no other records.
    mirrored: usize,
    /// The messages that members have not acknowledged, by member.
    members: BTreeMap<u64, Vec<u64>>,
}

/// The permitted acts.
#[derive(Clone, Copy)]
struct Plan {
    /// Nodes die, and records are refused.
    breaks: bool,
    /// Members leave with messages that they have not acknowledged.
    is_rude: bool,
}

struct World {
    nodes: Vec<Option<Node>>,
    log: Vec<TailRecord>,
    random: Prng,
    plan: Plan,
    now_ms: u64,
    runs: u64,
    clients: u64,
    /// Messages that were published.
    published: BTreeSet<u64>,
    /// The number of times that each message was handed to a member.
    handed: BTreeMap<u64, u32>,
    acknowledged: BTreeSet<u64>,
}

fn settings(node: usize) -> Arc<Settings> {
    let settings = in_engine().settings();
    Arc::new(Settings { node_name: format!("n{node}"), ..(*settings).clone() })
}

fn member(client: u64) -> Member {
    Member { connection: Key { index: client as u32, generation: 1 }, number: client, client }
}

impl World {
    fn new(seed: u64, plan: Plan) -> World {
        let mut world = World {
            nodes: (0..NODES).map(|_| None).collect(),
            log: Vec::new(),
            random: Prng::new(seed),
            plan,
            now_ms: BEGIN_MS,
            runs: 0,
            clients: 0,
            published: BTreeSet::new(),
            handed: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
        };
        for node in 0..NODES {
            world.start(node, 0);
        }
        world.tell();
        world
    }

    fn now(&self) -> Now {
        Now { monotonic_ms: self.now_ms - BEGIN_MS + 1_000, unix_ms: self.now_ms }
    }

    /// A node begins, with the messages of so many records from its mirror.
    fn start(&mut self, node: usize, mirrored: usize) {
        self.runs += 1;
        let (memory, out) = (HeapMemory::new(1 << 26), HomeOutputs::new(1));
        let home = Home::new(settings(node), HomeId(0), (self.runs, 7));
        let (proposed, members) = (Vec::new(), BTreeMap::new());
        let mut begun = Node { home, memory, out, proposed, read: 0, mirrored, members };
        let restart = Restart {
            partition: PARTITION,
            topic_id: 1,
            lineages: vec![LineageStart { lineage: 1, start: 1 }],
            after: 0,
            complete_from_ms: 0,
            primed_through: 0,
            follows_mirror: false,
            head: self.log.len() as u64,
        };
        let letter = EngineLetter::Restart(restart);
        begun.home.engine(self.now(), letter, &mut begun.memory, &mut begun.out);
        let available = EngineLetter::Available { partition: PARTITION, is_available: true };
        begun.home.engine(self.now(), available, &mut begun.memory, &mut begun.out);
        self.nodes[node] = Some(begun);
    }

    /// All nodes hear which nodes live.
    fn tell(&mut self) {
        let now = self.now();
        let living = (0..NODES).filter(|node| self.nodes[*node].is_some());
        let living: Vec<String> = living.map(|node| format!("n{node}")).collect();
        for node in self.nodes.iter_mut().flatten() {
            node.home.nodes_live(now, &living);
        }
    }

    fn ask(&mut self, node: usize, request: GroupRequest) {
        let now = self.now();
        let Some(Node { home, memory, out, .. }) = &mut self.nodes[node] else { return };
        home.handle(now, EdgeId(0), ToHome::Group(request), memory, out);
        self.turn(node);
    }

    fn join(&mut self, node: usize) {
        self.clients += 1;
        let member = member(self.clients);
        if let Some(node) = &mut self.nodes[node] {
            node.members.insert(self.clients, Vec::new());
        }
        let (group, since) = (Slice::copy_of(GROUP), Vec::new());
        let room = 1 + self.random.below(4) as u16;
        self.ask(node, GroupRequest::Join(Box::new(JoinGroup { group, member, room, since })));
    }

    /// A member leaves; its session sleeps, or ends, or its client unsubscribes and acknowledges
    /// its messages yet.
    fn leave(&mut self, node: usize, client: u64, sleeps: bool) {
        let mut keeps_open = !sleeps && self.random.chance(0.3);
        if let Some(node) = &mut self.nodes[node] {
            keeps_open &= node.members.get(&client).is_some_and(|open| !open.is_empty());
            if !keeps_open {
                node.members.remove(&client);
            }
        }
        let until_ms = if sleeps { FOR_EVER_MS } else { 0 };
        let (group, member) = (Slice::copy_of(GROUP), member(client));
        let leave = LeaveGroup { group, member, until_ms, keeps_open };
        self.ask(node, GroupRequest::Leave(Box::new(leave)));
    }

    fn acknowledge(&mut self, node: usize, client: u64, offset: u64, is_returned: bool) {
        if !is_returned {
            self.acknowledged.insert(offset);
        }
        let done = GroupDone { number: client, partition: PARTITION, offset, is_returned };
        self.ask(node, GroupRequest::Done(done));
    }

    fn publish(&mut self) {
        let offset = self.log.len() as u64 + 1;
        let topic = format!("jobs/{}", self.random.below(3));
        self.published.insert(offset);
        let publication = Publication {
            topic: Slice::copy_of(topic.as_bytes()),
            payload: Slice::copy_of(b"job"),
            ..Publication::default()
        };
        self.push(None, publication, false);
    }

    fn push(&mut self, name: Option<RunName>, publication: Publication, is_register: bool) {
        self.log.push(TailRecord {
            offset: self.log.len() as u64 + 1,
            lineage: 1,
            time_ms: self.now_ms,
            name,
            publication,
            restored: None,
            is_register,
        });
    }

    /// A turn of a node: its members get messages, and its records are proposed.
    fn turn(&mut self, node: usize) {
        let now = self.now();
        let Some(Node { home, memory, out, proposed, members, .. }) = &mut self.nodes[node] else {
            return;
        };
        while home.pump(now, memory, out) {}
        home.finish_turn(out);
        for request in std::mem::take(&mut out.engine) {
            if let EngineRequest::Publish(publish) = request {
                proposed.push(publish);
            }
        }
        for letter in std::mem::take(&mut out.letters[0]) {
            let ToEdge::Group(GroupLetter::Message(message)) = letter else { continue };
            let view = log::RecordView::parse(&message.record).expect("a record");
            // A member that has left gets nothing; its home knows.
            if let Some(open) = members.get_mut(&message.member.number) {
                open.push(view.offset());
                *self.handed.entry(view.offset()).or_insert(0) += 1;
            }
        }
    }

    /// The log takes some of a node's proposals, or the engine refuses them.
    fn append(&mut self, node: usize, count: usize, takes: bool) {
        let Some(asked) = &mut self.nodes[node] else { return };
        let count = count.min(asked.proposed.len());
        let taken: Vec<EnginePublish> = asked.proposed.drain(..count).collect();
        for EnginePublish { name, publication, is_register, .. } in taken {
            assert!(is_register, "the test publishes nothing by a node");
            if takes {
                self.push(Some(name), publication, is_register);
            }
        }
    }

    fn read(&mut self, node: usize, count: usize) {
        let now = self.now();
        let Some(Node { home, memory, out, read, mirrored, .. }) = &mut self.nodes[node] else {
            return;
        };
        let to = self.log.len().min(read.saturating_add(count)).max(*mirrored);
        let is_read = |it: &&TailRecord| !it.is_register || it.offset > *mirrored as u64;
        let records = self.log[*read..to].iter().filter(is_read).cloned().collect();
        *read = to;
        let through = to as u64;
        let tail = Tail { partition: PARTITION, records, through, ended_ago_ms: Some(0) };
        home.engine(now, EngineLetter::Tail(tail), memory, out);
        self.turn(node);
    }

    /// Everything that is under way arrives, until nothing is.
    fn settle(&mut self) {
        loop {
            for node in 0..NODES {
                self.turn(node);
                self.append(node, usize::MAX, true);
            }
            let end = self.log.len();
            if self.nodes.iter().flatten().all(|node| node.read == end) {
                return;
            }
            for node in 0..NODES {
                self.read(node, usize::MAX);
            }
        }
    }

    fn members_of(&self, node: usize) -> Vec<u64> {
        self.nodes[node].iter().flat_map(|node| node.members.keys().copied()).collect()
    }

    fn act(&mut self) {
        let node = self.random.below(NODES as u64) as usize;
        let members = self.members_of(node);
        let client = members.get(self.random.below(members.len().max(1) as u64) as usize).copied();
        match self.random.below(100) {
            0..25 => self.publish(),
            25..45 => {
                let count = 1 + self.random.below(5) as usize;
                self.read(node, count);
            }
            45..55 => {
                let takes = !self.plan.breaks || self.random.chance(0.9);
                self.append(node, 1, takes);
            }
            55..60 => self.now_ms += self.random.below(3_000),
            60..67 if members.len() < 3 => {
                if !self.plan.is_rude {
                    self.settle();
                }
                self.join(node);
            }
            67..72 => {
                let Some(client) = client else { return };
                let open = self.nodes[node].as_ref().map_or(0, |node| node.members[&client].len());
                if open == 0 || self.plan.is_rude {
                    // The group never ends.
                    let sleeps = node == 0 || self.random.chance(0.5);
                    self.leave(node, client, sleeps);
                }
            }
            72..95 => {
                let Some(client) = client else { return };
                let Some(Node { members, .. }) = &mut self.nodes[node] else { return };
                let open = members.get_mut(&client).expect("a member");
                if !open.is_empty() {
                    let offset = open.remove(self.random.below(open.len() as u64) as usize);
                    let is_returned = self.plan.is_rude && self.random.chance(0.1);
                    self.acknowledge(node, client, offset, is_returned);
                }
            }
            95 if self.plan.breaks && node > 0 => match self.nodes[node] {
                Some(_) => self.nodes[node] = None,
                None => {
                    let mirrored = self.random.below(self.log.len() as u64 + 1) as usize;
                    self.start(node, mirrored);
                    self.tell();
                }
            },
            96 => self.tell(),
            _ => {}
        }
    }

    /// Members everywhere acknowledge everything, until nothing comes any more.
    fn finish(&mut self) {
        for node in 0..NODES {
            if self.nodes[node].is_none() {
                self.start(node, self.log.len());
            }
        }
        self.tell();
        self.settle();
        for node in 0..NODES {
            self.join(node);
        }
        let mut quiet = 0;
        while quiet < 12 {
            self.settle();
            let mut open = Vec::new();
            for node in 0..NODES {
                for (client, offsets) in self.nodes[node].iter_mut().flat_map(|it| &mut it.members)
                {
                    let offsets = std::mem::take(offsets);
                    open.extend(offsets.into_iter().map(|offset| (node, *client, offset)));
                }
            }
            quiet = if open.is_empty() { quiet + 1 } else { 0 };
            for (node, client, offset) in open {
                self.acknowledge(node, client, offset, false);
            }
            self.now_ms += 3_000;
        }
    }
}

fn play(seed: u64, plan: Plan) -> World {
    let mut world = World::new(seed, plan);
    world.join(0);
    world.settle();
    for _ in 0..400 {
        world.act();
    }
    world.finish();
    let missing: Vec<u64> = world.published.difference(&world.acknowledged).copied().collect();
    assert!(missing.is_empty(), "seed {seed}: nobody got {missing:?}");
    world
}

/// Nodes that begin at the same time agree on what there is.
#[test]
fn nodes_that_begin_together_agree() {
    for seed in 0..300 {
        let mut world = World::new(seed, Plan { breaks: false, is_rude: false });
        for node in 1..NODES {
            world.nodes[node] = None;
        }
        for _ in 0..60 {
            let node = world.random.below(NODES as u64) as usize;
            let count = 1 + world.random.below(3) as usize;
            match world.random.below(10) {
                0 if world.nodes[node].is_none() => {
                    let mirrored = world.log.len();
                    world.start(node, mirrored);
                    world.tell();
                }
                0..3 if world.nodes[node].is_some() && world.members_of(node).is_empty() => {
                    world.join(node);
                }
                3 => world.now_ms += 1_000,
                4..7 => world.append(node, count, true),
                _ => world.read(node, count),
            }
        }
        world.finish();
        let before = world.handed.len();
        for _ in 0..60 {
            world.publish();
        }
        world.finish();
        assert_eq!(world.handed.len() - before, 60, "seed {seed}");
        let again: Vec<_> = world.handed.iter().filter(|(_, count)| **count > 1).collect();
        assert!(again.is_empty(), "seed {seed}: {again:?}");
    }
}

/// Nodes die, records are refused, members leave: a member acknowledges each message.
#[test]
fn every_message_of_a_group_comes() {
    for seed in 0..300 {
        play(seed, Plan { breaks: true, is_rude: true });
    }
}

/// Members that leave without a death give their messages back.
#[test]
fn messages_that_a_member_leaves_come_to_others() {
    for seed in 0..300 {
        play(seed, Plan { breaks: false, is_rude: true });
    }
}

/// Members come and go, and acknowledge their messages: each message comes once.
#[test]
fn each_message_of_a_group_comes_once() {
    for seed in 0..300 {
        let world = play(seed, Plan { breaks: false, is_rude: false });
        let again: Vec<_> = world.handed.iter().filter(|(_, count)| **count > 1).collect();
        assert!(again.is_empty(), "seed {seed}: {again:?}");
    }
}

/// All nodes with members share the messages.
#[test]
fn all_nodes_get_their_part() {
    let mut world = World::new(1, Plan { breaks: false, is_rude: false });
    for node in 0..NODES {
        world.join(node);
    }
    world.settle();
    let mut of_node = [0; NODES];
    for _ in 0..300 {
        world.publish();
        world.settle();
        for (node, count) in of_node.iter_mut().enumerate() {
            let client = world.members_of(node)[0];
            let open = &mut world.nodes[node].as_mut().expect("it lives").members;
            for offset in std::mem::take(open.get_mut(&client).expect("a member")) {
                *count += 1;
                world.acknowledge(node, client, offset, false);
            }
        }
    }
    assert_eq!(of_node.iter().sum::<u32>(), 300);
    assert!(of_node.iter().all(|count| (60..140).contains(count)), "{of_node:?}");
}
