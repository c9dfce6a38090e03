//! Common parts of all simulated clients: one connection at a time, with its own pace and its own
//! faults.

use crate::entitlement::SimAuthenticator;
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

/// One simulated client.
pub trait Client {
    /// Runs a step, because of input or at the requested time. Returns the time of the next step at
    /// the latest.
    fn step(&mut self, context: &mut Context<'_>) -> Option<u64>;

    /// Whether everything has arrived that must arrive without faults; otherwise the missing part.
    fn is_settled(&self, context: &Oracle) -> Result<(), String>;

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
        let mut random = random.fork();
        let is_slow = random.chance(plan.client.slow);
        let act_at_ms = random.below(plan.active_ms / 4 + 1);
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
        self.link = Some(context.network.connect(self.id, edge));
        self.instance = context.oracle.lives.instance();
        self.out.clear();
        self.input.clear();
        self.half_closed = false;
        context.oracle.note(self.id, || format!("connects to edge {edge}"));
    }

    /// Queues bytes for sending.
    pub fn send(&mut self, bytes: &[u8]) {
        if self.link.is_some() {
            self.out.extend_from_slice(bytes);
        }
    }

    /// Ends the connection.
    pub fn leave(&mut self, context: &mut Context<'_>, with_reset: bool) {
        if let Some(link) = self.link.take() {
            context.oracle.note(self.id, || {
                format!("leaves{}", if with_reset { " with a reset" } else { "" })
            });
            if !with_reset {
                context.network.send(link, &self.out);
            }
            context.network.leave(link, with_reset);
        }
        self.out.clear();
        self.input.clear();
    }

    /// Closes its own direction once everything has been sent.
    pub fn half_close(&mut self) {
        self.half_closed = true;
    }

    /// Draws a fault from the plan: loses the connection, or stops reading.
    pub fn suffer(&mut self, context: &mut Context<'_>) {
        if context.phase != Phase::Active {
            return;
        }
        let faults = context.plan.client;
        if self.random.chance(faults.stall) {
            self.stalled_until_ms = context.now_ms + self.random.between(1, faults.stall_ms_max);
            let until = self.stalled_until_ms;
            context.oracle.note(self.id, || format!("does not read until {until} ms"));
        }
        if let Some(link) = self.link
            && self.random.chance(faults.cut)
        {
            if self.random.chance(0.5) {
                context.oracle.note(self.id, || "the network breaks".into());
                context.network.cut(link);
            } else {
                let with_reset = self.random.chance(0.5);
                self.leave(context, with_reset);
            }
        }
    }

    /// Writes queued bytes and reads received ones, at its pace.
    pub fn transfer(&mut self, context: &mut Context<'_>) -> Fortune {
        let Some(link) = self.link else {
            return Fortune::Offline;
        };
        let calm = context.phase != Phase::Active;
        if calm {
            (self.stalled_until_ms, self.read_every_ms, self.read_bytes) = (0, 0, 1 << 20);
        }
        if !self.out.is_empty() {
            let taken = context.network.send(link, &self.out);
            self.out.drain(..taken);
        }
        if self.half_closed && self.out.is_empty() {
            context.network.shutdown(link);
        }
        if !calm && context.now_ms < self.stalled_until_ms.max(self.next_read_ms) {
            return Fortune::Connected;
        }
        self.next_read_ms = context.now_ms + self.read_every_ms;
        match context.network.receive(link, self.read_bytes) {
            Received::Data(bytes) => {
                self.input.extend_from_slice(&bytes);
                Fortune::Connected
            }
            Received::Nothing => Fortune::Connected,
            Received::Ended => {
                context.oracle.note(self.id, || "the node ended the stream".into());
                self.leave(context, false);
                Fortune::Lost
            }
            Received::Reset => {
                context.oracle.note(self.id, || "reset".into());
                self.leave(context, true);
                Fortune::Lost
            }
        }
    }

    /// The time of the next useful step for reading and writing; `now` while there may be more
    /// input.
    pub fn next_step_ms(&self, context: &Context<'_>, did_read: bool) -> Option<u64> {
        self.link?;
        let mut at: Option<u64> = None;
        if !self.out.is_empty() {
            at = Some(context.now_ms + 1);
        }
        let resume = self.stalled_until_ms.max(self.next_read_ms);
        if resume > context.now_ms {
            at = Some(at.map_or(resume, |at| at.min(resume)));
        } else if did_read {
            at = Some(context.now_ms);
        }
        at
    }
}
