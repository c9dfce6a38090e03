//! Publishers: an open loop of intended times, and what became of each message.
//!
//! Place: a [`Protocol`] of the pool, over the bytes of a [`Publishing`]. A topic belongs to one
//! worker and one connection, so that its messages leave in order. What cannot be sent when it is
//! due waits with its intended time; nothing is left out, so a backlog shows as latency.

use std::sync::Arc;

use super::left::SharedResults;
use super::link::{Kept, Link};
use super::protocol::{Protocol, SETTLE_NS, Turn};
use super::publishing::{Meaning, Publication, Publishing};
use super::window::Window;
use crate::audit::Entry;
use crate::pacing::Pace;
use crate::pattern::Pattern;
use crate::payload::{Clock, HEADER_BYTES, Header, topic_hash};

/// Messages sent in one turn.
const TURN_MESSAGES_MAX: usize = 512;
/// Bytes that may wait for the sockets of one worker.
const BACKLOG_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Time that a stop waits for acknowledgements, in nanoseconds, if every message must have one: a
/// restart of the server.
const SETTLE_ONCE_NS: u64 = 30_000_000_000;

/// Order in which the topics take turns.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Default,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
pub enum Order {
    /// One after the other.
    #[default]
    RoundRobin,
    /// Each message for a random topic.
    Random,
}

/// The load, the same for all workers.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Load {
    /// All topics.
    pub topics: Pattern,
    /// Their order.
    pub order: Order,
    /// Messages per second over all workers.
    pub rate: f64,
    /// Time between two turns that send; 0: each message is sent when it is due. Messages that are
    /// due in the same step share a write.
    pub step_ns: u64,
    /// Bytes of a payload; at least the header's.
    pub size: usize,
    /// Ask for acknowledgements.
    pub acknowledge: bool,
    /// Every message has its producer's number, and is sent again after a loss until it is
    /// acknowledged.
    pub exactly_once: bool,
    /// Acknowledgements that one connection may wait for.
    pub inflight_max: usize,
    /// The clock of the intended times.
    pub clock: Clock,
    /// This run's number in the payloads.
    pub publisher: u32,
    /// Messages over all workers, then the loop ends; 0: no end.
    pub count: u64,
    /// The measured span; no message is sent after its end.
    #[serde(skip, default = "everything")]
    pub window: Arc<Window>,
}

/// The window of a load that was read from text; a run sets its own at the start.
fn everything() -> Arc<Window> {
    Window::from(0)
}

/// All publishers of a worker.
pub(super) struct Publishers<W> {
    wire: W,
    load: Arc<Load>,
    worker: u64,
    workers: u64,
    connections: u32,
    links: Vec<Link>,
    open: u32,
    /// Sequence numbers of the worker's topics.
    sequences: Vec<u64>,
    /// The acknowledged messages of each topic; empty without a ledger.
    acknowledged: Vec<Entry>,
    results: SharedResults,
    pace: Option<Pace>,
    turns: u64,
    next_topic: u64,
    name: String,
    payload: Vec<u8>,
    inflight: usize,
    is_ending: bool,
    is_finished: bool,
    stuck_until_ns: u64,
    /// The clock of the payloads minus the monotonic one.
    clock_offset_ns: i64,
}

impl<W: Publishing> Publishers<W> {
    pub(super) fn new(
        wire: W,
        load: Arc<Load>,
        worker: u64,
        workers: u64,
        connections: u32,
        results: SharedResults,
    ) -> Publishers<W> {
        let topics = (load.topics.len() + workers - 1 - worker) / workers;
        let acknowledged =
            if load.exactly_once { vec![Entry::default(); topics as usize] } else { Vec::new() };
        let clock_offset_ns = load.clock.now_ns() as i64 - Clock::Monotonic.now_ns() as i64;
        Publishers {
            wire,
            load,
            worker,
            workers,
            connections,
            links: (0..connections).map(|_| Link::default()).collect(),
            open: 0,
            sequences: vec![0; topics as usize],
            acknowledged,
            results,
            pace: None,
            turns: 0,
            next_topic: 0,
            name: String::new(),
            payload: Vec::new(),
            inflight: 0,
            is_ending: false,
            is_finished: false,
            stuck_until_ns: 0,
            clock_offset_ns,
        }
    }

    /// Sends one message; its topic is decided already.
    fn publish(&mut self, topic: u64, intended_ns: u64, turn: &mut Turn<'_>) {
        let place = (topic % u64::from(self.connections)) as u32;
        let load = self.load.clone();
        self.name(topic);
        let sequence = &mut self.sequences[topic as usize];
        *sequence += 1;
        let header = Header {
            clock: load.clock,
            publisher: load.publisher,
            topic_hash: topic_hash(&self.name),
            intended_ns: intended_ns.saturating_add_signed(self.clock_offset_ns),
            sequence: *sequence,
        };
        self.payload.clear();
        header.write(load.size.max(HEADER_BYTES), turn.random, &mut self.payload);
        let link = &mut self.links[place as usize];
        let kept = load.exactly_once.then(|| Kept {
            topic,
            sequence: header.sequence,
            producer_sequence: link.next_producer_sequence(),
            payload: self.payload.clone(),
        });
        let producer_sequence = kept.as_ref().map(|kept| kept.producer_sequence);
        let mut request = 0;
        if load.acknowledge {
            request = link.sent(intended_ns, kept);
            self.inflight += 1;
            turn.tally.inflight += 1;
        }
        let (topic, payload) = (&self.name[..], &self.payload[..]);
        let publication = Publication { request, topic, producer_sequence, payload };
        self.wire.publish(place, &publication, turn);
        turn.tally.sent += 1;
        if load.window.contains(intended_ns) {
            turn.tally.sent_measured += 1;
            turn.tally.send_delay.record_ns(turn.now_ns.saturating_sub(intended_ns));
        }
    }

    /// Whether nothing is to be sent any more.
    fn is_over(&self) -> bool {
        let Some(pace) = &self.pace else {
            return false;
        };
        (self.load.count > 0 && pace.next() >= self.load.count)
            || pace.due_ns() >= self.load.window.until_ns()
    }

    /// The time of the next message, if there is one to send.
    fn due_ns(&self) -> Option<u64> {
        if self.is_ending || self.open < self.connections {
            return None;
        }
        let Some(pace) = &self.pace else {
            return Some(0);
        };
        (!self.is_over()).then(|| pace.step_ns(self.load.step_ns).max(self.stuck_until_ns))
    }

    /// After a reconnect, unanswered publications are sent again first, in order.
    fn send_again(&mut self, place: u32, turn: &mut Turn<'_>) {
        let again: Vec<(u32, Kept)> = self.links[place as usize]
            .again()
            .map(|(request, kept)| (request, kept.clone()))
            .collect();
        for (request, kept) in again {
            self.name(kept.topic);
            let publication = Publication {
                request,
                topic: &self.name,
                producer_sequence: Some(kept.producer_sequence),
                payload: &kept.payload,
            };
            self.wire.publish(place, &publication, turn);
            turn.tally.repeated_sends += 1;
        }
    }

    /// An answer: whether the message stands in its log.
    fn answered(&mut self, place: u32, request: u32, is_good: bool, turn: &mut Turn<'_>) {
        let Some(answered) = self.links[place as usize].answered(request) else {
            return;
        };
        self.inflight -= 1;
        turn.tally.inflight -= 1;
        if !is_good {
            return;
        }
        if let Some(kept) = answered.kept {
            let entry = &mut self.acknowledged[kept.topic as usize];
            entry.acknowledged += 1;
            entry.sequence = entry.sequence.max(kept.sequence);
        }
        turn.tally.received += 1;
        if self.load.window.contains(answered.intended_ns) {
            turn.tally.latency.record_ns(turn.now_ns.saturating_sub(answered.intended_ns));
        }
    }

    /// Whether the next message's connection can take it.
    fn has_room(&self, topic: u64) -> bool {
        let place = (topic % u64::from(self.connections)) as u32;
        let link = &self.links[place as usize];
        let inflight_max = self.load.inflight_max.min(self.wire.inflight_max(place));
        link.is_open && link.waiting_count() < inflight_max
    }

    fn choose_topic(&mut self, turn: &mut Turn<'_>) -> u64 {
        let topics = self.sequences.len() as u64;
        match self.load.order {
            Order::RoundRobin => self.turns % topics,
            Order::Random => turn.random.below(topics),
        }
    }
}

impl<W: Publishing> Protocol for Publishers<W> {
    fn begin(&mut self, place: u32, turn: &mut Turn<'_>) {
        self.wire.begin(place, turn);
    }

    fn receive(
        &mut self,
        place: u32,
        bytes: &mut [u8],
        turn: &mut Turn<'_>,
    ) -> Result<usize, String> {
        let mut consumed = 0;
        while let Some((meaning, length)) = self.wire.next(place, &mut bytes[consumed..], turn)? {
            consumed += length;
            match meaning {
                Meaning::Opened => {
                    turn.opened();
                    self.links[place as usize].open();
                    self.open += 1;
                    self.send_again(place, turn);
                }
                Meaning::Answer { request, is_good } => {
                    self.answered(place, request, is_good, turn);
                }
                Meaning::Nothing => {}
            }
        }
        Ok(consumed)
    }

    fn lost(&mut self, place: u32, turn: &mut Turn<'_>) {
        self.wire.lost(place);
        let link = &mut self.links[place as usize];
        self.open -= u32::from(link.is_open);
        let lost = link.lost();
        self.inflight -= lost;
        turn.tally.inflight -= lost as i64;
        turn.tally.unacknowledged += lost as u64;
    }

    fn wake_ns(&self) -> Option<u64> {
        let due = [self.due_ns(), self.wire.wake_ns()];
        due.into_iter().flatten().min()
    }

    fn gathers(&self) -> bool {
        self.load.step_ns > 0 && self.due_ns().is_some_and(|due_ns| due_ns > 0)
    }

    fn tick(&mut self, turn: &mut Turn<'_>) {
        self.wire.tick(turn);
        if self.due_ns().is_none_or(|due_ns| due_ns > turn.now_ns) || self.sequences.is_empty() {
            return;
        }
        if self.pace.is_none() {
            // Random order has its first topic drawn before.
            self.next_topic = self.choose_topic(turn);
            self.pace = Some(Pace::new(turn.now_ns, self.load.rate, self.worker, self.workers));
        }
        for _ in 0..TURN_MESSAGES_MAX {
            if !self.has_room(self.next_topic) || turn.backlog_bytes() > BACKLOG_BYTES_MAX {
                // Answers and writable sockets make room; looking again twice per millisecond is
                // enough.
                self.stuck_until_ns = turn.now_ns + 500_000;
                return;
            }
            if self.is_over() {
                return;
            }
            let Some(pace) = &mut self.pace else { return };
            let Some((_, intended_ns)) = pace.take(turn.now_ns) else {
                return;
            };
            let topic = self.next_topic;
            self.publish(topic, intended_ns, turn);
            self.turns += 1;
            self.next_topic = self.choose_topic(turn);
        }
    }

    fn look(&mut self, turn: &mut Turn<'_>) {
        if self.is_over() && !self.is_finished {
            self.is_finished = true;
            turn.tally.finished += 1;
        }
    }

    fn end(&mut self) {
        self.is_ending = true;
    }

    fn is_settled(&self) -> bool {
        self.inflight == 0
    }

    fn settle_ns(&self) -> u64 {
        if self.load.exactly_once { SETTLE_ONCE_NS } else { SETTLE_NS }
    }
}

impl<W> Publishers<W> {
    /// Writes the name of a topic of this worker.
    fn name(&mut self, topic: u64) {
        self.name.clear();
        self.load.topics.write(self.worker + topic * self.workers, &mut self.name);
    }
}

impl<W> Drop for Publishers<W> {
    /// The acknowledged messages outlive the worker.
    fn drop(&mut self) {
        if self.acknowledged.is_empty() {
            return;
        }
        let acknowledged = std::mem::take(&mut self.acknowledged);
        let results = self.results.clone();
        results.with(|left| {
            let ledger = left.ledger.get_or_insert_default();
            for (topic, entry) in (0..).zip(acknowledged) {
                if entry.acknowledged > 0 {
                    self.name(topic);
                    ledger.insert(self.name.clone(), entry);
                }
            }
        });
    }
}
