//! Brokers that fail under load: nothing acknowledged is lost, nothing is twice.

use crate::node::{Node, PATIENCE, World, check_letters, key_of, restarts};
use engine::EngineSettings;
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};
use stdx::hash::Partitioner;

const PARTITIONS: u32 = 4;

/// Publishes to all partitions, while `fail` breaks brokers, and compares at the end.
fn under_load(world: &mut World, load: Duration, mut fail: impl FnMut(&mut World, Duration)) {
    world.create(PARTITIONS, 3, &[("min.insync.replicas", "2")]);
    // The homes keep all letters, and give no credit back.
    let settings = EngineSettings {
        request_timeout_ms: 3_000,
        credit_bytes: u32::MAX,
        ..world.settings(PARTITIONS)
    };
    let (node, other) = (Node::start(settings.clone(), 1), Node::start(settings, 2));
    node.wait_until_available(PARTITIONS);
    other.wait_until_available(PARTITIONS);
    let keys: Vec<String> =
        (0..PARTITIONS).map(|place| key_of(place, PARTITIONS, Partitioner::Murmur2)).collect();
    let start = Instant::now();
    let mut counter = 0;
    while start.elapsed() < load {
        counter += 1;
        for place in 0..PARTITIONS {
            node.publish(place, counter, &keys[place as usize], &format!("{counter}"));
        }
        thread::sleep(Duration::from_millis(10));
        fail(world, start.elapsed());
    }
    world.mend();
    // A last one in each partition, behind which nothing can follow.
    node.wait_until_available(PARTITIONS);
    let mut last = counter;
    let mut missing: BTreeSet<u32> = (0..PARTITIONS).collect();
    let end = Instant::now() + PATIENCE;
    while !missing.is_empty() {
        assert!(Instant::now() < end, "no end in {missing:?}: {:?}", node.engine.statistics());
        last += 1;
        for place in &missing {
            node.publish(*place, last, &keys[*place as usize], "end");
        }
        thread::sleep(Duration::from_millis(500));
        for record in node.records().iter().filter(|it| &*it.publication.payload == b"end") {
            let key = &record.publication.topic[2..];
            missing.retain(|place| keys[*place as usize].as_bytes() != key);
        }
    }
    other.wait_for_records(node.records().len());
    compare(&node, &other, counter, &keys);
}

/// Every publication is in the tail or was refused; the tail has each once, apart from copies that
/// the name tells; all nodes have the same.
fn compare(node: &Node, other: &Node, counter: u64, keys: &[String]) {
    for node in [node, other] {
        check_letters(&node.letters());
        assert_eq!(restarts(&node.letters()).len(), keys.len(), "no partition begins anew");
    }
    let mut refused = BTreeMap::new();
    for counter in node.refused() {
        *refused.entry(counter).or_insert(0) += 1;
    }
    let statistics = node.engine.statistics();
    let mut lost = 0;
    for key in keys {
        let topic = format!("t/{key}");
        let own =
            node.records().into_iter().filter(|it| *it.publication.topic == *topic.as_bytes());
        let names: Vec<u64> = own.filter_map(|it| it.name).map(|name| name.counter).collect();
        let mut greatest = 0;
        let mut seen = BTreeSet::new();
        let mut copies = 0;
        for name in names {
            if !seen.insert(name) {
                copies += 1;
                continue;
            }
            assert!(name > greatest, "{name} behind {greatest} in {topic}");
            greatest = name;
        }
        assert_eq!(copies, 0, "the producer is idempotent");
        lost += (1..=counter).filter(|it| !seen.contains(it)).count();
    }
    // Those that are missing were refused, or their fate is unknown; none is acknowledged.
    let refused: usize = refused.values().sum();
    let unanswered = refused as u64 + statistics.unknown;
    println!(
        "  {} publications, {lost} not in the tail, {refused} refused, {} unknown; produce mean \
              {} ms",
        u64::from(PARTITIONS) * counter,
        statistics.unknown,
        statistics.produce.sum_us() / statistics.produce.count().max(1) / 1_000
    );
    assert!(lost as u64 <= unanswered, "{lost} lost, {unanswered} without an acknowledgement");
    let sorted = |node: &Node| {
        let texts = node.records().iter().map(|it| format!("{it:?}")).collect::<Vec<_>>();
        texts.into_iter().collect::<BTreeSet<_>>()
    };
    // A slow engine may still bring the later ones of the last records.
    let end = Instant::now() + PATIENCE;
    while sorted(node) != sorted(other) {
        assert!(Instant::now() < end, "the nodes read the same");
        thread::sleep(Duration::from_millis(100));
    }
}

pub fn a_killed_leader_loses_nothing(world: &mut World) {
    let mut killed = None;
    under_load(world, Duration::from_secs(15), |world, elapsed| {
        if killed.is_none() && elapsed > Duration::from_secs(3) {
            let leader = world.leader(0);
            world.kafka.kill(leader).expect("killed");
            killed = Some(leader);
        }
    });
}

pub fn a_held_leader_loses_nothing(world: &mut World) {
    let mut held = None;
    under_load(world, Duration::from_secs(18), |world, elapsed| {
        if held.is_none() && elapsed > Duration::from_secs(2) {
            let leader = world.leader(0);
            world.kafka.stop(leader).expect("held");
            held = Some(leader);
        }
        if let Some(leader) = held.filter(|_| elapsed > Duration::from_secs(14)) {
            world.kafka.go_on(leader).expect("it continues");
        }
    });
}

pub fn many_killed_leaders(world: &mut World) {
    let mut next = Duration::from_secs(2);
    let mut down = None;
    let mut kills = 0;
    under_load(world, Duration::from_secs(400), |world, elapsed| {
        if elapsed < next {
            return;
        }
        match down.take() {
            Some(broker) => world.kafka.restart(broker).expect("it starts"),
            None => {
                let leader = world.leader(kills % PARTITIONS as usize);
                world.kafka.kill(leader).expect("killed");
                kills += 1;
                down = Some(leader);
            }
        }
        next = elapsed + Duration::from_secs(7);
    });
    println!("  {kills} kills");
}

/// Refusals come at once while brokers are missing, and end by themselves.
pub fn a_partition_without_brokers_refuses(world: &mut World) {
    world.create(1, 3, &[("min.insync.replicas", "2")]);
    let settings = EngineSettings {
        request_timeout_ms: 2_000,
        produce_timeout_ms: 3_000,
        ..world.settings(1)
    };
    let node = Node::start(settings, 1);
    node.wait_until_available(1);
    node.publish(0, 1, "a", "before");
    node.wait_for_records(1);
    let leader = world.leader(0);
    let followers: Vec<u16> = (1..=3).filter(|it| *it != leader).collect();
    for broker in &followers {
        world.kafka.kill(*broker).expect("killed");
    }
    // With too few copies, a record is refused in time, or its fate is unknown.
    let mut counter = 1;
    let end = Instant::now() + PATIENCE;
    while node.refused().is_empty() && node.engine.statistics().unknown == 0 {
        counter += 1;
        node.publish(0, counter, "a", "during");
        assert!(Instant::now() < end, "{:?}", node.engine.statistics());
        thread::sleep(Duration::from_millis(500));
    }
    for broker in followers {
        world.kafka.restart(broker).expect("it starts");
    }
    let end = Instant::now() + PATIENCE;
    let is_after =
        |node: &Node| node.records().iter().any(|it| &*it.publication.payload == b"after");
    while !is_after(&node) {
        counter += 1;
        node.publish(0, counter, "a", "after");
        assert!(Instant::now() < end, "{:?}", node.engine.statistics());
        thread::sleep(Duration::from_millis(500));
    }
    let refused = node.refused();
    let read: Vec<u64> =
        node.records().iter().filter_map(|it| it.name).map(|it| it.counter).collect();
    assert!(refused.iter().all(|it| !read.contains(it)), "a refusal is never false");
    assert_eq!(restarts(&node.letters()).len(), 1);
    check_letters(&node.letters());
}
