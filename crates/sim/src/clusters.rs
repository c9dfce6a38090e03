//! The command's part for worlds of several nodes.

use super::{Arguments, LINES_MAX};
use sim::cluster::{Bug, ClusterOptions, ClusterOutcome, oracle::Seen, run};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

/// Runs worlds and reports their failures.
pub fn sweep(arguments: &Arguments) -> ExitCode {
    let began = Instant::now();
    let mut seen = Seen::default();
    let (mut passed, mut failed) = (0, 0);
    let mut kinds: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let options = ClusterOptions {
        is_lossless: arguments.lossless,
        is_compacted: arguments.compacted,
        tracing: arguments.tracing,
        client: arguments.client,
        ..ClusterOptions::default()
    };
    for seed in arguments.first..arguments.first + arguments.seeds {
        let result = catch_unwind(AssertUnwindSafe(|| run(seed, options)));
        let failure = match &result {
            Ok(outcome) => {
                seen += outcome.seen;
                if arguments.tracing {
                    println!("seed {seed}: {:016x}", outcome.hash);
                }
                outcome.failure.as_ref().map(|failure| failure.text.clone())
            }
            Err(_) => Some("panicked".to_owned()),
        };
        let Some(text) = failure else {
            passed += 1;
            continue;
        };
        failed += 1;
        let kind = text.chars().filter(|letter| !letter.is_ascii_digit()).take(160).collect();
        kinds.entry(kind).or_insert((0, seed)).0 += 1;
        if !arguments.keep_going {
            if result.is_ok() {
                tell(&run(seed, ClusterOptions { tracing: true, ..options }), arguments.tracing);
            }
            break;
        }
    }
    for (kind, (count, seed)) in &kinds {
        println!("{count:>5} x (first: seed {seed}) {kind}");
    }
    let seconds = began.elapsed().as_secs_f64();
    let rate = (passed + failed) as f64 * 60.0 / seconds;
    println!("{} worlds in {seconds:.1} s ({rate:.0} a minute)", passed + failed);
    println!("{seen:?}");
    println!("{passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}

fn tell(outcome: &ClusterOutcome, all: bool) {
    let Some(failure) = &outcome.failure else {
        return;
    };
    let (seed, at_ms) = (outcome.seed, failure.at_ms);
    println!("seed {seed}, at {at_ms} ms, client {:?}: {}", failure.client, failure.text);
    let skipped = if all { 0 } else { outcome.notes.len().saturating_sub(LINES_MAX) };
    for note in &outcome.notes[skipped..] {
        println!("  {note}");
    }
}

/// Reports the number of worlds after which each planted bug is found.
pub fn find_bugs(arguments: &Arguments, budget: u64) -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = 0;
    for bug in Bug::ALL {
        let began = Instant::now();
        let found = find(bug, arguments.first, budget);
        let seconds = began.elapsed().as_secs_f64();
        match found {
            Some((worlds, text)) => {
                println!("{bug:?}: found in world {worlds}, {seconds:.2} s: {text}");
            }
            None => {
                missed += 1;
                println!("{bug:?}: not found in {budget} worlds, {seconds:.2} s");
            }
        }
    }
    ExitCode::from(u8::from(missed > 0))
}

fn find(bug: Bug, first: u64, budget: u64) -> Option<(u64, String)> {
    (first..first + budget).find_map(|seed| {
        // A world that fails without the bug says nothing about it.
        let plain = ClusterOptions { like: Some(bug), ..ClusterOptions::default() };
        if run(seed, plain).failure.is_some() {
            return None;
        }
        let options = ClusterOptions { bug: Some(bug), ..plain };
        let text = match catch_unwind(AssertUnwindSafe(|| run(seed, options))) {
            Ok(outcome) if outcome.strikes == 0 => return None,
            Ok(outcome) => outcome.failure?.text,
            Err(_) => "an assertion of the node".to_owned(),
        };
        Some((seed - first + 1, text))
    })
}
