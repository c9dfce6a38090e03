//! Notices and messages to packets.
//!
//! Step 9 of the path. Answers to SUBSCRIBE are made where a decision falls
//! (`edge::flow::mqtt::subscribe`), because one packet answers several filters.

use super::aliases::SentAlias;
use super::refusal::{reason_of, subscribe_reason_of};
use super::subscribing::Decided;
use super::{Link, METHOD, Mqtt};
use crate::mail::{PartitionId, SubscriptionKey};
use crate::notice::{Encoded, Notice, Then};
use crate::position::Position;
use log::{Flags, RecordView};
use wire::mqtt::{
    Ack, Attempt, Auth, Delivery, Disconnect, EncodeError, Limits, List, PacketId, Properties,
    Property, PublishHead, ReasonCode, ServerPacket, SubAck, SubscriptionId, UserProperty, Version,
};
use wire::native::{ErrorCode, Reference};

/// In the number of a publication's request: it has QoS 2.
pub(crate) const QOS_2: u32 = 1 << 16;

/// Appends the packet of a notice; nothing where MQTT has no word for it.
pub(in crate::session) fn notice(
    mqtt: &mut Mqtt,
    notice: &Notice<'_>,
    out: &mut Vec<u8>,
) -> Encoded {
    let mut position = None;
    match *notice {
        Notice::Published { request, result } => {
            if let Ok(appended) = result {
                position = mqtt.tells_positions.then_some(appended.position);
            }
            let reason = match result {
                Ok(appended) if appended.is_unheard && mqtt.is_v5() && request & QOS_2 == 0 => {
                    ReasonCode::NoMatchingSubscribers
                }
                Ok(_) => ReasonCode::Success,
                Err(refusal) => reason_of(refusal.code),
            };
            return published(mqtt, request, (reason, position), out);
        }
        Notice::Failed { reference: Reference::Request(request), refusal, .. } => {
            return published(mqtt, request, (reason_of(refusal.code), None), out);
        }
        Notice::Refused { client, refusal }
        | Notice::Failed { reference: Reference::Subscription(client), refusal, .. } => {
            refused(mqtt, client, refusal.code, out);
        }
        // A subscription that the node ends has no word in MQTT: the client comes back, and
        // subscribes again.
        Notice::Unsubscribed { .. } => {
            disconnect(mqtt, ReasonCode::ImplementationSpecific, None, out);
            return Encoded::ANSWER.then(Then::Close);
        }
        Notice::Failed { reference: Reference::Connection, refusal, .. } => {
            disconnect(mqtt, reason_of(refusal.code), None, out);
            return Encoded::ANSWER.then(Then::Close);
        }
        Notice::GoAway { urls, .. } => {
            let server = urls.first().copied();
            let reason = match server {
                Some(_) => ReasonCode::ServerMoved,
                None => ReasonCode::ServerShuttingDown,
            };
            disconnect(mqtt, reason, server, out);
            return Encoded::ANSWER.then(Then::Close);
        }
        Notice::Subscribed { .. }
        | Notice::SubscribedFilter { .. }
        | Notice::Started { .. }
        | Notice::RetainedSent { .. }
        | Notice::FiltersStarted { .. }
        | Notice::Gap { .. }
        | Notice::LeftOut { .. }
        | Notice::CaughtUp { .. }
        | Notice::FilterCaughtUp { .. }
        | Notice::History { .. }
        | Notice::TokenExpires { .. }
        | Notice::Welcome(_)
        | Notice::Ping { .. }
        | Notice::Pong { .. }
        | Notice::TicketIssued { .. } => {}
        Notice::Renewed { .. } => {
            let method = [Property::AuthenticationMethod(METHOD)];
            let properties = Properties::from(&method[..]);
            let answer = Auth { reason: ReasonCode::Success, properties };
            append(mqtt, &ServerPacket::Auth(answer), out);
        }
    }
    Encoded::ANSWER
}

/// The answer to a publication. A version 3 cannot be told of a refusal: its connection ends, and
/// its client sends the message again, so that no message is acknowledged that was not taken.
fn published(
    mqtt: &mut Mqtt,
    request: u32,
    (reason, position): (ReasonCode, Option<Position>),
    out: &mut Vec<u8>,
) -> Encoded {
    let Some(id) = PacketId::new(request as u16) else {
        return Encoded::ANSWER; // QoS 0
    };
    let is_qos_2 = request & QOS_2 != 0;
    if is_qos_2 {
        if reason.is_failure() {
            mqtt.busy.received.release(id.get());
        } else {
            mqtt.busy.received.answer(id.get());
        }
    }
    let mut reason = reason;
    if reason.is_failure() && !mqtt.is_v5() {
        if !mqtt.acknowledges_refused {
            return Encoded::ANSWER.then(Then::Close);
        }
        reason = ReasonCode::Success;
    }
    let position = position.map(|position| position.to_string());
    let told = position.as_deref().map(|value| user(POSITION, value));
    let ack = Ack { reason, properties: Properties::from(told.as_slice()), ..Ack::success(id) };
    let packet = if is_qos_2 { ServerPacket::PubRec(ack) } else { ServerPacket::PubAck(ack) };
    append(mqtt, &packet, out);
    Encoded::ANSWER
}

fn refused(mqtt: &mut Mqtt, client: u32, code: ErrorCode, out: &mut Vec<u8>) {
    if super::options::Options::is_pending(client) {
        // The retained messages of the others are lost only if their answer is, too.
        let _ = decide(mqtt, client, subscribe_reason_of(code), out);
    }
}

/// The decision on a filter of a SUBSCRIBE packet: the packet's answer, if this was the last one.
/// Returns the subscriptions whose retained messages follow the answer.
pub(crate) fn decide(
    mqtt: &mut Mqtt,
    client: u32,
    reason: ReasonCode,
    out: &mut Vec<u8>,
) -> Vec<SubscriptionKey> {
    let reason = if mqtt.is_v5() || !reason.is_failure() {
        reason
    } else {
        ReasonCode::Unspecified // the only refusal of version 3.1.1
    };
    let place = super::options::Options::place(client);
    let decided = mqtt.busy.subscribing.decide(place, reason.byte());
    decided.into_iter().flat_map(|decided| subscribed(mqtt, decided, out)).collect()
}

/// The answer to a SUBSCRIBE packet. Returns the subscriptions whose retained messages follow it.
pub(crate) fn subscribed(
    mqtt: &mut Mqtt,
    decided: Decided,
    out: &mut Vec<u8>,
) -> Vec<SubscriptionKey> {
    let Some(packet_id) = PacketId::new(decided.id) else {
        // Packet identifier 0 stands for the filters of a session that wakes. A session with a
        // refused filter keeps the filter's cursors.
        let is_awake = decided.codes.iter().all(|code| *code < ReasonCode::Unspecified.byte());
        if let Some(busy) = mqtt.busy.get_mut() {
            busy.is_awake = is_awake;
        }
        return decided.granted;
    };
    let codes = decided.codes.iter();
    let reasons: Vec<ReasonCode> =
        codes.map(|code| ReasonCode::from_byte(*code).unwrap_or_default()).collect();
    let answer =
        SubAck { packet_id, properties: Properties::default(), reasons: List::from(&reasons[..]) };
    append(mqtt, &ServerPacket::SubAck(answer), out);
    decided.granted
}

/// Appends the last packet, which version 5 has; not before CONNACK ([MQTT-3.14.0-1]).
pub(crate) fn disconnect(mqtt: &Mqtt, reason: ReasonCode, server: Option<&str>, out: &mut Vec<u8>) {
    if mqtt.is_v5() && mqtt.link != Link::Asked {
        let reference = server.map(Property::ServerReference);
        let properties = Properties::from(reference.as_slice());
        append(mqtt, &ServerPacket::Disconnect(Disconnect { reason, properties }), out);
    }
}

/// Appends a packet; none if the client takes no packet of its length.
pub(crate) fn append(mqtt: &Mqtt, packet: &ServerPacket<'_>, out: &mut Vec<u8>) {
    let limits = Limits {
        packet_bytes_max: mqtt.packet_bytes_max,
        problem_information: mqtt.problem_information,
    };
    // The client does not get a packet that it has no room for (MQTT 5.0, section 3.1.2.11.4).
    let _ = packet.encode(mqtt.version.0, &limits, out);
}

/// A message on its way to a client, without its payload.
pub(crate) struct Outgoing<'a> {
    pub version: Version,
    pub packet_bytes_max: u32,
    pub topic: &'a str,
    pub alias: SentAlias,
    pub view: &'a RecordView<'a>,
    pub retain: bool,
    pub subscription_ids: &'a [SubscriptionId],
    /// The remaining lifetime of the message in seconds.
    pub expiry_s: Option<u32>,
    /// Gaps before the message.
    pub gaps: &'a [Box<str>],
    /// The place of the message, for clients that ask for it.
    pub place: Option<(PartitionId, Position)>,
}

/// The user property that has a gap.
const GAP: &str = "crore-gap";
/// The user property that has the position of a message.
const POSITION: &str = "crore-position";
/// The user property that has the partition of a message.
const PARTITION: &str = "crore-partition";
/// The user property that has the offset of the topic's message before this one; 0: none.
const PREV: &str = "crore-prev";

fn user<'a>(name: &'a str, value: &'a str) -> Property<'a> {
    Property::User(UserProperty { name, value })
}

/// Appends a message of the node's own for one session: its topic, the identifier of the
/// subscription (0: none), and the payload, JSON. QoS 0.
///
/// # Errors
/// The client takes no packet of this length.
pub(crate) fn own_message(
    mqtt: &Mqtt,
    (topic, identifier): (&str, u32),
    payload: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let properties = [Property::ContentType("application/json")];
    let id = SubscriptionId::new(identifier);
    let has_properties = mqtt.is_v5();
    let head = PublishHead {
        version: mqtt.version.0,
        topic,
        has_packet_id: false,
        has_alias: false,
        retain: false,
        subscription_ids: if has_properties { id.as_slice() } else { &[] },
        properties: Properties::from(if has_properties { &properties[..] } else { &[] }),
        message_expiry_s: None,
        payload_bytes: payload.len(),
    };
    let limits = Limits { packet_bytes_max: mqtt.packet_bytes_max, ..Limits::default() };
    let start = out.len();
    let holes = head.encode(&limits, out)?;
    holes.fill(&mut out[start..], Delivery::Zero, None);
    out.extend_from_slice(payload);
    Ok(())
}

impl Outgoing<'_> {
    /// Appends the packet up to its payload. `attempt`: the QoS, 1 or 2, the identifier, and
    /// whether it was sent before.
    ///
    /// # Errors
    /// The client takes no packet of this length.
    pub fn encode(
        &self,
        attempt: Option<(u8, u16, bool)>,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let place = self.place.map(|(partition, position)| {
            [position.to_string(), self.view.prev().to_string(), partition.0.to_string()]
        });
        let mut properties = Vec::new();
        if self.version.has_properties() {
            let text = |bytes| std::str::from_utf8(bytes).ok();
            if self.view.flags().has(Flags::PAYLOAD_FORMAT) {
                properties.push(Property::PayloadFormat(true));
            }
            if let Some(content_type) = self.view.content_type().and_then(text) {
                properties.push(Property::ContentType(content_type));
            }
            if let Some((topic, correlation)) = self.view.reply() {
                if let Some(topic) = text(topic).filter(|topic| !topic.is_empty()) {
                    properties.push(Property::ResponseTopic(topic));
                }
                if !correlation.is_empty() {
                    properties.push(Property::CorrelationData(correlation));
                }
            }
            for (name, value) in self.view.tags() {
                if let (Some(name), Some(value)) = (text(name), text(value)) {
                    properties.push(Property::User(UserProperty { name, value }));
                }
            }
            for gap in self.gaps {
                properties.push(user(GAP, gap));
            }
            if let Some([position, prev, partition]) = &place {
                properties.push(user(POSITION, position));
                properties.push(user(PREV, prev));
                properties.push(user(PARTITION, partition));
            }
        }
        let (topic, alias) = match self.alias {
            SentAlias::None => (self.topic, None),
            SentAlias::New(number) => (self.topic, Some(number)),
            SentAlias::Known(number) => ("", Some(number)),
        };
        let head = PublishHead {
            version: self.version,
            topic,
            has_packet_id: attempt.is_some(),
            has_alias: alias.is_some(),
            retain: self.retain,
            subscription_ids: self.subscription_ids,
            properties: Properties::from(&properties[..]),
            message_expiry_s: self.expiry_s,
            payload_bytes: self.view.payload().len(),
        };
        let limits = Limits { packet_bytes_max: self.packet_bytes_max, ..Limits::default() };
        let start = out.len();
        let holes = head.encode(&limits, out)?;
        let mut delivery = Delivery::Zero;
        if let Some((qos, id, is_repeat)) = attempt
            && let Some(packet_id) = PacketId::new(id)
        {
            let attempt = Attempt { packet_id, is_repeat };
            delivery = if qos == 2 { Delivery::Two(attempt) } else { Delivery::One(attempt) };
        }
        holes.fill(&mut out[start..], delivery, alias);
        Ok(())
    }
}
