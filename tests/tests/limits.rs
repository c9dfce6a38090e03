//! Limits of listeners, connections, topics and shards that no other test on the real binary
//! reaches (`abuse.rs`, `bad_input.rs`, `shortages.rs`): each has an error code and a metric, and
//! clients within it continue.

use std::time::Instant;

use end_to_end::curl::{curl, publish};
use end_to_end::metrics::Metrics;
use end_to_end::native::{Frame, Item, Native};
use end_to_end::rate::Rate;
use end_to_end::raw::{Raw, frame};
use end_to_end::server::{Place, Server};

const RATE_LIMITED: u64 = 329;

fn refusals(server: &Server, limit: &str) -> u64 {
    let name = format!("crore_limit_refusals_total{{limit=\"{limit}\"}}");
    Metrics::of(&server.operators).scrape().number(&name)
}

fn turned_away(server: &Server, limit: &str) -> u64 {
    let name = format!("crore_connections_turned_away_total{{limit=\"{limit}\"}}");
    Metrics::of(&server.operators).scrape().number(&name)
}

/// Sends a request on a lasting connection; returns the answer.
fn ask(raw: &mut Raw, method: &str, target: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
    );
    raw.send((head + body).as_bytes());
    raw.read_answer()
}

#[test]
fn connects_to_a_listener_are_limited_per_second() {
    let server = Server::with_configuration("[listen]\nconnect_rate_max = 3\n");
    let rate = Rate::of(3);
    let reported: Vec<String> = (0..10)
        .map(|_| {
            let mut raw = Raw::connect(&server.clients);
            raw.send(b"GET /topics/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            raw.read_to_close()
        })
        .collect();
    let refused: Vec<&String> =
        reported.iter().filter(|reported| reported.contains(" 429 ")).collect();
    rate.check(10 - refused.len(), 10);
    let served = reported.iter().filter(|reported| reported.contains(" 200 ")).count();
    assert_eq!(served + refused.len(), 10, "{reported:?}");
    assert!(refused.iter().all(|reported| reported.contains("rate_limited")), "{reported:?}");
    assert_eq!(turned_away(&server, "listener_rate"), refused.len() as u64);
}

/// Connections of TLS are closed without an answer, because that would have to be sealed.
#[test]
fn connections_of_a_tls_listener_are_limited() {
    let mut place = Place::new("127.0.0.1:0");
    let (certificate, key) = (place.path("cert.pem"), place.path("key.pem"));
    end_to_end::process::assert_success(
        end_to_end::tools::crore()
            .args(["tls", "self-signed", "--name", "localhost", "--out"])
            .arg(certificate.parent().expect("a folder")),
    );
    place.configure(&format!(
        "[tls]\nlisten = \"127.0.0.1:0\"\ncertificate_file = {certificate:?}\nkey_file = {key:?}\nconnections_max = 1\n"
    ));
    let server = place.start();
    let port = server.tls_clients.rsplit(':').next().expect("a port");
    let url = format!("https://localhost:{port}/topics/none");
    let mut inside = Raw::connect(&server.tls_clients);
    Metrics::of(&server.operators).wait_for("crore_connections", |count| count == 1);
    assert_eq!(Raw::connect(&server.tls_clients).read_to_close(), "");
    assert_eq!(turned_away(&server, "listener_connections"), 1);
    inside.send(b"no handshake");
    inside.read_to_close();
    Metrics::of(&server.operators).wait_for("crore_connections", |count| count == 0);
    let certificate = certificate.to_str().expect("text");
    curl(&["--cacert", certificate, &url]).expect(200);
}

#[test]
fn published_bytes_are_limited_per_second() {
    let server = Server::with_configuration("[limits]\npublish_bytes_rate_max = \"1KiB\"\n");
    let mut raw = Raw::connect(&server.clients);
    let body = "x".repeat(600);
    let rate = Rate::of(1 << 10);
    let answers: Vec<(u16, String)> =
        (0..6).map(|_| ask(&mut raw, "POST", "/topics/a", &body)).collect();
    assert_eq!(answers[0].0, 200, "{answers:?}");
    let passed = answers.iter().filter(|(status, _)| *status == 200).count();
    assert!(passed as u64 * 600 <= rate.most(), "{answers:?}");
    let mut by_http = answers.iter().filter(|(status, _)| *status != 200);
    assert!(
        by_http.all(|(status, body)| *status == 429 && body.contains("rate_limited")),
        "{answers:?}"
    );
    let (mut native, _) = Native::connect(&server.clients, None);
    let rate = Rate::of(1 << 10);
    (1..7).for_each(|request| native.publish(request, "a", &body));
    let frames: Vec<Frame> = (1..7).map(|_| native.next_frame()).collect();
    let is_refused = |frame: &Frame| {
        matches!(frame, Frame::Error { reference: 1, code: RATE_LIMITED, temporary: true, .. })
    };
    assert!(frames.contains(&Frame::Published(1)), "{frames:?}");
    let by_native = frames.iter().filter(|frame| is_refused(frame)).count();
    let published = frames.iter().filter(|frame| matches!(frame, Frame::Published(_)));
    let published = published.count();
    assert_eq!(published + by_native, 6, "{frames:?}");
    assert!(published as u64 * 600 <= rate.most(), "{frames:?}");
    let refused = (6 - passed + by_native) as u64;
    assert_eq!(refusals(&server, "publish_rate"), refused);
    // Another client is not affected.
    publish(&server.url("/topics/a"), &body);
}

#[test]
fn requests_are_limited_per_second() {
    let server = Server::with_configuration("[http]\nrequests_rate_max = 3\n");
    let mut raw = Raw::connect(&server.clients);
    let rate = Rate::of(3);
    let answers: Vec<(u16, String)> =
        (0..8).map(|_| ask(&mut raw, "GET", "/topics/a", "")).collect();
    assert!(answers[..3].iter().all(|(status, _)| *status == 200), "{answers:?}");
    let refused: Vec<_> = answers.iter().filter(|(status, _)| *status == 429).collect();
    rate.check(8 - refused.len(), 8);
    assert!(refused.iter().all(|(_, body)| body.contains("rate_limited")), "{answers:?}");
    assert_eq!(refusals(&server, "requests_rate"), refused.len() as u64);
    curl(&[&server.url("/topics/a")]).expect(200);
}

/// Pings of WebSocket and of the native protocol count together.
#[test]
fn pings_are_limited_per_second() {
    let server = Server::with_configuration("[websocket]\nping_rate_max = 4\n");
    let mut raw = Raw::web_socket(&server.clients, "/crore", "crore.v1");
    raw.send_frame(2, b"\x01\x00\x01\x00");
    // All at once, within one second.
    let both = [frame(9, b""), frame(2, b"\x07\x00\x05")].concat();
    raw.send(&both.repeat(3));
    assert_eq!(raw.close_code(), 3509);
    let mut echo = Raw::web_socket(&server.clients, "/echo", "");
    (0..3).for_each(|_| echo.send_frame(9, b""));
    assert_eq!(echo.read_frame().0, 10);
    let flooding = "crore_connections_flooding_total{reason=\"pings\"}";
    assert_eq!(Metrics::of(&server.operators).scrape().number(flooding), 1);
}

/// Over HTTP the answer to the last permitted error closes the connection.
#[test]
fn repeated_errors_end_an_http_connection() {
    let server = Server::with_configuration("[limits]\nerrors_max = 4\n");
    let mut raw = Raw::connect(&server.clients);
    let (mut answers, began) = (0, Instant::now());
    let last = loop {
        raw.send(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let head = raw.read_until(b"\r\n\r\n").to_lowercase();
        raw.read_until(b"}");
        answers += 1;
        if head.contains("connection: close") {
            break raw.read_to_close();
        }
    };
    // One more closes it, and a quarter of a minute permits another.
    let most = 5 + began.elapsed().as_secs() / 15;
    assert!((4..=most).contains(&answers) && last.is_empty(), "{answers} {last}");
    let flooding = "crore_connections_flooding_total{reason=\"errors\"}";
    assert_eq!(Metrics::of(&server.operators).scrape().number(flooding), 1);
}

#[test]
fn subscriptions_and_filters_are_limited() {
    let server = Server::with_configuration(
        "[limits]\nsubscriptions_per_session_max = 3\nfilters_per_session_max = 1\nfilters_per_shard_max = 2\n",
    );
    let connect = || Native::connect(&server.clients, None).0;
    let refused = |frame: Frame, expected: u64| match frame {
        Frame::Error { reference: 2, code, .. } => assert_eq!(code, expected),
        other => panic!("{other:?}"),
    };
    let mut native = connect();
    for (number, filter) in [(1, "a/+"), (2, "b"), (3, "c")] {
        let answer = native.subscribe_one(number, filter);
        assert!(matches!(answer, Frame::Subscribed { .. }), "{answer:?}");
    }
    refused(native.subscribe_one(4, "d"), 305);
    let mut other = connect();
    let item = |subscription, filter| Item { subscription, filter, fail_on_gap: false };
    other.subscribe(&[item(1, "b/+"), item(2, "c/+")]);
    let answers = [other.next_frame(), other.next_frame()];
    assert!(
        answers.iter().any(|frame| matches!(frame, Frame::Error { code: 312, id: 2, .. })),
        "{answers:?}"
    );
    refused(connect().subscribe_one(1, "d/+"), 323);
    assert_eq!(refusals(&server, "subscriptions_per_session"), 1);
    assert_eq!(refusals(&server, "filters_per_session"), 1);
    // The refusing shard depends on the connections' thread, or on the home.
    let full = "crore_limits_hit_total{limit=\"filters_per_shard_max\"}";
    assert_eq!(Metrics::of(&server.operators).scrape().number(full), 1);
    // Only the refused publications were refused.
    publish(&server.url("/topics/b"), "on");
    loop {
        match native.next_frame() {
            Frame::Message { payload, .. } => break assert_eq!(payload, "on"),
            Frame::CaughtUp(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The sum of a request's appended bytes is bounded, and the request refused as a whole.
#[test]
fn bytes_of_one_request_are_limited() {
    let server = Server::with_configuration(
        "[limits]\nmessage_bytes_max = \"1KiB\"\nrequest_bytes_max = \"32KiB\"\n",
    );
    let url = server.url("/publish");
    let post = |topics: usize| {
        let topics: Vec<String> = (0..topics).map(|number| format!("t/{number}")).collect();
        let body = serde_json::json!({"topics": topics, "data": "x".repeat(1_024)});
        let json = "Content-Type: application/json";
        curl(&["-H", json, "-d", &body.to_string(), &url])
    };
    post(32).expect(200);
    post(33).expect_problem(413, "request_too_large");
    let history = curl(&[&server.url("/topics/t/32")]).expect(200).json();
    assert_eq!(history["messages"].as_array().map(Vec::len), Some(0));
    let refused = "crore_limits_hit_total{limit=\"request_bytes_max\"}";
    assert_eq!(Metrics::of(&server.operators).scrape().number(refused), 1);
}

/// An unfinished frame has a time limit.
#[test]
fn unfinished_frames_time_out() {
    const INPUT_TIMEOUT: u16 = 3010;
    let server = Server::with_configuration("[limits]\nunfinished_input_timeout = \"1s\"\n");
    let (mut native, _) = Native::connect(&server.clients, None);
    let whole = frame(2, &[0; 100]);
    native.send_raw(&whole[..50]);
    assert_eq!(native.next_frame(), Frame::Closed(INPUT_TIMEOUT));
    let ended = "crore_limits_hit_total{limit=\"unfinished_input_timeout\"}";
    Metrics::of(&server.operators).wait_for(ended, |count| count == 1);
}

/// Too long messages, by each protocol: refused with a code, counted, and not stored.
#[test]
fn messages_and_frames_are_limited() {
    let server = Server::with_configuration(
        "[limits]\nmessage_bytes_max = \"1KiB\"\n[websocket]\nframe_bytes_max = \"16KiB\"\necho_bytes_max = \"1KiB\"\n",
    );
    let long = "x".repeat(1_025);
    curl(&["-d", &long, &server.url("/topics/a")]).expect_problem(413, "message_too_large");
    let envelope = format!("{{\"topic\":\"a\",\"data\":\"{long}\"}}");
    curl(&["-d", &envelope, &server.url("/publish")]).expect_problem(413, "message_too_large");
    let (mut native, _) = Native::connect(&server.clients, None);
    native.publish(1, "a", &long);
    let answer = native.next_frame();
    assert!(matches!(answer, Frame::Error { reference: 1, id: 1, code: 301, .. }), "{answer:?}");
    native.publish(2, "a", &"x".repeat(20_000));
    assert_eq!(native.next_frame(), Frame::Closed(1009));
    let mut echo = Raw::web_socket(&server.clients, "/echo", "");
    echo.send_frame(1, long.as_bytes());
    assert_eq!(echo.close_code(), 1009);
    let history = curl(&[&server.url("/topics/a")]).expect(200).json();
    assert_eq!(history["messages"].as_array().map(Vec::len), Some(0));
    let scrape = Metrics::of(&server.operators).scrape();
    assert!(scrape.number("crore_protocol_errors_total") >= 2);
}

/// A client that reads nothing is closed with a code, and finds it behind the unfinished frame when
/// it reads again.
#[test]
fn a_slow_client_receives_the_reason_of_its_close() {
    const SLOW_CONSUMER: u16 = 3002;
    const LARGE: usize = 60_000;
    const REQUESTS: u64 = 1_000;
    // The node handles all requests in one turn. Where they came one by one, it would read no
    // further behind the second answer that waits, and the client would stay below the bound.
    let server = Server::with_configuration(
        "[limits]\nmessage_bytes_max = \"64KiB\"\noutbox_bytes_max = \"96KiB\"\noutbox_len_max = 1\npage_records_max = 1\nturn_frames_max = 1000\n",
    );
    let (mut publisher, _) = Native::connect(&server.clients, None);
    publisher.publish(1, "large", &"x".repeat(LARGE));
    assert!(matches!(publisher.next_frame(), Frame::Published(1)));
    let (mut slow, _) = Native::connect(&server.clients, None);
    slow.histories(1..=REQUESTS, "large");
    let closed = "crore_limits_hit_total{limit=\"outbox_bytes_max\"}";
    Metrics::of(&server.operators).wait_for(closed, |count| count == 1);
    let mut pages = 0;
    let code = loop {
        match slow.next_frame() {
            Frame::History(_, messages) => {
                assert_eq!(messages.iter().map(String::len).sum::<usize>(), LARGE);
                pages += 1;
            }
            Frame::Closed(code) => break code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(code, SLOW_CONSUMER);
    assert!((1..REQUESTS).contains(&pages), "{pages} pages");
    let ended = "crore_disconnects_total{by=\"node\",code=\"3002\"}";
    Metrics::of(&server.operators).wait_for(ended, |count| count == 1);
}
