//! The seeds of the committed corpora, as code: valid and invalid input for each decoder.
//!
//! `cargo run --manifest-path fuzz/Cargo.toml --example seeds` writes them to `corpus/<target>/`.
//! Files that a fuzzer found lie beside them under other names and are not changed.

use broker::mail::PartitionId;
use broker::position::Position;
use broker::settings::LagPolicy;
use broker::ticket::{Ticket, TicketCursor, TicketSubscription};
use wire::native::{ClientFrame, ServerFrame};
use wire::proxy::{Announced, encode_binary, encode_line};
use wire::websocket::frame::RSV1;
use wire::websocket::{CloseCode, ClosePayload, Deflater, Opcode, frame};

/// The seeds of a target: file names and bytes. Empty for an unknown target.
pub fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let seeds: Vec<Vec<u8>> = match target {
        "websocket_frame" | "websocket_message" => websocket(),
        "websocket_deflate" => compressed(),
        "websocket_handshake" => texts(HANDSHAKES),
        "http_request" => texts(REQUESTS),
        "http_response" => texts(RESPONSES),
        "http_body" => texts(BODIES),
        "http_target" => texts(TARGETS),
        "engine_record" => crate::engine_record::seeds(),
        "event_stream" => texts(STREAMS),
        "handed" => crate::handed::seeds(),
        "mqtt_client" => crate::mqtt::seeds(true),
        "mqtt_server" => crate::mqtt::seeds(false),
        "node_record" => crate::node_record::seeds(),
        "native_client_frame" => vectors(include_str!("../../spec/vectors/client_frames.json")),
        "native_server_frame" => vectors(include_str!("../../spec/vectors/server_frames.json")),
        "json_client_frame" => client_texts(),
        "json_server_frame" => server_texts(),
        "proxy" => proxy_headers(),
        "shard" => conversations(),
        "store_index" => crate::store::template_bytes(true),
        "store_segment" => crate::store::template_bytes(false),
        "tcp_life" => crate::tcp::lives(),
        "tcp_options" => crate::tcp::options(),
        "tcp_packet" => crate::tcp::packets(),
        "tcp_stack" => crate::tcp::stacks(),
        "ticket" => tickets(),
        "token" => tokens(),
        "tls_record" => tls_records(),
        _ => Vec::new(),
    };
    let name = |at| format!("seed-{at:02}");
    seeds.into_iter().enumerate().map(|(at, bytes)| (name(at), bytes)).collect()
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| with_seed(text.as_bytes().to_vec())).collect()
}

/// The frames of the shared test vectors as JSON, and lists.
fn client_texts() -> Vec<Vec<u8>> {
    let mut texts: Vec<Vec<u8>> = vectors(include_str!("../../spec/vectors/client_frames.json"))
        .iter()
        .filter_map(|bytes| {
            let mut text = Vec::new();
            ClientFrame::decode(bytes).ok()?.encode_json(&mut text);
            Some(text)
        })
        .collect();
    for text in [
        r#"[{"type":"hello"},{"type":"subscribe","items":[{"subscription":1,"filter":"a/#"}]}]"#,
        r#"{"type":"publish","topic":"\u20ac","payload":"\ud83d\ude00","later":[{}]}"#,
        r#"{"type":"publish","request":5,"topic":"a","payload_base64":"AP+A","!must":0}"#,
        r#"{"type":"ping","token":"18446744073709551615"}"#,
    ] {
        texts.push(text.into());
    }
    texts
}

fn server_texts() -> Vec<Vec<u8>> {
    vectors(include_str!("../../spec/vectors/server_frames.json"))
        .iter()
        .filter_map(|bytes| {
            let mut text = Vec::new();
            ServerFrame::decode(bytes).ok()?.encode_json(7, &mut text);
            Some(text)
        })
        .collect()
}

/// The frames of a file of shared test vectors, valid and invalid.
fn vectors(document: &str) -> Vec<Vec<u8>> {
    let frames = document.split("\"hex\": \"").skip(1);
    frames
        .map(|rest| {
            let digits = rest.split('"').next().unwrap_or_default().as_bytes();
            let byte = |pair: &[u8]| {
                let nibble = |digit: u8| (digit as char).to_digit(16).unwrap_or(0) as u8;
                nibble(pair[0]) << 4 | nibble(pair[1])
            };
            digits.chunks_exact(2).map(byte).collect()
        })
        .collect()
}

/// Data, alerts, key updates and tickets, for both versions and sides, followed by nothing or by an
/// invalid record.
fn tls_records() -> Vec<Vec<u8>> {
    let record = |kind: u8, text: &[u8]| {
        let [high, low] = (text.len() as u16).to_be_bytes();
        [&[kind, high, low], text].concat()
    };
    let records = [
        record(23, b"hello"),
        record(23, b""),
        record(22, &[24, 0, 0, 1, 1]),
        record(22, &[4, 0, 0, 2, 7, 7]),
        record(22, &[1, 0, 0, 0]),
        record(22, &[0, 0, 0, 0]),
        record(21, &[1, 90]),
        record(21, &[1, 0]),
    ];
    let mut seeds = Vec::new();
    for first in 0..4 {
        for (place, record) in records.iter().enumerate() {
            let after = &records[(place + 1) % records.len()];
            let raw: &[u8] = &[0xff, 23, 3, 3, 0, 20, 1, 2, 3];
            let tail = if place % 2 == 0 { raw } else { &[] };
            seeds.push(with_seed([&[first], &record[..], after, tail].concat()));
        }
    }
    seeds
}

/// Both versions, of every kind, with and without a checksum; and two invalid headers.
fn proxy_headers() -> Vec<Vec<u8>> {
    let tcp = |source: &str, target: &str| Announced::Tcp {
        source: source.parse().expect("an address"),
        target: target.parse().expect("an address"),
    };
    let announced = [
        Announced::Local,
        Announced::Unknown,
        Announced::Unix,
        tcp("192.0.2.1:8080", "192.0.2.2:443"),
        tcp("[2001:db8::1]:8080", "[2001:db8::2]:443"),
    ];
    let mut seeds = texts(&["PROXY TCP4 1.2.3.4 5.6.7.8 01 2\r\n", "GET / HTTP/1.1\r\n"]);
    for announced in &announced {
        let mut line = Vec::new();
        encode_line(&mut line, announced);
        seeds.push(with_seed(line));
        for with_checksum in [false, true] {
            let mut header = Vec::new();
            encode_binary(&mut header, announced, with_checksum);
            seeds.push(with_seed(header));
        }
    }
    seeds
}

/// Tokens, claims, key sets, revocations and answers for each decoder of `token`.
fn tokens() -> Vec<Vec<u8>> {
    let texts: [(u8, &str); 7] = [
        (0, "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEifQ.eyJzdWIiOiJhbm5hIiwiZXhwIjo5fQ.AAAA"),
        (0, "eyJhbGciOiJub25lIn0.e30.AA"),
        (
            1,
            r#"{"iss":"i","sub":"anna","aud":["a"],"exp":4e9,"nbf":1,"iat":1,"jti":"t","permissions":{"sub":["a/{sub}/#"],"pub":["b"],"history":["+"],"all":["c"]},"limits":{"connections":1,"subscriptions":2,"publish_rate":3}}"#,
        ),
        (
            2,
            r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","use":"sig","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},{"kty":"oct","k":"AA"},{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},{"kty":"RSA","n":"AQAB","e":"AQAB"}]}"#,
        ),
        (
            3,
            r#"{"version":1,"ids_given":3,"revocations":[{"id":1,"jti":"t","ends":5000},{"id":2,"sub":"anna","issued_before":1000},{"id":3,"issued_before":900}]}"#,
        ),
        (4, "https://id.example.com:8443/.well-known/jwks.json?v=1"),
        (4, "http://[::1]:80"),
    ];
    let seed = |(kind, text): &(u8, &str)| [&[*kind], text.as_bytes()].concat();
    texts.iter().map(seed).collect()
}

fn tickets() -> Vec<Vec<u8>> {
    let at = |epoch, offset| Position { epoch, offset };
    let subscription = |client, filter: &str, policy, cursor| TicketSubscription {
        client,
        filter: filter.to_owned(),
        fail_on_gap: client == 1,
        policy,
        cursor,
    };
    let full = Ticket {
        issued_ms: 1_795_314_000_000,
        expires_ms: 1_795_400_400_000,
        identity: b"somebody".to_vec(),
        positions: vec![
            (PartitionId(0), at(7, 3)),
            (PartitionId(2), at(7, 90)),
            (PartitionId(9), at(8, 1)),
        ],
        subscriptions: vec![
            subscription(1, "a/b", None, TicketCursor::Plain(at(7, 42))),
            subscription(
                2,
                "a/#",
                Some(LagPolicy::Drop),
                TicketCursor::Filter(vec![(PartitionId(2), at(7, 80))]),
            ),
        ],
    };
    [Ticket::default(), full]
        .iter()
        .map(|ticket| {
            let mut bytes = Vec::new();
            ticket.encode(&mut bytes);
            bytes
        })
        .collect()
}

/// Conversations of clients of each protocol with a shard: parts of `connection + 3 * (length - 1)`
/// and as many bytes.
fn conversations() -> Vec<Vec<u8>> {
    const UPGRADE: &str = "GET /crore HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Sec-WebSocket-Protocol: crore.v1\r\n\r\n";
    const POST: &str = "POST /topics/a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    const RETAIN: &str = "POST /publish HTTP/1.1\r\nHost: a\r\nContent-Length: 42\r\n\r\n\
        {\"topic\":\"a\",\"data\":\"hello\",\"retain\":true}";
    const EVENTS: &str = "GET /events?topic=a&topic=b%2F%23 HTTP/1.1\r\nHost: a\r\n\r\n";
    const RETURNS: &str = "GET /events?topic=%23&topic=b%2F%23&topic=a&data=json HTTP/1.1\r\nHost: a\r\n\
        Last-Event-ID: -,!,7:1/7:~1.2\r\n\r\n";
    const REFUSED: &str = "GET /events?topic=%23&since=7:0&last=1&x HTTP/1.1\r\nHost: a\r\n\r\n\
        GET /retained/a HTTP/1.1\r\nHost: a\r\n\r\n";
    const RAW: &str =
        "GET /topics/a?last=3 HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n";
    const POLL: &str = "GET /topics/a?wait=1s&since=7:0 HTTP/1.1\r\nHost: a\r\n\r\n";
    const HISTORY: &str = "GET /topics/a?limit=2&reverse HTTP/1.1\r\nHost: a\r\n\r\n";
    const ECHO: &str = "GET /echo HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let mut native = UPGRADE.as_bytes().to_vec();
    for bytes in [
        &b"\x01\x00\x01\x00"[..],
        b"\x02\x00\x03\x01\x00\x01a\x00\x02\x00\x01b\x02\x0a\x03\x00\x01#\x00",
        b"\x04\x00\x01\x01ahello",
        b"\x04\x01\x02\x01bkept",
        b"\x02\x00\x01\x05\x01\x01c\x01\x07\x2a",
        b"\x05\x01\x03\x01a\x0a\x00",
        b"\x03\x00\x01\x01",
        b"\x02\x00\x01\x01\x00\x01b\x03",
    ] {
        frame::encode(&mut native, true, Opcode::Binary, bytes, Some([1, 2, 3, 4]));
    }
    let json = json_client(UPGRADE);
    let mut echo = ECHO.as_bytes().to_vec();
    frame::encode(&mut echo, true, Opcode::Text, b"hello", Some([1, 2, 3, 4]));
    let conversation = |said: &[(u8, &[u8])]| {
        let mut input = Vec::new();
        for (connection, bytes) in said {
            for part in bytes.chunks(80) {
                input.push(connection + 3 * (part.len() as u8 - 1));
                input.extend_from_slice(part);
            }
        }
        with_seed(input)
    };
    vec![
        conversation(&[(0, &native)]),
        conversation(&[(0, &native), (1, &native), (2, POST.as_bytes())]),
        conversation(&[(0, EVENTS.as_bytes()), (1, POST.as_bytes()), (1, POST.as_bytes())]),
        conversation(&[(0, RAW.as_bytes()), (1, RETAIN.as_bytes()), (2, &native)]),
        conversation(&[(0, RETURNS.as_bytes()), (1, RETAIN.as_bytes()), (2, REFUSED.as_bytes())]),
        conversation(&[(0, POLL.as_bytes()), (1, POST.as_bytes()), (0, HISTORY.as_bytes())]),
        conversation(&[(0, &echo), (1, POST.as_bytes()), (2, EVENTS.as_bytes())]),
        conversation(&[(0, HISTORY.as_bytes()), (0, POST.as_bytes()), (0, POLL.as_bytes())]),
        conversation(&[
            (1, POST.as_bytes()),
            (0, &native),
            (1, &[POST, POST, RETAIN].concat().into_bytes()),
        ]),
        conversation(&[(0, b"GET"), (1, UPGRADE.as_bytes()), (1, b"\x82\x00")]),
        conversation(&[
            (0, &native),
            (0, b"\x88\x80\x01\x02\x03\x04"),
            (1, RAW.as_bytes()),
            (2, POST.as_bytes()),
        ]),
        conversation(&[(0, &json), (1, POST.as_bytes())]),
        conversation(&[(0, &json), (1, &native), (2, &json)]),
        conversation(&[(1, RETAIN.as_bytes()), (0, &json), (2, EVENTS.as_bytes())]),
    ]
}

/// A client of `crore.v1.json`.
fn json_client(upgrade: &str) -> Vec<u8> {
    let mut json = upgrade.replace("crore.v1", "crore.v1.json").into_bytes();
    for text in [
        r#"[{"type":"hello","name":"a"},{"type":"subscribe","items":[{"subscription":1,"filter":"a"},
            {"subscription":2,"filter":"b","start":{"kind":"last","count":10}},
            {"subscription":3,"filter":"+","policy":"conflate"}]}]"#,
        r#"{"type":"publish","request":1,"topic":"a","payload":"h\u00e9llo","tags":[["k","v"]]}"#,
        r#"{"type":"publish","request":2,"topic":"b","payload_base64":"AP+A","retain":true}"#,
        r#"{"type":"history","request":3,"topic":"a","records_max":10}"#,
        r#"{"type":"ticket","request":4}"#,
        r#"{"type":"ping","token":"18446744073709551615"}"#,
        r#"[{"type":"unsubscribe","subscriptions":[1]},{"type":"subscribe","items":[{"subscription":4,
            "filter":"a","start":{"kind":"since","position":"7:0"},"replay_credit":1}]}]"#,
        r#"{"type":"credit","subscription":4,"messages":9}"#,
        r#"{"type":"publish","topic":"a","payload":{},"!must":0}"#,
    ] {
        frame::encode(&mut json, true, Opcode::Text, text.as_bytes(), Some([1, 2, 3, 4]));
    }
    json
}

/// The last eight bytes of an input seed its cuts.
fn with_seed(mut input: Vec<u8>) -> Vec<u8> {
    let seed = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(input.len() as u64 + 1);
    input.extend_from_slice(&seed.to_le_bytes());
    input
}

fn websocket() -> Vec<Vec<u8>> {
    use Opcode::{Binary, Close, Continuation, Ping, Pong, Text};
    let close = ClosePayload::new(CloseCode::NORMAL, "bye");
    let long = [0x62; 200];
    let longer = [0x63; 70_000];
    let conversations: [&[(bool, Opcode, &[u8])]; 13] = [
        &[(true, Text, b"Hello")],
        &[(true, Binary, &[0, 255]), (true, Text, "κόσμε".as_bytes())],
        &[(false, Text, b"Hel"), (true, Ping, b"?"), (true, Continuation, b"lo")],
        &[(false, Text, &[0xe2]), (false, Continuation, &[0x82]), (true, Continuation, &[0xac])],
        &[(true, Ping, b""), (true, Pong, &long[..125])],
        &[(true, Binary, &long)],
        &[(false, Binary, &long), (true, Continuation, &long)],
        &[(true, Close, close.as_bytes())],
        &[(true, Close, b"\x03\xedx"), (true, Text, b"after")],
        &[(true, Text, &[0xff])],
        &[(true, Continuation, b"alone")],
        &[(false, Text, b"a"), (false, Text, b"b")],
        &[(true, Binary, &longer[..66_000])],
    ];
    let mut seeds = Vec::new();
    for conversation in conversations {
        for key in [None, Some([0x37, 0xfa, 0x21, 0x3d])] {
            let mut input = Vec::new();
            for &(fin, opcode, payload) in conversation {
                // Only the header of the largest frame matters: it is over the limit.
                let payload_bytes = payload.len().min(1000);
                if payload.len() > 60_000 {
                    let header = frame::encode_header(fin, opcode, payload.len(), key);
                    input.extend_from_slice(header.as_bytes());
                    input.extend_from_slice(&payload[..payload_bytes]);
                } else {
                    frame::encode(&mut input, fin, opcode, payload, key);
                }
            }
            seeds.push(with_seed(input));
        }
    }
    for broken in
        [&b"\xc1\x80"[..], b"\x83\x80", b"\x09\x80", b"\x89\xfe\x00\x7e", b"\x82\x7e\x00\x01"]
    {
        seeds.push(with_seed(broken.to_vec()));
    }
    seeds
}

/// Compressed payloads alone and in frames, valid and invalid.
fn compressed() -> Vec<Vec<u8>> {
    let text = br#"{"bid":1.0823,"ask":1.0825,"bids":[1.0822,1.0821,1.0820]}"#.repeat(3);
    let mut payloads: Vec<Vec<u8>> = (1..=9)
        .step_by(4)
        .map(|level| {
            let mut payload = Vec::new();
            Deflater::new(level).deflate(&[&text], &mut payload);
            payload
        })
        .collect();
    let examples: [&[u8]; 7] = [
        b"\xf2\x48\xcd\xc9\xc9\x07\x00",
        b"\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00",
        b"\xf3\x48\xcd\xc9\xc9\x07\x00\x00",
        b"\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00",
        b"\x00",
        // A reference to bytes before the message.
        b"\xf2\x00\x11\x00\x00",
        b"\xf2\x48\xcd",
    ];
    payloads.extend(examples.iter().map(|payload| payload.to_vec()));
    let mut bomb = Vec::new();
    Deflater::new(9).deflate(&[&[0; 200_000]], &mut bomb);
    payloads.push(bomb);
    let mut seeds = Vec::new();
    for payload in &payloads {
        seeds.push(with_seed(payload.clone()));
        let middle = payload.len() / 2;
        let (front, back) = payload.split_at(middle);
        for key in [None, Some([0x37, 0xfa, 0x21, 0x3d])] {
            let mut input = Vec::new();
            frame::encode(&mut input, true, Opcode::Text, payload, key);
            input[0] |= RSV1;
            let second = input.len();
            frame::encode(&mut input, false, Opcode::Binary, front, key);
            input[second] |= RSV1;
            frame::encode(&mut input, true, Opcode::Ping, b"?", key);
            frame::encode(&mut input, true, Opcode::Continuation, back, key);
            seeds.push(with_seed(input));
        }
    }
    seeds
}

const HANDSHAKES: &[&str] = &[
    "GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    "GET /crore HTTP/1.1\r\nHost: a\r\nUpgrade: h2c, WebSocket\r\nConnection: keep-alive, upgrade\r\n\
     Origin: null\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
     Sec-WebSocket-Protocol: crore.v1, mqtt\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
     Sec-WebSocket-Key: short\r\nSec-WebSocket-Version: 13\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 8\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.0\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
     Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: crore.v1\r\n\r\n",
    "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
     Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Extensions: x\r\n\r\n",
    "HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 13\r\n\r\n",
    "GET /echo HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
     Sec-WebSocket-Extensions: x; a=\"b\\c\", permessage-deflate; server_max_window_bits=7\r\n\
     Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=\"10\"; client_max_window_bits\r\n\r\n",
    "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
     Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\
     Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; server_max_window_bits=9\r\n\r\n",
];

const REQUESTS: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "\r\nGET /a?b=c HTTP/1.1\r\nHost: a\r\n\r\nGET /d HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "POST /topics/a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n\
     5;x=y\r\nhello\r\n0\r\nTrailer: x\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 65\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX : 1\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
    "GET / HTTP/1.1\nHost: a\n\n",
    "GET / HTTP/1.1\r\nHost: a\rX: 1\r\n\r\n",
    "GET / HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "GET http://a/b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "\u{16}\u{3}\u{1}",
];

const RESPONSES: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: a\n\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.0 404 Not Found\r\nConnection: close\r\n\r\nnothing",
    "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
    "HTTP/1.1 200\r\n\r\n",
    "HTTP/2 200 OK\r\n\r\n",
    "HTTP/1.1 20 OK\r\n\r\n",
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3\r\nContent-Length: 65\r\n\r\n",
];

const BODIES: &[&str] = &[
    "",
    "hello, hello, hello",
    "0\r\n\r\n",
    "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nnext",
    "5;a=b;c=\"d\"\r\nhello\r\n0;x\r\nTrailer: x\r\nOther: y\r\n\r\n",
    "A \r\n0123456789\r\n000\r\n\r\n",
    "ffffffffffffffff\r\n",
    "00000000000000000\r\n",
    "1\nx",
    "1\r\nxy",
    "0\r\n\n",
    "41\r\n",
];

const TARGETS: &[&str] = &[
    "/",
    "*",
    "/topics//a/%2Fb%20c/../d",
    "/?topic=a%2F%2B&topic=b+c&&d",
    "/events?topic=%E2%82%AC&since=e:1",
    "http://host:80/a?b",
    "HTTPS://host?b",
    "/%",
    "/%zz?%ff=%c0%80",
    "a:443",
    "/a?b=c=d&=e&f",
    "prix/€ \u{10ffff}",
];

const STREAMS: &[&str] = &[
    "data: hello\n\n",
    "\u{feff}retry: 2000\nid: e:1\nevent: add\ndata: a\ndata: b\n\n",
    ": heartbeat\n\n:\n\n",
    "data: a\r\rdata: b\r\n\r\ndata: c\n\n",
    "data\n\ndata\ndata\n\ndata:",
    "id: 1\n\nid: \0\ndata: a\n\nid\ndata: b\n\n",
    "event: a\n\ndata: b\n\n",
    "retry: x\nretry: 99999999999999999999\nunknown: y\n data: z\n\n",
    "data: é€𝄞\n\n",
    "data: a line that is longer than the small limit\n\n",
];
