//! One world: reactors, mailboxes, network, clock and clients on one thread, in an order that the
//! seed determines.

mod events;
mod hang;
mod life;
mod outcome;
mod reload;
mod upgrade;
mod users;

pub use outcome::{Options, Outcome, Reached};

use crate::client::{Client, Context, Phase};
use crate::disks::Disks;
use crate::entitlement::SimAuthenticator;
use crate::faults::{Crash, MailFaults};
use crate::memory::SimMemory;
use crate::mesh::{Mesh, SimMailbox};
use crate::mutation::Saboteur;
use crate::native::NativeClient;
use crate::network::{Network, SimNet, fold};
use crate::oracle::{MqttGroup, Oracle};
use crate::plan::Plan;
use crate::witness::Witness;
use broker::now::Now;
use node::reactor::{Clock, Reactor};
use node::users::Users;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use stdx::prng::Prng;

/// The monotonic clock at a world's start, in milliseconds.
const START_MS: u64 = 1_000;
/// Virtual time at a world's start, since 1970, in milliseconds.
const START_UNIX_MS: u64 = 1_700_000_000_000;
/// The virtual time at a world's start in seconds.
pub(crate) const START_S: u32 = (START_UNIX_MS / 1_000) as u32;
/// The upper bound of the wall clock's leaps, exclusive.
const DAY_MS: u64 = 86_400_000;
/// The time limit after the faults for everything to arrive.
const CALM_MS_MAX: u64 = 90_000;
/// The maximum number of steps, so that a restless world ends.
const STEPS_MAX: u64 = 40_000_000;

#[derive(Clone)]
pub(crate) struct SimClock(pub(crate) Rc<Cell<Now>>);

impl Clock for SimClock {
    fn now(&mut self) -> Now {
        self.0.get()
    }
}

struct World {
    plan: Plan,
    random: Prng,
    /// The generator of the wall clock's leaps.
    leaps: Prng,
    network: Rc<RefCell<Network>>,
    mesh: Rc<RefCell<Mesh>>,
    disks: Rc<RefCell<Disks>>,
    authenticator: Arc<SimAuthenticator>,
    /// The version of revocations that each reactor knows.
    revocations: Vec<u64>,
    clock: Rc<Cell<Now>>,
    memory_refusals: Rc<Cell<f64>>,
    reactors: Vec<Reactor<SimNet, SimMailbox, SimClock>>,
    memories: Vec<SimMemory>,
    /// The table of users of the present node.
    users: Arc<Users>,
    /// The users' connections, as reported by its edges.
    counted: users::CountedUsers,
    /// The planted bug in the shared state of shards.
    saboteur: Saboteur,
    /// The generator of hand-overs of shards, if there are any.
    upgrades: Option<Prng>,
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
    /// The number of turns at the start of the present node.
    turns_before: u64,
    /// The remaining crashes, the next one last.
    crashes: Vec<Crash>,
    /// The remaining reloads, the next one last.
    reloads: Vec<u64>,
    /// The generator of their settings.
    reload_random: Prng,
    /// The node's drain: its end, and the stop that follows.
    draining: Option<(u64, Crash)>,
    /// The time when the next node begins.
    down_until_ms: Option<u64>,
    /// Counters of earlier nodes.
    reached: Reached,
    hash: u64,
    wanted: Option<usize>,
    /// Until this time disks hang, although all other faults have ended.
    hung_until_ms: Option<u64>,
    /// The time of the node's next statistics, if it has any.
    statistics_ms: u64,
}

/// Runs the world of a seed from its beginning to its end.
pub fn run(seed: u64, options: Options) -> Outcome {
    let mut world = World::new(seed, options);
    world.live();
    world.outcome()
}

impl World {
    fn new(seed: u64, options: Options) -> World {
        let mut plan = Plan::draw(seed, options.scale, options.mutation);
        plan.change(options);
        let mut random = Prng::new(seed ^ 0x0051_6d00);
        let edges = usize::from(plan.settings.edges_count);
        let saboteur = || Saboteur::new(options.mutation, seed);
        let network = Network::new(edges, random.fork(), plan.net, saboteur());
        let network = Rc::new(RefCell::new(network));
        let mesh = Rc::new(RefCell::new(Mesh::new(edges, random.fork(), plan.mail, saboteur())));
        let disks = Disks::new(&plan, &mut random, &saboteur);
        let disks = Rc::new(RefCell::new(disks));
        let clock = Rc::new(Cell::new(Now { monotonic_ms: START_MS, unix_ms: START_UNIX_MS }));
        let memory_refusals = Rc::new(Cell::new(plan.memory_refusals));
        let clients = draw_clients(&plan, &mut random);
        let mut oracle = Oracle::default();
        oracle.tracing = options.tracing;
        oracle.mqtt.groups = MqttGroup::all(&plan.groups.filters);
        disks.borrow_mut().unix_ms = START_UNIX_MS;
        match disks.borrow_mut().open(&plan.settings) {
            Ok(durable) => plan.start(false, durable),
            Err(text) => oracle.fail(None, text),
        }
        for log in &plan.settings.logs {
            oracle.lives.add_log(log.first_partition.nth(log.partitions_count).0, log.epoch);
        }
        let crashes = plan.crashes.iter().rev().copied().collect();
        let reloads = plan.reloads.iter().rev().copied().collect();
        let count = clients.len();
        let mut world = World {
            plan,
            random,
            leaps: Prng::new(seed ^ 0x6c65_6170),
            network,
            mesh,
            disks,
            authenticator: Arc::new(SimAuthenticator::new(options.mutation)),
            revocations: Vec::new(),
            clock,
            memory_refusals,
            reactors: Vec::new(),
            memories: Vec::new(),
            users: Arc::default(),
            counted: Vec::new(),
            saboteur: Saboteur::new(options.mutation, seed),
            upgrades: options.upgrades.then(|| Prng::new(seed ^ 0x7570_6772)),
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
            reloads,
            reload_random: Prng::new(seed ^ 0x7e10_ad01),
            draining: None,
            down_until_ms: None,
            reached: Reached::default(),
            hash: seed,
            wanted: options.client,
            hung_until_ms: None,
            statistics_ms: START_MS,
        };
        world.start();
        world
    }

    fn live(&mut self) {
        self.set_now(START_MS);
        let end_ms = self.now_ms + self.plan.active_ms;
        self.advance(end_ms, false);
        self.calm();
        self.outlast_disks();
        let end_ms = self.now_ms + CALM_MS_MAX;
        self.advance(end_ms, true);
        // Messages for filters may still be in flight: clients cannot know that.
        self.advance(self.now_ms + 2_000, false);
        // That moment may be within a write, and clients with small sockets are slow.
        self.advance(self.now_ms + CALM_MS_MAX, true);
        self.judge_convergence();
        self.oracle.mqtt.given_up += self.given_up();
        for client in &mut self.clients {
            client.finish(&mut self.oracle);
        }
        if self.oracle.failure.is_none() {
            self.oracle.judge(&self.plan);
        }
        self.leave();
    }

    /// Ends all faults and actions.
    fn calm(&mut self) {
        self.crashes.clear();
        self.reloads.clear();
        if self.down_until_ms.is_some() {
            self.restart();
        }
        if self.draining.is_some() {
            self.stop();
            self.restart();
        }
        self.phase = Phase::Calm;
        self.oracle.mqtt.calm = Some((self.oracle.tick(), self.now_ms));
        self.network.borrow_mut().faults.calm();
        self.mesh.borrow_mut().faults = MailFaults { delay_ms_max: 0, late: 0.0 };
        self.hung_until_ms = self.disks.borrow_mut().calm();
        self.memory_refusals.set(0.0);
        self.wake_all();
    }

    fn leave(&mut self) {
        if self.oracle.failure.is_some() {
            return;
        }
        self.phase = Phase::Leaving;
        self.wake_all();
        // Closing handshakes, the last releases, and the sweep that detects lost peers.
        self.advance(self.now_ms + 15_000, false);
        self.phase = Phase::Visiting;
        self.wake_all();
        self.advance(self.now_ms + 15_000, false);
        self.phase = Phase::Over;
        self.wake_all();
        self.advance(self.now_ms + 15_000, false);
        self.judge_events();
        for reactor in &self.reactors {
            let edge = reactor.edge().statistics();
            let gauges = [
                ("connections", edge.connections),
                ("subscriptions", edge.subscriptions),
                ("filters", edge.filters),
                ("native sessions", edge.native_sessions),
                ("JSON sessions", edge.json_sessions),
                ("sessions of MQTT", edge.mqtt_sessions),
                ("event streams", edge.event_streams),
                ("pinned bytes", edge.pinned_bytes),
                ("entitlements", edge.entitlements),
            ];
            let home = reactor.home().map(|home| home.statistics()).unwrap_or_default();
            let of_home = [
                ("indexes", home.indexes),
                ("filters of the home", home.filters),
                ("lagging streams", home.lagging_streams),
            ];
            for (name, value) in gauges.into_iter().chain(of_home) {
                // A filter's match ends when the topic is next published to; some worlds refuse
                // that.
                let may_stay = name == "indexes" && self.oracle.visited < self.plan.topics.len();
                if value != 0 && !may_stay {
                    self.oracle.fail(None, format!("everybody has left, and {name} is {value}"));
                }
            }
        }
        self.check_nobody_counts();
        let links = self.network.borrow().links_count();
        if links > 0 {
            self.oracle
                .fail(None, format!("everybody has left, and {links} connections are there"));
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
        if self.plan.clock_leaps
            && self.phase == Phase::Active
            && passed > 0
            && self.leaps.chance(0.01)
        {
            now.unix_ms += self.leaps.below(DAY_MS);
        }
        self.clock.set(now);
        self.now_ms = now_ms;
        self.network.borrow_mut().now_ms = now_ms;
        self.mesh.borrow_mut().now_ms = now_ms;
        self.disks.borrow_mut().now_ms = now_ms;
        self.disks.borrow_mut().unix_ms = now.unix_ms;
        self.oracle.now_ms = now_ms;
        self.publish_statistics();
    }

    /// Runs the world until `end_ms`, or until everything is settled.
    fn advance(&mut self, end_ms: u64, until_settled: bool) {
        let mut runnable = Vec::new();
        while self.oracle.failure.is_none() {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                self.oracle.fail(None, "the world never rests".into());
            }
            self.die_and_rise();
            self.reload();
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
                let has_mail = self.has_mail(shard);
                if has_mail
                    || self.revocations[shard] != self.authenticator.version()
                    || self.turns < self.turns_before + 4
                    || self.network.borrow().has_work(shard)
                {
                    runnable.push(shard);
                }
            }
            if !self.reactors.is_empty() {
                let disks = self.disks.borrow();
                let due =
                    |log: &usize| disks.work_due_ms(*log).is_some_and(|due| due <= self.now_ms);
                let logs = (0..disks.len()).filter(due);
                runnable.extend(logs.map(|log| log + self.reactors.len()));
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
                Some(shard) if *shard < self.reactors.len() => self.turn(*shard),
                Some(log) => {
                    self.hash = fold(self.hash, *log as u64 ^ 0x109);
                    self.disks.borrow_mut().turn(*log - self.reactors.len());
                }
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
                self.disks.borrow().letter_due_ms(shard),
            ]
        });
        let disks = self.disks.borrow();
        let logs = (0..disks.len()).filter_map(|log| disks.work_due_ms(log));
        let timer = self.timers.first().map(|(at, _)| *at);
        let crash = self.crashes.last().map(|crash| crash.after_ms + START_MS);
        let reload = self.reloads.last().map(|after_ms| after_ms + START_MS);
        let restart = self.down_until_ms;
        let stop = self.draining.map(|(until_ms, _)| until_ms);
        let runs = restart.or(stop).is_none();
        let others = [timer, crash.filter(|_| runs), reload, restart, stop];
        let reactors = reactors.flatten().chain(logs);
        reactors.chain(others.into_iter().flatten()).min()
    }

    fn has_mail(&self, shard: usize) -> bool {
        let dues = [self.mesh.borrow().due_ms(shard), self.disks.borrow().letter_due_ms(shard)];
        dues.into_iter().flatten().any(|due| due <= self.now_ms)
    }

    fn turn(&mut self, shard: usize) {
        self.turns += 1;
        self.hash = fold(self.hash, shard as u64);
        let has_mail = self.has_mail(shard);
        let was_due = self.network.borrow().wake_at_ms(shard).is_some_and(|at| at <= self.now_ms);
        let version = self.authenticator.version();
        if std::mem::replace(&mut self.revocations[shard], version) != version {
            self.reactors[shard].revocations_changed();
        }
        if let Err(error) = self.reactors[shard].turn() {
            self.oracle.fail(None, format!("edge {shard}: {error}"));
        }
        self.hand_over(shard);
        self.check_users(shard);
        if has_mail || was_due {
            self.network.borrow_mut().keep_busy(shard);
        }
        let edge = self.reactors[shard].edge().statistics();
        let limits = &self.plan.settings.limits;
        let pinned_max = limits.pinned_bytes_max + u64::from(limits.outbox_bytes_max);
        if edge.pinned_bytes > pinned_max {
            self.oracle.fail(None, format!("edge {shard} pins {} bytes", edge.pinned_bytes));
        }
        if self.turns.is_multiple_of(64)
            && let Some(home) = self.reactors[shard].home()
        {
            let home = home.statistics();
            let logs = &self.plan.settings.logs;
            let log_bytes_max: u64 = logs.iter().map(|log| log.memory_bytes_max()).sum();
            // A start keeps all that it finds on disk, even publications that had been refused.
            let retained_bytes_max: u64 = logs.iter().map(|log| 2 * log.retained_bytes_max).sum();
            if home.log_bytes > log_bytes_max || home.retained_bytes > retained_bytes_max {
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
            authenticator: &self.authenticator,
            now_s: (self.clock.get().unix_ms / 1_000) as u32,
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

    /// Whether clients have received everything due, and no output waits for a socket.
    fn is_settled(&self) -> bool {
        let mut edges = self.reactors.iter().map(|reactor| reactor.edge());
        if edges.any(|edge| edge.statistics().pinned_bytes > 0) {
            return false;
        }
        self.clients.iter().all(|client| client.is_settled((&self.oracle, &self.plan)).is_ok())
    }

    fn judge_convergence(&mut self) {
        for (id, client) in self.clients.iter().enumerate() {
            if let Err(text) = client.is_settled((&self.oracle, &self.plan)) {
                return self
                    .oracle
                    .fail(id, format!("{CALM_MS_MAX} ms after the last fault: {text}"));
            }
        }
        for (shard, reactor) in self.reactors.iter().enumerate() {
            let pinned = reactor.edge().statistics().pinned_bytes;
            if pinned > 0 && self.oracle.failure.is_none() {
                self.oracle.fail(None, format!("edge {shard} still pins {pinned} bytes"));
            }
        }
        self.check_everybody_counts();
    }

    /// Publications that the present node has given up for lack of room.
    fn given_up(&self) -> u64 {
        let edges = self.reactors.iter().map(|reactor| reactor.edge().statistics());
        edges.map(|edge| edge.own_publications_lost).sum()
    }

    fn collect_statistics(&mut self) {
        for reactor in &self.reactors {
            let edge = reactor.edge().statistics();
            let home = reactor.home().map(|home| home.statistics()).unwrap_or_default();
            self.reached += Reached {
                lagging: edge.lagging,
                pages: edge.pages,
                streams_lagged: home.lagged,
                stream_gaps: home.stream_gaps,
                evicted_segments: home.evicted_segments,
                forgotten: home.forgotten,
                refused: home.refused.total(),
                slow_closed: edge.slow_closed,
                resumed: edge.tickets_resumed,
                compressed: edge.compressed,
                inflated: edge.inflated,
                stalls: home.logs_stalled,
                mqtt_wills: edge.wills,
                ..Reached::default()
            };
        }
    }

    fn outcome(mut self) -> Outcome {
        self.collect_statistics();
        self.reached.events = self.oracle.events.count();
        self.reached.events_left_out = self.oracle.events.left_out();
        self.reached.add_mqtt(&self.oracle.mqtt.counts);
        self.reached.crowds = self.oracle.crowds;
        self.reached.duplicates = self.oracle.duplicates;
        self.reached.duplicates_over_http = self.oracle.duplicates_over_http;
        self.reached.streams_resumed = self.oracle.streams_resumed;
        self.reached.filters_refused = self.oracle.filters_refused;
        self.reached.hangs = self.disks.borrow().hangs;
        for worn in self.disks.borrow().worn() {
            self.reached.batches_refused += worn.refused;
            self.reached.disk_answers += worn.answers;
            self.reached.torn_tails += worn.torn;
            self.reached.damaged_starts += worn.damaged;
            self.reached.starts_that_died += worn.died;
            self.reached.full_starts += worn.full;
            self.reached.refused_starts += worn.refused_starts;
            self.reached.flips += worn.flips;
            self.reached.ends_lost += worn.ends_lost;
            self.reached.repairs += worn.repairs;
            self.reached.dropped_segments += worn.dropped;
            self.reached.batches += worn.batches;
            self.reached.damaged_reads += worn.damaged_reads;
        }
        let (network, mesh) = (self.network.borrow(), self.mesh.borrow());
        let failure = self.oracle.failure.clone();
        let concerned = self.wanted.or(failure.as_ref().and_then(|failure| failure.client));
        Outcome {
            seed: self.plan.seed,
            hash: fold(fold(fold(self.hash, network.hash), mesh.hash), self.disks.borrow().hash()),
            notes: concerned
                .map_or(Vec::new(), |client| self.oracle.notes(client).cloned().collect()),
            failure,
            deliveries: self.oracle.deliveries,
            publications: self.oracle.publications.len() as u64,
            holes: self.oracle.holes,
            turns: self.turns,
            posts: mesh.posts,
            strikes: network.saboteur.strikes
                + mesh.saboteur.strikes
                + self.disks.borrow().strikes()
                + self.authenticator.strikes()
                + self.saboteur.strikes,
            reached: self.reached,
        }
    }
}

/// All clients of a world; the auditor is the first.
fn draw_clients(plan: &Plan, random: &mut Prng) -> Vec<Box<dyn Client>> {
    let mut clients: Vec<Box<dyn Client>> = Vec::new();
    clients.push(Box::new(NativeClient::auditor(0, plan, random)));
    for id in 1..=plan.clients {
        clients.push(crate::kinds::draw(id, plan, random));
    }
    clients.extend(crate::kinds::draw_beside(clients.len(), plan));
    clients.extend(crate::kinds::draw_mqtt(clients.len(), plan));
    clients.extend(crate::kinds::draw_members(clients.len(), plan));
    if plan.has_events {
        clients.push(Box::new(Witness::new(clients.len(), plan)));
    }
    clients
}
