//! Targets of the WebSocket codec.

use wire::http::{HeadLimits, HeadScan, Request, Response};
use wire::native::EARLY_FRAME_PREFIX;
use wire::websocket::frame::{self, Frame, FrameHeader, Opcode, header_len};
use wire::websocket::handshake::{ClientHandshake, Upgrade, early_message};
use wire::websocket::{Close, ClosePayload, Deflater, Inflater, Role};
use wire::{Step, websocket};

use crate::drive::{
    check_cuts, websocket_compressed_messages, websocket_frames, websocket_messages,
};
use crate::split_seed;

const ROLES: [Role; 2] = [Role::Server, Role::Client];

/// Frames in both roles: cuts, and decoded frames encode to the same bytes.
pub fn websocket_frame(data: &[u8]) {
    let (seed, input) = split_seed(data);
    for role in ROLES {
        check_cuts(seed, |cuts| websocket_frames(input, role, 4096, cuts));
        encode_again(input, role);
    }
}

/// Messages in both roles.
pub fn websocket_message(data: &[u8]) {
    let (seed, input) = split_seed(data);
    for role in ROLES {
        check_cuts(seed, |cuts| websocket_messages(input, role, 300, cuts));
    }
    if let Ok(Close { code: Some(code), reason }) = Close::decode(input)
        && reason.len() <= websocket::close::REASON_BYTES_MAX
    {
        assert_eq!(ClosePayload::new(code, reason).as_bytes(), input);
    }
}

/// Compressed messages in both roles: cuts; as one payload, within a bound and equal the second
/// time; and an inflated message survives compression.
pub fn websocket_deflate(data: &[u8]) {
    let (seed, input) = split_seed(data);
    for role in ROLES {
        check_cuts(seed, |cuts| websocket_compressed_messages(input, role, 300, cuts));
    }
    let bytes_max = 1 + seed as usize % 100_000;
    let mut inflater = Inflater::new();
    let first = inflater.decode(input, bytes_max).map(<[u8]>::to_vec);
    assert_eq!(inflater.decode(input, bytes_max), first.as_deref().map_err(|error| *error));
    let Ok(message) = first else {
        return;
    };
    assert!(message.len() <= bytes_max);
    let mut deflater = Deflater::new(seed as u8);
    let (front, back) = message.split_at(message.len() / 2);
    for parts in [&[&message[..]][..], &[input], &[front, back], &[input, input]] {
        let mut payload = Vec::new();
        if deflater.deflate(parts, &mut payload) {
            let plain = parts.concat();
            assert!(payload.len() < plain.len());
            assert_eq!(inflater.decode(&payload, plain.len()), Ok(&plain[..]));
        }
    }
}

/// Handshakes: the request as a server reads it, and the answer as a client reads it.
pub fn websocket_handshake(data: &[u8]) {
    let limits = HeadLimits::default();
    if let Ok(Step::Done { value: request, .. }) =
        Request::decode(data, &mut HeadScan::new(), &limits)
    {
        let mut answer = Vec::new();
        let checked =
            Upgrade::check(&request).and_then(|upgrade| Ok((upgrade, upgrade.choose_deflate()?)));
        match checked {
            Ok((upgrade, deflate)) => {
                let subprotocol = upgrade.subprotocols().next();
                check_early_messages(&upgrade);
                upgrade.encode_response_with(&mut answer, subprotocol, deflate);
                let bits = deflate.map_or(15, |deflate| deflate.server_window_bits);
                assert!((8..=15).contains(&bits));
            }
            Err(refusal) => refusal.encode(&mut answer),
        }
        let decoded = Response::decode(&answer, &mut HeadScan::new(), &limits, "GET");
        assert!(matches!(decoded, Ok(Step::Done { .. })), "{decoded:?}");
    }
    if let Ok(Step::Done { value: response, .. }) =
        Response::decode(data, &mut HeadScan::new(), &limits, "GET")
    {
        let handshake = ClientHandshake {
            host: "localhost",
            target: "/crore",
            nonce: *b"the sample nonce",
            subprotocols: &["crore.v1"],
            headers: &[],
            deflate: true,
        };
        let _ = handshake.check_response(&response);
        let _ = handshake.check_deflate(&response);
    }
}

/// The early data of a handshake consists of complete frames, one for each offer.
fn check_early_messages(upgrade: &Upgrade<'_, '_>) {
    let is_early = |name: &&str| name.starts_with(EARLY_FRAME_PREFIX);
    let offered = upgrade.subprotocols().filter(is_early).count();
    let Ok(mut frames) = upgrade.early_messages(EARLY_FRAME_PREFIX, Opcode::Binary) else {
        assert!(offered > 0, "refused without an offer");
        return;
    };
    let mut rest = &mut frames[..];
    for _ in 0..offered {
        let Ok(Step::Done { value, consumed }) = Frame::decode(rest, Role::Server, 1 << 20) else {
            panic!("an early message is not a complete frame");
        };
        assert!(value.fin && value.opcode == Opcode::Binary);
        let name = early_message(EARLY_FRAME_PREFIX, value.payload);
        assert!(upgrade.subprotocols().any(|offer| offer == name));
        rest = &mut rest[consumed..];
    }
    assert!(rest.is_empty());
}

fn encode_again(input: &[u8], role: Role) {
    let mut received = input.to_vec();
    let mut rest = &mut received[..];
    let mut at = 0;
    while let Ok(Step::Done { value: header, consumed: header_bytes }) =
        FrameHeader::decode(rest, role, 4096)
    {
        let Ok(Step::Done { value: frame, consumed }) = Frame::decode(rest, role, 4096) else {
            return;
        };
        let mask_bytes = header.mask_key.map_or(0, |key| key.len());
        assert_eq!(header_bytes, header_len(frame.payload.len()) + mask_bytes);
        let mut encoded = Vec::new();
        frame::encode(&mut encoded, frame.fin, frame.opcode, frame.payload, header.mask_key);
        assert_eq!(encoded, &input[at..at + consumed]);
        at += consumed;
        rest = &mut rest[consumed..];
    }
}
