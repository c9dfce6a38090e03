//! `crore-script`: plays scenarios; the SDK's adapter is at the other end of standard input and
//! output.
//!
//! Place: started by the tests of every SDK. One line of JSON for each command and each reply.
#![forbid(unsafe_code)]

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use script::{Adapter, Mode, Outcome, Server, play, play_random, read};
use serde_json::{Value, json};

const USAGE: &str =
    "usage: crore-script --mode core|wire [--only PART_OF_A_NAME] [--random RUNS] FILE...";

/// The adapter at the other end of the pipes.
struct Pipes;

impl Adapter for Pipes {
    fn call(&mut self, command: Value) -> Result<Value, String> {
        say(&command)?;
        let mut line = String::new();
        match io::stdin().lock().read_line(&mut line) {
            Ok(0) => Err("the adapter has ended".to_owned()),
            Ok(_) => serde_json::from_str(&line).map_err(|error| format!("{error}: {line}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn say(line: &Value) -> Result<(), String> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("crore-script: {why}");
            ExitCode::from(2)
        }
    }
}

/// Whether no scenario has failed.
fn run() -> Result<bool, String> {
    let (mut mode, mut only, mut files, mut runs) = (None, String::new(), Vec::new(), 0);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--mode" => mode = arguments.next(),
            "--random" => {
                let number = arguments.next().and_then(|number| number.parse::<u64>().ok());
                runs = number.ok_or(USAGE)?;
            }
            "--only" => only = arguments.next().ok_or(USAGE)?,
            _ => files.push(PathBuf::from(argument)),
        }
    }
    let mut server = match mode.as_deref() {
        Some("core") => None,
        Some("wire") => Some(Server::listen().map_err(|error| error.to_string())?),
        _ => return Err(USAGE.to_owned()),
    };
    let mode = if server.is_some() { Mode::Wire } else { Mode::Core };
    let mut scenarios = Vec::new();
    for file in &files {
        scenarios.extend(read(file)?);
    }
    let port = server.as_ref().map(Server::port);
    let hello = Pipes.call(json!({"do": "hello", "mode": mode.name(), "port": port}))?;
    let features = hello["needs"].as_array().cloned().unwrap_or_default();
    let features = features.iter().filter_map(|it| it.as_str().map(str::to_owned));
    let features: Vec<String> = features.collect();
    let mut tally = Tally::default();
    for scenario in &scenarios {
        let name = scenario["name"].as_str().unwrap_or_default();
        let modes = scenario["modes"].as_array();
        if !name.contains(&only) || !modes.is_some_and(|it| it.contains(&json!(mode.name()))) {
            continue;
        }
        tally.add(name, play(scenario, &features, &mut Pipes, server.as_mut()))?;
    }
    for seed in 1..=runs {
        tally.add(&format!("random run {seed}"), play_random(seed, &mut Pipes))?;
    }
    let Tally { passed, failed, skipped } = tally;
    say(&json!({"do": "end", "passed": passed, "failed": failed, "skipped": skipped}))?;
    Ok(failed == 0)
}

#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Tally {
    /// Counts an outcome, and shows it to the adapter.
    fn add(&mut self, name: &str, outcome: Outcome) -> Result<(), String> {
        let (result, step, why) = match outcome {
            Outcome::Passed => ("passed", None, None),
            Outcome::Skipped(need) => ("skipped", None, Some(need)),
            Outcome::Failed(step, why) => ("failed", Some(step), Some(why)),
        };
        match result {
            "passed" => self.passed += 1,
            "skipped" => self.skipped += 1,
            _ => {
                self.failed += 1;
                eprintln!("{name}: step {}: {}", step.unwrap_or(0), why.as_deref().unwrap_or(""));
            }
        }
        let line = json!({
            "do": "result", "scenario": name, "result": result, "step": step, "why": why,
        });
        Pipes.call(line).map(|_| ())
    }
}
