//! One node of a cluster: its shards and mailboxes, over the engine that all nodes share.

use super::engine::Engine;
use super::mirror::Mirror;
use super::plan::ClusterPlan;
use crate::faults::MailFaults;
use crate::memory::SimMemory;
use crate::mesh::Mesh;
use crate::mutation::Saboteur;
use crate::network::{Network, SimNet};
use crate::world::SimClock;
use broker::disk::DiskRequest;
use broker::engine::EngineRequest;
use broker::home::Home;
use broker::mail::HomeId;
use broker::now::Now;
use node::mailbox::{Mailbox, Post};
use node::reactor::{Reactor, ReactorParts};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use stdx::prng::Prng;

/// The mailbox of one shard of a node.
pub struct ClusterMailbox {
    mesh: Rc<RefCell<Mesh>>,
    engine: Rc<RefCell<Engine>>,
    mirror: Option<Rc<RefCell<Mirror>>>,
    node: usize,
    shard: usize,
}

impl Mailbox for ClusterMailbox {
    fn send(&mut self, to: u16, post: Post) {
        self.mesh.borrow_mut().send(self.shard, usize::from(to), post);
    }

    fn ask(&mut self, _: u16, _: u64, requests: Vec<DiskRequest>) {
        if let Some(mirror) = &self.mirror {
            mirror.borrow_mut().ask(self.shard, requests);
        }
    }

    fn ask_engine(&mut self, requests: Vec<EngineRequest>) {
        self.engine.borrow_mut().ask(self.node, self.shard, requests);
    }

    fn receive(&mut self, posts: &mut Vec<Post>) {
        let mut letters = Vec::new();
        self.engine.borrow_mut().receive(self.node, self.shard, &mut letters);
        if !letters.is_empty() {
            posts.push(Post::Engine { letters });
        }
        if let Some(mirror) = &self.mirror {
            mirror.borrow_mut().receive(self.shard, posts);
        }
        self.mesh.borrow_mut().receive(self.shard, posts);
    }
}

/// The reactor of one shard.
pub type ClusterReactor = Reactor<SimNet, ClusterMailbox, SimClock>;

/// A node; see the module.
pub struct Node {
    /// Its number.
    pub number: usize,
    /// Its shards; none while it is down.
    pub reactors: Vec<ClusterReactor>,
    /// Its mailboxes.
    pub mesh: Rc<RefCell<Mesh>>,
    /// It drops history for room.
    is_bounded: bool,
    /// Its mirror, if it has one.
    pub mirror: Option<Rc<RefCell<Mirror>>>,
    clock: Rc<Cell<Now>>,
    skew_ms: u64,
    /// The time of its next begin.
    pub down_until_ms: Option<u64>,
    /// The number of turns since it began.
    pub turns: u64,
    /// Clients can connect.
    is_open: bool,
    lives: u64,
}

impl Node {
    /// Creates a node that has not begun.
    pub fn new(number: usize, plan: &ClusterPlan, random: &mut Prng, begins_ms: u64) -> Node {
        let edges = usize::from(plan.settings.edges_count);
        let mesh = Mesh::new(edges, random.fork(), plan.mail, Saboteur::new(None, plan.seed));
        Node {
            number,
            reactors: Vec::new(),
            mesh: Rc::new(RefCell::new(mesh)),
            is_bounded: plan.bounded[number].is_some(),
            mirror: plan.settings_of(number).logs[0].is_mirrored.then(|| {
                let seed = plan.seed ^ 0x03f1_4404 ^ (number as u64) << 40;
                Rc::new(RefCell::new(Mirror::new(seed, plan.settings_of(number).clone())))
            }),
            clock: Rc::new(Cell::new(Now { monotonic_ms: 0, unix_ms: 0 })),
            skew_ms: plan.skews_ms[number],
            down_until_ms: Some(begins_ms),
            turns: 0,
            is_open: false,
            lives: 0,
        }
    }

    /// Whether it runs.
    pub fn is_up(&self) -> bool {
        !self.reactors.is_empty()
    }

    /// Sets its clocks.
    pub fn set_now(&mut self, now_ms: u64, unix_ms: u64) {
        let unix_ms = unix_ms + self.skew_ms;
        self.clock.set(Now { monotonic_ms: now_ms, unix_ms });
        self.mesh.borrow_mut().now_ms = now_ms;
        if let Some(mirror) = &self.mirror {
            let mut mirror = mirror.borrow_mut();
            (mirror.now_ms, mirror.unix_ms) = (now_ms, unix_ms);
        }
    }

    /// Begins, with nothing in memory but what its mirror says.
    pub fn start(
        &mut self,
        plan: &ClusterPlan,
        network: &Rc<RefCell<Network>>,
        engine: &Rc<RefCell<Engine>>,
        random: &mut Prng,
    ) {
        let settings = plan.settings_of(self.number);
        let edges = usize::from(settings.edges_count);
        self.lives += 1;
        let secret = plan.seed ^ (self.number as u64) << 8 ^ self.lives;
        self.down_until_ms = None;
        self.turns = 0;
        self.is_open = false;
        let (mut restorations, ends) =
            self.mirror.as_ref().map(|mirror| mirror.borrow_mut().open()).unwrap_or_default();
        engine.borrow_mut().start(self.number, usize::from(settings.homes_count), &ends);
        let users = Arc::default();
        for shard in 0..edges {
            let mut memory = SimMemory::new(64 << 20, Rc::default(), random.fork());
            let home = shard < usize::from(settings.homes_count);
            let mut home =
                home.then(|| Home::new(settings.clone(), HomeId(shard as u16), (secret, !secret)));
            if let Some(home) = &mut home
                && !restorations.is_empty()
            {
                let restored = restorations.remove(0).restore(home, &mut memory);
                restored.expect("memory for all topics");
            }
            let parts = ReactorParts {
                home,
                net: SimNet::new(network.clone(), self.number * edges + shard),
                mailbox: ClusterMailbox {
                    mesh: self.mesh.clone(),
                    engine: engine.clone(),
                    mirror: self.mirror.clone(),
                    node: self.number,
                    shard,
                },
                clock: SimClock(self.clock.clone()),
                id: shard as u16,
                settings: settings.clone(),
                memory: Box::new(memory),
                hash_seed: (secret, !secret),
                authenticator: None,
                door: None,
                users: Arc::clone(&users),
                pressure: Arc::default(),
                journal: None,
            };
            self.reactors.push(Reactor::new(parts));
        }
    }

    /// Opens its listeners: at once if `early`, else when all partitions have begun. Before, it is
    /// not ready, and a balancer leads no clients to it; a client with its address may come.
    pub fn open(&mut self, network: &Rc<RefCell<Network>>, early: bool) {
        let homes = || self.reactors.iter().filter_map(|reactor| reactor.home());
        let has_begun = || homes().flat_map(Home::tails).all(|tail| tail.topic_id.is_some());
        if self.is_up() && !self.is_open && (early || has_begun()) {
            self.is_open = true;
            network.borrow_mut().restart_edges(self.edges(self.reactors.len()));
        }
    }

    /// Whether its homes have settled all that the engine has: records and holes.
    ///
    /// # Errors
    /// The missing part, as an error.
    pub fn is_settled(&self, engine: &Engine) -> Result<(), String> {
        let homes = self.reactors.iter().filter_map(|reactor| reactor.home());
        for tail in homes.flat_map(Home::tails) {
            let visible = engine.partitions[tail.partition.0 as usize].visible();
            if tail.through != visible || !tail.is_caught_up {
                let (node, through) = (self.number, tail.through);
                return Err(format!("node {node} has settled {through} of {visible}"));
            }
        }
        Ok(())
    }

    /// Tells the model from where on the node serves, if it drops history for room.
    pub fn note_floors(&self, shard: usize, engine: &mut Engine) {
        if !self.is_bounded {
            return;
        }
        let home = self.reactors.get(shard).and_then(|reactor| reactor.home());
        for tail in home.into_iter().flat_map(Home::tails) {
            if tail.has_begun {
                engine.note_floor(self.number, tail.partition.0 as usize, tail.floor);
            }
        }
    }

    /// The time when the log thread of its mirror has work.
    pub fn mirror_due_ms(&self) -> Option<u64> {
        self.mirror.as_ref().filter(|_| self.is_up())?.borrow().work_due_ms()
    }

    /// The numbers of its edges in the network.
    pub fn edges(&self, count: usize) -> std::ops::Range<usize> {
        self.number * count..(self.number + 1) * count
    }

    /// Dies, with everything in its memory.
    pub fn kill(
        &mut self,
        plan: &ClusterPlan,
        network: &Rc<RefCell<Network>>,
        engine: &Rc<RefCell<Engine>>,
        leaves_data: bool,
        until_ms: u64,
    ) {
        self.reactors.clear();
        let edges = self.edges(usize::from(plan.settings.edges_count));
        network.borrow_mut().crash_edges(edges, leaves_data);
        self.mesh.borrow_mut().crash();
        engine.borrow_mut().stop(self.number);
        if let Some(mirror) = &self.mirror {
            mirror.borrow_mut().crash();
        }
        self.down_until_ms = Some(until_ms);
    }

    /// Ends the faults of its mailboxes.
    pub fn calm(&mut self) {
        self.mesh.borrow_mut().faults = MailFaults { delay_ms_max: 0, late: 0.0 };
        if let Some(mirror) = &self.mirror {
            mirror.borrow_mut().calm();
        }
    }
}
