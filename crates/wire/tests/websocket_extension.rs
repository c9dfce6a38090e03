//! Negotiation of compression: RFC 7692 section 7.1, and the grammar of RFC 6455 section 9.1.

use wire::Step;
use wire::http::{HeadLimits, HeadScan, Request, Response};
use wire::websocket::handshake::{ClientHandshake, Refusal, Upgrade};

/// The server's answer to a request with these lines: the field's value; empty for none.
fn answered(lines: &[&str]) -> Result<String, Refusal> {
    let mut head =
        b"GET /echo HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            .to_vec();
    for line in lines {
        head.extend_from_slice(format!("Sec-WebSocket-Extensions: {line}\r\n").as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    let step = Request::decode(&head, &mut HeadScan::new(), &HeadLimits::default()).unwrap();
    let Step::Done { value, .. } = step else {
        panic!("the head is whole");
    };
    let upgrade = Upgrade::check(&value)?;
    let deflate = upgrade.choose_deflate()?;
    let mut out = Vec::new();
    upgrade.encode_response_with(&mut out, None, deflate);
    let text = String::from_utf8(out).unwrap();
    let field = text.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Extensions: "));
    if let Some(deflate) = deflate {
        let told = field.unwrap().split_once("server_max_window_bits=");
        let told = told.map_or(15, |(_, bits)| bits.parse().unwrap());
        assert_eq!(told, deflate.server_window_bits);
    }
    Ok(field.unwrap_or_default().to_owned())
}

const GRANTED: &str = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

#[test]
fn offers_are_accepted_or_declined() {
    let check = |offer: &str, answer: &str| {
        assert_eq!(answered(&[offer]).as_deref(), Ok(answer), "{offer}");
    };
    let granted = |offer: &str| check(offer, GRANTED);
    let declined = |offer: &str| check(offer, "");
    granted("permessage-deflate");
    // The offers of browsers.
    granted("permessage-deflate; client_max_window_bits");
    granted("permessage-deflate; client_no_context_takeover; server_no_context_takeover");
    granted("permessage-deflate;client_max_window_bits=9;server_no_context_takeover");
    granted("permessage-deflate ; client_max_window_bits = \"10\" ");
    granted("permessage-deflate; client_max_window_bits=\"\\8\"");
    for bits in 8..=15 {
        let answer = format!("{GRANTED}; server_max_window_bits={bits}");
        check(&format!("permessage-deflate; server_max_window_bits={bits}"), &answer);
    }
    // Unknown, repeated, without a required value or with an invalid one.
    declined("");
    declined("x-webkit-deflate-frame");
    declined("Permessage-Deflate");
    declined("permessage-deflate; unknown");
    declined("permessage-deflate; unknown=1");
    declined("permessage-deflate; server_no_context_takeover=1");
    declined("permessage-deflate; client_no_context_takeover=true");
    declined("permessage-deflate; server_no_context_takeover; server_no_context_takeover");
    declined("permessage-deflate; client_max_window_bits; client_max_window_bits=15");
    declined("permessage-deflate; server_max_window_bits=10; server_max_window_bits=10");
    declined("permessage-deflate; server_max_window_bits");
    for bits in ["7", "16", "08", "015", "1", "-8", "9.5", "99999999999999999999", "x"] {
        declined(&format!("permessage-deflate; server_max_window_bits={bits}"));
        declined(&format!("permessage-deflate; client_max_window_bits={bits}"));
    }
}

#[test]
fn the_first_acceptable_offer_is_granted() {
    let check = |lines: &[&str], answer: &str| {
        assert_eq!(answered(lines).as_deref(), Ok(answer), "{lines:?}");
    };
    let small = format!("{GRANTED}; server_max_window_bits=9");
    check(&["other; a=b, permessage-deflate"], GRANTED);
    check(&["permessage-deflate; x, permessage-deflate"], GRANTED);
    check(&["permessage-deflate; server_max_window_bits=9, permessage-deflate"], &small);
    check(&["permessage-deflate; x", "permessage-deflate; server_max_window_bits=9"], &small);
    check(&[", ,permessage-deflate,"], GRANTED);
    check(&[], "");
}

#[test]
fn malformed_fields_are_refused() {
    for line in [
        ";",
        "permessage-deflate;",
        "permessage-deflate; =1",
        "permessage-deflate; a=",
        "permessage-deflate; a=\"",
        "permessage-deflate; a=\"\"",
        "permessage-deflate; a=\"b",
        "permessage-deflate; a=\"b\\",
        "permessage-deflate; a=\"b c\"",
        "other; a=\"x, permessage-deflate, y\"",
        "permessage-deflate other",
        "permessage deflate",
        "(x)",
    ] {
        assert_eq!(answered(&[line]), Err(Refusal::BadExtensions), "{line}");
    }
    assert_eq!(Refusal::BadExtensions.status(), 400);
}

#[test]
fn answers_are_accepted_or_refused() {
    let check = |deflate: bool, answer: Option<&str>, expected: Option<bool>| {
        let client = ClientHandshake {
            host: "h",
            target: "/",
            nonce: *b"the sample nonce",
            subprotocols: &[],
            headers: &[],
            deflate,
        };
        let mut request = Vec::new();
        client.encode_request(&mut request);
        assert_eq!(String::from_utf8(request).unwrap().contains(GRANTED), deflate);
        let field =
            answer.map_or(String::new(), |value| format!("Sec-WebSocket-Extensions: {value}\r\n"));
        let head = format!(
            "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n{field}\r\n"
        );
        let limits = HeadLimits::default();
        let step = Response::decode(head.as_bytes(), &mut HeadScan::new(), &limits, "GET");
        let Ok(Step::Done { value, .. }) = step else {
            panic!("{head}: {step:?}");
        };
        let result = client.check_response(&value).and_then(|_| client.check_deflate(&value));
        assert_eq!(result.ok(), expected, "{answer:?}");
    };
    check(true, None, Some(false));
    check(true, Some(GRANTED), Some(true));
    check(true, Some("permessage-deflate; server_no_context_takeover"), Some(true));
    let small = format!("{GRANTED}; server_max_window_bits=10");
    check(true, Some(&small), Some(true));
    // The server keeps its context, bounds ours, repeats a parameter, or names another extension.
    check(true, Some("permessage-deflate"), None);
    check(true, Some("permessage-deflate; client_no_context_takeover"), None);
    let bounded = format!("{GRANTED}; client_max_window_bits=10");
    check(true, Some(&bounded), None);
    let twice = format!("{GRANTED}, {GRANTED}");
    check(true, Some(&twice), None);
    let unknown = format!("{GRANTED}; x");
    check(true, Some(&unknown), None);
    check(true, Some("other"), None);
    check(true, Some(";"), None);
    // The client offered nothing.
    check(false, Some(GRANTED), None);
    check(false, None, Some(false));
}
