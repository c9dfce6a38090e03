//! `crore log`: reads a durable log in its directory, without a node. Only `repair` and `new-epoch`
//! write.

use super::messages::payload_json;
use crate::exit::Ending;
use ::log::RecordView;
use ::log::store::{Dumped, Mended, OpenError, Recovered, Store};
use anyhow::anyhow;
use disk::FileDisk;
use serde_json::{Value, json};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Arguments of `log`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Read and check the whole log. The exit code is 1 if anything is damaged. The node must not
    /// be running.
    Verify(Directory),
    /// Print every message, in the order in which they became durable. The node must not be
    /// running.
    Dump(Directory),
    /// Print counts: segments, bytes, messages, partitions and epochs.
    Stats {
        #[command(flatten)]
        directory: Directory,
        /// Read the log even while a node has it open. The newest entries may then be missing.
        #[arg(long)]
        force: bool,
    },
    /// Discard unreadable data, rebuild the indexes, and list every loss exactly. If acknowledged
    /// messages are lost, a new epoch begins. The node must not be running. Copy the directory
    /// first.
    Repair(Directory),
    /// Begin a new epoch, for a log that was restored from an older copy. Clients with newer
    /// positions than the copy then get a gap. The node must not be running.
    NewEpoch(Directory),
}

#[derive(Debug, clap::Args)]
struct Directory {
    /// Directory of one log: the directory that contains its `.log` files.
    #[arg(value_name = "DIRECTORY")]
    path: PathBuf,
    /// Print JSON: one object, or one for each entry.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// The log cannot be opened or read, the log is damaged, or standard output fails.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    let mut output = BufWriter::new(std::io::stdout());
    match &arguments.what {
        What::Verify(directory) => verify(directory, &mut output),
        What::Dump(directory) => dump(directory, &mut output),
        What::Stats { directory, force } => stats(directory, *force, &mut output),
        What::Repair(directory) => mend(directory, Store::repair, &mut output),
        What::NewEpoch(directory) => mend(directory, Store::begin_epoch, &mut output),
    }?;
    output.flush()?;
    Ok(())
}

fn open(path: &Path, has_lock: bool) -> Result<(Store<FileDisk>, Recovered), Ending> {
    let disk = if has_lock { FileDisk::open_locked(path) } else { FileDisk::open_unlocked(path) };
    let disk = disk.map_err(|error| anyhow!("{error}"))?;
    Ok(Store::inspect(disk).map_err(|error| anyhow!("{}: {error}", path.display()))?)
}

fn verify(directory: &Directory, output: &mut impl Write) -> Result<(), Ending> {
    let (mut store, recovered) = open(&directory.path, true)?;
    let mut findings = Vec::new();
    store.verify(&mut |finding| findings.push(finding.to_string()));
    let stats = store.stats();
    if directory.json {
        let object = json!({
            "whole": findings.is_empty(),
            "findings": findings,
            "segments": stats.segments_count,
            "messages": stats.records_count,
            "bytes": stats.bytes,
            "torn_bytes": recovered.torn_bytes,
        });
        writeln!(output, "{object}")?;
    } else {
        for finding in &findings {
            writeln!(output, "{finding}")?;
        }
        let verdict = match findings.len() {
            0 => "whole".to_owned(),
            1 => "1 finding".to_owned(),
            count => format!("{count} findings"),
        };
        writeln!(
            output,
            "{verdict}: {} segments, {} messages, {} bytes",
            stats.segments_count, stats.records_count, stats.bytes
        )?;
        if recovered.torn_bytes > 0 {
            let bytes = recovered.torn_bytes;
            writeln!(
                output,
                "{bytes} bytes at the end belong to a batch that was never acknowledged"
            )?;
        }
    }
    output.flush()?;
    if findings.is_empty() { Ok(()) } else { Err(Ending::FailedAndTold) }
}

fn dump(directory: &Directory, output: &mut impl Write) -> Result<(), Ending> {
    let (mut store, _) = open(&directory.path, true)?;
    let mut written = Ok(());
    let read = store.dump(&mut |dumped| {
        if written.is_ok() {
            let line = if directory.json {
                dumped_json(&dumped).to_string()
            } else {
                dumped_line(&dumped)
            };
            written = writeln!(output, "{line}");
        }
    });
    written?;
    read.map_err(|error| anyhow!("{}: {error}", directory.path.display()))?;
    Ok(())
}

fn dumped_json(dumped: &Dumped<'_>) -> Value {
    match dumped {
        Dumped::Segment { sequence, epoch, created_ms, valid_bytes } => json!({"segment": {
            "number": sequence,
            "epoch": epoch.to_string(),
            "created_ms": created_ms,
            "bytes": valid_bytes,
        }}),
        Dumped::Record { partition, topic, record, is_copy } => {
            let mut object = json!({
                "topic": String::from_utf8_lossy(topic),
                "partition": partition,
                "offset": record.offset(),
                "prev": record.prev(),
                "time_ms": record.time_ms(),
                "copy": is_copy,
            });
            let (key, value) = payload_json(record.payload());
            object[key] = value;
            object
        }
        Dumped::Damage { from, through } => {
            json!({"damage": {"from": from, "through": through}})
        }
    }
}

fn dumped_line(dumped: &Dumped<'_>) -> String {
    match dumped {
        Dumped::Segment { sequence, epoch, valid_bytes, .. } => {
            format!("segment {sequence}: epoch {epoch}, {valid_bytes} bytes")
        }
        Dumped::Record { partition, topic, record, is_copy } => {
            let topic = topic.escape_ascii();
            let copy = if *is_copy { " (retained, copied)" } else { "" };
            let offset = record.offset();
            format!("{partition}:{offset} {topic}{copy} {}", text_of(record))
        }
        Dumped::Damage { from, through } => format!("damage: bytes {from} to {through}"),
    }
}

fn text_of(record: &RecordView<'_>) -> String {
    record.payload().escape_ascii().to_string()
}

fn stats(directory: &Directory, is_forced: bool, output: &mut impl Write) -> Result<(), Ending> {
    let (store, recovered) = open(&directory.path, !is_forced)?;
    let stats = store.stats();
    let used = stats.partitions.iter().zip(0..).filter(|((_, head), _)| *head > 0);
    if directory.json {
        let epochs = stats.epochs.iter();
        let object = json!({
            "segments": stats.segments_count,
            "bytes": stats.bytes,
            "messages": stats.records_count,
            "torn_bytes": recovered.torn_bytes,
            "oldest_ms": stats.times_ms.map(|(oldest, _)| oldest),
            "newest_ms": stats.times_ms.map(|(_, newest)| newest),
            "epochs": epochs.map(|(epoch, started_ms)| json!({
                "epoch": epoch.to_string(),
                "started_ms": started_ms,
            })).collect::<Vec<_>>(),
            "partitions_count": stats.partitions.len(),
            "partitions": used.map(|((floor, head), partition)| json!({
                "partition": partition,
                "floor": floor,
                "head": head,
            })).collect::<Vec<Value>>(),
        });
        writeln!(output, "{object}")?;
        return Ok(());
    }
    writeln!(output, "segments    {}", stats.segments_count)?;
    writeln!(output, "bytes       {}", stats.bytes)?;
    writeln!(output, "messages    {}", stats.records_count)?;
    writeln!(output, "partitions  {}", stats.partitions.len())?;
    for (epoch, started_ms) in &stats.epochs {
        writeln!(output, "epoch       {epoch}, began at {started_ms} ms")?;
    }
    for ((floor, head), partition) in used {
        writeln!(output, "partition   {partition}: offsets from {floor} to {head}")?;
    }
    Ok(())
}

/// Maximum number of partitions whose losses are listed.
const LOST_SHOWN_MAX: usize = 20;

fn mend(
    directory: &Directory,
    how: impl FnOnce(FileDisk, u64, u64) -> Result<Mended, OpenError>,
    output: &mut impl Write,
) -> Result<(), Ending> {
    let path = &directory.path;
    // Opens an existing log only, and creates nothing.
    let before = open(path, true).map(|(store, _)| store.stats().epochs.last().copied())?;
    let disk = FileDisk::open(path).map_err(|error| anyhow!("{error}"))?;
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now_ms.unwrap_or_default().as_millis() as u64;
    let mended = how(disk, crate::configuration::assemble::new_epoch(), now_ms)
        .map_err(|error| anyhow!("{}: {error}", path.display()))?;
    let is_new = before.is_none_or(|(before, _)| before != mended.recovered.epoch);
    if directory.json {
        writeln!(output, "{}", mended_json(&mended, is_new))?;
        return Ok(());
    }
    for (name, lacks) in &mended.unreadable {
        for (from, through) in lacks {
            let text = "unreadable on disk; the file was rewritten without them";
            writeln!(output, "{name}: bytes {from} to {through}: {text}")?;
        }
    }
    for damage in &mended.recovered.damages {
        let ::log::store::Damage { segment, from, through } = damage;
        match (damage.is_gone(), segment) {
            (true, 0) => writeln!(output, "epochs: missing, damaged, or of another log")?,
            (true, _) => writeln!(output, "segment {segment}: everything from here on is lost")?,
            _ => writeln!(output, "segment {segment}: bytes {from} to {through} are damaged")?,
        }
    }
    for lost in mended.lost.iter().take(LOST_SHOWN_MAX) {
        let ::log::store::Lost { partition, from, through } = lost;
        writeln!(output, "lost: partition {partition}, offsets {from} to {through}")?;
    }
    if let Some(more @ 1..) = mended.lost.len().checked_sub(LOST_SHOWN_MAX) {
        writeln!(output, "lost: {more} more (--json has all)")?;
    }
    if is_new {
        writeln!(output, "epoch {} begins", mended.recovered.epoch)?
    } else {
        writeln!(output, "epoch {} continues", mended.recovered.epoch)?
    }
    Ok(())
}

fn mended_json(mended: &Mended, is_new: bool) -> Value {
    let damages = mended.recovered.damages.iter();
    let unreadable = mended.unreadable.iter();
    json!({
        "epoch": mended.recovered.epoch.to_string(),
        "new_epoch": is_new,
        "damages": damages.map(|damage| json!({
            "segment": damage.segment,
            "from": damage.from,
            "through": damage.through,
        })).collect::<Vec<_>>(),
        "unreadable": unreadable.flat_map(|(name, lacks)| {
            lacks.iter().map(move |(from, through)| json!({
                "file": name,
                "from": from,
                "through": through,
            }))
        }).collect::<Vec<_>>(),
        "lost": mended.lost.iter().map(|lost| json!({
            "partition": lost.partition,
            "from": lost.from,
            "through": lost.through,
        })).collect::<Vec<_>>(),
    })
}
