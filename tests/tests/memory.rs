//! A node's report of its memory by component, compared with the system's figures.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use end_to_end::PATIENCE;
use end_to_end::bench::Bench;
use end_to_end::curl::curl;
use end_to_end::server::{Place, Server};

/// `crore_memory_bytes` by component, with the process's own figure under `total`.
fn memory(server: &Server) -> BTreeMap<String, i64> {
    let answer = curl(&[&server.operators_url("/metrics")]).expect(200);
    let mut memory = BTreeMap::new();
    for line in answer.body.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, value)) = line.split_once(' ') else {
            continue;
        };
        let component = name
            .strip_prefix("crore_memory_bytes{component=\"")
            .and_then(|rest| rest.strip_suffix("\"}"));
        if let Some(component) = component {
            memory.insert(component.to_owned(), value.parse().expect("a number"));
        } else if name == "crore_process_proportional_bytes" {
            memory.insert("total".to_owned(), value.parse().expect("a number"));
        }
    }
    memory
}

fn connect(server: &Server, topics: &str, clients: u64) -> Bench {
    let url = server.ws_url("/crore");
    let clients_text = clients.to_string();
    let mut bench = Bench::start(&[
        "sub",
        "--url",
        &url,
        "--clients",
        &clients_text,
        "--topics",
        topics,
        "--local-addresses",
        "127.0.{1..3}.1",
        "--threads",
        "1",
    ]);
    bench.wait_for("all subscribed", |figures| figures["clients_live"].as_u64() == Some(clients));
    bench
}

/// The memory after all handshake timeouts have passed: their list has untouched room.
fn memory_at_rest(server: &Server) -> BTreeMap<String, i64> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let memory = memory(server);
        if memory["work"] < 40_000 {
            return memory;
        }
        assert!(Instant::now() < deadline, "{memory:#?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The components add up by construction, because one of them is the difference. So the difference
/// must be small: of the memory added by thousands of connections, less than a twentieth may be
/// unnamed. Code that runs for the first time and buffers that are filled for the first time would
/// count too; the first connections avoid that. Caches of the C library in threads are not
/// measurable (50 KB here), so they are disabled.
#[test]
fn memory_of_connections_is_named() {
    let mut place = Place::new("127.0.0.1:0");
    place.configure("[node]\nio_threads = 2\n[http]\nhandshake_timeout = \"1s\"\n");
    let process = place.launch_by(&["env", "GLIBC_TUNABLES=glibc.malloc.tcache_count=0"]);
    let server = place.started(process);
    let first = connect(&server, "first/{0001..2000}", 2_000);
    let before = memory_at_rest(&server);
    let further = connect(&server, "further/{00001..14000}", 14_000);
    let after = memory_at_rest(&server);
    let sum: i64 = after.iter().filter(|(name, _)| *name != "total").map(|(_, bytes)| bytes).sum();
    assert_eq!(sum, after["total"]);

    let grown = |name: &str| after[name] - before[name];
    let connections = 14_000;
    // By name and size: a slot of 52 bytes, a stamp, and further components.
    for (component, least, most) in [
        ("slots", 52, 60),
        ("subscriptions", 36, 48),
        ("topics_edge", 18, 28),
        ("topics_home", 44, 64),
        ("names", 12, 16),
        ("network", 8, 10),
    ] {
        let each = grown(component) as f64 / f64::from(connections);
        assert!(
            (f64::from(least)..=f64::from(most)).contains(&each),
            "{component}: {each} bytes for each connection\n{before:#?}\n{after:#?}"
        );
    }
    // The binary is shared with the clients' process, whose pages vary.
    let growth = grown("total") - grown("binary");
    let unaccounted = grown("unaccounted");
    assert!(
        growth > 2_500_000 && unaccounted.abs() * 20 < growth,
        "{unaccounted} of {growth}\n{before:#?}\n{after:#?}"
    );
    for bench in [first, further] {
        bench.ask_to_end();
        bench.end_within(PATIENCE);
    }
}
