//! Limits at admission and of a connection, proxies, and the memory ceiling, on the real binary:
//! refusals with their codes and counts, while other clients are served.

use std::fs;
use std::time::{Duration, Instant};

use end_to_end::PATIENCE;
use end_to_end::curl::{curl, publish};
use end_to_end::metrics::Metrics;
use end_to_end::native::{Frame, Item, Native};
use end_to_end::process::Process;
use end_to_end::rate::Rate;
use end_to_end::raw::Raw;
use end_to_end::server::{Place, Server};

const READINESS: &[u8] = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
const HISTORY: &str = "GET /topics/none HTTP/1.1\r\nHost: localhost\r\n";

/// Requests a history, with these further fields.
fn ask(raw: &mut Raw, fields: &str) -> u16 {
    raw.send(format!("{HISTORY}{fields}\r\n").as_bytes());
    answer(raw).0
}

/// Reads an answer: status and body.
fn answer(raw: &mut Raw) -> (u16, String) {
    let head = raw.read_until(b"\r\n\r\n");
    let length = head.lines().find_map(|line| {
        let lower = line.to_lowercase();
        lower.strip_prefix("content-length: ")?.parse().ok()
    });
    let body = raw.take(length.expect("an answer has a length"));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    (status.expect("a status"), String::from_utf8(body).expect("text"))
}

/// Connects, and reads the refusal.
fn turned_away(address: &str, before: &[u8]) -> String {
    let mut raw = Raw::connect(address);
    raw.send(before);
    raw.read_to_close()
}

#[test]
fn connections_of_an_address_are_limited() {
    let server = Server::with_configuration(
        "[limits]\nconnections_per_address_max = 2\n[node]\nio_threads = 2\n",
    );
    let mut metrics = Metrics::of(&server.operators);
    let mut inside: Vec<Raw> = (0..2).map(|_| Raw::connect(&server.clients)).collect();
    inside.iter_mut().for_each(|raw| assert_eq!(ask(raw, ""), 200));
    for _ in 0..3 {
        let reported = turned_away(&server.clients, b"");
        assert!(reported.starts_with("HTTP/1.1 429 "), "{reported}");
        assert!(reported.contains("too_many_connections"), "{reported}");
        assert!(reported.contains("Retry-After: 5\r\n"), "{reported}");
    }
    let refused = "crore_connections_turned_away_total{limit=\"address_connections\"}";
    let scrape = metrics.scrape();
    assert_eq!(scrape.number(refused), 3);
    let reported = "crore_errors_total{code=\"too_many_connections\"}";
    assert_eq!(scrape.number(reported), 3);
    // Others are not affected, and a closed connection makes room.
    inside.iter_mut().for_each(|raw| assert_eq!(ask(raw, ""), 200));
    inside.pop();
    metrics.wait_for("crore_connections", |count| count == 1);
    assert_eq!(ask(&mut Raw::connect(&server.clients), ""), 200);
    let scrape = metrics.wait_for("crore_connections", |count| count == 1);
    assert_eq!(scrape.number("crore_addresses_remembered"), 1);
}

#[test]
fn connects_of_an_address_are_limited_per_second() {
    let server = Server::with_configuration("[limits]\nconnect_rate_per_address_max = 3\n");
    let rate = Rate::of(3);
    let (mut served, mut refused) = (0, 0);
    for _ in 0..10 {
        let mut raw = Raw::connect(&server.clients);
        raw.send(format!("{HISTORY}Connection: close\r\n\r\n").as_bytes());
        let reported = raw.read_to_close();
        match &reported[9..12] {
            "200" => served += 1,
            "429" => refused += 1,
            other => panic!("{other}: {reported}"),
        }
    }
    rate.check(served, 10);
    let scrape = Metrics::of(&server.operators).scrape();
    let counted = "crore_connections_turned_away_total{limit=\"address_rate\"}";
    assert_eq!(scrape.number(counted), refused);
}

/// Beyond the node's rate connections wait in the kernel's queue: none is refused.
#[test]
fn connects_beyond_the_nodes_rate_wait() {
    let server =
        Server::with_configuration("[limits]\nconnect_rate_max = 5\n[node]\nio_threads = 1\n");
    let began = Instant::now();
    let mut connections: Vec<Raw> = (0..15).map(|_| Raw::connect(&server.clients)).collect();
    connections.iter_mut().for_each(|raw| assert_eq!(ask(raw, ""), 200));
    let lasted = began.elapsed();
    assert!(lasted > Duration::from_millis(1_500), "{lasted:?}");
}

#[test]
fn connections_of_a_listener_are_limited() {
    let server =
        Server::with_configuration("[listen]\nconnections_max = 2\n[node]\nio_threads = 2\n");
    let mut inside: Vec<Raw> = (0..2).map(|_| Raw::connect(&server.clients)).collect();
    inside.iter_mut().for_each(|raw| assert_eq!(ask(raw, ""), 200));
    let reported = turned_away(&server.clients, b"");
    assert!(reported.starts_with("HTTP/1.1 503 "), "{reported}");
    assert!(reported.contains("connections_full"), "{reported}");
    let scrape = Metrics::of(&server.operators).scrape();
    let counted = "crore_connections_turned_away_total{limit=\"listener_connections\"}";
    assert_eq!(scrape.number(counted), 1);
}

#[test]
fn requests_of_a_connection_are_limited() {
    let server = Server::with_configuration(
        "[limits]\npublish_rate_max = 3\nerrors_max = 7\n[http]\nrequests_rate_max = 8\n",
    );
    let mut raw = Raw::connect(&server.clients);
    let rate = Rate::of(3);
    let request = "POST /topics/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx";
    raw.send(request.repeat(8).as_bytes());
    let statuses: Vec<u16> = (0..8).map(|_| answer(&mut raw).0).collect();
    assert_eq!(statuses[..3], [200; 3], "{statuses:?}");
    let refused = statuses.iter().filter(|status| **status == 429).count();
    rate.check(8 - refused, 8);
    assert!(statuses.iter().all(|status| matches!(status, 200 | 429)));
    let mut native = Native::connect(&server.clients, None).0;
    let topic = |subscription| Item { subscription, filter: "a//#/b", fail_on_gap: false };
    native.subscribe(&[1, 2, 3, 4, 5, 6, 7, 8].map(topic));
    let closed = loop {
        if let Frame::Closed(code) = native.next_frame() {
            break code;
        }
    };
    assert_eq!(closed, 3509);
    let scrape = Metrics::of(&server.operators).scrape();
    assert_eq!(scrape.number("crore_connections_flooding_total{reason=\"errors\"}"), 1);
    assert_eq!(scrape.number("crore_limit_refusals_total{limit=\"publish_rate\"}"), refused as u64);
}

#[test]
fn clients_behind_a_tcp_proxy_are_limited_by_their_address() {
    let server = Server::with_configuration(
        "[listen]\nproxy_protocol = \"required\"\nproxies = [\"127.0.0.0/8\"]\n\
         [limits]\nconnections_per_address_max = 1\n[http]\nhandshake_timeout = \"1s\"\n",
    );
    let mut metrics = Metrics::of(&server.operators);
    let line = |host: u8| format!("PROXY TCP4 192.0.2.{host} 192.0.2.9 1000 80\r\n");
    let mut one = Raw::connect(&server.clients);
    one.send(line(1).as_bytes());
    assert_eq!(ask(&mut one, ""), 200);
    let reported = turned_away(&server.clients, line(1).as_bytes());
    assert!(reported.starts_with("HTTP/1.1 429 "), "{reported}");
    // Header and request in one piece, and a header of version 2 byte by byte.
    let mut two = Raw::connect(&server.clients);
    two.send(format!("{}{HISTORY}\r\n", line(2)).as_bytes());
    assert_eq!(answer(&mut two).0, 200);
    let mut three = Raw::connect(&server.clients);
    let header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x03\xc0\0\x02\x09\x03\xe8\0\x50";
    header.iter().for_each(|byte| three.send(&[*byte]));
    assert_eq!(ask(&mut three, ""), 200);
    // Incomplete or missing headers: closed without an answer.
    for nothing in [&b""[..], b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"PROXY TCP4 x"] {
        assert_eq!(turned_away(&server.clients, nothing), "");
    }
    let scrape = metrics.scrape();
    let of =
        |result: &str| scrape.number(&format!("crore_proxy_headers_total{{result=\"{result}\"}}"));
    assert_eq!((of("taken"), of("malformed"), of("late")), (4, 1, 2));
    let reached = "crore_limits_hit_total{limit=\"handshake_timeout\"}";
    assert!(scrape.number(reached) >= of("late"));
    curl(&["--haproxy-protocol", &server.url("/topics/none")]).expect(200);
}

#[test]
fn proxy_headers_of_other_peers_are_refused() {
    let server = Server::with_configuration(
        "[listen]\nproxy_protocol = \"required\"\nproxies = [\"192.0.2.1\"]\n",
    );
    assert_eq!(turned_away(&server.clients, b"PROXY UNKNOWN\r\n"), "");
    let scrape = Metrics::of(&server.operators).scrape();
    assert_eq!(scrape.number("crore_proxy_headers_total{result=\"refused\"}"), 1);
}

#[test]
fn clients_behind_an_http_proxy_are_limited_by_their_address() {
    let server = Server::with_configuration(
        "[http]\ntrusted_proxies = [\"127.0.0.1\"]\n[limits]\nconnections_per_address_max = 1\n",
    );
    let from = |host: u8| format!("X-Forwarded-For: 203.0.113.7, 192.0.2.{host}\r\n");
    let mut one = Raw::connect(&server.clients);
    assert_eq!(ask(&mut one, &from(1)), 200);
    let mut two = Raw::connect(&server.clients);
    assert_eq!(ask(&mut two, &from(1)), 429);
    let mut three = Raw::connect(&server.clients);
    assert_eq!(ask(&mut three, &from(2)), 200);
    // The proxy uses its connection for another client, and the first one may return.
    assert_eq!(ask(&mut one, &from(3)), 200);
    assert_eq!(ask(&mut Raw::connect(&server.clients), &from(1)), 200);
    assert_eq!(ask(&mut Raw::connect(&server.clients), "X-Forwarded-For: me\r\n"), 200);
    let scrape = Metrics::of(&server.operators).scrape();
    let refused = "crore_limit_refusals_total{limit=\"clients_of_proxies\"}";
    assert_eq!(scrape.number(refused), 1);
    assert_eq!(scrape.number("crore_forwarded_unknown_total"), 1);
}

/// A TLS listener behind a proxy; another program writes the proxy's header.
#[test]
fn tls_works_behind_a_proxy() {
    let mut place = Place::new("127.0.0.1:0");
    let (certificate, key) = (place.path("cert.pem"), place.path("key.pem"));
    end_to_end::process::assert_success(
        end_to_end::tools::crore()
            .args(["tls", "self-signed", "--name", "localhost", "--out"])
            .arg(certificate.parent().expect("a folder")),
    );
    assert!(fs::exists(&certificate).expect("a folder of ours"));
    place.configure(&format!(
        "[tls]\nlisten = \"127.0.0.1:0\"\ncertificate_file = {certificate:?}\nkey_file = {key:?}\n\
         proxy_protocol = \"required\"\n[listen]\nproxies = [\"127.0.0.1\"]\n"
    ));
    let server = place.start();
    let port = server.tls_clients.rsplit(':').next().expect("a port");
    let url = format!("https://localhost:{port}/topics/none");
    let certificate = certificate.to_str().expect("text");
    curl(&["--haproxy-protocol", "--cacert", certificate, &url]).expect(200);
    // Listeners without TLS are not affected.
    curl(&[&server.url("/topics/none")]).expect(200);
    assert_eq!(turned_away(&server.tls_clients, b"\x16\x03\x01\x02"), "");
}

const CEILING_MIB: u64 = 128;
const USED: &str = "crore_memory_used_bytes";

/// Publishes a message of this size; returns the answer.
fn publish_bytes(raw: &mut Raw, bytes: usize) -> (u16, String) {
    let head =
        format!("POST /topics/fill HTTP/1.1\r\nHost: localhost\r\nContent-Length: {bytes}\r\n\r\n");
    raw.send(head.as_bytes());
    raw.send(&vec![b'x'; bytes]);
    answer(raw)
}

/// Publishes until this pressure, which begins at this percentage of the ceiling. Each step covers
/// half of the rest, so that there are few steps, and each is visible before the next.
fn fill(raw: &mut Raw, metrics: &mut Metrics<'_>, pressure: u64, hundredths: u64) {
    let level = (CEILING_MIB << 20) / 100 * hundredths;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let scrape = metrics.scrape();
        let now = scrape.number("crore_memory_pressure");
        if now >= pressure {
            return;
        }
        let counted = scrape.number(USED);
        let count = (level.saturating_sub(counted) >> 21).max(1);
        for _ in 0..count {
            // Memory is read several times a second, so the last pressure may begin between this
            // scrape and this publication.
            match publish_bytes(raw, 1 << 20).0 {
                200 => {}
                503 if pressure == 3 => break,
                other => panic!("{other} at a pressure of {now}"),
            }
        }
        // Memory of requests is freed at the same time, so the growth may be smaller than the
        // published bytes, or zero.
        let is_seen = |now: u64| now >= counted + (count << 19);
        let mut looks = 0..20;
        while looks.next().is_some() && !is_seen(metrics.scrape().number(USED)) {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(Instant::now() < deadline, "{counted} bytes");
    }
}

fn assert_logged(process: &mut Process, sentence: &str) {
    process.wait_for(sentence, |line| line.contains(sentence).then_some(()));
}

/// A log that may exceed the ceiling fills it: load is shed in order, live messages continue, the
/// process is never killed, and everything recovers after an eviction.
#[test]
fn a_node_sheds_load_at_the_memory_ceiling() {
    let mut server = Server::with_configuration(&format!(
        "[limits]\nmemory_bytes_max = \"{CEILING_MIB}MiB\"\n[node]\nio_threads = 2\n\
         [[log]]\nbytes_max = \"1GiB\"\nage_max = \"45s\"\n"
    ));
    let mut metrics = Metrics::of(&server.operators);
    let (mut subscriber, _) = Native::connect(&server.clients, None);
    let news = Item { subscription: 1, filter: "news", fail_on_gap: false };
    subscriber.subscribe(&[news]);
    assert!(matches!(subscriber.next_frame(), Frame::Subscribed { .. }));
    let mut publisher = Raw::connect(&server.clients);
    let mut reader = Raw::connect(&server.clients);
    let mut write = |text: &str| {
        let post = format!(
            "POST /topics/news HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        );
        reader.send(post.as_bytes());
        let status = answer(&mut reader).0;
        let history = ask(&mut reader, "");
        (status, history)
    };
    assert_eq!(write("zero"), (200, 200));

    fill(&mut publisher, &mut metrics, 1, 90);
    assert_logged(&mut server.process, "recoveries wait, and history is refused");
    assert_eq!(write("one"), (200, 503));
    assert_eq!(ask(&mut Raw::connect(&server.clients), ""), 503);

    fill(&mut publisher, &mut metrics, 2, 95);
    assert_logged(&mut server.process, "new connections and subscriptions are refused");
    let reported = turned_away(&server.clients, b"");
    assert!(reported.contains("memory_full"), "{reported}");
    let reported = turned_away(&server.operators, READINESS);
    assert!(reported.contains("not enough memory for further connections"), "{reported}");
    subscriber.subscribe(&[Item { subscription: 2, filter: "other", fail_on_gap: false }]);
    assert_eq!(write("two"), (200, 503));

    fill(&mut publisher, &mut metrics, 3, 100);
    assert_logged(&mut server.process, "publications are refused");
    let (status, body) = publish_bytes(&mut publisher, 1);
    assert_eq!(status, 503);
    assert!(body.contains("memory_full"), "{body}");

    // The log evicts messages, and everything recovers.
    metrics.wait_for("crore_memory_pressure", |pressure| pressure == 0);
    assert_logged(&mut server.process, "enough memory again");
    let reported = turned_away(&server.operators, READINESS);
    assert!(reported.starts_with("HTTP/1.1 200 "), "{reported}");
    publish(&server.url("/topics/news"), "three");
    let mut payloads = Vec::new();
    while payloads.len() < 4 {
        match subscriber.next_frame() {
            Frame::Message { payload, .. } => payloads.push(payload),
            Frame::Closed(code) => panic!("closed with {code}"),
            _ => {}
        }
    }
    assert_eq!(payloads, ["zero", "one", "two", "three"]);
    let scrape = metrics.scrape();
    for what in ["histories", "connections", "subscriptions", "publishes"] {
        let refused = format!("crore_memory_refusals_total{{what=\"{what}\"}}");
        assert!(scrape.number(&refused) > 0, "{what}");
    }
}
