//! Throughput of durable batches of messages: our store against a bare loop and against embedded
//! stores.
//!
//! ```text
//! cargo run --release --manifest-path benches/stores/Cargo.toml -- \
//!     [FOLDER] [ROUNDS] [CONTENDERS] [BATCHES]
//! ```
//!
//! Contenders are `bare`, `crore`, `fjall` and `redb`, batches numbers of records; both separated
//! by commas, and all of them if none is named. Contenders joined by `+` take turns batch by batch,
//! so that the rest of the machine disturbs them alike: `bare+crore`.
//!
//! Every contender gets the same records in the same batches, one thread, a new folder for each
//! run, and makes each batch durable before it takes the next. The bare loop writes a batch's bytes
//! with one `write` and calls `fdatasync`: nothing that keeps a log can be faster. Contenders take
//! turns within a round; medians over the rounds are printed, and the ratio to the bare loop of the
//! same round, because the disk's speed varies from minute to minute.
//!
//! All contenders write the same record bytes (40 of header, 512 of payload), in the same batches,
//! with the same durability (data on disk, `fdatasync` or the store's equivalent). Our store also
//! writes names and checksums, and keeps the index that replay needs. The others keep a sorted map
//! by (partition, offset), which a log does not need.

mod contenders;

use anyhow::Context;
use contenders::{Bare, Contender, Crore, Fjall, Redb};
use log::{HeapMemory, NewRecord, Partition};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stdx::chunk::Slice;

/// Partitions that the records are spread over: the default of a log.
pub const PARTITIONS: u32 = 64;
/// Bytes of a message.
const PAYLOAD_BYTES: usize = 512;
/// Different topics.
const TOPICS: u32 = 1_000;
/// Batches, and how many records a run writes with each.
const RUNS: [(usize, usize); 5] =
    [(1, 1_500), (16, 20_000), (64, 60_000), (256, 200_000), (4_096, 400_000)];

/// The contenders, the measure of the others first.
const CONTENDERS: [&str; 4] = ["bare", "crore", "fjall", "redb"];

/// One record to make durable.
pub struct Record {
    /// Its partition.
    pub partition: u32,
    /// Its place there.
    pub offset: u64,
    /// The topic's name.
    pub topic: String,
    /// The whole record.
    pub bytes: Slice,
}

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder =
        arguments.next().map_or_else(|| std::env::temp_dir().join("crore-stores"), PathBuf::from);
    let rounds: usize = arguments.next().map_or(Ok(5), |text| text.parse()).context("ROUNDS")?;
    let contenders = arguments.next().unwrap_or_else(|| CONTENDERS.join(","));
    let groups: Vec<Vec<&str>> =
        contenders.split(',').map(|group| group.split('+').collect()).collect();
    if let Some(unknown) = groups.iter().flatten().find(|name| !CONTENDERS.contains(name)) {
        anyhow::bail!("{unknown} is none of {}", CONTENDERS.join(", "));
    }
    let batches = arguments.next().map(|text| text.split(',').map(str::parse).collect());
    let batches: Option<Vec<usize>> = batches.transpose().context("BATCHES are numbers")?;
    let records = records(RUNS.iter().map(|(_, count)| *count).max().unwrap_or(0))?;
    println!(
        "{rounds} rounds, medians; {PAYLOAD_BYTES} bytes a message, {TOPICS} topics, {PARTITIONS} partitions"
    );
    println!(
        "| batch | contender | messages/s | of the bare loop | batch p50 | batch p99 | batch max |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (batch, count) in RUNS {
        if batches.as_ref().is_some_and(|batches| !batches.contains(&batch)) {
            continue;
        }
        let mut lines: Vec<(&str, Vec<Run>)> =
            groups.iter().flatten().map(|name| (*name, Vec::new())).collect();
        for _ in 0..rounds {
            let mut place = 0;
            for group in &groups {
                for run in run(group, &folder, &records[..count], batch)? {
                    lines[place].1.push(run);
                    place += 1;
                }
            }
        }
        let bare: Vec<f64> = lines[0].1.iter().map(|run| run.rate).collect();
        for (name, runs) in &lines {
            let rate = median(runs.iter().map(|run| run.rate));
            let ratio = median(runs.iter().zip(&bare).map(|(run, bare)| run.rate / bare));
            let of = |pick: fn(&Run) -> Duration| {
                median(runs.iter().map(|run| pick(run).as_secs_f64() * 1e6))
            };
            println!(
                "| {batch} | {name} | {rate:.0} | {ratio:.2} | {:.0} µs | {:.0} µs | {:.0} µs |",
                of(|run| run.p50),
                of(|run| run.p99),
                of(|run| run.max)
            );
        }
    }
    Ok(())
}

/// The figures of one contender in one round.
struct Run {
    rate: f64,
    p50: Duration,
    p99: Duration,
    max: Duration,
}

/// Contenders that take turns batch by batch.
fn run(
    names: &[&str],
    folder: &Path,
    records: &[Record],
    batch: usize,
) -> anyhow::Result<Vec<Run>> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    let mut contenders = Vec::new();
    for name in names {
        let own = folder.join(name);
        std::fs::create_dir_all(&own)?;
        let contender: Box<dyn Contender> = match *name {
            "bare" => Box::new(Bare::open(&own)?),
            "crore" => Box::new(Crore::open(&own)?),
            "fjall" => Box::new(Fjall::open(&own)?),
            _ => Box::new(Redb::open(&own)?),
        };
        contenders.push((contender, Vec::new()));
    }
    for batch in records.chunks(batch) {
        for (contender, spans) in &mut contenders {
            let begin = Instant::now();
            contender.append(batch)?;
            spans.push(begin.elapsed());
        }
    }
    let figures = |(_, mut spans): (Box<dyn Contender>, Vec<Duration>)| {
        let rate = records.len() as f64 / spans.iter().sum::<Duration>().as_secs_f64();
        spans.sort_unstable();
        let at = |part: f64| spans[((spans.len() - 1) as f64 * part) as usize];
        Run { rate, p50: at(0.5), p99: at(0.99), max: at(1.0) }
    };
    let runs = contenders.into_iter().map(figures).collect();
    std::fs::remove_dir_all(folder)?;
    Ok(runs)
}

/// Records as homes make them: each partition counts by itself.
fn records(count: usize) -> anyhow::Result<Vec<Record>> {
    let mut memory = HeapMemory::new(4 << 30);
    let mut partitions: Vec<Partition> = (0..PARTITIONS)
        .map(|partition| {
            let settings = log::Settings { segment_bytes: 4 << 20, partition, epoch: 1 };
            Partition::new(settings, 1)
        })
        .collect();
    let payload = [b'x'; PAYLOAD_BYTES];
    (0..count as u32)
        .map(|number| {
            let topic = number.wrapping_mul(2_654_435_761) % TOPICS;
            let partition = topic % PARTITIONS;
            let record = NewRecord {
                topic,
                time_ms: 1_700_000_000_000,
                payload: &payload,
                ..NewRecord::default()
            };
            let appended = partitions[partition as usize].append(&mut memory, None, &record)?;
            Ok(Record {
                partition,
                offset: appended.offset,
                topic: format!("sensors/{topic:06}"),
                bytes: appended.slice,
            })
        })
        .collect()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
