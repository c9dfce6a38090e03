//! The command's part for worlds of two stacks of TCP.

use super::Arguments;
use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Instant;

/// The world is that of the crate's own test, which runs a few of these seeds.
#[path = "../../tcp/tests/world/mod.rs"]
mod world;

/// Runs worlds and reports their failures.
pub fn sweep(arguments: &Arguments) -> ExitCode {
    let began = Instant::now();
    let (mut passed, mut failed, mut packets, mut bytes) = (0, 0, 0, 0);
    let mut kinds: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let is_tracing = arguments.tracing;
    for seed in arguments.first..arguments.first + arguments.seeds {
        match catch_unwind(|| world::World::new(seed, is_tracing).run()) {
            Ok(summary) => {
                passed += 1;
                packets += summary.packets;
                bytes += summary.bytes;
            }
            Err(reason) => {
                failed += 1;
                let text = reason.downcast_ref::<String>().cloned().unwrap_or_default();
                let kind =
                    text.chars().filter(|letter| !letter.is_ascii_digit()).take(120).collect();
                kinds.entry(kind).or_insert((0, seed)).0 += 1;
                if !arguments.keep_going {
                    break;
                }
            }
        }
    }
    for (kind, (count, seed)) in &kinds {
        println!("{count:>5} x (first: seed {seed}) {kind}");
    }
    let seconds = began.elapsed().as_secs_f64();
    let rate = (passed + failed) as f64 * 60.0 / seconds;
    println!("{} worlds in {seconds:.1} s ({rate:.0} a minute)", passed + failed);
    println!("{packets} packets for {bytes} bytes");
    println!("{passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}
