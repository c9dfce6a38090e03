//! The native protocol (`spec/protocol.md`): frames to commands, deliveries to frames.

use crate::edge::{
    Edge, Grant, LeftOut, Offer, Placement, Pressure, Protocol, Refusal, Wish, append_attributes,
    flag, retained,
};
use crate::entitlement::Action;
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{
    Appended, Gap, GapReason, HistoryPage, PageLimits, ProducerStamp, Publication, PublishRefusal,
    Reply, Start, ToHome,
};
use crate::position::Position;
use crate::settings::LagPolicy;
use crate::topic::{Filter, TopicName};
use log::RecordView;
use stdx::chunk::Slice;
use wire::native::{
    self, Attributes, Beginning, CaughtUp, ClientFrame, CloseCode, ErrorCode, ErrorFrame, GoAway,
    HistoryRecord, ItemError, List, Once, PageGap, PlainTopic, Published, Reference, ServerFrame,
    Subscribed, SubscribedTo, UnsubscribeCode, Unsubscribed, Welcome,
};
use wire::websocket::close::CloseCode as WebSocketClose;
use wire::websocket::frame::{Opcode, encode_header};

impl Edge {
    /// One native frame from a client.
    pub(crate) fn native_frame(&mut self, index: ConnIndex, bytes: &[u8]) {
        let frame = match ClientFrame::decode(bytes) {
            Ok(frame) => frame,
            Err(error) => {
                self.statistics.protocol_errors += 1;
                self.send_native(index, &ServerFrame::Error(ErrorFrame::of_frame(&error)));
                if error.closes() {
                    let code = match error.code() {
                        ErrorCode::UnsupportedVersion => CloseCode::UnsupportedVersion,
                        ErrorCode::UnsupportedFrame => CloseCode::UnsupportedFrame,
                        ErrorCode::UnsupportedOption => CloseCode::UnsupportedOption,
                        _ => CloseCode::ProtocolError,
                    };
                    self.close_native(index, code);
                }
                return;
            }
        };
        let is_first = self.connections.slots[index].protocol == Protocol::NativeStart;
        match frame {
            ClientFrame::Hello(hello) if is_first => {
                self.native_hello(index, &hello, bytes);
            }
            _ if is_first => {
                self.native_fail(index, ErrorCode::HelloRequired, CloseCode::HelloRequired)
            }
            ClientFrame::Hello(_) => {
                self.native_fail(index, ErrorCode::HelloRepeated, CloseCode::HelloRequired)
            }
            ClientFrame::Subscribe(subscribe) => {
                self.subscribe_items(index, subscribe.items.iter());
            }
            ClientFrame::Unsubscribe(unsubscribe) => {
                self.unsubscribe_items(index, unsubscribe.subscriptions.iter());
            }
            ClientFrame::Publish(publish) => self.native_publish(index, &publish),
            ClientFrame::History(history) => self.native_ask_history(index, &history),
            // For one that is not replaying, or not there any more, it means nothing.
            ClientFrame::Credit(credit) => {
                if let Some(subscription) = self.find_client(index, credit.subscription) {
                    self.add_replay_credit(subscription, credit.messages);
                }
            }
            ClientFrame::Ping(token) => {
                if self.take_ping(index) {
                    self.send_native(index, &ServerFrame::Pong(token));
                }
            }
            ClientFrame::Pong(_) => {}
            ClientFrame::Ticket(request) => self.want_ticket(index, request),
            ClientFrame::Renew(renew) => self.native_renew(index, renew.request, renew.token),
        }
    }

    fn native_hello(&mut self, index: ConnIndex, hello: &native::Hello<'_>, frame: &[u8]) {
        if self.identify(index, hello, frame) {
            self.native_welcome(index, hello);
        }
    }

    /// Begins the session of a client that is known by now.
    pub(super) fn native_welcome(&mut self, index: ConnIndex, hello: &native::Hello<'_>) {
        let ticket = hello.ticket.map(|bytes| self.open_ticket(index, bytes));
        let connection = self.connection_number(index);
        let limits = &self.settings.limits;
        let ping_interval_s = match (hello.ping_interval_s, limits.ping_interval_s) {
            (0, server_s) => server_s.min(u32::from(u16::MAX)),
            // Below a few seconds pings are load, not liveness; above, the stamp's arithmetic ends.
            (wanted_s, _) => wanted_s.clamp(PING_INTERVAL_MIN_S, u32::from(u16::MAX)),
        };
        let frame_bytes_max = match self.is_anonymous(index) {
            true => limits.frame_bytes_max.min(limits.anonymous_input_bytes_max),
            false => limits.frame_bytes_max,
        };
        let settings = self.settings.clone();
        let welcome = ServerFrame::Welcome(Welcome {
            connection,
            ping_interval_s,
            time_ms: self.now.unix_ms,
            frame_bytes_max: u64::from(frame_bytes_max),
            message_bytes_max: u64::from(self.payload_bytes_max(index)),
            subscriptions_per_session_max: self.subscriptions_max(index),
            node: Some(&settings.node_name)
                .filter(|name| !name.is_empty())
                .map(|name| name.as_str()),
            resumed: match &ticket {
                Some(Ok(ticket)) => Some(ticket.subscriptions.len() as u32),
                _ => None,
            },
            ticket_lifetime_s: settings.tickets.lifetime_s(),
        });
        self.connections.slots[index].protocol = Protocol::Native;
        self.set_ping_interval(index, ping_interval_s);
        self.count_handshake(index);
        self.stamp_hello(index);
        self.statistics.native_sessions += 1;
        self.session_began(index);
        self.send_native(index, &welcome);
        match ticket {
            None => {}
            Some(Ok(ticket)) => self.resume_ticket(index, &ticket, hello.cursors),
            Some(Err(_)) => {
                self.native_refuse(index, Reference::Connection, ErrorCode::TicketRefused);
            }
        }
    }

    pub(super) fn native_subscribe(
        &mut self,
        index: ConnIndex,
        client: u32,
        request: Result<native::SubscribeRequest<'_>, ItemError>,
    ) {
        let reference = Reference::Subscription(client);
        if self.connections.slots[index].is(flag::AWAY) {
            return self.native_refuse(index, reference, ErrorCode::ShuttingDown);
        }
        if let Err(code) = self.refuse_from(Pressure::Newcomers) {
            return self.native_refuse(index, reference, code);
        }
        let limit = self.subscriptions_max(index);
        let request = match request {
            Ok(request) => request,
            Err(error) => {
                let frame =
                    ErrorFrame { limit: error.limit(), ..ErrorFrame::new(reference, error.code()) };
                return self.send_native(index, &ServerFrame::Error(frame));
            }
        };
        if let Err(too_fast) = self.take_subscription(index) {
            let frame = ErrorFrame {
                limit: Some(too_fast.limit),
                ..ErrorFrame::new(reference, ErrorCode::RateLimited)
            };
            return self.send_native(index, &ServerFrame::Error(frame));
        }
        if self.connections.slots[index].subscriptions_count >= limit {
            self.statistics.turned_away.subscriptions_too_many += 1;
            let frame = ErrorFrame {
                limit: Some(u64::from(limit)),
                ..ErrorFrame::new(reference, ErrorCode::TooManySubscriptions)
            };
            return self.send_native(index, &ServerFrame::Error(frame));
        }
        // Only few sessions have many subscriptions; the others are searched at once.
        if self.find_client(index, client).is_some() {
            return self.native_refuse(index, reference, ErrorCode::AlreadySubscribed);
        }
        let Ok(filter) = Filter::parse(request.filter) else {
            return self.native_refuse(index, reference, ErrorCode::MalformedFilter);
        };
        if let Err(code) = self.permit(index, Action::Subscribe, filter) {
            let act = (Action::Subscribe, request.filter);
            return self.native_refuse_act(index, reference, act, code);
        }
        if !filter.is_plain() {
            return self.native_subscribe_filter(index, client, filter, &request);
        }
        let start = match request.start {
            native::Start::Live => Start::Live,
            native::Start::Since(position) => {
                Start::Since(Position { epoch: position.epoch, offset: position.offset })
            }
            native::Start::Last(count) => Start::Last(count),
            native::Start::Snapshot => Start::Snapshot,
            native::Start::SinceEach(_) => {
                return self.native_refuse(index, reference, ErrorCode::UnsupportedStart);
            }
        };
        let wish =
            Wish { start, fail_on_gap: request.fail_on_gap, policy: request.policy.map(policy_of) };
        let subscription = self.subscribe_plain(index, request.filter, client, wish);
        if let Some(credit) = request.replay_credit {
            self.set_replay_credit(subscription, credit);
        }
    }

    pub(super) fn native_unsubscribe(&mut self, index: ConnIndex, client: u32) {
        match self.find_client(index, client) {
            // It ended with GO_AWAY.
            None if self.connections.slots[index].is(flag::AWAY) => {}
            None => self.native_refuse(
                index,
                Reference::Subscription(client),
                ErrorCode::UnknownSubscription,
            ),
            Some(subscription) => {
                self.unsubscribe(subscription);
                let code = u32::from(UnsubscribeCode::Requested.number());
                self.send_native(
                    index,
                    &ServerFrame::Unsubscribed(Unsubscribed { subscription: client, code }),
                );
            }
        }
    }

    fn native_publish(&mut self, index: ConnIndex, publish: &native::Publish<'_>) {
        self.statistics.publishes += 1;
        let mut block = Vec::new();
        if !publish.attributes.is_empty() {
            publish.attributes.encode_block(&mut block);
        }
        let offer = Offer {
            topic: publish.topic,
            payload_bytes: publish.payload.len(),
            attributes_bytes: block.len(),
            retain: publish.options.retain,
        };
        let Placement { rule, partition } = match self.admit(index, offer) {
            Ok(placement) => placement,
            Err(fault) => {
                return self.native_not_admitted(index, Reference::Request(publish.request), fault);
            }
        };
        let (producer, idempotency_key) = match publish.options.once {
            None => (None, Slice::empty()),
            Some(Once::Key(key)) => (None, self.work.mail.copy(key)),
            Some(Once::Producer(native::Producer { id, sequence })) => {
                let stamp = ProducerStamp {
                    id: self.work.mail.copy(id),
                    sequence,
                    connection: self.producer_stamp(index),
                };
                (Some(stamp), Slice::empty())
            }
        };
        let publication = Publication {
            topic: self.work.mail.copy(publish.topic.as_bytes()),
            attributes: self.work.mail.copy(&block),
            payload: self.work.mail.copy(publish.payload),
            retain: publish.options.retain,
            producer,
            idempotency_key,
            expected_epoch: publish.options.expected_epoch,
        };
        // ToHome 0 is the one that waits for a refusal only.
        let reply =
            Some(Reply { connection: self.connections.slots.key(index), request: publish.request });
        let home = self.settings.home_of(partition);
        self.request(home, ToHome::Publish { partition, rule, reply, publication });
    }

    fn native_ask_history(&mut self, index: ConnIndex, history: &native::History<'_>) {
        let reference = Reference::Request(history.request);
        let Ok(topic) = TopicName::parse(history.topic) else {
            return self.native_refuse(index, reference, ErrorCode::MalformedTopic);
        };
        if let Err(code) = self.permit(index, Action::History, topic.into()) {
            let act = (Action::History, history.topic);
            return self.native_refuse_act(index, reference, act, code);
        }
        if let Err(code) = self.refuse_from(Pressure::Recoveries) {
            return self.native_refuse(index, reference, code);
        }
        let (rule, partition) = self.settings.locate(history.topic);
        let limits = &self.settings.limits;
        let or_server = |wanted: u32, server: u32| {
            if wanted == 0 { server } else { wanted.min(server) }
        };
        let limits = PageLimits {
            records_max: or_server(history.records_max, limits.page_records_max),
            bytes_max: or_server(history.bytes_max, limits.page_bytes),
        };
        let request = ToHome::History {
            partition,
            rule,
            topic: self.work.mail.copy(history.topic.as_bytes()),
            reply: Reply {
                connection: self.connections.slots.key(index),
                request: history.request,
            },
            beyond: history
                .position
                .map(|position| Position { epoch: position.epoch, offset: position.offset }),
            reverse: history.reverse,
            limits,
        };
        self.request(self.settings.home_of(partition), request);
    }

    pub(super) fn native_subscribed(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        grant: &Grant,
    ) {
        let client = self.subscription_client(subscription);
        let (home, topic) = self.subscription_topic(subscription);
        // A retained message stands before what is settled; CAUGHT_UP settles what lies between.
        let retained_prev = grant
            .retained
            .as_ref()
            .and_then(|record| RecordView::parse(record))
            .map(|view| view.prev());
        let offset = retained_prev.unwrap_or(grant.position.offset);
        let through = native::Position { epoch: grant.position.epoch, offset };
        let beginning = Beginning {
            through,
            replaying: grant.replaying || grant.retained.is_some(),
            continued: grant.continued,
        };
        let to = SubscribedTo::Topic(PlainTopic { alias: self.alias(home, topic), beginning });
        self.send_native(index, &ServerFrame::Subscribed(Subscribed { subscription: client, to }));
        if let Some(gap) = grant.gap {
            self.statistics.gaps += 1;
            let frame = self.gap_frame(subscription, gap);
            self.send_native(index, &ServerFrame::Gap(frame));
        }
        if let Some(record) = &grant.retained {
            self.deliver_retained(subscription, record);
            if !grant.replaying {
                let frame = CaughtUp {
                    subscription: client,
                    partition: None,
                    through: grant.position.offset,
                };
                self.send_native(index, &ServerFrame::CaughtUp(frame));
            }
        }
    }

    pub(super) fn native_refused(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        refusal: Refusal,
    ) {
        let client = self.subscription_client(subscription);
        let restart = refusal
            .restart
            .map(|position| native::Position { epoch: position.epoch, offset: position.offset });
        let frame = ErrorFrame {
            limit: refusal.limit,
            restart,
            ..ErrorFrame::new(Reference::Subscription(client), refusal.code)
        };
        self.send_native(index, &ServerFrame::Error(frame));
    }

    /// A gap that a page found.
    pub(super) fn native_gap(&mut self, index: ConnIndex, subscription: SubIndex, gap: Gap) {
        let frame = self.gap_frame(subscription, gap);
        let settled = (gap.from, gap.to);
        self.send_native_mark(index, subscription, settled, &ServerFrame::Gap(frame));
    }

    fn gap_frame(&self, subscription: SubIndex, gap: Gap) -> native::Gap {
        native::Gap {
            subscription: self.subscription_client(subscription),
            partition: None,
            epoch: self.subscription_epoch(subscription),
            from: gap.from,
            to: gap.to,
            reason: wire_reason(gap.reason),
        }
    }

    /// Messages that the subscription's policy left out.
    pub(super) fn native_left_out(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        left_out: LeftOut,
    ) {
        let LeftOut { from, through, reason } = left_out;
        let frame = native::Skipped {
            subscription: self.subscription_client(subscription),
            partition: None,
            from,
            through,
            reason,
        };
        let settled = (from, through);
        self.send_native_mark(index, subscription, settled, &ServerFrame::Skipped(frame));
    }

    pub(super) fn native_disconnected(&mut self, index: ConnIndex, subscription: SubIndex) {
        let frame = Unsubscribed {
            subscription: self.subscription_client(subscription),
            code: u32::from(UnsubscribeCode::SlowConsumer.number()),
        };
        self.send_native(index, &ServerFrame::Unsubscribed(frame));
    }

    pub(super) fn native_caught_up(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        told: u64,
        through: u64,
    ) {
        let frame = CaughtUp {
            subscription: self.subscription_client(subscription),
            partition: None,
            through,
        };
        let settled = (told, through);
        self.send_native_mark(index, subscription, settled, &ServerFrame::CaughtUp(frame));
    }

    pub(super) fn native_published(
        &mut self,
        index: ConnIndex,
        request: u32,
        result: Result<Appended, PublishRefusal>,
    ) {
        match result {
            Ok(Appended { position, duplicate }) => {
                let position = native::Position { epoch: position.epoch, offset: position.offset };
                self.send_native(
                    index,
                    &ServerFrame::Published(Published { request, position, duplicate }),
                );
            }
            Err(PublishRefusal { code, present }) => {
                let frame = ErrorFrame {
                    restart: present.map(|present| native::Position {
                        epoch: present.epoch,
                        offset: present.offset,
                    }),
                    ..ErrorFrame::new(Reference::Request(request), code)
                };
                self.send_native(index, &ServerFrame::Error(frame));
            }
        }
    }

    pub(super) fn native_history(
        &mut self,
        index: ConnIndex,
        request: u32,
        result: Result<HistoryPage, ErrorCode>,
    ) {
        let page = match result {
            Ok(page) => page,
            Err(code) => return self.native_refuse(index, Reference::Request(request), code),
        };
        let views: Vec<RecordView<'_>> =
            page.records.iter().filter_map(|record| RecordView::parse(record)).collect();
        let blocks: Vec<Vec<u8>> = views
            .iter()
            .map(|view| {
                let mut block = Vec::new();
                append_attributes(view, &mut block);
                block
            })
            .collect();
        let records: Vec<HistoryRecord<'_>> = views
            .iter()
            .zip(&blocks)
            .map(|(view, block)| HistoryRecord {
                offset: view.offset(),
                prev: view.prev(),
                time_ms: view.time_ms(),
                retained: retained(view),
                attributes: Attributes::decode_block(block).unwrap_or_default(),
                payload: view.payload(),
            })
            .collect();
        let gap = page.gap.map(|gap| PageGap {
            from: gap.from,
            to: gap.to,
            reason: wire_reason(gap.reason),
        });
        let frame = native::HistoryPage {
            request,
            epoch: page.epoch,
            head: page.head,
            more: page.more,
            reverse: page.reverse,
            gap,
            records: List::from(records.as_slice()),
        };
        self.send_native(index, &ServerFrame::HistoryPage(frame));
    }

    /// Leads the client away, with a ticket if there is one. It may take its answers first, and
    /// subscribes to nothing more.
    pub(super) fn native_go_away(
        &mut self,
        index: ConnIndex,
        return_after_ms: u64,
        ticket: Option<&[u8]>,
    ) {
        let code = u32::from(CloseCode::GoingAway.number());
        let settings = self.settings.clone();
        let urls = self.other_addresses(&settings, index);
        self.send_native(
            index,
            &ServerFrame::GoAway(GoAway {
                code,
                return_after_ms,
                urls: List::from(urls.as_slice()),
                ticket,
            }),
        );
        self.statistics.sent_away += 1;
        match self.lets_finish() {
            true => {
                self.connections.slots[index].set(flag::AWAY);
                self.unsubscribe_all(index);
            }
            false => self.close_native(index, CloseCode::GoingAway),
        }
    }

    pub(super) fn native_ping(&mut self, index: ConnIndex) {
        let token = u64::from(self.now_s());
        self.send_native(index, &ServerFrame::Ping(token));
    }

    fn native_fail(&mut self, index: ConnIndex, code: ErrorCode, close: CloseCode) {
        self.statistics.protocol_errors += 1;
        self.native_refuse(index, Reference::Connection, code);
        self.close_websocket(index, WebSocketClose(close.number()), code.text());
    }

    pub(super) fn send_native(&mut self, index: ConnIndex, frame: &ServerFrame<'_>) {
        if self.connections.slots[index].is(flag::CLOSING) {
            return;
        }
        let (bytes, start) = self.encode_native(frame);
        if !self.send_packed(index, &bytes[HEADER_ROOM..]) {
            self.send_private(index, &bytes[start..]);
        }
        self.work.scratch = bytes;
        if let ServerFrame::Error(error) = frame {
            self.count_error(index, error);
        }
    }

    /// The same for what settles a plain subscription (`Edge::send_mark`).
    fn send_native_mark(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        (from, to): (u64, u64),
        frame: &ServerFrame<'_>,
    ) {
        if self.connections.slots[index].is(flag::CLOSING) {
            return;
        }
        let (bytes, start) = self.encode_native(frame);
        self.send_mark(subscription, from, to, &[&bytes[start..]]);
        self.work.scratch = bytes;
    }

    /// The frame and where it begins. The caller gives the buffer back to `self.work.scratch`.
    pub(super) fn encode_native(&mut self, frame: &ServerFrame<'_>) -> (Vec<u8>, usize) {
        let mut bytes = std::mem::take(&mut self.work.scratch);
        bytes.clear();
        // Room for the longest header a server writes; the frame begins right behind the header it
        // gets.
        bytes.resize(HEADER_ROOM, 0);
        frame.encode(&mut bytes);
        let header = encode_header(true, Opcode::Binary, bytes.len() - HEADER_ROOM, None);
        let start = HEADER_ROOM - header.as_bytes().len();
        bytes[start..HEADER_ROOM].copy_from_slice(header.as_bytes());
        (bytes, start)
    }
}

pub(super) fn policy_of(policy: native::Policy) -> LagPolicy {
    match policy {
        native::Policy::Replay => LagPolicy::Replay,
        native::Policy::Conflate => LagPolicy::Conflate,
        native::Policy::Drop => LagPolicy::Drop,
        native::Policy::Disconnect => LagPolicy::Disconnect,
    }
}

pub(super) fn wire_policy(policy: LagPolicy) -> native::Policy {
    match policy {
        LagPolicy::Replay => native::Policy::Replay,
        LagPolicy::Conflate => native::Policy::Conflate,
        LagPolicy::Drop => native::Policy::Drop,
        LagPolicy::Disconnect => native::Policy::Disconnect,
    }
}

const HEADER_ROOM: usize = 10;
/// Clients cannot ask for pings more often than this.
const PING_INTERVAL_MIN_S: u32 = 5;

pub(super) fn wire_reason(reason: GapReason) -> native::GapReason {
    match reason {
        GapReason::Evicted => native::GapReason::Evicted,
        GapReason::UnknownEpoch => native::GapReason::UnknownEpoch,
        GapReason::BeyondHead => native::GapReason::BeyondHead,
        GapReason::HistoryLimit => native::GapReason::HistoryLimit,
        GapReason::Damaged => native::GapReason::Damaged,
    }
}
