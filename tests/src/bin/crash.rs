//! The server is killed (`kill -9`) again and again while it is published to and subscribed from:
//! what was acknowledged is there, once and in order, and whoever misses something was told.
//!
//! `crash [--kills N] [--seed N]`. Publishers send every message until it is acknowledged;
//! subscribers audit their streams, over all restarts, up to what was acknowledged; the command
//! line and a client that others wrote follow a topic each; in the end a fresh auditor reads all
//! that the log holds. The moments of the kills follow from the seed, what the server is doing then
//! does not. The last line is `N passed, N failed`.

#![forbid(unsafe_code)]

use std::env;
use std::fs;
use std::panic::catch_unwind;
use std::process::{self, Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use end_to_end::bench::{Bench, Total};
use end_to_end::process::Process;
use end_to_end::server::Place;
use end_to_end::tools::{crore, node};

/// How often the server is killed, unless told otherwise.
const KILLS: u32 = 10;
/// With logs in memory, which are told apart by what a restart loses: fewer are enough.
const MEMORY_KILLS_MAX: u32 = 3;

/// Topics of each publisher.
const TOPICS: u32 = 50;
/// Messages per second of each publisher.
const RATE: &str = "1000";
/// Connections of each publisher.
const CONNECTIONS: u64 = 4;

/// Messages of a connection that may wait for their acknowledgement.
const INFLIGHT_MAX: &str = "128";

/// How long what follows the last restart may take.
const END: Duration = Duration::from_secs(90);
/// Longest silence of a client that follows: after many kills in a row it comes back only when its
/// longest delay, 30 s, is over.
const FOLLOWER_PATIENCE: Duration = Duration::from_secs(50);

/// Where acknowledged messages are kept.
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
    // An address of our own: no socket of a client has it, and no other test listens there.
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

    let mut killed = 0;
    while killed < kills {
        match random.below(4) {
            // Right after a start, when everybody returns.
            0 => pause(random.below(20)),
            // While it is published to.
            _ => {
                wait_for_progress(&mut publishers);
                pause(random.below(400));
            }
        }
        drop(server);
        killed += 1;
        // Sometimes it does not even get through its start.
        while killed < kills && random.below(4) == 0 {
            let starting = place.launch();
            pause(random.below(60));
            drop(starting);
            killed += 1;
        }
        server = place.start();
    }
    // Of every topic something comes after the last restart, so that all can be waited for.
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
    println!(
        "{killed} kills; {acknowledged} acknowledged, {} sent again, {} answered as duplicates; {} received in {} streams, \
         {} connections made again; {} streams with gaps, {} messages announced as missing",
        sum(&published, &["repeated_sends"]),
        sum(&published, &["duplicates"]),
        sum(&received, &["messages"]),
        sum(&received, &["audit", "streams"]),
        sum(&received, &["disconnects"]),
        sum(&received, &["audit", "with_gaps"]),
        sum(&received, &["audit", "announced"]),
    );
    for total in &published {
        // It ends by our signal, and had nothing to complain of.
        assert_eq!(total.code, Some(143), "{}", total.figures);
        assert_eq!(total.number(&["refused"]), 0);
        assert_eq!(total.figures["inflight"], 0);
        assert!(total.number(&["received"]) > 0);
    }
    for total in &received {
        assert_eq!(total.code, Some(0), "{}", total.figures);
        assert_eq!(total.number(&["audit", "ledger_acknowledged"]), acknowledged);
        assert!(total.number(&["disconnects"]) > 0, "they noticed nothing");
    }
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
        // What was acknowledged before the last restart is gone, and everybody knows.
        Durability::Memory => {
            assert!(!gaps.contains(&0), "no gap at a client that follows one topic");
            assert!(sum(&received, &["audit", "with_gaps"]) > 0);
        }
    }
    drop(server);
}

/// A fresh reader of everything that the log holds.
fn audit_anew(url: &str, ledgers: &[String], acknowledged: u64) {
    let clients = (TOPICS * 2).to_string();
    let fresh = subscribe(url, ledgers, &["--clients", &clients, "--start", "first"]);
    let total = fresh.end_within(END);
    assert_eq!(total.code, Some(0), "{}", total.figures);
    assert_eq!(total.number(&["audit", "complete"]), u64::from(TOPICS * 2), "{}", total.figures);
    // An acknowledgement may be lost with its connection, and its message is there nevertheless.
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
    // Segments and memory are small, so that much is read from the disk; memory holds what
    // publishers may repeat, as the log knows repeats by it. There is more history than messages.
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

/// All publishers are connected, and are being acknowledged.
fn wait_for_progress(publishers: &mut [Bench]) {
    for bench in publishers {
        bench.wait_for("acknowledgements", |figures| {
            figures["connections"] == CONNECTIONS && figures["received"].as_u64() > Some(0)
        });
    }
}

/// One topic, read by a client that comes back by itself and prints a line of JSON for each message
/// and event.
struct Follower(Process);

impl Follower {
    /// An event stream, read by a client that others wrote.
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

    /// Reads up to the message with this number, each once and in order from the first on, but for
    /// what gaps announce. Answers how many there were.
    fn follow(&mut self, last: u64) -> u64 {
        let (mut gaps, mut newest) = (0, Some(0));
        while newest.is_none_or(|newest| newest < last) {
            let event = self.0.json();
            let data = event["data"].as_str().unwrap_or_default();
            match event["event"].as_str() {
                // A start may tell it too, and the connection end before more is said.
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

/// The number of a message of `bench pub`: eleven digits of base64url behind what else is in its
/// head.
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

/// Where the next kill falls (xorshift): the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
