//! Generated packets: owned parts, from which both sides' packets are built.

use proptest::collection::vec;
use proptest::prelude::*;
use std::num::{NonZeroU16, NonZeroU32};
use wire::mqtt::{
    Ack, Attempt, Auth, ClientPacket, ConnAck, Connect, Delivery, Disconnect, PacketId, PacketType,
    Properties, Property, Publish, Qos, ReasonCode, RetainHandling, Secret, ServerPacket, SubAck,
    Subscribe, SubscribeItem, SubscriptionId, UnsubAck, Unsubscribe, UserProperty, Version, Will,
};

/// The parts of one packet. A packet uses some of them.
#[derive(Clone, Debug)]
pub struct Parts {
    pub version: Version,
    pub kind: usize,
    pub packet_id: PacketId,
    pub flags: u8,
    pub number: u16,
    pub topic: String,
    pub text: Option<String>,
    pub bytes: Vec<u8>,
    pub properties: Vec<PropertyParts>,
    pub will_properties: Vec<PropertyParts>,
    pub filters: Vec<(String, u8)>,
    pub reasons: Vec<u8>,
}

/// The parts of one property.
#[derive(Clone, Debug)]
pub struct PropertyParts {
    id: prop::sample::Index,
    number: u32,
    text: String,
    other: String,
}

/// All parts, for one version or all.
pub fn parts() -> impl Strategy<Value = Parts> {
    let version =
        prop_oneof![1 => Just(Version::V3_1), 1 => Just(Version::V3_1_1), 3 => Just(Version::V5)];
    let property = (any::<prop::sample::Index>(), any::<u32>(), "[a-zé€/]{1,9}", "[^\0]{0,9}")
        .prop_map(|(id, number, text, other)| PropertyParts { id, number, text, other });
    let properties = vec(property, 0..6);
    let filter = prop_oneof![
        3 => "[a-zé/$]{1,9}",
        1 => "([a-z]{0,2}|[+])(/([a-z]{0,2}|[+])){1,3}(/#)?",
        1 => Just("#".to_string()),
        1 => "[$]share/[a-z]{1,3}/[a-z]{0,2}/#",
    ];
    let payload = prop_oneof![5 => vec(any::<u8>(), 0..40), 1 => Just(vec![7; 20_000])];
    let head = (version, 0..11usize, 1..=u16::MAX, any::<u8>(), any::<u16>());
    let text = proptest::option::of("[^\0]{0,9}");
    let fields = ("[a-zé€ /$]{1,20}", text, payload);
    let lists = (properties.clone(), properties, vec((filter, any::<u8>()), 1..5));
    (head, fields, lists, vec(any::<u8>(), 1..5)).prop_map(|(head, fields, lists, reasons)| Parts {
        version: head.0,
        kind: head.1,
        packet_id: PacketId::new(head.2).expect("not 0"),
        flags: head.3,
        number: head.4,
        topic: fields.0,
        text: fields.1,
        bytes: fields.2,
        properties: lists.0,
        will_properties: lists.1,
        filters: lists.2,
        reasons,
    })
}

/// The identifiers that a packet may contain (table 2-4), without those of the other sender.
fn permitted(kind: &str) -> &'static [u8] {
    match kind {
        "connect" => &[0x11, 0x15, 0x17, 0x19, 0x21, 0x22, 0x26, 0x27],
        "will" => &[0x01, 0x02, 0x03, 0x08, 0x09, 0x18, 0x26],
        "connack" => &[
            0x11, 0x12, 0x13, 0x15, 0x1A, 0x1C, 0x1F, 0x21, 0x22, 0x24, 0x25, 0x26, 0x27, 0x28,
            0x29, 0x2A,
        ],
        "publish from client" => &[0x01, 0x02, 0x03, 0x08, 0x09, 0x23, 0x26],
        "publish from server" => &[0x01, 0x02, 0x03, 0x08, 0x09, 0x0B, 0x23, 0x26],
        "subscribe" => &[0x0B, 0x26],
        "unsubscribe" => &[0x26],
        "answer" => &[0x1F, 0x26],
        "disconnect from client" => &[0x11, 0x1C, 0x1F, 0x26],
        "disconnect from server" => &[0x1C, 0x1F, 0x26],
        other => panic!("{other}"),
    }
}

/// Builds the permitted properties, each once unless it may repeat.
fn properties<'a>(parts: &'a [PropertyParts], version: Version, kind: &str) -> Vec<Property<'a>> {
    let mut properties: Vec<Property<'a>> = Vec::new();
    if version != Version::V5 {
        return properties;
    }
    for part in parts {
        let property = property(part, *part.id.get(permitted(kind)));
        let may_repeat =
            property.id() == 0x26 || property.id() == 0x0B && kind == "publish from server";
        if may_repeat || !properties.iter().any(|other| other.id() == property.id()) {
            properties.push(property);
            // Data belongs to a method.
            if property.id() == 0x15 && part.number % 2 == 0 {
                properties.push(Property::AuthenticationData(Secret(part.other.as_bytes())));
            }
        }
    }
    properties
}

fn property(part: &PropertyParts, id: u8) -> Property<'_> {
    let PropertyParts { number, text, other, .. } = part;
    let (number, flag, short) = (*number, number & 1 == 1, *number as u16);
    let short_not_0 = NonZeroU16::new(short).unwrap_or(NonZeroU16::MAX);
    let subscription = SubscriptionId::new(number % (1 << 28)).or(SubscriptionId::new(1));
    match id {
        0x01 => Property::PayloadFormat(flag),
        0x02 => Property::MessageExpiry(number),
        0x03 => Property::ContentType(other),
        0x08 => Property::ResponseTopic(text),
        0x09 => Property::CorrelationData(other.as_bytes()),
        0x0B => Property::SubscriptionId(subscription.expect("not 0")),
        0x11 => Property::SessionExpiry(number),
        0x12 => Property::AssignedClientId(other),
        0x13 => Property::ServerKeepAlive(short),
        0x15 => Property::AuthenticationMethod(other),
        0x17 => Property::RequestProblemInformation(flag),
        0x18 => Property::WillDelay(number),
        0x19 => Property::RequestResponseInformation(flag),
        0x1A => Property::ResponseInformation(other),
        0x1C => Property::ServerReference(other),
        0x1F => Property::ReasonString(other),
        0x21 => Property::ReceiveMaximum(short_not_0),
        0x22 => Property::TopicAliasMaximum(short),
        0x23 => Property::TopicAlias(short_not_0),
        0x24 => Property::MaximumQos(if flag { Qos::One } else { Qos::Zero }),
        0x25 => Property::RetainAvailable(flag),
        0x27 => Property::MaximumPacketSize(NonZeroU32::new(number).unwrap_or(NonZeroU32::MAX)),
        0x28 => Property::WildcardSubscriptionAvailable(flag),
        0x29 => Property::SubscriptionIdAvailable(flag),
        0x2A => Property::SharedSubscriptionAvailable(flag),
        _ => Property::User(UserProperty { name: text, value: other }),
    }
}

impl Parts {
    fn has(&self, bit: u8) -> bool {
        self.flags & 1 << bit != 0
    }

    pub fn delivery(&self) -> Delivery {
        let attempt = Attempt { packet_id: self.packet_id, is_repeat: self.has(0) };
        match self.flags >> 1 & 3 {
            1 => Delivery::One(attempt),
            2 => Delivery::Two(attempt),
            _ => Delivery::Zero,
        }
    }

    fn reason(&self, kind: PacketType, byte: u8) -> ReasonCode {
        let is_possible = |code: &&ReasonCode| match self.version {
            Version::V5 => code.is_permitted_in(kind),
            _ if kind == PacketType::SubAck => code.byte() <= 2 || code.byte() == 0x80,
            _ if kind == PacketType::ConnAck => {
                (0..6).any(|number| ReasonCode::from_v3_return_code(number) == Some(**code))
            }
            _ => **code == ReasonCode::Success,
        };
        let codes: Vec<&ReasonCode> = ReasonCode::ALL.iter().filter(is_possible).collect();
        *codes[usize::from(byte) % codes.len()]
    }

    fn publish<'a>(&'a self, properties: &'a [Property<'a>]) -> Publish<'a> {
        let has_alias = properties.iter().any(|property| property.id() == 0x23);
        Publish {
            delivery: self.delivery(),
            retain: self.has(3),
            topic: if has_alias && self.has(4) { "" } else { &self.topic },
            properties: properties.into(),
            payload: &self.bytes,
        }
    }

    fn ack<'a>(&'a self, kind: PacketType, properties: &'a [Property<'a>]) -> Ack<'a> {
        Ack {
            packet_id: self.packet_id,
            reason: self.reason(kind, self.reasons[0]),
            properties: properties.into(),
        }
    }

    fn auth<'a>(&'a self, reason: ReasonCode, properties: &'a mut Vec<Property<'a>>) -> Auth<'a> {
        properties.push(Property::AuthenticationMethod(&self.topic));
        Auth { reason, properties: properties.as_slice().into() }
    }

    fn connect<'a>(
        &'a self,
        properties: Properties<'a>,
        of_will: &'a [Property<'a>],
    ) -> Connect<'a> {
        let will = self.has(0).then(|| Will {
            qos: self.delivery().qos(),
            retain: self.has(3),
            topic: &self.topic,
            payload: &self.bytes,
            properties: of_will.into(),
        });
        let has_password = self.has(5) && (self.text.is_some() || self.version == Version::V5);
        Connect {
            version: self.version,
            clean_start: self.has(4),
            keep_alive_s: self.number,
            properties,
            client_id: if self.has(6) { "" } else { &self.topic },
            will,
            user_name: self.text.as_deref(),
            password: has_password.then_some(Secret(&self.bytes)),
        }
    }

    fn items(&self) -> Vec<SubscribeItem<'_>> {
        self.filters.iter().map(|(filter, options)| self.item(filter, *options)).collect()
    }

    fn item<'a>(&self, filter: &'a str, options: u8) -> SubscribeItem<'a> {
        let has_options = self.version == Version::V5;
        let handling = RetainHandling::from_bits(options >> 4 & 3).filter(|_| has_options);
        SubscribeItem {
            filter,
            qos: Qos::from_bits(options & 3).unwrap_or_default(),
            no_local: has_options && !filter.starts_with("$share/") && options & 4 != 0,
            retain_as_published: has_options && options & 8 != 0,
            retain_handling: handling.unwrap_or_default(),
        }
    }
}

/// Builds a client's packet.
pub fn with_client(parts: &Parts, then: impl FnOnce(&ClientPacket<'_>)) {
    let version = parts.version;
    let kind = match parts.kind {
        0 => "connect",
        1 => "publish from client",
        6 => "subscribe",
        7 => "unsubscribe",
        9 => "disconnect from client",
        _ => "answer",
    };
    let mut properties = properties(&parts.properties, version, kind);
    let of_will = self::properties(&parts.will_properties, version, "will");
    let (packet_id, items) = (parts.packet_id, parts.items());
    let filters: Vec<&str> = parts.filters.iter().map(|(filter, _)| filter.as_str()).collect();
    then(&match parts.kind {
        0 => ClientPacket::Connect(parts.connect(properties.as_slice().into(), &of_will)),
        1 => ClientPacket::Publish(parts.publish(&properties)),
        2 => ClientPacket::PubAck(parts.ack(PacketType::PubAck, &properties)),
        3 => ClientPacket::PubRec(parts.ack(PacketType::PubRec, &properties)),
        4 => ClientPacket::PubRel(parts.ack(PacketType::PubRel, &properties)),
        5 => ClientPacket::PubComp(parts.ack(PacketType::PubComp, &properties)),
        6 => {
            let (properties, items) = (properties.as_slice().into(), items.as_slice().into());
            ClientPacket::Subscribe(Subscribe { packet_id, properties, items })
        }
        7 => {
            let (properties, filters) = (properties.as_slice().into(), filters.as_slice().into());
            ClientPacket::Unsubscribe(Unsubscribe { packet_id, properties, filters })
        }
        9 => ClientPacket::Disconnect(Disconnect {
            reason: parts.reason(PacketType::Disconnect, parts.reasons[0]),
            properties: properties.as_slice().into(),
        }),
        10 if version == Version::V5 => {
            ClientPacket::Auth(parts.auth(ReasonCode::Reauthenticate, &mut properties))
        }
        _ => ClientPacket::PingReq,
    });
}

/// Builds a server's packet.
pub fn with_server(parts: &Parts, then: impl FnOnce(&ServerPacket<'_>)) {
    let version = parts.version;
    let kind = match parts.kind {
        0 => "connack",
        1 => "publish from server",
        9 => "disconnect from server",
        _ => "answer",
    };
    let mut properties = properties(&parts.properties, version, kind);
    let packet_id = parts.packet_id;
    let reasons = |kind| -> Vec<ReasonCode> {
        parts.reasons.iter().map(|byte| parts.reason(kind, *byte)).collect()
    };
    let (of_suback, of_unsuback) = (reasons(PacketType::SubAck), reasons(PacketType::UnsubAck));
    then(&match parts.kind {
        0 => {
            let reason = parts.reason(PacketType::ConnAck, parts.reasons[0]);
            let session_present =
                parts.has(0) && reason == ReasonCode::Success && version != Version::V3_1;
            let properties = properties.as_slice().into();
            ServerPacket::ConnAck(ConnAck { session_present, reason, properties })
        }
        1 => ServerPacket::Publish(parts.publish(&properties)),
        2 => ServerPacket::PubAck(parts.ack(PacketType::PubAck, &properties)),
        3 => ServerPacket::PubRec(parts.ack(PacketType::PubRec, &properties)),
        4 => ServerPacket::PubRel(parts.ack(PacketType::PubRel, &properties)),
        5 => ServerPacket::PubComp(parts.ack(PacketType::PubComp, &properties)),
        6 => {
            let (properties, reasons) = (properties.as_slice().into(), of_suback.as_slice().into());
            ServerPacket::SubAck(SubAck { packet_id, properties, reasons })
        }
        7 => {
            let has_reasons = version == Version::V5;
            let reasons = if has_reasons { of_unsuback.as_slice() } else { &[] }.into();
            let properties = properties.as_slice().into();
            ServerPacket::UnsubAck(UnsubAck { packet_id, properties, reasons })
        }
        9 if version == Version::V5 => ServerPacket::Disconnect(Disconnect {
            reason: parts.reason(PacketType::Disconnect, parts.reasons[0]),
            properties: properties.as_slice().into(),
        }),
        10 if version == Version::V5 => {
            ServerPacket::Auth(parts.auth(ReasonCode::ContinueAuthentication, &mut properties))
        }
        _ => ServerPacket::PingResp,
    });
}
