//! Rules for topics on the real binary: the most specific one wins, and the effect of each of their
//! values. Permission to publish is in `entitlement_permissions.rs`, durability in `durable.rs`,
//! changes at run time in `reload.rs`.

use std::time::Instant;

use end_to_end::PATIENCE;
use end_to_end::curl::{Answer, curl, publish};
use end_to_end::metrics::Metrics;
use end_to_end::native::{Frame, Native};
use end_to_end::rate::Rate;
use end_to_end::raw::Raw;
use end_to_end::server::{Place, Server, WIDE_SEND_BUFFER};
use serde_json::json;

fn post(server: &Server, topic: &str, payload: &str) -> Answer {
    curl(&["-d", payload, &server.url(&format!("/topics/{topic}"))])
}

fn history_len(server: &Server, topic: &str) -> usize {
    let answer = curl(&[&server.url(&format!("/topics/{topic}"))]).expect(200);
    answer.json()["messages"].as_array().map_or(0, Vec::len)
}

/// At each level a name takes precedence over `+`, and `+` over `#`; only the most specific rule
/// applies.
#[test]
fn the_most_specific_rule_wins() {
    let rule = |filter: &str, bytes: u64| {
        format!("[[rule]]\nfilter = \"{filter}\"\nmessage_bytes_max = {bytes}\n")
    };
    // In an order in which the first or the last match would be wrong.
    let rules = [
        rule("a/+/c", 4),
        rule("#", 1),
        rule("a/b/#", 8),
        rule("a/#", 2),
        "[[rule]]\nfilter = \"a/b/c/d\"\nhistory_messages_max = 1\n".into(),
    ];
    let server = Server::with_configuration(&rules.concat());
    for (topic, bytes_max) in [
        ("z", 1),
        ("z/b/c", 1),
        ("a", 2),
        ("a/x", 2),
        ("a/x/c", 4),
        ("a/x/c/d", 2),
        ("a/b", 8),
        ("a/b/c", 8),
        ("a/b/c/x", 8),
    ] {
        post(&server, topic, &"x".repeat(bytes_max)).expect(200);
        post(&server, topic, &"x".repeat(bytes_max + 1)).expect_problem(413, "message_too_large");
    }
    // No value of a less specific rule applies.
    post(&server, "a/b/c/d", &"x".repeat(9)).expect(200);
    post(&server, "a/b/c/d", "y").expect(200);
    assert_eq!(history_len(&server, "a/b/c/d"), 1);
}

#[test]
fn history_is_limited_by_number_and_age() {
    let server = Server::with_configuration(
        "[[rule]]\nfilter = \"few\"\nhistory_messages_max = 2\n[[rule]]\nfilter = \"none\"\nhistory_messages_max = 0\n\
         [[rule]]\nfilter = \"young\"\nhistory_age_max = \"1s\"\n",
    );
    for topic in ["few", "none", "young", "other"] {
        (0..4).for_each(|_| drop(post(&server, topic, "x").expect(200)));
    }
    assert_eq!(history_len(&server, "few"), 2);
    assert_eq!(history_len(&server, "none"), 0);
    let deadline = Instant::now() + PATIENCE;
    while history_len(&server, "young") > 0 {
        assert!(Instant::now() < deadline, "it does not age");
    }
    assert_eq!(history_len(&server, "other"), 4);
}

/// The rate of a topic over all publishers: over several connections, and by each protocol.
#[test]
fn messages_of_a_topic_are_limited_per_second() {
    let server =
        Server::with_configuration("[[rule]]\nfilter = \"slow/#\"\npublish_rate_max = 3\n");
    let rate = Rate::of(3);
    let statuses: Vec<u16> = (0..8).map(|_| post(&server, "slow/a", "x").status).collect();
    assert_eq!(statuses[..3], [200; 3], "{statuses:?}");
    let refused = statuses.iter().filter(|status| **status == 429).count();
    rate.check(8 - refused, 8);
    let (mut native, _) = Native::connect(&server.clients, None);
    (1..9).for_each(|request| native.publish(request, "slow/a", "x"));
    let frames: Vec<Frame> = (1..9).map(|_| native.next_frame()).collect();
    let refused_by_native = frames.iter().filter(|frame| {
        matches!(frame, Frame::Error { reference: 1, code: 329, temporary: true, .. })
    });
    let refused_by_native = refused_by_native.count();
    let published = frames.iter().filter(|frame| matches!(frame, Frame::Published(_)));
    assert_eq!(published.count() + refused_by_native, 8, "{frames:?}");
    rate.check(16 - refused - refused_by_native, 16);
    let scrape = Metrics::of(&server.operators).scrape();
    for counted in [
        "crore_refusals_total{reason=\"rate_limited\"}",
        "crore_limits_hit_total{limit=\"rule.publish_rate_max\"}",
    ] {
        let refused = (refused + refused_by_native) as u64;
        assert_eq!(scrape.number(counted), refused, "{counted}");
    }
    // Each topic has its own rate.
    post(&server, "slow/b", "x").expect(200);
    (0..8).for_each(|_| drop(post(&server, "fast", "x").expect(200)));
}

#[test]
fn rules_permit_retained_messages() {
    let server = Server::with_configuration("[[rule]]\nfilter = \"fleeting\"\nretained = false\n");
    let retain = |topic: &str| {
        let body = json!({"topic": topic, "data": "kept", "retain": true}).to_string();
        curl(&["-d", &body, &server.url("/publish")])
    };
    retain("fleeting").expect_problem(403, "forbidden");
    post(&server, "fleeting", "passes").expect(200);
    retain("lasting").expect(200);
}

/// Two independent logs: topics use the log of their rule, and that one is on disk.
#[test]
fn rules_select_the_log() {
    let mut place = Place::new("127.0.0.1:0");
    place.configure(&format!(
        "[node]\ndata_dir = {:?}\n[[log]]\nname = \"memory\"\n[[log]]\nname = \"disk\"\ndurability = \"disk\"\nbytes_max = \"16MiB\"\n\
         [[rule]]\nfilter = \"orders/#\"\nlog = \"disk\"\n",
        place.path("data")
    ));
    let server = place.start();
    let kept = publish(&server.url("/topics/orders/1"), "kept");
    let lost = publish(&server.url("/topics/prices"), "lost");
    assert_ne!(kept["epoch"], lost["epoch"]);
    server.process.signal("KILL");
    let _ = server.end();
    let server = place.start();
    assert_eq!(history_len(&server, "orders/1"), 1);
    assert_eq!(history_len(&server, "prices"), 0);
    assert_eq!(publish(&server.url("/topics/orders/1"), "more")["epoch"], kept["epoch"]);
    assert_ne!(publish(&server.url("/topics/prices"), "new")["epoch"], lost["epoch"]);
}

/// The number of messages of `PAYLOAD_BYTES`: many more than the buffers of a socket and its
/// receiver hold.
const MESSAGES: usize = 150;
const PAYLOAD_BYTES: usize = 100_000;

/// A client that does not read while `MESSAGES` are published: the numbers of its received
/// messages, and its other frames.
fn stalled(server: &Server, topic: &str) -> (Vec<usize>, Vec<Frame>) {
    let (mut native, _) = Native::connect(&server.clients, None);
    let answer = native.subscribe_one(1, topic);
    assert!(matches!(answer, Frame::Subscribed { .. }), "{answer:?}");
    let mut publisher = Raw::connect(&server.clients);
    for number in 0..MESSAGES {
        let body = format!("{number:08}{}", "x".repeat(PAYLOAD_BYTES));
        let length = body.len();
        let head = format!(
            "POST /topics/{topic} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n"
        );
        publisher.send((head + &body).as_bytes());
        assert_eq!(publisher.read_answer().0, 200);
    }
    let (mut numbers, mut reported) = (Vec::new(), Vec::new());
    loop {
        match native.next_frame() {
            Frame::Message { payload, .. } => {
                let number = payload[..8].parse().expect("a number");
                numbers.push(number);
                if number == MESSAGES - 1 {
                    return (numbers, reported);
                }
            }
            Frame::CaughtUp(_) => {}
            frame @ (Frame::Unsubscribed { .. } | Frame::Skipped { reason: 3, .. }) => {
                reported.push(frame);
                return (numbers, reported);
            }
            other => reported.push(other),
        }
    }
}

#[test]
fn lagging_subscriptions_follow_their_policy() {
    let rule =
        |policy: &str| format!("[[rule]]\nfilter = \"{policy}\"\nwhen_lagging = \"{policy}\"\n");
    let few = "[limits]\noutbox_len_max = 4\n";
    let rules = ["replay", "conflate", "drop", "disconnect"].map(rule).concat();
    let server = Server::with_configuration(&format!("{WIDE_SEND_BUFFER}{few}{rules}"));
    let (numbers, reported) = stalled(&server, "replay");
    assert_eq!(numbers, (0..MESSAGES).collect::<Vec<_>>());
    assert!(reported.is_empty(), "{reported:?}");

    let is_ascending = |numbers: &[usize]| numbers.is_sorted_by(|one, next| one < next);
    let (numbers, reported) = stalled(&server, "conflate");
    assert!(is_ascending(&numbers) && numbers.len() < MESSAGES, "{numbers:?}");
    assert_eq!(numbers.last(), Some(&(MESSAGES - 1)));
    let conflated =
        |frame: &Frame| matches!(frame, Frame::Skipped { subscription: 1, reason: 1, .. });
    assert!(!reported.is_empty() && reported.iter().all(conflated), "{reported:?}");

    let (numbers, reported) = stalled(&server, "drop");
    assert!(is_ascending(&numbers) && numbers.len() < MESSAGES, "{numbers:?}");
    let dropped =
        |frame: &Frame| matches!(frame, Frame::Skipped { subscription: 1, reason: 3, .. });
    assert!(reported.iter().all(dropped), "{reported:?}");

    let (numbers, reported) = stalled(&server, "disconnect");
    assert!(is_ascending(&numbers) && numbers.len() < MESSAGES, "{numbers:?}");
    assert_eq!(reported.last(), Some(&Frame::Unsubscribed { subscription: 1, code: 2500 }));
}
