//! Commands: what happens when a client asks for something, whatever its protocol.
//!
//! Step 3 of the path. A refusal goes back in the words of the protocol.

use crate::admission::{Offer, Placement};
use crate::command::{Begin, Command, History, Malformed, Publish, Subscribe};
use crate::edge::{Edge, Pressure, flag};
use crate::entitlement::Action;
use crate::ids::ConnIndex;
use crate::mail::{self, PageLimits, PartitionCursor, ProducerStamp, Publication, Reply, ToHome};
use crate::notice::{Notice, Refusal, Since, SubscribeTerms};
use crate::topic::{Filter, TopicName};
use stdx::chunk::Slice;
use wire::native::{ErrorCode, Once, Producer, Reference, UnsubscribeCode};

impl Edge {
    /// Carries out one command. The items of a list of subscriptions come by
    /// [`Edge::subscribe_items`] instead, spread over turns.
    #[inline]
    pub(crate) fn command(&mut self, index: ConnIndex, command: Command<'_>) {
        match command {
            Command::Publish(publish) => self.publish(index, &publish),
            Command::History(history) => self.read_history(index, &history),
            // A subscription that has ended, or replays nothing, has no use for it.
            Command::Credit { client, messages } => {
                if let Some(subscription) = self.find_client(index, client) {
                    self.add_replay_credit(subscription, messages);
                }
            }
            Command::Ping(token) => {
                if self.take_ping(index) {
                    self.notify(index, &Notice::Pong { token });
                }
            }
            Command::Pong => {}
            Command::Ticket { request } => self.want_ticket(index, request),
            Command::Renew { request, token } => self.renew_token(index, request, token),
        }
    }

    /// Begins one subscription, or refuses it.
    pub(crate) fn begin_subscription(
        &mut self,
        index: ConnIndex,
        client: u32,
        asked: Result<Subscribe<'_>, Malformed>,
    ) {
        let reference = Reference::Subscription(client);
        let subscribe = match self.check_subscription(index, client, asked) {
            Ok(subscribe) => subscribe,
            Err(refusal) => return self.refuse(index, reference, refusal),
        };
        let Ok(filter) = Filter::parse(subscribe.filter) else {
            return self.refuse(index, reference, Refusal::of(ErrorCode::MalformedFilter));
        };
        if let Err(code) = self.permit(index, Action::Subscribe, filter) {
            let act = (Action::Subscribe, subscribe.filter);
            return self.refuse_act(index, reference, act, code);
        }
        if !filter.is_plain() {
            return self.begin_filter(index, client, filter, &subscribe);
        }
        let Begin::At(start) = subscribe.begin else {
            return self.refuse(index, reference, Refusal::of(ErrorCode::UnsupportedStart));
        };
        let terms =
            SubscribeTerms { start, fail_on_gap: subscribe.fail_on_gap, policy: subscribe.policy };
        let subscription = self.subscribe_plain(index, subscribe.filter, client, terms);
        if let Some(credit) = subscribe.replay_credit {
            self.subscriptions.set_credit(subscription, credit);
        }
    }

    /// Whether the connection may have one more subscription, with this number.
    pub(crate) fn check_subscription<'a>(
        &mut self,
        index: ConnIndex,
        client: u32,
        asked: Result<Subscribe<'a>, Malformed>,
    ) -> Result<Subscribe<'a>, Refusal> {
        if self.connections.slots[index].is(flag::AWAY) {
            return Err(Refusal::of(ErrorCode::ShuttingDown));
        }
        self.refuse_from(Pressure::Newcomers).map_err(Refusal::of)?;
        let limited = |code, limit| Refusal { limit, ..Refusal::of(code) };
        let subscribe = asked.map_err(|Malformed { code, limit }| limited(code, limit))?;
        self.take_subscription(index)
            .map_err(|too_fast| limited(ErrorCode::RateLimited, Some(too_fast.limit)))?;
        let subscriptions_max = self.subscriptions_max(index);
        if self.connections.slots[index].subscriptions_count >= subscriptions_max {
            self.statistics.turned_away.subscriptions_too_many += 1;
            let limit = Some(u64::from(subscriptions_max));
            return Err(limited(ErrorCode::TooManySubscriptions, limit));
        }
        // Only few sessions have many subscriptions; the others are searched at once.
        match self.find_client(index, client) {
            Some(_) => Err(Refusal::of(ErrorCode::AlreadySubscribed)),
            None => Ok(subscribe),
        }
    }

    /// Subscribes to a filter, unless it cannot begin as it is asked.
    pub(crate) fn begin_filter(
        &mut self,
        index: ConnIndex,
        client: u32,
        filter: Filter<'_>,
        subscribe: &Subscribe<'_>,
    ) {
        let reference = Reference::Subscription(client);
        let since: &[PartitionCursor] = match &subscribe.begin {
            Begin::At(mail::Start::Live) => &[],
            Begin::After(cursors) => cursors,
            Begin::At(_) => {
                return self.refuse(index, reference, Refusal::of(ErrorCode::UnsupportedStart));
            }
        };
        // A partition of a log that the node no longer has: the client would take silence for
        // completeness.
        let partitions_count = self.settings.partitions_count();
        if since.iter().any(|cursor| cursor.partition.0 >= partitions_count) {
            return self.refuse(index, reference, Refusal::of(ErrorCode::PositionUnavailable));
        }
        self.charge_filter();
        let (fails, policy) = (subscribe.fail_on_gap, subscribe.policy);
        let since = Since::After(since);
        let subscription = self.subscribe_filter(index, filter, client, since, fails, policy);
        if let (Some(subscription), Some(credit)) = (subscription, subscribe.replay_credit) {
            self.subscriptions.set_credit(subscription, credit);
        }
    }

    /// Ends a subscription at its client's request.
    pub(crate) fn end_subscription(&mut self, index: ConnIndex, client: u32) {
        match self.find_client(index, client) {
            // It ended with GO_AWAY.
            None if self.connections.slots[index].is(flag::AWAY) => {}
            None => {
                let reference = Reference::Subscription(client);
                self.refuse(index, reference, Refusal::of(ErrorCode::UnknownSubscription));
            }
            Some(subscription) => {
                self.unsubscribe(subscription);
                let code = UnsubscribeCode::Requested;
                self.notify(index, &Notice::Unsubscribed { client, code });
            }
        }
    }

    fn publish(&mut self, index: ConnIndex, publish: &Publish<'_>) {
        self.statistics.publishes += 1;
        let mut block = Vec::new();
        if !publish.attributes.is_empty() {
            publish.attributes.encode_block(&mut block);
        }
        let further = publish.mqtt.map_or(&[][..], |mqtt| mqtt.further);
        let offer = Offer {
            topic: publish.topic,
            payload_bytes: publish.payload.len(),
            attributes_bytes: block.len() + further.len(),
            retain: publish.retain,
        };
        let Placement { rule, partition } = match self.admit(index, offer) {
            Ok(placement) => placement,
            Err(fault) => {
                return self.refuse_publication(index, Reference::Request(publish.request), fault);
            }
        };
        let (producer, idempotency_key) = match publish.once {
            None => (None, Slice::empty()),
            Some(Once::Key(key)) => (None, self.work.mail.copy(key)),
            Some(Once::Producer(Producer { id, sequence })) => {
                let id = self.work.mail.copy(id);
                let connection = self.producer_stamp(index);
                (Some(ProducerStamp { id, sequence, connection }), Slice::empty())
            }
        };
        let publication = Publication {
            topic: self.work.mail.copy(publish.topic.as_bytes()),
            attributes: self.work.mail.copy(&block),
            payload: self.work.mail.copy(publish.payload),
            retain: publish.retain,
            producer,
            idempotency_key,
            expected_epoch: publish.expected_epoch,
            qos: publish.mqtt.map(|mqtt| mqtt.qos),
            is_said_text: publish.mqtt.is_some_and(|mqtt| mqtt.is_said_text),
            further: self.work.mail.copy(further),
        };
        // Request 0 waits for a refusal only.
        let reply =
            Some(Reply { connection: self.connections.slots.key(index), request: publish.request });
        let home = self.settings.home_of(partition);
        self.request(home, ToHome::Publish(mail::Publish { partition, rule, reply, publication }));
    }

    fn read_history(&mut self, index: ConnIndex, history: &History<'_>) {
        let reference = Reference::Request(history.request);
        let Ok(topic) = TopicName::parse(history.topic) else {
            return self.refuse(index, reference, Refusal::of(ErrorCode::MalformedTopic));
        };
        if let Err(code) = self.permit(index, Action::History, topic.into()) {
            let act = (Action::History, history.topic);
            return self.refuse_act(index, reference, act, code);
        }
        if let Err(code) = self.refuse_from(Pressure::Recoveries) {
            return self.refuse(index, reference, Refusal::of(code));
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
        let request = ToHome::History(mail::ReadHistory {
            partition,
            rule,
            topic: self.work.mail.copy(history.topic.as_bytes()),
            reply: Reply {
                connection: self.connections.slots.key(index),
                request: history.request,
            },
            beyond: history.beyond,
            reverse: history.reverse,
            limits,
        });
        self.request(self.settings.home_of(partition), request);
    }
}
