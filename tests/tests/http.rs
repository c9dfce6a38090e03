//! HTTP on the clients' port, by `curl`: publish, history, long-poll, event streams.

use std::time::{Duration, Instant};

use end_to_end::curl::{curl, publish};
use end_to_end::event_stream::EventStream;
use end_to_end::metrics::Metrics;
use end_to_end::raw::Raw;
use end_to_end::server::Server;
use serde_json::{Value, json};

#[test]
fn a_publication_is_acknowledged() {
    let server = Server::start();
    let url = server.url("/topics/a/b");
    let first = publish(&url, "hello");
    assert!(first["epoch"].is_string(), "{first}");
    let second = publish(&url, "world");
    assert_eq!(first["epoch"], second["epoch"]);
    assert!(first["offset"].as_u64() < second["offset"].as_u64(), "{first} {second}");

    let history = curl(&[&url]).expect(200).json();
    assert_eq!(payloads(&history), ["hello", "world"]);
    assert_eq!(history["topic"], "a/b");
    assert_eq!(history["messages"][1]["offset"], second["offset"]);
}

/// A client that does not know whether its request arrived repeats it, over other connections too.
#[test]
fn a_repeated_publication_is_appended_once() {
    let server = Server::start();
    let url = server.url("/topics/orders");
    let once = |key: &str, text: &str| {
        let header = format!("Idempotency-Key: {key}");
        let arguments = ["-H", &header, "-H", "Content-Type: text/plain", "-d", text, &url];
        curl(&arguments).expect(200).json()
    };
    let first = once("\"order 17\"", "seventeen");
    assert_eq!(first["duplicate"], false);
    let again = once("\"order 17\"", "seventeen");
    assert_eq!(again["duplicate"], true);
    assert_eq!((&again["epoch"], &again["offset"]), (&first["epoch"], &first["offset"]));
    assert_eq!(once("order-18", "eighteen")["duplicate"], false);
    let history = curl(&[&url]).expect(200).json();
    assert_eq!(payloads(&history), ["seventeen", "eighteen"]);

    let envelope = |sequence: u64| {
        let body = json!({
            "topic": "orders",
            "data": "numbered",
            "producer": {"id": "till", "sequence": sequence},
            "expected_epoch": first["epoch"],
        });
        curl(&["-d", &body.to_string(), &server.url("/publish")])
    };
    assert_eq!(envelope(5).expect(200).json()["duplicate"], false);
    assert_eq!(envelope(5).expect(200).json()["duplicate"], true);
    assert_eq!(envelope(4).expect(409).json()["code"], "out_of_order");

    let other = ["-H", "Crore-Expected-Epoch: 1", "-d", "x", &url];
    let problem = curl(&other).expect(409).json();
    assert_eq!(problem["code"], "epoch_mismatch");
    assert_eq!(problem["epoch"], first["epoch"]);
    let history = curl(&[&url]).expect(200).json();
    assert_eq!(payloads(&history), ["seventeen", "eighteen", "numbered"]);
}

#[test]
fn histories_are_limited_as_requested() {
    let server = Server::start();
    let url = server.url("/topics/prices/gold");
    let positions: Vec<String> =
        ["1", "2", "3", "4", "5"].iter().map(|text| position(&publish(&url, text))).collect();
    let check = |query: &str, expected: &[&str]| {
        let history = curl(&[&format!("{url}?{query}")]).expect(200).json();
        assert_eq!(payloads(&history), expected, "{query}");
    };
    check("limit=2&reverse=true", &["5", "4"]);
    check(&format!("since={}", positions[2]), &["4", "5"]);
    check(&format!("since={}&limit=1", positions[0]), &["2"]);
    check(&format!("since={}", positions[4]), &[]);
}

#[test]
fn names_of_topics_are_kept_unchanged() {
    let server = Server::start();
    let check = |path: &str, topic: &str| {
        let answer = curl(&["--path-as-is", "-d", topic, &server.url(path)]).expect(200);
        let history = curl(&["--path-as-is", &server.url(path)]).expect(200).json();
        assert_eq!(history["topic"], topic, "{path} {answer:?}");
        assert_eq!(payloads(&history), [topic], "{path}");
    };
    check("/topics/plain", "plain");
    check("/topics//leading", "/leading");
    check("/topics/a//b", "a//b");
    check("/topics/with%20space", "with space");
    check("/topics/%E2%82%AC", "€");
    check("/topics/?topic=asked%2Ffor", "asked/for");
    check("/topics/a/./b/../c", "a/./b/../c");
}

#[test]
fn bodies_and_their_types_are_kept() {
    let server = Server::start();
    let url = server.url("/topics/typed");
    let json = ["-H", "Content-Type: application/json", "-d", r#"{"price": 12.5}"#, &url];
    curl(&json).expect(200);
    curl(&["-H", "Content-Type: application/octet-stream", "-d", "bytes", &url]).expect(200);
    // Chunked: curl does not know the length of its input.
    curl(&["-H", "Transfer-Encoding: chunked", "-d", "in chunks", &url]).expect(200);
    let history = curl(&[&url]).expect(200).json();
    let messages = history["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3, "{history}");
    assert_eq!(messages[0]["content_type"], "application/json", "{history}");
    assert_eq!(messages[1]["content_type"], "application/octet-stream", "{history}");
}

#[test]
fn envelopes_are_published() {
    let server = Server::start();
    let url = server.url("/publish");
    let post = |body: &Value| {
        curl(&["-H", "Content-Type: application/json", "-d", &body.to_string(), &url]).expect(200)
    };
    post(&json!({ "topic": "one", "data": "text" }));
    post(&json!({ "topics": ["left", "right"], "data": "both" }));
    post(&json!({ "topic": "raw", "b64data": "AAEC/w==" }));
    post(&json!({ "topic": "tagged", "data": "x", "tags": { "kind": "goal" } }));
    post(&json!([{ "topic": "batch/1", "data": "a" }, { "topic": "batch/2", "data": "b" }]));

    let messages = |topic: &str| {
        let history = curl(&[&server.url(&format!("/topics/{topic}"))]).expect(200).json();
        history["messages"].clone()
    };
    let data =
        [("one", "text"), ("left", "both"), ("right", "both"), ("batch/1", "a"), ("batch/2", "b")];
    for (topic, expected) in data {
        assert_eq!(messages(topic)[0]["data"], expected, "{topic}");
    }
    assert_eq!(messages("raw")[0]["b64data"], "AAEC/w==");
    assert_eq!(messages("tagged")[0]["tags"]["kind"], "goal");
}

/// The maximum wait of a poll: the default maximum.
const WAIT: Duration = Duration::from_secs(60);

#[test]
fn a_long_poll_answers_with_the_next_message() {
    let server = Server::start();
    let url = server.url("/topics/slow/news");
    let start = position(&publish(&url, "old"));
    let waiting_url = format!("{url}?since={start}&wait={}s", WAIT.as_secs());
    let waiting = std::thread::spawn(move || {
        let answer = curl(&[&waiting_url]).expect(200).json();
        (answer, Instant::now())
    });
    let mut metrics = Metrics::of(&server.operators);
    let polls = "crore_sessions{protocol=\"long_poll\"}";
    metrics.wait_for(polls, |count| count == 1);
    let began = Instant::now();
    publish(&url, "new");
    let (answer, answered) = waiting.join().unwrap();
    assert_eq!(payloads(&answer), ["new"]);
    assert!(answered.saturating_duration_since(began) < WAIT / 2, "it waited to the end");

    let end = position(&publish(&url, "newest"));
    let empty = curl(&[&format!("{url}?since={end}&wait=200ms")]).expect(200).json();
    assert_eq!(payloads(&empty), Vec::<String>::new());
}

#[test]
fn an_event_stream_is_live_and_resumes() {
    let server = Server::start();
    let url = server.url("/topics/scores/final");
    let mut live = EventStream::open(&url, 1, None);
    let acknowledged = publish(&url, "0:1");
    let first = live.next_message();
    assert_eq!((first.data.as_str(), first.id), ("0:1", position(&acknowledged)));
    drop(live);

    publish(&url, "1:1\nin two lines");
    publish(&url, "2:1");
    let id = position(&acknowledged);
    let mut resumed = EventStream::open(&url, 1, Some(&id));
    assert_eq!(resumed.next_message().data, "1:1\nin two lines");
    assert_eq!(resumed.next_message().data, "2:1");
    publish(&url, "3:1");
    assert_eq!(resumed.next_message().data, "3:1");
    resumed.assert_quiet(Duration::from_millis(300));

    // A browser cannot set the header on its first request: the parameter has the same effect.
    let by_parameter = format!("{url}?last-event-id={id}");
    let mut resumed = EventStream::open(&by_parameter, 1, None);
    assert_eq!(resumed.next_message().data, "1:1\nin two lines");
}

#[test]
fn a_stream_may_have_several_topics_and_a_filter() {
    let server = Server::start();
    let mut several = EventStream::open(&server.url("/events?topic=a&topic=b/c"), 2, None);
    let mut filtered = EventStream::open(&server.url("/events?topic=b/%23"), 1, None);
    for (topic, payload) in [("a", "1"), ("b/c", "2"), ("b/d", "3"), ("other", "4")] {
        publish(&server.url(&format!("/topics/{topic}")), payload);
    }
    // Each topic has its own order; messages of different topics may arrive in any order.
    let received = |stream: &mut EventStream| {
        let mut messages: Vec<(String, String)> = (0..2)
            .map(|_| {
                let message = stream.next_envelope();
                let member = |name: &str| message[name].as_str().unwrap().to_owned();
                (member("topic"), member("data"))
            })
            .collect();
        messages.sort();
        stream.assert_quiet(Duration::from_millis(300));
        messages
    };
    let pair = |topic: &str, data: &str| (topic.to_owned(), data.to_owned());
    assert_eq!(received(&mut several), [pair("a", "1"), pair("b/c", "2")]);
    assert_eq!(received(&mut filtered), [pair("b/c", "2"), pair("b/d", "3")]);
}

#[test]
fn a_composite_cursor_resumes_every_topic() {
    let server = Server::start();
    let url = server.url("/events?topic=left&topic=right");
    let publish = |topic: &str, payload: &str| {
        publish(&server.url(&format!("/topics/{topic}")), payload);
    };
    let mut live = EventStream::open(&url, 2, None);
    publish("left", "1");
    let cursor = live.next_message().id;
    drop(live);
    publish("right", "2");
    publish("left", "3");
    let mut resumed = EventStream::open(&url, 2, Some(&cursor));
    let mut missed: Vec<String> =
        (0..2).map(|_| resumed.next_envelope()["data"].as_str().unwrap().to_owned()).collect();
    missed.sort();
    assert_eq!(missed, ["2", "3"]);
    resumed.assert_quiet(Duration::from_millis(300));
}

#[test]
fn an_unknown_position_is_a_gap_at_once() {
    let server = Server::start();
    let url = server.url("/topics/reborn");
    publish(&url, "kept");
    for id in ["1:1", "yesterday"] {
        let mut resumed = EventStream::open(&url, 1, Some(id));
        assert_eq!(resumed.next_event().name, "crore.gap", "{id}");
        assert_eq!(resumed.next_message().data, "kept", "{id}");
    }
}

#[test]
fn connections_are_kept_and_requests_pipelined() {
    let server = Server::start();
    let mut raw = Raw::connect(&server.clients);
    let request = |body: &str| {
        format!(
            "POST /topics/pipe HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    raw.send((request("one") + &request("two") + &request("three")).as_bytes());
    for _ in 0..3 {
        assert!(raw.read_until(b"\r\n\r\n").starts_with("HTTP/1.1 200 "));
        raw.read_until(b"}");
    }
    let history = curl(&[&server.url("/topics/pipe")]).expect(200).json();
    assert_eq!(payloads(&history), ["one", "two", "three"]);
}

#[test]
fn other_origins_are_refused() {
    let server = Server::start();
    let url = server.url("/topics/cors");
    let own = format!("Origin: http://{}", server.operators);
    let answer = curl(&["-H", &own, "-d", "x", &url]).expect(200);
    assert_eq!(
        answer.header("access-control-allow-origin"),
        Some(format!("http://{}", server.operators).as_str())
    );
    let foreign = ["-H", "Origin: https://evil.example", "-d", "x", &url];
    curl(&foreign).expect_problem(403, "origin_forbidden");
    let preflight =
        ["-X", "OPTIONS", "-H", &own, "-H", "Access-Control-Request-Method: POST", &url];
    let answer = curl(&preflight);
    assert!(answer.status == 200 || answer.status == 204, "{answer:?}");
    assert!(answer.header("access-control-allow-methods").is_some(), "{answer:?}");
}

/// The payloads of a history's messages, in order.
#[track_caller]
fn payloads(history: &Value) -> Vec<String> {
    let messages = history["messages"].as_array();
    let messages = messages.unwrap_or_else(|| panic!("no messages in {history}"));
    messages.iter().map(|message| message["data"].as_str().unwrap_or("").to_owned()).collect()
}

/// The position in an acknowledgement.
fn position(acknowledgement: &Value) -> String {
    let epoch = acknowledgement["epoch"].as_str().unwrap();
    format!("{epoch}:{}", acknowledgement["offset"])
}
