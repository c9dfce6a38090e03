//! The native codec against `spec/vectors/`, in both directions: bytes to fields and fields to
//! bytes.

mod native_json;

use native_json::{client_frame, client_json, field, files, server_frame, server_json, text};
use serde_json::Value;
use wire::native::{ClientFrame, ErrorFrame, FrameError, Reference, ServerFrame};

#[test]
fn client_frames_decode_to_their_fields() {
    for case in files::list("client_frames.json", "valid") {
        let bytes = files::bytes(field(&case, "hex"));
        let frame = ClientFrame::decode(&bytes).unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(client_json(&frame), *field(&case, "frame"), "{case}");
    }
}

#[test]
fn client_frames_encode_to_their_bytes() {
    for case in files::list("client_frames.json", "valid") {
        let Some(expected) = encoded(&case) else {
            continue;
        };
        let mut bytes = Vec::new();
        client_frame(field(&case, "frame"), |frame| frame.encode(&mut bytes));
        assert_eq!(files::hex(&bytes), expected, "{case}");
    }
}

#[test]
fn server_frames_decode_to_their_fields() {
    for case in files::list("server_frames.json", "valid") {
        let bytes = files::bytes(field(&case, "hex"));
        let frame = ServerFrame::decode(&bytes).unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(server_json(&frame), *field(&case, "frame"), "{case}");
    }
}

#[test]
fn server_frames_encode_to_their_bytes() {
    for case in files::list("server_frames.json", "valid") {
        let Some(expected) = encoded(&case) else {
            continue;
        };
        let mut bytes = Vec::new();
        server_frame(field(&case, "frame"), |frame| frame.encode(&mut bytes));
        assert_eq!(files::hex(&bytes), expected, "{case}");
    }
}

#[test]
fn decoded_lists_encode_to_the_same_fields() {
    for case in files::list("client_frames.json", "valid") {
        let bytes = files::bytes(field(&case, "hex"));
        let frame = ClientFrame::decode(&bytes).unwrap();
        let mut again = Vec::new();
        frame.encode(&mut again);
        assert_eq!(ClientFrame::decode(&again), Ok(frame), "{case}");
    }
    for case in files::list("server_frames.json", "valid") {
        let bytes = files::bytes(field(&case, "hex"));
        let frame = ServerFrame::decode(&bytes).unwrap();
        let mut again = Vec::new();
        frame.encode(&mut again);
        assert_eq!(ServerFrame::decode(&again), Ok(frame), "{case}");
    }
}

#[test]
fn invalid_client_frames_are_refused() {
    for case in files::list("client_frames.json", "invalid") {
        let bytes = files::bytes(field(&case, "hex"));
        match ClientFrame::decode(&bytes) {
            Err(error) => check_refusal(&case, &error),
            Ok(frame) => panic!("{case}: accepted as {frame:?}"),
        }
    }
}

#[test]
fn invalid_server_frames_are_refused() {
    for case in files::list("server_frames.json", "invalid") {
        let bytes = files::bytes(field(&case, "hex"));
        match ServerFrame::decode(&bytes) {
            Err(error) => check_refusal(&case, &error),
            Ok(frame) => panic!("{case}: accepted as {frame:?}"),
        }
    }
}

#[test]
fn a_frame_without_payload_is_refused_when_cut_anywhere() {
    let is_open_ended = |case: &Value| {
        let kind = text(field(field(case, "frame"), "type"));
        ["publish", "message", "named_message"].contains(&kind)
    };
    for case in files::list("client_frames.json", "valid") {
        let bytes = files::bytes(field(&case, "hex"));
        for end in 0..bytes.len() {
            let result = ClientFrame::decode(&bytes[..end]);
            assert!(result.is_err() || is_open_ended(&case), "{case}: {end}");
        }
    }
    for case in files::list("server_frames.json", "valid") {
        let bytes = files::bytes(field(&case, "hex"));
        for end in 0..bytes.len() {
            let result = ServerFrame::decode(&bytes[..end]);
            assert!(result.is_err() || is_open_ended(&case), "{case}: {end}");
        }
    }
}

#[test]
fn partitions_agree_with_the_vectors() {
    for case in files::list("partitions.json", "partitions") {
        let topic = text(field(&case, "topic")).as_bytes();
        let murmur2 = field(&case, "murmur2").as_i64().unwrap();
        assert_eq!(i64::from(stdx::hash::murmur2(topic) as i32), murmur2, "{case}");
        for (key, count) in [("partition_of_64", 64), ("partition_of_12", 12)] {
            let expected = field(&case, key).as_u64().unwrap();
            let partition = stdx::hash::partition_of(topic, count);
            assert_eq!(u64::from(partition), expected, "{case}");
        }
    }
}

fn encoded(case: &Value) -> Option<String> {
    match case.get("encodes_to") {
        Some(Value::Null) => None,
        Some(hex) => Some(text(hex).to_owned()),
        None => Some(text(field(case, "hex")).to_owned()),
    }
}

fn check_refusal(case: &Value, error: &FrameError) {
    assert_eq!(error.code().name(), text(field(case, "error")), "{case}");
    let reference = native_json::reference_json(error.reference());
    assert_eq!(reference, *field(case, "reference"), "{case}");
    assert_eq!(error.closes(), error.reference() == Reference::Connection, "{case}");
    // The answer to the sender is itself a frame.
    let mut bytes = Vec::new();
    let answer = ErrorFrame::of_frame(error);
    ServerFrame::Error(answer).encode(&mut bytes);
    assert_eq!(ServerFrame::decode(&bytes), Ok(ServerFrame::Error(answer)), "{case}");
}

#[test]
fn the_frames_of_the_specification_are_valid() {
    let document = include_str!("../../../spec/protocol.md");
    let mut kinds = std::collections::BTreeSet::new();
    for block in document.split("```hex\n").skip(1) {
        let (drawn, _) = block.split_once("```").unwrap();
        let digits: String = drawn.split_whitespace().collect();
        let bytes = files::bytes(&Value::String(digits));
        let mut again = Vec::new();
        if bytes[0] < 0x80 {
            ClientFrame::decode(&bytes).unwrap().encode(&mut again);
        } else {
            ServerFrame::decode(&bytes).unwrap().encode(&mut again);
        }
        assert_eq!(again, bytes, "{drawn}");
        kinds.insert(bytes[0]);
    }
    // PONG shares PING's drawing.
    let expected = (0x01..=0x07).chain([0x09, 0x0A]).chain(0x81..=0x8F).collect();
    assert_eq!(kinds, expected);
}
