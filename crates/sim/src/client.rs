//! What all simulated clients share: one connection at a time, at its own pace, with its own
//! misfortunes.

use crate::entitlement::SimJudge;
use crate::network::{LinkId, Network, Received};
use crate::oracle::{Oracle, Source};
use crate::plan::Plan;
use stdx::prng::Prng;

/// What the world does with its clients now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// They act, and faults happen.
    Active,
    /// Nobody acts and nothing fails: they only stay, and come back.
    Calm,
    /// All but the auditor go.
    Leaving,
    /// The auditor publishes once more to every topic.
    Visiting,
    /// The last one goes.
    Over,
    /// The witness goes too, where there is one.
    Gone,
}

/// What a client sees of the world in one step.
pub struct Context<'a> {
    /// The network.
    pub network: &'a mut Network,
    /// The reference model.
    pub oracle: &'a mut Oracle,
    /// The world.
    pub plan: &'a Plan,
    /// What is done now.
    pub phase: Phase,
    /// Virtual milliseconds.
    pub now_ms: u64,
    /// Where tokens are revoked.
    pub judge: &'a SimJudge,
    /// The wall clock, seconds since 1970.
    pub now_s: u32,
}

/// One simulated client.
pub trait Client {
    /// Something has come, or the time that was asked for. Answers when it wants another step at
    /// the latest.
    fn step(&mut self, context: &mut Context<'_>) -> Option<u64>;

    /// Whether everything has come that must come when nothing fails; otherwise what is missing.
    fn is_settled(&self, context: &Oracle) -> Result<(), String>;

    /// The same of some topics only; of clients that are not asked, nothing.
    fn is_served(&self, _context: (&Oracle, &Plan), _now_ms: u64) -> Result<usize, String> {
        Ok(0)
    }

    /// The world is over: hands its runs to the oracle.
    fn finish(&mut self, oracle: &mut Oracle);
}

/// A connection as a client has it, with the pace at which it reads.
pub struct Peer {
    /// The client's number.
    pub id: usize,
    /// Its own numbers.
    pub random: Prng,
    /// The node that the connection belongs to.
    pub instance: u32,
    link: Option<LinkId>,
    out: Vec<u8>,
    /// Bytes received and not yet understood.
    pub input: Vec<u8>,
    stalled_until_ms: u64,
    /// Bytes of one read; slow clients take few.
    read_bytes: usize,
    /// Time between reads.
    read_every_ms: u64,
    next_read_ms: u64,
    /// The next action, and the next attempt to connect.
    pub act_at_ms: u64,
    half_closed: bool,
}

/// What became of the connection in a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fortune {
    /// It is there.
    Connected,
    /// There is none.
    Offline,
    /// It was lost in this step.
    Lost,
}

impl Peer {
    /// A client without a connection.
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

    /// Who is told what comes by this connection.
    pub fn source(&self) -> Source {
        Source { client: self.id, instance: self.instance }
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        self.link.is_some()
    }

    /// Connects to any edge.
    pub fn connect(&mut self, context: &mut Context<'_>) {
        let edge = self.random.below(u64::from(context.plan.settings.edges_count)) as usize;
        self.link = Some(context.network.connect(self.id, edge));
        self.instance = context.oracle.lives.instance();
        self.out.clear();
        self.input.clear();
        self.half_closed = false;
        context.oracle.note(self.id, || format!("connects to edge {edge}"));
    }

    /// Queues bytes.
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

    /// Ends its own direction once everything has been sent.
    pub fn half_close(&mut self) {
        self.half_closed = true;
    }

    /// Misfortune, by the plan: loses the connection, or stops reading.
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

    /// Writes what waits and reads what has come, at its pace.
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

    /// When the next step is of use for reading and writing; `now` while more may be there.
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
