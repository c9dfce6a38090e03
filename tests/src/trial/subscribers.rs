//! Subscribers of a trial: event streams that move between the nodes, by the last id.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::history::{Clock, Item, Name, Seen, Topic, partition_of, topic_of, topic_text};
use crate::PATIENCE;
use crate::cluster::{Nodes, is_patience};
use crate::fleet::random::Random;

/// The longest silence of a stream: heartbeats come each second.
const SILENCE_MAX: Duration = Duration::from_secs(8);
/// A subscriber moves to another node after this time, and up to three times of it.
const STAY_MS: u64 = 5_000;
/// The pause before a further connection.
const PAUSE: Duration = Duration::from_millis(200);

/// A running subscriber.
#[derive(Debug)]
pub struct Subscriber {
    thread: JoinHandle<()>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    is_ending: AtomicBool,
    is_live: AtomicBool,
    seen: Mutex<Seen>,
    connections: AtomicU64,
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscriber {
    /// Begins, and returns when it is live. `is_filtered`: one filter for all topics.
    pub fn begin(
        nodes: &Nodes,
        clock: Clock,
        number: usize,
        topics: &[Topic],
        is_filtered: bool,
    ) -> Subscriber {
        let seen = Mutex::new(Seen { topics: topics.to_vec(), items: Vec::new() });
        let shared = Arc::new(Shared { seen, ..Shared::default() });
        let names: Vec<String> = topics.iter().copied().map(topic_text).collect();
        let query = if is_filtered { "trial/%23".to_owned() } else { names.join("&topic=") };
        let count = if is_filtered { 1 } else { topics.len() };
        let follow = Follow {
            nodes: nodes.clone(),
            clock,
            query,
            at: number,
            starting: count,
            random: Random(number as u64 + 100),
            last_id: None,
            shared: shared.clone(),
        };
        let thread = thread::spawn(|| follow.run());
        let subscriber = Subscriber { thread, shared };
        let deadline = Instant::now() + PATIENCE;
        while !subscriber.shared.is_live.load(Ordering::Relaxed) {
            assert!(Instant::now() < deadline, "subscriber {number} is not live");
            thread::sleep(PAUSE / 10);
        }
        subscriber
    }

    /// The number of messages until now.
    pub fn items_count(&self) -> usize {
        self.shared.seen().items.len()
    }

    /// Connections until now.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// The topics among these of which it has not got this message.
    pub fn lacks(&self, last: &[(Topic, Name)]) -> Vec<Topic> {
        let seen = self.shared.seen();
        let has = |wanted: Name| {
            let mut items = seen.items.iter().rev();
            items.any(|item| matches!(item, Item::Message { name, .. } if *name == wanted))
        };
        let of_ours = last.iter().filter(|(topic, _)| seen.topics.contains(topic));
        of_ours.filter(|(_, name)| !has(*name)).map(|(topic, _)| *topic).collect()
    }

    /// Ends.
    pub fn end(self) -> Seen {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        self.thread.join().expect("a subscriber without faults");
        self.shared.seen().clone()
    }
}

struct Follow {
    nodes: Nodes,
    clock: Clock,
    query: String,
    at: usize,
    /// Topics and filters that have not begun yet, at the first connection.
    starting: usize,
    random: Random,
    last_id: Option<String>,
    shared: Arc<Shared>,
}

impl Follow {
    fn run(mut self) {
        while !self.shared.is_ending.load(Ordering::Relaxed) {
            let address = {
                let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
                nodes[self.at % nodes.len()].clone()
            };
            if let Ok(stream) = TcpStream::connect(&address) {
                self.shared.connections.fetch_add(1, Ordering::Relaxed);
                let _ = stream.set_read_timeout(Some(PAUSE));
                self.read(stream, &address);
            }
            self.at += 1;
            thread::sleep(PAUSE);
        }
    }

    /// Reads until the node is lost, or it is time to move.
    fn read(&mut self, mut stream: TcpStream, address: &str) {
        let id = self.last_id.as_ref().map(|id| format!("Last-Event-ID: {id}\r\n"));
        let request = format!(
            "GET /events?topic={} HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n{}\r\n",
            self.query,
            id.unwrap_or_default()
        );
        if stream.write_all(request.as_bytes()).is_err() {
            return;
        }
        let stay = STAY_MS + self.random.below(2 * STAY_MS);
        let move_at = Instant::now() + Duration::from_millis(stay);
        let mut last = Instant::now();
        let mut received = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        let mut event = Event::default();
        while !self.shared.is_ending.load(Ordering::Relaxed) {
            let is_started = self.starting == 0;
            if last.elapsed() > SILENCE_MAX || (is_started && Instant::now() > move_at) {
                return;
            }
            match stream.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => received.extend_from_slice(&buffer[..count]),
                Err(error) if is_patience(&error) => continue,
                Err(_) => return,
            }
            last = Instant::now();
            let mut begin = 0;
            while let Some(length) = received[begin..].iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&received[begin..begin + length]).into_owned();
                begin += length + 1;
                if event.take(line.trim_end()) {
                    self.note(std::mem::take(&mut event));
                }
            }
            received.drain(..begin);
        }
    }

    fn note(&mut self, event: Event) {
        // An id alone moves the cursor.
        if event.id.is_some() {
            self.last_id = event.id;
        }
        let value: Value = serde_json::from_str(&event.data).unwrap_or_default();
        match &*event.name {
            "crore.start" if self.starting > 0 => {
                self.starting -= 1;
                self.shared.is_live.store(self.starting == 0, Ordering::Relaxed);
            }
            "" if !event.data.is_empty() => {
                let topic = value["topic"].as_str().and_then(topic_of);
                let name = value["data"].as_str().and_then(Name::of_payload);
                let (Some(topic), Some(name)) = (topic, name) else {
                    panic!("not a message of the trial: {value}");
                };
                let offset = value["offset"].as_u64().expect("an offset");
                self.shared.seen().items.push(Item::Message { topic, offset, name });
            }
            "crore.gap" => {
                let topic = value["topic"].as_str().and_then(topic_of);
                let told = value["partition"].as_u64().map(|number| number as u32);
                let partition = topic.map(partition_of).or(told).expect("a topic or a partition");
                let [from, to] = ["from", "to"].map(|end| value["gap"][end].as_u64().unwrap_or(0));
                let reason = value["gap"]["reason"].as_str();
                let leads_back = matches!(reason, Some("unknown_epoch" | "beyond_head"));
                let at_us = self.clock.now_us();
                let gap = Item::Gap { topic, partition, from, to, leads_back, at_us };
                self.shared.seen().items.push(gap);
            }
            _ => {}
        }
    }
}

/// An event in the making.
#[derive(Debug, Default)]
struct Event {
    name: String,
    id: Option<String>,
    data: String,
}

impl Event {
    /// Takes a line. Returns whether the event is complete.
    fn take(&mut self, line: &str) -> bool {
        if let Some(rest) = line.strip_prefix("event: ") {
            rest.clone_into(&mut self.name);
        } else if let Some(rest) = line.strip_prefix("id: ") {
            self.id = Some(rest.to_owned());
        } else if let Some(rest) = line.strip_prefix("data: ") {
            self.data.push_str(rest);
        }
        line.is_empty() && (self.id.is_some() || !self.data.is_empty())
    }
}
