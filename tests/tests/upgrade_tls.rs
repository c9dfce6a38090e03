//! Live upgrades of nodes with TLS: established connections continue with their keys, handshakes
//! end before or begin after.

use std::net::TcpStream;
use std::time::Duration;

use end_to_end::PATIENCE;
use end_to_end::bench::Bench;
use end_to_end::curl::{curl, publish};
use end_to_end::event_stream::EventStream;
use end_to_end::metrics::Metrics;
use end_to_end::native::{Frame, Native};
use end_to_end::process::{Process, assert_success};
use end_to_end::proxy::Proxy;
use end_to_end::raw::Raw;
use end_to_end::server::{Place, Server};
use end_to_end::tools::crore;
use end_to_end::tunnel::tunnel;

/// Added before the table of TLS, which comes last.
const THREADS: &str = "[node]\nio_threads = 2\n";

/// A node with a certificate for localhost, and the certificate's path.
struct Secure {
    server: Server,
    place: Place,
    certificate: String,
}

impl Secure {
    fn start() -> Secure {
        Secure::launched(Place::launch)
    }

    fn launched(launch: impl FnOnce(&Place) -> Process) -> Secure {
        let mut place = Place::new("127.0.0.1:0");
        let certificate = configure(&place, THREADS);
        let process = launch(&place);
        Secure { server: place.started(process), place, certificate }
    }

    /// A port without TLS that leads to the one with it.
    fn tunnel(&self, flags: &[&str]) -> String {
        tunnel(&self.server.tls_clients, &self.certificate, flags)
    }

    /// A new client's request over TLS to a port of this machine.
    fn ask_at(&self, address: &str) {
        let port = address.rsplit(':').next().expect("a port");
        let url = format!("https://localhost:{port}/topics/news");
        curl(&["--cacert", &self.certificate, &url]).expect(200);
    }
}

/// Creates a certificate and a configuration with it; returns the certificate's path.
fn configure(place: &Place, before: &str) -> String {
    let (certificate, key) = (place.path("cert.pem"), place.path("key.pem"));
    let mut make = crore();
    make.args(["tls", "self-signed", "--force", "--name", "localhost"]);
    make.args(["--name", "127.0.0.1", "--out"]);
    make.arg(certificate.parent().expect("a folder"));
    assert_success(&mut make);
    place.configure(&format!(
        "{before}[tls]\nlisten = \"127.0.0.1:0\"\ncertificate_file = {certificate:?}\nkey_file = {key:?}\n"
    ));
    certificate.to_str().expect("text").to_owned()
}

#[test]
fn tls_connections_stay() {
    let mut secure = Secure::start();
    let (old, new) = (secure.tunnel(&["-tls1_2"]), secure.tunnel(&["-tls1_3"]));
    let news = secure.server.url("/topics/news");
    let mut natives: Vec<Native> = [&old, &new, &secure.server.clients]
        .into_iter()
        .map(|address| Native::connect(address, None).0)
        .collect();
    for native in &mut natives {
        native.subscribe_one(1, "news");
    }
    let mut events = EventStream::open(&format!("http://{new}/topics/news"), 1, None);
    // Its messages fill its socket, in the middle of a record.
    let mut lagging = Native::connect(&new, None).0;
    lagging.subscribe_one(3, "slow");
    publish_bulk(&secure.server.clients);
    // A publisher with a half-received frame.
    let mut half = Raw::web_socket(&new, "/crore", "crore.v1");
    half.send_frame(2, &[0x01, 0x00, 1, 0]);
    assert_eq!(half.read_frame().1[0], 0x81);
    let frame = b"\x82\x8e\0\0\0\0\x04\x00\x05\x04newshalves";
    half.send(&frame[..12]);
    // An accepted connection without input.
    let silent = TcpStream::connect(&secure.server.tls_clients).expect("the server accepts");
    let mut metrics = Metrics::of(&secure.server.operators);
    metrics.wait_for("crore_connections", |count| count == 7);
    drop(metrics);

    let mut successor = secure.server.process.upgrade();
    for round in 0..2 {
        let text = format!("after upgrade {round}");
        publish(&news, &text);
        for native in &mut natives {
            assert_eq!(native.next_payload(), text);
        }
        assert_eq!(events.next_message().data, text);
        let mut metrics = Metrics::of(&secure.server.operators);
        // Clients of the previous round may still be closing.
        for (version, wanted) in [("1.2", 1), ("1.3", 4)] {
            let name = format!("crore_tls_connections{{version=\"{version}\"}}");
            metrics.wait_for(&name, |count| count == wanted);
        }
        // New clients.
        secure.ask_at(&secure.server.tls_clients);
        if round == 0 {
            successor = successor.upgrade(&mut secure.server.process);
        }
    }
    half.send(&frame[12..]);
    for native in &mut natives {
        assert_eq!(native.next_payload(), "halves");
    }
    assert_eq!(half.read_frame().1[..3], [0x89, 0x00, 0x05]);
    for number in 0..300 {
        assert_eq!(lagging.next_payload()[..5], format!("{number:05}"));
    }
    // Both directions work.
    for (number, native) in (1..).zip(&mut natives) {
        native.publish(number, "other", "said");
        assert_eq!(native.next_frame(), Frame::Published(number));
    }
    let early = Proxy::over(silent);
    secure.ask_at(&early.address);
    let scrape = Metrics::of(&secure.server.operators).scrape();
    assert_eq!(scrape.number("crore_tls_faults_total"), 0);
}

/// Publishes 300 messages of 16 KB. Quickly: a client that does not read answers no pings.
fn publish_bulk(address: &str) {
    let bulk = "x".repeat(16_000);
    let (mut publisher, _) = Native::connect(address, None);
    for number in 0..300 {
        publisher.publish(number + 1, "slow", &format!("{number:05}{bulk}"));
        assert_eq!(publisher.next_frame(), Frame::Published(number + 1));
    }
}

/// An unfinished handshake is not waited for: its connection is closed, and the client may try
/// again.
#[test]
fn a_handshake_that_hangs_ends() {
    let mut secure = Secure::start();
    let mut hanging = Raw::connect(&secure.server.tls_clients);
    hanging.send(&[22, 3, 1, 1, 0, 1]);
    let tunnel = secure.tunnel(&[]);
    let mut native = Native::connect(&tunnel, None).0;
    native.subscribe_one(1, "news");
    let _successor = secure.server.process.upgrade();
    // At once, or after the handshake timeout if the old process had not read it.
    assert!(hanging.closes_within(PATIENCE));
    publish(&secure.server.url("/topics/news"), "after");
    assert_eq!(native.next_payload(), "after");
}

/// At whatever point the new process dies before the commit, the old one continues with TLS, too.
#[test]
fn tls_continues_if_the_new_process_dies() {
    for place_of_death in [4, 7, 9, 10, 12] {
        let launch = |place: &Place| place.launch_with_failing_upgrade(place_of_death);
        let mut secure = Secure::launched(launch);
        let url = secure.server.url("/topics/news");
        let tunnel = secure.tunnel(&[]);
        let mut native = Native::connect(&tunnel, None).0;
        native.subscribe_one(1, "news");
        let silent = TcpStream::connect(&secure.server.tls_clients).expect("the server accepts");
        publish(&url, "before");
        secure.server.process.upgrade_in_vain("");
        publish(&url, "after");
        for text in ["before", "after"] {
            assert_eq!(native.next_payload(), text, "{place_of_death}");
        }
        native.publish(1, "other", "said");
        assert_eq!(native.next_frame(), Frame::Published(1));
        let early = Proxy::over(silent);
        secure.ask_at(&early.address);
        secure.ask_at(&secure.server.tls_clients);
    }
}

/// The new process presents the present content of the files.
#[test]
fn certificates_are_reloaded() {
    let mut secure = Secure::start();
    let before = secure.certificate.clone() + ".before";
    std::fs::copy(&secure.certificate, &before).expect("our folder");
    let url = format!("https://{}/topics/news", secure.server.tls_clients);
    configure(&secure.place, THREADS);
    curl(&["--cacert", &before, &url]).expect(200);
    let _successor = secure.server.process.upgrade();
    curl(&["--cacert", &secure.certificate, &url]).expect(200);
}

/// A node whose listeners all have TLS.
#[test]
fn a_node_with_only_tls_is_upgraded() {
    let place = Place::new("127.0.0.1:0");
    let certificate = configure(&place, "[listen]\nclients = []\n");
    let mut command = crore();
    command.arg("serve").arg("--config").arg(place.path("crore.toml"));
    command.args(["--admin-listen", "127.0.0.1:0"]);
    let mut node = Process::start(&mut command);
    let address = node.wait_for("the address of clients", |line| {
        let url = line.strip_prefix("listening clients with TLS https://")?;
        Some(url.trim_end_matches('/').to_owned())
    });
    node.wait_for("readiness", |line| (line == "ready").then_some(()));
    let tunnel = tunnel(&address, &certificate, &[]);
    let mut native = Native::connect(&tunnel, None).0;
    native.subscribe_one(1, "news");
    let _successor = node.upgrade();
    publish(&format!("http://{tunnel}/topics/news"), "after");
    assert_eq!(native.next_payload(), "after");
}

/// Every message, once and in order, to clients with TLS and without, over several upgrades while
/// publishers run.
#[test]
fn an_audit_finds_no_loss() {
    const END: Duration = Duration::from_secs(60);
    let mut secure = Secure::start();
    let port = secure.server.tls_clients.rsplit(':').next().expect("a port");
    let (tls, plain) = (format!("wss://localhost:{port}"), secure.server.ws_url(""));
    let ledger = secure.place.path("ledger");
    let ledger = ledger.to_str().expect("text");
    let subscribe = |how: &[&str]| {
        let common = ["sub", "--topics", "q/{01..40}", "--clients", "40", "--verify"];
        let more = ["--threads", "1", "--ledger", ledger];
        let mut bench = Bench::start(&[&common[..], &more, how].concat());
        bench.wait_for("live clients", |figures| figures["clients_live"] == 40);
        bench
    };
    let by_tls = ["--url", &tls, "--ca", &secure.certificate];
    let subscribers = [
        subscribe(&by_tls),
        subscribe(&[&by_tls[..], &["--tls12"]].concat()),
        subscribe(&["--url", &plain]),
    ];
    let publisher = [
        "pub",
        "--topics",
        "q/{01..40}",
        "--rate",
        "400",
        "--size",
        "256",
        "--threads",
        "1",
        "--connections",
        "4",
        "--exactly-once",
        "--ledger",
        ledger,
    ];
    let mut publisher = Bench::start(&[&publisher[..], &by_tls].concat());
    publisher.wait_for_sum("acknowledgements", "received", 40);
    let mut successor = secure.server.process.upgrade();
    for _ in 0..2 {
        publisher.wait_for_sum("acknowledgements", "received", 40);
        successor = successor.upgrade(&mut secure.server.process);
    }
    // Each topic has a message after the last upgrade.
    publisher.wait_for_sum("acknowledgements", "received", 400);
    publisher.ask_to_end();
    let sent = publisher.end_within(END);
    assert_eq!(sent.code, Some(143), "{}", sent.figures);
    assert_eq!(sent.number(&["disconnects"]), 0, "{}", sent.figures);
    for subscriber in subscribers {
        let received = subscriber.end_within(END);
        assert_eq!(received.code, Some(0), "{}", received.figures);
        assert_eq!(received.number(&["disconnects"]), 0);
        assert_eq!(received.number(&["audit", "complete"]), 40);
        let acknowledged = received.number(&["audit", "ledger_acknowledged"]);
        assert_eq!(acknowledged, sent.number(&["received"]));
    }
    drop(successor);
}
