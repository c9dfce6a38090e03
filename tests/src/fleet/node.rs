//! The node of a fleet, and what happens to it. Whenever it is down, the ledger reads its logs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::curl::curl;
use crate::fleet::ledger::Ledger;
use crate::fleet::record::Place as At;
use crate::process;
use crate::server::{Place, Server};
use crate::successor::Successor;
use crate::tools::crore;

/// The log that keeps everything.
pub const KEPT: &str = "kept";
/// Its partitions.
pub const KEPT_PARTITIONS: u64 = 4;
/// The log with little room.
pub const SHORT: &str = "short";

const CONFIGURATION: &str = r##"
drain_window = "2s"
[limits]
message_bytes_max = "16KiB"
log_stall_timeout = "5m"
[websocket]
ping_interval = "3s"
[[log]]
name = "kept"
durability = "disk"
partitions_count = 4
bytes_max = "1GiB"
age_max = "1d"
segment_bytes = "256KiB"
cache_bytes = "256KiB"
[[log]]
name = "short"
durability = "disk"
partitions_count = 2
bytes_max = "256KiB"
segment_bytes = "64KiB"
cache_bytes = "64KiB"
[[rule]]
filter = "#"
history_messages_max = 100000000
[[rule]]
filter = "short/#"
log = "short"
history_messages_max = 100000000
"##;

/// The node; it always has the same addresses.
#[derive(Debug)]
pub struct Node {
    place: Place,
    server: Option<Server>,
    /// After a live upgrade: the process that is the node.
    successor: Option<Successor>,
    /// All messages that any of its logs has had.
    pub ledger: Ledger,
    has_backup: bool,
}

impl Node {
    /// Starts a node with empty logs.
    pub fn start() -> Node {
        let mut place = Place::new("127.0.0.1:0");
        let data = format!("[node]\ndata_dir = {:?}", place.path("data"));
        place.configure(&format!("{data}{CONFIGURATION}"));
        let server = Some(place.start());
        Node { place, server, successor: None, ledger: Ledger::default(), has_backup: false }
    }

    /// The address for clients.
    pub fn address(&self) -> &str {
        &self.server().clients
    }

    /// Publishes one message; returns its place.
    pub fn publish(&mut self, topic: &str, payload: &str) -> At {
        self.publish_all(&[topic.to_owned()], 1, |_| payload.to_owned())[0]
    }

    /// Publishes `count` messages to the topics in turn, in requests of many.
    pub fn publish_all(
        &mut self,
        topics: &[String],
        count: usize,
        payload: impl Fn(usize) -> String,
    ) -> Vec<At> {
        let numbers: Vec<usize> = (0..count).collect();
        let mut places = Vec::new();
        for numbers in numbers.chunks(1_000) {
            let topic = |number: usize| topics[number % topics.len()].clone();
            let one = |&number: &usize| json!({"topic": topic(number), "data": payload(number)});
            let path = self.place.path("batch.json");
            let batch: Vec<Value> = numbers.iter().map(one).collect();
            fs::write(&path, json!({"batch": batch}).to_string()).expect("the folder is ours");
            let data = format!("@{}", path.display());
            let kind = "Content-Type: application/json";
            let url = self.server().url("/publish");
            let answer = curl(&["--data-binary", &data, "-H", kind, &url]).expect(200).json();
            for (result, number) in answer["results"].as_array().into_iter().flatten().zip(numbers)
            {
                let epoch = result["epoch"].as_str().and_then(|text| text.parse().ok());
                let at = At {
                    epoch: epoch.unwrap_or_else(|| panic!("{answer}")),
                    offset: result["offset"].as_u64().expect("an offset"),
                };
                self.ledger.add_confirmed(&topic(*number), at, &payload(*number));
                places.push(at);
            }
        }
        places
    }

    /// Kills it (`kill -9`) and starts it again. The log of the first time is kept as a backup, for
    /// one restore: one backup restored twice would use offsets twice, in different epochs.
    pub fn crash(&mut self) {
        self.kill();
        if !self.has_backup {
            self.has_backup = true;
            copy(&self.data(KEPT), &self.place.path("backup"));
        }
        self.server = Some(self.place.start());
    }

    /// Drains it by SIGTERM and starts it again.
    pub fn drain(&mut self) {
        let server = self.server.take().expect("it runs");
        match self.successor.take() {
            Some(successor) => {
                successor.signal("TERM");
                successor.wait_for_end();
                drop(server);
            }
            None => {
                server.process.signal("TERM");
                server.end().assert_success();
            }
        }
        self.read_logs();
        self.server = Some(self.place.start());
    }

    /// Replaces it by another process, while it serves.
    pub fn upgrade(&mut self) {
        let server = self.server.as_mut().expect("it runs");
        self.successor = Some(match self.successor.take() {
            Some(successor) => successor.upgrade(&mut server.process),
            None => server.process.upgrade(),
        });
    }

    /// Kills it, replaces the log that keeps everything by its backup, and starts the node again:
    /// what came after the backup is lost, and a new epoch begins.
    pub fn restore(&mut self) {
        assert!(self.has_backup, "a crash comes before a restore");
        self.kill();
        self.has_backup = false;
        let data = self.data(KEPT);
        fs::remove_dir_all(&data).expect("the folder is ours");
        fs::rename(self.place.path("backup"), &data).expect("the folder is ours");
        self.ledger.restored(KEPT, &dump(&data));
        self.server = Some(self.place.start());
    }

    /// Ends it and reads its logs for the last time.
    pub fn end(&mut self) {
        self.kill();
        for log in [KEPT, SHORT] {
            let dumped = dump(&self.data(log));
            self.ledger.finish(log, &dumped);
        }
    }

    fn kill(&mut self) {
        let server = self.server.take().expect("it runs");
        match self.successor.take() {
            Some(successor) => successor.kill(server),
            None => drop(server),
        }
        self.read_logs();
    }

    fn read_logs(&mut self) {
        for log in [KEPT, SHORT] {
            let dumped = dump(&self.data(log));
            self.ledger.add(log, &dumped);
        }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs")
    }

    fn data(&self, log: &str) -> PathBuf {
        self.place.path("data").join(log)
    }
}

/// The records of a log whose node is down, one JSON object for each.
fn dump(directory: &Path) -> Vec<Value> {
    let mut command = crore();
    command.args(["log", "dump", "--json"]).arg(directory);
    let output = command.output().expect("the server's binary starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let objects = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    objects.filter(|it: &Value| it["topic"].is_string()).collect()
}

fn copy(from: &Path, to: &Path) {
    process::assert_success(Command::new("cp").arg("-a").arg(from).arg(to));
}
