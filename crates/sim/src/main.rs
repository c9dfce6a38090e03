//! `sim`: runs worlds and reports their failures.
//!
//! `sim --seeds N [--first S] [--big]` runs N worlds; `sim --seed S --trace` shows one; `sim
//! --mutations N` reports the number of worlds after which each planted bug is found. With
//! `--cluster` the worlds have several nodes on one engine; with `--tcp` they are two stacks of our
//! own TCP over a bad network.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

mod clusters;
mod streams;

use sim::{Mutation, Options, Outcome, Scale};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

/// The number of worlds that are named for each kind of failure.
const SEEDS_MAX: usize = 8;
/// The maximum number of a client's actions, without `--trace`.
const LINES_MAX: usize = 60;

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(text) => {
            eprintln!(
                "{text}\nusage: sim [--seeds N] [--first S] [--seed S] [--trace] [--client N] [--big] [--mutations N [--only NAME]] [--keep-going] [--upgrades] [--json] [--mqtt] [--cluster [--lossless] [--compacted]] [--tcp]"
            );
            return ExitCode::from(2);
        }
    };
    if arguments.tcp {
        return streams::sweep(&arguments);
    }
    match (arguments.mutations, arguments.cluster) {
        (Some(budget), false) => find_mutations(&arguments, budget),
        (Some(budget), true) => clusters::find_bugs(&arguments, budget),
        (None, false) => sweep(&arguments),
        (None, true) => clusters::sweep(&arguments),
    }
}

struct Arguments {
    seeds: u64,
    first: u64,
    tracing: bool,
    scale: Scale,
    mutations: Option<u64>,
    /// Only planted bugs whose names contain this.
    only: String,
    keep_going: bool,
    client: Option<usize>,
    upgrades: bool,
    json: bool,
    mqtt: bool,
    /// Worlds of several nodes on one engine.
    cluster: bool,
    /// Without losses.
    lossless: bool,
    /// The engine's topic is compacted.
    compacted: bool,
    /// Worlds of two stacks of TCP.
    tcp: bool,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let mut arguments = Arguments {
            seeds: 100,
            first: 1,
            tracing: false,
            scale: Scale::Small,
            mutations: None,
            only: String::new(),
            keep_going: false,
            client: None,
            upgrades: false,
            json: false,
            mqtt: false,
            cluster: false,
            lossless: false,
            compacted: false,
            tcp: false,
        };
        while let Some(word) = words.next() {
            if word == "--only" {
                arguments.only = words.next().unwrap_or_default();
                continue;
            }
            let mut number = || {
                let text = words.next().unwrap_or_default();
                text.parse::<u64>().map_err(|_| format!("{word} needs a number"))
            };
            match word.as_str() {
                "--seeds" => arguments.seeds = number()?,
                "--first" => arguments.first = number()?,
                "--seed" => (arguments.first, arguments.seeds) = (number()?, 1),
                "--mutations" => arguments.mutations = Some(number()?),
                "--client" => arguments.client = Some(number()? as usize),
                "--trace" => arguments.tracing = true,
                "--big" => arguments.scale = Scale::Big,
                "--cluster" => arguments.cluster = true,
                "--lossless" => arguments.lossless = true,
                "--compacted" => arguments.compacted = true,
                "--tcp" => arguments.tcp = true,
                "--json" => arguments.json = true,
                "--mqtt" => arguments.mqtt = true,
                "--upgrades" => arguments.upgrades = true,
                "--keep-going" => arguments.keep_going = true,
                _ => return Err(format!("unknown: {word}")),
            }
        }
        Ok(arguments)
    }

    fn options(&self) -> Options {
        Options {
            scale: self.scale,
            tracing: self.tracing,
            mutation: None,
            client: self.client,
            upgrades: self.upgrades,
            json: self.json,
            mqtt: self.mqtt,
        }
    }
}

fn sweep(arguments: &Arguments) -> ExitCode {
    let began = Instant::now();
    let (mut passed, mut failed) = (0, 0);
    let (mut deliveries, mut publications, mut holes, mut turns) = (0, 0, 0, 0);
    let mut reached = sim::world::Reached::default();
    let mut kinds: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for seed in arguments.first..arguments.first + arguments.seeds {
        let result = catch_unwind(AssertUnwindSafe(|| sim::run(seed, arguments.options())));
        let Ok(outcome) = result else {
            failed += 1;
            println!("seed {seed}: panicked");
            if arguments.keep_going {
                continue;
            }
            return ExitCode::FAILURE;
        };
        deliveries += outcome.deliveries;
        publications += outcome.publications;
        holes += outcome.holes;
        turns += outcome.turns;
        reached += outcome.reached;
        if arguments.tracing && outcome.failure.is_none() {
            println!("seed {seed}: {:016x}, no failure", outcome.hash);
        }
        passed += u64::from(outcome.failure.is_none());
        if let Some(failure) = &outcome.failure {
            failed += 1;
            let kind: String =
                failure.text.chars().filter(|letter| !letter.is_ascii_digit()).collect();
            kinds.entry(kind).or_default().push(seed);
            if !arguments.keep_going {
                tell(seed, arguments);
                break;
            }
        }
    }
    for (kind, seeds) in &kinds {
        let first = &seeds[..seeds.len().min(SEEDS_MAX)];
        println!("{:>5} x (first: seeds {first:?}) {kind}", seeds.len());
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{} worlds in {seconds:.1} s ({:.0} a minute): {publications} publications, {deliveries} deliveries, {holes} gaps, {turns} turns",
        passed + failed,
        (passed + failed) as f64 * 60.0 / seconds
    );
    println!("{reached:?}");
    println!("{passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}

/// Repeats a failed world with its clients' actions.
fn tell(seed: u64, arguments: &Arguments) {
    let outcome = sim::run(seed, Options { tracing: true, ..arguments.options() });
    tell_outcome(&outcome, arguments.tracing);
}

fn tell_outcome(outcome: &Outcome, all: bool) {
    if let Some(failure) = &outcome.failure {
        println!(
            "seed {}, at {} ms, client {:?}: {}",
            outcome.seed, failure.at_ms, failure.client, failure.text
        );
        let skipped = if all { 0 } else { outcome.notes.len().saturating_sub(LINES_MAX) };
        for note in &outcome.notes[skipped..] {
            println!("  {note}");
        }
    }
}

fn find_mutations(arguments: &Arguments, budget: u64) -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = 0;
    let is_wanted = |bug: &Mutation| format!("{bug:?}").contains(&arguments.only);
    for mutation in Mutation::ALL.into_iter().filter(is_wanted) {
        let began = Instant::now();
        let found = find(mutation, arguments.first, budget);
        let seconds = began.elapsed().as_secs_f64();
        match found {
            Some((worlds, text)) => {
                println!("{mutation:?}: found in world {worlds}, {seconds:.2} s: {text}");
                if arguments.tracing {
                    let seed = arguments.first + worlds - 1;
                    let bug = Some(mutation);
                    let options = Options { mutation: bug, tracing: true, ..Options::default() };
                    tell_outcome(&sim::run(seed, options), true);
                }
            }
            None => {
                missed += 1;
                println!("{mutation:?}: not found in {budget} worlds, {seconds:.2} s");
            }
        }
    }
    ExitCode::from(u8::from(missed > 0))
}

fn find(mutation: Mutation, first: u64, budget: u64) -> Option<(u64, String)> {
    (first..first + budget).find_map(|seed| {
        let options = Options { mutation: Some(mutation), ..Options::default() };
        let text = match catch_unwind(AssertUnwindSafe(|| sim::run(seed, options))) {
            Ok(outcome) if outcome.strikes == 0 => return None,
            Ok(outcome) => outcome.failure?.text,
            Err(_) => "an assertion of the node".to_owned(),
        };
        Some((seed - first + 1, text))
    })
}
