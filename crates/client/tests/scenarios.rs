//! The scenarios of `spec/scenarios`, on the Rust client: its core in virtual time, and the whole
//! client over sockets.

mod stage;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;

use client::stage::{Fault, plant};
use script::{Adapter, Outcome, Server, play, play_random, read};
use serde_json::Value;

/// Scenarios that need a feature which this client does not have.
const SKIPPED: usize = 13;
/// Threads that play in wire mode: most of the time is waiting.
const PLAYERS: usize = 16;

/// Random runs.
const RUNS: u64 = 300;

/// Features of the scenarios that this client has.
fn features() -> Vec<String> {
    vec!["statuses".to_owned()]
}

fn scenarios(mode: &str) -> Vec<Value> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../spec/scenarios");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| {
        file.extension().is_some_and(|it| it == "json") && !file.ends_with("schema.json")
    });
    files.sort();
    let all = files.iter().flat_map(|file| read(file).unwrap());
    all.filter(|scenario| scenario["modes"].as_array().unwrap().contains(&mode.into())).collect()
}

fn name(scenario: &Value) -> &str {
    scenario["name"].as_str().unwrap()
}

/// The scenarios that failed, each with its reason; and how many passed and were skipped.
#[derive(Default)]
struct Tally {
    passed: usize,
    skipped: usize,
    failed: Vec<String>,
}

impl Tally {
    fn add(&mut self, scenario: &Value, outcome: Outcome) {
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Skipped(_) => self.skipped += 1,
            Outcome::Failed(step, why) => {
                self.failed.push(format!("{}: step {step}: {why}", name(scenario)));
            }
        }
    }
}

fn play_core(scenarios: &[Value]) -> Tally {
    let mut tally = Tally::default();
    for scenario in scenarios {
        let mut adapter = stage::core::Core::default();
        tally.add(scenario, play(scenario, &features(), &mut adapter, None));
    }
    tally
}

#[test]
fn the_core_plays_every_scenario() {
    let all = scenarios("core");
    let names: BTreeSet<&str> = all.iter().map(name).collect();
    assert_eq!(names.len(), all.len(), "names are unique");
    let tally = play_core(&all);
    println!("{} passed, {} skipped", tally.passed, tally.skipped);
    assert!(tally.failed.is_empty(), "{} failed:\n{}", tally.failed.len(), tally.failed.join("\n"));
    assert!(tally.passed >= 90, "{} passed", tally.passed);
    assert_eq!(tally.skipped, SKIPPED);
}

#[test]
fn random_runs_lose_and_repeat_nothing() {
    for seed in 1..=RUNS {
        let outcome = play_random(seed, &mut stage::core::Core::default());
        assert_eq!(outcome, Outcome::Passed, "seed {seed}");
    }
}

#[test]
fn random_runs_notice_faults() {
    for fault in [
        Fault::KeepsDuplicates,
        Fault::SwallowsGaps,
        Fault::StoresUnprovedCursor,
        Fault::ForgetsCursor,
        Fault::SendsStaleTicket,
        Fault::TrustsTicket,
        Fault::TrustsSilence,
        Fault::LeavesAtOnce,
        Fault::RepeatsPlain,
        Fault::RepeatsUnderNewId,
        Fault::RepeatsBackwards,
    ] {
        plant(Some(fault));
        let fails = |seed| play_random(seed, &mut stage::core::Core::default()) != Outcome::Passed;
        let seed = (1..=RUNS).find(|seed| fails(*seed));
        plant(None);
        println!("{fault:?}: seed {seed:?}");
        assert!(seed.is_some(), "{fault:?} goes unnoticed");
    }
}

#[test]
fn every_planted_fault_fails_a_scenario() {
    let all = scenarios("core");
    for fault in Fault::ALL {
        plant(Some(fault));
        let tally = play_core(&all);
        plant(None);
        let first = tally.failed.first();
        println!("{fault:?}: {} failed, first: {first:?}", tally.failed.len());
        assert!(first.is_some(), "{fault:?} goes unnoticed");
    }
}

#[test]
fn the_client_plays_its_scenarios_over_sockets() {
    let waiting = Mutex::new(scenarios("wire"));
    let tally = Mutex::new(Tally::default());
    thread::scope(|scope| {
        for _ in 0..PLAYERS {
            scope.spawn(|| {
                let mut server = Server::listen().unwrap();
                loop {
                    let Some(scenario) = waiting.lock().unwrap().pop() else { return };
                    let mut adapter: Box<dyn Adapter> = Box::new(stage::wire::Wire::default());
                    let outcome = play(&scenario, &features(), adapter.as_mut(), Some(&mut server));
                    tally.lock().unwrap().add(&scenario, outcome);
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap();
    println!("{} passed, {} skipped", tally.passed, tally.skipped);
    assert!(tally.failed.is_empty(), "{} failed:\n{}", tally.failed.len(), tally.failed.join("\n"));
}
