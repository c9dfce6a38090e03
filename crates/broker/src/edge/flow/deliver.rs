//! Fan-out: one record to all its subscribers, encoded once for each wire format of this edge.
//!
//! Steps 8 and 9 of the path. A message that has arrived from its home is encoded when the first
//! subscriber of a format needs it; the others receive the same place in the ring. Event streams of
//! several topics carry a cursor of their own in each event and are encoded one by one. Subscribers
//! by filter: `deliver_filters`.

use crate::attributes::append_attributes;
use crate::edge::Edge;
use crate::edge::compression::Packed;
use crate::edge::delivery::Delivery;
use crate::edge::outbox::{BODY_COPY_MAX, FrameNumber, Origin};
use crate::ids::{ConnIndex, SubIndex, TopicIndex};
use crate::mail::HomeId;
use crate::notice::{Encoded, Settles};
use crate::position::Position;
use crate::protocol::{Form, flag};
use crate::session::{events, native::encode as native};
use log::RecordView;
use stdx::chunk::Slice;
use wire::native::MessageHead;
use wire::websocket::frame::{Opcode, encode_header};

/// A longer head, which has tags in it, lies beside the ring with the payload.
const HEAD_INLINE_MAX: usize = 1 << 10;

impl Edge {
    /// A live message has come from its home.
    pub(crate) fn deliver(&mut self, home: HomeId, index: TopicIndex, record: &Slice) {
        let Some(mut delivery) = Delivery::new(record, home, index) else {
            debug_assert!(false, "a home sends whole records");
            return;
        };
        let takers = self.subscriptions.takers(home, index, &mut self.work.targets);
        if takers.by_filter.is_some() && self.statistics.mqtt_sessions > 0 {
            self.mark_for_mqtt(takers.single, &delivery.view);
        }
        if let Some(subscription) = takers.single {
            self.deliver_live(subscription, &mut delivery);
        } else if !self.work.targets.is_empty() {
            let mut targets = std::mem::take(&mut self.work.targets);
            for subscription in targets.drain(..) {
                self.deliver_live(subscription, &mut delivery);
            }
            self.work.targets = targets;
        }
        if let Some(by_filter) = takers.by_filter {
            self.deliver_by_filter(by_filter, takers.partition, &delivery);
        }
        self.note_stream(home, index, delivery.view.offset());
    }

    /// A record of a page, for one subscription.
    pub(crate) fn deliver_one(&mut self, subscription: SubIndex, record: &Slice) {
        if let Some(mut delivery) = self.private_delivery(subscription, record) {
            self.replay_to(subscription, &mut delivery);
        }
    }

    /// The retained message of a snapshot: it may be older than all that the log holds, so it is
    /// never left out.
    pub(crate) fn deliver_retained(&mut self, subscription: SubIndex, record: &Slice) {
        if let Some(mut delivery) = self.private_delivery(subscription, record) {
            delivery.is_answer = true;
            self.replay_to(subscription, &mut delivery);
        }
    }

    fn private_delivery<'a>(
        &self,
        subscription: SubIndex,
        record: &'a Slice,
    ) -> Option<Delivery<'a>> {
        let (home, topic) = self.subscriptions[subscription].topic()?;
        let delivery = Delivery::new(record, home, topic)?;
        Some(Delivery { is_private: true, ..delivery })
    }

    fn replay_to(&mut self, subscription: SubIndex, delivery: &mut Delivery<'_>) {
        let before = self.statistics.delivered;
        self.deliver_to(subscription, delivery);
        self.statistics.replayed += self.statistics.delivered - before;
    }

    fn deliver_live(&mut self, subscription: SubIndex, delivery: &mut Delivery<'_>) {
        if self.subscriptions.take_live(subscription, delivery.view.offset()) {
            self.deliver_to(subscription, delivery);
        }
    }

    fn deliver_to(&mut self, subscription: SubIndex, delivery: &mut Delivery<'_>) {
        let index = self.subscriptions[subscription].connection;
        let slot = &self.connections.slots[index];
        let facts = slot.facts();
        if facts.is_mqtt {
            return self.deliver_mqtt(index, subscription, delivery);
        }
        self.statistics.delivered += 1;
        let place = if facts.shares_frames {
            let packed = match slot.window_bits() {
                0 => None,
                window_bits => self.packed_place(facts.form, window_bits, delivery),
            };
            let entered = packed.or(delivery.native[facts.form as usize].plain);
            match entered.filter(|&place| self.outboxes.holds(place)) {
                Some(place) => place,
                None => self.enter_plain(facts.form, delivery),
            }
        } else if slot.is(flag::RAW) {
            match delivery.raw.filter(|&place| self.outboxes.holds(place)) {
                Some(place) => place,
                None => *delivery.raw.insert(self.enter_raw(delivery)),
            }
        } else if facts.answers_requests {
            return self.deliver_to_poll(index, delivery.record);
        } else {
            return self.deliver_event(index, subscription, delivery);
        };
        // Making room for the frame may have made this very subscription lagging: then the log
        // brings this message too, behind those that had to go.
        if self.takes_through(subscription, delivery.view.offset()) {
            self.push_place(index, place);
        } else {
            self.subscriptions.refund_credit(subscription);
        }
    }

    /// A message that is encoded for each subscription, because it carries a cursor, or a number of
    /// the subscription.
    fn deliver_event(&mut self, index: ConnIndex, subscription: SubIndex, delivery: &Delivery<'_>) {
        let mut event = std::mem::take(&mut self.work.scratch);
        event.clear();
        let client = self.subscriptions[subscription].client;
        let epoch = self.subscription_epoch(subscription);
        let offset = delivery.view.offset();
        let position = Position { epoch, offset };
        let settles = Settles::Topic { client, from: delivery.view.prev(), position };
        let encoded = Encoded::mark(settles);
        let session = self.session(index);
        session.encode_message(client, None, epoch, &delivery.view, &mut event);
        let prefix_bytes_max = session.prefix_bytes_max(&encoded, event.len());
        self.reserve(event.len() + prefix_bytes_max);
        if self.takes_through(subscription, offset) {
            self.push_event(index, &event, &encoded, delivery.origin());
        } else {
            self.subscriptions.refund_credit(subscription);
        }
        self.work.scratch = event;
    }

    /// Queues a message behind the prefix that brings the session's cursor. Room is reserved, so
    /// that the cursor is as it is written.
    pub(crate) fn push_event(
        &mut self,
        index: ConnIndex,
        event: &[u8],
        encoded: &Encoded,
        origin: Origin,
    ) {
        let prefix = self.session(index).prefix(encoded, event.len());
        let place = self.enter_bytes(&[prefix.as_bytes(), event], origin);
        self.push_place(index, place);
    }

    fn enter_plain(&mut self, form: Form, delivery: &mut Delivery<'_>) -> FrameNumber {
        let place = match form {
            Form::Binary => self.enter_native(delivery),
            Form::Json => self.enter_json(delivery),
        };
        delivery.native[form as usize].plain = Some(place);
        place
    }

    /// The compressed frame, for a client with this window; `None`: it gets the other one.
    fn packed_place(
        &mut self,
        form: Form,
        window_bits: u8,
        delivery: &mut Delivery<'_>,
    ) -> Option<FrameNumber> {
        if let Some(packed) = delivery.native[form as usize].packed {
            if !packed.fits(window_bits) {
                return None;
            }
            if self.outboxes.holds(packed.place) {
                return Some(packed.place);
            }
        }
        let packed = self.enter_native_packed(form, window_bits, delivery);
        let packed = packed.unwrap_or(Packed::USELESS);
        delivery.native[form as usize].packed = Some(packed);
        packed.fits(window_bits).then_some(packed.place)
    }

    fn enter_native_packed(
        &mut self,
        form: Form,
        window_bits: u8,
        delivery: &Delivery<'_>,
    ) -> Option<Packed> {
        let payload = delivery.view.payload();
        if !self.is_worth_packing(payload.len()) {
            return None;
        }
        let pack = |edge: &mut Edge, parts: &[&[u8]]| {
            let (opcode, origin) = (form.opcode(), delivery.origin());
            if delivery.is_private {
                edge.enter_packed_privately(opcode, window_bits, parts, origin)
            } else {
                edge.enter_packed(opcode, parts, origin)
            }
        };
        match form {
            Form::Binary => {
                let (head, attributes) = self.native_head(delivery);
                let packed = pack(self, &[&head[..], &attributes, payload]);
                self.work.attributes = attributes;
                packed
            }
            Form::Json => {
                let text = self.json_of(delivery);
                let packed = pack(self, &[&text]);
                self.work.scratch = text;
                packed
            }
        }
    }

    fn enter_json(&mut self, delivery: &Delivery<'_>) -> FrameNumber {
        let text = self.json_of(delivery);
        let place = self.enter_text(&text, delivery.origin());
        self.work.scratch = text;
        place
    }

    /// The message as JSON, in the buffer `scratch`, which the caller gives back.
    fn json_of(&mut self, delivery: &Delivery<'_>) -> Vec<u8> {
        let attributes = self.attributes_of(&delivery.view, None);
        let mut text = std::mem::take(&mut self.work.scratch);
        text.clear();
        let alias = self.alias(delivery.home, delivery.topic);
        let epoch = (self.epoch_of_topic(delivery), self.lineage_of_topic(delivery));
        native::topic_message_json(alias, epoch, &delivery.view, &attributes, &mut text);
        self.work.attributes = attributes;
        text
    }

    /// Puts a text message into the ring.
    pub(crate) fn enter_text(&mut self, text: &[u8], origin: Origin) -> FrameNumber {
        let header = encode_header(true, Opcode::Text, text.len(), None);
        self.enter_bytes(&[header.as_bytes(), text], origin)
    }

    fn enter_native(&mut self, delivery: &Delivery<'_>) -> FrameNumber {
        let (head, attributes) = self.native_head(delivery);
        let (record, view) = (delivery.record, &delivery.view);
        let place = self.enter_message(&head, &attributes, record, view, delivery.origin());
        self.work.attributes = attributes;
        place
    }

    /// The part of a frame before the payload. The caller gives the attributes' buffer back.
    fn native_head(&mut self, delivery: &Delivery<'_>) -> (MessageHead, Vec<u8>) {
        let view = &delivery.view;
        let lineage = self.lineage_of_topic(delivery);
        let attributes = self.attributes_of(view, lineage);
        let alias = self.alias(delivery.home, delivery.topic);
        (native::topic_message_head(alias, view, &attributes), attributes)
    }

    pub(crate) fn enter_message(
        &mut self,
        head: &[u8],
        attributes: &[u8],
        record: &Slice,
        view: &RecordView<'_>,
        origin: Origin,
    ) -> FrameNumber {
        let payload = view.payload();
        let header = encode_header(
            true,
            Opcode::Binary,
            head.len() + attributes.len() + payload.len(),
            None,
        );
        if head.len() + attributes.len() + payload.len() > BODY_COPY_MAX {
            let (inline, body) = if head.len() > HEAD_INLINE_MAX {
                let body = Slice::concatenation_of(&[head, attributes, payload]);
                (header.as_bytes().to_vec(), body)
            } else if attributes.is_empty() {
                let body = record.sub(view.payload_start()..);
                ([header.as_bytes(), head].concat(), body)
            } else {
                let body = Slice::concatenation_of(&[attributes, payload]);
                ([header.as_bytes(), head].concat(), body)
            };
            self.enter(&[&inline], body, origin)
        } else {
            self.enter(&[header.as_bytes(), head, attributes, payload], Slice::empty(), origin)
        }
    }

    /// The record's content type and tags as they go over the wire, with the lineage of its
    /// partition; empty without any. The caller gives the buffer back to `self.work.attributes`.
    pub(crate) fn attributes_of(&mut self, view: &RecordView<'_>, lineage: Option<u8>) -> Vec<u8> {
        let mut block = std::mem::take(&mut self.work.attributes);
        block.clear();
        append_attributes(view, lineage, &mut block);
        block
    }

    /// Names a topic to native clients of this edge.
    pub(crate) fn alias(&self, home: HomeId, topic: TopicIndex) -> u32 {
        topic.0 * u32::from(self.settings.homes_count) + u32::from(home.0)
    }

    fn enter_raw(&mut self, delivery: &Delivery<'_>) -> FrameNumber {
        let mut event = std::mem::take(&mut self.work.scratch);
        event.clear();
        let epoch = self.epoch_of_topic(delivery);
        events::encode::append_raw_event(epoch, &delivery.view, &mut event);
        let place = self.enter_bytes(&[&event], delivery.origin());
        self.work.scratch = event;
        place
    }

    fn lineage_of_topic(&mut self, delivery: &Delivery<'_>) -> Option<u8> {
        if self.links.epochs.are_fixed() {
            return None;
        }
        let partition = self.subscriptions.partition_of_topic(delivery.home, delivery.topic);
        self.links.epochs.lineage(partition)
    }

    fn epoch_of_topic(&mut self, delivery: &Delivery<'_>) -> u64 {
        let partition = self.subscriptions.partition_of_topic(delivery.home, delivery.topic);
        self.links.epochs.of(partition, &self.settings)
    }
}
