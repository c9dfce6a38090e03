//! A started program whose output is read by line, with a deadline for each wait.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;

use crate::PATIENCE;

/// The maximum number of a program's last lines in a failure message.
const SHOWN_LINES_MAX: usize = 50;

/// A running program. Dropping it ends it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Receiver<String>,
    /// All lines so far, for a failure message.
    seen: Vec<String>,
    patience: Duration,
}

/// The result of a program.
#[derive(Debug)]
pub struct Ended {
    /// The exit status.
    pub status: ExitStatus,
    /// Both outputs, line by line.
    pub lines: Vec<String>,
}

impl Process {
    /// Starts the command with an empty standard input.
    pub fn start(command: &mut Command) -> Process {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let (sender, lines) = channel();
        let outputs: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|output| Box::new(output) as _),
            child.stderr.take().map(|output| Box::new(output) as _),
        ];
        for output in outputs.into_iter().flatten() {
            let sender = sender.clone();
            thread::spawn(move || {
                let mut reader = BufReader::new(output);
                let mut line = Vec::new();
                while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                    let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                    if sender.send(text).is_err() {
                        return;
                    }
                    line.clear();
                }
            });
        }
        Process { child, lines, seen: Vec::new(), patience: PATIENCE }
    }

    /// Sets a longer deadline for waits.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Process {
        self.patience = patience;
        self
    }

    /// The process identifier.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line for which `pick` returns a value. Panics at the program's end, or at the
    /// deadline.
    pub fn wait_for<T>(&mut self, what: &str, pick: impl Fn(&str) -> Option<T>) -> T {
        let deadline = Instant::now() + self.patience;
        loop {
            match self.next_line(deadline) {
                Ok(line) => {
                    let picked = pick(&line);
                    self.seen.push(line);
                    if let Some(picked) = picked {
                        return picked;
                    }
                }
                Err(reason) => panic!("no {what} ({reason:?}) in\n{}", self.last_lines()),
            }
        }
    }

    /// The next line that is a JSON object.
    pub fn json(&mut self) -> Value {
        self.wait_for("line of JSON", |line| {
            serde_json::from_str(line).ok().filter(Value::is_object)
        })
    }

    /// All lines so far that contain a text.
    pub fn lines_with(&mut self, text: &str) -> Vec<String> {
        self.seen.extend(self.lines.try_iter());
        self.seen.iter().filter(|line| line.contains(text)).cloned().collect()
    }

    /// Drops the lines that were not read.
    pub fn skip_lines(&mut self) {
        self.seen.extend(self.lines.try_iter());
    }

    /// Asserts that no line for which `counts` holds arrives for some time.
    pub fn assert_no_line(&mut self, duration: Duration, counts: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + duration;
        while let Ok(line) = self.next_line(deadline) {
            assert!(!counts(&line), "unexpected: {line}\nafter\n{}", self.last_lines());
            self.seen.push(line);
        }
    }

    /// Sends a signal by its short name.
    pub fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        let status = kill.args(["-s", name, &self.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "cannot send {name}");
    }

    /// Limits the size of files that the program writes, from now on; None for no limit. Writes
    /// beyond it fail: for the program its disk is full.
    pub fn limit_file_bytes(&self, bytes_max: Option<u64>) {
        let pid = i32::try_from(self.id()).ok().and_then(Pid::from_raw);
        let limit = Rlimit {
            current: bytes_max,
            maximum: None, // so that the limit can be raised again
        };
        prlimit(pid, Resource::Fsize, limit).expect("our child's limits are ours to set");
    }

    /// Limits the number of the program's descriptors from now on; None for its hard limit. Open
    /// ones stay open.
    pub fn limit_descriptors(&self, descriptors_max: Option<u64>) {
        let pid = i32::try_from(self.id()).ok().and_then(Pid::from_raw);
        let maximum = prlimit_of(pid).maximum;
        let limit = Rlimit { current: descriptors_max.or(maximum), maximum };
        prlimit(pid, Resource::Nofile, limit).expect("our child's limits are ours to set");
    }

    /// The CPU time of all its threads so far.
    pub fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id()));
        let stat = stat.expect("our child can be read");
        // The command's name, in parentheses, may contain anything; fields are counted behind it.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let ticks: u64 = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|ticks| ticks.parse::<u64>().expect("a number"))
            .sum();
        Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second())
    }

    /// Waits for the end.
    pub fn end(self) -> Ended {
        self.end_within(PATIENCE)
    }

    /// Waits longer for the end.
    pub fn end_within(mut self, duration: Duration) -> Ended {
        let deadline = Instant::now() + duration;
        loop {
            match self.next_line(deadline) {
                Ok(line) => self.seen.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("it does not end; so far\n{}", self.last_lines())
                }
            }
        }
        let status = self.child.wait().expect("the child can be waited for");
        Ended { status, lines: std::mem::take(&mut self.seen) }
    }

    /// The last lines, for a failure message.
    fn last_lines(&self) -> String {
        let first = self.seen.len().saturating_sub(SHOWN_LINES_MAX);
        self.seen[first..].join("\n")
    }

    fn next_line(&self, deadline: Instant) -> Result<String, RecvTimeoutError> {
        self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Panics with the output, unless the program has succeeded.
    pub fn assert_success(&self) {
        assert!(self.status.success(), "{}\n{}", self.status, self.lines.join("\n"));
    }
}

fn prlimit_of(pid: Option<Pid>) -> Rlimit {
    let path = pid.map(|pid| format!("/proc/{}/limits", pid.as_raw_nonzero()));
    let limits = std::fs::read_to_string(path.expect("a process")).expect("our child can be read");
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .expect("a limit of open files");
    let mut numbers = line.split_whitespace().map(|word| word.parse().ok());
    Rlimit { current: numbers.next().flatten(), maximum: numbers.next().flatten() }
}

/// Runs a program to its end, with this standard input.
pub fn with_input(command: &mut Command, input: &[u8]) -> Output {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let stdin = child.stdin.take();
    // A program that ends before it has read all reports that in its status.
    let _ = stdin.expect("a pipe").write_all(input);
    child.wait_with_output().expect("the child can be waited for")
}

/// Runs a program that checks something and reports the result in its exit code.
pub fn assert_success(command: &mut Command) {
    Process::start(command).end_within(Duration::from_secs(300)).assert_success();
}
