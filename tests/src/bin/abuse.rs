//! The slow tier: crowds of hostile and broken clients against one server, while others are served.
//!
//! Each case starts its own server. The last line is `N passed, N failed`.

#![forbid(unsafe_code)]

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use end_to_end::curl::{curl, publish};
use end_to_end::raw::Raw;
use end_to_end::server::Server;

/// A crowd: large against any per-connection slip, small enough for the default descriptor limit.
const CROWD_COUNT: usize = 400;

/// What a server may grow by under any of these, in bytes: the log's bound and some.
const GROWTH_BYTES_MAX: u64 = 400 << 20;

const CASES: [(&str, fn()); 5] = [
    ("unfinished handshakes come and go", unfinished_handshakes),
    ("connections are opened and reset", churn),
    ("readers of large messages stand still", standing_readers),
    ("a flood of random bytes", random_bytes),
    ("fragments that never end", endless_fragments),
];

fn main() -> ExitCode {
    let mut failed = 0;
    for (name, case) in CASES {
        let start = Instant::now();
        let verdict = catch_unwind(case).map_or("FAILED", |()| "ok");
        failed += usize::from(verdict != "ok");
        println!(
            "{name} ... {verdict} in {:.1} s",
            start.elapsed().as_secs_f64()
        );
    }
    println!("{} passed, {failed} failed", CASES.len() - failed);
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn unfinished_handshakes() {
    let server = Server::with_configuration("[http]\nhandshake_timeout = \"2s\"\n");
    let before = server.resident_bytes();
    for _ in 0..5 {
        let mut crowd: Vec<Raw> = (0..CROWD_COUNT)
            .map(|_| Raw::connect(&server.clients))
            .collect();
        for raw in &mut crowd {
            raw.send(b"GET /crore HTTP/1.1\r\nHost: x\r\nUpgrade: web");
        }
        check_served(&server);
        for raw in &mut crowd {
            assert!(
                raw.closes_within(Duration::from_secs(10)),
                "a handshake may stay open"
            );
        }
    }
    check_growth(&server, before);
}

fn churn() {
    let server = Server::start();
    let before = server.resident_bytes();
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        let crowd: Vec<Raw> = (0..CROWD_COUNT / 4)
            .map(|_| Raw::web_socket(&server.clients, "/echo", ""))
            .collect();
        drop(crowd);
        check_served(&server);
    }
    check_growth(&server, before);
}

fn standing_readers() {
    let server = Server::start();
    let before = server.resident_bytes();
    let crowd: Vec<Raw> = (0..CROWD_COUNT)
        .map(|_| {
            let mut raw = Raw::connect(&server.clients);
            raw.send(
                b"GET /events?topic=flood HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n",
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
    drop(crowd);
}

fn random_bytes() {
    let server = Server::start();
    let before = server.resident_bytes();
    // A fixed sequence (xorshift), so that a failure can be had again.
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
                // Begun text, then continuations of 4 KiB without an end: refused at the limit of /echo.
                let mut fragment = vec![0x00, 0xfe, 0x10, 0x00, 0, 0, 0, 0];
                fragment.extend([b'a'; 4096]);
                raw.send(&[0x01, 0x80, 0, 0, 0, 0]);
                for _ in 0..8_192 {
                    raw.send(&fragment);
                }
                raw.closes_within(Duration::from_secs(10))
            })
        })
        .collect();
    check_served(&server);
    for sender in senders {
        assert!(
            sender.join().is_ok_and(|is_closed| is_closed),
            "endless messages are taken"
        );
    }
    check_growth(&server, before);
}

/// Somebody else is served, and soon.
fn check_served(server: &Server) {
    let start = Instant::now();
    let url = server.url("/topics/served");
    publish(&url, "yes");
    curl(&[&url]).expect(200);
    curl(&[&server.operators_url("/readyz")]).expect(200);
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "served only after {:?}",
        start.elapsed()
    );
}

fn check_growth(server: &Server, before: u64) {
    let now = server.resident_bytes();
    assert!(
        now < before + GROWTH_BYTES_MAX,
        "from {before} to {now} bytes"
    );
}
