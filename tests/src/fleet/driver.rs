//! One driver: a program in the language of an SDK that runs the clients of a fleet.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fleet::plan::{self, Work};
use crate::fleet::record::Record;

/// Time between two looks at a process that is about to end.
const PACE: Duration = Duration::from_millis(10);

/// A running driver. Dropping it ends it.
#[derive(Debug)]
pub struct Driver {
    /// The number of its fleet in the record.
    pub fleet: usize,
    child: Child,
    input: ChildStdin,
    reader: Option<JoinHandle<()>>,
}

impl Driver {
    /// Starts the driver `command`, words with spaces between them, as fleet `name`. Its files and
    /// its lines go to the folder.
    pub fn start(
        (name, command): (&str, &str),
        url: &str,
        works: &[Work],
        folder: &Path,
        record: &Record,
    ) -> Driver {
        let fleet = record.add_fleet(name, works);
        let storage = folder.join(name);
        fs::create_dir_all(&storage).expect("the folder is ours");
        let clients: Vec<Value> = works.iter().map(plan::to_json).collect();
        let path = folder.join(format!("{name}.plan.json"));
        let plan = json!({"name": name, "url": url, "folder": storage, "clients": clients});
        fs::write(&path, plan.to_string()).expect("the folder is ours");
        let mut words = command.split_whitespace();
        let mut program = Command::new(words.next().expect("a command"));
        program.args(words).arg(&path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let errors = File::create(folder.join(format!("{name}.stderr")));
        program.stderr(errors.expect("the folder is ours"));
        let mut child = program.spawn().unwrap_or_else(|error| panic!("{command}: {error}"));
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut lines = File::create(folder.join(format!("{name}.lines"))).expect("a file");
        let record = record.clone();
        let reader = thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The file is only for people.
                let _ = writeln!(lines, "{line}");
                record.add_line(fleet, &line);
            }
        });
        Driver { fleet, child, input, reader: Some(reader) }
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

impl Drop for Driver {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
