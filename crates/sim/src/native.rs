//! A client of the native protocol, written from `spec/protocol.md` with the codecs of `wire`: it
//! checks strictly, and has a cursor for each topic.

mod act;
mod answers;
mod inbound;
mod once;
mod packing;
mod plain;
mod policies;
mod speech;
mod subscribed;
mod ticket;
mod wide;

use crate::client::{Client, Context, Fortune, Peer, Phase};
use crate::oracle::{Once, Oracle, Run};
use crate::plan::Plan;
use broker::settings::LagPolicy;
use packing::Packing;
use speech::Speech;
use std::collections::{BTreeMap, VecDeque};
use stdx::prng::Prng;
use ticket::Held;
use wide::Wide;
use wire::http::HeadScan;
use wire::native::{ClientFrame, EARLY_FRAME_PREFIX, SUBPROTOCOL, SUBPROTOCOL_JSON, Start};
use wire::websocket::frame::RSV1;
use wire::websocket::handshake::{ClientHandshake, early_message};
use wire::websocket::message::Assembler;
use wire::websocket::{Opcode, frame};

const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// The time limit after WELCOME for subscriptions to logs in memory, while only a disk is faulty.
const SERVED_WITHIN_MS: u64 = 5_000;

/// The maximum number of subscriptions of one client at a time.
const SUBSCRIPTIONS_MAX: usize = 12;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// To be requested with the next connection.
    Absent,
    Asked,
    Replaying,
    Live,
    Ending,
}

struct Plain {
    run: Run,
    stage: Stage,
    start: Start<'static>,
    fail_on_gap: bool,
    credit: Option<u32>,
    /// The requested policy; without it, the rule decides.
    policy: Option<LagPolicy>,
    /// It starts beyond the log's head.
    is_beyond: bool,
    /// The server has answered once, so there is a cursor.
    has_cursor: bool,
    /// SUBSCRIBED was beyond the cursor: up to this offset.
    gap_due: Option<u64>,
    /// Only a retained message has arrived so far; CAUGHT_UP settles the messages behind it.
    is_snapshot: bool,
    /// The offset of the retained message, or of an older one, that the snapshot must contain; 0:
    /// none, or it has arrived.
    retained_due: u64,
    /// MESSAGE, GAP or CAUGHT_UP has arrived since SUBSCRIBED.
    has_begun: bool,
    /// The position is unknown to this node: it must first report a gap.
    must_announce: bool,
    /// It was resumed with a ticket's cursor, which may be behind its own.
    is_ticketed: bool,
    /// It is resumed by a ticket, and the node uses the newer of both cursors.
    may_be_ahead: bool,
    /// The progress of the node within messages that were settled before.
    again: Option<u64>,
}

enum Waiting {
    Ticket,
    Publication(usize),
    History { topic: usize, reverse: bool, position: Option<u64>, audit: bool, asked_at: u64 },
}

enum Todo {
    Marker(usize),
    Audit(usize, Option<u64>),
}

/// A native client; see the module.
pub struct NativeClient {
    peer: Peer,
    is_open: bool,
    is_welcome: bool,
    /// It received GO_AWAY, and only waits for its answers.
    is_away: bool,
    welcome_ms: u64,
    scan: HeadScan,
    nonce: [u8; 16],
    assembler: Assembler,
    assembly: Vec<u8>,
    packing: Packing,
    speech: Speech,
    plain: BTreeMap<u32, Plain>,
    wide: BTreeMap<u32, Wide>,
    aliases: BTreeMap<u32, u32>,
    requests: BTreeMap<u32, Waiting>,
    /// The offset of the last acknowledged publication of this connection, for each partition.
    acknowledged: BTreeMap<u32, (u32, u64)>,
    last_number: u32,
    /// It identifies its publications by sequences; other clients use keys.
    is_producer: bool,
    last_sequence: u64,
    /// Publications with an identity that were not answered, in order.
    repeats: VecDeque<usize>,
    is_auditor: bool,
    /// The state during the opening of a connection.
    opening: Option<Opening>,
    todo: VecDeque<Todo>,
    has_visited: bool,
    /// The ticket for a resume.
    ticket: Option<Held>,
    /// The number of subscriptions that this connection's ticket must restore.
    presented: Option<usize>,
}

/// The maximum size of frames in a handshake: its head stays below the server's 16 KiB.
const EARLY_BYTES_MAX: usize = 4 << 10;

/// The first frames of a connection, until the handshake is sent.
#[derive(Default)]
struct Opening {
    early_bytes_left: usize,
    /// Frames sent in the handshake, as offers.
    offers: Vec<String>,
    /// The frames behind the handshake.
    rest: Vec<u8>,
    /// Messages in JSON for the rest, which may go as one list.
    texts: Vec<Vec<u8>>,
}

impl Opening {
    /// Adds a frame to the handshake. The first one that does not fit ends the offers.
    fn take(&mut self, frame: &[u8]) -> bool {
        let fits = frame.len() <= self.early_bytes_left;
        self.early_bytes_left = if fits { self.early_bytes_left - frame.len() } else { 0 };
        if fits {
            self.offers.push(early_message(EARLY_FRAME_PREFIX, frame));
        }
        fits
    }
}

impl NativeClient {
    /// Creates a client that subscribes and publishes by its seed.
    pub fn new(id: usize, plan: &Plan, random: &mut Prng) -> NativeClient {
        let peer = Peer::new(id, plan, random);
        NativeClient {
            is_producer: id.is_multiple_of(2),
            last_sequence: 0,
            repeats: VecDeque::new(),
            peer,
            is_open: false,
            is_welcome: false,
            is_away: false,
            welcome_ms: 0,
            scan: HeadScan::new(),
            nonce: [0; 16],
            packing: Packing::new(id, plan),
            speech: Speech::new(id, plan),
            assembler: Assembler::new(),
            assembly: Vec::new(),
            plain: BTreeMap::new(),
            wide: BTreeMap::new(),
            aliases: BTreeMap::new(),
            requests: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            last_number: 0,
            is_auditor: false,
            opening: None,
            todo: VecDeque::new(),
            has_visited: false,
            ticket: None,
            presented: None,
        }
    }

    /// Creates a client that publishes a last message to every topic in the calm phase, and then
    /// reads all history.
    pub fn auditor(id: usize, plan: &Plan, random: &mut Prng) -> NativeClient {
        let mut client = NativeClient::new(id, plan, random);
        client.is_auditor = true;
        client.peer.act_at_ms = plan.active_ms + 1;
        for topic in 0..plan.topics.len() {
            client.todo.push_back(Todo::Marker(topic));
        }
        client
    }

    fn connect(&mut self, context: &mut Context<'_>) {
        self.peer.connect(context);
        self.scan = HeadScan::new();
        self.assembler = Assembler::new();
        self.assembly.clear();
        self.peer.random.fill(&mut self.nonce);
        // HELLO and the next frames are in the handshake, or follow at once.
        let is_early = self.peer.random.chance(0.5);
        self.opening = Some(Opening {
            early_bytes_left: if is_early { EARLY_BYTES_MAX } else { 0 },
            ..Opening::default()
        });
        let covered = self.hello(context);
        let is_left = |number: &u32| !covered.contains(number);
        let numbers: Vec<u32> = self.plain.keys().copied().filter(is_left).collect();
        for number in numbers {
            self.ask_plain(context, number);
        }
        let numbers: Vec<u32> = self.wide.keys().copied().filter(is_left).collect();
        for number in numbers {
            self.ask_wide(context, number);
        }
        // A producer is as new as its HELLO, so it waits until the node has read that.
        if !self.is_producer {
            self.repeat(context);
        }
        self.join_texts();
        let opening = self.opening.take().unwrap_or_default();
        let mut offered = vec![self.speech.subprotocol()];
        offered.extend(opening.offers.iter().map(String::as_str));
        let handshake = ClientHandshake { subprotocols: &offered, ..self.handshake() };
        let mut bytes = Vec::new();
        handshake.encode_request(&mut bytes);
        bytes.extend(opening.rest);
        self.peer.send(&bytes);
    }

    fn handshake(&self) -> ClientHandshake<'static> {
        ClientHandshake {
            host: "sim",
            target: "/crore",
            nonce: self.nonce,
            subprotocols: if self.speech.is_json { &[SUBPROTOCOL_JSON] } else { &[SUBPROTOCOL] },
            headers: &[],
            deflate: self.packing.is_offered(),
        }
    }

    fn frame(&mut self, frame: &ClientFrame<'_>) {
        let message = self.speech.message(frame);
        if let Some(opening) = &mut self.opening {
            if opening.take(&message) {
                return;
            }
            if self.speech.is_json {
                opening.texts.push(message);
                return;
            }
        }
        self.message(&message);
    }

    /// Sends the first texts of a connection that are not in the handshake.
    fn join_texts(&mut self) {
        let texts = self.opening.as_mut().map(|opening| std::mem::take(&mut opening.texts));
        for message in self.speech.joined(texts.unwrap_or_default()) {
            self.message(&message);
        }
    }

    fn message(&mut self, bytes: &[u8]) {
        let opcode = self.speech.opcode();
        let mut out = Vec::new();
        let mut key = [0; 4];
        let packed = if self.is_open { self.packing.pack(bytes) } else { None };
        let is_packed = packed.is_some();
        let bytes = packed.as_deref().unwrap_or(bytes);
        // Sometimes in fragments.
        if bytes.len() > 2 && self.peer.random.chance(0.1) {
            let at = 1 + self.peer.random.below(bytes.len() as u64 - 1) as usize;
            self.peer.random.fill(&mut key);
            frame::encode(&mut out, false, opcode, &bytes[..at], Some(key));
            frame::encode(&mut out, true, Opcode::Continuation, &bytes[at..], Some(key));
        } else {
            self.peer.random.fill(&mut key);
            frame::encode(&mut out, true, opcode, bytes, Some(key));
        }
        if is_packed {
            out[0] |= RSV1;
        }
        match &mut self.opening {
            Some(opening) => opening.rest.extend(out),
            None => self.peer.send(&out),
        }
    }

    fn lost(&mut self, context: &mut Context<'_>) {
        (self.is_open, self.is_welcome, self.is_away) = (false, false, false);
        self.aliases.clear();
        self.acknowledged.clear();
        self.plain.retain(|_, plain| {
            if plain.stage == Stage::Ending {
                context.oracle.keep_run(std::mem::take(&mut plain.run));
                return false;
            }
            plain.absent();
            (plain.is_ticketed, plain.may_be_ahead, plain.again) = (false, false, None);
            true
        });
        self.wide.retain(|_, wide| {
            let ended = wide.stage == Stage::Ending;
            if ended {
                wide.finish(context.oracle);
            }
            (wide.stage, wide.is_told) = (Stage::Absent, false);
            wide.forget_ticket();
            !ended
        });
        for (_, waiting) in std::mem::take(&mut self.requests) {
            match waiting {
                Waiting::Publication(id) if self.is_auditor => {
                    let topic = context.oracle.publications[id].topic;
                    self.todo.push_back(Todo::Marker(topic));
                }
                Waiting::History { topic, position, audit: true, .. } => {
                    self.todo.push_back(Todo::Audit(topic, position))
                }
                Waiting::Publication(id) if context.oracle.publications[id].once != Once::No => {
                    self.repeats.push_back(id);
                }
                _ => {}
            }
        }
        self.peer.act_at_ms = context.now_ms + self.peer.random.between(1, 100);
    }

    /// Whether to close now: after a GO_AWAY most clients close once all is answered; others leave
    /// that to the node.
    fn closes_now(&mut self) -> bool {
        self.requests.is_empty() && !self.peer.id.is_multiple_of(4)
    }

    fn next_number(&mut self) -> u32 {
        self.last_number += 1;
        self.last_number
    }
}

impl Client for NativeClient {
    fn step(&mut self, context: &mut Context<'_>) -> Option<u64> {
        let is_over = matches!(context.phase, Phase::Over | Phase::Gone);
        let stays = self.is_auditor && !is_over;
        if context.phase == Phase::Visiting && stays && !self.has_visited {
            // Interest by filter ends when a topic is next compared with the remaining filters.
            self.has_visited = true;
            self.todo = (0..context.plan.topics.len()).map(Todo::Marker).collect();
        }
        if !stays && (is_over || matches!(context.phase, Phase::Leaving | Phase::Visiting)) {
            if self.peer.is_connected() {
                let with_reset = self.peer.random.chance(0.3);
                self.peer.leave(context, with_reset);
            }
            return None;
        }
        let was_connected = self.peer.is_connected();
        if was_connected {
            let acts = (context.phase == Phase::Active || self.is_auditor) && !self.is_away;
            if acts && context.now_ms >= self.peer.act_at_ms {
                let pace = if self.is_auditor { 0 } else { context.plan.pace_ms };
                self.peer.act_at_ms = context.now_ms + 1 + self.peer.random.below(2 * pace + 1);
                self.act(context);
            }
        } else if context.now_ms >= self.peer.act_at_ms {
            self.connect(context);
        }
        let before = self.peer.input.len();
        match self.peer.transfer(context) {
            Fortune::Connected => {}
            Fortune::Lost => self.lost(context),
            Fortune::Offline => {
                if was_connected {
                    self.lost(context);
                }
                return Some(self.peer.act_at_ms.max(context.now_ms + 1));
            }
        }
        let did_read = self.peer.input.len() != before;
        let goes_on = !did_read || self.understand(context);
        if !goes_on || self.is_away && self.closes_now() {
            self.peer.leave(context, false);
            self.lost(context);
        }
        if !self.peer.is_connected() {
            return Some(self.peer.act_at_ms.max(context.now_ms + 1));
        }
        let io = self.peer.next_step_ms(context, did_read);
        let acts = context.phase == Phase::Active || (self.is_auditor && !self.todo.is_empty());
        let acts = acts && !self.is_away;
        let act = acts.then_some(self.peer.act_at_ms.max(context.now_ms));
        [io, act].into_iter().flatten().min()
    }

    fn is_settled(&self, (oracle, _): (&Oracle, &Plan)) -> Result<(), String> {
        if !self.is_welcome {
            return Err("not connected".into());
        }
        if let Some((request, _)) = self.requests.iter().next() {
            return Err(format!("request {request} was not answered"));
        }
        if !self.todo.is_empty() {
            return Err("work is left".into());
        }
        for (number, plain) in &self.plain {
            if plain.stage != Stage::Live {
                return Err(format!("subscription {number} is {:?}", plain.stage));
            }
            if plain.must_announce {
                return Err(format!("subscription {number} received no gap"));
            }
            oracle.is_past_marker(&plain.run).map_err(|text| {
                format!("subscription {number} to topic {} {text}", plain.run.topic)
            })?;
        }
        for (number, wide) in &self.wide {
            if wide.stage != Stage::Live {
                return Err(format!("filter {number} is {:?}", wide.stage));
            }
            wide.is_past_markers(oracle).map_err(|text| format!("filter {number} {text}"))?;
        }
        Ok(())
    }

    fn is_served(&self, context: (&Oracle, &Plan), now_ms: u64) -> Result<usize, String> {
        let (oracle, plan) = context;
        // The client has connected, so it has just sent its requests.
        if !self.is_welcome || now_ms < self.welcome_ms + SERVED_WITHIN_MS {
            return Ok(0); // a client whose disk read is refused leaves, and resumes from its position
        }
        let in_memory = |plain: &&Plain| plan.is_in_memory(plain.run.topic);
        for plain in self.plain.values().filter(in_memory) {
            let topic = plain.run.topic;
            if plain.stage != Stage::Live {
                return Err(format!("topic {topic} is {:?}", plain.stage));
            }
            oracle.is_past_marker(&plain.run).map_err(|text| format!("topic {topic} {text}"))?;
        }
        let served = self.plain.values().filter(in_memory);
        let has_marker = |plain: &&Plain| oracle.markers.contains_key(&plain.run.topic);
        Ok(served.filter(has_marker).count())
    }

    fn finish(&mut self, oracle: &mut Oracle) {
        for (_, plain) in std::mem::take(&mut self.plain) {
            oracle.keep_run(plain.run);
        }
        for (_, wide) in std::mem::take(&mut self.wide) {
            wide.finish(oracle);
        }
    }
}

/// Draws the padding of a payload, mostly small.
pub fn draw_padding(random: &mut Prng, plan: &Plan) -> usize {
    if random.chance(0.1) {
        random.below(plan.payload_bytes_max + 1) as usize
    } else {
        random.below(60) as usize
    }
}
