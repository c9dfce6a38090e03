//! PUBLISH (section 3.3), the same in both directions.

use super::header::{DUP, PacketType, RETAIN};
use super::properties::{Place, Sender};
use super::property::id;
use super::reader::Reader;
use super::sink::{Body, Keep, Limits, Sink, write_packet};
use super::topic::has_wildcard;
use super::{EncodeError, MqttError, PacketId, Properties, Qos, Version};

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Publish<'a> {
    /// QoS, and the identifier if there is one.
    pub delivery: Delivery,
    /// From a client: the message is to be retained. From a server: the message was retained.
    pub retain: bool,
    /// The topic name, without wildcards. Empty only in MQTT 5.0, and only with a topic alias.
    pub topic: &'a str,
    /// Properties of the message; an alias is the connection's.
    pub properties: Properties<'a>,
    /// The content, which may be empty.
    pub payload: &'a [u8],
}

/// The QoS of a message, with the fields that it has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Delivery {
    /// QoS 0, which has neither identifier nor DUP (MQTT-2.2.1-2, MQTT-3.3.1-2).
    Zero,
    /// QoS 1.
    One(Attempt),
    /// QoS 2.
    Two(Attempt),
}

/// One attempt to deliver a message of QoS 1 or 2.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Attempt {
    /// The identifier.
    pub packet_id: PacketId,
    /// Whether an earlier attempt may have arrived (DUP).
    pub is_repeat: bool,
}

impl Delivery {
    /// The QoS.
    #[must_use]
    pub const fn qos(self) -> Qos {
        match self {
            Self::Zero => Qos::Zero,
            Self::One(_) => Qos::One,
            Self::Two(_) => Qos::Two,
        }
    }

    /// The attempt; `None` for QoS 0.
    #[must_use]
    pub const fn attempt(self) -> Option<Attempt> {
        match self {
            Self::Zero => None,
            Self::One(attempt) | Self::Two(attempt) => Some(attempt),
        }
    }

    /// The bits of QoS and DUP in the first byte.
    pub(super) fn flags(self) -> u8 {
        let dup = match self.attempt() {
            Some(Attempt { is_repeat: true, .. }) => DUP,
            _ => 0,
        };
        (self.qos() as u8) << 1 | dup
    }
}

/// Reads a PUBLISH whose first byte was checked.
pub(super) fn read_publish<'a>(
    first: u8,
    mut reader: Reader<'a>,
    version: Version,
    sender: Sender,
) -> Result<Publish<'a>, MqttError> {
    let topic = reader.string()?;
    if has_wildcard(topic) || topic.is_empty() && !version.has_properties() {
        return Err(MqttError::TopicName);
    }
    let qos = Qos::from_bits(first >> 1 & 3).ok_or(MqttError::InvalidQos)?;
    let delivery = if qos == Qos::Zero {
        Delivery::Zero
    } else {
        let attempt = Attempt { packet_id: reader.packet_id()?, is_repeat: first & DUP != 0 };
        match qos {
            Qos::Two => Delivery::Two(attempt),
            _ => Delivery::One(attempt),
        }
    };
    let properties = if version.has_properties() {
        Properties::read(&mut reader, Place::Publish, sender)?
    } else {
        Properties::default()
    };
    if topic.is_empty() && !properties.has(id::TOPIC_ALIAS) {
        return Err(MqttError::TopicMissing);
    }
    let payload = reader.payload();
    Ok(Publish { delivery, retain: first & RETAIN != 0, topic, properties, payload })
}

pub(super) fn write_publish(
    publish: &Publish<'_>,
    version: Version,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let retain = if publish.retain { RETAIN } else { 0 };
    let first = PacketType::Publish.first_byte() | publish.delivery.flags() | retain;
    write_packet(first, &PublishBody { publish, version }, limits, out)
}

struct PublishBody<'a> {
    publish: &'a Publish<'a>,
    version: Version,
}

impl Body for PublishBody<'_> {
    fn write<S: Sink>(&self, keep: Keep, out: &mut S) {
        out.string(self.publish.topic);
        if let Some(attempt) = self.publish.delivery.attempt() {
            out.packet_id(attempt.packet_id);
        }
        if self.version.has_properties() {
            self.publish.properties.write(keep, out);
        }
        out.bytes(self.publish.payload);
    }
}
