//! Messages to clients of MQTT.
//!
//! Steps 8 and 9 of the path. To a subscription with QoS 0 a message goes as to any other
//! protocol: one frame for all clients of a version, which gives way where a client does not keep
//! up. A message with QoS 1 or 2 has an identifier of its connection. It is sent only where the
//! client's window has room and the socket takes it, and stays until it is written; else the
//! subscription lags, and the log brings the message when the client has acknowledged others.
//!
//! Invariants: a message with an identifier is never dropped from the outbox; what such messages
//! take is bounded by the window, in messages and bytes; a connection gets a live message once
//! however many of its subscriptions match, with the highest QoS of them.

use super::message::{Cause, Expiry, Message};
use super::publish::origin_of;
use crate::edge::Edge;
use crate::edge::delivery::Delivery;
use crate::edge::outbox::{BODY_COPY_MAX, FrameNumber, Origin};
use crate::edge::subscriptions::Stage;
use crate::ids::{ConnIndex, SubIndex, TopicIndex};
use crate::mail::{HomeId, PartitionId};
use crate::position::Position;
use crate::protocol::flag;
use crate::session::mqtt::WaitingRetained;
use crate::session::mqtt::aliases::SentAlias;
use crate::session::mqtt::encode::Outgoing;
use crate::session::mqtt::options::Options;
use log::RecordView;
use stdx::chunk::Slice;
use wire::mqtt::SubscriptionId;
use wire::websocket::frame::{Opcode, encode_header};

/// A packet in the ring, and the alias in it.
struct Entered {
    place: FrameNumber,
    alias: SentAlias,
}

/// The result for a message with an identifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sent {
    /// It is sent, or is nothing for the client.
    Done,
    /// The client has no room for it now.
    NoRoom,
}

/// Packets of a message differ by transport, version and RETAIN.
pub(crate) const FORMS_COUNT: usize = 8;

impl Edge {
    /// A message for a plain subscription.
    pub(crate) fn deliver_mqtt(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        delivery: &mut Delivery<'_>,
    ) {
        let (home, at) = (delivery.home, delivery.topic);
        let Some(topic) = self.subscriptions.name_of_topic(home, at) else {
            debug_assert!(false, "a grant has brought the name");
            return;
        };
        let topic = std::str::from_utf8(&topic).unwrap_or_default();
        let cause = if delivery.is_answer { Cause::Retained } else { Cause::Published };
        let own = Options::of(self.subscriptions[subscription].client);
        let id = SubscriptionId::new(own.identifier);
        let left = if delivery.is_private {
            self.left_if_ended(index, subscription, topic, &delivery.view)
        } else {
            Some(None)
        };
        let Some(left) = left else {
            return;
        };
        let (options, ids) =
            left.as_ref().map_or((own, id.as_slice()), |(options, ids)| (*options, &ids[..]));
        let message = Message {
            topic,
            partition: self.subscriptions.partition_of_topic(home, at),
            record: delivery.record,
            view: delivery.view,
            options,
            ids,
            cause,
            filter: delivery.is_private.then_some(subscription),
            member: None,
            expiry: Expiry::of(&delivery.view, self.now.unix_ms),
        };
        let offset = delivery.view.offset();
        if cause == Cause::Retained {
            return self.send_retained(index, subscription, &message);
        }
        if self.is_passed_over(index, &message) {
            return;
        }
        if options.qos > 0 {
            if self.send_with_identifier(index, &message) == Sent::NoRoom {
                self.lag_mqtt(index, subscription, offset);
            }
            return;
        }
        self.deliver_without_identifier(index, subscription, &message, delivery);
    }

    /// A message with QoS 0 for a plain subscription, in the packet that others of its form have
    /// got.
    fn deliver_without_identifier(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        message: &Message<'_>,
        delivery: &mut Delivery<'_>,
    ) {
        let form = self.form_of(index, message);
        let entered = form.and_then(|form| delivery.mqtt[form]);
        let entered = match entered.filter(|place| self.outboxes.holds(*place)) {
            Some(place) => Entered { place, alias: SentAlias::None },
            None => {
                let origin = delivery.origin();
                let Some(entered) = self.enter_without_identifier(index, message, origin) else {
                    return; // too large for the client
                };
                if let Some(form) = form {
                    delivery.mqtt[form] = Some(entered.place);
                }
                entered
            }
        };
        if self.takes_through(subscription, message.view.offset()) {
            self.push_without_identifier(index, message, entered);
        } else {
            self.subscriptions.refund_credit(subscription);
        }
    }

    /// Whether the client does not get the message: it has expired, or is the client's own.
    fn is_passed_over(&mut self, index: ConnIndex, message: &Message<'_>) -> bool {
        if message.expiry == Expiry::Over {
            let at = (message.partition, message.view.offset());
            if message.qos() > 0
                && let Some(mqtt) = self.mqtt_of(index)
                && mqtt.opened.find(at.0, at.1).is_none()
            {
                mqtt.opened.pass_over();
            }
            return true;
        }
        message.options.no_local && self.is_own(index, &message.view)
    }

    /// Whether the client has published a message itself.
    pub(super) fn is_own(&self, index: ConnIndex, view: &RecordView<'_>) -> bool {
        let origin = view.origin();
        origin.is_some()
            && origin == self.mqtt_ref(index).map(|mqtt| origin_of(self.sessions.name_of(mqtt)))
    }

    /// The form in which other clients get the same bytes; none if only this one does.
    fn form_of(&self, index: ConnIndex, message: &Message<'_>) -> Option<usize> {
        let mqtt = self.mqtt_ref(index)?;
        let has_bound = mqtt.packet_bytes_max != wire::mqtt::PACKET_BYTES_MAX;
        let has_its_own = has_bound || mqtt.sent_aliases_max > 0 || mqtt.tells_positions;
        let is_of_all = message.ids.is_empty() && !has_its_own;
        let is_websocket = self.connections.slots[index].facts().is_websocket;
        let bits = [is_websocket, mqtt.is_v5(), message.retain()];
        is_of_all.then(|| bits.iter().fold(0, |form, bit| form << 1 | usize::from(*bit)))
    }

    /// Puts the packet of a message with QoS 0 into the ring; none if the client takes no packet of
    /// its length. It may be dropped; so it gives a new alias only if nothing waits before it, and
    /// is then an answer, which is never dropped.
    fn enter_without_identifier(
        &mut self,
        index: ConnIndex,
        message: &Message<'_>,
        origin: Origin,
    ) -> Option<Entered> {
        let mut alias = self.alias_of(index, message.topic);
        let may_give =
            origin == Origin::Private || self.outboxes.is_empty(&self.connections.slots[index]);
        if matches!(alias, SentAlias::New(_)) && !may_give {
            alias = SentAlias::None;
        }
        let mut head = std::mem::take(&mut self.work.scratch);
        let is_encoded =
            self.encode_with_alias(index, message, (None, false), &mut alias, &mut head);
        self.statistics.packets_too_large += u64::from(!is_encoded);
        let is_new = matches!(alias, SentAlias::New(_));
        let origin = if is_new { Origin::Private } else { origin };
        let place = is_encoded.then(|| self.enter_packet(index, &head, message, origin));
        self.work.scratch = head;
        place.map(|place| Entered { place, alias })
    }

    /// Queues the packet of a message with QoS 0.
    fn push_without_identifier(
        &mut self,
        index: ConnIndex,
        message: &Message<'_>,
        Entered { place, alias }: Entered,
    ) {
        self.statistics.delivered += 1;
        self.push_place(index, place);
        self.note_alias(index, alias, message.topic);
    }

    /// Encodes the packet of a message up to its payload. A new alias is left out where the client
    /// takes no packet of that length. False if it takes none without it either.
    fn encode_with_alias(
        &mut self,
        index: ConnIndex,
        message: &Message<'_>,
        (attempt, tells_gaps): (Option<(u8, u16, bool)>, bool),
        alias: &mut SentAlias,
        head: &mut Vec<u8>,
    ) -> bool {
        if self.encode_head(index, message, (attempt, tells_gaps, *alias), head) {
            return true;
        }
        let is_new = matches!(alias, SentAlias::New(_));
        *alias = SentAlias::None;
        is_new && self.encode_head(index, message, (attempt, tells_gaps, *alias), head)
    }

    fn encode_head(
        &mut self,
        index: ConnIndex,
        message: &Message<'_>,
        (attempt, tells_gaps, alias): (Option<(u8, u16, bool)>, bool, SentAlias),
        head: &mut Vec<u8>,
    ) -> bool {
        let Some(mqtt) = self.mqtt_ref(index) else {
            return false;
        };
        let outgoing = Outgoing {
            version: mqtt.version.0,
            packet_bytes_max: mqtt.packet_bytes_max,
            topic: message.topic,
            alias,
            view: &message.view,
            retain: message.retain(),
            subscription_ids: message.ids,
            expiry_s: message.expiry.remaining_s(),
            gaps: if tells_gaps { &mqtt.busy.gaps } else { &[] },
            place: self.told_place(mqtt, message.partition, message.view.offset()),
        };
        head.clear();
        outgoing.encode(attempt, head).is_ok()
    }

    /// Puts a packet into the ring, in the form of the connection.
    fn enter_packet(
        &mut self,
        index: ConnIndex,
        head: &[u8],
        message: &Message<'_>,
        origin: Origin,
    ) -> FrameNumber {
        let payload = message.view.payload();
        let bytes = head.len() + payload.len();
        let header = encode_header(true, Opcode::Binary, bytes, None);
        let is_websocket = self.connections.slots[index].facts().is_websocket;
        let header = if is_websocket { header.as_bytes() } else { &[] };
        if bytes > BODY_COPY_MAX {
            let body = message.record.sub(message.view.payload_start()..);
            self.enter(&[header, head], body, origin)
        } else {
            self.enter(&[header, head, payload], Slice::empty(), origin)
        }
    }

    /// A message to a subscription with QoS 1 or 2, which may itself have QoS 0.
    pub(super) fn send_with_identifier(&mut self, index: ConnIndex, message: &Message<'_>) -> Sent {
        let (offset, qos) = (message.view.offset(), message.qos());
        let bytes_max = u64::from(self.settings.limits.outbox_bytes_max) / 2;
        let is_blocked = self.connections.slots[index].is(flag::BLOCKED);
        let Some(mqtt) = self.mqtt_of(index) else {
            return Sent::Done;
        };
        let at = (message.partition, offset);
        if message.member.is_none() {
            if mqtt.opened.find(at.0, at.1).is_some() {
                return Sent::Done; // another subscription has brought it
            }
            if let Some(by) = message.filter
                && self.comes_later(index, (by, message.topic), at, &message.view)
            {
                return Sent::Done;
            }
        }
        let Some(mqtt) = self.mqtt_of(index) else {
            return Sent::Done;
        };
        // Nothing overtakes messages that are sent again.
        if is_blocked || mqtt.opened.has_resends() {
            return Sent::NoRoom;
        }
        if qos > 0 {
            let waits_behind = message.cause == Cause::Published && !mqtt.busy.retained.is_empty();
            if waits_behind || !mqtt.opened.has_room(bytes_max) {
                return Sent::NoRoom;
            }
        }
        // Encoded once with a place for the identifier, so that one which does not fit opens
        // nothing.
        let proposed = (qos > 0).then_some((qos, u16::MAX, false));
        self.send_attempt(index, message, proposed);
        Sent::Done
    }

    /// Sends a message as proposed: its QoS, its identifier, and DUP; without DUP it gets an
    /// identifier here. False if it is too large for the client.
    pub(super) fn send_attempt(
        &mut self,
        index: ConnIndex,
        message: &Message<'_>,
        proposed: Option<(u8, u16, bool)>,
    ) -> bool {
        let is_new = proposed.is_some_and(|(_, _, is_repeat)| !is_repeat);
        let mut head = std::mem::take(&mut self.work.scratch);
        head.clear();
        let mut alias = self.alias_of(index, message.topic);
        let tells_gaps = proposed.is_some()
            && self.mqtt_ref(index).is_some_and(|mqtt| !mqtt.busy.gaps.is_empty())
            && self.encode_head(index, message, (proposed, true, alias), &mut head);
        let plain = (proposed, false);
        let fits =
            tells_gaps || self.encode_with_alias(index, message, plain, &mut alias, &mut head);
        if fits {
            let qos = proposed.map_or(0, |(qos, _, _)| qos);
            if is_new {
                let bytes = head.len() + message.view.payload().len();
                let epoch = self.links.epochs.of(message.partition, &self.settings);
                let position = Position { epoch, offset: message.view.offset() };
                let (at, retain) = ((message.partition, position), message.retain());
                let id = self.mqtt_of(index).map(|mqtt| {
                    let id = mqtt.opened.open((qos, retain), at, bytes);
                    mqtt.opened.note_member(id, message.member.unwrap_or(0));
                    id
                });
                let opened = id.map(|id| (qos, id, false));
                self.encode_head(index, message, (opened, tells_gaps, alias), &mut head);
            }
            if tells_gaps && let Some(mqtt) = self.mqtt_of(index) {
                mqtt.busy.gaps = Vec::new();
            }
            self.statistics.delivered += 1;
            if is_new && qos == 2 {
                self.gate_mqtt(index);
            }
            let place = self.enter_packet(index, &head, message, Origin::Private);
            self.push_place(index, place);
            self.note_alias(index, alias, message.topic);
        } else {
            self.statistics.packets_too_large += 1;
        }
        self.work.scratch = head;
        fits
    }

    /// A plain subscription continues with the message at this offset when the client has room.
    fn lag_mqtt(&mut self, index: ConnIndex, subscription: SubIndex, offset: u64) {
        // The cursor does not go back to the message before it: messages between them belong to
        // other topics, and this subscription does not bring those that were open there.
        let was_live = self.subscriptions.lag(subscription, offset - 1, &self.settings);
        self.statistics.lagging += u64::from(was_live);
        self.connections.slots[index].set(flag::LAGGING);
    }

    /// Marks the connections whose plain subscriptions (a single one, or the targets) get the next
    /// message, so that no filter of such a connection brings it again.
    #[cold]
    pub(crate) fn mark_for_mqtt(&mut self, single: Option<SubIndex>, view: &RecordView<'_>) {
        let next = self.subscriptions.next_serial();
        let targets = std::mem::take(&mut self.work.targets);
        for subscription in single.into_iter().chain(targets.iter().copied()) {
            let index = self.subscriptions[subscription].connection;
            let slot = &self.connections.slots[index];
            if slot.facts().is_mqtt
                && slot.subscriptions_count > 1
                && self.takes_plain(index, subscription, view)
            {
                self.connections.slots[index].filter_mark = next;
            }
        }
        self.work.targets = targets;
    }

    /// Whether a plain subscription takes a live message, now or from the log.
    fn takes_plain(&self, index: ConnIndex, at: SubIndex, view: &RecordView<'_>) -> bool {
        let entry = &self.subscriptions[at];
        let no_local = Options::of(entry.client).no_local;
        view.offset() > entry.cursor() && !(no_local && self.is_own(index, view))
    }

    /// The subscribers by filter of one message that speak MQTT: each connection gets it once.
    pub(crate) fn deliver_to_mqtt(
        &mut self,
        targets: &[SubIndex],
        topic: &str,
        partition: PartitionId,
        delivery: &Delivery<'_>,
    ) {
        let serial = self.subscriptions.serial();
        let mut forms = [None; FORMS_COUNT];
        let mut matching = Vec::new();
        let mut ids = Vec::new();
        for &subscription in targets {
            let index = self.subscriptions[subscription].connection;
            let slot = &mut self.connections.slots[index];
            if !slot.facts().is_mqtt || slot.filter_mark == serial {
                continue;
            }
            slot.filter_mark = serial;
            matching.clear();
            if !self.find_takers(subscription, targets, (partition, delivery), &mut matching) {
                continue;
            }
            let of = |at: &SubIndex| Options::of(self.subscriptions[*at].client);
            let Some(&first) = matching.iter().max_by_key(|at| of(at).qos) else {
                continue;
            };
            ids.clear();
            ids.extend(matching.iter().filter_map(|at| SubscriptionId::new(of(at).identifier)));
            let options = Options {
                retain_as_published: matching.iter().any(|at| of(at).retain_as_published),
                ..of(&first)
            };
            let message = Message {
                topic,
                partition,
                record: delivery.record,
                view: delivery.view,
                options,
                ids: &ids,
                cause: Cause::Published,
                filter: None,
                member: None,
                expiry: Expiry::of(&delivery.view, self.now.unix_ms),
            };
            let after = delivery.view.offset() - 1;
            if self.is_passed_over(index, &message) {
                continue;
            }
            if options.qos > 0 {
                if self.send_with_identifier(index, &message) == Sent::NoRoom {
                    self.lag_filter(first, partition, after);
                }
                continue;
            }
            self.deliver_by_filter_mqtt(index, &matching, &message, &mut forms);
        }
    }

    /// Finds the subscriptions of the connection of `first` that take a live message together.
    /// False if none does.
    fn find_takers(
        &self,
        first: SubIndex,
        targets: &[SubIndex],
        (partition, delivery): (PartitionId, &Delivery<'_>),
        matching: &mut Vec<SubIndex>,
    ) -> bool {
        let index = self.subscriptions[first].connection;
        let at = (partition, delivery.view.offset());
        if self.connections.slots[index].subscriptions_count == 1 {
            matching.push(first);
            return self.may_take_live(matching, at);
        }
        let is_own = self.is_own(index, &delivery.view);
        let is_its = |at: &SubIndex| {
            let entry = &self.subscriptions[*at];
            entry.connection == index && !(is_own && Options::of(entry.client).no_local)
        };
        matching.extend(targets.iter().copied().filter(is_its));
        if !self.may_take_live(matching, at) {
            return false;
        }
        matching.retain(|at| !self.has_ended(index, *at));
        !matching.is_empty()
    }

    /// Leaves the open subscriptions of one connection in the list. False if none of them takes the
    /// live message: the log brings it to one that catches up, and so to the connection. It brings
    /// nothing with QoS 1 and 2 for one with QoS 0, nor anything for one whose cursor is ahead of
    /// the stream.
    fn may_take_live(
        &self,
        matching: &mut Vec<SubIndex>,
        (partition, offset): (PartitionId, u64),
    ) -> bool {
        matching.retain(|at| {
            self.subscriptions[*at].stage == Stage::ByFilter
                && !self.has_passed(*at, partition, offset)
        });
        let has_qos = |at: &SubIndex| Options::of(self.subscriptions[*at].client).qos > 0;
        if matching.iter().any(has_qos) {
            matching.retain(|at| has_qos(at) || !self.is_catching_up(*at, partition));
        }
        !matching.is_empty() && !matching.iter().any(|at| self.is_catching_up(*at, partition))
    }

    /// Whether a subscription that is read from the log has what lies at an offset behind it: a
    /// session comes with cursors that a lagging stream has not come to.
    fn has_passed(&self, at: SubIndex, partition: PartitionId, offset: u64) -> bool {
        self.is_catching_up(at, partition)
            && !self.subscriptions.is_catching_up_at(at, partition, offset - 1)
    }

    /// A live message with QoS 0 for filters of a connection, in the packet that others of its form
    /// have got.
    fn deliver_by_filter_mqtt(
        &mut self,
        index: ConnIndex,
        matching: &[SubIndex],
        message: &Message<'_>,
        forms: &mut [Option<FrameNumber>; FORMS_COUNT],
    ) {
        let (partition, after) = (message.partition, message.view.offset() - 1);
        let form = self.form_of(index, message);
        let entered = form.and_then(|form| forms[form]);
        let entered = match entered.filter(|place| self.outboxes.holds(*place)) {
            Some(place) => Some(Entered { place, alias: SentAlias::None }),
            None => {
                let serial = self.subscriptions.messages_by_filter();
                let origin = Origin::ByFilter { partition, after, serial };
                self.enter_without_identifier(index, message, origin)
            }
        };
        if let (Some(form), Some(entered)) = (form, &entered) {
            forms[form] = Some(entered.place);
        }
        // Making room may have made this very connection lag.
        if let Some(entered) = entered
            && !matching.iter().any(|at| self.is_catching_up(*at, partition))
        {
            self.push_without_identifier(index, message, entered);
        }
    }

    /// A record of a page for a subscription to a filter.
    pub(crate) fn deliver_mqtt_addressed(
        &mut self,
        subscription: SubIndex,
        topic: &str,
        partition: PartitionId,
        delivery: &Delivery<'_>,
        is_paid: bool,
    ) {
        let entry = &self.subscriptions[subscription];
        let (index, own) = (entry.connection, Options::of(entry.client));
        let id = SubscriptionId::new(own.identifier);
        let Some(left) = self.left_if_ended(index, subscription, topic, &delivery.view) else {
            return;
        };
        let (options, ids) =
            left.as_ref().map_or((own, id.as_slice()), |(options, ids)| (*options, &ids[..]));
        let message = Message {
            topic,
            partition,
            record: delivery.record,
            view: delivery.view,
            options,
            ids,
            cause: Cause::Published,
            filter: Some(subscription),
            member: None,
            expiry: Expiry::of(&delivery.view, self.now.unix_ms),
        };
        let after = delivery.view.offset() - 1;
        if self.is_passed_over(index, &message) {
            return;
        }
        if options.qos > 0 {
            if self.send_with_identifier(index, &message) == Sent::NoRoom {
                self.lag_filter(subscription, partition, after);
            }
            return;
        }
        let origin = self.origin_of(subscription, partition, after, is_paid);
        if let Some(entered) = self.enter_without_identifier(index, &message, origin)
            && !self.subscriptions.is_catching_up_at(subscription, partition, after)
        {
            self.push_without_identifier(index, &message, entered);
        }
    }

    /// A retained message for a new subscription.
    pub(crate) fn deliver_mqtt_retained(
        &mut self,
        subscription: SubIndex,
        topic: &Slice,
        record: &Slice,
    ) {
        let Some(view) = RecordView::parse(record) else {
            return;
        };
        let entry = &self.subscriptions[subscription];
        let (index, options) = (entry.connection, Options::of(entry.client));
        let name = std::str::from_utf8(topic).unwrap_or_default();
        let (_, partition) = self.settings.locate(name);
        let id = SubscriptionId::new(options.identifier);
        let message = Message {
            topic: name,
            partition,
            record,
            view,
            options,
            ids: id.as_slice(),
            cause: Cause::Retained,
            filter: None,
            member: None,
            expiry: Expiry::of(&view, self.now.unix_ms),
        };
        self.send_retained(index, subscription, &message);
    }

    fn send_retained(&mut self, index: ConnIndex, subscription: SubIndex, message: &Message<'_>) {
        let key = self.subscriptions.key(subscription);
        if message.expiry == Expiry::Over {
            return;
        }
        if message.options.qos == 0 {
            if let Some(entered) = self.enter_without_identifier(index, message, Origin::Private) {
                self.push_without_identifier(index, message, entered);
            }
        } else if self.send_with_identifier(index, message) == Sent::NoRoom
            && let Some(mqtt) = self.mqtt_of(index)
        {
            let topic = Slice::copy_of(message.topic.as_bytes());
            let record = message.record.clone();
            mqtt.busy.retained.push(WaitingRetained { subscription: key, topic, record });
            self.connections.slots[index].set(flag::LAGGING);
        }
    }

    /// The client has acknowledged a message: what waits for room follows with the next flush.
    pub(crate) fn room_came(&mut self, index: ConnIndex) {
        let waits = self.mqtt_ref(index).is_some_and(|mqtt| {
            let of_groups = mqtt.busy.memberships.iter().any(|it| !it.waiting.is_empty());
            of_groups || !mqtt.busy.retained.is_empty()
        });
        let slot = &mut self.connections.slots[index];
        if waits || slot.is(flag::LAGGING | flag::CATCHING_UP) {
            slot.set(flag::LAGGING);
            self.mark_dirty(index);
        }
    }

    /// A subscription is live again.
    pub(crate) fn mqtt_caught_up(&mut self, index: ConnIndex) {
        if self.mqtt_ref(index).is_some_and(|mqtt| !mqtt.busy.retained.is_empty()) {
            self.connections.slots[index].set(flag::LAGGING);
            self.mark_dirty(index);
        }
    }

    /// Sends retained messages that have waited for room. True if some still wait.
    pub(crate) fn send_waiting_retained(&mut self, index: ConnIndex) -> bool {
        let Some(mqtt) = self.mqtt_of(index) else {
            return false;
        };
        let waiting = std::mem::take(&mut mqtt.busy.retained);
        for WaitingRetained { subscription, topic, record } in waiting {
            // Where there is no room, it waits again. The client may have unsubscribed since.
            if let Some(subscription) = self.subscriptions.find(subscription) {
                self.deliver_mqtt_retained(subscription, &topic, &record);
            }
        }
        self.mqtt_ref(index).is_some_and(|mqtt| !mqtt.busy.retained.is_empty())
    }

    /// The number of records that may be read from the log for a connection now.
    pub(crate) fn records_max_of(&self, index: ConnIndex) -> u32 {
        let Some(mqtt) = self.mqtt_ref(index) else {
            return u32::MAX;
        };
        let bytes_max = u64::from(self.settings.limits.outbox_bytes_max) / 2;
        // Retained messages come before new ones.
        if mqtt.busy.retained.is_empty() { mqtt.opened.records_max(bytes_max) as u32 } else { 0 }
    }

    /// The stream of a partition has come to this offset.
    pub(crate) fn note_stream(&mut self, home: HomeId, topic: TopicIndex, offset: u64) {
        if self.statistics.mqtt_sessions > 0 {
            let partition = self.subscriptions.partition_of_topic(home, topic);
            self.mqtt.advance(partition, offset);
        }
    }
}
