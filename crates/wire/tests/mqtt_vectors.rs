//! The MQTT codec against `spec/vectors/mqtt.txt`, in both directions: bytes to fields and fields
//! to bytes, whole and in pieces.

mod drive;
mod mqtt;

use drive::{Cuts, check_cuts};
use mqtt::rebuild::{encode_client, encode_server};
use mqtt::vectors::{Vector, all};
use std::collections::BTreeSet;
use wire::Step;
use wire::mqtt::{ClientPacket, MqttError, PACKET_BYTES_MAX, ServerPacket, Version};

/// The version that the decoder knows: none before CONNECT.
fn known(vector: &Vector) -> Option<Version> {
    let is_connect = vector.bytes[0] >> 4 == 1;
    (!is_connect).then_some(vector.version)
}

fn client(vector: &Vector) -> ClientPacket<'_> {
    match ClientPacket::decode(known(vector), PACKET_BYTES_MAX, &vector.bytes) {
        Ok(Step::Done { value, consumed }) if consumed == vector.bytes.len() => value,
        other => panic!("{}: {other:?}", vector.name),
    }
}

fn server(vector: &Vector) -> ServerPacket<'_> {
    match ServerPacket::decode(vector.version, PACKET_BYTES_MAX, &vector.bytes) {
        Ok(Step::Done { value, consumed }) if consumed == vector.bytes.len() => value,
        other => panic!("{}: {other:?}", vector.name),
    }
}

fn value(vector: &Vector) -> String {
    if vector.is_from_client {
        format!("{:?}", client(vector))
    } else {
        format!("{:?}", server(vector))
    }
}

/// A long text with its repeated characters counted, as in the file.
fn shortened(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let unit = if rest.starts_with("120, ") { "120, " } else { &rest[..first.len_utf8()] };
        let tail = rest.trim_start_matches(unit);
        let count = (rest.len() - tail.len()) / unit.len();
        out.push_str(unit);
        if count > 20 {
            out.push_str(&format!("*{count} "));
            rest = tail;
        } else {
            rest = &rest[unit.len()..];
        }
    }
    out
}

#[test]
fn packets_decode_to_their_fields() {
    let mut stale = String::new();
    for (at, vector) in all().iter().enumerate() {
        let value = shortened(&value(vector));
        if value != vector.value {
            stale.push_str(&format!("{at}\t{value}\n"));
        }
    }
    assert!(stale.is_empty(), "{stale}");
}

#[test]
fn packets_encode_to_their_bytes() {
    for vector in all() {
        let bytes = if vector.is_from_client {
            encode_client(&client(&vector), vector.version)
        } else {
            encode_server(&server(&vector), vector.version)
        };
        assert_eq!(bytes, vector.encoded, "{} {:?}", vector.name, vector.version);
    }
}

#[test]
fn packets_decode_equally_when_cut_anywhere() {
    for vector in all() {
        let (input, first) = (&vector.bytes, known(&vector));
        let lines = |cuts| {
            if vector.is_from_client {
                drive::mqtt_client(input, first, PACKET_BYTES_MAX, cuts)
            } else {
                drive::mqtt_server(input, vector.version, PACKET_BYTES_MAX, cuts)
            }
        };
        check_cuts(7, lines);
        let whole = lines(Cuts::Whole);
        // A long payload needs no cut at each of its bytes.
        for at in (1..input.len()).take(400) {
            assert_eq!(lines(Cuts::At(at)), whole, "{} at {at}", vector.name);
        }
    }
}

#[test]
fn an_unfinished_packet_names_its_length() {
    for vector in all() {
        let header_bytes =
            1 + vector.bytes[1..].iter().take_while(|byte| **byte > 0x7F).count() + 1;
        for end in (0..vector.bytes.len()).take(400) {
            let input = &vector.bytes[..end];
            let expected = match end {
                0 => 2,
                _ if end < header_bytes => end + 1,
                _ => vector.bytes.len(),
            };
            let needed = if vector.is_from_client {
                let step = ClientPacket::decode(known(&vector), PACKET_BYTES_MAX, input);
                step.map(|step| step.map(|_| ()))
            } else {
                let step = ServerPacket::decode(vector.version, PACKET_BYTES_MAX, input);
                step.map(|step| step.map(|_| ()))
            };
            assert_eq!(needed, Ok(Step::More { needed: expected }), "{} at {end}", vector.name);
        }
    }
}

/// The fixed header is enough: the body has not arrived.
#[test]
fn a_packet_above_the_bound_is_refused_before_its_body() {
    for vector in all() {
        let bytes = vector.bytes.len();
        let header_bytes =
            1 + vector.bytes[1..].iter().take_while(|byte| **byte > 0x7F).count() + 1;
        let (max, header) = (bytes as u32, &vector.bytes[..header_bytes]);
        let refused = |result: Result<(), MqttError>| {
            assert_eq!(result, Err(MqttError::PacketTooLarge(bytes)), "{}", vector.name);
        };
        if vector.is_from_client {
            assert!(ClientPacket::decode(known(&vector), max, &vector.bytes).is_ok());
            refused(ClientPacket::decode(known(&vector), max - 1, header).map(|_| ()));
        } else {
            assert!(ServerPacket::decode(vector.version, max, &vector.bytes).is_ok());
            refused(ServerPacket::decode(vector.version, max - 1, header).map(|_| ()));
        }
    }
}

#[test]
fn every_type_of_each_version_has_a_vector() {
    let mut seen = BTreeSet::new();
    for vector in all() {
        seen.insert((vector.is_from_client, vector.version, vector.bytes[0] >> 4));
    }
    for version in [Version::V3_1, Version::V3_1_1, Version::V5] {
        let from_client = [1, 3, 4, 5, 6, 7, 8, 10, 12, 14];
        let from_server = [2, 3, 4, 5, 6, 7, 9, 11, 13];
        for kind in from_client {
            assert!(seen.contains(&(true, version, kind)), "client {version:?} {kind}");
        }
        for kind in from_server {
            assert!(seen.contains(&(false, version, kind)), "server {version:?} {kind}");
        }
    }
    for (is_from_client, kind) in [(true, 15), (false, 14), (false, 15)] {
        assert!(seen.contains(&(is_from_client, Version::V5, kind)), "{kind}");
    }
}
