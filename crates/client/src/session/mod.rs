//! One client's session with a node, without I/O: bytes and commands in, bytes and events out.
//!
//! Place: between a socket and an application. [`crate::Client`] is one shell over it; a program
//! with its own loop drives it directly. Time (milliseconds of any monotonic clock) and the seed
//! are arguments, so that equal inputs give equal outputs.
//!
//! Invariants: subscriptions and their cursors outlive connections; a request without an answer at
//! the end of its connection becomes [`Answer::Unknown`] and is never repeated, except a
//! publication with an [`Once`]; every input of the peer leads to an event or to a [`Reason`],
//! never to a panic; [`Settings`] bound all buffers.

mod compression;
mod early;
mod event;
mod filters;
mod handshake;
mod inbound;
mod publications;
mod report;
mod settings;
mod subscriptions;
mod tickets;
mod tokens;

use std::collections::VecDeque;
use std::fmt;

use stdx::prng::Prng;
use wire::native::{
    ClientFrame, History, PartitionPosition, Position, Start, Subscribe, TOPIC_BYTES_MAX,
    Unsubscribe,
};
use wire::websocket::{Assembler, CloseCode, Opcode, close::ClosePayload, frame};

use crate::fault::{self, Fault};
pub use report::{GAPS_KEPT_MAX, Report, ReportedGap};
pub use settings::{
    CommandError, HistoryOptions, Once, PublishOptions, ReturnPlan, Settings, SubscribeOptions,
};
pub use subscriptions::filter_matches;

pub use event::{
    Answer, Counters, Event, GapCause, HistoryGap, HistoryPage, Message, Published, Reason,
    ServerError, SubscriptionId, close_code_reconnects,
};
use subscriptions::Subscriptions;

/// The maximum size of the SUBSCRIBE items in one frame.
const SUBSCRIBE_FRAME_BYTES: usize = 12 * 1024;

/// The approximate size of one partition's position in an item.
const CURSOR_BYTES: usize = 16;

/// The time beyond the ping interval before a silent server counts as dead.
const SILENCE_MARGIN_MS: u64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Offline,
    Upgrading,
    Greeting,
    Ready,
    /// The close frame is written; nothing more is sent.
    Closing,
}

/// The state machine. One for each client, for all its connections in turn.
pub struct Session {
    settings: Settings,
    random: Prng,
    phase: Phase,
    phase_since_ms: u64,
    handshake: handshake::Handshake,
    early: early::Early,
    assembler: Assembler,
    assembly: Vec<u8>,
    compression: compression::Compression,
    /// The incomplete frame of the last receive; empty otherwise.
    tail: Vec<u8>,
    out: Vec<u8>,
    out_start: usize,
    subscriptions: Subscriptions,
    publications: publications::Publications,
    tickets: tickets::Tickets,
    tokens: tokens::Tokens,
    /// Requests that wait for their answers, in order of their numbers.
    inflight: VecDeque<u32>,
    last_request: u32,
    events: VecDeque<Event>,
    answers: VecDeque<(u32, Answer)>,
    limits: Limits,
    last_received_ms: u64,
    last_ping_ms: u64,
    return_plan: Option<(u32, ReturnPlan)>,
    counters: Counters,
}

/// The limits in WELCOME.
#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    ping_interval_ms: u64,
    message_bytes_max: u64,
}

impl fmt::Debug for Session {
    /// Omits buffers and tickets: the token and tickets are secrets.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Session")
            .field("settings", &self.settings)
            .field("phase", &self.phase)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Creates a session without a connection. `seed` feeds masking keys and nonces; it must not be
    /// guessable.
    pub fn new(settings: Settings, seed: u64) -> Session {
        let mut random = Prng::new(seed);
        let mut own_id = [0; 16];
        random.fill(&mut own_id);
        Session {
            publications: publications::Publications::new(&settings, own_id),
            tickets: tickets::Tickets::default(),
            tokens: tokens::Tokens::default(),
            settings,
            random,
            phase: Phase::Offline,
            phase_since_ms: 0,
            handshake: handshake::Handshake::default(),
            early: early::Early::default(),
            assembler: Assembler::new(),
            assembly: Vec::new(),
            compression: compression::Compression::default(),
            tail: Vec::new(),
            out: Vec::new(),
            out_start: 0,
            subscriptions: Subscriptions::default(),
            inflight: VecDeque::new(),
            last_request: 0,
            events: VecDeque::new(),
            answers: VecDeque::new(),
            limits: Limits::default(),
            last_received_ms: 0,
            last_ping_ms: 0,
            return_plan: None,
            counters: Counters::default(),
        }
    }

    /// Reports the begin of an attempt, before [`Session::connected`]: the present subscriptions go
    /// with the handshake. An owner that does not call it leaves that to `connected`.
    pub fn connecting(&mut self, now_ms: u64) {
        self.forget_connection();
        self.choose_early_frames(now_ms);
    }

    /// Reports a byte stream to `host` (as in the `Host` field), and begins the handshake for
    /// `target`.
    pub fn connected(&mut self, host: &str, target: &str, now_ms: u64) {
        if !self.early.is_chosen() {
            self.connecting(now_ms);
        }
        self.set_phase(Phase::Upgrading, now_ms);
        self.last_received_ms = now_ms;
        self.last_ping_ms = 0;
        let mut nonce = [0; 16];
        self.random.fill(&mut nonce);
        let deflate = self.settings.compression;
        let early = self.early.take_frames();
        self.handshake.begin(host, target, nonce, deflate, &early, &mut self.out);
    }

    /// Processes bytes from the server. All are consumed; frames are unmasked and checked in place.
    ///
    /// # Errors
    /// The connection must be closed: write the rest of [`Session::output`] if possible, close, and
    /// call [`Session::disconnected`] with the reason.
    pub fn receive(&mut self, bytes: &mut [u8], now_ms: u64) -> Result<(), Reason> {
        if !bytes.is_empty() {
            self.last_received_ms = now_ms;
        }
        if self.tail.is_empty() {
            let consumed = self.consume(bytes, now_ms)?;
            self.tail.extend_from_slice(&bytes[consumed..]);
            self.plan_ticket(now_ms);
            return Ok(());
        }
        let mut tail = std::mem::take(&mut self.tail);
        tail.extend_from_slice(bytes);
        let consumed = self.consume(&mut tail, now_ms)?;
        tail.drain(..consumed);
        if tail.is_empty() && tail.capacity() > 64 * 1024 {
            tail = Vec::new();
        }
        self.tail = tail;
        self.plan_ticket(now_ms);
        Ok(())
    }

    /// Reports the end of the connection. Requests without answers become unknown, except
    /// repeatable publications if there will be another connection; subscriptions remain. The owner
    /// decides when to reconnect and passes it as `retry_in_ms`.
    pub fn disconnected(&mut self, reason: Reason, retry_in_ms: Option<u64>) {
        self.forget_connection();
        if retry_in_ms.is_none() {
            self.give_up_publications();
        }
        self.phase = Phase::Offline;
        self.events.push_back(Event::Disconnected { reason, retry_in_ms });
    }

    /// Subscribes to a topic or filter. Every further connection subscribes again, from the cursor.
    ///
    /// # Errors
    /// [`CommandError::TopicLength`], [`CommandError::AlreadySubscribed`].
    pub fn subscribe(
        &mut self,
        filter: &str,
        start: Start<'static>,
        options: &SubscribeOptions,
    ) -> Result<SubscriptionId, CommandError> {
        check_length(filter)?;
        let id = self
            .subscriptions
            .add(filter, start, options)
            .ok_or(CommandError::AlreadySubscribed)?;
        if matches!(self.phase, Phase::Greeting | Phase::Ready) {
            self.send_subscribe(&[id]);
        }
        Ok(SubscriptionId(id))
    }

    /// Ends a subscription. Its messages in flight are dropped.
    pub fn unsubscribe(&mut self, subscription: SubscriptionId) {
        let Some(gone) = self.subscriptions.remove(subscription.0) else {
            return;
        };
        if matches!(self.phase, Phase::Greeting | Phase::Ready) {
            self.send_unsubscribe(&[subscription.0]);
        }
        self.early.ended(subscription.0);
        self.events.push_back(Event::Unsubscribed {
            subscription,
            filter: gone.filter,
            error: None,
        });
    }

    /// Requests one page of a topic's history. The answer has the returned number.
    ///
    /// # Errors
    /// See [`CommandError`]; nothing was sent.
    pub fn history(&mut self, topic: &str, options: &HistoryOptions) -> Result<u32, CommandError> {
        check_length(topic)?;
        self.check_ready(true)?;
        let request = self.next_request();
        self.send(&ClientFrame::History(History {
            request,
            topic,
            reverse: options.reverse,
            position: options.position,
            records_max: options.messages_max,
            bytes_max: 0,
        }));
        self.handshake.note_history(request, topic);
        Ok(request)
    }

    /// Closes the connection with code 1000. The owner writes the output and closes.
    pub fn close(&mut self, now_ms: u64) {
        if matches!(self.phase, Phase::Greeting | Phase::Ready) {
            self.send_close(CloseCode::NORMAL, "", now_ms);
        }
    }

    /// Processes the passage of time: sends a ping after silence, and repeats requests that were
    /// temporarily refused.
    ///
    /// # Errors
    /// See [`Session::receive`]: the handshake timed out, or the server is silent.
    pub fn tick(&mut self, now_ms: u64) -> Result<(), Reason> {
        match self.phase {
            Phase::Offline => Ok(()),
            Phase::Upgrading | Phase::Greeting | Phase::Closing => {
                if now_ms >= self.phase_since_ms + self.settings.handshake_timeout_ms {
                    return Err(Reason::HandshakeTimeout);
                }
                Ok(())
            }
            Phase::Ready => {
                self.tick_silence(now_ms)?;
                let due = self.subscriptions.take_due(now_ms);
                self.send_subscribe(&due);
                self.ask_for_ticket(now_ms);
                self.publish_refused(now_ms);
                Ok(())
            }
        }
    }

    /// The time of the next necessary [`Session::tick`]; `None` while only bytes or commands change
    /// the state.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        match self.phase {
            Phase::Offline => None,
            Phase::Upgrading | Phase::Greeting | Phase::Closing => {
                Some(self.phase_since_ms + self.settings.handshake_timeout_ms)
            }
            Phase::Ready => {
                let ping = self.silence_deadlines().map(|(ping_at, idle_at)| ping_at.min(idle_at));
                let refused = self.subscriptions.next_due_ms();
                let put_off = self.publications.due_ms();
                [ping, refused, put_off, self.tickets.next_due_ms()].into_iter().flatten().min()
            }
        }
    }

    /// Bytes to write to the server.
    pub fn output(&self) -> &[u8] {
        &self.out[self.out_start..]
    }

    /// Reports that `bytes` bytes of the output were written.
    ///
    /// # Panics
    /// If the output is shorter.
    pub fn written(&mut self, bytes: usize) {
        assert!(bytes <= self.output().len(), "more written than there was");
        self.out_start += bytes;
        if self.out_start == self.out.len() {
            self.out.clear();
            self.out_start = 0;
            self.out.shrink_to(64 * 1024);
        } else if self.out_start > 64 * 1024 {
            self.out.drain(..self.out_start);
            self.out_start = 0;
        }
    }

    /// The next event.
    pub fn take_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Events that were not taken, in order; for an owner that takes many at once.
    pub(crate) fn events(&mut self) -> &mut VecDeque<Event> {
        &mut self.events
    }

    /// The next answer to a request, with the request's number.
    pub fn take_answer(&mut self) -> Option<(u32, Answer)> {
        self.answers.pop_front()
    }

    /// Whether the server has accepted the session, so that requests can be sent.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready && self.return_plan.is_none()
    }

    /// Whether another acknowledged request can be sent now.
    pub fn has_room(&self) -> bool {
        self.is_ready()
            && self.inflight.len() < self.settings.inflight_max
            && self.has_room_to_keep()
    }

    /// The number of requests that wait for their answers.
    pub fn inflight(&self) -> usize {
        self.inflight.len()
    }

    /// The server's request to leave: once nothing is in flight, the owner closes and reconnects by
    /// this plan.
    pub fn return_plan(&self) -> Option<&ReturnPlan> {
        self.return_plan.as_ref().map(|(_, plan)| plan)
    }

    /// The reason for a disconnect by the [`Session::return_plan`].
    pub fn return_reason(&self) -> Option<Reason> {
        self.return_plan.as_ref().map(|(code, _)| Reason::GoAway { code: *code })
    }

    /// The number of subscriptions.
    pub fn subscriptions_count(&self) -> usize {
        self.subscriptions.len()
    }

    /// The cursor of a subscription to a topic, for a resume in another run.
    pub fn cursor(&self, subscription: SubscriptionId) -> Option<Position> {
        self.subscriptions.get(subscription.0)?.proof.cursor()
    }

    /// The cursors of a subscription to a filter, for a resume in another run.
    pub fn cursors(&self, subscription: SubscriptionId) -> Vec<PartitionPosition> {
        let subscription = self.subscriptions.get(subscription.0);
        subscription.map_or_else(Vec::new, |subscription| subscription.cursors.positions())
    }

    /// The state of a subscription: complete so far, or its missing messages.
    pub fn report(&self, subscription: SubscriptionId) -> Option<Report> {
        let subscription = self.subscriptions.get(subscription.0)?;
        Some(Report {
            position: subscription.proof.cursor(),
            positions: subscription.cursors.positions(),
            ..subscription.report.clone()
        })
    }

    /// The counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn set_phase(&mut self, phase: Phase, now_ms: u64) {
        self.phase = phase;
        self.phase_since_ms = now_ms;
    }

    fn forget_connection(&mut self) {
        self.subscriptions.connection_lost();
        self.tickets.connection_lost();
        self.tokens.connection_lost();
        self.assembler = Assembler::new();
        self.assembly = Vec::new();
        self.compression.agreed(false);
        self.tail = Vec::new();
        self.out.clear();
        self.out_start = 0;
        self.limits = Limits::default();
        self.return_plan = None;
        for request in std::mem::take(&mut self.inflight) {
            if self.publications.keeps(request) {
                self.inflight.push_back(request)
            } else {
                self.answers.push_back((request, Answer::Unknown))
            }
        }
        self.handshake.forget();
        self.early = early::Early::default();
    }

    fn send_subscribe(&mut self, ids: &[u32]) {
        for frame in self.subscribe_frames(ids) {
            self.send_binary(&frame);
        }
    }

    fn send_unsubscribe(&mut self, ids: &[u32]) {
        if !ids.is_empty() {
            self.send(&ClientFrame::Unsubscribe(Unsubscribe { subscriptions: ids.into() }));
        }
    }

    fn subscribe_frames(&self, ids: &[u32]) -> Vec<Vec<u8>> {
        let asked: Vec<(u32, Vec<PartitionPosition>)> = ids
            .iter()
            .filter_map(|id| Some((*id, self.subscriptions.get(*id)?.cursors.positions())))
            .collect();
        let mut frames: Vec<Vec<u8>> = Vec::new();
        let mut items = Vec::new();
        let mut bytes = 0;
        for (place, (id, cursors)) in asked.iter().enumerate() {
            if let Some(subscription) = self.subscriptions.get(*id) {
                items.push(subscription.item(*id, cursors));
                bytes += subscription.filter.len() + 32 + cursors.len() * CURSOR_BYTES;
            }
            if !items.is_empty() && (bytes >= SUBSCRIBE_FRAME_BYTES || place + 1 == asked.len()) {
                let mut frame = Vec::with_capacity(bytes);
                ClientFrame::Subscribe(Subscribe { items: items.as_slice().into() })
                    .encode(&mut frame);
                frames.push(frame);
                items.clear();
                bytes = 0;
            }
        }
        frames
    }

    fn send(&mut self, frame: &ClientFrame<'_>) {
        let mut bytes = Vec::with_capacity(64);
        frame.encode(&mut bytes);
        self.send_binary(&bytes);
    }

    fn send_binary(&mut self, payload: &[u8]) {
        self.send_websocket(Opcode::Binary, payload);
    }

    fn send_websocket(&mut self, opcode: Opcode, payload: &[u8]) {
        let mut key = [0; 4];
        self.random.fill(&mut key);
        if !self.compression.encode(opcode, payload, key, &mut self.out) {
            frame::encode(&mut self.out, true, opcode, payload, Some(key));
        }
    }

    fn send_close(&mut self, code: CloseCode, reason: &str, now_ms: u64) {
        if self.phase != Phase::Closing {
            self.send_websocket(Opcode::Close, ClosePayload::new(code, reason).as_bytes());
            self.set_phase(Phase::Closing, now_ms);
        }
    }

    /// The time of a ping to a silent server, or the time to give it up after the ping
    /// (`spec/protocol.md`, section 8).
    fn silence_deadlines(&self) -> Option<(u64, u64)> {
        let patience_ms = self.patience_ms()?;
        let ping_at_ms = self.last_received_ms.saturating_add(patience_ms);
        if self.last_ping_ms < ping_at_ms {
            Some((ping_at_ms, u64::MAX))
        } else {
            Some((u64::MAX, self.last_ping_ms.saturating_add(patience_ms)))
        }
    }

    fn patience_ms(&self) -> Option<u64> {
        let is_trusted = self.limits.ping_interval_ms == 0 || fault::is(Fault::TrustsSilence);
        (!is_trusted).then(|| self.limits.ping_interval_ms + SILENCE_MARGIN_MS)
    }

    /// Pings a silent server, and gives it up after another deadline. A timer that fires more than
    /// twice too late (the machine slept) pings again and grants a whole deadline.
    fn tick_silence(&mut self, now_ms: u64) -> Result<(), Reason> {
        let (Some(patience_ms), Some((ping_at_ms, idle_at_ms))) =
            (self.patience_ms(), self.silence_deadlines())
        else {
            return Ok(());
        };
        let slept = now_ms > idle_at_ms.saturating_add(patience_ms);
        if now_ms >= idle_at_ms && !slept {
            return Err(Reason::Idle);
        }
        if now_ms >= ping_at_ms || slept {
            self.send(&ClientFrame::Ping(now_ms));
            self.last_ping_ms = now_ms;
        }
        Ok(())
    }

    fn check_ready(&self, acknowledge: bool) -> Result<(), CommandError> {
        if !self.is_ready() {
            return Err(CommandError::NotConnected);
        }
        if acknowledge && self.inflight.len() >= self.settings.inflight_max {
            return Err(CommandError::InflightFull);
        }
        Ok(())
    }

    fn next_request(&mut self) -> u32 {
        self.last_request = self.last_request.checked_add(1).unwrap_or(1);
        self.inflight.push_back(self.last_request);
        self.last_request
    }

    fn answer(&mut self, request: u32, answer: Answer) {
        self.publications.forget(request);
        // Answers arrive almost in order, so the search is short.
        if let Some(place) = self.inflight.iter().position(|waiting| *waiting == request) {
            self.inflight.remove(place);
            self.answers.push_back((request, answer));
        }
    }
}

fn check_length(topic: &str) -> Result<(), CommandError> {
    match topic.len() {
        1..=TOPIC_BYTES_MAX => Ok(()),
        bytes => Err(CommandError::TopicLength(bytes)),
    }
}
