//! A client of a cluster: the session of crate `client`, which connects to any node, publishes and
//! subscribes anywhere, and continues at another node by its positions or its ticket.

mod acts;
mod events;

use super::engine::Engine;
use super::oracle::{ClusterOracle, Told};
use super::plan::ClusterPlan;
use crate::client::{Fortune, Peer, Phase, Surroundings};
use crate::faults::ClientFaults;
use crate::network::Network;
use client::session::{Reason, Session, Settings, SubscriptionId};
use std::collections::BTreeMap;
use stdx::prng::Prng;
use wire::native::Position;

/// A client's view of the world in one step.
pub struct ClusterContext<'a> {
    /// The network.
    pub network: &'a mut Network,
    /// The reference.
    pub oracle: &'a mut ClusterOracle,
    /// The engine, as the truth.
    pub engine: &'a Engine,
    /// The world's plan.
    pub plan: &'a ClusterPlan,
    /// The present phase.
    pub phase: Phase,
    /// Virtual milliseconds.
    pub now_ms: u64,
}

impl Surroundings for ClusterContext<'_> {
    fn network(&mut self) -> &mut Network {
        self.network
    }

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn faults(&self) -> Option<ClientFaults> {
        (self.phase == Phase::Active).then_some(self.plan.client)
    }

    fn note(&mut self, client: usize, text: impl FnOnce() -> String) {
        self.oracle.note(client, text);
    }
}

/// One subscription.
#[derive(Default)]
struct Subscribed {
    /// Indexes of its topics: one, or those of a filter.
    topics: Vec<usize>,
    is_filter: bool,
    /// The settled position of each partition.
    cursors: BTreeMap<usize, Position>,
    has_begun: bool,
    /// The node of its last begin.
    node: Option<usize>,
    /// All received messages.
    received: Vec<(usize, Position, usize)>,
}

/// A publication that is repeated under its key.
struct Keyed {
    key: Vec<u8>,
    id: usize,
    is_settled: bool,
}

/// A client; see the module.
pub struct Member {
    peer: Peer,
    session: Session,
    node: usize,
    /// The number of the node's starts at the connect.
    starts: u32,
    /// The only node that it connects to, for an auditor.
    only: Option<usize>,
    subscriptions: BTreeMap<SubscriptionId, Subscribed>,
    /// Publications by request, with their number of connections at the time.
    requests: BTreeMap<u32, (usize, bool)>,
    keys: Vec<Keyed>,
    history: BTreeMap<u32, (usize, Option<Position>)>,
}

impl Member {
    /// Creates a client that acts.
    pub fn new(id: usize, plan: &ClusterPlan, random: &mut Prng) -> Member {
        let settings = Settings {
            handshake_timeout_ms: 60_000,
            early_frames: id.is_multiple_of(2),
            tickets: random.chance(0.5),
            ..Settings::default()
        };
        Member {
            session: Session::new(settings, random.next_u64()),
            peer: Peer::with(id, &plan.client, plan.active_ms, random),
            node: 0,
            starts: 0,
            only: None,
            subscriptions: BTreeMap::new(),
            requests: BTreeMap::new(),
            keys: Vec::new(),
            history: BTreeMap::new(),
        }
    }

    /// Creates a client that reads all topics of one node.
    pub fn auditor(
        id: usize,
        (node, start): (usize, client::Start<'static>),
        plan: &ClusterPlan,
        random: &mut Prng,
    ) -> Member {
        let mut member = Member::new(id, plan, random);
        member.only = Some(node);
        member.peer.act_at_ms = 0;
        for (topic, name) in plan.topics.iter().enumerate() {
            let options = client::SubscribeOptions::default();
            if let Ok(id) = member.session.subscribe(name, start, &options) {
                let subscribed = Subscribed { topics: vec![topic], ..Subscribed::default() };
                member.subscriptions.insert(id, subscribed);
            }
        }
        member
    }

    /// Runs a step. Returns the time of the next one at the latest.
    pub fn step(&mut self, context: &mut ClusterContext<'_>) -> Option<u64> {
        if context.phase == Phase::Over {
            self.peer.leave(context, false);
            return None;
        }
        let was_connected = self.peer.is_connected();
        if was_connected {
            if context.phase == Phase::Active && context.now_ms >= self.peer.act_at_ms {
                let pace = context.plan.pace_ms;
                self.peer.act_at_ms = context.now_ms + 1 + self.peer.random.below(2 * pace + 1);
                self.act(context);
            }
        } else if context.now_ms >= self.peer.act_at_ms {
            self.connect(context);
        }
        if self.peer.is_connected() {
            let output = self.session.output().to_vec();
            self.session.written(output.len());
            self.peer.send(&output);
        }
        match self.peer.transfer(context) {
            Fortune::Connected => {}
            Fortune::Lost => self.lost(context),
            Fortune::Offline if was_connected => self.lost(context),
            Fortune::Offline => {}
        }
        if !self.peer.is_connected() {
            return Some(self.peer.act_at_ms.max(context.now_ms + 1));
        }
        let mut input = std::mem::take(&mut self.peer.input);
        let did_read = !input.is_empty();
        let result = self.session.receive(&mut input, context.now_ms);
        let result = result.and_then(|()| self.session.tick(context.now_ms));
        self.take_events(context);
        if let Err(reason) = result {
            if !reason.reconnects() || matches!(reason, Reason::Protocol(_)) {
                context.oracle.fail(self.peer.id, format!("the session ended: {reason}"));
            }
            self.peer.leave(context, false);
            self.lost(context);
            return Some(self.peer.act_at_ms.max(context.now_ms + 1));
        }
        let output = (!self.session.output().is_empty()).then_some(context.now_ms);
        let act =
            (context.phase == Phase::Active).then_some(self.peer.act_at_ms.max(context.now_ms));
        let deadline = self.session.next_deadline_ms();
        let io = self.peer.next_step_ms(context, did_read);
        [output, act, deadline, io].into_iter().flatten().min()
    }

    fn connect(&mut self, context: &mut ClusterContext<'_>) {
        let edges = u64::from(context.plan.settings.edges_count);
        let nodes = super::plan::NODES as u64;
        self.node = self.only.unwrap_or(self.peer.random.below(nodes) as usize);
        self.starts = context.engine.starts(self.node);
        let edge = self.node * edges as usize + self.peer.random.below(edges) as usize;
        self.peer.connect_to(context, edge);
        self.session.connected("sim", "/crore", context.now_ms);
    }

    fn lost(&mut self, context: &mut ClusterContext<'_>) {
        self.session.disconnected(Reason::Ended, Some(10));
        self.peer.act_at_ms = context.now_ms + self.peer.random.between(1, 100);
        self.take_events(context);
        for (_, was_unanswered) in self.requests.values_mut() {
            *was_unanswered = true;
        }
    }

    fn told(&self, partition: usize) -> Told {
        Told { client: self.peer.id, node: self.node, starts: self.starts, partition }
    }

    /// Whether everything has arrived; otherwise the missing part.
    pub fn is_settled(&self, engine: &Engine, plan: &ClusterPlan) -> Result<(), String> {
        if !self.session.is_ready() {
            return Err("not connected".into());
        }
        if self.session.inflight() > 0 || !self.requests.is_empty() {
            return Err("requests were not answered".into());
        }
        for (id, subscribed) in &self.subscriptions {
            if !subscribed.has_begun {
                return Err(format!("{id:?} has not begun"));
            }
            for topic in &subscribed.topics {
                let partition = plan.partition(*topic);
                let cursor = subscribed.cursors.get(&partition);
                let cursor = cursor.ok_or_else(|| format!("{id:?} has received nothing"))?;
                let name = &plan.topics[*topic];
                let result = super::oracle::is_past_end(engine, partition, name, *cursor);
                result.map_err(|text| format!("{id:?} {text}"))?;
            }
        }
        Ok(())
    }

    /// The messages of each topic, for an auditor: positions and publications, in order.
    pub fn received(&self) -> impl Iterator<Item = (usize, Vec<(Position, usize)>)> {
        self.subscriptions.values().filter(|it| !it.is_filter).map(|it| {
            let all = it.received.iter().map(|(_, position, id)| (*position, *id));
            (it.topics[0], all.collect())
        })
    }

    /// The node of an auditor.
    pub fn only(&self) -> Option<usize> {
        self.only
    }
}
