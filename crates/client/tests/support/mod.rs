//! A node that is small enough to be obviously correct: one partition in a list, and one
//! conversation per connection.
//!
//! It uses the codecs only, so that the client is tested against the specification and not against
//! the server.
#![allow(dead_code)] // each test file uses a part

use std::collections::BTreeMap;

use wire::Step;
use wire::http::{HeadLimits, HeadScan, Request};
use wire::native::{
    Attributes, Beginning, CaughtUp, ClientFrame, EARLY_FRAME_PREFIX, ErrorCode, ErrorFrame, Gap,
    GapReason, GoAway, Hello, History, HistoryPage, HistoryRecord, List, Message, NamedMessage,
    Once, PartitionBeginning, PartitionPosition, PlainTopic, Policy, Position, Publish, Published,
    Reference, Renewed, Retained, ServerFrame, Start, Subscribed, SubscribedTo, TicketIssued,
    Unsubscribed, Welcome,
};
use wire::websocket::handshake::Upgrade;
use wire::websocket::{Assembler, Event, Opcode, Role, frame};

pub const EPOCH: u64 = 7;
/// The node's clock, which does not move.
pub const NODE_TIME_MS: u64 = 5_000_000;

/// One record of the only partition.
#[derive(Clone, Debug)]
pub struct Record {
    pub offset: u64,
    pub prev: u64,
    pub topic: String,
    pub payload: Vec<u8>,
}

/// The log.
#[derive(Clone, Debug)]
pub struct Node {
    pub epoch: u64,
    pub head: u64,
    pub records: Vec<Record>,
    /// The last evicted offset.
    pub evicted_through: u64,
    pub ping_interval_s: u32,
    /// Publishes are appended but not answered.
    pub is_mute: bool,
    /// Filters have positions.
    pub serves_filters: bool,
    /// Offsets by sequence, for each producer on each topic.
    pub producers: BTreeMap<(Vec<u8>, String), BTreeMap<u64, u64>>,
    /// The lifetime of issued tickets; None if none are issued.
    pub ticket_lifetime_s: Option<u32>,
    /// Subscriptions by number, with their topics or filters and cursors, for each ticket.
    pub tickets: BTreeMap<Vec<u8>, Vec<(u32, String, Position)>>,
    /// Offsets by key, for each topic.
    pub keys: BTreeMap<(Vec<u8>, String), u64>,
}

impl Default for Node {
    fn default() -> Node {
        Node {
            epoch: EPOCH,
            head: 0,
            records: Vec::new(),
            evicted_through: 0,
            ping_interval_s: 25,
            is_mute: false,
            serves_filters: true,
            producers: BTreeMap::new(),
            ticket_lifetime_s: None,
            tickets: BTreeMap::new(),
            keys: BTreeMap::new(),
        }
    }
}

impl Node {
    /// Appends a record and returns it. Offsets are not contiguous, as other topics share the
    /// partition.
    pub fn publish(&mut self, topic: &str, payload: &[u8]) -> Record {
        let prev = self
            .records
            .iter()
            .rev()
            .find(|record| record.topic == topic)
            .map_or(self.evicted_through, |record| record.offset);
        self.head += 3;
        let record =
            Record { offset: self.head, prev, topic: topic.to_owned(), payload: payload.to_vec() };
        self.records.push(record.clone());
        record
    }

    /// Evicts everything up to `offset`.
    pub fn evict(&mut self, offset: u64) {
        self.records.retain(|record| record.offset > offset);
        self.evicted_through = self.evicted_through.max(offset);
    }
}

/// The node's state of one connection.
#[derive(Default)]
pub struct Conversation {
    is_upgraded: bool,
    input: Vec<u8>,
    aliases: BTreeMap<String, (u32, u32)>,
    filters: Vec<(u32, String)>,
    assembler: Assembler,
    /// WebSocket frames to the client, one by one.
    pub out: Vec<Vec<u8>>,
    /// The close code of the client.
    pub closed: Option<u16>,
    pub pongs: Vec<u64>,
    /// The requested policy of each subscription.
    pub policies: Vec<Option<Policy>>,
    /// The number of cursors that came with the ticket.
    pub cursors: Option<usize>,
    /// The tokens in HELLO and RENEW.
    pub tokens: Vec<String>,
}

/// Passes bytes until both sides are idle.
pub fn exchange_all(
    session: &mut client::session::Session,
    conversation: &mut Conversation,
    node: &mut Node,
    now_ms: u64,
) {
    loop {
        let output = session.output().to_vec();
        session.written(output.len());
        conversation.receive(&output, node);
        let mut input = conversation.out.drain(..).collect::<Vec<_>>().concat();
        if input.is_empty() {
            return;
        }
        session.receive(&mut input, now_ms).expect("a good connection");
    }
}

impl Conversation {
    pub fn receive(&mut self, bytes: &[u8], node: &mut Node) {
        self.input.extend_from_slice(bytes);
        if !self.is_upgraded {
            let mut scan = HeadScan::new();
            let step = Request::decode(&self.input, &mut scan, &HeadLimits::default());
            let Step::Done { value: request, consumed } = step.expect("a valid head") else {
                return;
            };
            let upgrade = Upgrade::check(&request).expect("an upgrade");
            let chosen = upgrade.choose_subprotocol(&["crore.v1"]).expect("offered");
            let mut head = Vec::new();
            upgrade.encode_response(&mut head, Some(chosen));
            self.out.push(head);
            let early = upgrade.early_messages(EARLY_FRAME_PREFIX, Opcode::Binary);
            let early = early.expect("frames that can be read");
            self.input.splice(..consumed, early);
            self.is_upgraded = true;
        }
        let mut input = std::mem::take(&mut self.input);
        let mut consumed = 0;
        let mut assembly = Vec::new();
        loop {
            let mut assembler = self.assembler;
            let step = assembler
                .decode(&mut input[consumed..], Role::Server, 1 << 24, &mut assembly)
                .expect("frames");
            let Step::Done { value, consumed: bytes } = step else {
                break;
            };
            consumed += bytes;
            match value {
                Event::Binary(payload) => {
                    let payload = payload.to_vec();
                    self.frame(&ClientFrame::decode(&payload).expect("a frame"), node);
                }
                Event::Close(close) => self.closed = Some(close.code.map_or(1005, |code| code.0)),
                _ => {}
            }
            if consumed == input.len() {
                break;
            }
        }
        self.input = input.split_off(consumed);
    }

    fn frame(&mut self, frame: &ClientFrame<'_>, node: &mut Node) {
        match frame {
            ClientFrame::Hello(hello) => self.welcome(hello, node),
            ClientFrame::Subscribe(subscribe) => {
                for item in subscribe.items {
                    let request = item.request.expect("a valid item");
                    self.policies.push(request.policy);
                    if request.filter == "gone" && self.aliases.contains_key(request.filter) {
                        let reference = Reference::Subscription(item.subscription);
                        let error = ErrorFrame::new(reference, ErrorCode::AlreadySubscribed);
                        self.send(&ServerFrame::Error(error));
                        continue;
                    }
                    self.subscribe(item.subscription, request.filter, request.start, node);
                }
            }
            ClientFrame::Unsubscribe(unsubscribe) => {
                for subscription in unsubscribe.subscriptions {
                    self.aliases.retain(|_, (number, _)| *number != subscription);
                    self.filters.retain(|(number, _)| *number != subscription);
                    self.send(&ServerFrame::Unsubscribed(Unsubscribed { subscription, code: 0 }));
                }
            }
            ClientFrame::Publish(publish) if publish.topic == "forbidden" => {
                let reference = Reference::Request(publish.request);
                self.send(&ServerFrame::Error(ErrorFrame::new(reference, ErrorCode::Forbidden)));
            }
            ClientFrame::Publish(publish) => self.publish(publish, node),
            ClientFrame::History(history) => self.history(history, node),
            ClientFrame::Ping(token) => self.send(&ServerFrame::Pong(*token)),
            ClientFrame::Pong(token) => self.pongs.push(*token),
            ClientFrame::Ticket(request) => self.issue(*request, node),
            ClientFrame::Renew(renew) => self.renew(renew.request, renew.token),
            ClientFrame::Credit(_) => {}
        }
    }

    fn publish(&mut self, publish: &Publish<'_>, node: &mut Node) {
        if let Some(Once::Key(key)) = publish.options.once {
            let key = (key.to_vec(), publish.topic.to_owned());
            if let Some(offset) = node.keys.get(&key) {
                let position = Position { epoch: node.epoch, offset: *offset };
                return self.send(&ServerFrame::Published(Published {
                    request: publish.request,
                    position,
                    duplicate: true,
                }));
            }
            node.keys.insert(key, node.head + 3);
        }
        if let Some(Once::Producer(producer)) = publish.options.once {
            let key = (producer.id.to_vec(), publish.topic.to_owned());
            let known = node.producers.entry(key).or_default();
            if let Some(offset) = known.get(&producer.sequence) {
                let position = Position { epoch: node.epoch, offset: *offset };
                return self.send(&ServerFrame::Published(Published {
                    request: publish.request,
                    position,
                    duplicate: true,
                }));
            }
            if known.last_key_value().map(|(last, _)| *last) > Some(producer.sequence) {
                let reference = Reference::Request(publish.request);
                let code = ErrorCode::OutOfOrder;
                return self.send(&ServerFrame::Error(ErrorFrame::new(reference, code)));
            }
            // The offset of the next record.
            known.insert(producer.sequence, node.head + 3);
        }
        let record = node.publish(publish.topic, publish.payload);
        if publish.request != 0 && !node.is_mute {
            self.send(&ServerFrame::Published(Published {
                request: publish.request,
                position: Position { epoch: node.epoch, offset: record.offset },
                duplicate: false,
            }));
        }
        self.deliver(&record, node);
    }

    fn history(&mut self, history: &History<'_>, node: &Node) {
        let records: Vec<HistoryRecord<'_>> = node
            .records
            .iter()
            .filter(|record| record.topic == history.topic)
            .map(|record| HistoryRecord {
                offset: record.offset,
                prev: record.prev,
                time_ms: 5,
                retained: Retained::No,
                attributes: Attributes::default(),
                payload: &record.payload,
            })
            .collect();
        self.send(&ServerFrame::HistoryPage(HistoryPage {
            request: history.request,
            epoch: node.epoch,
            head: node.head,
            more: false,
            reverse: false,
            gap: None,
            records: records.as_slice().into(),
        }));
    }

    /// Accepts any token that does not begin with `bad`, for a minute.
    fn renew(&mut self, request: u32, token: &str) {
        if token.starts_with("bad") {
            let reference = Reference::Request(request);
            let error = ErrorFrame::new(reference, ErrorCode::Unauthorized);
            return self.send(&ServerFrame::Error(error));
        }
        self.tokens.push(token.to_owned());
        self.send(&ServerFrame::Renewed(Renewed { request, expires_ms: NODE_TIME_MS + 60_000 }));
    }

    fn subscribe(&mut self, subscription: u32, filter: &str, start: Start<'_>, node: &Node) {
        if filter == "forbidden" {
            let reference = Reference::Subscription(subscription);
            return self
                .send(&ServerFrame::Error(ErrorFrame::new(reference, ErrorCode::Forbidden)));
        }
        if filter.contains(['+', '#']) {
            return self.subscribe_filter(subscription, filter, start, node);
        }
        let alias = self.aliases.len() as u32 + 1;
        self.aliases.insert(filter.to_owned(), (subscription, alias));
        let of_topic: Vec<&Record> =
            node.records.iter().filter(|record| record.topic == filter).collect();
        let (through, gap) = match start {
            Start::Live | Start::SinceEach(_) => (node.head, None),
            Start::Since(position) if position.epoch != node.epoch => {
                (node.evicted_through, Some(GapReason::UnknownEpoch))
            }
            Start::Since(position) if position.offset < node.evicted_through => {
                (node.evicted_through, Some(GapReason::Evicted))
            }
            Start::Since(position) => (position.offset, None),
            Start::Last(count) => {
                let first = of_topic.len().saturating_sub(count as usize);
                (of_topic.get(first).map_or(node.head, |record| record.offset - 1), None)
            }
            Start::Snapshot => {
                (of_topic.last().map_or(node.head, |record| record.offset - 1), None)
            }
        };
        let replaying = start != Start::Live;
        let through = Position { epoch: node.epoch, offset: through };
        let beginning = Beginning {
            through,
            replaying,
            continued: matches!(start, Start::Since(_)) && gap.is_none(),
        };
        let to = SubscribedTo::Topic(PlainTopic { alias, beginning });
        self.send(&ServerFrame::Subscribed(Subscribed { subscription, to }));
        if let Some(reason) = gap {
            let from = match start {
                Start::Since(position) if position.epoch == node.epoch => position.offset,
                _ => 0,
            };
            let (epoch, to) = (node.epoch, through.offset);
            self.send(&ServerFrame::Gap(Gap {
                subscription,
                partition: None,
                epoch,
                from,
                to,
                reason,
            }));
        }
        if replaying {
            for record in of_topic {
                if record.offset > through.offset {
                    self.send_message(alias, record);
                }
            }
            let through = node.head;
            self.send(&ServerFrame::CaughtUp(CaughtUp {
                subscription,
                partition: None,
                through,
                lineage: None,
            }));
        }
    }

    fn welcome(&mut self, hello: &Hello<'_>, node: &Node) {
        let ticket = hello.ticket.map(|ticket| node.tickets.get(ticket));
        let held = ticket.flatten();
        self.tokens.extend(hello.token.map(str::to_owned));
        self.cursors = hello.ticket.map(|_| hello.cursors.len());
        self.send(&ServerFrame::Welcome(Welcome {
            connection: 1,
            ping_interval_s: if hello.ping_interval_s > 0 {
                hello.ping_interval_s
            } else {
                node.ping_interval_s
            },
            time_ms: NODE_TIME_MS,
            frame_bytes_max: 1 << 20,
            message_bytes_max: 1 << 16,
            subscriptions_per_session_max: 100,
            node: Some("fake"),
            resumed: held.map(|held| held.len() as u32),
            ticket_lifetime_s: node.ticket_lifetime_s,
        }));
        match (ticket, held) {
            (_, Some(held)) => {
                for (number, filter, cursor) in held.clone() {
                    let own = hello.cursors.iter().find(|it| it.subscription == number);
                    let is_newer =
                        |own: &Position| own.epoch != cursor.epoch || own.offset > cursor.offset;
                    let own = own.map(|own| own.position).filter(is_newer);
                    let position = own.unwrap_or(cursor);
                    let partition = 0;
                    let each = [PartitionPosition { partition, position }];
                    let start = if filter.contains(['+', '#']) {
                        Start::SinceEach((&each).into())
                    } else {
                        Start::Since(position)
                    };
                    self.subscribe(number, &filter, start, node);
                }
            }
            (Some(_), None) => {
                let error = ErrorFrame::new(Reference::Connection, ErrorCode::TicketRefused);
                self.send(&ServerFrame::Error(error));
            }
            (None, None) => {}
        }
    }

    /// A ticket with this connection's subscriptions; the head is the cursor of each.
    pub fn ticket(&self, node: &mut Node) -> Vec<u8> {
        let position = Position { epoch: node.epoch, offset: node.head };
        let topics = self.aliases.iter();
        let topics = topics.map(|(topic, (number, _))| (*number, topic.clone(), position));
        let filters = self.filters.iter();
        let filters = filters.map(|(number, filter)| (*number, filter.clone(), position));
        let ticket = format!("ticket {}", node.tickets.len()).into_bytes();
        let held = topics.chain(filters).collect();
        node.tickets.insert(ticket.clone(), held);
        ticket
    }

    fn issue(&mut self, request: u32, node: &mut Node) {
        let Some(lifetime_s) = node.ticket_lifetime_s else {
            let reference = Reference::Request(request);
            let error = ErrorFrame::new(reference, ErrorCode::UnsupportedFrame);
            return self.send(&ServerFrame::Error(error));
        };
        let ticket = self.ticket(node);
        self.send(&ServerFrame::TicketIssued(TicketIssued {
            request,
            expires_ms: 5_000_000 + u64::from(lifetime_s) * 1_000,
            ticket: &ticket,
        }));
    }

    /// The node has one partition, number 0.
    fn subscribe_filter(&mut self, subscription: u32, filter: &str, start: Start<'_>, node: &Node) {
        let asked = match start {
            Start::SinceEach(_) if !node.serves_filters => {
                let reference = Reference::Subscription(subscription);
                let error = ErrorFrame::new(reference, ErrorCode::UnsupportedStart);
                return self.send(&ServerFrame::Error(error));
            }
            Start::SinceEach(positions) if positions.iter().any(|at| at.partition > 0) => {
                let reference = Reference::Subscription(subscription);
                let error = ErrorFrame::new(reference, ErrorCode::PositionUnavailable);
                return self.send(&ServerFrame::Error(error));
            }
            Start::SinceEach(positions) => {
                positions.iter().find(|at| at.partition == 0).map(|at| at.position)
            }
            _ => None,
        };
        self.filters.push((subscription, filter.to_owned()));
        let gap = match asked {
            Some(at) if at.epoch != node.epoch => Some((0, GapReason::UnknownEpoch)),
            Some(at) if at.offset < node.evicted_through => Some((at.offset, GapReason::Evicted)),
            _ => None,
        };
        let offset = match (asked, gap) {
            (Some(_), Some(_)) => node.evicted_through,
            (Some(at), None) => at.offset,
            (None, _) => node.head,
        };
        let (epoch, replaying) = (node.epoch, asked.is_some());
        let partitions = [PartitionBeginning {
            partition: 0,
            beginning: Beginning {
                through: Position { epoch, offset },
                replaying,
                continued: replaying && gap.is_none(),
            },
        }];
        let to = if node.serves_filters {
            SubscribedTo::Filter((&partitions).into())
        } else {
            SubscribedTo::Filter(List::default())
        };
        self.send(&ServerFrame::Subscribed(Subscribed { subscription, to }));
        if let Some((from, reason)) = gap {
            self.send(&ServerFrame::Gap(Gap {
                subscription,
                partition: Some(0),
                epoch,
                from,
                to: offset,
                reason,
            }));
        }
        if !replaying {
            return;
        }
        for record in &node.records {
            if record.offset > offset && client::session::filter_matches(filter, &record.topic) {
                self.send_named(record, node, Some(subscription));
            }
        }
        self.send(&ServerFrame::CaughtUp(CaughtUp {
            subscription,
            partition: Some(0),
            through: node.head,
            lineage: None,
        }));
    }

    fn send_named(&mut self, record: &Record, node: &Node, subscription: Option<u32>) {
        self.send(&ServerFrame::NamedMessage(NamedMessage {
            topic: &record.topic,
            partition: 0,
            position: Position { epoch: node.epoch, offset: record.offset },
            prev: record.prev,
            retained: Retained::No,
            subscription,
            lineage: None,
            attributes: Attributes::default(),
            payload: &record.payload,
        }));
    }

    /// Delivers a record that was just published.
    pub fn deliver(&mut self, record: &Record, node: &Node) {
        if let Some((_, alias)) = self.aliases.get(&record.topic).copied() {
            self.send_message(alias, record);
        }
        let matches =
            |(_, filter): &(u32, String)| client::session::filter_matches(filter, &record.topic);
        if self.filters.iter().any(matches) {
            self.send_named(record, node, None);
        }
    }

    fn send_message(&mut self, alias: u32, record: &Record) {
        self.send(&ServerFrame::Message(Message {
            alias,
            offset: record.offset,
            prev: record.prev,
            retained: Retained::No,
            lineage: None,
            attributes: Attributes::default(),
            payload: &record.payload,
        }));
    }

    pub fn go_away(&mut self, return_after_ms: u64, urls: &[&str]) {
        self.go_away_with(return_after_ms, urls, None);
    }

    pub fn go_away_with(&mut self, return_after_ms: u64, urls: &[&str], ticket: Option<&[u8]>) {
        self.send(&ServerFrame::GoAway(GoAway {
            code: 3000,
            return_after_ms,
            urls: urls.into(),
            ticket,
        }));
    }

    pub fn send(&mut self, server_frame: &ServerFrame<'_>) {
        let mut payload = Vec::new();
        server_frame.encode(&mut payload);
        let mut bytes = Vec::new();
        frame::encode(&mut bytes, true, Opcode::Binary, &payload, None);
        self.out.push(bytes);
    }

    pub fn send_close(&mut self, code: u16) {
        let mut bytes = Vec::new();
        frame::encode(&mut bytes, true, Opcode::Close, &code.to_be_bytes(), None);
        self.out.push(bytes);
    }
}
