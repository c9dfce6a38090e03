//! Every decoder gives the same result for all cuts of an input: over generated valid inputs,
//! damaged ones, and noise.

mod drive;

use drive::check_cuts;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use wire::http::event_stream::{OutgoingEvent, append_comment};
use wire::http::{BodyFraming, HeadLimits, body};
use wire::websocket::{CloseCode, Opcode, Role, close, frame};

/// One frame of a sender.
#[derive(Clone, Debug)]
struct Sent {
    opcode: Opcode,
    fin: bool,
    payload: Vec<u8>,
    key: [u8; 4],
}

fn sent() -> impl Strategy<Value = Sent> {
    let data = (
        0..3usize,
        any::<bool>(),
        prop_oneof![
            vec(any::<u8>(), 0..300),
            ".{0,40}".prop_map(String::into_bytes),
            Just(vec![0x61; 70_000]),
        ],
    );
    let data = data.prop_map(|(opcode, fin, payload)| {
        ([Opcode::Continuation, Opcode::Text, Opcode::Binary][opcode], fin, payload)
    });
    let control = (0..3usize, vec(any::<u8>(), 0..125)).prop_map(|(opcode, payload)| {
        let payload = if opcode == 0 {
            close::ClosePayload::new(CloseCode::NORMAL, "bye").as_bytes().to_vec()
        } else {
            payload
        };
        ([Opcode::Close, Opcode::Ping, Opcode::Pong][opcode], true, payload)
    });
    (prop_oneof![4 => data, 2 => control], any::<[u8; 4]>())
        .prop_map(|((opcode, fin, payload), key)| Sent { opcode, fin, payload, key })
}

fn encode(frames: &[Sent], role: Role) -> Vec<u8> {
    let mut out = Vec::new();
    for sent in frames {
        let key = (role == Role::Server).then_some(sent.key);
        frame::encode(&mut out, sent.fin, sent.opcode, &sent.payload, key);
    }
    out
}

/// Text split into fragments at any byte, with pings between them.
fn fragmented_text() -> impl Strategy<Value = Vec<Sent>> {
    (".{0,60}", vec(1..7usize, 1..20), any::<[u8; 4]>()).prop_map(|(text, sizes, key)| {
        let mut rest = text.as_bytes();
        let mut frames = Vec::new();
        for size in sizes {
            let (piece, others) = rest.split_at(size.min(rest.len()));
            let opcode = if frames.is_empty() { Opcode::Text } else { Opcode::Continuation };
            frames.push(Sent { opcode, fin: false, payload: piece.to_vec(), key });
            frames.push(Sent { opcode: Opcode::Ping, fin: true, payload: piece.to_vec(), key });
            rest = others;
        }
        frames.push(Sent { opcode: Opcode::Continuation, fin: true, payload: rest.to_vec(), key });
        frames
    })
}

fn request_text() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        Just("Host: a\r\n"),
        Just("host: b:80\r\n"),
        Just("Content-Length: 5\r\n"),
        Just("Transfer-Encoding: chunked\r\n"),
        Just("Transfer-Encoding: gzip\r\n"),
        Just("Connection: close\r\n"),
        Just("X: \tpadded \r\n"),
        Just(" folded\r\n"),
        Just("Bad : space\r\n"),
        Just("Lf: only\n"),
        Just("Cr: only\r"),
    ];
    let start = prop_oneof![
        5 => Just("GET / HTTP/1.1\r\nHost: a\r\n"),
        5 => Just("POST /topics/a?b=c HTTP/1.1\r\nHost: a\r\n"),
        1 => Just("GET / HTTP/1.0\r\n"),
        1 => Just("\r\nGET / HTTP/1.1\r\nHost: a\r\n"),
        1 => Just("GET /\r\n"),
    ];
    let content = prop_oneof![
        Just(""),
        Just("hello"),
        Just("5\r\nhello\r\n0\r\n\r\n"),
        Just("5;a=b\r\nhello\r\n0\r\nTrailer: x\r\n\r\n"),
        Just("5\nhello"),
    ];
    vec((start, vec(line, 0..3), content), 1..5).prop_map(|messages| {
        let mut out = Vec::new();
        for (start, lines, content) in messages {
            out.extend_from_slice(start.as_bytes());
            for line in lines {
                out.extend_from_slice(line.as_bytes());
            }
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(content.as_bytes());
        }
        out
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x6455_9112),
        ..ProptestConfig::default()
    })]

    #[test]
    fn frames_decode_equally_for_all_cuts(frames in vec(sent(), 0..6), seed: u64, damage in proptest::option::of((any::<prop::sample::Index>(), any::<u8>()))) {
        for role in [Role::Server, Role::Client] {
            let mut input = encode(&frames, role);
            if let (Some((at, byte)), false) = (damage, input.is_empty()) {
                let at = at.index(input.len());
                input[at] = byte;
            }
            check_cuts(seed, |cuts| drive::websocket_frames(&input, role, 66_000, cuts));
            check_cuts(seed, |cuts| drive::websocket_messages(&input, role, 100_000, cuts));
        }
    }

    #[test]
    fn noise_as_frames_decodes_equally_for_all_cuts(input in vec(any::<u8>(), 0..64), seed: u64) {
        for role in [Role::Server, Role::Client] {
            check_cuts(seed, |cuts| drive::websocket_messages(&input, role, 32, cuts));
        }
    }

    #[test]
    fn a_fragmented_text_is_reassembled(frames in fragmented_text(), seed: u64) {
        let input = encode(&frames, Role::Server);
        let lines = check_cuts(seed, |cuts| drive::websocket_messages(&input, Role::Server, 1024, cuts));
        let text: Vec<u8> = frames.iter().filter(|sent| sent.opcode != Opcode::Ping)
            .flat_map(|sent| sent.payload.clone()).collect();
        let expected = format!("Text({:?})", String::from_utf8(text).unwrap());
        prop_assert_eq!(&lines[lines.len() - 2], &expected);
        prop_assert_eq!(&lines[lines.len() - 1], "0 bytes left");
    }

    #[test]
    fn requests_decode_equally_for_all_cuts(input in request_text(), seed: u64) {
        check_cuts(seed, |cuts| drive::http_requests(&input, HeadLimits::default(), 64, cuts));
        let small = HeadLimits { head_bytes_max: 60, target_bytes_max: 5 };
        check_cuts(seed, |cuts| drive::http_requests(&input, small, 4, cuts));
    }

    #[test]
    fn responses_decode_equally_for_all_cuts(start in prop_oneof![Just("HTTP/1.1 200 OK\r\n"), Just("HTTP/1.1 204 \r\n"), Just("HTTP/1.0 200 OK\r\n")],
                 rest in request_text(), seed: u64) {
        let input = [start.as_bytes(), &rest[rest.iter().position(|byte| *byte == b'\n').unwrap() + 1..]].concat();
        check_cuts(seed, |cuts| drive::http_responses(&input, HeadLimits::default(), 64, cuts));
    }

    #[test]
    fn chunks_round_trip(parts in vec(vec(any::<u8>(), 0..300), 0..8), seed: u64) {
        let mut input = Vec::new();
        for part in &parts {
            body::append_chunk(&mut input, part);
        }
        input.extend_from_slice(body::LAST_CHUNK);
        input.extend_from_slice(b"next");
        let lines = check_cuts(seed, |cuts| drive::http_body(&input, BodyFraming::Chunked, 10_000, cuts));
        prop_assert_eq!(lines, vec![format!("{:?}", parts.concat()), "Ok(()), 4 bytes left".to_string()]);
    }

    #[test]
    fn noise_as_a_body_decodes_equally_for_all_cuts(input in "[0-9a-f;\r\nX: ]{0,40}", seed: u64) {
        for framing in [BodyFraming::Chunked, BodyFraming::Length(7), BodyFraming::UntilClose] {
            check_cuts(seed, |cuts| drive::http_body(input.as_bytes(), framing, 9, cuts));
        }
    }

    #[test]
    fn event_streams_decode_equally_for_all_cuts(input in prop_oneof![
        "(data|id|event|retry|other|):? ?[a-z0-9\0é\u{feff}]{0,9}[\r\n]{1,3}",
        "((data|id|event|retry|)(: ?[a-z0-9é]{0,9})?(\r\n|\n|\r)){0,12}",
    ], seed: u64) {
        check_cuts(seed, |cuts| drive::event_stream(input.as_bytes(), 1024, cuts));
        check_cuts(seed, |cuts| drive::event_stream(input.as_bytes(), 16, cuts));
    }

    #[test]
    fn noise_as_an_event_stream_decodes_equally_for_all_cuts(input in vec(any::<u8>(), 0..64), seed: u64) {
        check_cuts(seed, |cuts| drive::event_stream(&input, 1024, cuts));
    }

    #[test]
    fn events_round_trip(events in vec(("[^\r\n\0]{0,9}", "[^\r\n]{0,9}", "[a\r\né ]{0,12}"), 1..5), seed: u64) {
        let mut input = Vec::new();
        let mut expected = Vec::new();
        for (id, event, data) in &events {
            append_comment(&mut input, "alive");
            OutgoingEvent { id: Some(id), event: Some(event), retry_ms: None, data: Some(data) }
                .encode(&mut input).unwrap();
            let data = data.replace("\r\n", "\n").replace('\r', "\n");
            let event = if event.is_empty() { "message" } else { event };
            expected.push("Comment".to_string());
            expected.push(format!("Event(IncomingEvent {{ last_event_id: {id:?}, event: {event:?}, data: {data:?} }})"));
        }
        let lines = check_cuts(seed, |cuts| drive::event_stream(&input, 1024, cuts));
        prop_assert_eq!(&lines[..lines.len() - 1], &expected[..]);
    }
}
