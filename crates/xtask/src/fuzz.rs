//! The long fuzz run: every target, coverage-guided, for its share of the time; and a table of the
//! results.
//!
//! It builds with the compiler's coverage pass (`fuzz/README.md` has the manual steps) into a
//! separate folder. New inputs are kept in `fuzz/artifacts/found` and reused; inputs that break a
//! target are kept beside them and listed in the table.
//!
//! Invariants: all targets run for the same time, as many at once as there are jobs; a broken
//! target continues until its time is over, so that one finding hides no other; a target without
//! executions counts as failed.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::shell::{self, Workspace};

/// Flags of the build: coverage of edges and comparisons, in one unit for each crate so that
/// counters are not doubled.
const RUSTFLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing";

/// The maximum size of inputs: decoders with higher counts have seeds for them.
const INPUT_BYTES_MAX: u32 = 4_096;
/// The time limit of one input; the slowest take milliseconds.
const INPUT_TIMEOUT_S: u32 = 10;
/// The memory limit of one input.
const MEMORY_MIB_MAX: u32 = 2_048;
/// The maximum number of restarts of a broken target: the same fault recurs.
const RESTARTS_MAX: usize = 20;

/// Options of a run.
#[derive(Debug, PartialEq)]
pub struct Options {
    /// The time of all targets together.
    minutes: f64,
    /// The number of processes at once.
    jobs: usize,
    /// The selected targets; empty: all.
    targets: Vec<String>,
}

impl Options {
    /// Parses the words behind `fuzz`.
    pub fn parse(words: &[&str]) -> Result<Options> {
        let mut options = Options {
            minutes: 0.0,
            jobs: thread::available_parallelism().map_or(1, usize::from),
            targets: Vec::new(),
        };
        let mut rest = words.iter();
        while let Some(option) = rest.next() {
            let value = rest.next().with_context(|| format!("{option} needs a value"))?;
            match *option {
                "--minutes" => options.minutes = value.parse().context("--minutes")?,
                "--jobs" => options.jobs = value.parse().context("--jobs")?,
                "--target" => options.targets.push((*value).to_owned()),
                _ => bail!("unknown option {option}"),
            }
        }
        ensure!(
            options.minutes > 0.0 && options.minutes.is_finite(),
            "--minutes is required: the total time"
        );
        ensure!(options.jobs > 0, "--jobs must be at least 1");
        Ok(options)
    }

    /// The time of each of `targets_count` targets.
    fn share(&self, targets_count: usize) -> Duration {
        let jobs = self.jobs.min(targets_count.max(1));
        let rounds = targets_count.div_ceil(jobs).max(1);
        Duration::from_secs_f64((self.minutes * 60.0 / rounds as f64).max(1.0))
    }
}

/// The result of one target.
#[derive(Clone, Debug, Default, PartialEq)]
struct Outcome {
    executions: u64,
    elapsed: Duration,
    /// The number of covered edges.
    edges: u64,
    /// libFuzzer's finer count: edges by frequency, and comparisons.
    features: u64,
    /// The number of inputs found in this run.
    inputs_new: u64,
    /// The files that break it.
    findings: BTreeSet<String>,
}

/// Builds and runs the targets, and prints the table. False if there are findings, or a target
/// without executions.
pub fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    let folder = workspace.root.join("fuzz");
    let known = targets(&folder)?;
    if let Some(unknown) = options.targets.iter().find(|name| !known.contains(name)) {
        bail!("unknown target {unknown}; known targets: {}", known.join(", "));
    }
    let chosen: Vec<String> =
        if options.targets.is_empty() { known } else { options.targets.clone() };
    let binaries = build(workspace)?;
    let share = options.share(chosen.len());
    let jobs = options.jobs.min(chosen.len());
    println!("{} targets, {jobs} at once, {} s each", chosen.len(), share.as_secs());
    let waiting = Mutex::new(chosen.iter().cloned().collect::<VecDeque<_>>());
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let work = || {
            while let Some(name) = take(&waiting) {
                let outcome = fuzz(&folder, &binaries.join(&name), &name, share);
                println!("{name}: {}", verdict(&outcome));
                locked(&done).push((name, outcome));
            }
        };
        for _ in 1..jobs {
            scope.spawn(work);
        }
        work();
    });
    let mut outcomes = locked(&done)
        .drain(..)
        .map(|(name, outcome)| Ok((name, outcome?)))
        .collect::<Result<Vec<_>>>()?;
    outcomes.sort_by(|(a, _), (b, _)| a.cmp(b));
    print!("\n{}", table(&outcomes));
    Ok(outcomes.iter().all(|(_, outcome)| outcome.findings.is_empty() && outcome.executions > 0))
}

fn take(waiting: &Mutex<VecDeque<String>>) -> Option<String> {
    locked(waiting).pop_front()
}

/// Locks a mutex. No thread panics while it holds one; after a panic the value would still be
/// valid.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn targets(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.join("fuzz_targets"))? {
        let path = entry?.path();
        if let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) {
            names.push(stem.to_owned());
        }
    }
    names.sort();
    ensure!(!names.is_empty(), "there are no fuzz targets");
    Ok(names)
}

/// Builds the targets and returns the folder of the binaries. `--target` keeps the flags away from
/// build scripts.
fn build(workspace: &Workspace) -> Result<PathBuf> {
    let compiler = shell::output(&mut workspace.command(&["rustc", "-vV"]))?;
    let host = compiler
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("rustc names its host")?;
    let target = workspace.target.join("fuzz-coverage");
    let arguments = [
        "build",
        "--locked",
        "--release",
        "--manifest-path",
        "fuzz/Cargo.toml",
        "--features",
        "libfuzzer",
        "--bins",
        "--target",
        host,
    ];
    let mut cargo = workspace.cargo(&arguments);
    cargo.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", RUSTFLAGS);
    shell::run(&mut cargo)?;
    Ok(target.join(host).join("release"))
}

/// Runs one target until its time is over.
fn fuzz(folder: &Path, binary: &Path, name: &str, share: Duration) -> Result<Outcome> {
    let found = folder.join("artifacts/found").join(name);
    let broken = folder.join("artifacts").join(name);
    fs::create_dir_all(&found)?;
    fs::create_dir_all(&broken)?;
    let begin = Instant::now();
    let known = file_names(&broken)?;
    let mut outcome = Outcome::default();
    for _ in 0..RESTARTS_MAX {
        let left = share.saturating_sub(begin.elapsed()).as_secs();
        if left == 0 {
            break;
        }
        let mut command = Command::new(binary);
        command
            .arg(format!("-max_total_time={left}"))
            .arg(format!("-max_len={INPUT_BYTES_MAX}"))
            .arg(format!("-timeout={INPUT_TIMEOUT_S}"))
            .arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"))
            .arg("-print_final_stats=1")
            .arg(format!("-artifact_prefix={}/", broken.display()))
            .arg(&found)
            .arg(folder.join("corpus").join(name));
        let output =
            command.output().with_context(|| format!("cannot start {}", binary.display()))?;
        outcome.take(&String::from_utf8_lossy(&output.stderr));
        if output.status.success() {
            break;
        }
    }
    outcome.elapsed = begin.elapsed();
    outcome.findings = file_names(&broken)?.difference(&known).cloned().collect();
    Ok(outcome)
}

impl Outcome {
    /// Adds the statistics at the end of a run; a broken run has them too.
    fn take(&mut self, log: &str) {
        let statistic = |name: &str| {
            let lines = log.lines().filter_map(|line| line.strip_prefix("stat::"));
            let value =
                lines.filter_map(|line| line.split_once(':')).find(|(found, _)| *found == name);
            value.and_then(|(_, value)| value.trim().parse().ok())
        };
        let last = |word: &str| {
            let mut counts = log.lines().rev().filter_map(|line| {
                let mut words = line.strip_prefix('#')?.split_whitespace();
                words.find(|found| *found == word)?;
                words.next()?.parse::<u64>().ok()
            });
            counts.next().unwrap_or(0)
        };
        self.executions += statistic("number_of_executed_units").unwrap_or_else(|| executed(log));
        self.inputs_new += statistic("new_units_added").unwrap_or(0);
        self.edges = self.edges.max(last("cov:"));
        self.features = self.features.max(last("ft:"));
    }
}

/// The number of executions of a run without statistics: the number at the start of its last status
/// line.
fn executed(log: &str) -> u64 {
    let mut numbers = log
        .lines()
        .rev()
        .filter_map(|line| line.strip_prefix('#')?.split_whitespace().next()?.parse().ok());
    numbers.next().unwrap_or(0)
}

fn file_names(folder: &Path) -> Result<BTreeSet<String>> {
    let entries = fs::read_dir(folder)?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

fn verdict(outcome: &Result<Outcome>) -> String {
    match outcome {
        Ok(outcome) => format!(
            "{} executions, {} edges, {} findings",
            outcome.executions,
            outcome.edges,
            outcome.findings.len()
        ),
        Err(error) => format!("{error:#}"),
    }
}

/// The table in the form of `docs/reliability.md`.
fn table(outcomes: &[(String, Outcome)]) -> String {
    let mut text =
        "| target | executions | a second | edges | features | new inputs | findings |\n\
                    |---|---|---|---|---|---|---|\n"
            .to_owned();
    let mut line = |name: &str, outcome: &Outcome| {
        let rate = outcome.executions as f64 / outcome.elapsed.as_secs_f64().max(1.0);
        let findings: Vec<&str> = outcome.findings.iter().map(String::as_str).collect();
        let findings = match findings[..] {
            [] => "none".to_owned(),
            _ => findings.join(", "),
        };
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {findings} |",
            grouped(outcome.executions),
            grouped(rate as u64),
            grouped(outcome.edges),
            grouped(outcome.features),
            grouped(outcome.inputs_new)
        );
    };
    let mut all = Outcome::default();
    for (name, outcome) in outcomes {
        line(&format!("`{name}`"), outcome);
        all.executions += outcome.executions;
        all.elapsed += outcome.elapsed;
        all.edges += outcome.edges;
        all.features += outcome.features;
        all.inputs_new += outcome.inputs_new;
        all.findings.extend(outcome.findings.iter().cloned());
    }
    line("all", &all);
    text
}

/// Formats `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parsed() {
        let options = Options::parse(&["--minutes", "60", "--jobs", "2", "--target", "a"]).unwrap();
        assert_eq!(options, Options { minutes: 60.0, jobs: 2, targets: vec!["a".to_owned()] });
        // Sixteen targets, two at once: eight rounds.
        assert_eq!(options.share(16), Duration::from_secs(450));
        assert_eq!(options.share(1), Duration::from_secs(3_600));
        for wrong in
            [&["--minutes"][..], &["--minutes", "0"], &["--minutes", "x"], &[], &["--all", "1"]]
        {
            assert!(Options::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_log_is_read() {
        let log = "INFO: seed corpus\n#2\tINITED cov: 10 ft: 11 corp: 1/1b exec/s: 0 rss: 30Mb\n\
                   #4096\tpulse  cov: 210 ft: 301 corp: 9/1b\n#5000\tDONE   cov: 211 ft: 302 corp: 9/1b\n\
                   stat::number_of_executed_units: 5000\nstat::new_units_added:         8\n";
        let mut outcome = Outcome::default();
        outcome.take(log);
        outcome.take("#70\tNEW    cov: 3 ft: 4 corp: 1/1b\nthread panicked\n");
        assert_eq!(
            (outcome.executions, outcome.edges, outcome.features, outcome.inputs_new),
            (5_070, 211, 302, 8)
        );
    }

    #[test]
    fn the_table_adds_up() {
        let outcome = |executions, findings: &[&str]| Outcome {
            executions,
            elapsed: Duration::from_secs(2),
            edges: 5,
            findings: findings.iter().map(|name| (*name).to_owned()).collect(),
            ..Outcome::default()
        };
        let outcomes = [
            ("a".to_owned(), outcome(1_000, &[])),
            ("b".to_owned(), outcome(2_000_000, &["crash-1"])),
        ];
        let table = table(&outcomes);
        assert!(table.contains("\n| `a` | 1,000 | 500 | 5 | 0 | 0 | none |\n"), "{table}");
        assert!(
            table.ends_with("| all | 2,001,000 | 500,250 | 10 | 0 | 0 | crash-1 |\n"),
            "{table}"
        );
    }
}
