//! One world: reactors, mailboxes, network, clock and clients on one thread, in an order that the seed decides.

use crate::client::{Client, Context, Phase};
use crate::faults::{Crash, MailFaults};
use crate::mesh::{Mesh, SimMailbox};
use crate::mutation::{Mutation, Saboteur};
use crate::native::NativeClient;
use crate::network::{Network, SimNet, fold};
use crate::oracle::{Failure, Oracle};
use crate::plan::{Plan, Scale};
use broker::edge::Now;
use log::{HeapMemory, Memory, MemoryRefused};
use node::reactor::{Clock, Reactor, ReactorParts};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use stdx::chunk::ChunkWriter;
use stdx::prng::Prng;

/// The monotonic clock at a world's start, in milliseconds.
const START_MS: u64 = 1_000;
/// Virtual time at a world's start, since 1970, in milliseconds.
const START_UNIX_MS: u64 = 1_700_000_000_000;
/// After the faults everything must have come within so long.
const CALM_MS_MAX: u64 = 90_000;
/// Steps of one world, so that one that never rests ends.
const STEPS_MAX: u64 = 40_000_000;

/// What a run of one world gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// Folded from all that crossed network and mailboxes: the same seed gives the same.
    pub hash: u64,
    /// What went wrong first.
    pub failure: Option<Failure>,
    /// The last doings of the client concerned.
    pub notes: Vec<String>,
    /// Messages judged.
    pub deliveries: u64,
    /// Publications.
    pub publications: u64,
    /// Announced holes judged.
    pub holes: u64,
    /// Turns of all reactors.
    pub turns: u64,
    /// Letters and requests that crossed mailboxes.
    pub posts: u64,
    /// How often the planted bug struck.
    pub strikes: u32,
    /// What came about, so that a sweep shows what it reached.
    pub reached: Reached,
}

/// Sums of the node's counters, to see what a sweep exercised.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reached {
    /// Subscriptions that fell behind the ring.
    pub lagging: u64,
    /// Pages read.
    pub pages: u64,
    /// Streams out of credit.
    pub streams_lagged: u64,
    /// Streams that lost records to eviction.
    pub stream_gaps: u64,
    /// Segments evicted.
    pub evicted_segments: u64,
    /// Topics forgotten.
    pub forgotten: u64,
    /// Refusals of homes.
    pub refused: u64,
    /// Messages for filters left out.
    pub skipped: u64,
    /// Connections closed for being slow.
    pub slow_closed: u64,
    /// Nodes that were killed.
    pub crashes: u64,
    /// New epochs of logs after a crash.
    pub new_epochs: u64,
    /// Acknowledgements of what the log had already.
    pub duplicates: u64,
}

impl std::ops::AddAssign for Reached {
    fn add_assign(&mut self, other: Reached) {
        self.lagging += other.lagging;
        self.pages += other.pages;
        self.streams_lagged += other.streams_lagged;
        self.stream_gaps += other.stream_gaps;
        self.evicted_segments += other.evicted_segments;
        self.forgotten += other.forgotten;
        self.refused += other.refused;
        self.skipped += other.skipped;
        self.slow_closed += other.slow_closed;
        self.crashes += other.crashes;
        self.new_epochs += other.new_epochs;
        self.duplicates += other.duplicates;
    }
}

/// How to run a world.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How large.
    pub scale: Scale,
    /// A planted bug.
    pub mutation: Option<Mutation>,
    /// Keep the clients' doings as text.
    pub tracing: bool,
    /// Whose doings are wanted, instead of those of the client that a failure concerns.
    pub client: Option<usize>,
}

#[derive(Clone)]
struct SimClock(Rc<Cell<Now>>);

impl Clock for SimClock {
    fn now(&mut self) -> Now {
        self.0.get()
    }
}

/// Heap memory that is refused now and then.
struct SimMemory {
    heap: HeapMemory,
    refusals: Rc<Cell<f64>>,
    random: Prng,
}

impl Memory for SimMemory {
    fn allocate(&mut self, capacity: usize) -> Result<(ChunkWriter, u64), MemoryRefused> {
        if self.random.chance(self.refusals.get()) {
            return Err(MemoryRefused { capacity });
        }
        self.heap.allocate(capacity)
    }

    fn release(&mut self, id: u64) {
        self.heap.release(id);
    }
}

struct World {
    plan: Plan,
    random: Prng,
    network: Rc<RefCell<Network>>,
    mesh: Rc<RefCell<Mesh>>,
    clock: Rc<Cell<Now>>,
    memory_refusals: Rc<Cell<f64>>,
    reactors: Vec<Reactor<SimNet, SimMailbox, SimClock>>,
    clients: Vec<Box<dyn Client>>,
    timers: BTreeSet<(u64, usize)>,
    timer_of: Vec<Option<u64>>,
    ready: Vec<usize>,
    is_ready: Vec<bool>,
    oracle: Oracle,
    phase: Phase,
    now_ms: u64,
    steps: u64,
    turns: u64,
    /// Turns taken when the present node began.
    turns_before: u64,
    /// Crashes still to come, the next one last.
    crashes: Vec<Crash>,
    /// The next node begins then.
    down_until_ms: Option<u64>,
    /// Of nodes that are gone.
    reached: Reached,
    hash: u64,
    wanted: Option<usize>,
}

/// Runs the world of a seed from its beginning to its end.
pub fn run(seed: u64, options: Options) -> Outcome {
    let mut world = World::new(seed, options);
    world.live();
    world.outcome()
}

impl World {
    fn new(seed: u64, options: Options) -> World {
        let plan = Plan::draw(seed, options.scale, options.mutation.is_some());
        let mut random = Prng::new(seed ^ 0x0051_6d00);
        let edges = usize::from(plan.settings.edges_count);
        let network = Rc::new(RefCell::new(Network::new(
            edges,
            random.fork(),
            plan.net,
            Saboteur::new(options.mutation, seed),
        )));
        let mesh = Rc::new(RefCell::new(Mesh::new(
            edges,
            random.fork(),
            plan.mail,
            Saboteur::new(options.mutation, seed),
        )));
        let clock = Rc::new(Cell::new(Now {
            monotonic_ms: START_MS,
            unix_ms: START_UNIX_MS,
        }));
        let memory_refusals = Rc::new(Cell::new(plan.memory_refusals));
        let mut clients: Vec<Box<dyn Client>> = Vec::new();
        clients.push(Box::new(NativeClient::auditor(0, &plan, &mut random)));
        for id in 1..=plan.clients {
            clients.push(crate::kinds::draw(id, &plan, &mut random));
        }
        let mut oracle = Oracle::default();
        oracle.tracing = options.tracing;
        for log in &plan.settings.logs {
            oracle
                .lives
                .add_log(log.first_partition + log.partitions_count, log.epoch);
        }
        let crashes = plan.crashes.iter().rev().copied().collect();
        let count = clients.len();
        let mut world = World {
            plan,
            random,
            network,
            mesh,
            clock,
            memory_refusals,
            reactors: Vec::new(),
            clients,
            timers: BTreeSet::new(),
            timer_of: vec![None; count],
            ready: (0..count).collect(),
            is_ready: vec![true; count],
            oracle,
            phase: Phase::Active,
            now_ms: START_MS,
            steps: 0,
            turns: 0,
            turns_before: 0,
            crashes,
            down_until_ms: None,
            reached: Reached::default(),
            hash: seed,
            wanted: options.client,
        };
        world.start();
        world
    }

    /// A node begins.
    fn start(&mut self) {
        let settings = &self.plan.settings;
        let homes = usize::from(settings.homes_count);
        let seed = self.plan.seed;
        self.turns_before = self.turns;
        for shard in 0..usize::from(settings.edges_count) {
            let parts = ReactorParts {
                net: SimNet::new(self.network.clone(), shard),
                mailbox: SimMailbox::new(self.mesh.clone(), shard),
                clock: SimClock(self.clock.clone()),
                id: shard as u16,
                settings: settings.clone(),
                memory: Box::new(SimMemory {
                    heap: HeapMemory::new(self.plan.memory_bytes / homes),
                    refusals: self.memory_refusals.clone(),
                    random: self.random.fork(),
                }),
                hash_seed: (seed, !seed),
                home: None,
            };
            self.reactors.push(Reactor::new(parts));
        }
    }

    /// The node dies, with everything that it had in memory.
    fn crash(&mut self, crash: Crash) {
        self.reached.crashes += 1;
        self.hash = fold(self.hash, 0xdead);
        self.oracle.note_all("--- the node dies ---");
        self.collect_statistics();
        self.reactors.clear();
        self.network.borrow_mut().crash(crash.leaves_data);
        self.mesh.borrow_mut().crash();
        self.down_until_ms = Some(self.now_ms + crash.down_ms);
    }

    fn restart(&mut self) {
        self.down_until_ms = None;
        let former: Vec<u64> = self
            .plan
            .settings
            .logs
            .iter()
            .map(|log| log.epoch)
            .collect();
        self.plan.restart();
        let logs = &self.plan.settings.logs;
        let lives = logs.iter().map(|log| (log.epoch, BTreeMap::new()));
        self.oracle.restarted(lives.collect());
        self.reached.new_epochs += logs
            .iter()
            .zip(&former)
            .filter(|(log, former)| log.epoch != **former)
            .count() as u64;
        self.mesh.borrow_mut().saboteur.restarted(former[0]);
        self.oracle.note_all("--- the next node begins ---");
        self.network.borrow_mut().restart();
        self.start();
    }

    /// Crashes and restarts whose time has come.
    fn die_and_rise(&mut self) {
        if self.down_until_ms.is_some_and(|at| at <= self.now_ms) {
            self.restart();
        }
        let is_due = |crash: &mut Crash| crash.after_ms + START_MS <= self.now_ms;
        if self.down_until_ms.is_none()
            && let Some(crash) = self.crashes.pop_if(is_due)
        {
            self.crash(crash);
        }
    }

    fn live(&mut self) {
        self.set_now(START_MS);
        let end_ms = self.now_ms + self.plan.active_ms;
        self.advance(end_ms, false);
        self.calm();
        let end_ms = self.now_ms + CALM_MS_MAX;
        self.advance(end_ms, true);
        // What filters are owed may still be on its way: clients do not know what that is.
        self.advance(self.now_ms + 2_000, false);
        // That moment may lie within a write, and clients with small sockets take long.
        self.advance(self.now_ms + CALM_MS_MAX, true);
        self.judge_convergence();
        for client in &mut self.clients {
            client.finish(&mut self.oracle);
        }
        if self.oracle.failure.is_none() {
            self.oracle.judge(&self.plan);
        }
        self.leave();
    }

    /// No faults and no actions from here on.
    fn calm(&mut self) {
        self.crashes.clear();
        if self.down_until_ms.is_some() {
            self.restart();
        }
        self.phase = Phase::Calm;
        self.network.borrow_mut().faults.calm();
        self.mesh.borrow_mut().faults = MailFaults {
            delay_ms_max: 0,
            late: 0.0,
        };
        self.memory_refusals.set(0.0);
        self.wake_all();
    }

    fn leave(&mut self) {
        if self.oracle.failure.is_some() {
            return;
        }
        self.phase = Phase::Leaving;
        self.wake_all();
        // Closing handshakes, the last releases, and the sweep that sees lost peers.
        self.advance(self.now_ms + 15_000, false);
        self.phase = Phase::Visiting;
        self.wake_all();
        self.advance(self.now_ms + 15_000, false);
        self.phase = Phase::Over;
        self.wake_all();
        self.advance(self.now_ms + 15_000, false);
        for reactor in &self.reactors {
            let edge = reactor.edge().statistics();
            let gauges = [
                ("connections", edge.connections),
                ("subscriptions", edge.subscriptions),
                ("filters", edge.filters),
                ("native sessions", edge.native_sessions),
                ("event streams", edge.event_streams),
                ("pinned bytes", edge.pinned_bytes),
            ];
            let home = reactor
                .home()
                .map(|home| home.statistics())
                .unwrap_or_default();
            let of_home = [
                ("indexes", home.indexes),
                ("filters of the home", home.filters),
                ("lagging streams", home.lagging_streams),
            ];
            for (name, value) in gauges.into_iter().chain(of_home) {
                // What a filter had matched goes when the topic is next published to; some worlds refuse that.
                let may_stay = name == "indexes" && self.oracle.visited < self.plan.topics.len();
                if value != 0 && !may_stay {
                    self.oracle
                        .fail(None, format!("everybody has left, and {name} is {value}"));
                }
            }
        }
        let links = self.network.borrow().links_count();
        if links > 0 {
            self.oracle.fail(
                None,
                format!("everybody has left, and {links} connections are there"),
            );
        }
    }

    fn wake_all(&mut self) {
        for client in 0..self.clients.len() {
            self.make_ready(client);
        }
    }

    fn make_ready(&mut self, client: usize) {
        if !std::mem::replace(&mut self.is_ready[client], true) {
            self.ready.push(client);
        }
    }

    fn set_now(&mut self, now_ms: u64) {
        let mut now = self.clock.get();
        let passed = now_ms.saturating_sub(now.monotonic_ms);
        now.monotonic_ms = now_ms;
        now.unix_ms += passed;
        if self.plan.clock_jumps
            && self.phase == Phase::Active
            && passed > 0
            && self.random.chance(0.01)
        {
            let jump = self.random.below(4_000);
            now.unix_ms = (now.unix_ms + jump).saturating_sub(2_000);
        }
        self.clock.set(now);
        self.now_ms = now_ms;
        self.network.borrow_mut().now_ms = now_ms;
        self.mesh.borrow_mut().now_ms = now_ms;
        self.oracle.now_ms = now_ms;
    }

    /// Lets things happen until `end_ms`, or until everything is settled.
    fn advance(&mut self, end_ms: u64, until_settled: bool) {
        let mut runnable = Vec::new();
        while self.oracle.failure.is_none() {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                self.oracle.fail(None, "the world never rests".into());
            }
            self.die_and_rise();
            self.collect_notified();
            while let Some((at, client)) = self.timers.first().copied()
                && at <= self.now_ms
            {
                self.timers.pop_first();
                self.timer_of[client] = None;
                self.make_ready(client);
            }
            runnable.clear();
            for shard in 0..self.reactors.len() {
                let has_mail = self
                    .mesh
                    .borrow()
                    .due_ms(shard)
                    .is_some_and(|due| due <= self.now_ms);
                if has_mail
                    || self.turns < self.turns_before + 4
                    || self.network.borrow().has_work(shard)
                {
                    runnable.push(shard);
                }
            }
            let choices = runnable.len() + self.ready.len().min(8);
            if choices == 0 {
                if until_settled && self.is_settled() {
                    return;
                }
                let Some(next) = self.next_ms() else {
                    return;
                };
                if next > end_ms {
                    self.set_now(end_ms);
                    return;
                }
                self.set_now(next.max(self.now_ms));
                continue;
            }
            let choice = self.random.below(choices as u64) as usize;
            match runnable.get(choice) {
                Some(shard) => self.turn(*shard),
                None => self.step_client(),
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

    fn collect_notified(&mut self) {
        let notified = std::mem::take(&mut self.network.borrow_mut().notified);
        for client in &notified {
            self.make_ready(*client);
        }
    }

    fn next_ms(&self) -> Option<u64> {
        let reactors = (0..self.reactors.len()).flat_map(|shard| {
            [
                self.network.borrow().wake_at_ms(shard),
                self.mesh.borrow().due_ms(shard),
            ]
        });
        let timer = self.timers.first().map(|(at, _)| *at);
        let crash = self.crashes.last().map(|crash| crash.after_ms + START_MS);
        let restart = self.down_until_ms;
        let others = [timer, crash.filter(|_| restart.is_none()), restart];
        reactors.flatten().chain(others.into_iter().flatten()).min()
    }

    fn turn(&mut self, shard: usize) {
        self.turns += 1;
        self.hash = fold(self.hash, shard as u64);
        let has_mail = self
            .mesh
            .borrow()
            .due_ms(shard)
            .is_some_and(|due| due <= self.now_ms);
        let was_due = self
            .network
            .borrow()
            .wake_at_ms(shard)
            .is_some_and(|at| at <= self.now_ms);
        if let Err(error) = self.reactors[shard].turn() {
            self.oracle.fail(None, format!("edge {shard}: {error}"));
        }
        if has_mail || was_due {
            self.network.borrow_mut().keep_busy(shard);
        }
        let edge = self.reactors[shard].edge().statistics();
        let limits = &self.plan.settings.limits;
        let pinned_max = limits.pinned_bytes_max + u64::from(limits.outbox_bytes_max);
        if edge.pinned_bytes > pinned_max {
            self.oracle.fail(
                None,
                format!("edge {shard} pins {} bytes", edge.pinned_bytes),
            );
        }
        if self.turns.is_multiple_of(64)
            && let Some(home) = self.reactors[shard].home()
        {
            let home = home.statistics();
            let log = &self.plan.settings.logs[0];
            if home.log_bytes > log.log_bytes_max || home.retained_bytes > log.retained_bytes_max {
                self.oracle.fail(
                    None,
                    format!(
                        "home {shard} keeps {} and {} bytes",
                        home.log_bytes, home.retained_bytes
                    ),
                );
            }
        }
    }

    fn step_client(&mut self) {
        let place = self.random.below(self.ready.len() as u64) as usize;
        let client = self.ready.swap_remove(place);
        self.is_ready[client] = false;
        self.hash = fold(self.hash, client as u64 ^ 0xc11e);
        let mut network = self.network.borrow_mut();
        let mut context = Context {
            network: &mut network,
            oracle: &mut self.oracle,
            plan: &self.plan,
            phase: self.phase,
            now_ms: self.now_ms,
        };
        let next = self.clients[client].step(&mut context);
        drop(network);
        if let Some(old) = self.timer_of[client].take() {
            self.timers.remove(&(old, client));
        }
        match next {
            Some(at) if at <= self.now_ms => self.make_ready(client),
            Some(at) => {
                self.timers.insert((at, client));
                self.timer_of[client] = Some(at);
            }
            None => {}
        }
    }

    /// Clients have what they are owed, and nothing waits for a socket.
    fn is_settled(&self) -> bool {
        let mut edges = self.reactors.iter().map(|reactor| reactor.edge());
        if edges.any(|edge| edge.statistics().pinned_bytes > 0) {
            return false;
        }
        self.clients
            .iter()
            .all(|client| client.is_settled(&self.oracle).is_ok())
    }

    fn judge_convergence(&mut self) {
        for (id, client) in self.clients.iter().enumerate() {
            if let Err(text) = client.is_settled(&self.oracle) {
                return self
                    .oracle
                    .fail(id, format!("{CALM_MS_MAX} ms after the last fault: {text}"));
            }
        }
        for (shard, reactor) in self.reactors.iter().enumerate() {
            let pinned = reactor.edge().statistics().pinned_bytes;
            if pinned > 0 && self.oracle.failure.is_none() {
                self.oracle
                    .fail(None, format!("edge {shard} still pins {pinned} bytes"));
            }
        }
    }

    fn collect_statistics(&mut self) {
        for reactor in &self.reactors {
            let edge = reactor.edge().statistics();
            let home = reactor
                .home()
                .map(|home| home.statistics())
                .unwrap_or_default();
            self.reached += Reached {
                lagging: edge.lagging,
                pages: edge.pages,
                streams_lagged: home.lagged,
                stream_gaps: home.stream_gaps,
                evicted_segments: home.evicted_segments,
                forgotten: home.forgotten,
                refused: home.refused.total(),
                skipped: edge.skipped,
                slow_closed: edge.slow_closed,
                ..Reached::default()
            };
        }
    }

    fn outcome(mut self) -> Outcome {
        self.collect_statistics();
        self.reached.duplicates = self.oracle.duplicates;
        let (network, mesh) = (self.network.borrow(), self.mesh.borrow());
        let failure = self.oracle.failure.clone();
        let concerned = self
            .wanted
            .or(failure.as_ref().and_then(|failure| failure.client));
        Outcome {
            seed: self.plan.seed,
            hash: fold(fold(self.hash, network.hash), mesh.hash),
            notes: concerned.map_or(Vec::new(), |client| {
                self.oracle.notes(client).cloned().collect()
            }),
            failure,
            deliveries: self.oracle.deliveries,
            publications: self.oracle.publications.len() as u64,
            holes: self.oracle.holes,
            turns: self.turns,
            posts: mesh.posts,
            strikes: network.saboteur.strikes + mesh.saboteur.strikes,
            reached: self.reached,
        }
    }
}
