//! One world of a cluster: nodes, the engine, the network and clients on one thread, in an order
//! that the seed determines.

use super::bug::{Bug, Planted};
use super::engine::{Engine, EngineFault};
use super::judge;
use super::member::{ClusterContext, Member};
use super::node::Node;
use super::oracle::{ClusterOracle, Seen};
use super::plan::{ClusterPlan, NODES, Planned};
use crate::client::Phase;
use crate::mutation::Saboteur;
use crate::network::{Network, fold};
use crate::oracle::Failure;
use broker::mail::Publication;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use stdx::chunk::Slice;
use stdx::prng::Prng;

/// The monotonic clock at a world's start, in milliseconds.
const START_MS: u64 = 1_000;
/// Virtual time at a world's start, since 1970, in milliseconds.
const START_UNIX_MS: u64 = 1_700_000_000_000;
/// The time limit after the faults for everything to arrive.
const CALM_MS_MAX: u64 = 90_000;
/// The time after which every dropped record has its restoration: the wait of homes for each other,
/// and that for an answer.
const RESTORED_MS: u64 = 150_000;
/// The maximum number of steps, so that a restless world ends.
const STEPS_MAX: u64 = 40_000_000;

/// Options of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterOptions {
    /// A planted bug.
    pub bug: Option<Bug>,
    /// The world is like that of this bug, but without it.
    pub like: Option<Bug>,
    /// No unclean elections, replaced topics or expired records: then nothing may be lost.
    pub is_lossless: bool,
    /// The engine's topic is compacted.
    pub is_compacted: bool,
    /// Whether to record the clients' actions.
    pub tracing: bool,
    /// The client whose actions are returned, instead of that of the failure.
    pub client: Option<usize>,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct ClusterOutcome {
    /// The seed.
    pub seed: u64,
    /// A hash of all data: equal seeds give equal hashes.
    pub hash: u64,
    /// The first failure.
    pub failure: Option<Failure>,
    /// The last actions of its client.
    pub notes: Vec<String>,
    /// The number of times that the planted bug took effect.
    pub strikes: u32,
    /// Sums.
    pub seen: Seen,
}

struct ClusterWorld {
    plan: ClusterPlan,
    random: Prng,
    network: Rc<RefCell<Network>>,
    engine: Rc<RefCell<Engine>>,
    nodes: Vec<Node>,
    members: Vec<Member>,
    timers: BTreeSet<(u64, usize)>,
    timer_of: Vec<Option<u64>>,
    ready: Vec<usize>,
    is_ready: Vec<bool>,
    oracle: ClusterOracle,
    phase: Phase,
    now_ms: u64,
    steps: u64,
    /// The place in the schedule.
    planned: usize,
    /// The time of the next publication of a foreign producer.
    foreign_at_ms: Option<u64>,
    /// The engine's clock is so far ahead of the world's.
    engine_ahead_ms: u64,
    hash: u64,
    wanted: Option<usize>,
}

/// Runs the world of a seed from its beginning to its end.
pub fn run(seed: u64, options: ClusterOptions) -> ClusterOutcome {
    let mut world = ClusterWorld::new(seed, options);
    world.live();
    world.outcome()
}

impl ClusterWorld {
    fn new(seed: u64, options: ClusterOptions) -> ClusterWorld {
        let bug = options.bug.or(options.like);
        let plan = ClusterPlan::draw(seed, bug, options.is_lossless, options.is_compacted);
        let mut random = Prng::new(seed ^ 0x00c1_0051);
        let edges = usize::from(plan.settings.edges_count);
        let saboteur = Saboteur::new(None, seed);
        let mut network = Network::new(NODES * edges, random.fork(), plan.net, saboteur);
        network.crash_edges(0..NODES * edges, false);
        let planted = Planted::new(options.bug, seed, plan.engine.window_s * 1_000);
        let engine = Engine::new(plan.engine.clone(), random.fork(), planted);
        let node = |number: usize| {
            let begins_ms = START_MS + plan.starts[number];
            Node::new(number, &plan, &mut random, begins_ms)
        };
        let nodes = (0..NODES).map(node).collect();
        let member = |id| Member::new(id, &plan, &mut random);
        let members: Vec<Member> = (0..plan.clients).map(member).collect();
        let count = members.len();
        let mut oracle = ClusterOracle::default();
        oracle.tracing = options.tracing;
        let foreign_at_ms = (plan.foreign_ms > 0).then_some(START_MS + plan.foreign_ms);
        ClusterWorld {
            random,
            network: Rc::new(RefCell::new(network)),
            engine: Rc::new(RefCell::new(engine)),
            nodes,
            members,
            timers: BTreeSet::new(),
            timer_of: vec![None; count],
            ready: (0..count).collect(),
            is_ready: vec![true; count],
            oracle,
            phase: Phase::Active,
            now_ms: START_MS,
            steps: 0,
            planned: 0,
            foreign_at_ms,
            engine_ahead_ms: 0,
            hash: seed,
            wanted: options.client,
            plan,
        }
    }

    fn live(&mut self) {
        self.set_now(START_MS);
        self.advance(START_MS + self.plan.active_ms, false);
        self.calm();
        self.advance(self.now_ms + 1_000, false);
        self.publish_markers();
        self.add_auditors(client::Start::Last(1 << 20));
        self.advance(self.now_ms + CALM_MS_MAX, true);
        // Messages may still be in flight.
        self.advance(self.now_ms + 2_000, false);
        self.advance(self.now_ms + CALM_MS_MAX, true);
        if let Err(text) = self.settled() {
            let text = format!("{CALM_MS_MAX} ms after the last fault: {}", text.1);
            self.oracle.fail(self.settled().err().and_then(|(client, _)| client), text);
        }
        if self.oracle.failure.is_none() {
            judge::judge(&mut self.oracle, &self.engine.borrow(), &self.plan, &self.members);
        }
        if self.plan.is_compacted {
            self.compact();
        }
        self.phase = Phase::Over;
        self.wake_all();
        self.advance(self.now_ms + 15_000, false);
        self.judge_end();
    }

    /// The newest records of some topics are ones that all nodes drop. Later the engine compacts,
    /// and all nodes begin again: they retain what they have delivered.
    fn compact(&mut self) {
        for _ in 0..self.random.between(1, 3) {
            self.publish_dropped();
            self.advance(self.now_ms + RESTORED_MS, false);
            self.engine_ahead_ms += self.random.below(900_000);
            self.set_now(self.now_ms);
        }
        self.engine_ahead_ms += self.random.below(1_500_000);
        self.set_now(self.now_ms);
        self.engine.borrow_mut().compact();
        for node in 0..NODES {
            let until_ms = self.now_ms + 10;
            let (network, engine) = (&self.network, &self.engine);
            self.nodes[node].kill(&self.plan, network, engine, false, until_ms);
        }
        self.oracle.note_all("--- compacted ---");
        let first = self.members.len();
        self.add_auditors(client::Start::Snapshot);
        self.advance(self.now_ms + CALM_MS_MAX, true);
        self.advance(self.now_ms + 2_000, false);
        self.advance(self.now_ms + CALM_MS_MAX, true);
        if let Err((client, text)) = self.settled() {
            let text = format!("{CALM_MS_MAX} ms after the compaction: {text}");
            self.oracle.fail(client, text);
        }
        if self.oracle.failure.is_none() {
            let (engine, members) = (self.engine.borrow(), &self.members[first..]);
            judge::judge_retained(&mut self.oracle, &engine, &self.plan, (first, members));
        }
    }

    /// Writes records that all nodes drop behind newer ones of their topics.
    fn publish_dropped(&mut self) {
        for topic in 0..self.plan.topics.len() {
            let choice = self.random.below(4);
            if choice == 0 {
                let index = self.plan.partition(topic);
                let name = self.plan.topics[topic].as_bytes();
                self.engine.borrow_mut().publish_again(index, name);
                continue;
            }
            let first = self.new_foreign(topic, format!("late {}", self.now_ms).as_bytes());
            let next = match choice {
                1 => Publication { retain: true, payload: Slice::empty(), ..first.clone() },
                _ => self.new_foreign(topic, b""),
            };
            let next = Publication { idempotency_key: Slice::empty(), ..next };
            let index = self.plan.partition(topic);
            let mut engine = self.engine.borrow_mut();
            let again = first.clone();
            let all = [Some(first), (choice < 3).then_some(next), Some(again)];
            for publication in all.into_iter().flatten() {
                engine.publish_foreign(index, publication);
            }
        }
    }

    /// A publication of a foreign producer, with an idempotency key.
    fn new_foreign(&mut self, topic: usize, key: &[u8]) -> Publication {
        let padding = self.random.between(0, self.plan.payload_bytes_max) as usize;
        let id = self.oracle.publication(topic, self.plan.partition(topic), padding);
        Publication {
            topic: Slice::copy_of(self.plan.topics[topic].as_bytes()),
            payload: Slice::copy_of(&self.oracle.publications[id].payload),
            idempotency_key: Slice::copy_of(key),
            ..Publication::default()
        }
    }

    /// Ends all faults and actions.
    fn calm(&mut self) {
        self.phase = Phase::Calm;
        self.planned = self.plan.schedule.len();
        self.foreign_at_ms = None;
        self.oracle.note_all("--- calm ---");
        for node in 0..NODES {
            if !self.nodes[node].is_up() {
                self.start(node);
            }
            self.nodes[node].calm();
        }
        self.network.borrow_mut().faults.calm();
        self.engine.borrow_mut().calm();
        self.wake_all();
    }

    /// Publishes once more to each topic, so that live filters have something to receive. Some
    /// partitions end with a hole behind that, which nodes must settle, too.
    fn publish_markers(&mut self) {
        for topic in 0..self.plan.topics.len() {
            if !self.publish_foreign(topic, false) {
                self.oracle.fail(None, format!("no marker for topic {topic}"));
            }
        }
        let mut engine = self.engine.borrow_mut();
        for partition in (0..engine.partitions.len()).step_by(2) {
            engine.publish_unroutable(partition);
        }
    }

    fn publish_foreign(&mut self, topic: usize, in_transaction: bool) -> bool {
        let partition = self.plan.partition(topic);
        let id = self.oracle.publications.len();
        let publication = self.new_foreign(topic, b"");
        let mut engine = self.engine.borrow_mut();
        let taken = if in_transaction {
            engine.publish_in_transaction(partition, publication)
        } else {
            engine.publish_foreign(partition, publication)
        };
        if !taken {
            self.oracle.refused(&engine, None, id, true);
        }
        taken
    }

    /// One client for each node reads everything that the node has.
    fn add_auditors(&mut self, start: client::Start<'static>) {
        for node in 0..NODES {
            let id = self.members.len();
            self.members.push(Member::auditor(id, (node, start), &self.plan, &mut self.random));
            self.timer_of.push(None);
            self.is_ready.push(false);
            self.make_ready(id);
        }
    }

    fn start(&mut self, node: usize) {
        self.hash = fold(self.hash, 0x57a7 ^ node as u64);
        self.oracle.note_all(&format!("--- node {node} begins ---"));
        let unix_ms = START_UNIX_MS + self.now_ms - START_MS;
        self.nodes[node].set_now(self.now_ms, unix_ms);
        self.nodes[node].start(&self.plan, &self.network, &self.engine, &mut self.random);
    }

    fn wake_all(&mut self) {
        for member in 0..self.members.len() {
            self.make_ready(member);
        }
    }

    fn make_ready(&mut self, member: usize) {
        if !std::mem::replace(&mut self.is_ready[member], true) {
            self.ready.push(member);
        }
    }

    fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        let unix_ms = START_UNIX_MS + now_ms - START_MS;
        self.network.borrow_mut().now_ms = now_ms;
        let mut engine = self.engine.borrow_mut();
        let engine_ms = (now_ms - START_MS) * self.plan.engine_rate + self.engine_ahead_ms;
        (engine.now_ms, engine.unix_ms) = (now_ms, START_UNIX_MS + engine_ms);
        drop(engine);
        for node in &mut self.nodes {
            node.set_now(now_ms, unix_ms);
        }
        self.oracle.now_ms = now_ms;
    }

    /// Runs the world until `end_ms`, or until everything is settled.
    fn advance(&mut self, end_ms: u64, until_settled: bool) {
        let mut runnable = Vec::new();
        while self.oracle.failure.is_none() {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                self.oracle.fail(None, "the world never rests".into());
            }
            self.follow_schedule();
            self.collect_ready();
            runnable.clear();
            self.collect_runnable(&mut runnable);
            let has_work = self.engine.borrow().work_due_ms().is_some_and(|due| due <= self.now_ms);
            let is_due = |node: &usize| {
                self.nodes[*node].mirror_due_ms().is_some_and(|due| due <= self.now_ms)
            };
            let mirrors: Vec<usize> = (0..NODES).filter(is_due).collect();
            let members = self.ready.len().min(8);
            let others = runnable.len() + members + usize::from(has_work);
            let choices = others + mirrors.len();
            if choices == 0 {
                if until_settled && self.settled().is_ok() {
                    return;
                }
                match self.next_ms() {
                    Some(next) if next <= end_ms => self.set_now(next.max(self.now_ms)),
                    _ => return self.set_now(end_ms),
                }
                continue;
            }
            let choice = self.random.below(choices as u64) as usize;
            if let Some(place) = choice.checked_sub(others) {
                self.turn_mirror(mirrors[place]);
                continue;
            }
            match runnable.get(choice) {
                Some((node, shard)) => self.turn(*node, *shard),
                None if has_work && choice == runnable.len() => self.engine.borrow_mut().work(),
                None => self.step_member(),
            }
            if self.random.chance(0.05) {
                let later = self.now_ms + self.random.between(1, 3);
                self.set_now(later);
                if later >= end_ms {
                    return;
                }
            }
        }
    }

    fn collect_ready(&mut self) {
        let notified = std::mem::take(&mut self.network.borrow_mut().notified);
        for member in &notified {
            self.make_ready(*member);
        }
        while let Some((at, member)) = self.timers.first().copied()
            && at <= self.now_ms
        {
            self.timers.pop_first();
            self.timer_of[member] = None;
            self.make_ready(member);
        }
    }

    fn collect_runnable(&self, runnable: &mut Vec<(usize, usize)>) {
        let edges = usize::from(self.plan.settings.edges_count);
        for (number, node) in self.nodes.iter().enumerate() {
            for shard in 0..node.reactors.len() {
                let network = self.network.borrow();
                if self.has_mail(number, shard)
                    || node.turns < 4
                    || network.has_work(number * edges + shard)
                {
                    runnable.push((number, shard));
                }
            }
        }
    }

    fn mail_due_ms(&self, node: usize, shard: usize) -> Option<u64> {
        let mesh = self.nodes[node].mesh.borrow().due_ms(shard);
        let engine = self.engine.borrow().letter_due_ms(node, shard);
        let mirror = self.nodes[node].mirror.as_ref();
        let mirror = mirror.and_then(|mirror| mirror.borrow().letter_due_ms(shard));
        mesh.into_iter().chain(engine).chain(mirror).min()
    }

    fn has_mail(&self, node: usize, shard: usize) -> bool {
        self.mail_due_ms(node, shard).is_some_and(|due| due <= self.now_ms)
    }

    fn next_ms(&self) -> Option<u64> {
        let edges = usize::from(self.plan.settings.edges_count);
        let mut next = self.timers.first().map(|(at, _)| *at);
        let mut take = |at: Option<u64>| next = next.into_iter().chain(at).min();
        for (number, node) in self.nodes.iter().enumerate() {
            take(node.down_until_ms);
            take(node.mirror_due_ms());
            for shard in 0..node.reactors.len() {
                take(self.network.borrow().wake_at_ms(number * edges + shard));
                take(self.mail_due_ms(number, shard));
            }
        }
        take(self.engine.borrow().work_due_ms());
        take(self.plan.schedule.get(self.planned).map(|(at, _)| at + START_MS));
        take(self.foreign_at_ms);
        next
    }

    fn follow_schedule(&mut self) {
        for node in 0..NODES {
            if self.nodes[node].down_until_ms.is_some_and(|at| at <= self.now_ms) {
                self.start(node);
            }
            self.nodes[node].open(&self.network, self.plan.opens_early);
        }
        while let Some((at, planned)) = self.plan.schedule.get(self.planned).copied()
            && at + START_MS <= self.now_ms
        {
            self.planned += 1;
            self.suffer(planned);
        }
        if self.foreign_at_ms.is_some_and(|at| at <= self.now_ms) {
            let mean = self.plan.foreign_ms;
            self.foreign_at_ms = Some(self.now_ms + 1 + self.random.below(2 * mean));
            let topic = self.random.below(self.plan.topics.len() as u64) as usize;
            if self.random.chance(0.2) {
                self.engine.borrow_mut().publish_unroutable(self.plan.partition(topic));
            } else {
                self.publish_foreign(topic, false);
            }
        }
    }

    fn suffer(&mut self, planned: Planned) {
        self.hash = fold(self.hash, 0xfa17);
        self.oracle.note_all(&format!("--- {planned:?} ---"));
        match planned {
            Planned::Engine(EngineFault::Open(partition)) => {
                let topics = 0..self.plan.topics.len();
                let mut topics = topics.filter(|topic| self.plan.partition(*topic) == partition);
                if let Some(topic) = topics.next() {
                    self.publish_foreign(topic, true);
                }
            }
            Planned::Engine(EngineFault::Away(node, after_ms)) => {
                let fault = EngineFault::Away(node, START_MS + after_ms);
                self.engine.borrow_mut().suffer(fault);
            }
            Planned::Engine(fault) => self.engine.borrow_mut().suffer(fault),
            Planned::Kill { node, down_ms, leaves_data } => {
                if self.nodes[node].is_up() {
                    self.oracle.seen.deaths += 1;
                    let until_ms = self.now_ms + down_ms;
                    let (network, engine) = (&self.network, &self.engine);
                    self.nodes[node].kill(&self.plan, network, engine, leaves_data, until_ms);
                }
            }
        }
    }

    fn turn(&mut self, node: usize, shard: usize) {
        self.oracle.seen.turns += 1;
        self.nodes[node].turns += 1;
        self.hash = fold(self.hash, (node as u64) << 8 | shard as u64);
        let has_mail = self.has_mail(node, shard);
        if let Err(error) = self.nodes[node].reactors[shard].turn() {
            self.oracle.fail(None, format!("node {node}, shard {shard}: {error}"));
        }
        self.nodes[node].note_floors(shard, &mut self.engine.borrow_mut());
        if has_mail {
            let edges = usize::from(self.plan.settings.edges_count);
            self.network.borrow_mut().keep_busy(node * edges + shard);
        }
    }

    fn turn_mirror(&mut self, node: usize) {
        self.hash = fold(self.hash, 0x0d15_c000 ^ node as u64);
        if let Some(mirror) = &self.nodes[node].mirror {
            mirror.borrow_mut().turn();
        }
    }

    fn step_member(&mut self) {
        let place = self.random.below(self.ready.len() as u64) as usize;
        let member = self.ready.swap_remove(place);
        self.is_ready[member] = false;
        self.hash = fold(self.hash, member as u64 ^ 0xc11e);
        let mut network = self.network.borrow_mut();
        let engine = self.engine.borrow();
        let mut context = ClusterContext {
            network: &mut network,
            oracle: &mut self.oracle,
            engine: &engine,
            plan: &self.plan,
            phase: self.phase,
            now_ms: self.now_ms,
        };
        let next = self.members[member].step(&mut context);
        drop((network, engine));
        if let Some(old) = self.timer_of[member].take() {
            self.timers.remove(&(old, member));
        }
        match next {
            Some(at) if at <= self.now_ms => self.make_ready(member),
            Some(at) => {
                self.timers.insert((at, member));
                self.timer_of[member] = Some(at);
            }
            None => {}
        }
    }

    /// Whether nodes and clients have everything.
    fn settled(&self) -> Result<(), (Option<usize>, String)> {
        let engine = self.engine.borrow();
        engine.is_settled().map_err(|text| (None, text))?;
        for node in &self.nodes {
            node.is_settled(&engine).map_err(|text| (None, text))?;
        }
        for (id, member) in self.members.iter().enumerate() {
            let result = member.is_settled(&engine, &self.plan);
            result.map_err(|text| (Some(id), text))?;
        }
        Ok(())
    }

    /// After the departure of all clients nothing may be left of them.
    fn judge_end(&mut self) {
        if self.oracle.failure.is_some() {
            return;
        }
        for node in &self.nodes {
            for (shard, reactor) in node.reactors.iter().enumerate() {
                let edge = reactor.edge().statistics();
                let gauges = [
                    ("connections", edge.connections),
                    ("subscriptions", edge.subscriptions),
                    ("filters", edge.filters),
                    ("pinned bytes", edge.pinned_bytes),
                ];
                for (name, value) in gauges {
                    if value != 0 {
                        let number = node.number;
                        let text = format!(
                            "all have left node {number}, and {name} is {value} at {shard}"
                        );
                        self.oracle.fail(None, text);
                    }
                }
            }
        }
        let links = self.network.borrow().links_count();
        if links > 0 {
            self.oracle.fail(None, format!("all have left, and {links} connections are there"));
        }
    }

    fn outcome(mut self) -> ClusterOutcome {
        let failure = self.oracle.failure.clone();
        let concerned = self.wanted.or(failure.as_ref().and_then(|failure| failure.client));
        let engine = self.engine.borrow();
        self.oracle.seen.worlds = 1;
        self.oracle.seen.restarts = engine.restarts;
        let reactors = self.nodes.iter().flat_map(|node| &node.reactors);
        let resumed = reactors.map(|reactor| reactor.edge().statistics().tickets_resumed);
        self.oracle.seen.tickets = resumed.sum();
        judge::count(&mut self.oracle.seen, &engine);
        let meshes = self.nodes.iter().map(|node| node.mesh.borrow().hash);
        let mirrors = self.nodes.iter().filter_map(|node| node.mirror.as_ref());
        let mirrors = mirrors.map(|mirror| mirror.borrow().hash());
        let parts = [self.network.borrow().hash, engine.hash].into_iter().chain(meshes);
        let parts = parts.chain(mirrors);
        ClusterOutcome {
            seed: self.plan.seed,
            hash: parts.fold(self.hash, fold),
            notes: concerned
                .map_or(Vec::new(), |client| self.oracle.notes(client).cloned().collect()),
            failure,
            strikes: engine.planted.strikes,
            seen: self.oracle.seen,
        }
    }
}
