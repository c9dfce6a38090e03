//! Measures the cost of entitlement: processor time of each connect, and bytes of each connection,
//! with tokens off, with one token for all, with a token for each client, and with counted users.
//! For people: `docs/performance.md` quotes the table.
//!
//! `entitlement_costs [CLIENTS [ROUNDS [WORDS]]]`; WORDS select cases by name. The node has one I/O
//! thread and the first core, the clients the others (`taskset`). Each case in each round has its
//! own node: 2,000 clients come first, so that all code and memory has been touched; then CLIENTS
//! more, slowly, for the bytes; these leave, and as many connect with tokens that are new to the
//! node, as fast as possible; these leave and reconnect. Figures are the medians of all rounds.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use end_to_end::bench::Bench;
use end_to_end::metrics::Metrics;
use end_to_end::server::{Place, Server};
use end_to_end::tokens::{Issuer, configuration};

const CLIENTS: u64 = 15_000;
const ROUNDS: usize = 3;
const FIRST_CLIENTS: u64 = 2_000;
/// The permissions of each token, equal for all.
const TERMS: &str =
    "--jti random --subscribe bench/# --subscribe user/{sub}/# --publish user/{sub}/out";
/// One thread; the handshake timeout is short, so that handshakes do not count as memory of a
/// connection.
const NODE: &str = "[node]\nio_threads = 1\n[http]\nhandshake_timeout = \"1s\"\n";

/// A case: its name, the issuer's algorithm, and whether each client has its own token.
type Case = (&'static str, Option<&'static str>, bool);

/// A case with this in its name has a limit for each user.
const COUNTED: &str = "users counted";

const CASES: [Case; 8] = [
    ("off", None, false),
    ("one token for all, ES256", Some("ES256"), false),
    ("a token each, HS256", Some("HS256"), true),
    ("a token each, HS256, users counted", Some("HS256"), true),
    ("a token each, RS256", Some("RS256"), true),
    ("a token each, EdDSA", Some("EdDSA"), true),
    ("a token each, ES256", Some("ES256"), true),
    ("a token each, ES384", Some("ES384"), true),
];

/// Figures of a case, by name; one for each round.
type Figures = BTreeMap<&'static str, Vec<f64>>;

fn main() {
    let mut arguments = env::args().skip(1);
    let mut number = |default: usize| {
        arguments.next().map_or(default, |word| {
            word.parse().expect("usage: entitlement_costs [CLIENTS [ROUNDS [WORDS]]]")
        })
    };
    let clients = number(CLIENTS as usize) as u64;
    let rounds = number(ROUNDS);
    let words = arguments.next().unwrap_or_default();
    let cases = CASES.iter().filter(|(name, ..)| name.contains(&words));
    let cases: Vec<&Case> = cases.collect();
    let mut all: Vec<Figures> = vec![Figures::new(); cases.len()];
    for round in 0..rounds {
        for (case, figures) in cases.iter().zip(&mut all) {
            measure(case, clients, figures);
            eprintln!("round {}, {}: {figures:?}", round + 1, case.0);
        }
    }
    println!(
        "| tokens | a connect at 2,500/s, µs | as fast as it goes, µs | connects per CPU second | come back, µs | connects per CPU second | bytes of a connection, PSS | of these, entitlements |\n\
         |---|---|---|---|---|---|---|---|"
    );
    for ((name, ..), figures) in cases.iter().zip(&all) {
        let of = |name: &str| median(&figures[name]);
        println!(
            "| {name} | {:.1} | {:.1} | {:.0} | {:.1} | {:.0} | {:.0} | {:.0} |",
            of("slow"),
            of("new"),
            1e6 / of("new"),
            of("back"),
            1e6 / of("back"),
            of("bytes"),
            of("entitlements"),
        );
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn measure((name, algorithm, has_own): &Case, clients: u64, figures: &mut Figures) {
    let mut place = Place::new("127.0.0.1:0");
    let issuer = algorithm.map(|algorithm| Issuer::new(&place, algorithm, "2026-01"));
    let files = ["first", "slow", "fast"].map(|name| place.path(name));
    if let Some(issuer) = &issuer {
        let one = issuer.token(&format!("--sub user {TERMS}"));
        for (file, count) in files.iter().zip([FIRST_CLIENTS, clients, clients]) {
            let name = file.file_name().and_then(|name| name.to_str());
            let own =
                || issuer.token(&format!("--count {count} --sub {} {TERMS}", name.unwrap_or("")));
            let tokens = if *has_own { own() } else { one.clone() };
            fs::write(file, tokens).expect("the folder is ours");
        }
    }
    let entitlement = issuer.as_ref().map(|issuer| configuration("", &[issuer]));
    let limit =
        if name.contains(COUNTED) { "[limits]\nconnections_per_user_max = 5\n" } else { "" };
    place.configure(&format!("{NODE}{limit}{}", entitlement.unwrap_or_default()));
    let process = place.launch_by(&["taskset", "-c", "0"]);
    let server = place.started(process);
    let token_file = |at: usize| issuer.as_ref().map(|_| &files[at]);
    let mut metrics = Metrics::of(&server.operators);
    let mut put = |name, value| figures.entry(name).or_default().push(value);

    let first = connect(&server, "bench/first/{0001..2000}", FIRST_CLIENTS, token_file(0), "2500");
    let entitlements = "crore_memory_bytes{component=\"entitlements\"}";
    let entitled = metrics.scrape().number(entitlements);
    let before = (server.resident_bytes(), cpu(&server));
    let topics = format!("bench/{{00001..{clients:05}}}");
    let slow = connect(&server, &topics, clients, token_file(1), "2500");
    let after = (server.resident_bytes(), cpu(&server));
    let entitled = metrics.scrape().number(entitlements) - entitled;
    put("entitlements", entitled as f64 / clients as f64);
    let each = |spent: Duration| spent.as_secs_f64() * 1e6 / clients as f64;
    put("slow", each(after.1 - before.1));
    put("bytes", after.0.saturating_sub(before.0) as f64 / clients as f64);
    leave(slow, &mut metrics);
    for name in ["new", "back"] {
        let before = cpu(&server);
        let bench = connect(&server, &topics, clients, token_file(2), "0");
        put(name, each(cpu(&server) - before));
        leave(bench, &mut metrics);
    }
    drop(first);
}

/// Connects clients with a topic each; waits until all are subscribed.
fn connect(
    server: &Server,
    topics: &str,
    clients: u64,
    token_file: Option<&PathBuf>,
    rate: &str,
) -> Bench {
    let (url, count) = (server.ws_url("/crore"), clients.to_string());
    let mut words: Vec<String> = ["taskset", "-c", "1"].map(str::to_owned).to_vec();
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        words.clear();
        words.push("env".to_owned());
    }
    let mut arguments = vec![
        "sub",
        "--url",
        &url,
        "--clients",
        &count,
        "--topics",
        topics,
        "--local-addresses",
        "127.0.{1..3}.1",
        "--threads",
        "1",
        "--connect-rate",
        rate,
    ];
    let file = token_file.map(|file| file.display().to_string());
    if let Some(file) = &file {
        arguments.extend(["--token-file", file]);
    }
    let mut bench = Bench::start_by(&words, &arguments);
    bench.wait_for("all subscribed", |figures| figures["clients_live"].as_u64() == Some(clients));
    bench
}

/// Stops these clients, and waits until the node has noticed.
fn leave(bench: Bench, metrics: &mut Metrics<'_>) {
    bench.ask_to_end();
    bench.end_within(end_to_end::PATIENCE);
    metrics.wait_for("crore_connections", |count| count == FIRST_CLIENTS);
}

/// Processor time of all threads of the node, in nanoseconds as the scheduler counts it.
fn cpu(server: &Server) -> Duration {
    let folder = format!("/proc/{}/task", server.process.id());
    let tasks = fs::read_dir(folder).expect("our child can be read").flatten();
    let spent = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(spent.sum())
}
