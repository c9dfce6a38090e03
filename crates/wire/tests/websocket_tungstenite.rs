//! Our WebSocket codec against the independent implementation `tungstenite`: both decode the same
//! bytes in both roles, and each decodes the output of the other.
//!
//! Known differences, each permitted by name below:
//! - this codec refuses a bad frame from its header, tungstenite waits for its payload first;
//! - this codec refuses lengths that are not minimal (RFC 6455 section 5.2 "MUST"), tungstenite
//!   accepts them;
//! - a frame with two faults may be refused for either;
//! - a forbidden close code is an error here and a close event with code 1002 there; 1014 is
//!   allowed here only.

use std::io::{Cursor, Read, Write};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tungstenite::error::{CapacityError, ProtocolError};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message, WebSocket};
use wire::Step;
use wire::websocket::frame::{self, FrameError};
use wire::websocket::message::MessageError;
use wire::websocket::{Assembler, CloseCode, Event, Opcode, Role};

const MESSAGE_BYTES_MAX: usize = 1024;

/// The output for a connection's bytes.
#[derive(Clone, Debug, PartialEq)]
struct Outcome {
    events: Vec<Seen>,
    end: End,
}

#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<(u16, String)>),
}

#[derive(Clone, Debug, PartialEq)]
enum End {
    /// The bytes ended, or the peer closed.
    Over,
    /// The close code of the error.
    Refused(u16),
}

fn ours(input: &[u8], role: Role) -> (Outcome, Option<MessageError>) {
    let mut input = input.to_vec();
    let mut rest = &mut input[..];
    let (mut assembler, mut assembly) = (Assembler::new(), Vec::new());
    let mut events = Vec::new();
    loop {
        match assembler.decode(rest, role, MESSAGE_BYTES_MAX, &mut assembly) {
            Err(error) => {
                let end = End::Refused(error.close_code().0);
                return (Outcome { events, end }, Some(error));
            }
            Ok(Step::More { .. }) => {
                return (Outcome { events, end: End::Over }, None);
            }
            Ok(Step::Done { value, consumed }) => {
                let seen = match value {
                    Event::Compressed(..) => unreachable!("nothing was agreed"),
                    Event::Fragment => None,
                    Event::Text(text) => Some(Seen::Text(text.into())),
                    Event::Binary(bytes) => Some(Seen::Binary(bytes.into())),
                    Event::Ping(bytes) => Some(Seen::Ping(bytes.into())),
                    Event::Pong(bytes) => Some(Seen::Pong(bytes.into())),
                    Event::Close(close) => {
                        let code = close.code.map(|code| (code.0, close.reason.to_string()));
                        events.push(Seen::Close(code));
                        return (Outcome { events, end: End::Over }, None);
                    }
                };
                events.extend(seen);
                rest = &mut rest[consumed..];
            }
        }
    }
}

/// Bytes to read; written bytes are discarded.
struct Script(Cursor<Vec<u8>>);

impl Read for Script {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buf)
    }
}

impl Write for Script {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        Ok(buf.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn their_role(role: Role) -> tungstenite::protocol::Role {
    match role {
        Role::Server => tungstenite::protocol::Role::Server,
        Role::Client => tungstenite::protocol::Role::Client,
    }
}

fn theirs(input: &[u8], role: Role) -> Outcome {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX))
        .read_buffer_size(4096);
    let script = Script(Cursor::new(input.to_vec()));
    let mut socket = WebSocket::from_raw_socket(script, their_role(role), Some(config));
    let mut events = Vec::new();
    loop {
        let end = match socket.read() {
            Ok(message) => {
                events.push(match message {
                    Message::Text(text) => Seen::Text(text.as_str().into()),
                    Message::Binary(bytes) => Seen::Binary(bytes.to_vec()),
                    Message::Ping(bytes) => Seen::Ping(bytes.to_vec()),
                    Message::Pong(bytes) => Seen::Pong(bytes.to_vec()),
                    Message::Close(close) => {
                        match close.map(|close| (close.code.into(), close.reason.to_string())) {
                            Some((1002, reason)) if reason == "Protocol violation" => {
                                return Outcome { events, end: End::Refused(1002) };
                            }
                            close => events.push(Seen::Close(close)),
                        }
                        return Outcome { events, end: End::Over };
                    }
                    Message::Frame(_) => unreachable!("only written, never read"),
                });
                continue;
            }
            Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => End::Over,
            Err(Error::Protocol(_)) => End::Refused(1002),
            Err(Error::Utf8(_)) => End::Refused(1007),
            Err(Error::Capacity(CapacityError::MessageTooLong { .. })) => End::Refused(1009),
            Err(error) => panic!("{error:?}"),
        };
        return Outcome { events, end };
    }
}

fn check(input: &[u8], role: Role) {
    let (ours, error) = ours(input, role);
    let theirs = theirs(input, role);
    if ours == theirs {
        return;
    }
    assert!(
        theirs.events.starts_with(&ours.events),
        "{role:?} {input:x?}\n ours {ours:?}\n theirs {theirs:?}"
    );
    let allowed = match (&ours.end, &theirs.end) {
        (End::Refused(_), _) if error == Some(MessageError::Frame(FrameError::BadLength)) => true,
        // Refused from the header, or from the first bad byte of text: tungstenite is still
        // waiting.
        (End::Refused(_), End::Over) => ours.events == theirs.events,
        // Two faults in one frame.
        (End::Refused(_), End::Refused(_)) => ours.events == theirs.events,
        _ => false,
    };
    assert!(allowed, "{role:?} {input:x?}\n ours {ours:?} {error:?}\n theirs {theirs:?}");
}

/// Arbitrary frames, valid or not.
fn frames() -> impl Strategy<Value = Vec<(bool, Opcode, Vec<u8>, [u8; 4])>> {
    let opcodes = prop_oneof![
        8 => Just(Opcode::Continuation),
        6 => Just(Opcode::Text),
        4 => Just(Opcode::Binary),
        3 => Just(Opcode::Ping),
        3 => Just(Opcode::Pong),
        1 => Just(Opcode::Close),
    ];
    let payload = prop_oneof![
        4 => "[a-zé€𝄞]{0,9}".prop_map(String::into_bytes),
        3 => prop::sample::select(vec![&[0xe2][..], &[0x82], &[0xac], &[0xf0, 0x9f], &[0x98, 0x80], &[0xe2, 0x82, 0xac]])
            .prop_map(<[u8]>::to_vec),
        1 => Just(b"\x03\xe8bye".to_vec()),
        1 => vec(any::<u8>(), 0..9),
        1 => (120..130usize).prop_map(|bytes| vec![0x62; bytes]),
        1 => (400..700usize).prop_map(|bytes| vec![0x63; bytes]),
    ];
    // Nine of ten data frames are in a valid sequence; the rest break it.
    let obeys = prop::bool::weighted(0.9);
    let frame = (any::<bool>(), opcodes, payload, any::<[u8; 4]>(), obeys);
    vec(frame, 0..12).prop_map(|frames| {
        let mut open = false;
        frames
            .into_iter()
            .map(|(fin, mut opcode, mut payload, key, obeys)| {
                if opcode.is_control() {
                    payload.truncate(125);
                    // The only close code with different results.
                    if payload.starts_with(&1014u16.to_be_bytes()) {
                        payload[1] = 0;
                    }
                    return (true, opcode, payload, key);
                }
                if obeys && open {
                    opcode = Opcode::Continuation;
                } else if obeys && opcode == Opcode::Continuation {
                    opcode = Opcode::Text;
                }
                open = !fin;
                (fin, opcode, payload, key)
            })
            .collect()
    })
}

fn encode(frames: &[(bool, Opcode, Vec<u8>, [u8; 4])], role: Role) -> Vec<u8> {
    let mut out = Vec::new();
    for (fin, opcode, payload, key) in frames {
        let key = (role == Role::Server).then_some(*key);
        frame::encode(&mut out, *fin, *opcode, payload, key);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1024,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x6455),
        ..ProptestConfig::default()
    })]

    #[test]
    fn both_agree_on_frames(frames in frames()) {
        for role in [Role::Server, Role::Client] {
            check(&encode(&frames, role), role);
        }
    }

    #[test]
    fn both_agree_on_damaged_frames(frames in frames(), damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..3)) {
        for role in [Role::Server, Role::Client] {
            let mut input = encode(&frames, role);
            for (at, byte) in &damage {
                if !input.is_empty() {
                    let at = at.index(input.len());
                    input[at] = *byte;
                }
            }
            check(&input, role);
        }
    }

    #[test]
    fn both_agree_on_noise(input in vec(any::<u8>(), 0..32)) {
        for role in [Role::Server, Role::Client] {
            check(&input, role);
        }
    }
}

/// The bytes that `tungstenite` writes for one message.
fn written_by_them(message: Message, role: Role) -> Vec<u8> {
    let mut socket = WebSocket::from_raw_socket(Cursor::new(Vec::new()), their_role(role), None);
    socket.send(message).unwrap();
    socket.get_ref().get_ref().clone()
}

#[test]
fn both_write_the_same_bytes() {
    for bytes in [0, 1, 125, 126, 127, 512, 1024] {
        let text = "é".repeat(bytes / 2);
        let cases = [
            (Message::text(text.clone()), Seen::Text(text.clone()), Opcode::Text),
            (Message::binary(vec![7; bytes]), Seen::Binary(vec![7; bytes]), Opcode::Binary),
            (
                Message::Ping(vec![8; bytes.min(125)].into()),
                Seen::Ping(vec![8; bytes.min(125)]),
                Opcode::Ping,
            ),
        ];
        for (message, seen, opcode) in cases {
            let payload = message.clone().into_data().to_vec();
            let from_client = written_by_them(message.clone(), tungstenite_peer(Role::Server));
            let (outcome, _) = ours(&from_client, Role::Server);
            assert_eq!(outcome, Outcome { events: vec![seen.clone()], end: End::Over });

            let from_server = written_by_them(message, tungstenite_peer(Role::Client));
            let (outcome, _) = ours(&from_server, Role::Client);
            assert_eq!(outcome, Outcome { events: vec![seen], end: End::Over });

            let mut encoded = Vec::new();
            frame::encode(&mut encoded, true, opcode, &payload, None);
            assert_eq!(encoded, from_server);
        }
    }
    assert_eq!(
        CloseCode::NORMAL.0,
        u16::from(tungstenite::protocol::frame::coding::CloseCode::Normal)
    );
}

/// The role of the peer of `reader`.
fn tungstenite_peer(reader: Role) -> Role {
    match reader {
        Role::Server => Role::Client,
        Role::Client => Role::Server,
    }
}
