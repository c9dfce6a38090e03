//! Time to open a store of a given size, and to read the figures that a node needs at its start.
//!
//! The log is made first, 2 KiB a message, and left as a kill would leave it. None of it is in the
//! memory of this process then, but most of it is in the page cache. If that matters, drop the
//! caches before the second part (with 0 bytes it opens an existing log).

use disk::FileDisk;
use log::store::{Append, Store, StoreSettings};
use std::path::{Path, PathBuf};
use std::time::Instant;
use stdx::hash::{Seed, partition_of};

const PARTITIONS: u32 = 64;
const RECORD_BYTES: usize = 2_088;
const BATCH_RECORDS: u64 = 1_024;

/// The log.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Its directory.
    directory: PathBuf,
    /// Its size in bytes; 0: open the log that is there.
    #[arg(default_value_t = 10 << 30)]
    bytes: u64,
    /// Size of a segment in bytes.
    #[arg(default_value_t = 64 << 20)]
    segment_bytes: u64,
    /// Number of topics.
    #[arg(default_value_t = 100_000)]
    topics: u64,
    /// Bytes of recent messages that are read.
    #[arg(default_value_t = 64 << 20)]
    cache_bytes: u64,
}

/// Makes the log, and opens it twice.
///
/// # Errors
/// The disk refuses.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let &Options { ref directory, bytes, segment_bytes, topics, cache_bytes } = options;
    if bytes > 0 {
        make(directory, bytes, segment_bytes, topics)?;
    }
    for _ in 0..2 {
        let start = Instant::now();
        let mut store = open(directory, segment_bytes)?;
        let opened = start.elapsed();
        let (mut topics, mut retained, mut recent) = (0u64, 0u64, 0u64);
        store.topics(&mut |_, _, _| topics += 1)?;
        let listed = start.elapsed();
        store.retained(&mut |_, _, _| retained += 1)?;
        let held = start.elapsed();
        store.recent(cache_bytes, &mut |_, _, _| recent += 1)?;
        println!(
            "{} bytes, {} segments: opened after {opened:.1?}, {topics} topics after {listed:.1?}, {retained} retained \
             after {held:.1?}, {recent} recent messages after {:.1?}",
            store.bytes(),
            store.stats().segments_count,
            start.elapsed()
        );
    }
    Ok(())
}

fn open(directory: &Path, segment_bytes: u64) -> anyhow::Result<Store<FileDisk>> {
    let settings = StoreSettings {
        partitions_count: PARTITIONS,
        segment_bytes,
        bytes_max: 1 << 42,
        age_max_ms: 0,
        new_epoch: 1,
        hash_seed: Seed(1, 2),
    };
    Ok(Store::open(FileDisk::open(directory)?, settings, 0)?.0)
}

fn make(directory: &Path, bytes: u64, segment_bytes: u64, topics_count: u64) -> anyhow::Result<()> {
    let mut store = open(directory, segment_bytes)?;
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
        store.append(&batch, 0)?;
    }
    Ok(())
}
