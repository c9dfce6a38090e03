//! The dashboard and the alert rules, as users have them: promtool checks the rules and runs their
//! tests, and a real Prometheus scrapes a node under load, so that every query of every panel finds
//! data. The last line is `N passed, N failed`.
//!
//! The node has plain clients and clients with TLS, a slow one, publishers, a log in memory and one
//! on disk, two I/O threads, refusals, and pushes its metrics to a socket of the test.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use end_to_end::bench::Bench;
use end_to_end::curl::curl;
use end_to_end::process::assert_success;
use end_to_end::prometheus::Prometheus;
use end_to_end::server::{Place, Server};
use end_to_end::tools;
use serde_json::Value;

const CASES: [(&str, fn()); 4] = [
    ("promtool takes the rules and their tests", rules),
    ("panels have titles, units and numbers of their own", panels),
    ("each metric that is used is documented", documented),
    ("every query of every panel finds data", queries),
];

/// The interval of rates, which is several scrapes.
const RATE_INTERVAL: &str = "10s";
/// Prometheus has to scrape twice, and rare events have to occur.
const PATIENCE: Duration = Duration::from_secs(90);

fn main() -> ExitCode {
    let mut failed = 0;
    for (name, case) in CASES {
        let verdict = catch_unwind(case).map_or("FAILED", |()| "ok");
        failed += usize::from(verdict != "ok");
        println!("{name} ... {verdict}");
    }
    println!("{} passed, {failed} failed", CASES.len() - failed);
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn dashboard() -> Value {
    serde_json::from_str(&read("deploy/grafana/crore.json")).expect("the dashboard is JSON")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The queries, with the names of their panels.
fn expressions(dashboard: &Value) -> Vec<(String, String)> {
    let of_panel = |panel: &Value| {
        let title = panel["title"].as_str().unwrap_or_default().to_owned();
        let targets = list(&panel["targets"]).iter();
        let expressions = targets.filter_map(|target| target["expr"].as_str());
        expressions.map(|expression| (title.clone(), expression.to_owned())).collect::<Vec<_>>()
    };
    list(&dashboard["panels"]).iter().flat_map(of_panel).collect()
}

fn rules() {
    let folder = root().join("deploy/prometheus");
    for arguments in [["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]] {
        let mut promtool = tools::promtool();
        assert_success(promtool.args(arguments).current_dir(&folder));
    }
    // Each alert has a test in which it fires, and one in which it does not.
    let (rules, tests) =
        (read("deploy/prometheus/rules.yml"), read("deploy/prometheus/rules_test.yml"));
    let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    for alert in alerts {
        for kind in ["fires", "stays quiet"] {
            let name = format!("- name: {alert} {kind}\n");
            assert!(tests.contains(&name), "no test: {name}");
        }
    }
}

fn panels() {
    let dashboard = dashboard();
    let panels = list(&dashboard["panels"]);
    let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len());
    for subject in ["Connections", "Traffic", "Latency", "Memory", "Log", "Errors", "Engine"] {
        let is_row = |panel: &Value| panel["type"] == "row" && panel["title"] == subject;
        assert!(panels.iter().any(is_row), "no row {subject}");
    }
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert!(panel["title"].is_string(), "{panel}");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{panel}");
        assert!(!list(&panel["targets"]).is_empty(), "{panel}");
    }
}

fn documented() {
    let page = read("docs/metrics.md");
    let used = dashboard().to_string() + &read("deploy/prometheus/rules.yml");
    let is_part = |character: char| character.is_ascii_lowercase() || character == '_';
    let words = used.split(|character| !is_part(character));
    let names: BTreeSet<&str> = words.filter(|word| word.starts_with("crore_")).collect();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        let family = name.strip_suffix("_bucket").unwrap_or(name);
        assert!(page.contains(&format!("| `{family}` |")), "{name} is not documented");
    }
}

fn queries() {
    let pushed = UdpSocket::bind("127.0.0.1:0").expect("loopback has ports");
    let load = Load::start(&pushed);
    let rules = root().join("deploy/prometheus/rules.yml");
    let rules = rules.canonicalize().expect("it is there");
    let prometheus = Prometheus::start(&load.place.path(""), &load.server.operators, &rules);
    let mut waiting: Vec<(String, String)> = expressions(&dashboard())
        .into_iter()
        .map(|(title, expression)| {
            let expression =
                expression.replace("$instance", ".*").replace("$__rate_interval", RATE_INTERVAL);
            (title, expression)
        })
        .collect();
    assert!(waiting.len() > 60);
    let deadline = Instant::now() + PATIENCE;
    while !waiting.is_empty() {
        assert!(Instant::now() < deadline, "no data for {waiting:#?}");
        load.refuse_something();
        waiting.retain(|(_, expression)| prometheus.query(expression).is_empty());
        std::thread::sleep(Duration::from_millis(500));
    }
    let loaded = prometheus.rules();
    assert!(loaded.len() > 10);
    for rule in loaded {
        assert_eq!(rule["health"], "ok", "{rule}");
        assert_ne!(rule["state"], "firing", "{rule}");
    }
    pushed.set_read_timeout(Some(PATIENCE)).expect("a time");
    let mut datagram = [0; 65_536];
    let bytes = pushed.recv(&mut datagram).expect("a push");
    let text = String::from_utf8_lossy(&datagram[..bytes]);
    assert!(text.contains(",node=watched "), "{text}");
}

/// A node with all its clients.
struct Load {
    place: Place,
    server: Server,
    _clients: Vec<Bench>,
}

impl Load {
    fn start(pushed: &UdpSocket) -> Load {
        let mut place = Place::new("127.0.0.1:0");
        let path = |name: &str| place.path(name).to_string_lossy().into_owned();
        let (certificate, key, data) = (path("cert.pem"), path("key.pem"), path("data"));
        let mut make = tools::crore();
        make.args(["tls", "self-signed", "--name", "localhost", "--out"]);
        assert_success(make.arg(place.path("")));
        let pushed = pushed.local_addr().expect("it is bound");
        place.configure(&format!(
            "[node]\nname = \"watched\"\nio_threads = 2\ndata_dir = {data:?}\n\
             [tls]\nlisten = \"127.0.0.1:0\"\ncertificate_file = {certificate:?}\nkey_file = {key:?}\n\
             [metrics]\npush_to = \"udp:{pushed}\"\npush_interval = \"1s\"\n\
             [[log]]\nname = \"memory\"\n\
             [[log]]\nname = \"kept\"\ndurability = \"disk\"\n\
             [[rule]]\nfilter = \"kept/#\"\nlog = \"kept\"\n\
             [[rule]]\nfilter = \"small/#\"\nmessage_bytes_max = \"1KiB\"\n"
        ));
        let server = place.start();
        let (plain, tls) = (server.ws_url("/crore"), format!("wss://{}/crore", server.tls_clients));
        let topics = ["--topics", "p/s{1..10}"];
        let kept = ["--topics", "kept/{1..3}"];
        let subscribe = ["sub", "--clients", "20", "--threads", "1", "--url"];
        let publish = ["pub", "--rate", "200", "--threads", "1", "--url"];
        let slow = ["--stall-after", "1s", "--stall-for", "10m", "--receive-buffer", "4KiB"];
        let start = |parts: &[&[&str]]| Bench::start(&parts.concat());
        let clients = vec![
            start(&[&subscribe, &[&plain], &topics]),
            start(&[&subscribe, &[&tls, "--insecure"], &topics]),
            start(&[&subscribe, &[&plain], &kept]),
            start(&[&subscribe, &[&plain], &topics, &slow]),
            start(&[&publish, &[&plain], &topics]),
            start(&[&publish, &[&plain], &kept]),
        ];
        Load { place, server, _clients: clients }
    }

    /// Sends one request for an unknown address, and one that is too large.
    fn refuse_something(&self) {
        curl(&[&self.server.url("/nothing")]).expect_problem(404, "not_found");
        let payload = "x".repeat(2_000);
        let url = self.server.url("/topics/small/a");
        curl(&["-d", &payload, &url]).expect_problem(413, "message_too_large");
    }
}
