//! How long a store of a given size takes to open, and to tell what a node wants to know of it at
//! its start.
//!
//! `cargo run --release -p disk --example start -- DIRECTORY [bytes] [segment_bytes] [topics]
//! [cache_bytes]`
//!
//! The log is made first, 2 KiB a message, and left as a kill would leave it. Nothing of it is in
//! our memory then, but most of it is in the system's; drop its caches before the second part where
//! that matters (`start DIRECTORY 0` opens what is there).

#![forbid(unsafe_code)]

use disk::FileDisk;
use log::store::{Append, Store, StoreSettings};
use std::path::{Path, PathBuf};
use std::time::Instant;
use stdx::hash::{Seed, partition_of};

const PARTITIONS: u32 = 64;
const RECORD_BYTES: usize = 2_088;
const BATCH_RECORDS: u64 = 1_024;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().expect("a directory to write in"));
    let mut number = |default: u64| {
        let given = arguments.next();
        given.map_or(default, |given| given.parse().expect("a number"))
    };
    let (bytes, segment_bytes) = (number(10 << 30), number(64 << 20));
    let (topics_count, cache_bytes) = (number(100_000), number(64 << 20));
    if bytes > 0 {
        make(&directory, bytes, segment_bytes, topics_count);
    }
    for _ in 0..2 {
        let start = Instant::now();
        let mut store = open(&directory, segment_bytes);
        let opened = start.elapsed();
        let (mut topics, mut retained, mut recent) = (0u64, 0u64, 0u64);
        store.topics(&mut |_, _, _| topics += 1).expect("topics can be read");
        let listed = start.elapsed();
        store.retained(&mut |_, _, _| retained += 1).expect("retained messages can be read");
        let held = start.elapsed();
        store.recent(cache_bytes, &mut |_, _, _| recent += 1).expect("recent messages can be read");
        println!(
            "{} bytes, {} segments: opened after {opened:.1?}, {topics} topics after {listed:.1?}, {retained} retained \
             after {held:.1?}, {recent} recent messages after {:.1?}",
            store.bytes(),
            store.stats().segments_count,
            start.elapsed()
        );
    }
}

fn open(directory: &Path, segment_bytes: u64) -> Store<FileDisk> {
    let settings = StoreSettings {
        partitions_count: PARTITIONS,
        segment_bytes,
        bytes_max: 1 << 42,
        age_max_ms: 0,
        new_epoch: 1,
        hash_seed: Seed(1, 2),
    };
    let disk = FileDisk::open(directory).expect("a directory");
    Store::open(disk, settings, 0).expect("a log").0
}

fn make(directory: &Path, bytes: u64, segment_bytes: u64, topics_count: u64) {
    let mut store = open(directory, segment_bytes);
    let topics: Vec<Vec<u8>> =
        (0..topics_count).map(|number| format!("prices/{number:08}").into_bytes()).collect();
    let mut heads = store.heads().to_vec();
    let mut nth = 0u64;
    while store.bytes() < bytes {
        let mut records = Vec::new();
        for _ in 0..BATCH_RECORDS {
            let topic = nth.wrapping_mul(7_919) % topics_count;
            let partition = partition_of(&topics[topic as usize], PARTITIONS);
            let head = &mut heads[partition as usize];
            *head += 1;
            let mut record = vec![0x5a; RECORD_BYTES];
            record[0..4].copy_from_slice(&(RECORD_BYTES as u32).to_le_bytes());
            record[8..16].copy_from_slice(&head.to_le_bytes());
            record[16..32].fill(0);
            record[32..36].copy_from_slice(&(topic as u32).to_le_bytes());
            record[36..40].fill(0);
            records.push((topic, partition, record));
            nth += 1;
        }
        let batch: Vec<Append<'_>> = records
            .iter()
            .map(|(topic, partition, record)| Append {
                partition: *partition,
                topic: &topics[*topic as usize],
                record,
            })
            .collect();
        store.append(&batch, 0).expect("an append");
    }
}
