//! One driver: a program in the language of an SDK that runs the clients of a fleet.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fleet::plan::{self, Work};
use crate::fleet::record::{Client, Record};

/// Time between two looks at a process that is about to end.
const PACE: Duration = Duration::from_millis(10);

/// The way to start a driver.
#[derive(Clone, Debug)]
pub struct Start {
    /// The name of its fleet.
    pub name: String,
    /// The words of the command, with spaces between them.
    pub command: String,
    /// The node's URL.
    pub url: String,
    /// The folder for its files and lines.
    pub folder: PathBuf,
}

/// A running driver. Dropping it ends it.
#[derive(Debug)]
pub struct Driver {
    /// The number of its fleet in the record.
    pub fleet: usize,
    start: Start,
    child: Child,
    input: ChildStdin,
    reader: Option<JoinHandle<()>>,
}

impl Driver {
    /// Starts a driver with a new fleet.
    pub fn start(start: Start, works: &[Work], record: &Record) -> Driver {
        let fleet = record.add_fleet(&start.name, works);
        let (child, input, reader) = start.run(fleet, record);
        Driver { fleet, start, child, input, reader: Some(reader) }
    }

    /// Kills the driver and starts it again. The new one knows nothing of the old one's calls but
    /// what the SDK has stored.
    pub fn restart(&mut self, record: &Record) {
        // It is our child, and has not been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // All lines are read.
        let _ = self.reader.take().map(JoinHandle::join);
        record.abandon_calls(self.fleet);
        let (child, input, reader) = self.start.run(self.fleet, record);
        (self.child, self.input, self.reader) = (child, input, Some(reader));
    }

    /// Sends a command. A driver that has ended is noticed by its missing lines.
    pub fn say(&mut self, command: &str) {
        let _ = writeln!(self.input, "{command}");
    }

    /// Asks for `count` publications of each publisher; returns the number of calls.
    pub fn publish(&mut self, count: u64, record: &Record) -> u64 {
        let mut calls = 0;
        for client in &mut record.state().fleets[self.fleet].clients {
            if matches!(client.work, Work::Publish { .. }) {
                client.calls += count;
                calls += count;
            }
        }
        self.say(&format!("publish {count}"));
        calls
    }

    /// Asks for the reports and waits for the end; the error says what went wrong.
    pub fn end(&mut self, patience: Duration) -> Result<(), String> {
        self.say("end");
        let deadline = Instant::now() + patience;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => break,
                Ok(Some(status)) => return Err(format!("the driver ended: {status}")),
                Ok(None) if Instant::now() < deadline => thread::sleep(PACE),
                Ok(None) => return Err("the driver does not end".to_owned()),
                Err(error) => return Err(error.to_string()),
            }
        }
        let reader = self.reader.take().map(JoinHandle::join);
        reader.transpose().map(|_| ()).map_err(|_| "its reader panicked".to_owned())
    }
}

impl Start {
    fn run(&self, fleet: usize, record: &Record) -> (Child, ChildStdin, JoinHandle<()>) {
        let Start { name, command, url, folder } = self;
        let storage = folder.join(name);
        fs::create_dir_all(&storage).expect("the folder is ours");
        let clients: Vec<Value> = record.state().fleets[fleet].clients.iter().map(shown).collect();
        let path = folder.join(format!("{name}.plan.json"));
        let plan = json!({"name": name, "url": url, "folder": storage, "clients": clients});
        fs::write(&path, plan.to_string()).expect("the folder is ours");
        let append = |kind: &str| {
            let path = folder.join(format!("{name}.{kind}"));
            OpenOptions::new().create(true).append(true).open(path).expect("the folder is ours")
        };
        let mut words = command.split_whitespace();
        let mut program = Command::new(words.next().expect("a command"));
        program.args(words).arg(&path).stdin(Stdio::piped()).stdout(Stdio::piped());
        program.stderr(append("stderr"));
        let mut child = program.spawn().unwrap_or_else(|error| panic!("{command}: {error}"));
        let input = child.stdin.take().expect("a pipe");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut lines = append("lines");
        let record = record.clone();
        let reader = thread::spawn(move || {
            let mut line = Vec::new();
            while output.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                // The last line of a killed process may be torn.
                if line.ends_with(b"\n") {
                    // The file is only for people.
                    let _ = lines.write_all(&line);
                    record.add_line(fleet, String::from_utf8_lossy(&line).trim_end());
                }
                line.clear();
            }
        });
        (child, input, reader)
    }
}

/// A client in the form for drivers.
fn shown(client: &Client) -> Value {
    let mut work = plan::to_json(&client.work);
    work["calls"] = client.calls.into();
    work
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
