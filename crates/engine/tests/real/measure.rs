//! Rates: `cargo test --release -p engine --features real-brokers --test real -- --measure`.

use crate::node::{Node, World, key_of};
use std::fs;
use std::time::{Duration, Instant};
use stdx::hash::Partitioner;

const PARTITIONS: u32 = 4;
const RECORDS: u64 = 200_000;
/// The time for which a follower stands still: less than that after which its leaders go on
/// without it.
const STILL: Duration = Duration::from_millis(2_500);

/// Publishes records of 200 bytes and reads them back, then reads them with a second node. Then it
/// publishes while the brokers' answers wait for a follower.
pub fn run(world: &mut World) {
    world.begin("measure");
    world.create(PARTITIONS, 3, &[]);
    let settings = engine::EngineSettings { credit_bytes: u32::MAX, ..world.settings(PARTITIONS) };
    let node = Node::start(settings.clone(), 1);
    node.wait_until_available(PARTITIONS);
    let keys: Vec<String> =
        (0..PARTITIONS).map(|place| key_of(place, PARTITIONS, Partitioner::Murmur2)).collect();
    let payload = "x".repeat(200);
    let (start, cpu) = (Instant::now(), cpu_ms());
    for counter in 1..=RECORDS / u64::from(PARTITIONS) {
        for place in 0..PARTITIONS {
            node.publish(place, counter, &keys[place as usize], &payload);
        }
        // The counts are a tenth of a second old.
        while counter % 250 == 0
            && u64::from(PARTITIONS) * counter > node.engine.statistics().records + 40_000
        {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    wait(&node);
    report("publish and tail", start, cpu);
    let (start, cpu) = (Instant::now(), cpu_ms());
    let late = Node::start(settings, 2);
    wait(&late);
    report("tail only", start, cpu);
    drop(late);
    publish_without_answers(world, &node, &keys);
}

/// Publishes 1,000 records a second to the partitions of the brokers that run.
fn publish_without_answers(world: &mut World, node: &Node, keys: &[String]) {
    let leaders: Vec<u16> = (0..PARTITIONS).map(|place| world.leader(place as usize)).collect();
    let still = leaders[0];
    let places = (0..PARTITIONS).filter(|place| leaders[*place as usize] != still);
    let places: Vec<u32> = places.collect();
    let payload = "x".repeat(200);
    world.kafka.stop(still).expect("the broker runs");
    let (start, cpu) = (Instant::now(), cpu_ms());
    let mut count = 0;
    while start.elapsed() < STILL {
        let due = start.elapsed().as_millis() as u64;
        while count < due {
            let place = places[(count % places.len() as u64) as usize];
            let counter = RECORDS / u64::from(PARTITIONS) + 1 + count;
            node.publish(place, counter, &keys[place as usize], &payload);
            count += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let part = (cpu_ms() - cpu) as f64 / start.elapsed().as_millis() as f64;
    let pending = node.engine.statistics().pending;
    println!("answers wait: {part:.2} of a core at 1,000 records/s; {pending} of {count} pending");
    world.kafka.go_on(still).expect("the broker stands still");
    node.wait_for_counts("all records", |counts| counts.records == RECORDS + count);
}

fn wait(node: &Node) {
    while node.engine.statistics().records + node.engine.statistics().refused < RECORDS {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(node.engine.statistics().refused, 0);
}

fn report(name: &str, start: Instant, cpu: u64) {
    let seconds = start.elapsed().as_secs_f64();
    let each_us = (cpu_ms() - cpu) as f64 * 1_000.0 / RECORDS as f64;
    println!("{name}: {:.0} records/s, {each_us:.1} us of CPU each", RECORDS as f64 / seconds);
}

/// CPU time of this process, librdkafka's threads included; a tick is 10 ms.
fn cpu_ms() -> u64 {
    let text = fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = text.rsplit(')').next().expect("fields").split_whitespace().collect();
    let ticks = |index: usize| fields[index].parse::<u64>().expect("a number");
    (ticks(11) + ticks(12)) * 10
}
