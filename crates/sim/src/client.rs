//! Common parts of all simulated clients: one connection at a time, with its own pace and its own
//! faults.

use crate::entitlement::SimAuthenticator;
use crate::faults::ClientFaults;
use crate::network::{LinkId, Network, Received};
use crate::oracle::{Oracle, Source};
use crate::plan::Plan;
use stdx::prng::Prng;

/// The phase of the world, as its clients see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Clients act, and faults occur.
    Active,
    /// Clients do not act and no faults occur: they only stay, and reconnect.
    Calm,
    /// All clients except the auditor leave.
    Leaving,
    /// The auditor publishes once more to every topic.
    Visiting,
    /// The auditor leaves.
    Over,
    /// The witness leaves too, if there is one.
    Gone,
}

/// A client's view of the world in one step.
pub struct Context<'a> {
    /// The network.
    pub network: &'a mut Network,
    /// The reference model.
    pub oracle: &'a mut Oracle,
    /// The world's plan.
    pub plan: &'a Plan,
    /// The present phase.
    pub phase: Phase,
    /// Virtual milliseconds.
    pub now_ms: u64,
    /// The authenticator, for revocations.
    pub authenticator: &'a SimAuthenticator,
    /// The wall clock in seconds since 1970.
    pub now_s: u32,
}

/// The part of a world that a client's connection meets.
pub trait Surroundings {
    /// The network.
    fn network(&mut self) -> &mut Network;

    /// Virtual milliseconds.
    fn now_ms(&self) -> u64;

    /// Faults of clients, while there are any.
    fn faults(&self) -> Option<ClientFaults>;

    /// Records an action of a client.
    fn note(&mut self, client: usize, text: impl FnOnce() -> String);
}

impl Surroundings for Context<'_> {
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

/// One simulated client.
pub trait Client {
    /// Runs a step, because of input or at the requested time. Returns the time of the next step at
    /// the latest.
    fn step(&mut self, context: &mut Context<'_>) -> Option<u64>;

    /// Whether everything has arrived that must arrive without faults; otherwise the missing part.
    fn is_settled(&self, context: (&Oracle, &Plan)) -> Result<(), String>;

    /// Like `is_settled`, for topics whose logs are in memory. Returns the number of subscriptions
    /// that were checked; 0 for other clients.
    fn is_served(&self, _context: (&Oracle, &Plan), _now_ms: u64) -> Result<usize, String> {
        Ok(0)
    }

    /// Passes the client's runs to the oracle at the end of the world.
    fn finish(&mut self, oracle: &mut Oracle);
}

/// A client's connection, with its reading pace.
pub struct Peer {
    /// The client's number.
    pub id: usize,
    /// The client's own random numbers.
    pub random: Prng,
    /// The node of the connection.
    pub instance: u32,
    link: Option<LinkId>,
    out: Vec<u8>,
    /// Received bytes that are not decoded yet.
    pub input: Vec<u8>,
    stalled_until_ms: u64,
    /// The size of one read; slow clients read little.
    read_bytes: usize,
    /// Time between reads.
    read_every_ms: u64,
    next_read_ms: u64,
    /// The next action, and the next attempt to connect.
    pub act_at_ms: u64,
    half_closed: bool,
}

/// The state of the connection after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fortune {
    /// It is connected.
    Connected,
    /// There is no connection.
    Offline,
    /// It was lost in this step.
    Lost,
}

impl Peer {
    /// Creates a client without a connection.
    pub fn new(id: usize, plan: &Plan, random: &mut Prng) -> Peer {
        Peer::with(id, &plan.client, plan.active_ms, random)
    }

    /// Creates a client without a connection, with faults; it acts for `active_ms`.
    pub fn with(id: usize, faults: &ClientFaults, active_ms: u64, random: &mut Prng) -> Peer {
        let mut random = random.fork();
        let is_slow = random.chance(faults.slow);
        let act_at_ms = random.below(active_ms / 4 + 1);
        Peer {
            id,
            instance: 0,
            link: None,
            out: Vec::new(),
            input: Vec::new(),
            stalled_until_ms: 0,
            read_bytes: if is_slow { random.between(1, 300) as usize } else { 1 << 20 },
            read_every_ms: if is_slow { random.between(1, 20) } else { 0 },
            next_read_ms: 0,
            act_at_ms,
            half_closed: false,
            random,
        }
    }

    /// The source of the data on this connection.
    pub fn source(&self) -> Source {
        Source { client: self.id, instance: self.instance }
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        self.link.is_some()
    }

    /// Connects to a random edge.
    pub fn connect(&mut self, context: &mut Context<'_>) {
        let edge = self.random.below(u64::from(context.plan.settings.edges_count)) as usize;
        self.instance = context.oracle.lives.instance();
        self.connect_to(context, edge);
    }

    /// Connects to an edge.
    pub fn connect_to(&mut self, around: &mut impl Surroundings, edge: usize) {
        self.link = Some(around.network().connect(self.id, edge));
        self.out.clear();
        self.input.clear();
        self.half_closed = false;
        around.note(self.id, || format!("connects to edge {edge}"));
    }

    /// The connection, if there is one.
    pub fn link(&self) -> Option<LinkId> {
        self.link
    }

    /// Whether all bytes were passed to the network.
    pub fn has_sent_all(&self) -> bool {
        self.out.is_empty()
    }

    /// Forgets the connection, which stays open and unread.
    pub fn abandon(&mut self) -> Option<LinkId> {
        self.out.clear();
        self.input.clear();
        self.link.take()
    }

    /// Queues bytes for sending.
    pub fn send(&mut self, bytes: &[u8]) {
        if self.link.is_some() {
            self.out.extend_from_slice(bytes);
        }
    }

    /// Ends the connection.
    pub fn leave(&mut self, around: &mut impl Surroundings, with_reset: bool) {
        if let Some(link) = self.link.take() {
            around.note(self.id, || {
                format!("leaves{}", if with_reset { " with a reset" } else { "" })
            });
            if !with_reset {
                around.network().send(link, &self.out);
            }
            around.network().leave(link, with_reset);
        }
        self.out.clear();
        self.input.clear();
    }

    /// Closes its own direction once everything has been sent.
    pub fn half_close(&mut self) {
        self.half_closed = true;
    }

    /// Draws a fault from the plan: loses the connection, or stops reading.
    pub fn suffer(&mut self, around: &mut impl Surroundings) {
        let Some(faults) = around.faults() else {
            return;
        };
        if self.random.chance(faults.stall) {
            self.stalled_until_ms = around.now_ms() + self.random.between(1, faults.stall_ms_max);
            let until = self.stalled_until_ms;
            around.note(self.id, || format!("does not read until {until} ms"));
        }
        if let Some(link) = self.link
            && self.random.chance(faults.cut)
        {
            if self.random.chance(0.5) {
                around.note(self.id, || "the network breaks".into());
                around.network().cut(link);
            } else {
                let with_reset = self.random.chance(0.5);
                self.leave(around, with_reset);
            }
        }
    }

    /// Writes queued bytes and reads received ones, at its pace.
    pub fn transfer(&mut self, around: &mut impl Surroundings) -> Fortune {
        let Some(link) = self.link else {
            return Fortune::Offline;
        };
        let calm = around.faults().is_none();
        if calm {
            (self.stalled_until_ms, self.read_every_ms, self.read_bytes) = (0, 0, 1 << 20);
        }
        if !self.out.is_empty() {
            let taken = around.network().send(link, &self.out);
            self.out.drain(..taken);
        }
        if self.half_closed && self.out.is_empty() {
            around.network().shutdown(link);
        }
        if !calm && around.now_ms() < self.stalled_until_ms.max(self.next_read_ms) {
            return Fortune::Connected;
        }
        self.next_read_ms = around.now_ms() + self.read_every_ms;
        match around.network().receive(link, self.read_bytes) {
            Received::Data(bytes) => {
                self.input.extend_from_slice(&bytes);
                Fortune::Connected
            }
            Received::Nothing => Fortune::Connected,
            Received::Ended => {
                around.note(self.id, || "the node ended the stream".into());
                self.leave(around, false);
                Fortune::Lost
            }
            Received::Reset => {
                around.note(self.id, || "reset".into());
                self.leave(around, true);
                Fortune::Lost
            }
        }
    }

    /// The time of the next useful step for reading and writing; `now` while there may be more
    /// input.
    pub fn next_step_ms(&self, around: &impl Surroundings, did_read: bool) -> Option<u64> {
        self.link?;
        let mut at: Option<u64> = None;
        if !self.out.is_empty() {
            at = Some(around.now_ms() + 1);
        }
        let resume = self.stalled_until_ms.max(self.next_read_ms);
        if resume > around.now_ms() {
            at = Some(at.map_or(resume, |at| at.min(resume)));
        } else if did_read {
            at = Some(around.now_ms());
        }
        at
    }
}
