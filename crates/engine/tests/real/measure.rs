//! Rates: `cargo test --release -p engine --features real-brokers --test real -- --measure`.

use crate::node::{Node, World, key_of};
use std::fs;
use std::time::Instant;
use stdx::hash::Partitioner;

const PARTITIONS: u32 = 4;
const RECORDS: u64 = 200_000;

/// Publishes records of 200 bytes and reads them back, then reads them with a second node.
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
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
    wait(&node);
    report("publish and tail", start, cpu);
    let (start, cpu) = (Instant::now(), cpu_ms());
    let late = Node::start(settings, 2);
    wait(&late);
    report("tail only", start, cpu);
}

fn wait(node: &Node) {
    while node.engine.statistics().records + node.engine.statistics().refused < RECORDS {
        std::thread::sleep(std::time::Duration::from_millis(5));
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
