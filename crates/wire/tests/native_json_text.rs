//! The JSON form of frames (`crore.v1.json`) against `spec/vectors/`, in both directions.

mod native_json;

use native_json::{client_frame, client_json, field, files, server_frame, server_json, text};
use serde_json::Value;
use wire::native::json::{self, JsonError};
use wire::native::{ClientFrame, FrameError, ServerFrame};

/// The epoch of positions of which the binary form has only the offset.
const EPOCH: u64 = 7;

#[test]
fn client_frames_decode_from_json() {
    for case in files::list("client_frames.json", "valid") {
        let binary = binary_of(json::client::decode, &field(&case, "json").to_string());
        let binary = binary.unwrap_or_else(|error| panic!("{case}: {error}"));
        let frame = ClientFrame::decode(&binary).unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(client_json(&frame), *field(&case, "frame"), "{case}");
    }
}

#[test]
fn client_frames_encode_to_json() {
    for case in files::list("client_frames.json", "valid") {
        let Some(expected) = encoded(&case) else {
            continue;
        };
        let mut out = Vec::new();
        client_frame(field(&case, "frame"), |frame| frame.encode_json(&mut out));
        assert_eq!(parsed(&out), *expected, "{case}");
    }
}

#[test]
fn server_frames_decode_from_json() {
    for case in files::list("server_frames.json", "valid") {
        let binary = binary_of(json::server::decode, &field(&case, "json").to_string());
        let binary = binary.unwrap_or_else(|error| panic!("{case}: {error}"));
        let frame = ServerFrame::decode(&binary).unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(server_json(&frame), *field(&case, "frame"), "{case}");
    }
}

#[test]
fn server_frames_encode_to_json() {
    for case in files::list("server_frames.json", "valid") {
        let expected = encoded(&case).unwrap();
        let mut out = Vec::new();
        server_frame(field(&case, "frame"), |frame| frame.encode_json(EPOCH, &mut out));
        assert_eq!(parsed(&out), *expected, "{case}");
    }
}

#[test]
fn json_that_is_no_frame_is_refused() {
    for case in files::list("client_frames.json", "invalid_json") {
        let binary = binary_of(json::client::decode, text(field(&case, "text")));
        let decoded = binary.and_then(|binary| decoded(ClientFrame::decode(&binary).map(|_| ())));
        check_refusal(&case, decoded);
    }
    for case in files::list("server_frames.json", "invalid_json") {
        let binary = binary_of(json::server::decode, text(field(&case, "text")));
        let decoded = binary.and_then(|binary| decoded(ServerFrame::decode(&binary).map(|_| ())));
        check_refusal(&case, decoded);
    }
}

#[test]
fn json_is_refused_when_cut_anywhere() {
    for case in files::list("client_frames.json", "valid") {
        let whole = field(&case, "json").to_string();
        for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
            let error = binary_of(json::client::decode, &whole[..end]).unwrap_err();
            assert_eq!(error.error, FrameError::MalformedJson, "{case}: {end}");
        }
    }
    for case in files::list("server_frames.json", "valid") {
        let whole = field(&case, "json").to_string();
        for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
            let error = binary_of(json::server::decode, &whole[..end]).unwrap_err();
            assert_eq!(error.error, FrameError::MalformedJson, "{case}: {end}");
        }
    }
}

#[test]
fn a_refused_item_is_written_as_one() {
    for case in files::list("client_frames.json", "valid") {
        if encoded(&case).is_some() {
            continue;
        }
        let binary = binary_of(json::client::decode, &field(&case, "json").to_string()).unwrap();
        let mut out = Vec::new();
        ClientFrame::decode(&binary).unwrap().encode_json(&mut out);
        let again = binary_of(json::client::decode, std::str::from_utf8(&out).unwrap()).unwrap();
        let ClientFrame::Subscribe(subscribe) = ClientFrame::decode(&again).unwrap() else {
            panic!("{case}")
        };
        let refused = subscribe.items.iter().filter(|item| item.request.is_err()).count();
        let items = field(field(&case, "frame"), "items").as_array().unwrap();
        let expected = items.iter().filter(|item| item.get("error").is_some()).count();
        assert_eq!(refused, expected, "{case}");
    }
}

#[test]
fn a_list_is_split_into_its_frames() {
    let cases: [(&str, Option<&[&str]>); 8] = [
        ("[]", Some(&[])),
        (" [ {\"a\": [1]} , {} ]\n", Some(&["{\"a\": [1]}", "{}"])),
        ("[{\"type\": \"]\"}]", Some(&["{\"type\": \"]\"}"])),
        ("[1]", None),
        ("[[{}]]", None),
        ("[{}", None),
        ("[{}] {}", None),
        ("[{},]", None),
    ];
    for (message, expected) in cases {
        assert!(json::is_list(message), "{message}");
        let mut frames = Vec::new();
        let result = json::split(message, |frame| frames.push(frame));
        assert_eq!(result.is_ok().then_some(frames.as_slice()), expected, "{message}");
    }
    assert!(!json::is_list("{\"type\": []}"));
    assert!(!json::is_list(""));
}

#[test]
fn deep_nesting_in_an_unknown_member_is_no_matter() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let text = format!("{{\"type\":\"ping\",\"token\":1,\"later\":{deep}}}");
    let binary = binary_of(json::client::decode, &text).unwrap();
    assert_eq!(ClientFrame::decode(&binary), Ok(ClientFrame::Ping(1)));
}

fn binary_of(
    decode: impl FnOnce(&str, &mut Vec<u8>) -> Result<(), JsonError>,
    text: &str,
) -> Result<Vec<u8>, JsonError> {
    let mut binary = Vec::new();
    decode(text, &mut binary).map(|()| binary)
}

fn decoded(result: Result<(), FrameError>) -> Result<(), JsonError> {
    result.map_err(|error| JsonError { explanation: error.to_string(), error })
}

fn check_refusal(case: &Value, result: Result<(), JsonError>) {
    let error = result.expect_err(&case.to_string());
    assert_eq!(error.error.code().name(), text(field(case, "error")), "{case}: {error}");
    let reference = native_json::reference_json(error.error.reference());
    assert_eq!(reference, *field(case, "reference"), "{case}");
    assert!(!error.explanation.is_empty(), "{case}");
}

fn encoded(case: &Value) -> Option<&Value> {
    match case.get("json_encodes_to") {
        Some(Value::Null) => None,
        Some(json) => Some(json),
        None => Some(field(case, "json")),
    }
}

fn parsed(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}
