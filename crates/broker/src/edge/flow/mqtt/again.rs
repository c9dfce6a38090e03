//! Messages that are sent again: a session has continued, and its client has not acknowledged them.
//!
//! Step 9 of the path. Their records are read from the log one after the other, by position, in the
//! order in which the messages were sent first, and with the identifiers that they had (MQTT 5.0,
//! sections 4.4 and 4.6). Subscriptions have no part in it: the client may have ended the one that
//! brought a message ([MQTT-3.10.4-3]), and a retained message was brought by none.
//!
//! Invariant: until the last of them is sent, the client gets no other message of its subscriptions
//! with QoS 1 and 2; so no message overtakes one of its topic, and the window has room for them.

use super::message::Message;
use super::wake::does_match;
use crate::edge::Edge;
use crate::entitlement::Action;
use crate::ids::ConnIndex;
use crate::mail::{
    Gap, GapReason, OpenDelivery, ReadRecord, RecordFound, SleepingSubscription, ToHome,
};
use crate::position::Position;
use crate::protocol::flag;
use crate::session::mqtt::Link;
use crate::session::mqtt::options::Options;
use crate::topic::Filter;
use log::RecordView;
use stdx::chunk::Slice;
use wire::mqtt::{Ack, PacketId, ReasonCode, ServerPacket, SubscriptionId};

/// The filter of a gap that is one message: the log does not say any more which topic it had.
const UNKNOWN_FILTER: &[u8] = b"#";

impl Edge {
    /// Asks for the next message that is to be sent again. True if some are left.
    pub(crate) fn send_again(&mut self, index: ConnIndex) -> bool {
        let connection = self.connections.slots.key(index);
        while let Some(mqtt) = self.mqtt_of(index)
            && mqtt.opened.has_resends()
        {
            let Some(open) = mqtt.opened.next_resend() else {
                return true; // an acknowledgement makes room, or an answer is on its way
            };
            if open.is_lost() {
                self.give_up_message(index, &open, true);
                continue;
            }
            if !self.may_read(open.partition) {
                self.wait_to_read(open.partition, index);
                return true;
            }
            if let Some(mqtt) = self.mqtt_of(index) {
                mqtt.opened.set_reading(true);
            }
            let position = Position { epoch: open.epoch, offset: open.offset };
            let asked = ReadRecord { partition: open.partition, position, connection };
            self.request(self.settings.home_of(open.partition), ToHome::ReadRecord(asked));
            return true;
        }
        false
    }

    /// The record of a message that is to be sent again has come, or is lost.
    pub(crate) fn record_found(&mut self, found: RecordFound) {
        let RecordFound { connection, partition, offset, result } = found;
        if self.connections.slots.get(connection).is_none() {
            return;
        }
        let index = ConnIndex(connection.index);
        let Some(mqtt) = self.mqtt_of(index).filter(|mqtt| mqtt.link == Link::Held) else {
            return;
        };
        mqtt.opened.set_reading(false);
        let resend = mqtt.opened.take_resend(partition, offset);
        match (resend, result) {
            // The client has acknowledged it meanwhile.
            (None, _) => {}
            (Some(open), Ok(Some((topic, record)))) => {
                self.send_message_again(index, &open, &topic, &record);
            }
            (Some(open), Ok(None)) => self.give_up_message(index, &open, true),
            // The client comes back, and the message is still open.
            (Some(_), Err(_)) => {
                return self.mqtt_disconnect(index, ReasonCode::ImplementationSpecific);
            }
        }
        self.connections.slots[index].set(flag::LAGGING);
        self.mark_dirty(index);
    }

    fn send_message_again(
        &mut self,
        index: ConnIndex,
        open: &OpenDelivery,
        topic: &Slice,
        record: &Slice,
    ) {
        let (name, view) = (std::str::from_utf8(topic).ok(), RecordView::parse(record));
        let (Some(name), Some(view)) = (name, view) else {
            debug_assert!(false, "a home sends whole records");
            return self.give_up_message(index, open, true);
        };
        // The credential may be another one since.
        let may_read = Filter::parse(name)
            .is_ok_and(|filter| self.permit_as(index, Action::Subscribe, filter, false).is_ok());
        let ids = self.identifiers_again(index, name);
        let message = Message::again(name, (record, view), open, &ids, self.now);
        if !may_read || message.is_over() {
            return self.give_up_message(index, open, false);
        }
        if !self.send_attempt(index, &message, Some((open.qos, open.id, true))) {
            self.give_up_message(index, open, false);
        }
    }

    /// The identifiers of the subscriptions that the session came with and that match a topic.
    fn identifiers_again(&self, index: ConnIndex, topic: &str) -> Vec<SubscriptionId> {
        let waking = self.mqtt_ref(index).and_then(|mqtt| mqtt.busy.waking.as_ref());
        let all = waking.iter().flat_map(|waking| &waking.subscriptions);
        let is_whole = |it: &&SleepingSubscription| it.group().is_none() && !it.is_ended;
        let matching = all.filter(is_whole).filter(|it| does_match(&it.filter, topic));
        matching.filter_map(|it| SubscriptionId::new(Options::of(it.options).identifier)).collect()
    }

    /// Gives a message up that cannot be sent again: without this it would take its place in the
    /// window for ever.
    fn give_up_message(&mut self, index: ConnIndex, open: &OpenDelivery, is_gap: bool) {
        let is_released = self.mqtt_of(index).is_some_and(|mqtt| mqtt.opened.give_up(open.id));
        if let Some(id) = PacketId::new(open.id).filter(|_| is_released) {
            self.gate_mqtt(index);
            self.send_mqtt_packet(index, &ServerPacket::PubRel(Ack::success(id)));
        }
        if is_gap && !open.is_lost() {
            let gap = Gap { from: open.offset - 1, to: open.offset, reason: GapReason::Evicted };
            self.note_mqtt_gap(index, UNKNOWN_FILTER, open.partition, gap);
        }
    }
}
