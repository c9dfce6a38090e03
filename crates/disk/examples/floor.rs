//! Durable throughput of the store against the bare loop under it: the same bytes with `write` and
//! `fdatasync` and nothing else, batch by batch in turn, in the same directory.
//!
//! `cargo run --release -p disk --example floor -- DIRECTORY [record_bytes] [batch_records]
//! [batches]`
//!
//! With batches of one record it says what an acknowledgement waits for at least: p50 and p99 of
//! one `write` and one `fdatasync`, to be read beside the latencies that `crore bench pub
//! --inflight-max 1` prints in the same minute.

#![forbid(unsafe_code)]

use disk::FileDisk;
use log::store::{Append, Disk, Store, StoreSettings};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stdx::hash::Seed;

const ROUNDS: usize = 5;
const PARTITIONS: u32 = 64;
const TOPICS: u64 = 1_000;
/// What ends a batch in the store: the bare loop writes as many bytes.
const MARK_BYTES: usize = 88;
const SEGMENT_BYTES: u64 = 64 << 20;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().expect("a directory to write in"));
    let mut number = |default: usize| {
        let given = arguments.next();
        given.map_or(default, |given| given.parse().expect("a number"))
    };
    let (record_bytes, batch_records, batches) = (number(512).max(40), number(256), number(2_000));
    let directory = directory.join(format!("floor-{}", std::process::id()));
    for round in 0..ROUNDS {
        let mut bare = Bare::new(
            &directory.join(format!("bare-{round}")),
            record_bytes * batch_records + MARK_BYTES,
        );
        let mut durable =
            Durable::new(&directory.join(format!("store-{round}")), record_bytes, batch_records);
        let (mut bare_took, mut store_took) = (Spans::default(), Spans::default());
        // Batch by batch in turn: what else the machine does meets both alike.
        for _ in 0..batches {
            bare_took.0.push(bare.write());
            store_took.0.push(durable.append());
        }
        let rate = |took: Duration| (batch_records * batches) as f64 / took.as_secs_f64();
        println!(
            "bare {:>9.0} records/s, store {:>9.0} records/s, {:.1} %; a batch, bare: {}, store: {}",
            rate(bare_took.sum()),
            rate(store_took.sum()),
            100.0 * bare_took.sum().as_secs_f64() / store_took.sum().as_secs_f64(),
            bare_took.text(),
            store_took.text()
        );
    }
    std::fs::remove_dir_all(&directory).expect("what was written can be removed");
}

/// How long each batch has taken.
#[derive(Default)]
struct Spans(Vec<Duration>);

impl Spans {
    fn sum(&self) -> Duration {
        self.0.iter().sum()
    }

    fn text(&mut self) -> String {
        self.0.sort_unstable();
        let at = |part: f64| {
            let place = ((self.0.len() - 1) as f64 * part) as usize;
            self.0[place].as_micros()
        };
        format!("p50 {} µs, p99 {} µs", at(0.5), at(0.99))
    }
}

struct Bare {
    disk: FileDisk,
    file: std::fs::File,
    batch: Vec<u8>,
    position: u64,
    files: u64,
}

impl Bare {
    fn new(path: &Path, batch_bytes: usize) -> Bare {
        let mut disk = FileDisk::open(path).expect("a directory");
        Bare {
            file: disk.create("0").expect("a file"),
            disk,
            batch: vec![0x5a; batch_bytes],
            position: 0,
            files: 1,
        }
    }

    fn write(&mut self) -> Duration {
        let start = Instant::now();
        if self.position + self.batch.len() as u64 > SEGMENT_BYTES {
            let name = self.files.to_string();
            self.file = self.disk.create(&name).expect("a file");
            (self.position, self.files) = (0, self.files + 1);
        }
        let written = self.disk.write_at(&mut self.file, self.position, &self.batch);
        written.expect("a write");
        self.disk.sync(&mut self.file).expect("a sync");
        self.position += self.batch.len() as u64;
        start.elapsed()
    }
}

struct Durable {
    store: Store<FileDisk>,
    topics: Vec<Vec<u8>>,
    records: Vec<Vec<u8>>,
    offset: u64,
}

impl Durable {
    fn new(path: &Path, record_bytes: usize, batch_records: usize) -> Durable {
        let settings = StoreSettings {
            partitions_count: PARTITIONS,
            segment_bytes: SEGMENT_BYTES,
            bytes_max: 1 << 40,
            age_max_ms: 0,
            new_epoch: 1,
            hash_seed: Seed(1, 2),
        };
        let disk = FileDisk::open(path).expect("a directory");
        let topic = |number| format!("prices/{number:08}").into_bytes();
        Durable {
            store: Store::open(disk, settings, 0).expect("a log").0,
            topics: (0..TOPICS).map(topic).collect(),
            records: vec![vec![0x5a; record_bytes]; batch_records],
            offset: 0,
        }
    }

    fn append(&mut self) -> Duration {
        for record in &mut self.records {
            self.offset += 1;
            let length = record.len() as u32;
            record[0..4].copy_from_slice(&length.to_le_bytes());
            record[8..16].copy_from_slice(&self.offset.to_le_bytes());
            record[16..32].fill(0);
            record[36..40].fill(0);
        }
        for (record, nth) in self.records.iter_mut().zip(self.offset..) {
            // A home gives each topic a number of its own.
            let topic = (nth * 7_919 % TOPICS) as u32;
            record[32..36].copy_from_slice(&topic.to_le_bytes());
        }
        let batch: Vec<Append<'_>> = self
            .records
            .iter()
            .zip(self.offset..)
            .map(|(record, nth)| {
                let topic = nth * 7_919 % TOPICS;
                Append {
                    partition: (topic % u64::from(PARTITIONS)) as u32,
                    topic: &self.topics[topic as usize],
                    record,
                }
            })
            .collect();
        let start = Instant::now();
        self.store.append(&batch, 0).expect("an append");
        start.elapsed()
    }
}
