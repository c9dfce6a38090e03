//! PUBLISH of clients, and acknowledgements in both directions.
//!
//! Step 3 of the path. A publication is an ordinary command; its answer becomes PUBACK or PUBREC
//! when it is in the log. One with QoS 2 has a key made of the session, of its identifier, and of
//! the number of releases before it: the home appends a repetition once, whatever connection brings
//! it, and an identifier that was released names another publication.

use crate::command::{Command, OfMqtt, Publish as Asked};
use crate::edge::Edge;
use crate::ids::ConnIndex;
use crate::notice::Refusal;
use crate::session::mqtt::encode::QOS_2;
use crate::session::mqtt::open::Acknowledged;
use crate::sys;
use log::FurtherFields;
use stdx::hash::{Seed, keyed};
use wire::mqtt::{Ack, Attempt, Properties, Publish, Qos, ReasonCode, ServerPacket};
use wire::native::{Attributes, ErrorCode, Once, Reference, Tag};

/// Acknowledgements between two writes of a session.
const KEPT_AFTER: u16 = 256;
/// Bytes of the key of a publication with QoS 2.
const KEY_BYTES: usize = 22;

impl Edge {
    /// PUBLISH.
    pub(crate) fn mqtt_publish(&mut self, index: ConnIndex, publish: &Publish<'_>) {
        let topic = match self.topic_of(index, publish) {
            Ok(topic) => topic,
            Err(reason) => return self.mqtt_disconnect(index, reason),
        };
        let settings = self.settings.mqtt;
        if publish.delivery.qos() as u8 > settings.qos_max {
            return self.mqtt_disconnect(index, ReasonCode::QosNotSupported);
        }
        if publish.retain && !settings.may_retain {
            return self.mqtt_disconnect(index, ReasonCode::RetainNotSupported);
        }
        let attempt = publish.delivery.attempt();
        let qos = publish.delivery.qos();
        let mut key = [0; KEY_BYTES];
        let request = match (qos, attempt) {
            (Qos::Two, Some(attempt)) => match self.receive(index, attempt) {
                Some(made) => {
                    key = made;
                    u32::from(attempt.packet_id.get()) | QOS_2
                }
                None => return, // it was answered, or will be
            },
            (Qos::One, Some(attempt)) => attempt.packet_id.get().into(),
            _ => 0,
        };
        let name = topic.as_deref().unwrap_or(publish.topic);
        if is_of_server(name) {
            let refusal = Refusal::of(ErrorCode::Forbidden);
            let reference = Reference::Request(request);
            return self.refuse(index, reference, refusal);
        }
        let tags: Vec<Tag<'_>> = publish
            .properties
            .user()
            .map(|user| Tag { key: user.name, value: user.value })
            .collect();
        let attributes = Attributes {
            content_type: publish.properties.content_type(),
            tags: tags.as_slice().into(),
        };
        let further = self.further_fields(index, &publish.properties);
        self.command(
            index,
            Command::Publish(Asked {
                request,
                topic: name,
                attributes,
                payload: publish.payload,
                retain: publish.retain,
                once: (qos == Qos::Two).then_some(Once::Key(&key)),
                expected_epoch: None,
                mqtt: Some(OfMqtt {
                    qos: qos as u8,
                    is_said_text: publish.properties.payload_format() == Some(true),
                    further: further.as_bytes(),
                }),
            }),
        );
    }

    /// Expiry, reply and origin of a publication of version 5.
    fn further_fields(&self, index: ConnIndex, properties: &Properties<'_>) -> FurtherFields {
        let mut further = further_of(properties, self.now.unix_ms);
        if let Some(mqtt) = self.mqtt_ref(index).filter(|mqtt| mqtt.is_v5()) {
            further.origin(origin_of(self.sessions.name_of(mqtt)));
        }
        further
    }

    /// The topic that an alias stands for; none if the packet has the topic itself.
    fn topic_of(
        &mut self,
        index: ConnIndex,
        publish: &Publish<'_>,
    ) -> Result<Option<Box<str>>, ReasonCode> {
        let Some(alias) = publish.properties.topic_alias() else {
            return Ok(None);
        };
        if alias.get() > self.settings.mqtt.topic_alias_max {
            return Err(ReasonCode::TopicAliasInvalid);
        }
        let Some(mqtt) = self.mqtt_of(index) else {
            return Ok(None);
        };
        if publish.topic.is_empty() {
            let known = mqtt.busy.aliases.received(alias.get());
            return known.map(|topic| Some(topic.into())).ok_or(ReasonCode::ProtocolError);
        }
        mqtt.busy.aliases.receive(alias.get(), publish.topic);
        Ok(None)
    }

    /// A publication with QoS 2: its key, if it is to be published.
    fn receive(
        &mut self,
        index: ConnIndex,
        Attempt { packet_id: id, is_repeat }: Attempt,
    ) -> Option<[u8; KEY_BYTES]> {
        let receive_max = usize::from(self.settings.mqtt.receive_max);
        let mqtt = self.mqtt_of(index)?;
        let known = mqtt.busy.received.get(id.get());
        let released = match known {
            Some(received) if received.is_answered => {
                self.send_mqtt_packet(index, &ServerPacket::PubRec(Ack::success(id)));
                return None;
            }
            // A connection before this one has not been answered: the home knows the key.
            Some(received) => received.released,
            // Version 3 has no such limit, and its clients cannot know of it.
            None if mqtt.is_v5() && mqtt.busy.received.len() >= receive_max => {
                self.mqtt_disconnect(index, ReasonCode::ReceiveMaximumExceeded);
                return None;
            }
            None => {
                let resumed_at = mqtt.resumed_at().filter(|_| is_repeat);
                let released = resumed_at.unwrap_or(mqtt.released);
                mqtt.busy.received.receive(id.get(), released);
                released
            }
        };
        let mut key = [0; KEY_BYTES];
        key[..4].copy_from_slice(b"mqtt");
        key[4..12].copy_from_slice(&mqtt.instance.to_be_bytes());
        key[12..20].copy_from_slice(&released.to_be_bytes());
        key[20..].copy_from_slice(&id.get().to_be_bytes());
        Some(key)
    }

    /// PUBREL: the client does not repeat the publication any more.
    pub(crate) fn mqtt_release(&mut self, index: ConnIndex, ack: &Ack<'_>) {
        let Some(mqtt) = self.mqtt_of(index) else {
            return;
        };
        let is_known = mqtt.busy.received.release(ack.packet_id.get());
        // The connection before this one may have ended before the answer reached the client.
        let reason = if is_known || !mqtt.is_v5() || mqtt.is_continued {
            ReasonCode::Success
        } else {
            ReasonCode::PacketIdNotFound
        };
        let answer = Ack { reason, ..Ack::success(ack.packet_id) };
        self.gate_release(index);
        self.send_mqtt_packet(index, &ServerPacket::PubComp(answer));
    }

    /// PUBACK.
    pub(crate) fn mqtt_acknowledged(&mut self, index: ConnIndex, ack: &Ack<'_>) {
        let id = ack.packet_id.get();
        let of_member = self.mqtt_ref(index).and_then(|mqtt| mqtt.opened.of_member(id));
        let result = self.mqtt_of(index).map(|mqtt| mqtt.opened.acknowledge(id));
        if let (Some(open), Some(Acknowledged::Over)) = (of_member, result) {
            self.group_done(open.member, (open.partition, open.offset), false);
            self.forget_membership(index, open.member);
        }
        self.exchange_went_on(index, result);
    }

    /// PUBREC. One of an identifier that is not open is answered as well: the client then forgets
    /// it.
    pub(crate) fn mqtt_received(&mut self, index: ConnIndex, ack: &Ack<'_>) {
        let is_refused = ack.reason.is_failure();
        let Some(mqtt) = self.mqtt_of(index) else {
            return;
        };
        let result = mqtt.opened.receive(ack.packet_id.get(), is_refused);
        let is_v5 = mqtt.is_v5();
        if !is_refused && result != Acknowledged::Violated {
            let reason = if result == Acknowledged::Unknown && is_v5 {
                ReasonCode::PacketIdNotFound
            } else {
                ReasonCode::Success
            };
            let release = Ack { reason, ..Ack::success(ack.packet_id) };
            self.gate_mqtt(index);
            self.send_mqtt_packet(index, &ServerPacket::PubRel(release));
        }
        self.exchange_went_on(index, Some(result));
    }

    /// PUBCOMP.
    pub(crate) fn mqtt_completed(&mut self, index: ConnIndex, ack: &Ack<'_>) {
        let id = ack.packet_id.get();
        let result = self.mqtt_of(index).map(|mqtt| mqtt.opened.complete(id));
        self.exchange_went_on(index, result);
    }

    /// Writes the session after a number of acknowledgements: a crash of the node repeats at most
    /// so many messages.
    fn keep_now_and_then(&mut self, index: ConnIndex) {
        let Some(mqtt) = self.mqtt_of(index) else {
            return;
        };
        mqtt.opened.acknowledged += 1;
        if mqtt.opened.acknowledged >= KEPT_AFTER {
            mqtt.opened.acknowledged = 0;
            self.keep_mqtt_session(index);
        }
    }

    fn exchange_went_on(&mut self, index: ConnIndex, result: Option<Acknowledged>) {
        match result {
            Some(Acknowledged::Over) => {
                self.room_came(index);
                self.keep_now_and_then(index);
            }
            // An acknowledgement that does not fit the message ([MQTT-4.3.2-3], [MQTT-4.3.3-3]).
            Some(Acknowledged::Violated) => {
                self.statistics.protocol_errors += 1;
                self.close(index);
            }
            Some(Acknowledged::Unknown) => self.statistics.unknown_acknowledgements += 1,
            Some(Acknowledged::Continues) | None => {}
        }
    }
}

/// Whether no client publishes on a topic: those of the node itself, and filters of groups.
pub(super) fn is_of_server(topic: &str) -> bool {
    let is_of_group = topic.split('/').next() == Some("$share");
    is_of_group || sys::is_reserved(topic) && !sys::is_of_bridge(topic)
}

/// Expiry and reply of a message that is published now.
pub(crate) fn further_of(properties: &Properties<'_>, now_ms: u64) -> FurtherFields {
    let mut further = FurtherFields::default();
    if let Some(expiry_s) = properties.message_expiry_s() {
        further.expiry(now_ms.saturating_add(u64::from(expiry_s) * 1_000));
    }
    let topic = properties.response_topic();
    let correlation = properties.correlation_data();
    if topic.is_some() || correlation.is_some() {
        let topic = topic.unwrap_or_default().as_bytes();
        further.reply(topic, correlation.unwrap_or_default());
    }
    further
}

/// The number that stands for a client in its publications: of the same client it is the same at
/// every node.
pub(crate) fn origin_of(name: &[u8]) -> u64 {
    keyed(Seed(0, 0), name)
}
