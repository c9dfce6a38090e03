//! A client of the native protocol, written against `spec/protocol.md` with the codecs of `wire`: strict in what it
//! takes, and with a cursor of its own for each topic.

use crate::client::{Client, Context, Fortune, Peer, Phase};
use crate::oracle::{FilterRun, Hole, Oracle, Run, matches};
use crate::plan::{EPOCH, Plan};
use std::collections::{BTreeMap, VecDeque};
use stdx::prng::Prng;
use wire::codec::Step;
use wire::http::response::Response;
use wire::http::{HeadLimits, HeadScan};
use wire::native::{
    Attributes, ClientFrame, Credit, ErrorCode, ErrorFrame, Hello, History, HistoryPage, Position,
    Reference, Retained, ServerFrame, Start, Subscribe, SubscribeItem, SubscribeRequest,
    Subscribed, Tag, Unsubscribe, encode_publish_head,
};
use wire::websocket::handshake::ClientHandshake;
use wire::websocket::message::{Assembler, Event};
use wire::websocket::{Opcode, Role, frame};

const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Subscriptions that one client holds at a time.
const SUBSCRIPTIONS_MAX: usize = 12;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// To be asked for with the next connection.
    Absent,
    Asked,
    Replaying,
    Live,
    Ending,
}

struct Plain {
    run: Run,
    stage: Stage,
    start: Start,
    fail_on_gap: bool,
    credit: Option<u32>,
    /// The server has answered once: a cursor is there.
    has_cursor: bool,
    /// SUBSCRIBED was beyond the cursor: up to there.
    gap_due: Option<u64>,
    /// Only a retained message has come so far; CAUGHT_UP settles what lies behind it.
    is_snapshot: bool,
    /// MESSAGE or GAP or CAUGHT_UP has come since SUBSCRIBED.
    has_begun: bool,
}

struct Wide {
    run: FilterRun,
    stage: Stage,
}

enum Waiting {
    Publication(usize),
    History {
        topic: usize,
        reverse: bool,
        position: Option<u64>,
        audit: bool,
        asked_at: u64,
    },
}

enum Todo {
    Marker(usize),
    Audit(usize, Option<u64>),
}

/// See the module.
pub struct NativeClient {
    peer: Peer,
    is_open: bool,
    is_welcome: bool,
    scan: HeadScan,
    nonce: [u8; 16],
    assembler: Assembler,
    assembly: Vec<u8>,
    plain: BTreeMap<u32, Plain>,
    wide: BTreeMap<u32, Wide>,
    aliases: BTreeMap<u32, u32>,
    requests: BTreeMap<u32, Waiting>,
    /// Of each partition: the offset of the last acknowledged publication of this connection.
    acknowledged: BTreeMap<u32, (u32, u64)>,
    last_number: u32,
    is_auditor: bool,
    todo: VecDeque<Todo>,
    has_visited: bool,
}

impl NativeClient {
    /// A client that subscribes and publishes as the seed wants.
    pub fn new(id: usize, plan: &Plan, random: &mut Prng) -> NativeClient {
        NativeClient {
            peer: Peer::new(id, plan, random),
            is_open: false,
            is_welcome: false,
            scan: HeadScan::new(),
            nonce: [0; 16],
            assembler: Assembler::new(),
            assembly: Vec::new(),
            plain: BTreeMap::new(),
            wide: BTreeMap::new(),
            aliases: BTreeMap::new(),
            requests: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            last_number: 0,
            is_auditor: false,
            todo: VecDeque::new(),
            has_visited: false,
        }
    }

    /// A client that, once all is calm, publishes a last message to every topic and then reads all history.
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
        let mut bytes = Vec::new();
        self.handshake().encode_request(&mut bytes);
        self.peer.send(&bytes);
        // HELLO and the rest may follow at once.
        self.frame(&ClientFrame::Hello(Hello {
            ping_interval_s: 0,
            token: None,
            name: None,
        }));
        let numbers: Vec<u32> = self.plain.keys().copied().collect();
        for number in numbers {
            self.ask_plain(context, number);
        }
        let numbers: Vec<u32> = self.wide.keys().copied().collect();
        for number in numbers {
            self.ask_wide(context, number);
        }
    }

    fn handshake(&self) -> ClientHandshake<'static> {
        ClientHandshake {
            host: "sim",
            target: "/crore",
            nonce: self.nonce,
            subprotocols: &["crore.v1"],
            headers: &[],
        }
    }

    fn frame(&mut self, frame: &ClientFrame<'_>) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.binary(&bytes);
    }

    fn binary(&mut self, bytes: &[u8]) {
        let mut out = Vec::new();
        let mut key = [0; 4];
        // Now and then in fragments.
        if bytes.len() > 2 && self.peer.random.chance(0.1) {
            let at = 1 + self.peer.random.below(bytes.len() as u64 - 1) as usize;
            self.peer.random.fill(&mut key);
            frame::encode(&mut out, false, Opcode::Binary, &bytes[..at], Some(key));
            frame::encode(
                &mut out,
                true,
                Opcode::Continuation,
                &bytes[at..],
                Some(key),
            );
        } else {
            self.peer.random.fill(&mut key);
            frame::encode(&mut out, true, Opcode::Binary, bytes, Some(key));
        }
        self.peer.send(&out);
    }

    fn lost(&mut self, context: &mut Context<'_>) {
        (self.is_open, self.is_welcome) = (false, false);
        self.aliases.clear();
        self.acknowledged.clear();
        self.plain.retain(|_, plain| {
            if plain.stage == Stage::Ending {
                context.oracle.keep_run(std::mem::take(&mut plain.run));
                return false;
            }
            plain.stage = Stage::Absent;
            plain.gap_due = None;
            if plain.is_snapshot || !plain.has_cursor {
                // Nothing is settled yet: it begins anew.
                plain.has_cursor = false;
                plain.is_snapshot = false;
                plain.run.seen.clear();
                plain.run.holes.clear();
            }
            true
        });
        self.wide.retain(|_, wide| {
            let ended = wide.stage == Stage::Ending;
            wide.stage = Stage::Absent;
            wide.run.seen.clear();
            wide.run.newest.clear();
            wide.run.skipped.clear();
            !ended
        });
        for (_, waiting) in std::mem::take(&mut self.requests) {
            match waiting {
                Waiting::Publication(id) if self.is_auditor => {
                    let topic = context.oracle.publications[id].topic;
                    self.todo.push_back(Todo::Marker(topic));
                }
                Waiting::History {
                    topic,
                    position,
                    audit: true,
                    ..
                } => self.todo.push_back(Todo::Audit(topic, position)),
                _ => {}
            }
        }
        self.peer.act_at_ms = context.now_ms + self.peer.random.between(1, 100);
    }

    fn next_number(&mut self) -> u32 {
        self.last_number += 1;
        self.last_number
    }

    fn act(&mut self, context: &mut Context<'_>) {
        if self.is_auditor {
            return self.audit(context);
        }
        let topics = context.plan.topics.len() as u64;
        let topic = self.peer.random.below(topics) as usize;
        match self.peer.random.below(100) {
            0..=29 => self.subscribe(context, topic),
            30..=34 => self.subscribe_filter(context),
            35..=41 => self.unsubscribe(context),
            42..=47 => self.ask_history(context, topic),
            48..=50 => self.frame(&ClientFrame::Ping(7)),
            _ => {
                for _ in 0..1 + self.peer.random.below(4) {
                    self.publish(context, topic);
                }
            }
        }
        self.peer.suffer(context);
    }

    fn audit(&mut self, context: &mut Context<'_>) {
        if context.phase == Phase::Active || self.requests.len() > 8 {
            return;
        }
        match self.todo.pop_front() {
            Some(Todo::Marker(topic)) => {
                let (id, payload) = context.oracle.publication(context.plan, topic, 0);
                self.send_publication(context, id, &payload, true, false);
            }
            Some(Todo::Audit(topic, position)) => {
                self.send_history(context, topic, false, position, true);
            }
            None => {}
        }
    }

    fn subscribe(&mut self, context: &mut Context<'_>, topic: usize) {
        let taken = self.plain.values().any(|plain| plain.run.topic == topic);
        if taken || self.plain.len() >= SUBSCRIPTIONS_MAX {
            return;
        }
        let number = self.next_number();
        let partition = context.plan.partition(topic);
        let floor = context.oracle.floor(partition);
        let since = |offset| {
            Start::Since(Position {
                epoch: EPOCH,
                offset,
            })
        };
        let random = &mut self.peer.random;
        let start = match random.below(10) {
            0..=2 => Start::Live,
            3 | 4 => since(random.between(0, floor)),
            5 | 6 => Start::Last([0, 1, 3, 50][random.below(4) as usize]),
            7 => Start::Snapshot,
            8 => since(floor + 1_000_000),
            _ => Start::Since(Position {
                epoch: EPOCH - 3,
                offset: random.below(100),
            }),
        };
        let credit = random.chance(0.3).then(|| random.between(1, 5) as u32);
        let fail_on_gap = random.chance(0.1);
        self.plain.insert(
            number,
            Plain {
                run: Run {
                    client: self.peer.id,
                    topic,
                    ..Run::default()
                },
                stage: Stage::Absent,
                start,
                fail_on_gap,
                credit,
                has_cursor: false,
                gap_due: None,
                is_snapshot: false,
                has_begun: false,
            },
        );
        self.ask_plain(context, number);
    }

    /// Asks for a subscription, for the first time or from its cursor.
    fn ask_plain(&mut self, context: &mut Context<'_>, number: u32) {
        let Some(plain) = self.plain.get_mut(&number) else {
            return;
        };
        let partition = context.plan.partition(plain.run.topic);
        let start = match plain.has_cursor {
            true => Start::Since(Position {
                epoch: EPOCH,
                offset: plain.run.cursor,
            }),
            false => plain.start,
        };
        plain.stage = Stage::Asked;
        plain.has_begun = false;
        if !plain.has_cursor {
            let floor = context.oracle.floor(partition);
            plain.run.wanted_newest = match start {
                Start::Last(count) => Some((count as usize, floor)),
                _ => None,
            };
        }
        let topic = &context.plan.topics[plain.run.topic];
        let item = SubscribeItem::new(
            number,
            SubscribeRequest {
                fail_on_gap: plain.fail_on_gap,
                replay_credit: plain.credit,
                ..SubscribeRequest::new(topic, start)
            },
        );
        let credit = plain.credit;
        context.oracle.note(self.peer.id, || {
            format!("subscribes {number} to {topic} from {start:?}, credit {credit:?}")
        });
        self.frame(&ClientFrame::Subscribe(Subscribe {
            items: (&[item]).into(),
        }));
    }

    fn subscribe_filter(&mut self, context: &mut Context<'_>) {
        let filter = self.peer.random.below(context.plan.filters.len() as u64) as usize;
        if self.wide.values().any(|wide| wide.run.filter == filter) {
            return;
        }
        let number = self.next_number();
        let run = FilterRun {
            client: self.peer.id,
            filter,
            ..FilterRun::default()
        };
        self.wide.insert(
            number,
            Wide {
                run,
                stage: Stage::Absent,
            },
        );
        self.ask_wide(context, number);
    }

    fn ask_wide(&mut self, context: &mut Context<'_>, number: u32) {
        let Some(wide) = self.wide.get_mut(&number) else {
            return;
        };
        wide.stage = Stage::Asked;
        let filter = &context.plan.filters[wide.run.filter];
        context.oracle.note(self.peer.id, || {
            format!("subscribes {number} to filter {filter}")
        });
        let item = SubscribeItem::new(number, SubscribeRequest::new(filter, Start::Live));
        self.frame(&ClientFrame::Subscribe(Subscribe {
            items: (&[item]).into(),
        }));
    }

    fn unsubscribe(&mut self, context: &mut Context<'_>) {
        let live = |stage: Stage| matches!(stage, Stage::Live | Stage::Replaying);
        let plain = self
            .plain
            .iter()
            .filter(|(_, plain)| live(plain.stage))
            .map(|(number, _)| *number);
        let wide = self
            .wide
            .iter()
            .filter(|(_, wide)| live(wide.stage))
            .map(|(number, _)| *number);
        let numbers: Vec<u32> = plain.chain(wide).collect();
        if numbers.is_empty() {
            return;
        }
        let number = numbers[self.peer.random.below(numbers.len() as u64) as usize];
        if let Some(plain) = self.plain.get_mut(&number) {
            plain.stage = Stage::Ending;
        }
        if let Some(wide) = self.wide.get_mut(&number) {
            wide.stage = Stage::Ending;
        }
        context
            .oracle
            .note(self.peer.id, || format!("unsubscribes {number}"));
        self.frame(&ClientFrame::Unsubscribe(Unsubscribe {
            subscriptions: (&[number]).into(),
        }));
    }

    fn ask_history(&mut self, context: &mut Context<'_>, topic: usize) {
        let floor = context.oracle.floor(context.plan.partition(topic));
        let random = &mut self.peer.random;
        let reverse = random.chance(0.5);
        let position = random.chance(0.6).then(|| random.between(1, floor.max(1)));
        self.send_history(context, topic, reverse, position, false);
    }

    fn send_history(
        &mut self,
        context: &mut Context<'_>,
        topic: usize,
        reverse: bool,
        position: Option<u64>,
        audit: bool,
    ) {
        let request = self.next_number();
        let records_max = if audit {
            0
        } else {
            self.peer.random.below(6) as u32
        };
        context.oracle.note(self.peer.id, || {
            format!("asks {request} for history of topic {topic}, reverse {reverse}, beyond {position:?}")
        });
        self.frame(&ClientFrame::History(History {
            request,
            topic: &context.plan.topics[topic],
            reverse,
            position: position.map(|offset| Position {
                epoch: EPOCH,
                offset,
            }),
            records_max,
            bytes_max: 0,
        }));
        self.requests.insert(
            request,
            Waiting::History {
                topic,
                reverse,
                position,
                audit,
                asked_at: context.oracle.moment,
            },
        );
    }

    fn publish(&mut self, context: &mut Context<'_>, topic: usize) {
        let padding = draw_padding(&mut self.peer.random, context.plan);
        let (id, payload) = context.oracle.publication(context.plan, topic, padding);
        let acknowledge = self.peer.random.chance(0.8);
        let retain = self.peer.random.chance(context.plan.retain);
        self.send_publication(context, id, &payload, acknowledge, retain);
    }

    fn send_publication(
        &mut self,
        context: &mut Context<'_>,
        id: usize,
        payload: &[u8],
        acknowledge: bool,
        retain: bool,
    ) {
        let request = if acknowledge { self.next_number() } else { 0 };
        let topic = &context.plan.topics[context.oracle.publications[id].topic];
        let tags = [Tag {
            key: "id",
            value: "x",
        }];
        let attributes = if self.peer.random.chance(0.1) {
            Attributes {
                content_type: Some("text/plain"),
                tags: tags.as_slice().into(),
            }
        } else {
            Attributes::default()
        };
        let mut bytes = Vec::new();
        encode_publish_head(request, topic, retain, &attributes, &mut bytes);
        bytes.extend_from_slice(payload);
        context.oracle.note(self.peer.id, || {
            format!(
                "publishes {id} to {topic} as request {request}, {} bytes",
                payload.len()
            )
        });
        self.binary(&bytes);
        if acknowledge {
            self.requests.insert(request, Waiting::Publication(id));
        }
    }

    /// Takes what has come apart. False when the connection is over.
    fn understand(&mut self, context: &mut Context<'_>) -> bool {
        let mut input = std::mem::take(&mut self.peer.input);
        let mut consumed = 0;
        let mut goes_on = true;
        if !self.is_open {
            match Response::decode(&input, &mut self.scan, &HeadLimits::default(), "GET") {
                Ok(Step::Done {
                    value,
                    consumed: head,
                }) => {
                    if let Err(refusal) = self.handshake().check_response(&value) {
                        context
                            .oracle
                            .fail(self.peer.id, format!("handshake refused: {refusal}"));
                        return false;
                    }
                    self.is_open = true;
                    consumed = head;
                }
                Ok(Step::More { .. }) => {}
                Err(error) => {
                    context
                        .oracle
                        .fail(self.peer.id, format!("answer to the handshake: {error}"));
                    return false;
                }
            }
        }
        let mut assembly = std::mem::take(&mut self.assembly);
        while self.is_open && goes_on && consumed < input.len() {
            let step = self.assembler.decode(
                &mut input[consumed..],
                Role::Client,
                MESSAGE_BYTES_MAX,
                &mut assembly,
            );
            match step {
                Ok(Step::More { .. }) => break,
                Ok(Step::Done {
                    value,
                    consumed: taken,
                }) => {
                    consumed += taken;
                    goes_on = self.on_event(context, value);
                }
                Err(error) => {
                    context
                        .oracle
                        .fail(self.peer.id, format!("not WebSocket: {error}"));
                    goes_on = false;
                }
            }
        }
        self.assembly = assembly;
        input.drain(..consumed);
        self.peer.input = input;
        goes_on
    }

    fn on_event(&mut self, context: &mut Context<'_>, event: Event<'_>) -> bool {
        match event {
            Event::Binary(bytes) => match ServerFrame::decode(bytes) {
                Ok(frame) => {
                    context
                        .oracle
                        .note(self.peer.id, || format!("<- {}", short(&frame)));
                    self.on_frame(context, frame);
                    true
                }
                Err(error) => {
                    context
                        .oracle
                        .fail(self.peer.id, format!("not a frame: {error}"));
                    false
                }
            },
            Event::Close(close) => {
                let code = close.code.map_or(1005, |code| code.0);
                context
                    .oracle
                    .note(self.peer.id, || format!("<- close {code}"));
                if !client::session::close_code_reconnects(u32::from(code)) {
                    context.oracle.fail(
                        self.peer.id,
                        format!("closed with {code}: {}", close.reason),
                    );
                }
                false
            }
            _ => true,
        }
    }

    fn on_frame(&mut self, context: &mut Context<'_>, frame: ServerFrame<'_>) {
        let id = self.peer.id;
        if !self.is_welcome && !matches!(frame, ServerFrame::Welcome(_)) {
            return context
                .oracle
                .fail(id, format!("before WELCOME: {}", short(&frame)));
        }
        match frame {
            ServerFrame::Welcome(_) => self.is_welcome = true,
            ServerFrame::Subscribed(subscribed) => self.on_subscribed(context, subscribed),
            ServerFrame::Unsubscribed(frame) => {
                if frame.code != 0 {
                    context
                        .oracle
                        .fail(id, format!("unsubscribed with {}", frame.code));
                }
                if let Some(plain) = self.plain.remove(&frame.subscription) {
                    self.aliases
                        .retain(|_, number| *number != frame.subscription);
                    context.oracle.keep_run(plain.run);
                } else if self.wide.remove(&frame.subscription).is_none() {
                    context
                        .oracle
                        .fail(id, format!("UNSUBSCRIBED for {}", frame.subscription));
                }
            }
            ServerFrame::Message(message) => {
                let Some(number) = self.aliases.get(&message.alias) else {
                    return context.oracle.fail(
                        id,
                        format!("message for alias {}, which is nobody's", message.alias),
                    );
                };
                let Some(plain) = self.plain.get_mut(number) else {
                    return;
                };
                let topic = plain.run.topic;
                let (offset, prev) = (message.offset, message.prev);
                if !context.oracle.delivered(
                    context.plan,
                    id,
                    topic,
                    offset,
                    Some(prev),
                    message.payload,
                ) {
                    return;
                }
                if !plain.has_cursor
                    && message.retained == Retained::Yes
                    && !plain.has_begun
                    && plain.start == Start::Snapshot
                {
                    plain.is_snapshot = true;
                }
                if let Err(text) = plain.on_message(offset, prev) {
                    let topic = &context.plan.topics[topic];
                    context
                        .oracle
                        .fail(id, format!("subscription {number} to {topic}: {text}"));
                }
                if let Some(credit) = plain.credit
                    && plain.stage == Stage::Replaying
                {
                    let (number, messages) = (
                        *number,
                        self.peer.random.between(0, u64::from(credit) * 2) as u32,
                    );
                    self.frame(&ClientFrame::Credit(Credit {
                        subscription: number,
                        messages: messages.max(1),
                    }));
                }
            }
            ServerFrame::NamedMessage(message) => {
                let Some(topic) = context.plan.topic(message.topic) else {
                    return context
                        .oracle
                        .fail(id, format!("unknown topic {}", message.topic));
                };
                let offset = message.position.offset;
                let prev = Some(message.prev);
                if context
                    .oracle
                    .delivered(context.plan, id, topic, offset, prev, message.payload)
                {
                    self.on_named(context, topic, offset);
                }
            }
            ServerFrame::CaughtUp(frame) => {
                if let Some(plain) = self.plain.get_mut(&frame.subscription)
                    && let Err(text) = plain.on_caught_up(frame.through)
                {
                    context
                        .oracle
                        .fail(id, format!("subscription {}: {text}", frame.subscription));
                }
            }
            ServerFrame::Gap(gap) => {
                if let Some(plain) = self.plain.get_mut(&gap.subscription) {
                    let hole = Hole {
                        from: gap.from,
                        to: gap.to,
                        reason: gap.reason.number(),
                        told_at: context.oracle.moment,
                    };
                    let result = match gap.epoch {
                        EPOCH => plain.on_gap(hole),
                        other => Err(format!("GAP names epoch {other}")),
                    };
                    if let Err(text) = result {
                        context
                            .oracle
                            .fail(id, format!("subscription {}: {text}", gap.subscription));
                    }
                }
            }
            ServerFrame::Skipped(skipped) => {
                match (self.wide.get_mut(&skipped.subscription), skipped.partition) {
                    (Some(wide), Some(partition)) => {
                        wide.run
                            .skipped
                            .push((partition.partition, skipped.from, skipped.through));
                    }
                    _ => context
                        .oracle
                        .fail(id, format!("SKIPPED for {}", skipped.subscription)),
                }
            }
            ServerFrame::Published(published) => {
                let Some(Waiting::Publication(publication)) =
                    self.requests.remove(&published.request)
                else {
                    return context
                        .oracle
                        .fail(id, format!("PUBLISHED for request {}", published.request));
                };
                let Position { epoch, offset } = published.position;
                context
                    .oracle
                    .acknowledged(context.plan, id, publication, epoch, offset);
                let topic = context.oracle.publications[publication].topic;
                let partition = context.plan.partition(topic);
                let newest = self.acknowledged.entry(partition).or_default();
                if newest.0 > published.request || newest.1 >= offset {
                    let (request, before) = *newest;
                    context.oracle.fail(
                        id,
                        format!(
                            "request {} stands at {offset}, after request {request} at {before}",
                            published.request
                        ),
                    );
                }
                *newest = (published.request, offset);
                if self.has_visited {
                    context.oracle.visited += 1;
                } else if self.is_auditor {
                    context.oracle.markers.insert(topic, offset);
                    self.todo.push_back(Todo::Audit(topic, None));
                }
            }
            ServerFrame::HistoryPage(page) => self.on_history(context, &page),
            ServerFrame::Error(error) => self.on_error(context, &error),
            ServerFrame::Ping(token) => self.frame(&ClientFrame::Pong(token)),
            ServerFrame::GoAway(_) => context.oracle.fail(id, "GO_AWAY without a drain".into()),
            ServerFrame::Pong(_) => {}
        }
    }

    fn on_subscribed(&mut self, context: &mut Context<'_>, subscribed: Subscribed) {
        let number = subscribed.subscription;
        if let Some(wide) = self.wide.get_mut(&number) {
            if wide.stage == Stage::Asked {
                wide.stage = Stage::Live;
            }
            wide.run.since = context.oracle.tick();
            return;
        }
        let Some(plain) = self.plain.get_mut(&number) else {
            return context
                .oracle
                .fail(self.peer.id, format!("SUBSCRIBED for {number}"));
        };
        let Some(topic) = subscribed.plain else {
            return context.oracle.fail(
                self.peer.id,
                format!("SUBSCRIBED for {number} without a topic"),
            );
        };
        if topic.through.epoch != EPOCH {
            let text = format!("SUBSCRIBED names epoch {}", topic.through.epoch);
            return context.oracle.fail(self.peer.id, text);
        }
        self.aliases.retain(|_, other| *other != number);
        self.aliases.insert(topic.alias, number);
        if let Err(text) = plain.on_subscribed(topic.through.offset, subscribed.replaying) {
            context
                .oracle
                .fail(self.peer.id, format!("subscription {number}: {text}"));
        }
    }

    fn on_named(&mut self, context: &mut Context<'_>, topic: usize, offset: u64) {
        let name = &context.plan.topics[topic];
        let mut was_wanted = false;
        for wide in self.wide.values_mut() {
            if !matches(&context.plan.filters[wide.run.filter], name) {
                continue;
            }
            was_wanted = true;
            let newest = wide.run.newest.entry(topic).or_default();
            if *newest >= offset {
                let text = format!("by filter: {offset} of {name} after {newest}");
                context.oracle.fail(self.peer.id, text);
            }
            *newest = offset;
            wide.run.seen.insert((topic, offset));
        }
        if !was_wanted {
            context
                .oracle
                .fail(self.peer.id, format!("no filter matches {name}"));
        }
    }

    fn on_history(&mut self, context: &mut Context<'_>, page: &HistoryPage<'_>) {
        let Some(Waiting::History {
            topic,
            reverse,
            position,
            audit,
            asked_at,
        }) = self.requests.remove(&page.request)
        else {
            return context
                .oracle
                .fail(self.peer.id, format!("HISTORY_PAGE for {}", page.request));
        };
        let id = self.peer.id;
        let fail = |oracle: &mut Oracle, text: String| {
            let name = &context.plan.topics[topic];
            oracle.fail(id, format!("history of {name}: {text}"));
        };
        if page.epoch != EPOCH || page.reverse != reverse {
            fail(
                context.oracle,
                format!("epoch {}, reverse {}", page.epoch, page.reverse),
            );
        }
        // Forward: everything up to here is settled. Reverse: the next one must be at least this.
        let mut settled = position.unwrap_or(0);
        let mut is_bound = position.is_some();
        if let Some(gap) = page.gap {
            settled = if reverse { settled } else { gap.to };
        }
        let mut last = None;
        for record in page.records {
            let (offset, prev) = (record.offset, record.prev);
            if !context.oracle.delivered(
                context.plan,
                id,
                topic,
                offset,
                Some(prev),
                record.payload,
            ) {
                return;
            }
            if reverse {
                if is_bound && offset >= settled {
                    fail(context.oracle, format!("{offset} is not before {settled}"));
                } else if last.is_some() && is_bound && offset < settled_prev(last) {
                    fail(
                        context.oracle,
                        format!("{offset} is not the one before {last:?}"),
                    );
                }
                settled = offset;
            } else {
                if is_bound && prev > settled {
                    fail(
                        context.oracle,
                        format!("{offset} has prev {prev}, but the one before is {settled}"),
                    );
                }
                if is_bound && offset <= settled {
                    fail(context.oracle, format!("{offset} is not after {settled}"));
                }
                settled = offset;
            }
            is_bound = true;
            last = Some((offset, prev));
        }
        if audit {
            let seen: Vec<u64> = page.records.iter().map(|record| record.offset).collect();
            let present = context.oracle.present.entry(topic).or_default();
            present.extend(seen.into_iter().map(|offset| (offset, asked_at)));
            if page.more {
                let position = last.map(|(offset, _)| offset).or(position);
                self.todo.push_back(Todo::Audit(topic, position));
            }
        } else if page.more && page.records.is_empty() {
            fail(context.oracle, "no records, and more".into());
        }
    }

    fn on_error(&mut self, context: &mut Context<'_>, error: &ErrorFrame<'_>) {
        let id = self.peer.id;
        let codes = |codes: &[ErrorCode]| {
            codes
                .iter()
                .any(|code| u32::from(code.number()) == error.code)
        };
        let is_bound = codes(&[
            ErrorCode::MemoryFull,
            ErrorCode::LogFull,
            ErrorCode::RetainedFull,
            ErrorCode::MessageTooLarge,
            ErrorCode::TopicsFull,
        ]);
        match error.reference {
            Reference::Request(request) => match self.requests.remove(&request) {
                Some(Waiting::Publication(publication)) if is_bound && !context.plan.lossless => {
                    context.oracle.refused(id, publication);
                }
                None if request == 0 && !context.plan.lossless => {}
                _ => context
                    .oracle
                    .fail(id, format!("request {request}: {}", error.message)),
            },
            Reference::Subscription(number) => {
                let Some(plain) = self.plain.get_mut(&number) else {
                    // CREDIT for what has ended in the meantime.
                    return;
                };
                match error.restart {
                    Some(restart)
                        if codes(&[ErrorCode::PositionUnavailable]) && plain.fail_on_gap =>
                    {
                        let from = if plain.has_cursor {
                            plain.run.cursor
                        } else {
                            0
                        };
                        plain.refused_from(from, restart.offset);
                        self.ask_plain(context, number);
                    }
                    _ if is_bound && !context.plan.lossless => {
                        if let Some(plain) = self.plain.remove(&number) {
                            context.oracle.keep_run(plain.run);
                        }
                    }
                    _ => context
                        .oracle
                        .fail(id, format!("subscription {number}: {}", error.message)),
                }
            }
            Reference::Connection => context
                .oracle
                .fail(id, format!("connection: {}", error.message)),
        }
    }
}

fn settled_prev(last: Option<(u64, u64)>) -> u64 {
    last.map_or(0, |(_, prev)| prev)
}

impl Plain {
    fn on_subscribed(&mut self, through: u64, replaying: bool) -> Result<(), String> {
        if self.stage == Stage::Asked {
            self.stage = if replaying {
                Stage::Replaying
            } else {
                Stage::Live
            };
        }
        self.has_begun = false;
        if self.has_cursor {
            let cursor = self.run.cursor;
            if through < cursor {
                return Err(format!("asked from {cursor}, and it begins at {through}"));
            }
            self.gap_due = (replaying && through > cursor).then_some(through);
            return Ok(());
        }
        let (from, due) = match self.start {
            Start::Since(position) if position.epoch == EPOCH && position.offset < 1_000_000 => {
                let gap_due = (replaying && through > position.offset).then_some(through);
                (position.offset, gap_due)
            }
            Start::Since(_) => (0, Some(through)),
            _ => (through, None),
        };
        (self.run.from, self.run.cursor, self.gap_due) = (from, from, due);
        if self.start == Start::Live && replaying {
            return Err("a live start is replaying".into());
        }
        // A snapshot is settled only when it has been caught up.
        self.has_cursor = self.start != Start::Snapshot || !replaying;
        Ok(())
    }

    fn on_message(&mut self, offset: u64, prev: u64) -> Result<(), String> {
        let cursor = self.run.cursor;
        if offset <= cursor {
            return Err(format!(
                "{offset} was settled before: the cursor is {cursor}"
            ));
        }
        if prev > cursor {
            return Err(format!(
                "{offset} has prev {prev}, and the cursor is {cursor}: not announced"
            ));
        }
        if !self.is_snapshot && self.start == Start::Snapshot && !self.has_cursor {
            self.has_cursor = true;
        }
        self.has_begun = true;
        self.gap_due = None;
        self.run.cursor = offset;
        self.run.seen.push(offset);
        Ok(())
    }

    fn on_gap(&mut self, hole: Hole) -> Result<(), String> {
        let cursor = self.run.cursor;
        if hole.to < cursor {
            return Err(format!("{hole:?} ends before the cursor {cursor}"));
        }
        if hole.reason == 1 || hole.reason == 2 {
            let is_bad = match self.start {
                Start::Since(position) => position.epoch != EPOCH || position.offset >= 1_000_000,
                _ => false,
            };
            if !is_bad {
                return Err(format!(
                    "{hole:?} for a position that was given by the node"
                ));
            }
        }
        self.has_begun = true;
        self.gap_due = None;
        self.run.holes.push(Hole {
            // What lies before it is claimed to be settled, and judged as such.
            from: cursor.max(hole.from),
            ..hole
        });
        self.run.cursor = hole.to;
        Ok(())
    }

    fn on_caught_up(&mut self, through: u64) -> Result<(), String> {
        if let Some(due) = self.gap_due {
            return Err(format!("a gap up to {due} was due, and CAUGHT_UP came"));
        }
        if self.stage == Stage::Replaying {
            self.stage = Stage::Live;
        }
        if self.is_snapshot {
            // What lies behind the retained message was not asked for.
            self.is_snapshot = false;
            self.run.from = through;
            self.run.seen.clear();
        }
        self.has_cursor = true;
        self.run.cursor = self.run.cursor.max(through);
        Ok(())
    }

    /// `fail_on_gap`: the position was refused, and it goes on from where the node says.
    fn refused_from(&mut self, from: u64, restart: u64) {
        if !self.has_cursor {
            self.run.from = from;
        }
        if restart > from {
            self.run.holes.push(Hole {
                from,
                to: restart,
                reason: u8::MAX,
                told_at: 0,
            });
        }
        self.run.cursor = restart.max(from);
        self.has_cursor = true;
        self.fail_on_gap = false;
        self.stage = Stage::Absent;
    }
}

impl Client for NativeClient {
    fn step(&mut self, context: &mut Context<'_>) -> Option<u64> {
        let stays = self.is_auditor && context.phase != Phase::Over;
        if context.phase == Phase::Visiting && stays && !self.has_visited {
            // Interest by filter is given up when a topic is next compared with the filters that are left.
            self.has_visited = true;
            self.todo = (0..context.plan.topics.len()).map(Todo::Marker).collect();
        }
        if !stays
            && matches!(
                context.phase,
                Phase::Leaving | Phase::Visiting | Phase::Over
            )
        {
            if self.peer.is_connected() {
                let with_reset = self.peer.random.chance(0.3);
                self.peer.leave(context, with_reset);
            }
            return None;
        }
        let was_connected = self.peer.is_connected();
        if was_connected {
            let acts = context.phase == Phase::Active || self.is_auditor;
            if acts && context.now_ms >= self.peer.act_at_ms {
                let pace = if self.is_auditor {
                    0
                } else {
                    context.plan.pace_ms
                };
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
        if did_read && !self.understand(context) {
            self.peer.leave(context, false);
            self.lost(context);
        }
        if !self.peer.is_connected() {
            return Some(self.peer.act_at_ms.max(context.now_ms + 1));
        }
        let io = self.peer.next_step_ms(context, did_read);
        let acts = context.phase == Phase::Active || (self.is_auditor && !self.todo.is_empty());
        let act = acts.then_some(self.peer.act_at_ms.max(context.now_ms));
        [io, act].into_iter().flatten().min()
    }

    fn is_settled(&self, oracle: &Oracle) -> Result<(), String> {
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
            let marker = oracle.markers.get(&plain.run.topic).copied().unwrap_or(0);
            if plain.run.cursor < marker {
                return Err(format!(
                    "subscription {number} to topic {} is at {} and the last message at {marker}",
                    plain.run.topic, plain.run.cursor
                ));
            }
        }
        for (number, wide) in &self.wide {
            if wide.stage != Stage::Live {
                return Err(format!("filter {number} is {:?}", wide.stage));
            }
        }
        Ok(())
    }

    fn finish(&mut self, oracle: &mut Oracle) {
        for (_, plain) in std::mem::take(&mut self.plain) {
            oracle.keep_run(plain.run);
        }
        for (_, mut wide) in std::mem::take(&mut self.wide) {
            wide.run.is_live = wide.stage == Stage::Live;
            oracle.keep_filter_run(wide.run);
        }
    }
}

/// Padding of a payload: mostly little.
pub fn draw_padding(random: &mut Prng, plan: &Plan) -> usize {
    match random.chance(0.1) {
        true => random.below(plan.payload_bytes_max + 1) as usize,
        false => random.below(60) as usize,
    }
}

/// A frame without its payload.
fn short(frame: &ServerFrame<'_>) -> String {
    match frame {
        ServerFrame::Message(message) => format!(
            "MESSAGE alias {} offset {} prev {} {:?}, {} bytes",
            message.alias,
            message.offset,
            message.prev,
            message.retained,
            message.payload.len()
        ),
        ServerFrame::NamedMessage(message) => format!(
            "NAMED_MESSAGE {} offset {} prev {}",
            message.topic, message.position.offset, message.prev
        ),
        ServerFrame::HistoryPage(page) => {
            let offsets: Vec<u64> = page.records.iter().map(|record| record.offset).collect();
            format!(
                "HISTORY_PAGE {} gap {:?} more {} {offsets:?}",
                page.request, page.gap, page.more
            )
        }
        other => format!("{other:?}"),
    }
}
