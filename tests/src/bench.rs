//! `crore bench` as a child process: its figures, interval by interval, and its end.

use std::cell::Cell;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::process::Process;
use crate::tools;

/// A run of `crore bench`. Dropping it ends it.
#[derive(Debug)]
pub struct Bench {
    process: Process,
}

/// The result of a run.
#[derive(Debug)]
pub struct Total {
    /// The exit code; None after an unhandled signal.
    pub code: Option<i32>,
    /// The last figures.
    pub figures: Value,
}

impl Bench {
    /// Starts a run with these arguments, with a line of figures every 100 ms.
    pub fn start(arguments: &[&str]) -> Bench {
        Bench::start_as(tools::crore(), arguments)
    }

    /// Starts a run by another program; `words` are that program and its arguments.
    pub fn start_by(words: &[String], arguments: &[&str]) -> Bench {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(tools::crore().get_program());
        command.env_remove("CRORE_BINARY");
        Bench::start_as(command, arguments)
    }

    fn start_as(mut command: Command, arguments: &[&str]) -> Bench {
        command.arg("bench").args(arguments);
        command.args(["--json", "--interval", "100ms"]);
        Bench { process: Process::start(&mut command) }
    }

    /// Waits for new figures for which `is_so` holds.
    pub fn wait_for(&mut self, what: &str, is_so: impl Fn(&Value) -> bool) {
        self.process.skip_lines();
        self.process.wait_for(what, |line| {
            let figures: Value = serde_json::from_str(line).ok()?;
            is_so(&figures).then_some(())
        });
    }

    /// Waits until the sum of a figure over the next intervals reaches `wanted`.
    pub fn wait_for_sum(&mut self, what: &str, name: &str, wanted: u64) {
        self.process.skip_lines();
        // The next line may still be of the time before.
        self.wait_for(what, |_| true);
        let sum = Cell::new(0);
        self.process.wait_for(what, |line| {
            let figures: Value = serde_json::from_str(line).ok()?;
            sum.set(sum.get() + figures[name].as_u64().unwrap_or(0));
            (sum.get() >= wanted).then_some(())
        });
    }

    /// Requests the end, with a report.
    pub fn ask_to_end(&self) {
        self.signal("TERM");
    }

    /// Waits for a line with all these words.
    pub fn wait_for_words(&mut self, what: &str, words: &[&str]) {
        self.process
            .wait_for(what, |line| words.iter().all(|word| line.contains(word)).then_some(()));
    }

    /// The CPU time used so far.
    pub fn cpu_time(&self) -> Duration {
        self.process.cpu_time()
    }

    /// Limits its descriptors; see [`Process::limit_descriptors`].
    pub fn limit_descriptors(&self, descriptors_max: Option<u64>) {
        self.process.limit_descriptors(descriptors_max);
    }

    /// Sends it a signal by its short name.
    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Waits for its end.
    pub fn end_within(self, duration: Duration) -> Total {
        let ended = self.process.end_within(duration);
        let figures = ended.lines.iter().rev().find_map(|line| {
            let figures: Value = serde_json::from_str(line).ok()?;
            (figures["span"] == "total").then_some(figures)
        });
        Total {
            code: ended.status.code(),
            figures: figures.unwrap_or_else(|| panic!("no total in\n{}", ended.lines.join("\n"))),
        }
    }
}

impl Total {
    /// A figure, by the path of names to it.
    pub fn number(&self, names: &[&str]) -> u64 {
        let value = names.iter().fold(&self.figures, |value, name| &value[*name]);
        value.as_u64().unwrap_or_else(|| panic!("no number {names:?} in {}", self.figures))
    }
}
