//! Publishers over the native protocol: an open loop of intended times, and what became of each
//! message.
//!
//! Place: a [`Protocol`] of the pool. A topic belongs to one worker and one connection, so that its
//! messages leave in order. What cannot be sent when it is due waits with its intended time;
//! nothing is left out, so a backlog shows as latency.

use std::sync::Arc;

use wire::native::{
    Attributes, ClientFrame, Hello, Once, Producer, PublishOptions, Reference, ServerFrame,
    encode_publish_head,
};
use wire::websocket::Opcode;

use super::left::SharedResults;
use super::link::{Kept, Link};
use super::native::send;
use super::protocol::{Protocol, SETTLE_NS, Turn};
use super::sockets::{Incoming, Sockets};
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
pub(super) struct Publishers {
    sockets: Sockets,
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
    frame: Vec<u8>,
    inflight: usize,
    is_ending: bool,
    is_finished: bool,
    stuck_until_ns: u64,
    /// The clock of the payloads minus the monotonic one.
    clock_offset_ns: i64,
}

impl Publishers {
    pub(super) fn new(
        sockets: Sockets,
        load: Arc<Load>,
        worker: u64,
        workers: u64,
        connections: u32,
        results: SharedResults,
    ) -> Publishers {
        let topics = (load.topics.len() + workers - 1 - worker) / workers;
        let acknowledged =
            if load.exactly_once { vec![Entry::default(); topics as usize] } else { Vec::new() };
        let clock_offset_ns = load.clock.now_ns() as i64 - Clock::Monotonic.now_ns() as i64;
        Publishers {
            sockets,
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
            frame: Vec::new(),
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
        let size = load.size.max(HEADER_BYTES);
        let link = &mut self.links[place as usize];
        let mut kept = None;
        if load.exactly_once {
            let mut payload = Vec::new();
            header.write(size, turn.random, &mut payload);
            kept = Some(Kept {
                topic,
                sequence: header.sequence,
                producer_sequence: link.next_producer_sequence(),
                payload,
            });
        }
        let mut request = 0;
        if load.acknowledge {
            request = link.sent(intended_ns, kept.clone());
            self.inflight += 1;
            turn.tally.inflight += 1;
        }
        self.begin_frame(place, request, kept.as_ref());
        match &kept {
            Some(kept) => self.frame.extend_from_slice(&kept.payload),
            None => header.write(size, turn.random, &mut self.frame),
        }
        send(Opcode::Binary, &self.frame, place, turn);
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

    /// Writes the name of a topic of this worker.
    fn name(&mut self, topic: u64) {
        self.name.clear();
        self.load.topics.write(self.worker + topic * self.workers, &mut self.name);
    }

    /// Begins a PUBLISH on the named topic; one that is kept has its producer's number.
    fn begin_frame(&mut self, place: u32, request: u32, kept: Option<&Kept>) {
        // Each connection is a producer, so that the numbers of one are in order on the wire.
        let id = producer_id(self.load.publisher, self.worker, place);
        let options = PublishOptions {
            once: kept
                .map(|kept| Once::Producer(Producer { id: &id, sequence: kept.producer_sequence })),
            ..PublishOptions::default()
        };
        self.frame.clear();
        encode_publish_head(request, &self.name, &options, &Attributes::default(), &mut self.frame);
    }

    /// After a reconnect, unanswered publications are sent again first, in order.
    fn send_again(&mut self, place: u32, turn: &mut Turn<'_>) {
        let again: Vec<(u32, Kept)> = self.links[place as usize]
            .again()
            .map(|(request, kept)| (request, kept.clone()))
            .collect();
        for (request, kept) in again {
            self.name(kept.topic);
            self.begin_frame(place, request, Some(&kept));
            self.frame.extend_from_slice(&kept.payload);
            send(Opcode::Binary, &self.frame, place, turn);
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
        let link = &self.links[(topic % u64::from(self.connections)) as usize];
        link.is_open && link.waiting_count() < self.load.inflight_max
    }

    fn choose_topic(&mut self, turn: &mut Turn<'_>) -> u64 {
        let topics = self.sequences.len() as u64;
        match self.load.order {
            Order::RoundRobin => self.turns % topics,
            Order::Random => turn.random.below(topics),
        }
    }
}

/// The meaning of a frame for a publisher.
enum Meaning {
    /// The connection is open.
    Welcome,
    /// The request has its answer: whether it was accepted.
    Answer(u32, bool),
    Nothing,
}

/// Counts a frame, and answers it if it is a ping.
fn understood(
    frame: &ServerFrame<'_>,
    exactly_once: bool,
    place: u32,
    turn: &mut Turn<'_>,
) -> Result<Meaning, String> {
    match frame {
        ServerFrame::Welcome(_) => {
            turn.opened();
            Ok(Meaning::Welcome)
        }
        ServerFrame::Published(published) => {
            turn.tally.duplicates += u64::from(published.duplicate);
            Ok(Meaning::Answer(published.request, true))
        }
        ServerFrame::Error(error) => {
            let why = format!("refused: {} ({})", error.message, error.code);
            if exactly_once && error.temporary {
                // Later publications must be sent again after it.
                return Err(why);
            }
            turn.tally.refused += 1;
            turn.tally.trouble = Some(why);
            match error.reference {
                Reference::Request(request) => Ok(Meaning::Answer(request, false)),
                _ => Ok(Meaning::Nothing),
            }
        }
        ServerFrame::Ping(token) => {
            let mut frame = Vec::new();
            ClientFrame::Pong(*token).encode(&mut frame);
            send(Opcode::Binary, &frame, place, turn);
            Ok(Meaning::Nothing)
        }
        ServerFrame::GoAway(go_away) => {
            Err(format!("the server asked the client to disconnect ({})", go_away.code))
        }
        _ => Ok(Meaning::Nothing),
    }
}

/// The name of a connection's producer: 20 hexadecimal digits; the run's number is random.
fn producer_id(publisher: u32, worker: u64, place: u32) -> [u8; 20] {
    let mut id = [0; 20];
    let number =
        u128::from(publisher) << 48 | u128::from(worker & 0xffff) << 32 | u128::from(place);
    for (place, digit) in id.iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (4 * place) & 15) as usize];
    }
    id
}

impl Protocol for Publishers {
    fn begin(&mut self, place: u32, turn: &mut Turn<'_>) {
        self.sockets.begin(place, turn.route, turn.to(place));
    }

    fn receive(
        &mut self,
        place: u32,
        bytes: &mut [u8],
        turn: &mut Turn<'_>,
    ) -> Result<usize, String> {
        let mut consumed = 0;
        while let Some((incoming, length)) = self.sockets.next(place, &mut bytes[consumed..])? {
            consumed += length;
            match incoming {
                Incoming::Opened => {
                    let mut frame = Vec::new();
                    let name = Some("crore bench");
                    ClientFrame::Hello(Hello { name, ..Hello::default() }).encode(&mut frame);
                    send(Opcode::Binary, &frame, place, turn);
                }
                Incoming::Binary(payload) => {
                    let frame = ServerFrame::decode(payload).map_err(|error| error.to_string())?;
                    match understood(&frame, self.load.exactly_once, place, turn)? {
                        Meaning::Welcome => {
                            self.links[place as usize].open();
                            self.open += 1;
                            self.send_again(place, turn);
                        }
                        Meaning::Answer(request, is_good) => {
                            self.answered(place, request, is_good, turn);
                        }
                        Meaning::Nothing => {}
                    }
                }
                Incoming::Ping(payload) => {
                    let payload = payload.to_vec();
                    send(Opcode::Pong, &payload, place, turn);
                }
                Incoming::Text(_) => return Err("unexpected text message".to_owned()),
                Incoming::Other => {}
            }
        }
        Ok(consumed)
    }

    fn lost(&mut self, place: u32, turn: &mut Turn<'_>) {
        self.sockets.lost(place);
        let link = &mut self.links[place as usize];
        self.open -= u32::from(link.is_open);
        let lost = link.lost();
        self.inflight -= lost;
        turn.tally.inflight -= lost as i64;
        turn.tally.unacknowledged += lost as u64;
    }

    fn wake_ns(&self) -> Option<u64> {
        if self.is_ending || self.open < self.connections {
            return None;
        }
        let Some(pace) = &self.pace else {
            return Some(0);
        };
        if self.is_over() {
            return None;
        }
        Some(pace.due_ns().max(self.stuck_until_ns))
    }

    fn tick(&mut self, turn: &mut Turn<'_>) {
        if self.is_ending || self.open < self.connections || self.sequences.is_empty() {
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

impl Drop for Publishers {
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
