//! A compacted log: the engine keeps the newest record of each topic, and every node retains it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use brokers::Kafka;
use end_to_end::PATIENCE;
use end_to_end::cluster::{Follower, publish_to, wait_until};
use end_to_end::curl::{curl, publish};
use end_to_end::metrics::Metrics;
use serde_json::json;

use super::{Cluster, FAILOVER_PATIENCE, NODES};

/// The log, and its topic in the engine.
pub const LOG: &str = "prices";
/// The node that starts after the compaction.
const STARTING: usize = 2;
/// Messages on each topic before the compaction.
const MESSAGES: usize = 30;
/// Topics of one attempt to have a repetition in the log.
const REPEATED: usize = 8;
/// Kafka's consumer ends after so long without a record.
const CONSUMER_SILENCE: &str = "3000";
/// The least lag that nodes take, and more.
const LAG: &str = "min.compaction.lag.ms=1800000";
/// Compaction at once, of everything but the newest segment.
const AT_ONCE: &str = "min.compaction.lag.ms=0,segment.ms=300,min.cleanable.dirty.ratio=0.01";

/// Nodes retain the newest message of each topic, and a node that starts when the engine has
/// removed the others retains the same.
pub fn the_newest_message_lasts(cluster: &mut Cluster) {
    for number in 1..=MESSAGES {
        let node = cluster.node(number % NODES);
        for topic in ["a", "b", "c"] {
            publish(&node.url(&format!("/topics/{LOG}/{topic}")), &number.to_string());
        }
    }
    publish(&cluster.node(1).url(&format!("/topics/{LOG}/b?retain")), "");
    let newest = MESSAGES.to_string();
    let expected = [("a", Some(newest.clone())), ("b", None), ("c", Some(newest))];
    let has_all = |cluster: &Cluster, node: usize| {
        expected.iter().all(|(topic, payload)| retained(cluster, node, topic) == *payload)
    };
    for node in 0..NODES {
        wait_until("the retained messages", || has_all(cluster, node));
    }
    compact(cluster);
    start_again(cluster);
    assert!(has_all(cluster, STARTING), "after a start behind the compaction");
    let follower = Follower::begin(&cluster.nodes, STARTING, &format!("{LOG}/a"));
    publish(&cluster.node(0).url(&format!("/topics/{LOG}/a")), "live");
    follower.wait("a message", PATIENCE, |found| found.messages.len() == 1);
    assert!(follower.end().gaps.is_empty());
    for node in 0..NODES {
        let is_live = || retained(cluster, node, "a").as_deref() == Some("live");
        wait_until("the live message", is_live);
    }
}

/// Two nodes write the same message at once. All nodes drop the second record, but it is the newest
/// of its topic, so compaction keeps only that one. A node writes the retained message once more.
pub fn a_repetition_does_not_replace_the_newest_message(cluster: &mut Cluster) {
    let deadline = Instant::now() + FAILOVER_PATIENCE;
    let mut round = 0;
    let writer = loop {
        if let Some(writer) = restoring(cluster) {
            break writer;
        }
        assert!(Instant::now() < deadline, "no repetition came into the log");
        round += 1;
        publish_at_all_nodes(cluster, round);
        let until = Instant::now() + Duration::from_secs(8);
        while restoring(cluster).is_none() && Instant::now() < until {
            thread::sleep(Duration::from_millis(200));
        }
    };
    Metrics::of(&cluster.node(writer).operators)
        .wait_for("crore_engine_restorations_total", |count| count > 0);
    compact(cluster);
    start_again(cluster);
    for round in 1..=round {
        for number in 0..REPEATED {
            let topic = format!("repeated/{round}-{number}");
            let position = |node: usize| {
                let answer = curl(&[&cluster.node(node).url(&format!("/retained/{LOG}/{topic}"))]);
                let position = answer.header("crore-position").expect("a position");
                position.split_once(':').expect("an epoch and an offset").1.to_owned()
            };
            // The first of the repetitions, although only the last record is left.
            assert_eq!(position(STARTING), position(0), "{topic}");
        }
    }
}

fn start_again(cluster: &mut Cluster) {
    let server = cluster.servers[STARTING].take().expect("the node runs");
    server.process.signal("KILL");
    drop(server);
    cluster.start_node(STARTING);
}

/// Publishes the same messages at all nodes at once.
fn publish_at_all_nodes(cluster: &Cluster, round: usize) {
    thread::scope(|scope| {
        for node in 0..NODES {
            let address = cluster.node(node).clients.clone();
            scope.spawn(move || {
                for number in 0..REPEATED {
                    let name = format!("{round}-{number}");
                    let topic = format!("{LOG}/repeated/{name}");
                    let message =
                        json!({"topic": topic, "data": "newest", "idempotency_key": name});
                    let answer = publish_to(&address, &message).expect("an answer");
                    assert!(answer["offset"].is_u64(), "{answer}");
                }
            });
        }
    });
}

/// A node that has written a retained message once more.
fn restoring(cluster: &Cluster) -> Option<usize> {
    (0..NODES).find(|&number| {
        let scrape = Metrics::of(&cluster.node(number).operators).scrape();
        scrape.number("crore_engine_restorations_total") > 0
    })
}

/// The retained message of a topic at a node.
fn retained(cluster: &Cluster, node: usize, topic: &str) -> Option<String> {
    let answer = curl(&[&cluster.node(node).url(&format!("/retained/{LOG}/{topic}"))]);
    match answer.status {
        404 => None,
        _ => Some(answer.expect(200).body),
    }
}

/// Lets the engine remove all records but the newest of each topic, and waits for it.
fn compact(cluster: &Cluster) {
    alter(&cluster.kafka, &["--add-config", AT_ONCE]);
    let deadline = Instant::now() + FAILOVER_PATIENCE;
    loop {
        // The newest segment is never compacted: each of these may begin another one.
        publish(&cluster.node(0).url(&format!("/topics/{LOG}/end")), "");
        thread::sleep(Duration::from_millis(500));
        publish(&cluster.node(0).url(&format!("/topics/{LOG}/end")), "");
        let counts = records(&cluster.kafka);
        let is_done = |(topic, count): (&String, &usize)| topic.ends_with("/end") || *count == 1;
        if counts.iter().all(is_done) {
            break;
        }
        assert!(Instant::now() < deadline, "not compacted: {counts:?}");
    }
    alter(&cluster.kafka, &["--add-config", LAG]);
    let others = "segment.ms,min.cleanable.dirty.ratio";
    alter(&cluster.kafka, &["--delete-config", others]);
}

/// Alters options of the topic, by Kafka's own tool.
fn alter(kafka: &Kafka, changes: &[&str]) {
    let mut tool = kafka.tool("kafka.admin.ConfigCommand");
    tool.args(["--bootstrap-server", &kafka.bootstrap(), "--alter"]);
    tool.args(["--entity-type", "topics", "--entity-name", LOG]).args(changes);
    let output = tool.output().expect("the tool runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// The number of records of each topic, by Kafka's console consumer.
fn records(kafka: &Kafka) -> BTreeMap<String, usize> {
    let mut tool = kafka.tool("org.apache.kafka.tools.consumer.ConsoleConsumer");
    tool.args(["--bootstrap-server", &kafka.bootstrap(), "--topic", LOG, "--from-beginning"]);
    tool.args(["--timeout-ms", CONSUMER_SILENCE]);
    for property in ["print.key=true", "print.value=false"] {
        tool.args(["--formatter-property", property]);
    }
    let mut child = tool.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a consumer");
    let output = BufReader::new(child.stdout.take().expect("its output"));
    let mut counts = BTreeMap::new();
    for key in output.lines().map_while(Result::ok) {
        *counts.entry(key).or_default() += 1;
    }
    // It ends by its timeout, which is an error in its eyes.
    let _ = child.wait();
    counts
}
