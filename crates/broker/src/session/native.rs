//! The native protocol (`spec/protocol.md`): frames to commands. `native_notices` has the way back.

use super::native_notices::policy_of;
use crate::admission::{Offer, Placement};
use crate::edge::{Edge, Pressure, Protocol, flag};
use crate::entitlement::Action;
use crate::ids::ConnIndex;
use crate::mail::{
    PageLimits, ProducerStamp, Publication, Publish, ReadHistory, Reply, Start, ToHome,
};
use crate::notice::Wish;
use crate::position::Position;
use crate::topic::{Filter, TopicName};
use stdx::chunk::Slice;
use wire::native::{
    self, ClientFrame, CloseCode, ErrorCode, ErrorFrame, ItemError, Once, Reference, ServerFrame,
    UnsubscribeCode, Unsubscribed, Welcome,
};
use wire::websocket::close::CloseCode as WebSocketClose;

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

    pub(crate) fn native_hello(
        &mut self,
        index: ConnIndex,
        hello: &native::Hello<'_>,
        frame: &[u8],
    ) {
        if self.identify(index, hello, frame) {
            self.native_welcome(index, hello);
        }
    }

    /// Begins the session of a client that is known by now.
    pub(crate) fn native_welcome(&mut self, index: ConnIndex, hello: &native::Hello<'_>) {
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

    pub(crate) fn native_subscribe(
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

    pub(crate) fn native_unsubscribe(&mut self, index: ConnIndex, client: u32) {
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

    pub(crate) fn native_publish(&mut self, index: ConnIndex, publish: &native::Publish<'_>) {
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
        self.request(home, ToHome::Publish(Publish { partition, rule, reply, publication }));
    }

    pub(crate) fn native_ask_history(&mut self, index: ConnIndex, history: &native::History<'_>) {
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
        let request = ToHome::History(ReadHistory {
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
        });
        self.request(self.settings.home_of(partition), request);
    }

    pub(crate) fn native_fail(&mut self, index: ConnIndex, code: ErrorCode, close: CloseCode) {
        self.statistics.protocol_errors += 1;
        self.native_refuse(index, Reference::Connection, code);
        self.close_websocket(index, WebSocketClose(close.number()), code.text());
    }
}

/// Clients cannot ask for pings more often than this.
const PING_INTERVAL_MIN_S: u32 = 5;
