//! What compression saves and costs: the table of `docs/performance.md`, and loops to count
//! instructions of.
//!
//! Without arguments: bytes of JSON messages at each level. `deflate LEVEL BYTES N` compresses N
//! messages, `inflate LEVEL BYTES N` inflates them, `blocks KIND N` inflates N payloads of 64 KiB
//! that cost an inflater much for their bytes: the slope over N is a message's cost. `memory LEVEL
//! BYTES` tells what compressor and inflater have touched after a hundred messages.

use stdx::prng::Prng;
use wire::websocket::deflate::{Deflater, Inflater};

const SIZES: [usize; 7] = [130, 200, 256, 384, 512, 1_024, 4_096];
const MESSAGES: usize = 1_000;

/// Blocks of 90 bits: a code for the end of the block and one distance, and that end.
const DYNAMIC_BLOCKS: [u8; 45] = [
    0x04, 0xc0, 0x81, 0x00, 0x00, 0x00, 0x00, 0x00, 0x90, 0xff, 0x6b, 0x10, 0x00, 0x07, 0x02, 0x00,
    0x00, 0x00, 0x00, 0x40, 0xfe, 0xaf, 0x41, 0x00, 0x1c, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf9,
    0xbf, 0x06, 0x01, 0x70, 0x20, 0x00, 0x00, 0x00, 0x00, 0x00, 0xe4, 0xff, 0x1a,
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<usize>().expect("a number");
    match words[..] {
        [] => table(),
        ["deflate", level, bytes, times] => {
            let mut deflater = Deflater::new(number(level) as u8);
            let messages = messages(number(bytes), 64);
            let mut out = Vec::new();
            for at in 0..number(times) {
                out.clear();
                deflater.deflate(&[&messages[at % 64]], &mut out);
            }
        }
        ["inflate", level, bytes, times] => {
            let mut deflater = Deflater::new(number(level) as u8);
            let payloads: Vec<Vec<u8>> = messages(number(bytes), 64)
                .iter()
                .map(|message| packed(&mut deflater, message))
                .collect();
            let mut inflater = Inflater::new();
            for at in 0..number(times) {
                inflater.decode(&payloads[at % 64], 1 << 20).expect("ours");
            }
        }
        ["memory", level, bytes] => {
            let messages = messages(number(bytes), 100);
            // So that nothing but the compressor itself is new.
            let mut payloads = vec![vec![0; 2 * number(bytes) + 2_048]; 100];
            payloads.iter_mut().for_each(Vec::clear);
            let before = resident_kib();
            let mut deflater = Deflater::new(number(level) as u8);
            for (message, payload) in messages.iter().zip(&mut payloads) {
                deflater.deflate(&[message], payload);
            }
            let between = resident_kib();
            let mut inflater = Inflater::new();
            for payload in &payloads {
                inflater.decode(payload, 1 << 20).expect("ours");
            }
            let after = resident_kib();
            println!("compressor {} KiB, inflater {} KiB", between - before, after - between);
        }
        ["blocks", kind, times] => {
            // Final blocks without content, each of which begins a stream, or stored ones.
            let block: &[u8] = match kind {
                "final" => &[0x03, 0x00],
                "stored" => &[0x00, 0x00, 0x00, 0xff, 0xff],
                // Four dynamic blocks that say nothing: their tables are made all the same.
                "dynamic" => &DYNAMIC_BLOCKS,
                _ => panic!("final, stored or dynamic"),
            };
            let payload = block.repeat((64 << 10) / block.len());
            let mut inflater = Inflater::new();
            for _ in 0..number(times) {
                let _ = inflater.decode(&payload, 1 << 20);
            }
        }
        _ => panic!("unknown arguments"),
    }
}

/// Memory of the process that it has touched and nobody shares.
fn resident_kib() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    let mut fields = statm.split(' ').map(|field| field.parse::<u64>().unwrap_or(0));
    let (resident, shared) = (fields.nth(1).unwrap_or(0), fields.next().unwrap_or(0));
    (resident - shared) * 4
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
