//! Compressed messages: the examples of RFC 7692 section 7.2.3, round trips, hostile payloads,
//! bounds.

use proptest::prelude::*;
use wire::Step;
use wire::websocket::deflate::{Deflater, InflateError, Inflater};
use wire::websocket::frame::{self, FrameError};
use wire::websocket::message::MessageError;
use wire::websocket::{Assembler, CloseCode, Event, Kind, Opcode, Role};

const BYTES_MAX: usize = 1 << 20;

fn hex(text: &str) -> Vec<u8> {
    let byte = |pair: &str| u8::from_str_radix(pair, 16).unwrap();
    text.split_whitespace().map(byte).collect()
}

fn inflated(payload: &[u8]) -> Result<Vec<u8>, InflateError> {
    let mut inflater = Inflater::new();
    let first = inflater.decode(payload, BYTES_MAX).map(<[u8]>::to_vec);
    let second = inflater.decode(payload, BYTES_MAX).map(<[u8]>::to_vec);
    assert_eq!(first, second, "nothing is left of the message before");
    first
}

fn deflated(message: &[u8], level: u8) -> Option<Vec<u8>> {
    let mut out = b"before".to_vec();
    let is_shorter = Deflater::new(level).deflate(&[message], &mut out);
    let payload = out.split_off(b"before".len());
    assert!(is_shorter || payload.is_empty());
    is_shorter.then_some(payload)
}

/// The only message of these frames, as a server receives it.
fn received(frames: &[u8]) -> Result<Vec<u8>, MessageError> {
    let (mut assembler, mut assembly) = (Assembler::with_deflate(true), Vec::new());
    let mut inflater = Inflater::new();
    let mut bytes = frames.to_vec();
    let mut rest = &mut bytes[..];
    loop {
        let step = assembler.decode(rest, Role::Client, BYTES_MAX, &mut assembly)?;
        let Step::Done { value, consumed } = step else {
            panic!("the frames are whole");
        };
        match value {
            Event::Fragment | Event::Ping(_) => {}
            Event::Text(text) => return Ok(text.as_bytes().to_vec()),
            Event::Binary(bytes) => return Ok(bytes.to_vec()),
            Event::Compressed(kind, payload) => {
                return match inflater.message(kind, payload, BYTES_MAX)? {
                    Event::Text(text) if kind == Kind::Text => Ok(text.as_bytes().to_vec()),
                    Event::Binary(bytes) if kind == Kind::Binary => Ok(bytes.to_vec()),
                    event => panic!("{event:?}"),
                };
            }
            event => panic!("{event:?}"),
        }
        rest = &mut rest[consumed..];
    }
}

#[test]
fn examples_of_the_rfc_decode() {
    let check = |frames: &str, message: &str| {
        assert_eq!(received(&hex(frames)).unwrap(), message.as_bytes(), "{frames}");
    };
    // 7.2.3.1: one frame, two fragments.
    check("c1 07 f2 48 cd c9 c9 07 00", "Hello");
    check("41 03 f2 48 cd 80 04 c9 c9 07 00", "Hello");
    // A control frame may stand between them, uncompressed.
    check("41 03 f2 48 cd 89 01 78 80 04 c9 c9 07 00", "Hello");
    // 7.2.3.3: a block without compression.
    check("c1 0b 00 05 00 fa ff 48 65 6c 6c 6f 00", "Hello");
    // 7.2.3.4: a block with BFINAL; the byte behind it may be missing.
    check("c1 08 f3 48 cd c9 c9 07 00 00", "Hello");
    check("c1 07 f3 48 cd c9 c9 07 00", "Hello");
    // 7.2.3.5: two blocks.
    check("c1 0d f2 48 05 00 00 00 ff ff ca c9 c9 07 00", "Hello");
    // 7.2.3.6: an empty message; and the form that some senders use.
    check("c1 01 00", "");
    check("c1 00", "");
    // Two streams in one message.
    check("c2 0e f3 48 cd c9 c9 07 00 f2 48 cd c9 c9 07 00", "HelloHello");
    // A connection with compression may send uncompressed messages.
    check("81 05 48 65 6c 6c 6f", "Hello");
    // 7.2.3.2: the second message of a sender that keeps its context is invalid alone.
    assert_eq!(
        received(&hex("c1 05 f2 00 11 00 00")),
        Err(MessageError::Inflate(InflateError::Corrupt))
    );
    assert_eq!(deflated(b"Hello", 6), None, "seven bytes are not shorter");
}

#[test]
fn the_bit_is_valid_only_in_the_first_frame_of_a_data_message() {
    let check = |frames: &str, error| assert_eq!(received(&hex(frames)), Err(error), "{frames}");
    let reserved = |bits| MessageError::Frame(FrameError::ReservedBits(bits));
    // On a continuation, on control frames, and the other two bits in any frame.
    check("41 03 f2 48 cd c0 04 c9 c9 07 00", reserved(0x40));
    check("c9 00", reserved(0x40));
    check("ca 00", reserved(0x40));
    check("c8 00", reserved(0x40));
    check("e1 01 00", reserved(0x60));
    check("d1 01 00", reserved(0x50));
    check("a1 01 00", reserved(0x20));
    // A compressed message inside a fragmented one.
    check("41 03 f2 48 cd c1 01 00", MessageError::ExpectedContinuation);
    // On a connection without compression.
    let mut frame = hex("c1 01 00");
    assert_eq!(
        Assembler::new().decode(&mut frame, Role::Client, BYTES_MAX, &mut Vec::new()),
        Err(reserved(0x40))
    );
}

#[test]
fn inflated_text_is_validated() {
    let mut payload = Vec::new();
    assert!(Deflater::new(1).deflate(&[&[0xff; 100]], &mut payload));
    let error = Inflater::new().message(Kind::Text, &payload, BYTES_MAX).unwrap_err();
    assert_eq!(error, MessageError::InvalidUtf8);
    assert_eq!(error.close_code(), CloseCode::INVALID_PAYLOAD);
    let event = Inflater::new();
    let mut event = event;
    assert_eq!(event.message(Kind::Binary, &payload, BYTES_MAX), Ok(Event::Binary(&[0xff; 100])));
}

#[test]
fn a_decompression_bomb_is_refused_at_the_bound() {
    let mut payload = Vec::new();
    assert!(Deflater::new(9).deflate(&[&vec![0; 10 << 20]], &mut payload));
    assert!(payload.len() < 20_000);
    let mut inflater = Inflater::new();
    for bytes_max in [0, 1, 1_000, 1 << 20, (10 << 20) - 1] {
        let error = inflater.decode(&payload, bytes_max).unwrap_err();
        let message_bytes_max = bytes_max;
        assert_eq!(error, InflateError::TooLarge { message_bytes_max });
        let error = MessageError::from(error);
        assert_eq!(error.close_code(), CloseCode::MESSAGE_TOO_BIG);
    }
    assert_eq!(inflater.decode(&payload, 10 << 20).unwrap().len(), 10 << 20);
    // A payload of many streams is refused as well.
    let many = hex("f3 48 cd c9 c9 07 00").repeat(1_000);
    assert_eq!(inflater.decode(&many, 5_000).unwrap().len(), 5_000);
    assert!(inflater.decode(&many, 4_999).is_err());
}

#[test]
fn a_truncated_payload_is_refused() {
    let message =
        br#"{"topic":"prices/eur","bid":1.0823,"ask":1.0825,"at":"2026-11-22T10:00:00Z"}"#
            .repeat(4);
    for level in 1..=9 {
        let payload = deflated(&message, level).unwrap();
        assert_eq!(inflated(&payload).unwrap(), message);
        for len in 1..payload.len() {
            let result = inflated(&payload[..len]);
            assert_eq!(result, Err(InflateError::Corrupt), "level {level}, {len} bytes");
        }
    }
    assert_eq!(
        MessageError::Inflate(InflateError::Corrupt).close_code(),
        CloseCode::INVALID_PAYLOAD
    );
}

#[test]
fn incompressible_messages_stay_uncompressed() {
    let mut random = stdx::prng::Prng::new(1);
    let mut noise = vec![0; 4_096];
    random.fill(&mut noise);
    for level in 1..=9 {
        assert_eq!(deflated(&noise, level), None);
        assert_eq!(deflated(b"", level), None);
        assert_eq!(deflated(b"a", level), None);
    }
    // After that the compressor still works, any number of times.
    for level in 1..=9 {
        let mut deflater = Deflater::new(level);
        for round in 0..100 {
            let mut out = Vec::new();
            assert!(!deflater.deflate(&[&noise[..3_900 + round], &noise[..50]], &mut out));
            assert!(!deflater.deflate(&[b"", b""], &mut out));
            assert!(deflater.deflate(&[&[7; 100], b"", &noise[..20]], &mut out));
            let message = inflated(&out).unwrap();
            assert_eq!(message, [&[7; 100][..], &noise[..20]].concat());
        }
    }
}

/// Bytes of varying compressibility.
fn messages() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..2_000),
        proptest::collection::vec(0u8..4, 0..20_000),
        ("[a-f]{1,12}", 1usize..3_000).prop_map(|(word, times)| word.repeat(times).into_bytes()),
    ]
}

proptest! {
    #[test]
    fn messages_survive_compression(message in messages(), level in 0u8..12, cuts in proptest::collection::vec(0usize..20_000, 0..4)) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(message.len())).collect();
        cuts.sort_unstable();
        let mut parts = Vec::new();
        let mut start = 0;
        for cut in cuts {
            parts.push(&message[start..cut]);
            start = cut;
        }
        parts.push(&message[start..]);
        let mut payload = Vec::new();
        if Deflater::new(level).deflate(&parts, &mut payload) {
            prop_assert!(payload.len() < message.len());
            prop_assert_eq!(inflated(&payload), Ok(message.clone()));
            // Frames of any length.
            let mut frames = Vec::new();
            let chunk = payload.len().div_ceil(1 + message.len() % 5);
            let count = payload.chunks(chunk).count();
            for (at, part) in payload.chunks(chunk).enumerate() {
                let opcode = if at == 0 { Opcode::Binary } else { Opcode::Continuation };
                let first = frames.len();
                frame::encode(&mut frames, at + 1 == count, opcode, part, None);
                frames[first] |= if at == 0 { 0x40 } else { 0 };
            }
            prop_assert_eq!(received(&frames), Ok(message));
        }
    }

    #[test]
    fn random_bytes_never_panic(payload in proptest::collection::vec(any::<u8>(), 0..600), bytes_max in 0usize..5_000) {
        let mut inflater = Inflater::new();
        match inflater.decode(&payload, bytes_max) {
            Ok(message) => prop_assert!(message.len() <= bytes_max),
            Err(InflateError::TooLarge { message_bytes_max }) => prop_assert_eq!(message_bytes_max, bytes_max),
            Err(InflateError::Corrupt) => {}
        }
    }
}
