//! Records that are gone: the partition begins anew.

use crate::node::{Node, PATIENCE, World, check_letters, restarts};
use broker::engine::EngineLetter;
use engine::{EngineSettings, admin};
use std::thread;
use std::time::{Duration, Instant};

pub fn a_new_topic_begins_anew(world: &mut World) {
    world.create(1, 3, &[]);
    let node = Node::start(world.settings(1), 1);
    node.wait_until_available(1);
    for counter in 1..=20 {
        node.publish(0, counter, "a", "old");
    }
    node.wait_for_records(20);
    assert!(admin::delete_topic(&world.settings(1), &world.topic, PATIENCE).expect("deleted"));
    world.wait_for_partitions("deletion", <[_]>::is_empty);
    world.create(1, 3, &[]);
    let begins = node.wait_for_restarts(2);
    assert_ne!(begins[0].topic_id, begins[1].topic_id);
    assert_eq!((begins[1].after, begins[1].head), (0, 0));
    // Publications reach the new topic.
    let end = Instant::now() + PATIENCE;
    let mut counter = 100;
    while !node.records().iter().any(|it| &*it.publication.payload == b"new") {
        counter += 1;
        node.publish(0, counter, "a", "new");
        assert!(Instant::now() < end, "{:?}", node.engine.statistics());
        thread::sleep(Duration::from_millis(200));
    }
    check_letters(&node.letters());
    assert_eq!(node.engine.statistics().recreated, 1);
}

pub fn an_overtaken_tail_begins_anew(world: &mut World) {
    let small = [("retention.bytes", "1048576"), ("segment.bytes", "1048576")];
    world.create(1, 3, &small);
    // A home without credit, and little memory for it.
    let settings =
        EngineSettings { credit_bytes: 1, buffer_bytes_max: 64 << 10, ..world.settings(1) };
    let slow = Node::start(settings, 1);
    slow.wait_until_available(1);
    let writer = Node::start(world.settings(1), 2);
    writer.wait_until_available(1);
    let payload = "x".repeat(10_000);
    for counter in 1..=1_500 {
        writer.publish(0, counter, "a", &payload);
        if counter % 100 == 0 {
            writer.give_credit(0, 2 << 20);
            thread::sleep(Duration::from_millis(20));
        }
    }
    writer.wait_for_counts("1500 answers", |counts| counts.produce.count() == 1_500);
    assert!(slow.records().len() < 700, "{}", slow.records().len());
    // Retention has removed what the slow node has not read.
    let end = Instant::now() + PATIENCE;
    loop {
        let late = Node::start(world.settings(1), 3);
        if late.wait_for_restarts(1)[0].after > 1_000 {
            break;
        }
        assert!(Instant::now() < end, "retention removes nothing");
        thread::sleep(Duration::from_millis(500));
    }
    slow.give_credit(0, 1 << 30);
    slow.wait_for("the last record", |letters| {
        let records = crate::node::records(letters);
        records.iter().any(|it| it.offset == 1_500).then_some(())
    });
    check_letters(&slow.letters());
    let begins = slow.wait_for_restarts(2);
    assert!(begins.iter().all(|it| it.topic_id == begins[0].topic_id), "{begins:?}");
    assert!(begins.last().is_some_and(|it| it.after > 1_000), "{begins:?}");
    let statistics = slow.engine.statistics();
    assert_eq!(statistics.overtaken, begins.len() as u64 - 1);
    assert_eq!((statistics.truncations, statistics.watchdog), (0, 0));
}

/// The only broker with the newest records dies, and an older copy leads.
pub fn an_unclean_election_begins_anew(world: &mut World) {
    let weak = [("unclean.leader.election.enable", "true"), ("min.insync.replicas", "1")];
    world.create(1, 2, &weak);
    let settings = EngineSettings { request_timeout_ms: 3_000, ..world.settings(1) };
    let node = Node::start(settings, 1);
    node.wait_until_available(1);
    for counter in 1..=50 {
        node.publish(0, counter, "a", "kept");
    }
    node.wait_for_records(50);
    let all = world.wait_for_partitions("two copies", |all| all[0].in_sync.len() == 2);
    let leader = u16::try_from(all[0].leader.expect("a leader")).expect("a number");
    let follower = all[0].replicas.iter().find(|it| **it != i32::from(leader)).copied();
    let follower = u16::try_from(follower.expect("a follower")).expect("a number");
    world.kafka.kill(follower).expect("killed");
    world
        .wait_for_partitions("one copy", |all| all.first().is_some_and(|it| it.in_sync.len() == 1));
    node.wait_until_available(1);
    for counter in 51..=80 {
        node.publish(0, counter, "a", "lost");
    }
    node.wait_for_records(80);
    world.kafka.kill(leader).expect("killed");
    world.kafka.restart(follower).expect("it starts");
    world.wait_for_partitions("the older copy as the leader", |all| {
        all.first().is_some_and(|it| it.leader == Some(i32::from(follower)))
    });
    let begins = node.wait_for_restarts(2);
    assert_eq!(begins[0].topic_id, begins[1].topic_id);
    assert!((50..80).contains(&begins[1].head), "{begins:?}");
    let end = Instant::now() + PATIENCE;
    let mut counter = 100;
    while !node.records().iter().any(|it| &*it.publication.payload == b"new") {
        counter += 1;
        node.publish(0, counter, "a", "new");
        assert!(Instant::now() < end, "{:?}", node.engine.statistics());
        thread::sleep(Duration::from_millis(200));
    }
    let letters = node.letters();
    check_letters(&letters);
    assert_eq!(restarts(&letters).len(), 2);
    assert_eq!(node.engine.statistics().truncations, 1);
    let new = node.records().into_iter().find(|it| &*it.publication.payload == b"new");
    let old = node.records().into_iter().find(|it| &*it.publication.payload == b"lost");
    let (new, old) = (new.expect("a record"), old.expect("a record"));
    assert!(new.lineage > old.lineage, "{} after {}", new.lineage, old.lineage);
}

/// Keys have moved to other partitions: publications stop, and reading continues.
pub fn added_partitions_stop_publications(world: &mut World) {
    world.create(1, 3, &[]);
    let node = Node::start(world.settings(1), 1);
    node.wait_until_available(1);
    node.publish(0, 1, "a", "before");
    node.wait_for_records(1);
    let mut tool = world.kafka.tool("org.apache.kafka.tools.TopicCommand");
    tool.args(["--bootstrap-server", &world.kafka.bootstrap(), "--alter", "--partitions", "2"]);
    assert!(tool.args(["--topic", &world.topic]).status().expect("the tool runs").success());
    node.wait_for_counts("an unavailable partition", |counts| counts.unavailable == 1);
    node.publish(0, 2, "a", "after");
    node.wait_for("a refusal", |letters| {
        let is_refusal = |letter: &EngineLetter| matches!(letter, EngineLetter::Refused { .. });
        letters.iter().any(|(_, letter)| is_refusal(letter)).then_some(())
    });
    assert_eq!(node.refused(), [2]);
    assert_eq!(node.engine.statistics().starting, 0);
}
