//! Savings and cost of compression: the table of `docs/performance.md`, and loops whose
//! instructions can be counted.
//!
//! The slope of a subcommand's instructions over its number of messages is the cost of one.

use crate::anonymous_bytes;
use stdx::prng::Prng;
use wire::websocket::deflate::{Deflater, Inflater};

const SIZES: [usize; 7] = [130, 200, 256, 384, 512, 1_024, 4_096];
const MESSAGES: usize = 1_000;
/// Bytes of an inflated message at most.
const BYTES_MAX: usize = 1 << 20;

/// Blocks of 90 bits: a code for the end of the block and one distance, and that end.
const DYNAMIC_BLOCKS: [u8; 45] = [
    0x04, 0xc0, 0x81, 0x00, 0x00, 0x00, 0x00, 0x00, 0x90, 0xff, 0x6b, 0x10, 0x00, 0x07, 0x02, 0x00,
    0x00, 0x00, 0x00, 0x40, 0xfe, 0xaf, 0x41, 0x00, 0x1c, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf9,
    0xbf, 0x06, 0x01, 0x70, 0x20, 0x00, 0x00, 0x00, 0x00, 0x00, 0xe4, 0xff, 0x1a,
];

/// The measurement; without one, the sizes of JSON messages at each level.
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Compress messages
    Deflate { level: u8, bytes: usize, count: usize },
    /// Inflate messages
    Inflate { level: u8, bytes: usize, count: usize },
    /// Inflate payloads of 64 KiB that cost much for their size
    Blocks { kind: Kind, count: usize },
    /// Memory that compressor and inflater have touched after a hundred messages
    Memory { level: u8, bytes: usize },
}

/// Blocks without content, of which each...
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kind {
    /// Ends its stream.
    Final,
    /// Is stored.
    Stored,
    /// Makes the inflater build tables.
    Dynamic,
}

/// Runs the requested experiment, and prints its findings.
///
/// # Errors
/// A payload of ours cannot be inflated.
pub fn run(options: &Options) -> anyhow::Result<()> {
    match options.what {
        None => table(),
        Some(What::Deflate { level, bytes, count }) => {
            let mut deflater = Deflater::new(level);
            let messages = messages(bytes, 64);
            let mut out = Vec::new();
            for at in 0..count {
                out.clear();
                deflater.deflate(&[&messages[at % 64]], &mut out);
            }
        }
        Some(What::Inflate { level, bytes, count }) => {
            let mut deflater = Deflater::new(level);
            let payloads: Vec<Vec<u8>> =
                messages(bytes, 64).iter().map(|message| packed(&mut deflater, message)).collect();
            let mut inflater = Inflater::new();
            for at in 0..count {
                inflater.decode(&payloads[at % 64], BYTES_MAX)?;
            }
        }
        Some(What::Blocks { kind, count }) => {
            let block: &[u8] = match kind {
                Kind::Final => &[0x03, 0x00],
                Kind::Stored => &[0x00, 0x00, 0x00, 0xff, 0xff],
                Kind::Dynamic => &DYNAMIC_BLOCKS,
            };
            let payload = block.repeat((64 << 10) / block.len());
            let mut inflater = Inflater::new();
            for _ in 0..count {
                let _ = inflater.decode(&payload, BYTES_MAX);
            }
        }
        Some(What::Memory { level, bytes }) => memory(level, bytes)?,
    }
    Ok(())
}

fn memory(level: u8, bytes: usize) -> anyhow::Result<()> {
    let messages = messages(bytes, 100);
    // So that nothing but the compressor itself is new.
    let mut payloads = vec![vec![0; 2 * bytes + 2_048]; 100];
    payloads.iter_mut().for_each(Vec::clear);
    let before = anonymous_bytes();
    let mut deflater = Deflater::new(level);
    for (message, payload) in messages.iter().zip(&mut payloads) {
        deflater.deflate(&[message], payload);
    }
    let between = anonymous_bytes();
    let mut inflater = Inflater::new();
    for payload in &payloads {
        inflater.decode(payload, BYTES_MAX)?;
    }
    let kib = |from: u64, to: u64| to.saturating_sub(from) >> 10;
    println!(
        "compressor {} KiB, inflater {} KiB",
        kib(before, between),
        kib(between, anonymous_bytes())
    );
    Ok(())
}

fn table() {
    println!(
        "| bytes | {} |",
        (1..=9).map(|level| format!("level {level}")).collect::<Vec<_>>().join(" | ")
    );
    for bytes in SIZES {
        let messages = messages(bytes, MESSAGES);
        let mean: usize = messages.iter().map(Vec::len).sum::<usize>() / MESSAGES;
        let cells: Vec<String> = (1..=9)
            .map(|level| {
                let mut deflater = Deflater::new(level);
                let after: usize = messages
                    .iter()
                    .map(|message| match packed(&mut deflater, message).len() {
                        0 => message.len(),
                        bytes => bytes,
                    })
                    .sum();
                format!("{} ({} %)", after / MESSAGES, 100 * after / (mean * MESSAGES))
            })
            .collect();
        println!("| {mean} | {} |", cells.join(" | "));
    }
}

fn packed(deflater: &mut Deflater, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    deflater.deflate(&[message], &mut out);
    out
}

/// Updates of an order book, as long as wanted: prices and sizes are random, keys repeat.
fn messages(bytes: usize, count: usize) -> Vec<Vec<u8>> {
    let mut random = Prng::new(bytes as u64);
    let message = |_| {
        let mut text = format!(
            "{{\"instrument\":\"EUR/USD\",\"sequence\":{},\"time\":\"2026-11-22T10:{:02}:{:02}.{:03}Z\",\"levels\":[",
            random.below(10_000_000),
            random.below(60),
            random.below(60),
            random.below(1_000),
        );
        while text.len() + 50 < bytes {
            text += &format!(
                "{{\"price\":1.{:05},\"size\":{},\"side\":\"{}\"}},",
                random.below(100_000),
                random.below(1_000) * 1_000,
                if random.below(2) == 0 { "bid" } else { "ask" },
            );
        }
        text += "{}]}";
        text.into_bytes()
    };
    (0..count).map(message).collect()
}
