//! The engine over real sockets against a small node: figures are right, and planted faults are
//! found.

mod server;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bench::BenchCommand;
use bench::engine::{
    Common, Echoes, EchoesConfig, MqttVersion, Publishers, PublishersConfig, Route, Subscribers,
    SubscribersConfig, Transport,
};
use bench::verify::Faults;
use clap::Parser;
use server::{Plant, Server, wait};

/// Publishes 5 messages on each of 8 topics, of which each of 4 clients has 2.
fn run(transport: Transport, per_client: u32, plant: Plant) -> Faults {
    let server = Server::start(plant);
    let mut config = SubscribersConfig::new(
        server.common(),
        "t/{1..8}".parse().unwrap(),
        u64::from(8 / per_client),
    );
    config.transport = transport;
    config.topics.per_client = per_client;
    config.sample = 2;
    let clients = config.clients;
    let mut subscribers = Subscribers::start(config).unwrap();
    wait(&mut subscribers, |total| total.connections == clients as i64);
    if transport == Transport::Ws {
        wait(&mut subscribers, |total| total.clients_live == clients as i64);
    }
    // A poll counts as open before it has arrived, and only then messages may flow.
    server.wait_ready(clients as usize);
    let mut load = PublishersConfig::new(server.common(), "t/{1..8}".parse().unwrap(), 400.0);
    load.connections = 2;
    load.load.count = 40;
    let mut publishers = Publishers::start(load).unwrap();
    wait(&mut publishers, |total| total.received == 40);
    let published = publishers.stop().total;
    assert_eq!((published.sent, published.inflight, published.unacknowledged), (40, 0, 0));
    assert_eq!(published.latency.count(), 40);
    let wanted = if plant == Plant::Lose { 39 } else { 40 };
    wait(&mut subscribers, |total| total.received >= wanted);
    let snapshot = subscribers.snapshot();
    assert_eq!(snapshot.total.clients_with_data, clients);
    let summary = subscribers.stop();
    assert_eq!(summary.samples.len(), 2);
    assert_eq!(summary.total.connects, clients);
    assert_eq!(summary.total.connect_time.count(), clients);
    assert_eq!(summary.total.foreign, 0);
    assert!(summary.total.latency.count() >= wanted);
    assert_eq!(summary.total.clients_faulty, u64::from(!summary.total.is_clean()));
    summary.total.faults
}

#[test]
fn native_subscribers() {
    assert!(run(Transport::Ws, 2, Plant::Nothing).is_clean());
    let lost = run(Transport::Ws, 2, Plant::Lose);
    assert_eq!((lost.lost, lost.proof_failed), (1, 1));
    assert_eq!(run(Transport::Ws, 2, Plant::Repeat).repeated, 1);
}

#[test]
fn many_topics_of_one_client() {
    let server = Server::start(Plant::Nothing);
    let mut config = SubscribersConfig::new(server.common(), "m/{1..2000}".parse().unwrap(), 1);
    config.topics.per_client = 2_000;
    let mut subscribers = Subscribers::start(config).unwrap();
    wait(&mut subscribers, |total| total.clients_live == 1);
    let mut load = PublishersConfig::new(server.common(), "m/{1..2000}".parse().unwrap(), 0.0);
    load.load.count = 300;
    let mut publishers = Publishers::start(load).unwrap();
    wait(&mut publishers, |total| total.received == 300);
    wait(&mut subscribers, |total| total.received == 300);
    assert!(subscribers.stop().total.is_clean());
}

#[test]
fn event_stream_subscribers() {
    assert!(run(Transport::Sse, 2, Plant::Nothing).is_clean());
    assert_eq!(run(Transport::Sse, 2, Plant::Lose).lost, 1);
    assert_eq!(run(Transport::Sse, 2, Plant::Repeat).repeated, 1);
}

#[test]
fn long_poll_subscribers() {
    assert!(run(Transport::Http, 1, Plant::Nothing).is_clean());
    assert_eq!(run(Transport::Http, 1, Plant::Lose).lost, 1);
}

/// Publishes 40 messages on 8 topics over MQTT, of which each of 4 clients has 2. Returns the
/// faults, and the number of messages that subscribers acknowledged.
fn run_mqtt(version: MqttVersion, qos: u8, is_early: bool, plant: Plant) -> (Faults, usize) {
    let server = Server::start(plant);
    let common = server.common_of_mqtt();
    let mut config = SubscribersConfig::new(common, "t/{1..8}".parse().unwrap(), 4);
    (config.transport, config.qos) = (Transport::Mqtt, qos);
    config.mqtt.mqtt_version = version;
    config.topics.per_client = 2;
    config.is_hello_early = is_early;
    let mut subscribers = Subscribers::start(config).unwrap();
    wait(&mut subscribers, |total| total.connections == 4 && total.clients_live == 4);
    let common = server.common_of_mqtt();
    let mut load = PublishersConfig::new(common, "t/{1..8}".parse().unwrap(), 0.0);
    load.transport = Transport::Mqtt;
    load.mqtt.mqtt_version = version;
    load.connections = 2;
    load.load.count = 40;
    let mut publishers = Publishers::start(load).unwrap();
    wait(&mut publishers, |total| total.received == 40);
    let published = publishers.stop().total;
    assert_eq!((published.sent, published.inflight, published.unacknowledged), (40, 0, 0));
    let wanted = if plant == Plant::Lose { 39 } else { 40 };
    wait(&mut subscribers, |total| total.received >= wanted);
    let total = subscribers.stop().total;
    assert_eq!((total.foreign, total.clients_with_data), (0, 4));
    assert!(total.latency.count() >= wanted);
    let since = std::time::Instant::now();
    let acknowledged = || server.mqtt.acknowledged.load(Ordering::Acquire);
    while qos == 1 && acknowledged() < wanted as usize && since.elapsed() < server::PATIENCE {
        thread::sleep(Duration::from_millis(2));
    }
    (total.faults, acknowledged())
}

#[test]
fn mqtt_subscribers() {
    for version in [MqttVersion::Three, MqttVersion::Five] {
        for (qos, is_early) in [(0, true), (1, true), (1, false)] {
            let (faults, acknowledged) = run_mqtt(version, qos, is_early, Plant::Nothing);
            assert!(faults.is_clean(), "{version:?}, QoS {qos}: {faults:?}");
            assert_eq!(acknowledged, if qos == 1 { 40 } else { 0 }, "{version:?}");
        }
    }
    assert_eq!(run_mqtt(MqttVersion::Five, 1, true, Plant::Lose).0.lost, 1);
    assert_eq!(run_mqtt(MqttVersion::Five, 0, true, Plant::Repeat).0.repeated, 1);
}

#[test]
fn idle_clients_of_mqtt_ping() {
    let server = Server::start(Plant::Nothing);
    let common = server.common_of_mqtt();
    let mut config = SubscribersConfig::new(common, "t/{1..6}".parse().unwrap(), 6);
    config.transport = Transport::Mqtt;
    config.mqtt.keep_alive = Duration::from_secs(1);
    let mut subscribers = Subscribers::start(config).unwrap();
    wait(&mut subscribers, |total| total.clients_live == 6);
    wait(&mut subscribers, |_| server.mqtt.pings.load(Ordering::Acquire) >= 12);
    assert_eq!(subscribers.stop().total.disconnects, 0);
}

#[test]
fn addresses_and_protocols_must_agree() {
    let topics = || "t".parse().unwrap();
    let common = |url: &str| Common::new(&[url.to_owned()]).unwrap();
    let mut config = SubscribersConfig::new(common("ws://127.0.0.1:1"), topics(), 1);
    config.transport = Transport::Mqtt;
    let refused = Subscribers::start(config).unwrap_err().to_string();
    assert!(refused.contains("--url mqtt://127.0.0.1:1"), "{refused}");
    let config = PublishersConfig::new(common("mqtt://127.0.0.1:1"), topics(), 1.0);
    let refused = Publishers::start(config).unwrap_err().to_string();
    assert!(refused.contains("--transport mqtt"), "{refused}");
}

#[test]
fn disorder_is_found() {
    // One topic, so that the swapped records belong to one stream.
    let server = Server::start(Plant::Swap);
    let mut config = SubscribersConfig::new(server.common(), "t".parse().unwrap(), 1);
    config.transport = Transport::Sse;
    let mut subscribers = Subscribers::start(config).unwrap();
    wait(&mut subscribers, |total| total.connections == 1);
    let mut load = PublishersConfig::new(server.common(), "t".parse().unwrap(), 1_000.0);
    load.load.count = 20;
    let publishers = Publishers::start(load).unwrap();
    wait(&mut subscribers, |total| total.received == 20);
    publishers.stop();
    let faults = subscribers.stop().total.faults;
    assert_eq!((faults.out_of_order, faults.lost, faults.repeated), (1, 0, 0));
}

#[test]
fn echo_clients_come_and_go() {
    let server = Server::start(Plant::Nothing);
    let mut common = server.common();
    common.routes[0].target = "/echo".to_owned();
    let mut handle = Echoes::start(EchoesConfig {
        common,
        clients: 4,
        clients_max: 10,
        every: Duration::from_millis(40),
        size: 64,
    })
    .unwrap();
    wait(&mut handle, |total| total.connections == 4 && total.received > 10);
    handle.set_clients(9);
    wait(&mut handle, |total| total.connections == 9 && total.clients_with_data == 9);
    handle.set_clients(2);
    wait(&mut handle, |total| total.connections == 2);
    let received = handle.total().received;
    wait(&mut handle, |total| total.received > received + 5);
    let total = handle.stop().total;
    assert!(total.is_clean(), "{:?}", total.faults);
    assert!(total.latency.count() > 10);
}

#[test]
fn echo_clients_go_where_they_are_told() {
    let (first, second) = (Server::start(Plant::Nothing), Server::start(Plant::Nothing));
    let mut handle = Echoes::start(EchoesConfig {
        common: Common::with_target(&[first.url()], "/echo").unwrap(),
        clients: 3,
        clients_max: 20,
        every: Duration::from_millis(40),
        size: 64,
    })
    .unwrap();
    let other = Route::resolve(&second.url(), "/echo").unwrap();
    assert_eq!(handle.add_clients(4, &[other]), Ok(7));
    wait(&mut handle, |total| total.connections == 7 && total.clients_with_data == 7);
    assert_eq!((first.ready.load(Ordering::Acquire), second.ready.load(Ordering::Acquire)), (3, 4));
    // Replaced at once, by others: those of the second server really go.
    handle.set_clients(3);
    assert_eq!(handle.add_clients(4, &[]), Ok(7));
    wait(&mut handle, |total| total.connects == 11 && total.connections == 7);
    assert_eq!((first.ready.load(Ordering::Acquire), second.ready.load(Ordering::Acquire)), (7, 4));
    assert_eq!(handle.add_clients(100, &[]), Ok(20), "as many as planned");
    handle.set_clients(0);
    wait(&mut handle, |total| total.connections == 0);
    let total = handle.stop().total;
    assert!(total.is_clean(), "{:?}", total.faults);
}

#[test]
fn a_server_that_comes_later_is_found() {
    // A port without a listener.
    let common = Common::new(&["ws://127.0.0.1:1".to_owned()]).unwrap();
    let config = SubscribersConfig::new(common, "t".parse().unwrap(), 1);
    let mut subscribers = Subscribers::start(config).unwrap();
    wait(&mut subscribers, |total| total.connects_failed > 0);
    assert!(subscribers.stop().total.trouble.is_some());
}

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: BenchCommand,
}

/// The whole command, until a count or a stop, with its exit code.
#[test]
fn commands_end_with_their_exit_code() {
    fn exit_of(line: &str, stop: &AtomicBool) -> ExitCode {
        let words = std::iter::once("bench").chain(line.split_ascii_whitespace());
        bench::run(Line::try_parse_from(words).unwrap().command, stop).unwrap()
    }
    let subscribe = |url: &str, count: u64, stop: &Arc<AtomicBool>| {
        let line = format!(
            "sub --url {url} --clients 3 --topics c/{{1..3}} --count {count} --interval 100ms --json"
        );
        let stop = stop.clone();
        thread::spawn(move || exit_of(&line, &stop))
    };
    let stop = Arc::new(AtomicBool::new(false));
    for (plant, count, wanted) in
        [(Plant::Nothing, 60, ExitCode::SUCCESS), (Plant::Lose, 59, ExitCode::from(1))]
    {
        let server = Server::start(plant);
        let url = server.url();
        let subscribing = subscribe(&url, count, &stop);
        server.wait_ready(3);
        let line = format!(
            "pub --url {url} --topics c/{{1..3}} --rate 500 --count 60 --size 100 --interval 100ms"
        );
        assert_eq!(exit_of(&line, &AtomicBool::new(false)), ExitCode::SUCCESS);
        assert_eq!(subscribing.join().unwrap(), wanted, "{plant:?}");
    }
    let server = Server::start(Plant::Nothing);
    let subscribing = subscribe(&server.url(), 0, &stop);
    server.wait_ready(3);
    stop.store(true, Ordering::Release);
    assert_eq!(subscribing.join().unwrap(), ExitCode::SUCCESS);
}
