//! A started program whose output is read line by line, with a deadline for each wait.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;

use crate::PATIENCE;

/// Lines of a program that the message of a failure shows: the last ones.
const SHOWN_LINES_MAX: usize = 50;

/// A running program. Dropping it ends it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Receiver<String>,
    /// All lines so far, for the message of a failure.
    seen: Vec<String>,
    patience: Duration,
}

/// What a program left that has ended.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// Both outputs, line by line.
    pub lines: Vec<String>,
}

impl Process {
    /// Starts the command with nothing on its standard input.
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

    /// The same, waited for longer: what it does next may come late although all is well.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Process {
        self.patience = patience;
        self
    }

    /// The process identifier.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line for which `pick` gives something. Panics when the program ends before, or the
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

    /// Forgets the lines that have come and were not looked at.
    pub fn skip_lines(&mut self) {
        self.seen.extend(self.lines.try_iter());
    }

    /// Asserts that for a while no line comes of which `counts` holds.
    pub fn assert_no_line(&mut self, duration: Duration, counts: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + duration;
        while let Ok(line) = self.next_line(deadline) {
            assert!(!counts(&line), "unexpected: {line}\nafter\n{}", self.last_lines());
            self.seen.push(line);
        }
    }

    /// Sends a signal by its short name, as `kill` knows it.
    pub fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        let status = kill.args(["-s", name, &self.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "cannot send {name}");
    }

    /// Sets how long a file may become that the program writes, from now on; none for no limit.
    /// Writes beyond it fail: for the program its disk is full.
    pub fn limit_file_bytes(&self, bytes_max: Option<u64>) {
        let pid = i32::try_from(self.id()).ok().and_then(Pid::from_raw);
        let limit = Rlimit {
            current: bytes_max,
            maximum: None, // so that the limit can be raised again
        };
        prlimit(pid, Resource::Fsize, limit).expect("our child's limits are ours to set");
    }

    /// Sets how many descriptors a table of the program may have, from now on; none for as many as
    /// it may raise it to. What is open stays open.
    pub fn limit_descriptors(&self, descriptors_max: Option<u64>) {
        let pid = i32::try_from(self.id()).ok().and_then(Pid::from_raw);
        let maximum = prlimit_of(pid).maximum;
        let limit = Rlimit { current: descriptors_max.or(maximum), maximum };
        prlimit(pid, Resource::Nofile, limit).expect("our child's limits are ours to set");
    }

    /// CPU time that it has used so far, of all its threads.
    pub fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id()));
        let stat = stat.expect("our child can be read");
        // The command's name, in parentheses, may hold anything; fields are counted behind it.
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

    /// Waits for the end of what takes longer.
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

    /// What is shown of a failure.
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
        // It may have ended by itself; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Panics with the output, unless the program ended with success.
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

/// Runs a program that reads this from its standard input, to its end.
pub fn with_input(command: &mut Command, input: &[u8]) -> Output {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let stdin = child.stdin.take();
    // One that has ended before it has read all has said so by its status.
    let _ = stdin.expect("a pipe").write_all(input);
    child.wait_with_output().expect("the child can be waited for")
}

/// Runs a program that checks something by itself and exits with success if it is so.
pub fn assert_success(command: &mut Command) {
    Process::start(command).end_within(Duration::from_secs(300)).assert_success();
}
