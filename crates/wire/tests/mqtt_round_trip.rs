//! Generated MQTT packets survive encoding and decoding, alone, in a stream, and within the
//! receiver's limits.

mod drive;
#[path = "mqtt/generate.rs"]
mod mqtt_generate;

use drive::check_cuts;
use mqtt_generate::{Parts, parts, with_client, with_server};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::num::NonZeroU16;
use wire::Step;
use wire::mqtt::{
    ClientPacket, Connect, EncodeError, Limits, PACKET_BYTES_MAX, Properties, Property, Publish,
    PublishHead, ServerPacket, SubscriptionId, Version,
};

const NO_LIMITS: Limits = Limits { packet_bytes_max: PACKET_BYTES_MAX, problem_information: true };

fn client_bytes(parts: &Parts) -> Vec<u8> {
    let mut bytes = Vec::new();
    with_client(parts, |packet| packet.encode(parts.version, &NO_LIMITS, &mut bytes).unwrap());
    bytes
}

fn server_bytes(parts: &Parts) -> Vec<u8> {
    let mut bytes = Vec::new();
    with_server(parts, |packet| packet.encode(parts.version, &NO_LIMITS, &mut bytes).unwrap());
    bytes
}

/// The properties of a server's packet, without those that it may drop.
fn necessary<'a>(properties: &Properties<'a>, drops: &[u8]) -> Vec<Property<'a>> {
    properties.iter().filter(|property| !drops.contains(&property.id())).collect()
}

fn answer_properties<'a>(packet: &ServerPacket<'a>) -> Option<Properties<'a>> {
    match packet {
        ServerPacket::ConnAck(packet) => Some(packet.properties),
        ServerPacket::PubAck(packet)
        | ServerPacket::PubRec(packet)
        | ServerPacket::PubRel(packet)
        | ServerPacket::PubComp(packet) => Some(packet.properties),
        ServerPacket::SubAck(packet) => Some(packet.properties),
        ServerPacket::UnsubAck(packet) => Some(packet.properties),
        ServerPacket::Disconnect(packet) => Some(packet.properties),
        ServerPacket::Auth(packet) => Some(packet.properties),
        ServerPacket::Publish(_) | ServerPacket::PingResp => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x6d71_7474),
        ..ProptestConfig::default()
    })]

    #[test]
    fn packets_of_clients_survive(parts in parts()) {
        let bytes = client_bytes(&parts);
        let version = (parts.kind != 0).then_some(parts.version);
        with_client(&parts, |packet| {
            let step = ClientPacket::decode(version, PACKET_BYTES_MAX, &bytes);
            assert_eq!(step, Ok(Step::Done { value: *packet, consumed: bytes.len() }));
        });
    }

    #[test]
    fn packets_of_servers_survive(parts in parts()) {
        let bytes = server_bytes(&parts);
        with_server(&parts, |packet| {
            let step = ServerPacket::decode(parts.version, PACKET_BYTES_MAX, &bytes);
            assert_eq!(step, Ok(Step::Done { value: *packet, consumed: bytes.len() }));
        });
    }

    #[test]
    fn a_stream_decodes_equally_for_all_cuts(
        first in parts(), others in vec(parts(), 0..5), seed: u64,
        damage in proptest::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        let version = first.version;
        let in_version = |parts: &Parts, kind| Parts { version, kind, ..parts.clone() };
        let connect = in_version(&first, 0);
        let mut client = client_bytes(&connect);
        let mut server = server_bytes(&connect);
        for parts in &others {
            client.extend(client_bytes(&in_version(parts, parts.kind.max(1))));
            server.extend(server_bytes(&in_version(parts, parts.kind)));
        }
        if let Some((at, byte)) = damage {
            let place = at.index(client.len());
            client[place] = byte;
            let place = at.index(server.len());
            server[place] = byte;
        } else {
            let lines = drive::mqtt_client(&client, None, PACKET_BYTES_MAX, drive::Cuts::Whole);
            prop_assert_eq!(lines.len(), others.len() + 2);
        }
        check_cuts(seed, |cuts| drive::mqtt_client(&client, None, 30_000, cuts));
        check_cuts(seed, |cuts| drive::mqtt_server(&server, version, 30_000, cuts));
    }

    #[test]
    fn an_answer_drops_text_to_fit(parts in parts(), packet_bytes_max in 0..200u32) {
        let whole = server_bytes(&parts);
        with_server(&parts, |packet| {
            let limits = Limits { packet_bytes_max, problem_information: true };
            let mut bytes = b"before".to_vec();
            let result = packet.encode(parts.version, &limits, &mut bytes);
            let encoded = &bytes[6..];
            // PINGRESP has no limits.
            if result.is_err() {
                assert_eq!(result, Err(EncodeError::PacketTooLarge));
                assert!(encoded.is_empty() && whole.len() > packet_bytes_max as usize);
                return;
            }
            let is_ping = *packet == ServerPacket::PingResp;
            assert!(encoded.len() <= packet_bytes_max as usize || is_ping);
            if whole.len() <= packet_bytes_max as usize {
                assert_eq!(encoded, whole, "nothing is dropped without need");
            }
            let step = ServerPacket::decode(parts.version, PACKET_BYTES_MAX, encoded);
            let (decoded, _) = step.unwrap().done().unwrap();
            if let Some(properties) = answer_properties(packet) {
                let left = answer_properties(&decoded).unwrap();
                assert_eq!(necessary(&left, &[0x1F, 0x26]), necessary(&properties, &[0x1F, 0x26]));
                // User properties are dropped first, and all or none of them.
                let left: Vec<_> = left.iter().collect();
                let forms = [&[][..], &[0x26], &[0x1F, 0x26]];
                assert!(forms.iter().any(|drops| left == necessary(&properties, drops)));
            } else {
                assert_eq!(decoded, *packet);
            }
        });
    }

    #[test]
    fn a_client_without_problem_information_gets_no_text(parts in parts()) {
        with_server(&parts, |packet| {
            let limits = Limits { problem_information: false, ..NO_LIMITS };
            let mut bytes = Vec::new();
            packet.encode(parts.version, &limits, &mut bytes).unwrap();
            let step = ServerPacket::decode(parts.version, PACKET_BYTES_MAX, &bytes);
            let (decoded, _) = step.unwrap().done().unwrap();
            let is_exempt = matches!(
                packet,
                ServerPacket::ConnAck(_) | ServerPacket::Disconnect(_) | ServerPacket::Publish(_)
            );
            if is_exempt {
                assert_eq!(decoded, *packet);
            } else if let Some(properties) = answer_properties(&decoded) {
                assert_eq!(properties.reason_string(), None);
                assert_eq!(properties.user().count(), 0);
            }
        });
    }

    #[test]
    fn a_filled_head_equals_the_whole_packet(
        parts in parts(), ids in vec(1..=268_435_455u32, 0..4), alias in proptest::option::of(1..=u16::MAX),
        expiry in proptest::option::of(any::<(u32, u32)>()), version in prop_oneof![
            Just(Version::V3_1), Just(Version::V3_1_1), Just(Version::V5)],
    ) {
        let parts = Parts { version: Version::V5, kind: 1, ..parts };
        let alias = alias.and_then(NonZeroU16::new);
        let ids: Vec<SubscriptionId> = ids.into_iter().filter_map(SubscriptionId::new).collect();
        with_server(&parts, |packet| {
            let ServerPacket::Publish(publish) = packet else { panic!("{packet:?}") };
            let of_message = necessary(&publish.properties, &[0x02, 0x0B, 0x23]);
            let head = PublishHead {
                version,
                topic: &parts.topic,
                has_packet_id: publish.delivery.attempt().is_some(),
                has_alias: alias.is_some(),
                retain: publish.retain,
                subscription_ids: &ids,
                properties: of_message.as_slice().into(),
                message_expiry_s: expiry.map(|(first, _)| first),
                payload_bytes: publish.payload.len(),
            };
            let mut bytes = b"before".to_vec();
            let holes = head.encode(&NO_LIMITS, &mut bytes).unwrap();
            let mut bytes = bytes.split_off(6);
            holes.fill(&mut bytes, publish.delivery, alias);
            if let Some((_, left)) = expiry {
                holes.fill_message_expiry(&mut bytes, left);
            }
            bytes.extend_from_slice(publish.payload);

            let mut properties: Vec<Property<'_>> = alias.map(Property::TopicAlias).into_iter().collect();
            properties.extend(ids.iter().copied().map(Property::SubscriptionId));
            properties.extend(&of_message);
            properties.extend(expiry.map(|(_, left)| Property::MessageExpiry(left)));
            let properties: &[_] = if version == Version::V5 { &properties } else { &[] };
            let whole = Publish { topic: &parts.topic, properties: properties.into(), ..*publish };
            let mut expected = Vec::new();
            ServerPacket::Publish(whole).encode(version, &NO_LIMITS, &mut expected).unwrap();
            assert_eq!(bytes, expected);

            let limits = Limits { packet_bytes_max: expected.len() as u32, ..NO_LIMITS };
            assert_eq!(head.encode(&limits, &mut Vec::new()), Ok(holes));
            let limits = Limits { packet_bytes_max: expected.len() as u32 - 1, ..NO_LIMITS };
            let mut out = Vec::new();
            assert_eq!(head.encode(&limits, &mut out), Err(EncodeError::PacketTooLarge));
            assert!(out.is_empty());
        });
    }
}

#[test]
fn fields_that_are_too_long_are_refused() {
    let text = "x".repeat(65_536);
    let publish = |topic| {
        ClientPacket::Publish(Publish {
            delivery: wire::mqtt::Delivery::Zero,
            retain: false,
            topic,
            properties: Properties::default(),
            payload: b"",
        })
    };
    let mut out = Vec::new();
    let result = publish(&text).encode(Version::V5, &NO_LIMITS, &mut out);
    assert_eq!((result, out.len()), (Err(EncodeError::FieldTooLong), 0));
    assert!(publish(&text[1..]).encode(Version::V5, &NO_LIMITS, &mut out).is_ok());
}

#[test]
fn packets_that_a_version_lacks_are_refused() {
    use wire::mqtt::{Ack, Auth, ConnAck, Disconnect, PacketId, ReasonCode, Secret};
    let properties = Properties::default();
    let failure = Ack { reason: ReasonCode::QuotaExceeded, ..Ack::success(PacketId::MIN) };
    let connack =
        ConnAck { session_present: false, reason: ReasonCode::MalformedPacket, properties };
    let disconnect = Disconnect { reason: ReasonCode::Success, properties };
    let auth = Auth { reason: ReasonCode::ContinueAuthentication, properties };
    for version in [Version::V3_1, Version::V3_1_1] {
        for packet in [
            ServerPacket::PubAck(failure),
            ServerPacket::ConnAck(connack),
            ServerPacket::Disconnect(disconnect),
            ServerPacket::Auth(auth),
        ] {
            let mut out = Vec::new();
            let result = packet.encode(version, &NO_LIMITS, &mut out);
            assert_eq!((result, out.len()), (Err(EncodeError::NotInVersion), 0), "{packet:?}");
        }
        let connect = Connect {
            version,
            clean_start: true,
            keep_alive_s: 0,
            properties,
            client_id: "a",
            will: None,
            user_name: None,
            password: Some(Secret(b"p")),
        };
        let result = ClientPacket::Connect(connect).encode(version, &NO_LIMITS, &mut Vec::new());
        assert_eq!(result, Err(EncodeError::NotInVersion));
        assert!(!connect_with("", version, false).is_client_id_permitted());
        let is_clean_enough = version == Version::V3_1_1;
        assert_eq!(connect_with("", version, true).is_client_id_permitted(), is_clean_enough);
        assert!(connect_with("a", version, false).is_client_id_permitted());
    }
    assert!(connect_with("", Version::V5, false).is_client_id_permitted());
}

fn connect_with(client_id: &str, version: Version, clean_start: bool) -> Connect<'_> {
    Connect {
        version,
        clean_start,
        keep_alive_s: 0,
        properties: Properties::default(),
        client_id,
        will: None,
        user_name: None,
        password: None,
    }
}

/// The packet becomes as short as the receiver's maximum demands, and no shorter.
#[test]
fn texts_are_dropped_in_their_order() {
    use wire::mqtt::{Ack, PacketId, ReasonCode, UserProperty};
    let properties =
        [Property::User(UserProperty { name: "k", value: "v" }), Property::ReasonString("why")];
    let reason = ReasonCode::QuotaExceeded;
    let ack = Ack { packet_id: PacketId::MIN, reason, properties: (&properties).into() };
    let whole: &[u8] =
        &[0x40, 17, 0, 1, 0x97, 13, 0x26, 0, 1, b'k', 0, 1, b'v', 0x1F, 0, 3, b'w', b'h', b'y'];
    let without_user: &[u8] = &[0x40, 10, 0, 1, 0x97, 6, 0x1F, 0, 3, b'w', b'h', b'y'];
    let without_text: &[u8] = &[0x40, 3, 0, 1, 0x97];
    for (packet_bytes_max, expected) in [
        (19, whole),
        (18, without_user),
        (12, without_user),
        (11, without_text),
        (5, without_text),
        (4, &[]),
    ] {
        let mut out = Vec::new();
        let limits = Limits { packet_bytes_max, problem_information: true };
        let result = ServerPacket::PubAck(ack).encode(Version::V5, &limits, &mut out);
        assert_eq!(result.is_ok(), packet_bytes_max > 4);
        assert_eq!(out, expected, "{packet_bytes_max}");
    }
    // Success without its only property is the shortest form.
    let ack = Ack { properties: (&properties[..1]).into(), ..Ack::success(PacketId::MIN) };
    let mut out = Vec::new();
    let limits = Limits { packet_bytes_max: 10, problem_information: true };
    ServerPacket::PubRec(ack).encode(Version::V5, &limits, &mut out).unwrap();
    assert_eq!(out, [0x50, 2, 0, 1]);
}

#[test]
fn version_3_1_has_no_session_present() {
    use wire::mqtt::{ConnAck, ReasonCode};
    let properties = Properties::default();
    let connack = ConnAck { session_present: true, reason: ReasonCode::Success, properties };
    for (version, flags) in [(Version::V3_1, 0), (Version::V3_1_1, 1)] {
        let mut out = Vec::new();
        ServerPacket::ConnAck(connack).encode(version, &NO_LIMITS, &mut out).unwrap();
        assert_eq!(out, [0x20, 2, flags, 0]);
    }
}

/// Lengths of two bytes move the holes.
#[test]
fn holes_follow_long_length_fields() {
    let content_type = "x".repeat(200);
    let properties = [Property::ContentType(&content_type)];
    let head = PublishHead {
        version: Version::V5,
        topic: "a",
        has_packet_id: true,
        has_alias: true,
        retain: false,
        subscription_ids: &[],
        properties: (&properties).into(),
        message_expiry_s: Some(9),
        payload_bytes: 0,
    };
    let mut out = Vec::new();
    let holes = head.encode(&NO_LIMITS, &mut out).unwrap();
    assert_eq!(holes.packet_id_at, Some(6));
    assert_eq!(holes.alias_at, Some(11));
    assert_eq!(holes.message_expiry_at, Some(out.len() - 4));
    assert_eq!(&out[8..11], &[0xD3, 0x01, 0x23]);
}
