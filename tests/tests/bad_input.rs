//! Bad input on the clients' port: each existing row of the design's table, from outside.
//!
//! A refusal has a stable error code, and does not affect others: after every case the server still
//! serves.

use std::time::Duration;

use end_to_end::PATIENCE;
use end_to_end::curl::{curl, publish};
use end_to_end::event_stream::EventStream;
use end_to_end::raw::Raw;
use end_to_end::server::{Server, WIDE_SEND_BUFFER};

/// Limits small enough to reach.
const TIGHT: &str = r#"
[http]
head_bytes_max = "2KiB"

[websocket]
frame_bytes_max = "64KiB"
echo_bytes_max = "64KiB"

[limits]
message_bytes_max = "4KiB"
filter_levels_max = 8
"#;

#[test]
fn malformed_http_is_refused() {
    let server = Server::with_configuration(TIGHT);
    let long = "a".repeat(4096);
    let check = |request: &str, statuses: &[&str]| {
        let mut raw = Raw::connect(&server.clients);
        raw.send(request.as_bytes());
        let answer = raw.read_to_close();
        let is_expected =
            statuses.iter().any(|status| answer.starts_with(&format!("HTTP/1.1 {status} ")));
        assert!(is_expected, "{request:?}: {answer}");
        still_serves(&server);
    };
    check("\u{16}\u{3}\u{1}\u{2}\u{0}garbage\r\n\r\n", &["400"]);
    check("GET\r\n\r\n", &["400"]);
    check("GET / HTTP/1.1\r\nno colon\r\n\r\n", &["400"]);
    check("GET /topics/a HTTP/1.1\r\n\r\n", &["400"]);
    check("GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", &["400", "505"]);
    check(&format!("GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: {long}\r\n\r\n"), &["431"]);
    check(&format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"), &["414", "431"]);
    let post = "POST /topics/a HTTP/1.1\r\nHost: localhost\r\n";
    check(&format!("{post}Content-Length: ten\r\n\r\n"), &["400"]);
    check(&format!("{post}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), &["400"]);
    check(
        &format!("{post}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        &["400"],
    );
    check(&format!("{post}Transfer-Encoding: chunked\r\n\r\nxyz\r\n"), &["400"]);
    check(&format!("{post}Transfer-Encoding: gzip\r\n\r\n"), &["400", "501"]);
}

#[test]
fn malformed_topics_filters_and_positions_are_refused() {
    let server = Server::with_configuration(TIGHT);
    let long = "a".repeat(256);
    let post = |path: &str| curl(&["-d", "x", &server.url(path)]);
    post("/topics/").expect_problem(400, "topic_required");
    post("/topics/a%23").expect_problem(400, "malformed_topic");
    post("/topics/?topic=a%2F%2B").expect_problem(400, "malformed_topic");
    post("/topics/a%00b").expect_problem(400, "malformed_topic");
    let too_long = post(&format!("/topics/{long}")).expect_problem(400, "topic_too_long");
    assert!(too_long.body.contains("255"), "the limit is not named: {too_long:?}");
    let escaped = post("/topics/%FF");
    assert_eq!(escaped.status, 400, "{escaped:?}");

    let get = |path: &str| curl(&["-H", "Accept: text/event-stream", &server.url(path)]);
    get("/events").expect_problem(400, "topic_required");
    get("/events?topic=a%2F%23%2Fb").expect_problem(400, "malformed_filter");
    get("/events?topic=a%2Fb%2B").expect_problem(400, "malformed_filter");
    curl(&[&server.url("/topics/a?since=yesterday")]).expect_problem(400, "malformed_position");
    curl(&[&server.url("/topics/a?limit=many")]).expect_problem(400, "malformed_parameter");
    still_serves(&server);
}

#[test]
fn invalid_bodies_are_refused() {
    let server = Server::with_configuration(TIGHT);
    let json = |body: &str| {
        curl(&["-H", "Content-Type: application/json", "-d", body, &server.url("/publish")])
    };
    json("{").expect_problem(400, "malformed_json");
    json("[1]").expect_problem(400, "malformed_json");
    json(r#"{"data": "x"}"#).expect_problem(400, "topic_required");
    json(r#"{"topic": "a", "b64data": "***"}"#).expect_problem(400, "malformed_json");
    json(r#"{"topic": "a/+", "data": "x"}"#).expect_problem(400, "malformed_topic");
    json(r#"{"topic": "a"}"#).expect_problem(400, "payload_required");

    let url = server.url("/topics/large");
    let largest = "x".repeat(4096);
    publish(&url, &largest);
    let larger = format!("{largest}x");
    curl(&["-d", &larger, &url]).expect_problem(413, "message_too_large");
    // A batch with a refused part is not published at all.
    json(r#"[{"topic": "half", "data": "x"}, {"topic": "half/#", "data": "y"}]"#).expect(400);
    let half = curl(&[&server.url("/topics/half")]).expect(200).json();
    assert_eq!(half["messages"].as_array().map(Vec::len), Some(0), "{half}");
    still_serves(&server);
}

#[test]
fn unknown_paths_and_methods_are_refused() {
    let server = Server::start();
    curl(&[&server.url("/nothing/here")]).expect_problem(404, "not_found");
    curl(&[&server.url("/mqtt")]).expect_problem(404, "not_found");
    curl(&["-X", "DELETE", &server.url("/topics/a")]).expect_problem(405, "method_not_allowed");
    curl(&[&server.url("/publish")]).expect_problem(405, "method_not_allowed");
    curl(&[&server.url("/echo")]).expect_problem(426, "upgrade_required");
    curl(&[&server.url("/crore")]).expect_problem(426, "upgrade_required");
}

#[test]
fn invalid_web_socket_frames_are_refused() {
    let server = Server::with_configuration(TIGHT);
    let check = |bytes: &[u8], code: u16| {
        let mut raw = Raw::web_socket(&server.clients, "/echo", "");
        raw.send(bytes);
        assert_eq!(raw.close_code(), code, "{bytes:02x?}");
        raw.read_to_close();
        still_serves(&server);
    };
    let zero_mask = [0, 0, 0, 0];
    // Not masked; a reserved bit; a reserved opcode; a fragmented ping; a continuation without a
    // message.
    check(&[0x81, 0x01, b'a'], 1002);
    check(&[&[0xc1, 0x80], &zero_mask[..]].concat(), 1002);
    check(&[&[0x83, 0x80], &zero_mask[..]].concat(), 1002);
    check(&[&[0x09, 0x80], &zero_mask[..]].concat(), 1002);
    check(&[&[0x80, 0x80], &zero_mask[..]].concat(), 1002);
    // Text other than UTF-8; a forbidden close code; a message of 64 KiB and one byte.
    check(&[&[0x81, 0x81], &zero_mask[..], &[0xff]].concat(), 1007);
    check(&[&[0x88, 0x82], &zero_mask[..], &[0x03, 0xed]].concat(), 1002);
    check(&[&[0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 1], &zero_mask[..]].concat(), 1009);
}

#[test]
fn malformed_native_frames_are_refused() {
    let server = Server::with_configuration(TIGHT);
    for payload in [&b"\xff\xff\xff\xff"[..], b"", b"\x00", &[0x80; 64]] {
        let mut raw = Raw::web_socket(&server.clients, "/crore", "crore.v1");
        raw.send_frame(2, payload);
        assert!(raw.close_code() >= 1000, "{payload:?}");
        raw.read_to_close();
    }
    let mut text = Raw::web_socket(&server.clients, "/crore", "crore.v1");
    text.send_frame(1, b"hello");
    assert!(text.close_code() >= 1000);
    still_serves(&server);
}

#[test]
fn unfinished_handshakes_time_out() {
    let server = Server::with_configuration("[http]\nhandshake_timeout = \"1s\"\n");
    let mut silent = Raw::connect(&server.clients);
    let mut slow = Raw::connect(&server.clients);
    slow.send(b"GET /echo HTTP/1.1\r\nHost: localhost\r\n");
    let mut slower = Raw::connect(&server.clients);
    // Single bytes do not extend the time: it counts from the connection's start.
    for byte in b"GET /echo HTTP/1.1\r\n" {
        slower.send(&[*byte]);
        std::thread::sleep(Duration::from_millis(100));
    }
    for raw in [&mut silent, &mut slow, &mut slower] {
        assert!(raw.closes_within(PATIENCE), "{raw:?} is still open");
    }
    still_serves(&server);
}

#[test]
fn a_full_node_refuses_and_keeps_present_connections() {
    let server =
        Server::with_configuration("[node]\nio_threads = 1\n\n[limits]\nconnections_max = 8\n");
    let mut kept: Vec<Raw> =
        (0..8).map(|_| Raw::web_socket(&server.clients, "/echo", "")).collect();
    let mut refused = Raw::connect(&server.clients);
    refused.send(b"GET /topics/a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let answer = refused.read_to_close();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.to_ascii_lowercase().contains("\r\nretry-after: "), "{answer}");
    for raw in &mut kept {
        raw.send_frame(1, b"still here");
        assert_eq!(raw.read_frame(), (1, b"still here".to_vec()));
    }
    // A free slot is given to the next connection.
    kept.pop();
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let mut next = Raw::connect(&server.clients);
        next.send(b"GET /topics/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        if next.read_to_close().starts_with("HTTP/1.1 200 ") {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "a free place stays refused");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_full_node_refuses_new_topics_only() {
    let server = Server::with_configuration(
        "[node]\nio_threads = 1\nhome_shards_count = 1\n\n[limits]\ntopics_max = 4\n",
    );
    let post = |topic: &str| curl(&["-d", "x", &server.url(&format!("/topics/{topic}"))]);
    for topic in ["a", "b", "c", "d"] {
        post(topic).expect(200);
    }
    post("e").expect_problem(503, "topics_full");
    post("a").expect(200);
}

#[test]
fn a_stalled_reader_affects_no_other_client() {
    let server = Server::with_configuration(WIDE_SEND_BUFFER);
    let mut idle = Raw::connect(&server.clients);
    idle.send(
        b"GET /events?topic=flood HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n",
    );
    idle.read_until(b"\r\n\r\n");
    let mut live = EventStream::open(&server.url("/topics/flood"), 1, None);
    let payload = "x".repeat(80_000);
    for number in 0..100 {
        publish(&server.url("/topics/flood"), &format!("{number} {payload}"));
    }
    for number in 0..100 {
        let data = live.next_message().data;
        assert!(data.starts_with(&format!("{number} x")), "not {number}: {:.20}", data);
    }
    // It continues to read, and receives everything or an exact gap.
    idle.read_until(b"99 xxx");
}

/// Checks that another client is served normally.
#[track_caller]
fn still_serves(server: &Server) {
    publish(&server.url("/topics/still/serves"), "yes");
}
