//! The slow tier: Debian's `slowhttptest` against one server, with a publisher and a subscriber
//! beside it.
//!
//! Each attack opens hundreds of connections that are as slow as possible. Assertions for each: the
//! subscriber receives every message, in order, and soon; the server closes all attackers before
//! they end by themselves; memory stays bounded. The last line is `N passed, N failed`, and
//! `docs/reliability.md` quotes the lines before it.

#![forbid(unsafe_code)]

use std::panic::catch_unwind;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use end_to_end::curl::publish;
use end_to_end::metrics::Metrics;
use end_to_end::process::Process;
use end_to_end::served::Served;
use end_to_end::server::Server;

/// The number of attackers, and their rate per second: all at once would be a burst of connections,
/// which is another attack.
const ATTACKERS: [&str; 4] = ["-c", "400", "-r", "200"];
const ATTACKERS_COUNT: u64 = 400;
/// The timeouts of the server, short so that the test is: from the first byte to the end of a head,
/// and of a request.
const DEADLINES: &str = "[http]\nhandshake_timeout = \"4s\"\nkeep_alive_timeout = \"6s\"\n\n[websocket]\nping_interval = \"5s\"\n";
/// Attackers give up after this time: all must be closed before.
const ATTACK: Duration = Duration::from_secs(40);
/// The maximum growth of the server, in bytes.
const GROWTH_BYTES_MAX: u64 = 300 << 20;
/// The maximum latency of a message: two cores are shared with the attackers and other programs.
const LATENCY_MAX: Duration = Duration::from_secs(2);

/// A name, the path, and slowhttptest's arguments.
type Attack = (&'static str, &'static str, &'static [&'static str]);

const ATTACKS: [Attack; 5] = [
    ("heads without an end", "/topics/a", &["-H", "-i", "1", "-x", "24", "-t", "GET"]),
    (
        "bodies without an end",
        "/topics/a",
        &["-B", "-i", "1", "-s", "8192", "-x", "10", "-t", "POST"],
    ),
    (
        "readers of a byte a second",
        "/topics/large?limit=200",
        &["-X", "-n", "1", "-z", "1", "-w", "1", "-y", "16", "-k", "1"],
    ),
    ("thousands of ranges", "/topics/large", &["-R", "-a", "10", "-b", "3000"]),
    ("upgrades without an end", "/crore", &["-H", "-i", "1", "-x", "24", "-t", "GET"]),
];

fn main() -> ExitCode {
    let mut failed = 0;
    for attack in ATTACKS {
        let start = Instant::now();
        let verdict = catch_unwind(|| withstands(attack)).map_or("FAILED", |()| "ok");
        failed += usize::from(verdict != "ok");
        let took = start.elapsed().as_secs_f64();
        println!("{} ... {verdict} in {took:.1} s", attack.0);
    }
    println!("{} passed, {failed} failed", ATTACKS.len() - failed);
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn withstands((name, path, words): Attack) {
    let server = Server::with_configuration(DEADLINES);
    let large = "x".repeat(8_000);
    for _ in 0..200 {
        publish(&server.url("/topics/large"), &large);
    }
    let mut metrics = Metrics::of(&server.operators);
    let served = Served::begin(&server, b"", "");
    let before = server.resident_bytes();
    let numbers = metrics.scrape();
    let connected = numbers.number("crore_connections");
    let accepted = numbers.number("crore_connections_accepted_total");

    let start = Instant::now();
    let url = server.url(path);
    let seconds = ATTACK.as_secs().to_string();
    let mut command = Command::new("slowhttptest");
    command.args(words).args(ATTACKERS).args(["-l", &seconds, "-p", "5", "-u", &url]);
    let attack = Process::start(&mut command);
    let (mut most, mut largest) = (0, before);
    let gone = loop {
        let numbers = metrics.scrape();
        let connections = numbers.number("crore_connections").saturating_sub(connected);
        let came = numbers.number("crore_connections_accepted_total") - accepted;
        most = most.max(connections);
        largest = largest.max(server.resident_bytes());
        if came >= ATTACKERS_COUNT && connections == 0 {
            break start.elapsed();
        }
        let late = start.elapsed() >= ATTACK;
        assert!(!late, "{came} attackers came, {connections} of them are still there");
        thread::sleep(Duration::from_millis(100));
    };
    drop(attack);
    let latencies = served.end();
    let (count, median, last) = (latencies.count(), latencies.median(), latencies.slowest());
    println!(
        "{name}: {ATTACKERS_COUNT} attackers, {most} at once, gone after {:.1} s; {count} messages beside them, all in order, median {} us, \
         slowest {} us; memory grew by {} KiB",
        gone.as_secs_f64(),
        median.as_micros(),
        last.as_micros(),
        (largest - before) >> 10
    );
    assert!(last < LATENCY_MAX, "a message took {last:?}");
    assert!(largest < before + GROWTH_BYTES_MAX, "from {before} to {largest} bytes");
}
