//! The normal course.

use crate::node::{Node, PATIENCE, World, check_letters, key_of, records, restarts};
use broker::engine::EngineLetter;
use broker::mail::HomeId;
use engine::{EngineSettings, Resume, admin};
use stdx::hash::Partitioner;

pub fn topics_are_created_and_examined(world: &mut World) {
    let settings = world.settings(4);
    let described = admin::describe(&settings, PATIENCE).expect("a description");
    assert_eq!(described.brokers_count, 3);
    let lacks = admin::lacks(&settings, &described);
    assert_eq!(lacks.len(), 1);
    assert!(lacks[0].to_string().ends_with("it does not exist"), "{}", lacks[0]);
    let created = admin::create(&settings, PATIENCE).expect("created");
    assert_eq!(created, std::slice::from_ref(&world.topic));
    let all = world.wait_for_partitions("four partitions", |all| all.len() == 4);
    assert!(all.iter().all(|it| it.replicas.len() == 3), "{all:?}");
    assert!(admin::create(&settings, PATIENCE).expect("nothing to do").is_empty());
    let described = admin::describe_existing(&settings, PATIENCE).expect("a description");
    assert_eq!(admin::lacks(&settings, &described), []);
    assert_eq!(described.topics[0].option("message.timestamp.type"), Some("LogAppendTime"));
    let others = world.settings(5);
    let lacks =
        admin::lacks(&others, &admin::describe_existing(&others, PATIENCE).expect("a description"));
    assert_eq!(lacks.len(), 1);
    assert!(lacks[0].text.contains("4 partitions"), "{}", lacks[0]);
}

pub fn all_nodes_read_the_same_records(world: &mut World) {
    world.create(4, 3, &[]);
    let (one, two) = (Node::start(world.settings(4), 1), Node::start(world.settings(4), 2));
    for node in [&one, &two] {
        node.wait_until_available(4);
    }
    let keys: Vec<String> = (0..4).map(|place| key_of(place, 4, Partitioner::Murmur2)).collect();
    for counter in 1..=250 {
        for node in [&one, &two] {
            for place in 0..4 {
                let payload = format!("{counter}");
                node.publish(place, counter, &keys[place as usize], &payload);
            }
        }
    }
    one.wait_for_records(2_000);
    two.wait_for_records(2_000);
    let late = Node::start(world.settings(4), 3);
    late.wait_for_records(2_000);
    let of = |node: &Node, place: u32| -> Vec<String> {
        let letters = node.letters();
        check_letters(&letters);
        let own = letters.iter().filter(
            |(_, letter)| matches!(letter, EngineLetter::Tail(tail) if tail.partition.0 == place),
        );
        records(&own.cloned().collect::<Vec<_>>()).iter().map(|it| format!("{it:?}")).collect()
    };
    for place in 0..4 {
        assert_eq!(of(&one, place).len(), 500);
        assert_eq!(of(&one, place), of(&two, place));
        assert_eq!(of(&one, place), of(&late, place));
    }
    // Each node's records are in the order of its publications.
    for run in [1, 2] {
        let own = one.records().into_iter().filter(|it| it.name.is_some_and(|it| it.run == run));
        let mut last = std::collections::HashMap::new();
        for record in own {
            let counter = record.name.map_or(0, |name| name.counter);
            let before = last.insert(record.publication.topic.to_vec(), counter).unwrap_or(0);
            assert_eq!(counter, before + 1);
        }
    }
    let statistics = one.engine.statistics();
    assert_eq!(statistics.produced, 1_000);
    assert!(one.refused().is_empty());
}

pub fn a_node_continues_where_it_was(world: &mut World) {
    world.create(1, 3, &[]);
    let node = Node::start(world.settings(1), 1);
    node.wait_until_available(1);
    for counter in 1..=10 {
        node.publish(0, counter, "a", "x");
    }
    let before = node.wait_for_records(10);
    let begin = node.wait_for_restarts(1)[0].clone();
    let last = before.last().expect("a record").clone();
    node.engine.stop();
    let mut settings = world.settings(1);
    let resume =
        Resume { topic_id: begin.topic_id, through: before[4].offset, lineage: Some(last.lineage) };
    settings.logs[0].partitions[0].resume = Some(resume);
    let next = Node::start(settings.clone(), 2);
    let after = next.wait_for_records(5);
    assert_eq!(format!("{after:?}"), format!("{:?}", &before[5..]));
    assert!(restarts(&next.letters()).is_empty(), "the partition continues");
    next.engine.stop();
    // Another topic than the home knew: the partition begins.
    let other = Resume { topic_id: begin.topic_id ^ 1, ..resume };
    settings.logs[0].partitions[0].resume = Some(other);
    let next = Node::start(settings, 3);
    let again = next.wait_for_restarts(1)[0].clone();
    assert_eq!((again.topic_id, again.after, again.head), (begin.topic_id, 0, 10));
    next.wait_for_records(10);
    check_letters(&next.letters());
}

pub fn a_slow_home_does_not_delay_another(world: &mut World) {
    world.create(2, 3, &[]);
    let mut settings = world.settings(2);
    settings.homes_count = 2;
    settings.logs[0].partitions[1].home = HomeId(1);
    let node = Node::start(EngineSettings { credit_bytes: 10_000, ..settings }, 1);
    node.wait_until_available(2);
    node.give_credit(0, 1 << 30);
    let keys: Vec<String> = (0..2).map(|place| key_of(place, 2, Partitioner::Murmur2)).collect();
    let payload = "x".repeat(1_000);
    for counter in 1..=2_000 {
        for place in 0..2 {
            node.publish(place, counter, &keys[place as usize], &payload);
        }
    }
    let count = |letters: &[(HomeId, EngineLetter)], home| {
        let own: Vec<_> = letters.iter().filter(|(it, _)| *it == HomeId(home)).cloned().collect();
        records(&own).len()
    };
    node.wait_for("2000 records", |letters| (count(letters, 0) == 2_000).then_some(()));
    let slow = count(&node.letters(), 1);
    assert!((1..400).contains(&slow), "{slow} records for a home with little credit");
    node.give_credit(1, 1 << 30);
    node.wait_for("2000 records", |letters| (count(letters, 1) == 2_000).then_some(()));
    check_letters(&node.letters());
}
