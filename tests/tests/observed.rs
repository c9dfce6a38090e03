//! A node's reports about its clients: `$sys` topics, the access log, the audit log, levels at run
//! time.

use std::time::Duration;

use end_to_end::curl::{curl, publish};
use end_to_end::event_stream::EventStream;
use end_to_end::metrics::Metrics;
use end_to_end::native::{Item, Native};
use end_to_end::rate::Rate;
use end_to_end::raw::Raw;
use end_to_end::server::Server;
use serde_json::Value;

/// The key that permits subscriptions to `$sys/...`.
const OBSERVER: &str = "crore_observer-of-the-node-observer-of-the-node0";
const OBSERVER_SHA256: &str = "79c955d8ae6948521ccf628f4a6048bc2965fb12238066a432d327cb36533f3d";
/// The key that permits subscriptions to everything that `#` matches.
const SUBSCRIBER: &str = "crore_subscriber-of-everything-of-everything-00";
const SUBSCRIBER_SHA256: &str = "9c61fb644012fc53320c3aa2a4e44b470b9019e37f54683834303e5a1e46cf31";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn native(server: &Server) -> Native {
    Native::connect(&server.clients, None).0
}

fn subscribe(client: &mut Native, topic: &str) {
    client.subscribe(&[Item { subscription: 1, filter: topic, fail_on_gap: false }]);
    client.next_frame();
}

/// Events are ordinary messages: a client that was absent while others came and went receives the
/// missed events, in order.
#[test]
fn events_of_clients_and_topics_are_published_and_recovered() {
    let server = Server::with_configuration(
        "[sys]\nstatistics = true\ninterval = \"1s\"\nclients = true\ntopics = true\nopen = true\n",
    );
    let url = |topic: &str| server.url(&format!("/topics/$sys/{topic}"));
    let mut connected = EventStream::open(&url("clients/connected"), 1, None);
    let first = native(&server);
    // The event of the stream's own connection may come first.
    let (event, reported) = loop {
        let event = connected.next_message();
        let reported = json(&event.data);
        assert_eq!(reported["node"], "crore");
        if reported["transport"] != "events" {
            break (event, reported);
        }
    };
    assert_eq!(reported["transport"], "native");
    assert!(reported["connection"].is_string(), "{reported}");
    drop(connected);

    // While no client is subscribed.
    let mut second = native(&server);
    subscribe(&mut second, "news");
    drop(second);
    drop(first);
    let mut vacated = EventStream::open(&format!("{}?last=1", url("topics/vacated")), 1, None);
    assert_eq!(json(&vacated.next_message().data)["topic"], "news");

    let mut again = EventStream::open(&url("clients/connected"), 1, Some(&event.id));
    let missed = json(&again.next_message().data);
    assert_eq!(missed["transport"], "native");
    assert_ne!(missed["connection"], reported["connection"]);

    let mut gone = EventStream::open(&format!("{}?last=100", url("clients/disconnected")), 1, None);
    // The event of the first stream's end may be among them.
    let mut seen = Vec::new();
    while !seen.contains(&reported["connection"]) || !seen.contains(&missed["connection"]) {
        let event = json(&gone.next_message().data);
        assert!(event["duration_ms"].is_u64(), "{event}");
        assert!(event["code"] == 1_006 || event["code"] == 1_000, "{event}");
        seen.push(event["connection"].clone());
    }

    let occupied = curl(&[&url("topics/occupied")]).expect(200).json();
    let topics: Vec<Value> = occupied["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| json(message["data"].as_str().unwrap())["topic"].clone())
        .collect();
    assert_eq!(topics, ["news"], "{occupied}");

    let mut statistics = EventStream::open(&url("node/crore/statistics"), 1, None);
    let figures = json(&statistics.next_message().data);
    assert!(figures["connections"].as_u64() >= Some(3), "{figures}");
    assert_eq!(figures["node"], "crore");
    // Further ones follow by themselves. Two of a node that paused in between may have the same
    // second.
    let uptime_s = |figures: &Value| figures["uptime_s"].as_u64().expect("seconds");
    let mut later = uptime_s(&figures);
    while later == uptime_s(&figures) {
        later = uptime_s(&json(&statistics.next_message().data));
    }
    assert!(later > uptime_s(&figures));
}

/// A million returning clients cause a few messages and a count.
#[test]
fn a_storm_is_summarised() {
    let server = Server::with_configuration(
        "[node]\nio_threads = 1\n[sys]\nclients = true\nopen = true\nevents_rate_max = 5\n",
    );
    let url = server.url("/topics/$sys/clients/connected");
    let mut connected = EventStream::open(&url, 1, None);
    let rate = Rate::of(5);
    let clients: Vec<Native> = (0..100).map(|_| native(&server)).collect();
    let (mut messages, mut count) = (0, 0);
    while count < clients.len() as u64 {
        let event = json(&connected.next_message().data);
        messages += 1;
        count += event["left_out"].as_u64().unwrap_or(1);
    }
    // The event of the stream's own connection may be one of those counted.
    let counts = [clients.len() as u64, clients.len() as u64 + 1];
    assert!(counts.contains(&count), "{count}");
    // Events within the rate, and in each second one with the count of the others.
    assert!(messages <= 2 * rate.most(), "{messages}");
}

#[test]
fn events_require_a_permission() {
    let configuration = format!(
        "[entitlement]\nmode = \"tokens\"\nsecret = \"{}\"\n[sys]\nclients = true\n\
         [[api_key]]\nname = \"observer\"\nsha256 = \"{OBSERVER_SHA256}\"\nsubscribe = [\"$sys/#\"]\npublish = [\"#\", \"$sys/#\"]\n\
         [[api_key]]\nname = \"subscriber\"\nsha256 = \"{SUBSCRIBER_SHA256}\"\nsubscribe = [\"#\"]\n",
        "s".repeat(48)
    );
    let server = Server::with_configuration(&configuration);
    let by = |key: &str, arguments: &[&str]| {
        let header = format!("X-API-Key: {key}");
        curl(&[&["-H", &header], arguments].concat())
    };
    let url = server.url("/topics/$sys/clients/connected");
    let accept = ["-H", "Accept: text/event-stream", &url];
    by(SUBSCRIBER, &accept).expect_problem(403, "forbidden");
    let all = server.url("/events?topic=$sys/%23");
    by(SUBSCRIBER, &[&all]).expect_problem(403, "forbidden");
    curl(&accept).expect_problem(401, "unauthorized");
    by(OBSERVER, &["-d", "forged", &url]).expect_problem(403, "forbidden");
    // A filter for everything does not match the node's topics.
    let everything = server.url(&format!("/events?topic=%23&token={SUBSCRIBER}"));
    curl(&[&everything]).expect(401);
    let stream = format!("X-API-Key: {OBSERVER}");
    let mut observed =
        end_to_end::curl::stream(&["-H", &stream, "-H", "Accept: text/event-stream", &url]);
    observed.wait_for("a beginning", |line| line.contains("crore.start").then_some(()));
    let other = format!("X-API-Key: {SUBSCRIBER}");
    let mut subscriber =
        end_to_end::curl::stream(&["-H", &other, &server.url("/events?topic=%23")]);
    subscriber.wait_for("a beginning", |line| line.contains("crore.start").then_some(()));
    let reported = observed.wait_for("an event", |line| {
        let data = line.strip_prefix("data: ")?;
        data.contains("subscriber").then(|| json(data))
    });
    assert_eq!(reported["sub"], "subscriber");
    assert_eq!(reported["transport"], "events");
    subscriber.assert_no_line(Duration::from_millis(500), |line| line.contains("transport"));
}

/// Switched on at run time, and off again; it never contains a query.
#[test]
fn the_access_log_follows_the_operator() {
    let mut server = Server::start();
    let secret = server.url("/topics/a?token=very-secret");
    curl(&[&secret]).expect(200);
    let levels = server.operators_url("/api/v1/logging");
    let put = |body: &str| {
        curl(&["-X", "PUT", "-H", "Content-Type: application/json", "-d", body, &levels])
            .expect(200)
            .json()
    };
    assert_eq!(put(r#"{"levels":{"access":"info"}}"#)["levels"]["access"], "info");
    // The shards apply it between two turns.
    let line = loop {
        curl(&[&secret]).expect(200);
        let lines = server.operators_url("/api/v1/logs?target=access");
        let found = curl(&[&lines]).expect(200).json();
        if let Some(line) = found["lines"].as_array().and_then(|lines| lines.first()) {
            break line.clone();
        }
    };
    assert_eq!(line["message"], "A request was answered.");
    assert_eq!((&line["method"], &line["path"]), (&"GET".into(), &"/topics/a".into()));
    assert_eq!((&line["status"], &line["address"]), (&"200".into(), &"127.0.0.1".into()));
    assert_eq!(line["tls"], "false");
    server.process.wait_for("a line about a request", |line| {
        assert!(!line.contains("secret"), "{line}");
        line.contains(" access: A request was answered.").then_some(())
    });
    let client = native(&server);
    server.process.wait_for("a client that comes", |line| {
        line.contains("A client has connected.").then_some(())
    });
    drop(client);
    server.process.wait_for("a client that goes", |line| {
        (line.contains("A client has disconnected.") && line.contains("code=1006")).then_some(())
    });
    put(r#"{"levels":{"access":"off"}}"#);
    let scrape = Metrics::of(&server.operators).scrape();
    assert!(scrape.number("crore_log_lines_total{target=\"access\"}") > 0);
}

/// Lines in JSON, for refusals only, and a bound on their number.
#[test]
fn the_audit_log_lists_refusals() {
    let configuration = format!(
        "[logging]\nformat = \"json\"\nlevels = [\"audit=warn\"]\naudit_rate_max = 3\n[node]\nio_threads = 1\n\
         [entitlement]\nmode = \"tokens\"\nsecret = \"{}\"\n\
         [[api_key]]\nname = \"subscriber\"\nsha256 = \"{SUBSCRIBER_SHA256}\"\nsubscribe = [\"#\"]\npublish = [\"mine\"]\n",
        "s".repeat(48)
    );
    let place = end_to_end::server::Place::new("127.0.0.1:0");
    place.configure(&configuration);
    let mut process = place.launch();
    let mut address = None;
    while address.is_none() {
        let line = process.json();
        assert!(line["target"].is_string(), "{line}");
        if line["message"] == "listening clients" {
            address = line["url"].as_str().map(str::to_owned);
        }
    }
    let base = address.unwrap();
    process.wait_for("the beginning", |line| line.contains("\"ready\"").then_some(()));
    let key = format!("X-API-Key: {SUBSCRIBER}");
    let ask = |topic: &str| curl(&["-H", &key, "-d", "hi", &format!("{base}/topics/{topic}")]);
    ask("mine").expect(200);
    ask("theirs").expect_problem(403, "forbidden");
    let audit = |line: &str| {
        let line = json(line);
        (line["target"] == "audit").then_some(line)
    };
    let line = process.wait_for("a refusal", audit);
    for (name, value) in [
        ("target", "audit"),
        ("level", "warn"),
        ("result", "denied"),
        ("action", "publish"),
        ("topic", "theirs"),
        ("sub", "subscriber"),
        ("reason", "forbidden"),
    ] {
        assert_eq!(line[name], value, "{name} in {line}");
    }
    let mut flood = Raw::connect(base.trim_start_matches("http://").trim_end_matches('/'));
    let request = format!("GET /topics/no HTTP/1.1\r\nHost: localhost\r\n{key}\r\n\r\n");
    let rate = Rate::of(3);
    flood.send(request.repeat(50).as_bytes());
    // Each refusal has its own line or is part of a count.
    let (mut lines, mut refusals) = (0, 0);
    while refusals < 50 {
        let line = process.wait_for("refusals", audit);
        assert!(!line.to_string().contains(SUBSCRIBER), "{line}");
        let count = line["count"].as_str();
        refusals += count.map_or(1, |count| count.parse::<u32>().unwrap());
        lines += 1;
    }
    assert_eq!(refusals, 50);
    assert!(lines <= 2 * rate.most(), "{lines}");
}

/// Levels come from the configuration; publishing continues for all of them.
#[test]
fn a_wrong_level_is_a_fault() {
    let place = end_to_end::server::Place::new("127.0.0.1:0");
    place.configure("[logging]\nlevels = [\"access=loud\"]\n");
    let ended = place.launch().end();
    assert_eq!(ended.status.code(), Some(78), "{ended:?}");
    let server =
        Server::with_configuration("[logging]\nlevels = [\"access=info\", \"node=off\"]\n");
    publish(&server.url("/topics/a"), "hi");
}
