//! The MQTT codec with hostile bytes: each malformed packet of `spec/vectors/mqtt_malformed.txt` is
//! refused with its reason code, and no bytes cause a panic.

mod drive;
mod mqtt;

use drive::check_cuts;
use mqtt::rebuild::{encode_client, encode_server};
use mqtt::vectors::{Malformed, all, malformed};
use proptest::prelude::*;
use std::collections::BTreeSet;
use wire::Step;
use wire::mqtt::{
    Ack, ClientPacket, MqttError, PACKET_BYTES_MAX, PacketId, Property, ReasonCode, ServerPacket,
    Unsubscribe, UserProperty, Version, announced_version,
};

const VERSIONS: [Version; 3] = [Version::V3_1, Version::V3_1_1, Version::V5];

fn decode(case: &Malformed, input: &[u8]) -> Result<String, MqttError> {
    if case.is_from_client {
        ClientPacket::decode(case.version, PACKET_BYTES_MAX, input).map(|step| format!("{step:?}"))
    } else {
        let version = case.version.expect("a version");
        ServerPacket::decode(version, PACKET_BYTES_MAX, input).map(|step| format!("{step:?}"))
    }
}

#[test]
fn malformed_packets_are_refused_with_their_reason() {
    let mut wrong = String::new();
    for case in malformed() {
        let result = decode(&case, &case.bytes);
        let reason = result.as_ref().map_err(|error| error.reason().byte());
        if reason != Err(case.reason) {
            wrong.push_str(&format!("{case:?}: {result:?}\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// `spec/mqtt.md` says `M` for exactly the statements that a malformed packet violates.
#[test]
fn the_document_names_the_statements_of_malformed_packets() {
    let document = include_str!("../../../spec/mqtt.md");
    let mut named = BTreeSet::new();
    for row in document.lines().filter(|line| line.starts_with("| MQTT-")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        if cells[3].split([',', ';', ' ']).any(|word| word == "M") {
            named.extend(cells[1].split(", "));
        }
    }
    let cases = malformed();
    let is_numbered = |statement: &&str| statement.starts_with("MQTT-") && !statement.contains(' ');
    let violated: BTreeSet<&str> =
        cases.iter().map(|case| case.statement).filter(is_numbered).collect();
    assert_eq!(named, violated);
}

#[test]
fn malformed_packets_are_refused_equally_in_pieces() {
    for case in malformed() {
        // Bytes after the packet must not matter either.
        for tail in [&[][..], &[0; 9], &[0xFF; 9]] {
            let input = [&case.bytes, tail].concat();
            let lines = check_cuts(3, |cuts| {
                if case.is_from_client {
                    drive::mqtt_client(&input, case.version, PACKET_BYTES_MAX, cuts)
                } else {
                    let version = case.version.expect("a version");
                    drive::mqtt_server(&input, version, PACKET_BYTES_MAX, cuts)
                }
            });
            assert!(lines[0].starts_with("error "), "{case:?}: {lines:?}");
        }
    }
}

#[test]
fn malformed_packets_name_their_statement_and_occur_once() {
    let cases = malformed();
    assert!(cases.len() > 700);
    for (at, case) in cases.iter().enumerate() {
        let is_statement =
            case.statement.starts_with("MQTT-") || case.statement.starts_with("section ");
        assert!(is_statement, "{case:?}");
        let same = |other: &&Malformed| {
            (other.is_from_client, other.version, &other.bytes)
                == (case.is_from_client, case.version, &case.bytes)
        };
        assert_eq!(cases[..at].iter().find(same).map(|other| other.name), None, "{case:?}");
    }
}

#[test]
fn a_packet_that_ends_early_is_malformed() {
    for vector in all() {
        let header_bytes =
            1 + vector.bytes[1..].iter().take_while(|byte| **byte > 0x7F).count() + 1;
        let body = &vector.bytes[header_bytes..];
        // The remaining length promises less than the fields need.
        for bytes in 0..body.len().min(100) {
            let cut = [&[vector.bytes[0], bytes as u8], &body[..bytes]].concat();
            survives(&cut);
            if vector.bytes[0] >> 4 == 1 && vector.version != Version::V3_1 {
                let result = ClientPacket::decode(None, PACKET_BYTES_MAX, &cut);
                assert_eq!(result, Err(MqttError::Truncated), "{} to {bytes}", vector.name);
            }
        }
    }
}

#[test]
fn the_answer_to_a_malformed_connect_has_its_version() {
    let connect = |name: &str, level: u8, rest: &[u8]| {
        let name = [&[0, name.len() as u8], name.as_bytes()].concat();
        let body = [&name[..], &[level], rest].concat();
        [&[0x10, body.len() as u8], &body[..]].concat()
    };
    for version in VERSIONS {
        let (name, level) = version.announcement();
        // The reserved flag is set, and the rest is missing.
        assert_eq!(announced_version(&connect(name, level, &[0x01])), Some(version));
        let padded = connect(name, level, &[]);
        let padded = [&[0x10, padded[1] | 0x80, 0x00], &padded[2..]].concat();
        assert_eq!(announced_version(&padded), Some(version));
        for cut in 0..padded.len() {
            assert_eq!(announced_version(&padded[..cut]), None);
        }
    }
    assert_eq!(announced_version(&connect("MQTT", 6, &[0x02])), None);
    assert_eq!(announced_version(&connect("MQIsdp", 4, &[0x02])), None);
    assert_eq!(announced_version(&[0x30, 9, 0, 4, b'M', b'Q', b'T', b'T', 5]), None);
}

#[test]
fn errors_have_texts_and_reasons_of_their_answers() {
    let mut errors: Vec<MqttError> = Vec::new();
    for case in malformed() {
        let error = decode(&case, &case.bytes).expect_err(case.name);
        if !errors.contains(&error) {
            errors.push(error);
        }
    }
    errors.push(MqttError::PacketTooLarge(70_000));
    for error in errors {
        let text = error.to_string();
        assert!(!text.is_empty() && text.len() < 60 && !text.ends_with('.'), "{text}");
        let reason = error.reason();
        assert!(reason.is_failure(), "{error:?}");
        // A server reports it before CONNACK or after it.
        let is_sent = [wire::mqtt::PacketType::ConnAck, wire::mqtt::PacketType::Disconnect];
        assert!(is_sent.iter().any(|kind| reason.is_permitted_in(*kind)), "{error:?}");
    }
}

#[test]
fn reason_codes_convert_in_both_directions() {
    for byte in 0..=u8::MAX {
        let code = ReasonCode::from_byte(byte);
        assert_eq!(code.map(ReasonCode::byte), code.map(|_| byte));
        assert_eq!(code.is_some(), ReasonCode::ALL.iter().any(|known| known.byte() == byte));
        if let Some(reason) = ReasonCode::from_v3_return_code(byte) {
            assert_eq!(reason.v3_return_code(), Some(byte));
        }
    }
    assert_eq!(ReasonCode::ALL.len(), 43);
    assert!(ReasonCode::ALL.is_sorted());
}

/// Decodes as everything; an accepted packet survives encoding.
fn survives(bytes: &[u8]) {
    for version in [None, Some(Version::V3_1), Some(Version::V3_1_1), Some(Version::V5)] {
        if let Ok(Step::Done { value, .. }) = ClientPacket::decode(version, 1 << 20, bytes) {
            let its_version = match &value {
                ClientPacket::Connect(connect) => connect.version,
                _ => version.expect("only CONNECT has no version"),
            };
            let again = encode_client(&value, its_version);
            let step = ClientPacket::decode(version, 1 << 20, &again);
            assert_eq!(step, Ok(Step::Done { value, consumed: again.len() }));
        }
    }
    for version in VERSIONS {
        if let Ok(Step::Done { value, .. }) = ServerPacket::decode(version, 1 << 20, bytes) {
            let again = encode_server(&value, version);
            let step = ServerPacket::decode(version, 1 << 20, &again);
            assert_eq!(step, Ok(Step::Done { value, consumed: again.len() }));
        }
    }
}

#[test]
fn a_changed_byte_never_panics() {
    for vector in all() {
        for index in 0..vector.bytes.len().min(300) {
            for value in [0, 1, 2, 0x7F, 0x80, 0x81, 0xFF, vector.bytes[index] ^ 1] {
                let mut bytes = vector.bytes.clone();
                bytes[index] = value;
                survives(&bytes);
            }
        }
    }
}

#[test]
fn decoding_walks_each_byte_a_bounded_number_of_times() {
    // Lists of almost a megabyte: a quadratic walk would not end.
    let packet_id = PacketId::MIN;
    let filters = vec!["a"; 300_000];
    let filters = filters.as_slice().into();
    let properties = vec![Property::User(UserProperty { name: "", value: "" }); 200_000];
    let properties = properties.as_slice().into();
    let many = [
        ClientPacket::Unsubscribe(Unsubscribe {
            packet_id,
            properties: [].as_slice().into(),
            filters,
        }),
        ClientPacket::PubAck(Ack { properties, ..Ack::success(packet_id) }),
    ];
    for packet in many {
        let bytes = encode_client(&packet, Version::V5);
        assert!(bytes.len() > 900_000);
        let step = ClientPacket::decode(Some(Version::V5), 1 << 20, &bytes);
        assert_eq!(step, Ok(Step::Done { value: packet, consumed: bytes.len() }));
        survives(&bytes);
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(first: u8, bytes: Vec<u8>) {
        let length = bytes.len().min(127) as u8;
        survives(&[&[first, length], &bytes[..]].concat());
    }
}
