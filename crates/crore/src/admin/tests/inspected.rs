//! The node through the port: connections, topics, publications, as operators ask for them.

use super::Port;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

impl Port {
    fn json(&self, line: &str, body: Option<&Value>) -> (u16, Value) {
        let body = body.map(Value::to_string).unwrap_or_default();
        let fields = if body.is_empty() {
            "localhost".into()
        } else {
            format!("localhost\r\nContent-Type: application/json\r\nContent-Length: {}", body.len())
        };
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "{line} HTTP/1.1\r\nHost: {fields}\r\nConnection: close\r\n\r\n{body}")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn get(&self, path: &str) -> Value {
        let (status, value) = self.json(&format!("GET {path}"), None);
        assert_eq!(status, 200, "{path} {value}");
        value
    }

    fn clients(&self) -> SocketAddr {
        let node = self.node.read().unwrap();
        node.as_ref().unwrap().addresses()[0]
    }

    /// An event stream of a topic, from its first event on.
    fn stream(&self, topic: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.clients()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(
            stream,
            "GET /events?topic={topic} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        )
        .unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        stream
    }
}

/// Asks until it is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_connection_is_found_looked_at_and_ended() {
    let port = Port::open();
    let mut stream = port.stream("news/one");
    until("the stream is subscribed", || {
        port.get("/api/v1/connections?protocol=events")["connections"][0]["subscriptions"] == 1
    });
    let page = port.get("/api/v1/connections?address=127.0.0.0/8");
    assert_eq!(page["next"], Value::Null);
    let found = &page["connections"][0];
    assert_eq!(found["protocol"], "events");
    assert_eq!(found["address"], "127.0.0.1");
    assert_eq!((&found["tls"], &found["lagging"]), (&json!(false), &json!(false)));
    let id = found["id"].as_str().unwrap().to_owned();
    // Its outbox may fill and empty between two requests.
    let without_outbox = |connection: &Value| {
        let mut connection = connection.clone();
        let outbox = connection.as_object_mut().unwrap().remove("outbox");
        assert!(outbox.unwrap()["frames"].is_u64());
        connection
    };
    let one = port.get(&format!("/api/v1/connections/{id}"));
    assert_eq!(without_outbox(&one), without_outbox(found));

    let path = format!("/api/v1/connections/{id}/subscriptions");
    let subscriptions = port.get(&path);
    assert_eq!(subscriptions["subscriptions"][0]["topic"], "news/one");
    assert_eq!(subscriptions["next"], Value::Null);
    for nobody in [
        "/api/v1/connections?address=10.0.0.0/8",
        "/api/v1/connections?protocol=native",
        "/api/v1/connections?sub=anna",
        "/api/v1/connections?lagging=true",
    ] {
        assert_eq!(port.get(nobody)["connections"], json!([]), "{nobody}");
    }

    let end = format!("DELETE /api/v1/connections/{id}");
    assert_eq!(port.json(&end, None).0, 204);
    let told = &port.get("/api/v1/logs?target=operators")["lines"][0];
    assert_eq!(told["message"], "An operator has closed a connection.");
    assert_eq!((&told["connection"], &told["may_return"]), (&json!(id), &json!("false")));
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    // Its end is known to the client first.
    until("it has gone", || port.json(&end, None).0 == 404);
}

#[test]
fn a_topic_is_published_to_found_and_read() {
    let port = Port::open();
    let publish = |body: Value| port.json("POST /api/v1/publish", Some(&body));
    let (status, first) = publish(json!({"topic": "a/b", "data": "one", "retain": true}));
    assert_eq!((status, &first["offset"]), (200, &json!(1)));
    let (_, second) =
        publish(json!({"topic": "a/b", "b64data": "dHdv", "content_type": "text/plain"}));
    publish(json!({"topic": "c", "data": "other"}));
    let _stream = port.stream("a/b");
    until("the topic has a subscriber", || port.get("/api/v1/topic?topic=a/b")["subscribers"] == 1);

    let topics = port.get("/api/v1/topics?prefix=a/");
    assert_eq!(topics["topics"].as_array().unwrap().len(), 1);
    assert_eq!(topics["topics"][0]["position"], second["position"]);
    assert_eq!(topics["topics"][0]["retained_bytes"], 3);
    assert!(topics["topics"][0]["rate"].is_number(), "{topics}");
    assert_eq!(port.get("/api/v1/topics?filter=%2B")["topics"][0]["topic"], "c");
    let one = port.get("/api/v1/topic?topic=a/b");
    assert_eq!(one["records"]["count"], 2);
    assert_eq!(one["records"]["oldest"], first["position"]);
    assert_eq!((&one["log"], &one["rule"]), (&json!("memory"), &json!("")));

    let history = port.get("/api/v1/topic/history?topic=a/b");
    let texts: Vec<&Value> = (0..2).map(|at| &history["messages"][at]["data"]).collect();
    assert_eq!(texts, ["one", "two"]);
    assert_eq!(history["messages"][1]["content_type"], "text/plain");
    let since = first["position"].as_str().unwrap();
    let rest = port.get(&format!("/api/v1/topic/history?topic=a/b&since={since}"));
    assert_eq!(rest["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn pages_follow_one_another() {
    let port = Port::open();
    for number in 0..25 {
        let body = json!({"topic": format!("t/{number}"), "data": "x"});
        assert_eq!(port.json("POST /api/v1/publish", Some(&body)).0, 200);
    }
    let (mut names, mut path) = (Vec::new(), "/api/v1/topics?limit=10".to_owned());
    loop {
        let page = port.get(&path);
        let topics = page["topics"].as_array().unwrap();
        names.extend(topics.iter().map(|topic| topic["topic"].to_string()));
        match page["next"].as_str() {
            Some(next) => path = format!("/api/v1/topics?limit=10&after={next}"),
            None => break,
        }
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 25);
}

#[test]
fn rules_limits_and_statistics() {
    let port = Port::open();
    let rules = port.get("/api/v1/rules");
    assert_eq!(rules["rules"][0]["history_messages_max"], 1_000);
    assert_eq!(rules["logs"][0]["durability"], "memory");
    let limits = port.get("/api/v1/limits");
    let of_topics = limits["limits"].as_array().unwrap().iter();
    let of_topics = of_topics.filter(|limit| limit["option"] == "limits.topics_max");
    assert_eq!(of_topics.count(), 1);
    let statistics = port.get("/api/v1/statistics");
    assert_eq!(statistics["io_threads"], 2);
    assert!(statistics["memory"].as_object().unwrap().len() > 5);
    let history = port.get("/api/v1/statistics/history?from=0");
    assert_eq!((&history["samples_max"], &history["samples"]), (&json!(150), &json!([])));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let port = Port::open();
    for (path, status) in [
        ("/api/v1/connections?limit=0", 400),
        ("/api/v1/connections?limit=1001", 400),
        ("/api/v1/connections?after=x", 400),
        ("/api/v1/connections?address=x", 400),
        ("/api/v1/connections?protocol=amqp", 400),
        ("/api/v1/connections?colour=red", 400),
        ("/api/v1/connections/zz", 404),
        ("/api/v1/connections/ffff000000000000", 404),
        ("/api/v1/connections/5/subscriptions", 404),
        ("/api/v1/topics?filter=a/%23/b", 400),
        ("/api/v1/topic", 400),
        ("/api/v1/topic?topic=a/%23", 400),
        ("/api/v1/topic?topic=nobody/knows", 404),
        ("/api/v1/topic/history?topic=a&since=5", 400),
        ("/api/v1/statistics/history?from=x", 400),
        ("/api/v1/statistics/history?from=9007199254740992", 400),
        ("/api/v1/statistics/history?until=5", 400),
    ] {
        let (found, value) = port.json(&format!("GET {path}"), None);
        assert_eq!(found, status, "{path}");
        assert_eq!(value["status"], status, "{path}");
    }
    assert_eq!(port.json("POST /api/v1/publish", None).0, 415);
    // The window of a drain is a member of the body: as a parameter it would be ignored.
    for (request, known) in [
        ("POST /api/v1/drain?window=1s", "known parameters: none"),
        ("GET /api/v1/statistics?from=5", "known parameters: none"),
        ("GET /api/v1/rules?topic=a", "known parameters: none"),
        ("GET /api/v1/session?x", "known parameters: none"),
        ("DELETE /api/v1/connections/5?returns=true", "known parameters: return"),
        ("GET /api/v1/logs?levels=info", "known parameters: after, limit, level, target"),
    ] {
        let (status, value) = port.json(request, None);
        assert_eq!(
            (status, &value["code"]),
            (400, &json!("unknown_parameter")),
            "{request}: {value}"
        );
        let detail = value["detail"].as_str().unwrap();
        assert!(detail.ends_with(known), "{detail}");
    }
    // A method that a path does not have is the first thing that is wrong.
    for request in ["PATCH /api/v1/topics?prefix=a", "TRACE /api/v1/session?x"] {
        let (status, value) = port.json(request, None);
        assert_eq!((status, &value["code"]), (405, &json!("method_not_allowed")));
    }
    let no_topic = json!({"data": "x"});
    assert_eq!(port.json("POST /api/v1/publish", Some(&no_topic)).0, 400);
}

#[test]
fn a_node_that_has_stopped_says_so() {
    let port = Port::open();
    let node = port.node.write().unwrap().take();
    node.unwrap().stop(Duration::from_secs(60)).unwrap();
    assert_eq!(port.json("GET /api/v1/connections", None).0, 503);
    assert_eq!(port.json("GET /api/v1/statistics", None).0, 503);
}

#[test]
fn what_operators_revoke_is_told() {
    let port = Port::open();
    let body = json!({"sub": "anna"});
    let (status, revocation) = port.json("POST /api/v1/revocations", Some(&body));
    assert_eq!(status, 201, "{revocation}");
    let id = revocation["id"].to_string();
    let path = format!("DELETE /api/v1/revocations/{id}");
    assert_eq!(port.json(&path, None).0, 204);
    let page = port.get("/api/v1/logs?target=operators");
    let told =
        |place: usize| (&page["lines"][place]["message"], &page["lines"][place]["revocation"]);
    let revoked = json!("An operator has revoked tokens.");
    assert_eq!(told(0), (&revoked, &json!(id)));
    let taken_back = json!("An operator has cancelled a revocation.");
    assert_eq!(told(1), (&taken_back, &json!(id)));
}
