//! The opening handshake: the RFC's example, each refusal with its status and fields, the client's
//! checks.

use wire::http::{HeadLimits, HeadScan, Request, Response};
use wire::websocket::handshake::{ClientHandshake, ClientRefusal, Refusal, Upgrade, accept_key};
use wire::{Step, http};

/// RFC 6455 section 1.2.
const EXAMPLE: &str = "GET /chat HTTP/1.1\r\n\
    Host: server.example.com\r\n\
    Upgrade: websocket\r\n\
    Connection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Origin: http://example.com\r\n\
    Sec-WebSocket-Protocol: chat, superchat\r\n\
    Sec-WebSocket-Version: 13\r\n\r\n";

fn request(head: &str) -> Request<'_> {
    let decoded = Request::decode(head.as_bytes(), &mut HeadScan::new(), &HeadLimits::default());
    let Ok(Step::Done { value, consumed }) = decoded else { panic!("{decoded:?}") };
    assert_eq!(consumed, head.len());
    value
}

fn response(head: &[u8]) -> Response<'_> {
    let decoded = Response::decode(head, &mut HeadScan::new(), &HeadLimits::default(), "GET");
    decoded.unwrap().done().unwrap().0
}

#[test]
fn the_example_is_accepted() {
    let request = request(EXAMPLE);
    let upgrade = Upgrade::check(&request).unwrap();
    assert_eq!(upgrade.origin(), Some(&b"http://example.com"[..]));
    assert_eq!(upgrade.subprotocols().collect::<Vec<_>>(), ["chat", "superchat"]);
    assert_eq!(upgrade.choose_subprotocol(&["superchat", "chat"]), Ok("chat"));
    assert_eq!(upgrade.choose_subprotocol(&["crore.v1"]), Err(Refusal::Subprotocol));
    assert_eq!(upgrade.check_origin(|origin| origin == b"http://example.com"), Ok(()));
    assert_eq!(upgrade.check_origin(|_| false), Err(Refusal::Origin));
    let mut out = Vec::new();
    upgrade.encode_response(&mut out, Some("chat"));
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "HTTP/1.1 101 Switching Protocols\r\n\
         Upgrade: websocket\r\n\
         Connection: Upgrade\r\n\
         Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\
         Sec-WebSocket-Protocol: chat\r\n\r\n"
    );
    assert_eq!(&accept_key(b"dGhlIHNhbXBsZSBub25jZQ=="), b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

/// Checks the example with one line changed (or removed).
fn check(from: &str, to: &str, expected: Result<(), Refusal>) {
    assert!(EXAMPLE.contains(from), "{from}");
    let head = EXAMPLE.replace(from, to);
    let request = request(&head);
    assert_eq!(Upgrade::check(&request).map(|_| ()), expected, "{to}");
}

#[test]
fn handshakes_are_accepted_or_refused() {
    check("Upgrade: websocket", "upgrade: h2c, WebSocket", Ok(()));
    check("Connection: Upgrade", "Connection: keep-alive, upgrade", Ok(()));
    check("Connection: Upgrade", "Connection: keep-alive\r\nConnection: Upgrade", Ok(()));
    check("Origin: http://example.com\r\n", "", Ok(()));
    check("Sec-WebSocket-Protocol: chat, superchat\r\n", "", Ok(()));
    check(
        "Sec-WebSocket-Version",
        "Sec-WebSocket-Extensions: permessage-deflate\r\nSec-WebSocket-Version",
        Ok(()),
    );
    check("Host:", "Content-Length: 0\r\nHost:", Ok(()));

    check("GET", "POST", Err(Refusal::Method));
    check("GET", "get", Err(Refusal::Method));
    check("HTTP/1.1", "HTTP/1.0", Err(Refusal::HttpVersion));
    check("Upgrade: websocket\r\n", "", Err(Refusal::NotAnUpgrade));
    check("Upgrade: websocket", "Upgrade: websockets", Err(Refusal::NotAnUpgrade));
    check("Connection: Upgrade\r\n", "", Err(Refusal::NotAnUpgrade));
    check("Connection: Upgrade", "Connection: keep-alive", Err(Refusal::NotAnUpgrade));
    check("Sec-WebSocket-Version: 13\r\n", "", Err(Refusal::Version));
    check("Version: 13", "Version: 8", Err(Refusal::Version));
    check("Version: 13", "Version: 13, 8", Err(Refusal::Version));
    check("Version: 13", "Version: 13\r\nSec-WebSocket-Version: 13", Err(Refusal::Version));
    check("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "", Err(Refusal::Key));
    for key in [
        "",
        "dGhl",
        "dGhlIHNhbXBsZSBub25jZQ",
        "dGhlIHNhbXBsZSBub25jZTA=",
        "dGhlIHNhbXBsZSBub25jZTAw",
        "!GhlIHNhbXBsZSBub25jZQ==",
        "dGhlIHNhbXBsZSBub25jZR==",
    ] {
        check("dGhlIHNhbXBsZSBub25jZQ==", key, Err(Refusal::Key));
    }
    check("Origin:", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin:", Err(Refusal::Key));
    check("Host:", "Content-Length: 1\r\nHost:", Err(Refusal::Body));
    check("Host:", "Transfer-Encoding: chunked\r\nHost:", Err(Refusal::Body));
    check("chat, superchat", "chat/1", Err(Refusal::BadSubprotocol));
}

#[test]
fn refusals_have_their_required_fields() {
    let cases = [
        (Refusal::Method, 405, Some(("allow", "GET"))),
        (Refusal::HttpVersion, 400, None),
        (Refusal::NotAnUpgrade, 426, Some(("upgrade", "websocket"))),
        (Refusal::Version, 426, Some(("sec-websocket-version", "13"))),
        (Refusal::Key, 400, None),
        (Refusal::Body, 400, None),
        (Refusal::BadSubprotocol, 400, None),
        (Refusal::Subprotocol, 400, None),
        (Refusal::Origin, 403, None),
    ];
    for (refusal, status, field) in cases {
        let mut out = Vec::new();
        refusal.encode(&mut out);
        let response = response(&out);
        assert_eq!(response.status, status, "{refusal:?}");
        assert!(!response.keep_alive(), "{refusal:?}");
        assert_eq!(response.header_text("content-type"), Some("application/problem+json"));
        if let Some((name, value)) = field {
            assert_eq!(response.header_text(name), Some(value), "{refusal:?}");
        }
    }
}

const CLIENT: ClientHandshake<'_> = ClientHandshake {
    host: "localhost:8800",
    target: "/crore",
    nonce: *b"the sample nonce",
    subprotocols: &["crore.v1", "crore.v0"],
    headers: &[("Origin", "http://a\r\nInjected: 1")],
    deflate: false,
};

#[test]
fn a_client_and_a_server_agree() {
    let mut head = Vec::new();
    CLIENT.encode_request(&mut head);
    let head = String::from_utf8(head).unwrap();
    assert!(head.contains("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"), "{head}");
    assert!(!head.contains("\nInjected"), "{head}");
    let request = request(&head);
    let upgrade = Upgrade::check(&request).unwrap();
    for subprotocol in [None, Some("crore.v0")] {
        let mut out = Vec::new();
        upgrade.encode_response(&mut out, subprotocol);
        assert_eq!(CLIENT.check_response(&response(&out)), Ok(subprotocol));
    }
}

#[test]
fn a_client_refuses_invalid_answers() {
    let good = "HTTP/1.1 101 Switching Protocols\r\n\
        Upgrade: WebSocket\r\n\
        Connection: upgrade\r\n\
        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    let check = |from: &str, to: &str, expected: Result<Option<&str>, ClientRefusal>| {
        assert!(good.contains(from), "{from}");
        let head = good.replace(from, to);
        let head = response(head.as_bytes());
        assert_eq!(CLIENT.check_response(&head), expected, "{to}");
    };
    check("", "", Ok(None));
    check("101", "200", Err(ClientRefusal::Status(200)));
    check("101", "426", Err(ClientRefusal::Status(426)));
    check("Upgrade: WebSocket\r\n", "", Err(ClientRefusal::NotUpgraded));
    check("Connection: upgrade\r\n", "", Err(ClientRefusal::NotUpgraded));
    check("s3pP", "S3pP", Err(ClientRefusal::Accept));
    check("Sec-WebSocket-Accept", "X", Err(ClientRefusal::Accept));
    let with = |line: &str| format!("Connection: upgrade\r\n{line}\r\n");
    let connection = "Connection: upgrade\r\n";
    check(connection, &with("Sec-WebSocket-Protocol: crore.v1"), Ok(Some("crore.v1")));
    check(connection, &with("Sec-WebSocket-Protocol: mqtt"), Err(ClientRefusal::Subprotocol));
    check(
        connection,
        &with("Sec-WebSocket-Extensions: permessage-deflate"),
        Err(ClientRefusal::Extension),
    );
}

/// The head codec and the handshake share fields; a handshake over several heads must not see the
/// next one.
#[test]
fn bytes_after_the_head_are_not_part_of_it() {
    let input = [EXAMPLE.as_bytes(), b"\x81\x80abcd"].concat();
    let decoded = http::Request::decode(&input, &mut HeadScan::new(), &HeadLimits::default());
    let (request, consumed) = decoded.unwrap().done().unwrap();
    assert_eq!(&input[consumed..], b"\x81\x80abcd");
    assert!(Upgrade::check(&request).is_ok());
}
