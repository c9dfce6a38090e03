//! SUBSCRIBE, SUBACK, UNSUBSCRIBE and UNSUBACK (sections 3.8 to 3.11).

use super::header::PacketType;
use super::properties::{Place, Sender};
use super::reader::Reader;
use super::sink::{Body, Keep, Limits, Sink, write_answer, write_packet};
use super::topic::{check_filter, split_shared};
use super::{
    Element, EncodeError, List, MqttError, PacketId, Properties, Qos, ReasonCode, RetainHandling,
    Version,
};

/// Bits of the subscription options (section 3.8.3.1).
mod option {
    pub(super) const QOS: u8 = 0x03;
    pub(super) const NO_LOCAL: u8 = 0x04;
    pub(super) const RETAIN_AS_PUBLISHED: u8 = 0x08;
    pub(super) const RETAIN_HANDLING_SHIFT: u8 = 4;
    pub(super) const RESERVED: u8 = 0xC0;
}

/// SUBSCRIBE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subscribe<'a> {
    /// The identifier of the request.
    pub packet_id: PacketId,
    /// The subscription identifier, and user properties.
    pub properties: Properties<'a>,
    /// The requested subscriptions, at least one; each has its result in SUBACK.
    pub items: List<'a, SubscribeItem<'a>>,
}

/// One requested subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubscribeItem<'a> {
    /// The topic filter, which may be a shared one ([`split_shared`]).
    pub filter: &'a str,
    /// The highest QoS for messages to the client.
    pub qos: Qos,
    /// Whether the client's own messages are left out. Never with a shared filter.
    pub no_local: bool,
    /// Whether messages keep the publisher's retain flag.
    pub retain_as_published: bool,
    /// The retained messages that the subscription begins with.
    pub retain_handling: RetainHandling,
}

/// SUBACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubAck<'a> {
    /// The identifier of the request.
    pub packet_id: PacketId,
    /// Reason string and user properties.
    pub properties: Properties<'a>,
    /// One result for each requested subscription, in their order: the granted QoS or a failure.
    /// Versions 3.1 and 3.1.1 have one code for all failures, [`ReasonCode::Unspecified`].
    pub reasons: List<'a, ReasonCode>,
}

/// UNSUBSCRIBE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unsubscribe<'a> {
    /// The identifier of the request.
    pub packet_id: PacketId,
    /// User properties.
    pub properties: Properties<'a>,
    /// The filters of the subscriptions to end, at least one.
    pub filters: List<'a, &'a str>,
}

/// UNSUBACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnsubAck<'a> {
    /// The identifier of the request.
    pub packet_id: PacketId,
    /// Reason string and user properties.
    pub properties: Properties<'a>,
    /// One result for each filter, in their order; empty in versions 3.1 and 3.1.1.
    pub reasons: List<'a, ReasonCode>,
}

impl SubscribeItem<'_> {
    fn options(&self) -> u8 {
        let bit = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        self.qos as u8
            | bit(self.no_local, option::NO_LOCAL)
            | bit(self.retain_as_published, option::RETAIN_AS_PUBLISHED)
            | (self.retain_handling as u8) << option::RETAIN_HANDLING_SHIFT
    }

    /// Checks the filter, and the options that the version has.
    fn check(&self, version: Version) -> Result<(), MqttError> {
        if !version.has_properties() && self.options() & !option::QOS != 0 {
            return Err(MqttError::SubscriptionOptions);
        }
        check_filter(self.filter)?;
        if self.no_local && split_shared(self.filter)?.is_some() {
            return Err(MqttError::NoLocalShared);
        }
        Ok(())
    }
}

#[allow(private_interfaces, private_bounds)]
impl<'a> Element<'a> for SubscribeItem<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, MqttError> {
        let filter = reader.string()?;
        let options = reader.byte()?;
        if options & option::RESERVED != 0 {
            return Err(MqttError::SubscriptionOptions);
        }
        let qos = Qos::from_bits(options & option::QOS).ok_or(MqttError::SubscriptionQos)?;
        let handling = options >> option::RETAIN_HANDLING_SHIFT;
        Ok(Self {
            filter,
            qos,
            no_local: options & option::NO_LOCAL != 0,
            retain_as_published: options & option::RETAIN_AS_PUBLISHED != 0,
            retain_handling: RetainHandling::from_bits(handling)
                .ok_or(MqttError::RetainHandling)?,
        })
    }

    fn write<S: Sink>(&self, version: Version, out: &mut S) {
        out.string(self.filter);
        out.byte(if version.has_properties() { self.options() } else { self.qos as u8 });
    }
}

/// Reads the packet identifier and the properties, which begin all four packets.
fn read_start<'a>(
    reader: &mut Reader<'a>,
    version: Version,
    place: Place,
    sender: Sender,
) -> Result<(PacketId, Properties<'a>), MqttError> {
    let packet_id = reader.packet_id()?;
    let properties = if version.has_properties() {
        Properties::read(reader, place, sender)?
    } else {
        Properties::default()
    };
    Ok((packet_id, properties))
}

pub(super) fn read_subscribe(
    mut reader: Reader<'_>,
    version: Version,
) -> Result<Subscribe<'_>, MqttError> {
    let (packet_id, properties) =
        read_start(&mut reader, version, Place::Subscribe, Sender::Client)?;
    let items = List::read(&mut reader, |item: SubscribeItem<'_>| item.check(version))?;
    Ok(Subscribe { packet_id, properties, items })
}

pub(super) fn read_unsubscribe(
    mut reader: Reader<'_>,
    version: Version,
) -> Result<Unsubscribe<'_>, MqttError> {
    let (packet_id, properties) =
        read_start(&mut reader, version, Place::Unsubscribe, Sender::Client)?;
    let filters = List::read(&mut reader, check_filter)?;
    Ok(Unsubscribe { packet_id, properties, filters })
}

pub(super) fn read_suback(
    mut reader: Reader<'_>,
    version: Version,
) -> Result<SubAck<'_>, MqttError> {
    let (packet_id, properties) = read_start(&mut reader, version, Place::SubAck, Sender::Server)?;
    let reasons = List::read(&mut reader, |reason: ReasonCode| {
        let is_known =
            version.has_properties() || !reason.is_failure() || reason == ReasonCode::Unspecified;
        check_reason(reason, PacketType::SubAck, is_known)
    })?;
    Ok(SubAck { packet_id, properties, reasons })
}

pub(super) fn read_unsuback(
    mut reader: Reader<'_>,
    version: Version,
) -> Result<UnsubAck<'_>, MqttError> {
    let (packet_id, properties) =
        read_start(&mut reader, version, Place::UnsubAck, Sender::Server)?;
    let reasons = if version.has_properties() {
        List::read(&mut reader, |reason| check_reason(reason, PacketType::UnsubAck, true))?
    } else {
        List::default()
    };
    reader.end()?;
    Ok(UnsubAck { packet_id, properties, reasons })
}

fn check_reason(reason: ReasonCode, kind: PacketType, is_known: bool) -> Result<(), MqttError> {
    if is_known && reason.is_permitted_in(kind) {
        Ok(())
    } else {
        Err(MqttError::InvalidReasonCode(reason.byte()))
    }
}

/// A packet identifier, properties, and a list.
struct ListBody<'a, T> {
    packet_id: PacketId,
    properties: &'a Properties<'a>,
    list: List<'a, T>,
    version: Version,
}

impl<'a, T: Element<'a>> Body for ListBody<'a, T> {
    fn write<S: Sink>(&self, keep: Keep, out: &mut S) {
        out.packet_id(self.packet_id);
        if self.version.has_properties() {
            self.properties.write(keep, out);
        }
        self.list.write(self.version, out);
    }
}

pub(super) fn write_subscribe(
    subscribe: &Subscribe<'_>,
    version: Version,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let Subscribe { packet_id, properties, items } = subscribe;
    let body = ListBody { packet_id: *packet_id, properties, list: *items, version };
    write_packet(PacketType::Subscribe.first_byte(), &body, limits, out)
}

pub(super) fn write_unsubscribe(
    unsubscribe: &Unsubscribe<'_>,
    version: Version,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let Unsubscribe { packet_id, properties, filters } = unsubscribe;
    let body = ListBody { packet_id: *packet_id, properties, list: *filters, version };
    write_packet(PacketType::Unsubscribe.first_byte(), &body, limits, out)
}

pub(super) fn write_suback(
    suback: &SubAck<'_>,
    version: Version,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let SubAck { packet_id, properties, reasons } = suback;
    let body = ListBody { packet_id: *packet_id, properties, list: *reasons, version };
    write_answer(PacketType::SubAck.first_byte(), &body, limits, out)
}

pub(super) fn write_unsuback(
    unsuback: &UnsubAck<'_>,
    version: Version,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let UnsubAck { packet_id, properties, reasons } = unsuback;
    let list = if version.has_properties() { *reasons } else { List::default() };
    let body = ListBody { packet_id: *packet_id, properties, list, version };
    write_answer(PacketType::UnsubAck.first_byte(), &body, limits, out)
}
