//! Clients that vanish without a close: their host is off or unreachable, or their process is
//! stopped. The node releases them within the ping timeout, for every protocol.

use end_to_end::bench::Bench;
use end_to_end::metrics::{Metrics, Scrape};
use end_to_end::network::{Cable, Host};
use end_to_end::server::{Place, Server};

/// Clients of each protocol.
const CLIENTS: u64 = 20;

const QUICK: &str = "\
[listen]
open = true
[websocket]
ping_interval = \"2s\"
[http]
heartbeat_interval = \"1s\"
keep_alive_timeout = \"2s\"
wait_max = \"2s\"
";

fn server_on(host: &Host, listen: &str) -> (Place, Server) {
    let mut place = Place::new(listen);
    place.configure(QUICK);
    let process = place.launch_by(&host.words());
    let server = place.started(process);
    (place, server)
}

/// Subscribers on a host, all of them live.
fn subscribers(host: &Host, server: &Server, transport: &str) -> Bench {
    let clients = CLIENTS.to_string();
    let url = server.ws_url("/crore");
    let mut bench = Bench::start_by(
        &host.words(),
        &[
            "sub",
            "--transport",
            transport,
            "--url",
            &url,
            "--clients",
            &clients,
            "--topics",
            "t/{1..20}",
            "--threads",
            "1",
        ],
    );
    wait_until_live(&mut bench);
    bench
}

fn wait_until_live(bench: &mut Bench) {
    bench.wait_for("live clients", |figures| figures["clients_live"].as_u64() == Some(CLIENTS));
}

/// Publishes more than sockets buffer, so that messages wait at the node for each client that does
/// not read.
fn publisher(host: &Host, server: &Server) -> Bench {
    let url = server.ws_url("/crore");
    let mut bench = Bench::start_by(
        &host.words(),
        &[
            "pub",
            "--url",
            &url,
            "--topics",
            "t/{1..20}",
            "--rate",
            "2000",
            "--size",
            "2048",
            "--threads",
            "1",
        ],
    );
    bench.wait_for_sum("messages", "sent", 100);
    bench
}

fn ended(scrape: &Scrape, reason: &str) -> u64 {
    scrape.number(&format!("crore_connections_ended_by_node_total{{reason=\"{reason}\"}}"))
}

#[test]
fn a_host_that_vanishes_is_noticed() {
    let cable = Cable::new();
    let (_place, server) = server_on(&cable.near, "10.77.0.1:0");
    let mut metrics = Metrics::on(&cable.near, &server);
    let _clients = ["ws", "sse", "http"].map(|by| subscribers(&cable.far, &server, by));
    assert_eq!(metrics.scrape().number("crore_connections"), 3 * CLIENTS);
    cable.pull();
    let scrape = metrics.wait_for("crore_connections", |count| count == 0);
    assert_eq!(scrape.number("crore_subscriptions"), 0);
    assert_eq!(ended(&scrape, "ping_timeout"), CLIENTS);
    assert_eq!(ended(&scrape, "unacknowledged"), CLIENTS);
}

/// The host vanishes while messages are in flight to it, more than sockets buffer.
#[test]
fn a_host_that_vanishes_under_load_is_noticed() {
    let cable = Cable::new();
    let (_place, server) = server_on(&cable.near, "10.77.0.1:0");
    let mut metrics = Metrics::on(&cable.near, &server);
    let _clients = ["ws", "sse"].map(|by| subscribers(&cable.far, &server, by));
    let publisher = publisher(&cable.near, &server);
    let publishers = metrics.scrape().number("crore_connections") - 2 * CLIENTS;
    assert!(publishers > 0);
    cable.pull();
    let scrape = metrics.wait_for("crore_connections", |count| count == publishers);
    assert_eq!(scrape.number("crore_subscriptions"), 0);
    assert_eq!(ended(&scrape, "ping_timeout"), CLIENTS);
    assert_eq!(ended(&scrape, "unacknowledged"), CLIENTS);
    metrics.wait_for("crore_pinned_bytes", |bytes| bytes == 0);
    publisher.ask_to_end();
    let total = publisher.end_within(end_to_end::PATIENCE);
    assert_eq!(total.number(&["disconnects"]), 0, "{:?}", total.figures);
}

/// Their kernels still acknowledge: a WebSocket client answers no ping, an event stream accepts no
/// more messages. When the processes continue, they reconnect.
#[test]
fn stopped_processes_are_noticed_and_reconnect() {
    let host = Host::new();
    let (_place, server) = server_on(&host, "127.0.0.1:0");
    let mut metrics = Metrics::on(&host, &server);
    let mut clients = ["ws", "sse"].map(|by| subscribers(&host, &server, by));
    let _publisher = publisher(&host, &server);
    let publishers = metrics.scrape().number("crore_connections") - 2 * CLIENTS;
    clients.iter().for_each(|bench| bench.signal("STOP"));
    let scrape = metrics.wait_for("crore_connections", |count| count == publishers);
    assert_eq!(scrape.number("crore_subscriptions"), 0);
    assert_eq!(ended(&scrape, "ping_timeout"), CLIENTS);
    assert_eq!(ended(&scrape, "unacknowledged"), CLIENTS);
    clients.iter().for_each(|bench| bench.signal("CONT"));
    clients.iter_mut().for_each(wait_until_live);
    metrics.wait_for("crore_connections", |count| count == publishers + 2 * CLIENTS);
}
