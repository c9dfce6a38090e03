//! Records of other producers.

use crate::node::{Node, PATIENCE, World, check_letters, key_of, records};
use kafka::{Client, Produce};
use std::ffi::CString;
use std::io::Write;
use std::process::Stdio;
use std::time::Instant;
use stdx::hash::Partitioner;

/// A partition that the client chooses by key.
const ANY: i32 = -1;

fn send(client: &Client, topic: &str, partition: i32, key: &str, value: &str) {
    let topic = CString::new(topic).expect("a name");
    let record = Produce {
        topic: &topic,
        partition,
        key: key.as_bytes(),
        value: Some(value.as_bytes()),
        headers: &[(c"internal", b"secret")],
        note: 0,
    };
    client.produce(&record).expect("taken");
}

/// Waits until all records have an answer.
fn flush(client: &Client) {
    let queue = client.main_queue();
    let end = Instant::now() + PATIENCE;
    while client.unanswered() > 0 {
        queue.poll(50);
        assert!(Instant::now() < end, "records without an answer");
    }
}

pub fn other_producers_reach_topics(world: &mut World) {
    world.create(8, 3, &[]);
    let mut settings = world.settings(8);
    settings.logs[0].partitioner = Partitioner::Crc32;
    let node = Node::start(settings, 1);
    node.wait_until_available(8);
    // librdkafka's own partitioner, with each compression.
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let client = world.producer(&[("compression.type", codec), ("linger.ms", "20")]);
        for number in 0..100 {
            send(&client, &world.topic, ANY, &format!("{codec}/{number}"), &"v".repeat(200));
        }
        flush(&client);
    }
    let records = node.wait_for_records(500);
    check_letters(&node.letters());
    assert!(records.iter().all(|it| it.name.is_none() && it.publication.attributes.is_empty()));
    assert!(records.iter().all(|it| it.publication.payload.len() == 200));
    assert_eq!(node.engine.statistics().unroutable, engine::UnroutableCounts::default());
}

pub fn unroutable_records_are_holes(world: &mut World) {
    world.create(2, 3, &[]);
    let node = Node::start(world.settings(2), 1);
    node.wait_until_available(2);
    let client = world.producer(&[]);
    let (here, there) = (key_of(0, 2, Partitioner::Murmur2), key_of(1, 2, Partitioner::Murmur2));
    send(&client, &world.topic, 0, &here, "first");
    send(&client, &world.topic, 0, &there, "in the wrong partition");
    send(&client, &world.topic, 0, "", "without a topic");
    send(&client, &world.topic, 0, "a/#", "not a topic");
    flush(&client);
    // A record without a key, by Kafka's own tool.
    let mut tool = world.kafka.tool("org.apache.kafka.tools.ConsoleProducer");
    tool.args(["--bootstrap-server", &world.kafka.bootstrap(), "--topic", &world.topic]);
    let mut process = tool.stdin(Stdio::piped()).spawn().expect("the tool starts");
    process.stdin.take().expect("input").write_all(b"no key\n").expect("written");
    assert!(process.wait().expect("it ends").success());
    send(&client, &world.topic, 0, &here, "last");
    flush(&client);
    node.wait_for_counts("unroutable records", |counts| {
        let unroutable = counts.unroutable;
        unroutable.wrong_partition == 1 && unroutable.invalid_topic == 2 && unroutable.no_key == 1
    });
    let found = node.wait_for_records(2);
    let payloads: Vec<_> = found.iter().map(|it| it.publication.payload.to_vec()).collect();
    assert_eq!(payloads, [b"first".to_vec(), b"last".to_vec()]);
    assert!(found[1].offset >= 5, "the holes have offsets");
    check_letters(&node.letters());
}

pub fn aborted_transactions_are_holes(world: &mut World) {
    world.create(1, 3, &[]);
    let node = Node::start(world.settings(1), 1);
    node.wait_until_available(1);
    let client = world.producer(&[("transactional.id", "other")]);
    client.prepare_transactions(60_000).expect("prepared");
    for (is_committed, value) in [(false, "aborted"), (true, "committed"), (false, "aborted")] {
        client.begin_transaction().expect("begun");
        for _ in 0..5 {
            send(&client, &world.topic, 0, "a", value);
        }
        flush(&client);
        client.end_transaction(is_committed, 60_000).expect("ended");
    }
    // Everything is settled, the last marker too: 15 records and 3 markers.
    node.wait_for("the end", |letters| {
        let through = crate::node::tails(letters).map(|tail| tail.through).max();
        (through == Some(18)).then_some(())
    });
    let found = node.records();
    assert_eq!(found.len(), 5);
    assert!(found.iter().all(|it| &*it.publication.payload == b"committed"));
    // A node that starts finds the same, and is ready.
    let late = Node::start(world.settings(1), 2);
    late.wait_for_counts("ready partitions", |counts| counts.starting == 0);
    assert_eq!(format!("{:?}", records(&late.letters())), format!("{found:?}"));
    check_letters(&late.letters());
}

pub fn java_finds_the_records(world: &mut World) {
    world.create(3, 3, &[]);
    let node = Node::start(world.settings(3), 1);
    node.wait_until_available(3);
    // Kafka's own producer reaches the node,
    let mut tool = world.kafka.tool("org.apache.kafka.tools.ConsoleProducer");
    tool.args(["--bootstrap-server", &world.kafka.bootstrap(), "--topic", &world.topic]);
    tool.args(["--reader-property", "parse.key=true", "--reader-property", "key.separator=="]);
    let mut process = tool.stdin(Stdio::piped()).spawn().expect("the tool starts");
    let lines: String = (0..50).map(|number| format!("java/{number}=hello\n")).collect();
    process.stdin.take().expect("input").write_all(lines.as_bytes()).expect("written");
    assert!(process.wait().expect("it ends").success());
    node.wait_for_records(50);
    assert_eq!(node.engine.statistics().unroutable, engine::UnroutableCounts::default());
    // and Kafka's own consumer finds the node's records, at the offset less one.
    for counter in 1..=50 {
        let key = format!("k{counter}");
        let place = Partitioner::Murmur2.partition_of(key.as_bytes(), 3);
        node.publish(place, counter, &key, &format!("v{counter}"));
    }
    let records = node.wait_for_records(100);
    let mut tool = world.kafka.tool("org.apache.kafka.tools.consumer.ConsoleConsumer");
    tool.args(["--bootstrap-server", &world.kafka.bootstrap(), "--topic", &world.topic]);
    tool.args(["--from-beginning", "--max-messages", "100", "--timeout-ms", "60000"]);
    for property in ["print.key=true", "print.offset=true", "print.value=true"] {
        tool.args(["--formatter-property", property]);
    }
    let output = tool.stderr(Stdio::null()).output().expect("the tool runs").stdout;
    let output = String::from_utf8(output).expect("text");
    let found: std::collections::BTreeSet<&str> = output.lines().collect();
    for record in records {
        let key = String::from_utf8_lossy(&record.publication.topic[2..]).into_owned();
        let value = String::from_utf8_lossy(&record.publication.payload).into_owned();
        let line = format!("Offset:{}\t{key}\t{value}", record.offset - 1);
        assert!(found.contains(line.as_str()), "{line} is not in {output}");
    }
}

/// The tail of a partition waits for an open transaction of another producer, which is counted.
pub fn an_open_transaction_is_told(world: &mut World) {
    world.create(1, 3, &[]);
    let settings = engine::EngineSettings { silence_max_ms: 500, ..world.settings(1) };
    let node = Node::start(settings, 1);
    node.wait_until_available(1);
    let client = world.producer(&[("transactional.id", "slow")]);
    client.prepare_transactions(60_000).expect("prepared");
    client.begin_transaction().expect("begun");
    send(&client, &world.topic, 0, "a", "held");
    flush(&client);
    node.publish(0, 1, "b", "behind it");
    node.wait_for_counts("a held partition", |counts| counts.held == 1);
    assert!(node.records().is_empty());
    client.end_transaction(true, 60_000).expect("ended");
    let found = node.wait_for_records(2);
    assert_eq!(&*found[1].publication.payload, b"behind it");
    node.wait_for_counts("no held partition", |counts| counts.held == 0);
    assert_eq!(node.engine.statistics().watchdog, 0);
}
