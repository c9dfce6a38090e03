//! The server is killed (`kill -9`) repeatedly while clients publish and subscribe: acknowledged
//! messages are present, once and in order, and every loss is reported.
//!
//! `crash [--kills N] [--seed N]`. Publishers repeat every message until it is acknowledged;
//! subscribers audit their streams, over all restarts, up to the acknowledged messages; the command
//! line and an independent client follow a topic each; at the end a new auditor reads the whole
//! log. The seed determines the moments of the kills, but not the server's state at them. The last
//! line is `N passed, N failed`.

#![forbid(unsafe_code)]

use std::env;
use std::fs;
use std::panic::catch_unwind;
use std::process::{self, Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use end_to_end::bench::{Bench, Total};
use end_to_end::process::Process;
use end_to_end::server::{Place, Server};
use end_to_end::tools::{crore, node};

/// The default number of kills.
const KILLS: u32 = 10;
/// The maximum number of kills with logs in memory, which lose everything at a restart: fewer are
/// enough.
const MEMORY_KILLS_MAX: u32 = 3;

/// Topics of each publisher.
const TOPICS: u32 = 50;
/// Messages per second of each publisher.
const RATE: &str = "1000";
/// Connections of each publisher.
const CONNECTIONS: u64 = 4;

/// The maximum number of a connection's unacknowledged messages.
const INFLIGHT_MAX: &str = "128";

/// The time limit after the last restart.
const END: Duration = Duration::from_secs(90);
/// The maximum silence of a follower: after many kills in a row it only reconnects after its
/// longest delay, 30 s.
const FOLLOWER_PATIENCE: Duration = Duration::from_secs(50);

/// The location of acknowledged messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durability {
    Disk,
    Memory,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (mut kills, mut seed) = (KILLS, u64::from(process::id()));
    for pair in arguments.chunks(2) {
        let number = pair.get(1).and_then(|text| text.parse::<u64>().ok());
        match (pair[0].as_str(), number) {
            ("--kills", Some(number)) => kills = number as u32,
            ("--seed", Some(number)) => seed = number,
            _ => {
                eprintln!("usage: crash [--kills N] [--seed N]");
                return ExitCode::from(2);
            }
        }
    }
    println!("seed {seed}");
    let cases = [(Durability::Disk, kills), (Durability::Memory, kills.min(MEMORY_KILLS_MAX))];
    let mut failed = 0;
    for (durability, kills) in cases {
        let start = Instant::now();
        let case = || crash(durability, kills, &mut Random(seed | 1));
        let verdict = catch_unwind(case).map_or("FAILED", |()| "ok");
        failed += usize::from(verdict != "ok");
        println!(
            "{kills} kills, logs in {durability:?} ... {verdict} in {:.1} s",
            start.elapsed().as_secs_f64()
        );
    }
    println!("{} passed, {failed} failed", cases.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn crash(durability: Durability, kills: u32, random: &mut Random) {
    // A private address: no client's socket has it, and no other test listens there.
    let number = process::id();
    let listen = format!("127.{}.{}.7:0", 1 + number % 250, number / 250 % 250);
    let mut place = Place::new(&listen);
    place.configure(&configuration(durability, &place));
    let mut server = place.start();
    let url = format!("ws://{}", server.clients);
    let ledgers: Vec<String> =
        ["a", "b"].iter().map(|name| place.path(name).to_string_lossy().into_owned()).collect();

    // Two streams for each topic over WebSocket, and event streams of ten topics each.
    let clients = (TOPICS * 4).to_string();
    let web_socket = ["--clients", &clients];
    let streams = (TOPICS / 5).to_string();
    let events = ["--transport", "sse", "--clients", &streams, "--topics-per-client", "10"];
    let mut subscribers: Vec<Bench> =
        [&web_socket[..], &events].iter().map(|how| subscribe(&url, &ledgers, how)).collect();
    for bench in &mut subscribers {
        bench.wait_for("clients that are live", |figures| {
            figures["clients_live"] == figures["clients"]
        });
    }
    let mut followers = [
        (Follower::event_source(&server.url("/topics/a/1")), "a/1"),
        (Follower::command_line(&url, "b/1"), "b/1"),
    ];
    let mut publishers: Vec<Bench> = ledgers.iter().map(|ledger| publish(&url, ledger)).collect();

    server = kill_again(server, &mut place, &mut publishers, (kills, random));
    // Each topic has a message after the last restart, so that the clients can wait for all.
    wait_for_progress(&mut publishers);
    for bench in &mut publishers {
        bench.wait_for_sum("messages of all topics", "sent", u64::from(TOPICS) * 4);
    }

    for bench in &publishers {
        bench.ask_to_end();
    }
    let published: Vec<Total> = publishers.into_iter().map(|bench| bench.end_within(END)).collect();
    let received: Vec<Total> = subscribers.into_iter().map(|bench| bench.end_within(END)).collect();
    let acknowledged = sum(&published, &["received"]);
    print_summary(kills, &published, &received);
    check_totals(&published, &received, acknowledged);
    let gaps = followers
        .iter_mut()
        .zip(&ledgers)
        .map(|((follower, topic), ledger)| follower.follow(last_acknowledged(ledger, topic)))
        .collect::<Vec<u64>>();
    match durability {
        Durability::Disk => {
            assert_eq!(gaps, [0, 0], "a gap at a client that follows one topic");
            for total in &received {
                let streams = total.number(&["audit", "streams"]);
                assert_eq!(total.number(&["audit", "complete"]), streams, "a gap");
            }
            audit_anew(&url, &ledgers, acknowledged);
        }
        // Messages acknowledged before the last restart are lost, and the loss is reported.
        Durability::Memory => {
            assert!(!gaps.contains(&0), "no gap at a client that follows one topic");
            assert!(sum(&received, &["audit", "with_gaps"]) > 0);
        }
    }
    drop(server);
}

/// Kills the server at random moments; returns the last one.
fn kill_again(
    mut server: Server,
    place: &mut Place,
    publishers: &mut [Bench],
    (kills, random): (u32, &mut Random),
) -> Server {
    let mut killed = 0;
    while killed < kills {
        match random.below(4) {
            // Right after a start, while all clients reconnect.
            0 => pause(random.below(20)),
            // While clients publish.
            _ => {
                wait_for_progress(publishers);
                pause(random.below(400));
            }
        }
        drop(server);
        killed += 1;
        // Sometimes the server is killed during its start.
        while killed < kills && random.below(4) == 0 {
            let starting = place.launch();
            pause(random.below(60));
            drop(starting);
            killed += 1;
        }
        server = place.start();
    }
    server
}

fn print_summary(kills: u32, published: &[Total], received: &[Total]) {
    println!(
        "{kills} kills; {} acknowledged, {} sent again, {} answered as duplicates; {} received in {} streams, \
         {} connections made again; {} streams with gaps, {} messages announced as missing",
        sum(published, &["received"]),
        sum(published, &["repeated_sends"]),
        sum(published, &["duplicates"]),
        sum(received, &["messages"]),
        sum(received, &["audit", "streams"]),
        sum(received, &["disconnects"]),
        sum(received, &["audit", "with_gaps"]),
        sum(received, &["audit", "announced"]),
    );
}

/// The publishers and subscribers ended regularly, and agree on the acknowledged messages.
fn check_totals(published: &[Total], received: &[Total], acknowledged: u64) {
    for total in published {
        // The signal ends it without errors.
        assert_eq!(total.code, Some(143), "{}", total.figures);
        assert_eq!(total.number(&["refused"]), 0);
        assert_eq!(total.figures["inflight"], 0);
        assert!(total.number(&["received"]) > 0);
    }
    for total in received {
        assert_eq!(total.code, Some(0), "{}", total.figures);
        assert_eq!(total.number(&["audit", "ledger_acknowledged"]), acknowledged);
        assert!(total.number(&["disconnects"]) > 0, "they noticed nothing");
    }
}

/// Reads the whole log with a new auditor.
fn audit_anew(url: &str, ledgers: &[String], acknowledged: u64) {
    let clients = (TOPICS * 2).to_string();
    let fresh = subscribe(url, ledgers, &["--clients", &clients, "--start", "first"]);
    let total = fresh.end_within(END);
    assert_eq!(total.code, Some(0), "{}", total.figures);
    assert_eq!(total.number(&["audit", "complete"]), u64::from(TOPICS * 2), "{}", total.figures);
    // An acknowledgement may be lost with its connection although its message is in the log.
    let messages = total.number(&["messages"]);
    println!("a fresh auditor finds {messages} messages");
    assert!(messages >= acknowledged, "{}", total.figures);
}

fn configuration(durability: Durability, place: &Place) -> String {
    let log = match durability {
        Durability::Memory => String::new(),
        Durability::Disk => format!(
            "[node]\ndata_dir = {:?}\n[[log]]\nname = \"kept\"\ndurability = \"disk\"\n\
             bytes_max = \"8GiB\"\nage_max = \"1d\"\nsegment_bytes = \"2MiB\"\ncache_bytes = \"2MiB\"\n",
            place.path("data")
        ),
    };
    // Segments and memory are small, so that much is read from the disk; memory holds the messages
    // that publishers may repeat, as deduplication uses it. The history limit exceeds the number of
    // messages.
    format!("{log}[[rule]]\nfilter = \"#\"\nhistory_messages_max = 100000000\n")
}

fn subscribe(url: &str, ledgers: &[String], how: &[&str]) -> Bench {
    let topics = format!("{{a,b}}/{{1..{TOPICS}}}");
    let mut arguments = vec!["sub", "--url", url, "--topics", &topics, "--verify"];
    for ledger in ledgers {
        arguments.extend(["--ledger", ledger]);
    }
    arguments.extend(how);
    Bench::start(&arguments)
}

fn publish(url: &str, ledger: &str) -> Bench {
    let name = ledger.rsplit('/').next().unwrap_or_default();
    let topics = format!("{name}/{{1..{TOPICS}}}");
    let connections = CONNECTIONS.to_string();
    Bench::start(&[
        "pub",
        "--url",
        url,
        "--topics",
        &topics,
        "--rate",
        RATE,
        "--size",
        "512",
        "--connections",
        &connections,
        "--inflight-max",
        INFLIGHT_MAX,
        "--exactly-once",
        "--ledger",
        ledger,
    ])
}

/// Waits until all publishers are connected and receive acknowledgements.
fn wait_for_progress(publishers: &mut [Bench]) {
    for bench in publishers {
        bench.wait_for("acknowledgements", |figures| {
            figures["connections"] == CONNECTIONS && figures["received"].as_u64() > Some(0)
        });
    }
}

/// One topic, read by a client that reconnects by itself and prints a line of JSON for each message
/// and event.
struct Follower(Process);

impl Follower {
    /// An event stream, read by an independent client.
    fn event_source(url: &str) -> Follower {
        let mut command = node("event_source.cjs", &[url, "crore.gap", "crore.start"]);
        Follower::start(&mut command, "crore.start")
    }

    /// The command line, which is the Rust client.
    fn command_line(url: &str, topic: &str) -> Follower {
        let mut command = crore();
        command.args(["sub", "--url", url, "--json", topic]);
        Follower::start(&mut command, "subscribed")
    }

    fn start(command: &mut Command, beginning: &str) -> Follower {
        let mut process = Process::start(command).with_patience(FOLLOWER_PATIENCE);
        process.wait_for("a start", |line| line.contains(beginning).then_some(()));
        Follower(process)
    }

    /// Reads up to the message with this number, each once and in order from the first, apart from
    /// reported gaps. Returns the number of messages.
    fn follow(&mut self, last: u64) -> u64 {
        let (mut gaps, mut newest) = (0, Some(0));
        while newest.is_none_or(|newest| newest < last) {
            let event = self.0.json();
            let data = event["data"].as_str().unwrap_or_default();
            match event["event"].as_str() {
                // A start may report it too, and the connection may end before the next event.
                Some("crore.start") if data.contains("\"complete\":true") => {}
                Some("crore.gap" | "crore.start" | "gap" | "skipped") => {
                    gaps += 1;
                    newest = None;
                }
                Some("message") => {
                    let sequence = sequence_of(data);
                    if let Some(newest) = newest {
                        assert_eq!(sequence, newest + 1, "{event}");
                    }
                    newest = Some(sequence);
                }
                _ => {}
            }
        }
        gaps
    }
}

/// The number of a message of `bench pub`: eleven digits of base64url in its head.
fn sequence_of(payload: &str) -> u64 {
    let digits = payload.get(27..38).expect("a message of the benchmark");
    digits.bytes().fold(0, |number, digit| {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'-' => 62,
            _ => 63,
        };
        number << 6 | u64::from(value)
    })
}

/// The number of a topic's last message in a ledger.
fn last_acknowledged(ledger: &str, topic: &str) -> u64 {
    let text = fs::read_to_string(ledger).expect("the publisher wrote it");
    let line = text
        .lines()
        .find(|line| line.split('\t').next() == Some(topic))
        .expect("the topic was published to");
    let number = line.rsplit('\t').next().and_then(|text| text.parse().ok());
    number.expect("a number")
}

fn sum(totals: &[Total], names: &[&str]) -> u64 {
    totals.iter().map(|total| total.number(names)).sum()
}

fn pause(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}

/// The generator of the moments of kills (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
