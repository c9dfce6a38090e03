//! The drain: the clients' notices, the accepted publications, and the duration, for all behaviour
//! of clients.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use end_to_end::curl::{curl, publish};
use end_to_end::event_stream::EventStream;
use end_to_end::hanging_disk::HangingDisk;
use end_to_end::metrics::Metrics;
use end_to_end::native::{Frame, Item, Native};
use end_to_end::process::Process;
use end_to_end::raw::Raw;
use end_to_end::server::{Place, Server};
use end_to_end::tools::crore;

const GOING_AWAY: u16 = 3001;
/// The time limit for threads and disks to stop after the clients have left.
const STOP_WITHIN: Duration = Duration::from_secs(30);

fn news() -> Item<'static> {
    Item { subscription: 1, filter: "news", fail_on_gap: false }
}

fn subscribed(server: &Server) -> Native {
    let (mut client, _) = Native::connect(&server.clients, None);
    client.subscribe(&[news()]);
    assert!(matches!(client.next_frame(), Frame::Subscribed { .. }));
    client
}

fn drain_command(server: &Server, arguments: &[&str]) -> Process {
    let mut command = crore();
    command.args(["drain", "--url", &server.operators_url("")]);
    Process::start(command.args(arguments))
}

fn on_disk(place: &Place, window: &str, further: &str) -> String {
    format!(
        "[node]\ndata_dir = \"{}\"\ndrain_window = \"{window}\"\n{further}\n\
         [[log]]\nname = \"kept\"\ndurability = \"disk\"\npartitions_count = 4\nage_max = \"1d\"\n",
        place.path("data").display()
    )
}

/// The command drains the node, reports the progress, and waits for the end.
#[test]
fn an_operator_drains_a_node() {
    let server = Server::with_configuration("[node]\ndrain_window = \"1h\"\n");
    let mut client = subscribed(&server);
    let events = EventStream::open(&server.url("/topics/news"), 1, None);
    let asked = curl(&[&server.operators_url("/api/v1/drain")]).expect(200).json();
    assert_eq!(asked["state"], "serving");

    let drain = drain_command(&server, &["--window", "10s"]);
    assert!(matches!(client.next_frame(), Frame::GoAway { .. }));
    assert_eq!(client.next_frame(), Frame::Closed(GOING_AWAY));
    assert!(events.led_away_for() <= Duration::from_secs(10));
    let ended = drain.end();
    ended.assert_success();
    let last = ended.lines.last().expect("lines");
    assert_eq!(last, "stopped; 2 clients were asked to reconnect, 0 connections were reset");
    server.end().assert_success();
}

/// Readiness fails first, and nothing else changes during the delay.
#[test]
fn readiness_fails_first() {
    let configuration = "[node]\ndrain_delay = \"1h\"\ndrain_window = \"1s\"\n";
    let server = Server::with_configuration(configuration);
    curl(&[&server.operators_url("/readyz")]).expect(200);
    drain_command(&server, &["--no-wait"]).end().assert_success();
    curl(&[&server.operators_url("/readyz")]).expect(503);
    let progress = curl(&[&server.operators_url("/api/v1/drain")]).expect(200).json();
    assert_eq!(progress["state"], "waiting", "{progress}");
    assert_eq!(progress["window_ms"], 1_000, "{progress}");
    // A client that connects during the delay is served, also with a stream.
    publish(&server.url("/topics/news"), "still here");
    subscribed(&server);
    let metrics = Metrics::of(&server.operators).scrape();
    assert_eq!(metrics.number("crore_draining"), 1);
    // The first signal repeats the present request; the second one ends the node.
    server.process.signal("TERM");
    server.process.signal("INT");
    let ended = server.end();
    assert!(!ended.status.success(), "{ended:?}");
}

#[test]
fn invalid_requests_do_not_drain() {
    let server = Server::start();
    let url = server.operators_url("/api/v1/drain");
    let json = ["-H", "Content-Type: application/json"];
    curl(&["-X", "POST", &url]).expect_problem(415, "unsupported_media_type");
    for body in ["{\"window\":\"2d\"}", "{\"window\":5}", "{\"now\":true}", "["] {
        curl(&[json[0], json[1], "-d", body, &url]).expect_problem(400, "bad_request");
    }
    let refused = drain_command(&server, &["--window", "soon"]).end();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    curl(&[&server.operators_url("/readyz")]).expect(200);
}

/// Publishes until the node stops answering; returns the number of acknowledged publications.
fn publish_to_the_end(address: String, topic: String) -> u64 {
    let mut acknowledged = 0;
    while TcpStream::connect(&address).is_ok() {
        let url = format!("http://{address}/topics/{topic}");
        // A few of them on one connection, as long as the node keeps it open.
        let data: Vec<String> = (0..20).map(|_| url.clone()).collect();
        let mut arguments = vec!["-d", "x", "-w", "\n"];
        arguments.extend(data.iter().map(String::as_str));
        acknowledged += Process::start(
            std::process::Command::new("curl").args(["--silent", "--show-error"]).args(arguments),
        )
        .end()
        .lines
        .iter()
        .filter(|line| line.contains("\"offset\":"))
        .count() as u64;
    }
    acknowledged
}

/// Publishers continue while a signal stops the node, with a log on disk: acknowledged messages are
/// in the log after a restart.
fn all_acknowledged_is_kept(window: &str, end: impl Fn(&Server, &mut Metrics<'_>)) {
    let mut place = Place::new("127.0.0.1:0");
    place.configure(&on_disk(&place, window, "io_threads = 2"));
    let server = place.start();
    let watcher = subscribed(&server);
    let _deaf = deaf(&server);
    let mut metrics = Metrics::of(&server.operators);
    let appended = "crore_messages_appended_total";
    let before = metrics.scrape().number(appended);
    let publishers: Vec<_> = (0..3)
        .map(|number| {
            let address = server.clients.clone();
            thread::spawn(move || publish_to_the_end(address, format!("t/{number}")))
        })
        .collect();
    metrics.wait_for(appended, |count| count >= before + 100);
    end(&server, &mut metrics);
    let ended = server.end();
    drop(watcher);
    let acknowledged: Vec<u64> = publishers
        .into_iter()
        .map(|publisher| publisher.join().expect("the thread ends"))
        .collect();
    assert!(acknowledged.iter().sum::<u64>() > 0, "{ended:?}");
    let server = place.start();
    for (number, &acknowledged) in acknowledged.iter().enumerate() {
        let url = server.url(&format!("/topics/t/{number}?reverse=true&limit=1000"));
        let page = curl(&[&url]).expect(200).json();
        let kept = page["messages"].as_array().expect("messages").len() as u64;
        assert!(kept >= acknowledged.min(1_000), "topic {number}: {kept} of {acknowledged}");
    }
}

#[test]
fn a_drain_keeps_acknowledged_messages() {
    all_acknowledged_is_kept("2s", |server, _| server.process.signal("TERM"));
}

/// The node is killed during its drain, which lasts as long as a client does not read.
#[test]
fn a_kill_during_a_drain_keeps_acknowledged_messages() {
    all_acknowledged_is_kept("1h", |server, metrics| {
        server.process.signal("TERM");
        metrics.wait_for("crore_draining", |draining| draining == 1);
        server.process.signal("KILL");
    });
}

/// A client that does not read its subscription, and whose messages exceed the sockets' buffers.
fn deaf(server: &Server) -> Raw {
    let mut deaf = Raw::web_socket(&server.clients, "/crore", "crore.v1");
    deaf.send_frame(2, &[0x01, 0x00, 1, 0]);
    assert_eq!(deaf.read_frame().1[0], 0x81);
    deaf.send_frame(2, &[0x02, 0x00, 1, 1, 0, 4, b'b', b'u', b'l', b'k', 0]);
    assert_eq!(deaf.read_frame().1[0], 0x82);
    let payload = "x".repeat(100 << 10);
    for _ in 0..40 {
        publish(&server.url("/topics/bulk"), &payload);
    }
    deaf
}

/// A client that does not read delays the drain by its window, and not longer.
#[test]
fn a_client_that_does_not_read_delays_the_drain_by_its_window() {
    let server = Server::with_configuration("[node]\ndrain_window = \"2s\"\n");
    let _deaf = deaf(&server);
    let began = Instant::now();
    let drain = drain_command(&server, &[]).end();
    drain.assert_success();
    assert!(began.elapsed() < Duration::from_secs(2) + STOP_WITHIN);
    let last = drain.lines.last().expect("lines");
    assert!(last.ends_with("1 connections were reset"), "{last}");
    server.end().assert_success();
}

/// A log whose disk hangs: the node stops all the same, within its configured time, and reports the
/// log that has not stopped and the number of unanswered publications. Acknowledged messages are
/// present after a restart.
#[test]
fn a_hanging_disk_does_not_stop_a_drain() {
    let mut place = Place::new("127.0.0.1:0");
    place.configure(&on_disk(&place, "2s", "[limits]\nlog_stall_timeout = \"1s\""));
    let disk = HangingDisk::new(&place);
    let launched = place.launch_by(&disk.words());
    let server = place.started(launched);
    let publisher = {
        let address = server.clients.clone();
        thread::spawn(move || publish_to_the_end(address, "t".into()))
    };
    let mut metrics = Metrics::of(&server.operators);
    metrics.wait_for("crore_messages_appended_total", |count| count >= 10);
    disk.hang();
    let stalled = metrics.wait_for("crore_disk_logs_stalled_total", |count| count == 1);
    // The publication whose sync hangs.
    assert_eq!(stalled.number("crore_publishes_staged"), 1);
    server.process.signal("TERM");
    let within = Duration::from_secs(2) + STOP_WITHIN + end_to_end::PATIENCE;
    let ended = server.process.end_within(within);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let place_of = |text: &str| ended.lines.iter().position(|line| line.contains(text));
    let (drains, reported) = (place_of("The node drains"), place_of("did not stop cleanly"));
    assert!(drains.is_some() && drains < reported, "{ended:?}");
    let reported = &ended.lines[reported.expect("a line")];
    for part in ["did not stop in time: crore-log-kept", "unsynced=1"] {
        assert!(reported.contains(part), "{part}: {reported}");
    }
    let acknowledged = publisher.join().expect("the thread ends");
    assert!(acknowledged > 0);
    disk.go_on();
    let server = place.start();
    let url = server.url("/topics/t?reverse=true&limit=1000");
    let page = curl(&[&url]).expect(200).json();
    let kept = page["messages"].as_array().expect("messages").len() as u64;
    assert!(kept >= acknowledged.min(1_000), "{kept} of {acknowledged}");
}
