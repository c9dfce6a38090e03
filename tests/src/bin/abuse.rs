//! The slow tier: many hostile and broken clients against one server that also serves others.
//!
//! Each case starts its own server. The last line is `N passed, N failed`.

#![forbid(unsafe_code)]

use std::env;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use end_to_end::PATIENCE;
use end_to_end::curl::{curl, publish};
use end_to_end::hoarders::{HOARDERS_COUNT, HoarderOptions, Hoarders};
use end_to_end::metrics::Metrics;
use end_to_end::native::{Frame, Native};
use end_to_end::raw::{Raw, frame};
use end_to_end::server::Server;
use end_to_end::tokens::started;

/// Connections of a test: enough to reveal any fault per connection, within the default descriptor
/// limit.
const CONNECTIONS_COUNT: usize = 400;

/// The maximum growth of a server's memory in any case, in bytes: the log's bound and a margin.
const GROWTH_BYTES_MAX: u64 = 400 << 20;

const CASES: [(&str, fn()); 9] = [
    ("unfinished handshakes come and go", unfinished_handshakes),
    ("connections are opened and reset", churn),
    ("readers of large messages stand still", standing_readers),
    ("a flood of random bytes", random_bytes),
    ("fragments that never end", endless_fragments),
    ("1,000 hoarders of one address, without a token", || {
        hoarding(false, false);
    }),
    ("1,000 hoarders of many addresses, without a token", || {
        hoarding(true, false);
    }),
    ("1,000 hoarders of one address, with a token", || {
        hoarding(false, true);
    }),
    ("1,000 hoarders of many addresses, with a token", || {
        hoarding(true, true);
    }),
];

fn main() -> ExitCode {
    let mut failed = 0;
    // The selected cases: all, or those whose names contain the argument.
    let wanted = env::args().nth(1).unwrap_or_default();
    let cases = CASES.iter().filter(|(name, _)| name.contains(&wanted));
    let count = cases.clone().count();
    for (name, case) in cases {
        let start = Instant::now();
        let verdict = catch_unwind(case).map_or("FAILED", |()| "ok");
        failed += usize::from(verdict != "ok");
        println!("{name} ... {verdict} in {:.1} s", start.elapsed().as_secs_f64());
    }
    println!("{} passed, {failed} failed", count - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn unfinished_handshakes() {
    let server = Server::with_configuration("[http]\nhandshake_timeout = \"2s\"\n");
    let before = server.resident_bytes();
    for _ in 0..5 {
        let mut connections: Vec<Raw> =
            (0..CONNECTIONS_COUNT).map(|_| Raw::connect(&server.clients)).collect();
        for raw in &mut connections {
            raw.send(b"GET /crore HTTP/1.1\r\nHost: localhost\r\nUpgrade: web");
        }
        check_served(&server);
        for raw in &mut connections {
            assert!(raw.closes_within(PATIENCE), "a handshake may stay open");
        }
    }
    check_growth(&server, before);
}

fn churn() {
    let server = Server::start();
    let before = server.resident_bytes();
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        let connections: Vec<Raw> = (0..CONNECTIONS_COUNT / 4)
            .map(|_| Raw::web_socket(&server.clients, "/echo", ""))
            .collect();
        drop(connections);
        check_served(&server);
    }
    check_growth(&server, before);
}

fn standing_readers() {
    let server = Server::start();
    let before = server.resident_bytes();
    let connections: Vec<Raw> = (0..CONNECTIONS_COUNT)
        .map(|_| {
            let mut raw = Raw::connect(&server.clients);
            raw.send(
                b"GET /events?topic=flood HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n",
            );
            raw.read_until(b"\r\n\r\n");
            raw
        })
        .collect();
    let payload = "x".repeat(100_000);
    for _ in 0..1_000 {
        publish(&server.url("/topics/flood"), &payload);
    }
    check_served(&server);
    check_growth(&server, before);
    drop(connections);
}

fn random_bytes() {
    let server = Server::start();
    let before = server.resident_bytes();
    // A fixed sequence (xorshift), so that failures are reproducible.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = |count: usize| -> Vec<u8> {
        (0..count)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            })
            .collect()
    };
    for round in 0..2_000 {
        let mut raw = match round % 3 {
            0 => Raw::connect(&server.clients),
            1 => Raw::web_socket(&server.clients, "/echo", ""),
            _ => Raw::web_socket(&server.clients, "/crore", "crore.v1"),
        };
        let noise = bytes(64 + round % 512);
        match round % 2 {
            0 => raw.send(&noise),
            _ => raw.send_frame(2, &noise),
        }
    }
    check_served(&server);
    check_growth(&server, before);
}

fn endless_fragments() {
    let server = Server::start();
    let before = server.resident_bytes();
    let senders: Vec<_> = (0..8)
        .map(|_| {
            let mut raw = Raw::web_socket(&server.clients, "/echo", "");
            thread::spawn(move || {
                // The start of a text, then endless continuations of 4 KiB: refused at the limit of
                // /echo.
                let mut fragment = vec![0x00, 0xfe, 0x10, 0x00, 0, 0, 0, 0];
                fragment.extend([b'a'; 4096]);
                raw.send(&[0x01, 0x80, 0, 0, 0, 0]);
                for _ in 0..8_192 {
                    raw.send(&fragment);
                }
                raw.closes_within(PATIENCE)
            })
        })
        .collect();
    check_served(&server);
    for sender in senders {
        assert!(sender.join().is_ok_and(|is_closed| is_closed), "endless messages are taken");
    }
    check_growth(&server, before);
}

/// A publisher's method to send a message, with its token; panics without an acknowledgement.
type Publish = fn(&str, &str);

/// Well-behaved publishers, of each kind that may have unfinished input.
const PUBLISHERS: [(&str, Publish); 5] = [
    ("slow body of 300 KB", |address, token| {
        let mut raw = Raw::connect(address);
        raw.send(head("/topics/news", token, 300_000).as_bytes());
        for _ in 0..20 {
            thread::sleep(SLOW);
            raw.send(&[b'x'; 15_000]);
        }
        assert_eq!(raw.read_answer().0, 200);
    }),
    ("frame of 50 KB in two reads", |address, token| {
        let mut native = Native::with_token(address, token);
        let mut publish = b"\x04\x00\x07\x04news".to_vec();
        publish.resize(50_000, b'x');
        let bytes = frame(2, &publish);
        native.send_raw(&bytes[..20_000]);
        thread::sleep(SLOW);
        native.send_raw(&bytes[20_000..]);
        let answer = native.next_frame();
        assert!(matches!(answer, Frame::Published { .. }), "{answer:?}");
    }),
    ("head in two reads", |address, token| {
        let mut raw = Raw::connect(address);
        let bytes = head("/topics/news", token, 2) + "hi";
        raw.send(&bytes.as_bytes()[..30]);
        thread::sleep(SLOW);
        raw.send(&bytes.as_bytes()[30..]);
        assert_eq!(raw.read_answer().0, 200);
    }),
    ("small message in one read", |address, token| {
        let mut raw = Raw::connect(address);
        raw.send((head("/topics/news", token, 2) + "hi").as_bytes());
        assert_eq!(raw.read_answer().0, 200);
        thread::sleep(SLOW);
    }),
    ("small envelope in one read", |address, token| {
        let mut raw = Raw::connect(address);
        let body = r#"{"topic":"news","data":"hi"}"#;
        raw.send((head("/publish", token, body.len()) + body).as_bytes());
        assert_eq!(raw.read_answer().0, 200);
        thread::sleep(SLOW);
    }),
];

const SLOW: Duration = Duration::from_millis(50);
/// The duration of publishing beside hoarders.
const HOARDING: Duration = Duration::from_secs(15);
/// The time limit for the hoarders to reach their maximum.
const FULL_WITHIN: Duration = Duration::from_secs(60);
/// The maximum memory of unfinished input: the bound of each of two threads, and a node's other
/// memory.
const HOARDED_BYTES_MAX: u64 = (2 * 256 + 128) << 20;

/// The head of a request with a body.
fn head(path: &str, token: &str, bytes: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: {bytes}\r\n\r\n"
    )
}

/// Checks that every publication of well-behaved clients succeeds, and memory stays within its
/// bound.
fn hoarding(has_many_addresses: bool, has_token: bool) {
    let (_place, issuer, server) = started("");
    let flags = "--sub anna --publish news --expires never";
    let token = issuer.token(flags);
    let of_hoarders = issuer.token("--sub eve --publish a --expires never");
    let before = server.resident_bytes();
    let options = HoarderOptions { has_many_addresses, token: has_token.then_some(of_hoarders) };
    let hoarders = Hoarders::begin(&server.clients, &options);
    let mut metrics = Metrics::of(&server.operators);
    wait_until_full(&mut metrics, &hoarders);
    let end = Instant::now() + HOARDING;
    let (mut resident, mut kept) = (0, 0);
    let counts: Vec<usize> = thread::scope(|scope| {
        let (address, token) = (server.clients.as_str(), token.as_str());
        let publish = |publish: Publish| {
            scope.spawn(move || {
                let mut count = 0;
                while Instant::now() < end {
                    publish(address, token);
                    count += 1;
                }
                count
            })
        };
        let publishers = PUBLISHERS.map(|(_, kind)| publish(kind));
        while Instant::now() < end {
            resident = server.resident_bytes().max(resident);
            kept = metrics.scrape().number("crore_kept_input_bytes").max(kept);
            thread::sleep(SLOW);
        }
        let joined = publishers.into_iter().zip(PUBLISHERS);
        let count = joined.map(|(publisher, (name, _))| {
            let count = publisher.join();
            count.unwrap_or_else(|_| panic!("{name}: a publication was lost"))
        });
        count.collect()
    });
    let closed = "crore_connections_ended_by_node_total{reason=\"unfinished_input\"}";
    let closed = metrics.scrape().number(closed);
    println!(
        "  {} connections of hoarders, {closed} closed for want of room; kept at most {} MiB, memory {} -> {} MiB",
        hoarders.began(),
        kept >> 20,
        before >> 20,
        resident >> 20,
    );
    for ((name, _), count) in PUBLISHERS.iter().zip(counts) {
        println!("  {name}: {count} of {count}");
        assert!(count > 0, "{name}");
    }
    assert!(resident < before + HOARDED_BYTES_MAX, "{before} to {resident} bytes");
    hoarders.end();
    check_served_with(&server, &token);
}

/// Waits until all hoarders are connected and buffered input does not grow any more.
fn wait_until_full(metrics: &mut Metrics<'_>, hoarders: &Hoarders) {
    let deadline = Instant::now() + FULL_WITHIN;
    let mut before = 0;
    while Instant::now() < deadline {
        thread::sleep(Duration::from_secs(1));
        let kept = metrics.scrape().number("crore_kept_input_bytes");
        if hoarders.began() >= u64::from(HOARDERS_COUNT) && kept <= before + before / 50 {
            return;
        }
        before = kept;
    }
}

/// Checks that a publication is accepted as before.
fn check_served_with(server: &Server, token: &str) {
    let mut raw = Raw::connect(&server.clients);
    raw.send((head("/topics/news", token, 2) + "hi").as_bytes());
    assert_eq!(raw.read_answer().0, 200);
}

/// Checks that another client is served soon.
fn check_served(server: &Server) {
    let start = Instant::now();
    let url = server.url("/topics/served");
    publish(&url, "yes");
    curl(&[&url]).expect(200);
    curl(&[&server.operators_url("/readyz")]).expect(200);
    assert!(start.elapsed() < Duration::from_secs(5), "served only after {:?}", start.elapsed());
}

fn check_growth(server: &Server, before: u64) {
    let now = server.resident_bytes();
    assert!(now < before + GROWTH_BYTES_MAX, "from {before} to {now} bytes");
}
