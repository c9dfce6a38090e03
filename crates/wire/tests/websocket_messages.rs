//! Messages: fragmentation, text validation, size, close payloads. Together with `websocket_frames`
//! these are the cases of the Autobahn suite that concern a codec (its chapters 1 to 7), as data.

mod drive;

use drive::check_cuts;
use wire::websocket::close::{Close, ClosePayload, REASON_BYTES_MAX};
use wire::websocket::{CloseCode, Opcode, Role, frame};

/// `frames` is one frame a word: opcode letter (`c`ontinuation, `t`ext, `b`inary, `x` close,
/// `p`ing, `q` pong), `+` when more fragments follow, then the payload in hex. The transcript has
/// one line for each event.
fn check(frames: &str, expected: &[&str]) {
    for role in [Role::Server, Role::Client] {
        let mut input = Vec::new();
        for word in frames.split_whitespace() {
            let opcode = match &word[..1] {
                "c" => Opcode::Continuation,
                "t" => Opcode::Text,
                "b" => Opcode::Binary,
                "x" => Opcode::Close,
                "p" => Opcode::Ping,
                "q" => Opcode::Pong,
                other => panic!("{other}"),
            };
            let more = word[1..].starts_with('+');
            let digits = &word[if more { 2 } else { 1 }..];
            let payload: Vec<u8> = (0..digits.len() / 2)
                .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap())
                .collect();
            let key = (role == Role::Server).then_some([1, 2, 3, 4]);
            frame::encode(&mut input, !more, opcode, &payload, key);
        }
        let lines = check_cuts(1, |cuts| drive::websocket_messages(&input, role, 16, cuts));
        let lines: Vec<&str> =
            lines.iter().map(String::as_str).filter(|line| !line.ends_with("bytes left")).collect();
        assert_eq!(lines, expected, "{frames}");
    }
}

#[test]
fn unfragmented_messages_are_events() {
    check("t48656c6c6f", &["Text(\"Hello\")"]);
    check("t", &["Text(\"\")"]);
    check("b", &["Binary([])"]);
    check("b00ff", &["Binary([0, 255])"]);
    check("p01 q02", &["Ping([1])", "Pong([2])"]);
}

#[test]
fn fragments_are_assembled() {
    check("t+48 c69", &["Text(\"Hi\")"]);
    check("b+01 c+02 c+ c03", &["Binary([1, 2, 3])"]);
    check("t+ c+ c", &["Text(\"\")"]);
    check("t+48 p01 c+69 q02 c21", &["Ping([1])", "Pong([2])", "Text(\"Hi!\")"]);
    check("t+61 c62 b+01 c02 t63", &["Text(\"ab\")", "Binary([1, 2])", "Text(\"c\")"]);
    check("t+48 x03e8", &["Close(Close { code: Some(CloseCode(1000)), reason: \"\" })"]);
    check("c61", &["error 1002 UnexpectedContinuation"]);
    check("c+61", &["error 1002 UnexpectedContinuation"]);
    check("t+61 t62", &["error 1002 ExpectedContinuation"]);
    check("t+61 b+62", &["error 1002 ExpectedContinuation"]);
    check("t+61 c62 c63", &["Text(\"ab\")", "error 1002 UnexpectedContinuation"]);
}

#[test]
fn text_must_be_utf8() {
    // A character split at each of its bytes.
    check("t+f0 c+9d c+84 c9e", &["Text(\"𝄞\")"]);
    check("t+e282 p c+acce c+ cba", &["Ping([])", "Text(\"€κ\")"]);
    check("tcebae1bdb9cf83cebcceb5", &["Text(\"κ\u{1f79}σμε\")"]);
    check("tefbfbd", &["Text(\"\u{fffd}\")"]);
    for bad in ["tff", "tc080", "teda080", "tf4908080", "tc3", "t61e282", "tf8", "t80"] {
        check(bad, &["error 1007 InvalidUtf8"]);
    }
    // Refused with the first fragment that cannot become valid, not with the last.
    check("t+f490", &["error 1007 InvalidUtf8"]);
    check("t+f4 c+90", &["error 1007 InvalidUtf8"]);
    check("t+ed c+a0", &["error 1007 InvalidUtf8"]);
    check("t+61 c+ff", &["error 1007 InvalidUtf8"]);
    // Refused with the last fragment if a character stays unfinished.
    check("t+e2 c82", &["error 1007 InvalidUtf8"]);
    check("t+e2 c", &["error 1007 InvalidUtf8"]);
    // Binary messages and pings may contain any bytes.
    check("b+ff c+fe cf4", &["Binary([255, 254, 244])"]);
    check("pff", &["Ping([255])"]);
    // No state of one message affects the next.
    check("t+e282 cac t61", &["Text(\"€\")", "Text(\"a\")"]);
}

#[test]
fn messages_are_bounded() {
    let sixteen = "61".repeat(16);
    let eight = "61".repeat(8);
    check(&format!("t{sixteen}"), &["Text(\"aaaaaaaaaaaaaaaa\")"]);
    check(&format!("t+{eight} c{eight}"), &["Text(\"aaaaaaaaaaaaaaaa\")"]);
    check(
        &format!("t{sixteen}61"),
        &["error 1009 Frame(TooLarge { payload_bytes: 17, payload_bytes_max: 16 })"],
    );
    check(&format!("b+{eight} c+{eight} c01"), &["error 1009 TooLarge { message_bytes_max: 16 }"]);
    // A message at the limit may still end, and control frames do not count.
    check(&format!("t+{eight} c+{eight} p01 c"), &["Ping([1])", "Text(\"aaaaaaaaaaaaaaaa\")"]);
    check(&format!("p{sixteen}61"), &[&format!("Ping({:?})", [0x61; 17])]);
}

/// Close frames (RFC 6455 section 7.4): every range of codes and every shape of payload.
#[test]
fn close_payloads_are_checked() {
    check("x", &["Close(Close { code: None, reason: \"\" })"]);
    check("x03", &["error 1002 Close(OneByte)"]);
    check("x03e8c2a7", &["Close(Close { code: Some(CloseCode(1000)), reason: \"§\" })"]);
    check("x03e8ff", &["error 1007 Close(InvalidReason)"]);
    check("x03e8c2", &["error 1007 Close(InvalidReason)"]);
    check("x0000ff", &["error 1002 Close(ForbiddenCode(CloseCode(0)))"]);
    // The owner ignores data after a close; the driver stops there.
    check("x03e8 t61", &["Close(Close { code: Some(CloseCode(1000)), reason: \"\" })"]);

    let allowed = [1000..=1003, 1007..=1014, 3000..=4999];
    for code in 0..=u16::MAX {
        let expected = allowed.iter().any(|range| range.contains(&code));
        assert_eq!(CloseCode(code).is_sendable(), expected, "{code}");
        assert_eq!(Close::decode(&code.to_be_bytes()).is_ok(), expected, "{code}");
        let payload = ClosePayload::new(CloseCode(code), "why");
        assert_eq!(payload.as_bytes().len(), if expected { 5 } else { 0 }, "{code}");
    }
}

#[test]
fn long_reasons_are_cut_between_characters() {
    let payload = ClosePayload::new(CloseCode::NORMAL, &"é".repeat(100));
    let close = Close::decode(payload.as_bytes()).unwrap();
    assert_eq!(close.reason, "é".repeat(61));
    let payload = ClosePayload::new(CloseCode::NORMAL, &"a".repeat(200));
    assert_eq!(payload.as_bytes().len(), 2 + REASON_BYTES_MAX);
}
