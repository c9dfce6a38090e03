//! The seeds of the committed corpora, as code: what each decoder is meant to read, and what it is meant to refuse.
//!
//! `cargo run --manifest-path fuzz/Cargo.toml --example seeds` writes them to `corpus/<target>/`. Files that a fuzzer found
//! worth keeping lie beside them under other names and are left alone.

use wire::websocket::{CloseCode, ClosePayload, Opcode, frame};

/// The seeds of a target: a name for the file and its bytes. Empty for a name that is not a target.
pub fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let seeds: Vec<Vec<u8>> = match target {
        "websocket_frame" | "websocket_message" => websocket(),
        "websocket_handshake" => texts(HANDSHAKES),
        "http_request" => texts(REQUESTS),
        "http_response" => texts(RESPONSES),
        "http_body" => texts(BODIES),
        "http_target" => texts(TARGETS),
        "event_stream" => texts(STREAMS),
        "native_client_frame" => vectors(include_str!("../../spec/vectors/client_frames.json")),
        "native_server_frame" => vectors(include_str!("../../spec/vectors/server_frames.json")),
        _ => Vec::new(),
    };
    let name = |at| format!("seed-{at:02}");
    seeds
        .into_iter()
        .enumerate()
        .map(|(at, bytes)| (name(at), bytes))
        .collect()
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts
        .iter()
        .map(|text| with_seed(text.as_bytes().to_vec()))
        .collect()
}

/// The frames of a file of shared vectors, valid and invalid.
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
        &[
            (false, Text, b"Hel"),
            (true, Ping, b"?"),
            (true, Continuation, b"lo"),
        ],
        &[
            (false, Text, &[0xe2]),
            (false, Continuation, &[0x82]),
            (true, Continuation, &[0xac]),
        ],
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
                // Only the header of the largest is of interest: it is over the limit.
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
    for broken in [
        &b"\xc1\x80"[..],
        b"\x83\x80",
        b"\x09\x80",
        b"\x89\xfe\x00\x7e",
        b"\x82\x7e\x00\x01",
    ] {
        seeds.push(with_seed(broken.to_vec()));
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
