//! A node on a transport that is not the kernel's: the same start, without a listening socket.

mod memory;

use broker::settings::{LagPolicy, LogSettings, RuleSettings, Settings};
use memory::Memory;
use node::admission::AdmissionOptions;
use node::{Node, NodeOptions};
use std::path::Path;
use std::time::{Duration, Instant};

const THREADS: u16 = 2;

fn settings() -> Settings {
    Settings {
        edges_count: THREADS,
        homes_count: THREADS,
        logs: vec![LogSettings {
            name: "memory".into(),
            partitions_count: 8,
            epoch: 7,
            log_bytes_max: 16 << 20,
            age_max_ms: 180_000,
            segment_bytes: 1 << 20,
            retained_bytes_max: 1 << 20,
            ..LogSettings::default()
        }],
        rules: vec![RuleSettings {
            message_bytes_max: 1 << 20,
            when_lagging: LagPolicy::Replay,
            ..RuleSettings::default()
        }],
        node_name: "test".into(),
        ..Settings::default()
    }
}

fn start(transport: Memory) -> Node {
    let options = NodeOptions {
        settings: settings(),
        listen: vec!["127.0.0.1:8800".parse().unwrap()],
        transport,
        tls: None,
        proxied: None,
        admission: AdmissionOptions::default(),
        connections_per_user_max: None,
        connect_rate_max: None,
        hash_seed: (1, 2),
        data_dir: None,
        engine: None,
        ready_without_engine: false,
        authenticator: None,
        journal: None,
        inheritance: None,
    };
    node::start(options).unwrap()
}

/// Whether this process has a TCP socket, by the inodes of its descriptors.
fn has_tcp_socket() -> bool {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let read = |table: &&str| std::fs::read_to_string(table).unwrap_or_default();
    let lines: Vec<String> = tables.iter().map(read).collect();
    let inodes = lines.iter().flat_map(|table| table.lines().skip(1));
    let inodes = inodes.filter_map(|line| line.split_whitespace().nth(9));
    let inodes: Vec<String> = inodes.map(|inode| format!("socket:[{inode}]")).collect();
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let mut targets = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.any(|target| inodes.iter().any(|inode| Path::new(inode) == target))
}

#[test]
fn a_node_serves_clients_without_a_socket() {
    let transport = Memory::new(THREADS.into());
    let ports = transport.ports.clone();
    let node = start(transport);
    assert_eq!(node.addresses(), ["127.0.0.1:8800".parse().unwrap()]);
    assert_eq!(node.notices(), ["clients connect in memory"]);
    assert_eq!(node.connections_max(), 200);
    assert!(!has_tcp_socket());

    // A subscriber on each thread, of topics whose homes are on both.
    let subscribe = |port: &std::sync::Arc<memory::Port>| {
        let client = port.connect();
        client.send(b"GET /events?topic=a/%23 HTTP/1.1\r\nHost: x\r\n\r\n");
        client.wait_for("text/event-stream");
        client
    };
    let subscribers: Vec<_> = ports.iter().map(subscribe).collect();
    let publisher = ports[0].connect();
    for number in 0..20 {
        let body = format!("message {number}");
        let length = body.len();
        publisher.send(
            format!("POST /topics/a/{number} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{body}")
                .as_bytes(),
        );
    }
    for subscriber in &subscribers {
        for number in 0..20 {
            subscriber.wait_for(&format!("\"data\":\"message {number}\""));
        }
    }
    let statistics = node.statistics();
    assert_eq!((statistics.edge.connections, statistics.sockets.accepted), (3, 3));
    assert_eq!(statistics.silent_threads, 0);

    drop((publisher, subscribers));
    let began = Instant::now();
    while node.statistics().sockets.closed < 3 {
        assert!(began.elapsed() < Duration::from_secs(60), "connections are closed");
    }
    node.stop(Duration::from_secs(60)).unwrap();
}
