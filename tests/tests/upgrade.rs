//! Live upgrade: another process becomes the node without a visible effect, even if that process
//! dies before.

use std::thread;

use end_to_end::curl::{curl, publish};
use end_to_end::event_stream::EventStream;
use end_to_end::metrics::Metrics;
use end_to_end::native::{Frame, Item, Native, Opening};
use end_to_end::process::Process;
use end_to_end::raw::Raw;
use end_to_end::server::{Place, Server};
use end_to_end::successor::Successor;
use end_to_end::tokens::{ApiKey, Issuer, configuration, revoke};
use end_to_end::tools::crore;
use end_to_end::upgrading::Flow;
use serde_json::Value;

fn subscribe(native: &mut Native, subscription: u64, filter: &str) {
    native.subscribe(&[Item { subscription, filter, fail_on_gap: false }]);
    let answer = native.next_frame();
    assert!(matches!(answer, Frame::Subscribed { .. }), "{answer:?}");
}

/// A native PUBLISH as one WebSocket frame of a client, masked with zeros.
fn publish_frame(request: u8, topic: &str, payload: &str) -> Vec<u8> {
    let mut frame = vec![0x04, 0x00, request, topic.len() as u8];
    frame.extend_from_slice(topic.as_bytes());
    frame.extend_from_slice(payload.as_bytes());
    let mut bytes = vec![0x82, 0x80 | frame.len() as u8, 0, 0, 0, 0];
    bytes.extend_from_slice(&frame);
    bytes
}

#[test]
fn connections_stay() {
    let configuration = "[node]\nio_threads = 2\n[http]\nwait_max = \"10m\"\n";
    let mut server = Server::with_configuration(configuration);
    let url = |topic: &str| server.url(&format!("/topics/{topic}"));
    let (news, wide, slow, polled) = (url("news"), url("w/1/x"), url("slow"), url("polled"));
    let clients = server.clients.clone();

    let (mut plain, _) = Native::connect(&clients, None);
    subscribe(&mut plain, 1, "news");
    let (mut filter, _) = Native::connect(&clients, None);
    subscribe(&mut filter, 7, "w/#");
    let mut events = EventStream::open(&news, 1, None);
    // A client that does not read: its messages fill its socket and its outbox, and the ring moves
    // on.
    let (mut lagging, _) = Native::connect(&clients, None);
    subscribe(&mut lagging, 3, "slow");
    let bulk = "x".repeat(16_000);
    for number in 0..300 {
        publish(&slow, &format!("{number:05}{bulk}"));
    }
    // A publisher with a half-received frame.
    let mut half = Raw::web_socket(&clients, "/crore", "crore.v1");
    half.send_frame(2, &[0x01, 0x00, 1, 0]);
    assert_eq!(half.read_frame().1[0], 0x81);
    let frame = publish_frame(5, "news", "in two halves");
    half.send(&frame[..9]);
    // An unanswered long poll.
    let before = position(&publish(&polled, "before"));
    let polled_url = format!("{polled}?since={before}&wait=600s");
    let poll = thread::spawn(move || curl(&[&polled_url]).expect(200).json());
    let polls = "crore_sessions{protocol=\"long_poll\"}";
    Metrics::of(&server.operators).wait_for(polls, |count| count == 1);
    publish(&news, "one");
    assert_eq!(plain.next_payload(), "one");
    assert_eq!(events.next_message().data, "one");

    let mut successor = server.process.upgrade();
    for round in 0..2 {
        if round == 1 {
            // The new process can hand over, too.
            successor = successor.upgrade(&mut server.process);
        }
        let text = format!("after upgrade {round}");
        publish(&news, &text);
        publish(&wide, &text);
        assert_eq!(plain.next_payload(), text);
        assert_eq!(events.next_message().data, text);
        assert_eq!(filter.next_payload(), text);
    }
    half.send(&frame[9..]);
    assert_eq!(plain.next_payload(), "in two halves");
    assert_eq!(half.read_frame().1[..3], [0x89, 0x00, 0x05]);
    publish(&polled, "awaited");
    let polled = poll.join().expect("the poll ends");
    assert_eq!(polled["messages"][0]["data"], "awaited", "{polled}");
    for number in 0..300 {
        let message = lagging.next_payload();
        assert_eq!(message[..5], format!("{number:05}"));
    }
    // New clients reach the listeners, histories and the operators' port.
    let history = curl(&[&news]).expect(200).json();
    let messages = history["messages"].as_array().expect("messages").len();
    assert_eq!(messages, 4, "{history}");
    curl(&[&server.operators_url("/readyz")]).expect(200);
}

/// Publications in flight at that moment are answered once, and no subscriber misses one: three
/// upgrades in a row.
#[test]
fn acknowledgements_in_flight_arrive() {
    let mut server = Server::with_configuration("[node]\nio_threads = 2\n");
    let flows: Vec<Flow> = (0..4)
        .map(|number| {
            let topic = format!("flow/{number}");
            let filter = [&topic[..], &format!("+/{number}")][number % 2].to_owned();
            Flow::begin(&server, &topic, &filter)
        })
        .collect();
    let more = || flows.iter().for_each(|flow| flow.wait_for_more(50));
    more();
    let mut successor = server.process.upgrade();
    for _ in 0..2 {
        more();
        successor = successor.upgrade(&mut server.process);
    }
    more();
    for flow in flows {
        flow.end();
    }
}

/// Over the operators' port, where the old process answers its last request.
#[test]
fn the_requester_is_answered() {
    let mut server = Server::start();
    let url = server.url("/topics/news");
    let (mut native, _) = Native::connect(&server.clients, None);
    subscribe(&mut native, 1, "news");
    server.process.skip_lines();
    let mut ask = crore();
    ask.args(["upgrade", "--url", &server.operators_url("")]);
    let ended = Process::start(&mut ask).end();
    ended.assert_success();
    let successor = Successor::taken_over(&mut server.process);
    let answer: Value = serde_json::from_str(&ended.lines[0]).expect("JSON");
    assert_eq!(answer["process"], successor.process(), "{answer}");
    assert!(answer["frozen_ms"].is_number(), "{answer}");
    publish(&url, "after");
    assert_eq!(native.next_payload(), "after");
    // A page of another origin cannot request it.
    let url = server.operators_url("/api/v1/upgrade");
    curl(&["-X", "POST", &url]).expect_problem(415, "unsupported_media_type");
}

/// A request to stop during the hand-over reaches the old process, and must stop the new one.
#[test]
fn a_stop_during_an_upgrade_stops_the_new_process() {
    let mut server = Server::start();
    // Both signals are pending when it continues, so that the second one arrives during the
    // upgrade.
    for signal in ["STOP", "USR2", "TERM", "CONT"] {
        server.process.signal(signal);
    }
    let successor = Successor::taken_over(&mut server.process);
    for reported in ["The node drains", "The node has stopped"] {
        server.process.wait_for(reported, |line| line.contains(reported).then_some(()));
    }
    successor.wait_for_end();
}

/// The position of a publication, as text.
fn position(published: &Value) -> String {
    let epoch = published["epoch"].as_str().expect("text");
    format!("{epoch}:{}", published["offset"])
}

/// At whatever point the new process dies before the commit, the old one continues.
#[test]
fn the_old_process_continues_if_the_new_one_dies() {
    for place_of_death in 1..=12 {
        let mut place = Place::new("127.0.0.1:0");
        place.configure("[node]\nio_threads = 2\n");
        let process = place.launch_with_failing_upgrade(place_of_death);
        let mut server = place.started(process);
        let url = server.url("/topics/news");
        let (mut native, _) = Native::connect(&server.clients, None);
        subscribe(&mut native, 1, "news");
        let mut events = EventStream::open(&url, 1, None);
        publish(&url, "before");
        server.process.upgrade_in_vain("");
        publish(&url, "after");
        for text in ["before", "after"] {
            assert_eq!(native.next_payload(), text, "{place_of_death}");
            assert_eq!(events.next_message().data, text, "{place_of_death}");
        }
        let (mut newcomer, _) = Native::connect(&server.clients, None);
        subscribe(&mut newcomer, 1, "news");
        publish(&url, "new");
        assert_eq!(newcomer.next_payload(), "new");
    }
}

/// After the commit its death is an ordinary crash: the old process is gone, and the clients'
/// connections end.
#[test]
fn the_new_process_dies_after_the_commit() {
    let mut place = Place::new("127.0.0.1:0");
    let process = place.launch_with_failing_upgrade(13);
    let mut server = place.started(process);
    let mut raw = Raw::web_socket(&server.clients, "/crore", "crore.v1");
    server.process.skip_lines();
    server.process.signal("USR2");
    server.process.wait_for("the commit", |line| {
        line.contains("The new process is the node now").then_some(())
    });
    assert!(raw.closes_within(end_to_end::PATIENCE));
}

/// If the new process cannot take over, the old one reports the reason and continues.
#[test]
fn an_incompatible_upgrade_is_refused() {
    let mut place = Place::new("127.0.0.1:0");
    let mut server = place.start();
    let url = server.url("/topics/news");
    let (mut native, _) = Native::connect(&server.clients, None);
    subscribe(&mut native, 1, "news");
    let refusals =
        [("[node]\nio_threads = 7\n", "restart"), ("[node]\nio_treads = 7\n", "unknown key")];
    for (number, (configuration, why)) in refusals.into_iter().enumerate() {
        place.configure(configuration);
        server.process.upgrade_in_vain(why);
        let text = format!("after refusal {number}");
        publish(&url, &text);
        assert_eq!(native.next_payload(), text);
    }
}

/// The new process knows the clients' identities: connections of users count, API keys are valid,
/// and revocations stay in force without a file.
#[test]
fn identities_of_clients_survive() {
    let mut place = Place::new("127.0.0.1:0");
    let issuer = Issuer::new(&place, "HS256", "");
    let servers = ApiKey::new("servers", "subscribe = [\"news\"]\npublish = [\"news\"]");
    let tables = configuration(&servers.table, &[&issuer]);
    place.configure(&format!(
        "[node]\nio_threads = 2\n[limits]\nconnections_per_user_max = 1\n{tables}"
    ));
    let mut server = place.start();
    let anna = issuer.token("--sub anna --all #");
    let ben = issuer.token("--sub ben --all #");
    let mut annas = Native::with_token(&server.clients, &anna);
    let opening =
        Opening { fields: &format!("X-API-Key: {}\r\n", servers.key), ..Opening::default() };
    let mut api_client = Native::open(&server.clients, &opening);
    assert!(matches!(api_client.next_frame(), Frame::Welcome { .. }));
    for native in [&mut annas, &mut api_client] {
        subscribe(native, 1, "news");
    }
    revoke(&server, "{\"sub\": \"ben\"}").expect(201);

    let _successor = server.process.upgrade();
    api_client.publish(1, "news", "after");
    for native in [&mut api_client, &mut annas] {
        let text = loop {
            match native.next_frame() {
                Frame::Published(1) => {}
                Frame::Message { payload, .. } => break payload,
                other => panic!("a message was expected: {other:?}"),
            }
        };
        assert_eq!(text, "after");
    }
    let url = server.url("/topics/news");
    let ask = |token: &str| {
        let bearer = format!("Authorization: Bearer {token}");
        curl(&["-H", &bearer, &url])
    };
    ask(&anna).expect_problem(429, "too_many_connections");
    ask(&ben).expect_problem(401, "token_revoked");
    drop(annas);
    let mut metrics = Metrics::of(&server.operators);
    metrics.wait_for("crore_users", |count| count == 0);
    ask(&anna).expect(200);
}

/// A draining node is not handed over.
#[test]
fn a_drain_continues() {
    let server = Server::with_configuration("[node]\ndrain_delay = \"1h\"\n");
    let drain = server.operators_url("/api/v1/drain");
    let json = "Content-Type: application/json";
    curl(&["-H", json, "-d", "{}", &drain]).expect(202);
    let url = server.operators_url("/api/v1/upgrade");
    let refused = curl(&["-H", json, "-d", "{}", &url]);
    refused.expect_problem(409, "upgrade_failed");
    server.process.signal("USR2");
    let state = curl(&[&drain]).expect(200).json();
    assert_eq!(state["state"], "waiting", "{state}");
    server.process.signal("KILL");
}
