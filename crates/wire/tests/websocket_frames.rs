//! Frames: the RFC's own examples, every rule about a header with its close code, and the limits.

use wire::Step;
use wire::websocket::frame::{
    self, Frame, FrameError, FrameHeader, HEADER_BYTES_MAX, Opcode, Role, encode_header, header_len,
};

const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

fn hex(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// Decodes and encodes again.
fn check(bytes: &str, role: Role, fin: bool, opcode: Opcode, payload: &[u8]) {
    let bytes = hex(bytes);
    let mut input = bytes.clone();
    let Ok(Step::Done { value, consumed }) = Frame::decode(&mut input, role, 1 << 20) else {
        panic!("{bytes:x?}");
    };
    assert_eq!((value.fin, value.opcode, &*value.payload), (fin, opcode, payload));
    assert_eq!(consumed, bytes.len());
    let mut encoded = Vec::new();
    frame::encode(&mut encoded, fin, opcode, payload, (role == Role::Server).then_some(KEY));
    assert_eq!(encoded, bytes);
}

fn check_error(bytes: &str, role: Role, error: FrameError, close_code: u16) {
    let mut input = hex(bytes);
    let decoded = Frame::decode(&mut input, role, 1000);
    assert_eq!(decoded, Err(error), "{bytes}");
    assert_eq!(error.close_code().0, close_code, "{bytes}");
    assert!(!error.to_string().is_empty());
}

/// RFC 6455 section 5.7.
#[test]
fn examples_of_the_rfc_decode() {
    use Opcode::{Binary, Continuation, Ping, Pong, Text};
    check("81 05 48 65 6c 6c 6f", Role::Client, true, Text, b"Hello");
    check("81 85 37 fa 21 3d 7f 9f 4d 51 58", Role::Server, true, Text, b"Hello");
    check("01 03 48 65 6c", Role::Client, false, Text, b"Hel");
    check("80 02 6c 6f", Role::Client, true, Continuation, b"lo");
    check("89 05 48 65 6c 6c 6f", Role::Client, true, Ping, b"Hello");
    check("8a 85 37 fa 21 3d 7f 9f 4d 51 58", Role::Server, true, Pong, b"Hello");
    let ones = " 01".repeat(256);
    check(&format!("82 7e 01 00{ones}"), Role::Client, true, Binary, &[1; 256]);
    let ones = " 01".repeat(65_536);
    check(
        &format!("82 7f 00 00 00 00 00 01 00 00{ones}"),
        Role::Client,
        true,
        Binary,
        &[1; 65_536],
    );
}

#[test]
fn invalid_headers_are_refused() {
    use Role::{Client, Server};
    check_error("c1", Server, FrameError::ReservedBits(0x40), 1002);
    check_error("a1 80", Server, FrameError::ReservedBits(0x20), 1002);
    check_error("f1 00", Client, FrameError::ReservedBits(0x70), 1002);
    for opcode in [3, 4, 5, 6, 7, 0xb, 0xc, 0xd, 0xe, 0xf] {
        let bytes = format!("8{opcode:x}");
        check_error(&bytes, Client, FrameError::ReservedOpcode(opcode), 1002);
    }
    for opcode in ["08", "09", "0a"] {
        check_error(opcode, Server, FrameError::FragmentedControl, 1002);
    }
    check_error("89 fe", Server, FrameError::ControlTooLong, 1002);
    check_error("8a 7f", Client, FrameError::ControlTooLong, 1002);
    check_error("88 fe 00 7e", Server, FrameError::ControlTooLong, 1002);
    check_error("81 05", Server, FrameError::Unmasked, 1002);
    check_error("81 85", Client, FrameError::Masked, 1002);
    check_error("82 7e 00 7d", Client, FrameError::BadLength, 1002);
    check_error("82 fe 00 00", Server, FrameError::BadLength, 1002);
    check_error("82 7f 00 00 00 00 00 00 ff ff", Client, FrameError::BadLength, 1002);
    check_error("82 7f 80 00 00 00 00 01 00 00", Client, FrameError::BadLength, 1002);
}

/// The limit is enforced from the header alone: no payload byte has arrived.
#[test]
fn limits_hold_from_the_header_alone() {
    let too_large = |payload_bytes| FrameError::TooLarge { payload_bytes, payload_bytes_max: 1000 };
    check_error("82 7e 03 e9", Role::Client, too_large(1001), 1009);
    check_error("82 fe 03 e9", Role::Server, too_large(1001), 1009);
    check_error("80 7f 7f ff ff ff ff ff ff ff", Role::Client, too_large(i64::MAX as u64), 1009);
    let header = FrameHeader::decode(&hex("82 7e 03 e8"), Role::Client, 1000).unwrap();
    assert_eq!(header.done().unwrap().0.payload_bytes, 1000);
    // Control frames have their own limit.
    let mut ping = hex("89 03 01 02 03");
    assert!(Frame::decode(&mut ping, Role::Client, 0).unwrap().done().is_some());
}

/// `needed` is exactly the number of bytes with which the decoder makes progress.
#[test]
fn needed_bytes_are_exact() {
    let cases = [
        ("", Role::Client, 2),
        ("", Role::Server, 6),
        ("81", Role::Server, 6),
        ("81 85", Role::Server, 6),
        ("81 85 00 00 00 00 00", Role::Server, 11),
        ("82 7e", Role::Client, 4),
        ("82 7e 01", Role::Client, 4),
        ("82 7e 01 00", Role::Client, 260),
        ("82 fe 01 00", Role::Server, 8),
        ("82 ff 00 00", Role::Server, 14),
        ("82 7f 00 00 00 00 00 01 00 00 ff", Role::Client, 65_546),
    ];
    for (bytes, role, needed) in cases {
        let mut input = hex(bytes);
        let decoded = Frame::decode(&mut input, role, 1 << 20);
        assert_eq!(decoded, Ok(Step::More { needed }), "{bytes}");
        assert_eq!(input, hex(bytes), "an incomplete frame was changed");
    }
}

#[test]
fn header_lengths_depend_on_the_payload() {
    for payload_bytes in [0, 1, 125, 126, 65_535, 65_536, usize::MAX >> 1] {
        let header = encode_header(true, Opcode::Binary, payload_bytes, None);
        assert_eq!(header.as_bytes().len(), header_len(payload_bytes));
        let masked = encode_header(true, Opcode::Binary, payload_bytes, Some(KEY));
        assert_eq!(masked.as_bytes().len(), header_len(payload_bytes) + 4);
        assert!(masked.as_bytes().len() <= HEADER_BYTES_MAX);
        let (decoded, _) = FrameHeader::decode(masked.as_bytes(), Role::Server, usize::MAX)
            .unwrap()
            .done()
            .unwrap();
        assert_eq!((decoded.payload_bytes, decoded.mask_key), (payload_bytes, Some(KEY)));
    }
}
