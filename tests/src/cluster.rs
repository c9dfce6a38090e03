//! Clients of a cluster that move between its nodes: publishers that repeat until they are
//! acknowledged, and followers of a topic that note what they get.
//!
//! Both speak HTTP over plain sockets. A node that dies is not a failure here: they go on at the
//! next one, a publisher with the same sequence, a follower with the last id.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use brokers::Kafka;
use serde_json::{Value, json};

use crate::PATIENCE;
use crate::curl::curl;
use crate::server::Server;
use crate::tokens::{self, Issuer};

/// The time limit for one answer; afterwards the client goes to the next node. The engine settles a
/// publication within 30 s.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// The pause before a further attempt.
const PAUSE: Duration = Duration::from_millis(100);

/// Clients' addresses of the nodes; a node that starts again may have another one.
pub type Nodes = Arc<Mutex<Vec<String>>>;

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The status of a node's readiness.
pub fn readiness(server: &Server) -> u16 {
    curl(&[&server.operators_url("/readyz")]).status
}

/// Waits until a node is ready: until it has read what the engine had at its start.
pub fn wait_until_ready(server: &Server) {
    let deadline = Instant::now() + PATIENCE;
    while readiness(server) != 200 {
        assert!(Instant::now() < deadline, "the node is not ready");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Sends one publication. None if the node does not answer.
pub fn publish_to(address: &str, message: &Value) -> Option<Value> {
    publish_within(address, message, ANSWER_PATIENCE)
}

/// Sends one publication. None if the node does not answer within `patience`.
pub fn publish_within(address: &str, message: &Value, patience: Duration) -> Option<Value> {
    let body = json!([message]).to_string();
    let stream = TcpStream::connect(address).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(patience)).ok()?;
    exchange(&mut BufReader::new(stream), address, &body)
}

/// Sends a batch of one publication, and returns its result.
fn exchange(stream: &mut BufReader<TcpStream>, address: &str, body: &str) -> Option<Value> {
    let answer = post(stream, address, body)?;
    Some(answer["results"].get(0).cloned().unwrap_or(answer))
}

/// Posts a batch of publications. Returns the body of the answer; none if the node does not answer.
pub fn post(stream: &mut BufReader<TcpStream>, address: &str, body: &str) -> Option<Value> {
    let request = format!(
        "POST /publish HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.get_mut().write_all(request.as_bytes()).ok()?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// The outcome of a publisher's work.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// Offsets of the acknowledged messages, by their numbers.
    pub acknowledged: BTreeMap<u64, u64>,
    /// Codes of refusals, and how often each was met; `lost` for a node that did not answer.
    pub refusals: BTreeMap<String, u64>,
    /// The longest time between two acknowledgements.
    pub longest_silence: Duration,
}

/// Publishes numbers on a topic, one after the other, with a producer's sequence.
#[derive(Debug)]
pub struct Publisher {
    thread: JoinHandle<()>,
    is_ending: Arc<AtomicBool>,
    published: Arc<Mutex<Published>>,
}

impl Publisher {
    /// Begins at the node with this place.
    pub fn begin(nodes: &Nodes, first: usize, topic: &str) -> Publisher {
        let is_ending = Arc::new(AtomicBool::new(false));
        let published = Arc::new(Mutex::new(Published::default()));
        let (nodes, topic) = (nodes.clone(), topic.to_owned());
        let (ending, outcome) = (is_ending.clone(), published.clone());
        let thread = thread::spawn(move || publish(&nodes, first, &topic, &ending, &outcome));
        Publisher { thread, is_ending, published }
    }

    /// The outcome until now.
    pub fn published(&self) -> Published {
        lock(&self.published).clone()
    }

    /// Waits until so many more messages are acknowledged.
    #[track_caller]
    pub fn wait_for_more(&self, count: usize, patience: Duration) {
        let wanted = lock(&self.published).acknowledged.len() + count;
        let deadline = Instant::now() + patience;
        while lock(&self.published).acknowledged.len() < wanted {
            assert!(!self.thread.is_finished(), "a publisher without faults");
            assert!(
                Instant::now() < deadline,
                "publishing stopped: {:?}",
                self.published().refusals
            );
            thread::sleep(PAUSE / 10);
        }
    }

    /// Ends after an acknowledgement of the last message.
    pub fn end(self) -> Published {
        self.is_ending.store(true, Ordering::Relaxed);
        self.thread.join().expect("a publisher without faults");
        lock(&self.published).clone()
    }
}

fn publish(
    nodes: &Nodes,
    first: usize,
    topic: &str,
    is_ending: &AtomicBool,
    published: &Mutex<Published>,
) {
    let (mut at, mut number) = (first, 1);
    let mut connection: Option<(String, BufReader<TcpStream>)> = None;
    let mut last = Instant::now();
    while !is_ending.load(Ordering::Relaxed) {
        // The producer's name is the topic's: a repetition at another node is found by it.
        let message = json!({
            "topic": topic, "data": number.to_string(), "producer": {"id": topic, "sequence": number}
        });
        let body = json!([message]).to_string();
        if connection.is_none() {
            let address = lock(nodes)[at].clone();
            connection = TcpStream::connect(&address).ok().map(|stream| {
                let _ = stream.set_nodelay(true);
                let _ = stream.set_read_timeout(Some(ANSWER_PATIENCE));
                (address, BufReader::new(stream))
            });
        }
        let answer =
            connection.as_mut().and_then(|(address, stream)| exchange(stream, address, &body));
        let mut state = lock(published);
        match answer {
            Some(answer) if answer["offset"].is_u64() => {
                let offset = answer["offset"].as_u64().unwrap_or_default();
                assert_eq!(state.acknowledged.insert(number, offset), None);
                state.longest_silence = state.longest_silence.max(last.elapsed());
                last = Instant::now();
                number += 1;
                continue;
            }
            Some(answer) => {
                let refusal = answer["error"].get("code").unwrap_or(&answer["code"]);
                let code = refusal.as_str().unwrap_or("none").to_owned();
                *state.refusals.entry(code).or_default() += 1;
            }
            None => {
                *state.refusals.entry("lost".into()).or_default() += 1;
                connection = None;
                at = (at + 1) % lock(nodes).len();
            }
        }
        drop(state);
        thread::sleep(PAUSE);
    }
}

/// The messages and events of a follower.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// Offsets and payloads, in the order of their arrival.
    pub messages: Vec<(u64, String)>,
    /// Gaps, as the node told them.
    pub gaps: Vec<Value>,
    /// Further events that are no messages, by name.
    pub others: BTreeMap<String, u64>,
    /// Connections that ended.
    pub moves: usize,
}

/// Follows one topic by event streams, from node to node.
#[derive(Debug)]
pub struct Follower {
    thread: JoinHandle<()>,
    is_ending: Arc<AtomicBool>,
    followed: Arc<Mutex<Followed>>,
}

impl Follower {
    /// Begins at the node with this place, and waits until the stream is live.
    pub fn begin(nodes: &Nodes, first: usize, topic: &str) -> Follower {
        let is_ending = Arc::new(AtomicBool::new(false));
        let followed = Arc::new(Mutex::new(Followed::default()));
        let (nodes, topic) = (nodes.clone(), topic.to_owned());
        let (ending, outcome) = (is_ending.clone(), followed.clone());
        let thread = thread::spawn(move || follow(&nodes, first, &topic, &ending, &outcome));
        let follower = Follower { thread, is_ending, followed };
        follower.wait("a live stream", ANSWER_PATIENCE, |found| {
            found.others.contains_key("crore.start")
        });
        follower
    }

    /// Its messages and events until now.
    pub fn followed(&self) -> Followed {
        lock(&self.followed).clone()
    }

    /// Waits until this holds for what it has got.
    #[track_caller]
    pub fn wait(&self, what: &str, patience: Duration, is_so: impl Fn(&Followed) -> bool) {
        let deadline = Instant::now() + patience;
        while !is_so(&lock(&self.followed)) {
            assert!(!self.thread.is_finished(), "a follower without faults");
            let found = lock(&self.followed);
            let last = found.messages.last();
            assert!(Instant::now() < deadline, "no {what}: {last:?} {:?}", found.others);
            drop(found);
            thread::sleep(PAUSE / 10);
        }
    }

    /// Ends.
    pub fn end(self) -> Followed {
        self.is_ending.store(true, Ordering::Relaxed);
        self.thread.join().expect("a follower without faults");
        lock(&self.followed).clone()
    }
}

fn follow(
    nodes: &Nodes,
    first: usize,
    topic: &str,
    is_ending: &AtomicBool,
    followed: &Mutex<Followed>,
) {
    let mut at = first;
    let mut last_id: Option<String> = None;
    while !is_ending.load(Ordering::Relaxed) {
        let address = lock(nodes)[at].clone();
        if let Ok(stream) = TcpStream::connect(&address) {
            let _ = stream.set_read_timeout(Some(PAUSE));
            read_stream(stream, &address, topic, &mut last_id, is_ending, followed);
            lock(followed).moves += 1;
        }
        at = (at + 1) % lock(nodes).len();
        thread::sleep(PAUSE);
    }
}

/// Reads events until the connection ends.
fn read_stream(
    mut stream: TcpStream,
    address: &str,
    topic: &str,
    last_id: &mut Option<String>,
    is_ending: &AtomicBool,
    followed: &Mutex<Followed>,
) {
    let id = last_id.as_ref().map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
    let request = format!(
        "GET /events?topic={topic} HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n{id}\r\n"
    );
    if stream.write_all(request.as_bytes()).is_err() {
        return;
    }
    let mut received = Vec::new();
    let mut buffer = [0; 16 << 10];
    let (mut name, mut id, mut data) = (String::new(), None, String::new());
    while !is_ending.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => received.extend_from_slice(&buffer[..count]),
            Err(error) if is_patience(&error) => continue,
            Err(_) => return,
        }
        while let Some(end) = received.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = received.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if let Some(rest) = line.strip_prefix("event: ") {
                name = rest.to_owned();
            } else if let Some(rest) = line.strip_prefix("id: ") {
                id = Some(rest.to_owned());
            } else if let Some(rest) = line.strip_prefix("data: ") {
                data.push_str(rest);
            } else if line.is_empty() && !data.is_empty() {
                note(&mut lock(followed), &name, &data);
                if id.is_some() {
                    *last_id = id.take();
                }
                name.clear();
                data.clear();
            }
        }
    }
}

/// Whether a read has only waited for long enough.
pub fn is_patience(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

fn note(followed: &mut Followed, name: &str, data: &str) {
    let value: Value = serde_json::from_str(data).unwrap_or_default();
    match name {
        "" => {
            let offset = value["offset"].as_u64().unwrap_or_default();
            let payload = value["data"].as_str().unwrap_or_default().to_owned();
            followed.messages.push((offset, payload));
        }
        "crore.gap" => followed.gaps.push(value),
        name => *followed.others.entry(name.to_owned()).or_default() += 1,
    }
}

impl Followed {
    /// Asserts that it got each acknowledged message once, in order, at its offset, and no gap.
    #[track_caller]
    pub fn assert_complete(&self, published: &Published) {
        assert!(self.gaps.is_empty(), "{:?}", self.gaps);
        let offsets: Vec<u64> = self.messages.iter().map(|(offset, _)| *offset).collect();
        assert!(offsets.is_sorted_by(|one, next| one < next), "offsets rise");
        let numbers: Vec<u64> =
            self.messages.iter().filter_map(|(_, payload)| payload.parse().ok()).collect();
        let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
        let fault = numbers.iter().zip(&expected).find(|(one, other)| one != other);
        assert_eq!(fault, None, "each number once and in order");
        for (number, offset) in &published.acknowledged {
            let found = self.messages.get(*number as usize - 1);
            assert_eq!(found.map(|(offset, _)| offset), Some(offset), "number {number}");
        }
    }
}

/// The nodes that a node takes for living, by name.
pub fn living(server: &Server) -> Vec<String> {
    let answer = curl(&[&server.operators_url("/api/v1/cluster")]).expect(200).json();
    let nodes = answer["nodes"].as_array().expect("a list");
    let living = nodes.iter().filter(|node| node["is_living"] == true);
    living.filter_map(|node| node["name"].as_str().map(str::to_owned)).collect()
}

/// The messages of `$sys/nodes/KIND`, as a node has them.
pub fn told(server: &Server, kind: &str) -> Vec<Value> {
    let answer = curl(&[&server.url(&format!("/topics/$sys/nodes/{kind}?limit=100"))]);
    let messages = answer.expect(200).json()["messages"].clone();
    let messages = messages.as_array().expect("a list").clone();
    let event = |message: &Value| {
        let data = message["data"].as_str().expect("a text");
        serde_json::from_str(data).expect("JSON")
    };
    messages.iter().map(event).collect()
}

/// The configuration of a node with revocable tokens.
pub fn configuration(kafka: &Kafka, number: usize, data: &Path, issuer: &Issuer) -> String {
    // Without a token a client may do everything, so only those with one can be revoked.
    let anyone = "anonymous_subscribe = [\"#\"]\nanonymous_publish = [\"#\"]\n\
                  anonymous_history = [\"#\", \"$sys/#\"]\n[sys]\nnodes = true\n";
    let node = format!("address = \"ws://n{number}.example.com\"\ndata_dir = {data:?}\n");
    tokens::configuration(anyone, &[issuer])
        + &configuration_with(&kafka.bootstrap(), number, &node, "")
}

/// The configuration of a node on these brokers; `node` and `engine` are further lines of these
/// sections.
pub fn configuration_with(servers: &str, number: usize, node: &str, engine: &str) -> String {
    let servers: Vec<String> = servers.split(',').map(|server| format!("\"{server}\"")).collect();
    format!(
        "[node]\nname = \"n{number}\"\n{node}io_threads = 2\n[tickets]\nkeys = [\"{}\"]\n\
         [limits]\nlog_stall_timeout = \"3s\"\n[mqtt]\nlisten = \"127.0.0.1:0\"\n\
         [engine]\nbootstrap_servers = [{}]\n{engine}\
         [[log]]\nname = \"orders\"\ndurability = \"engine\"\npartitions_count = 8\nage_max = \"1h\"\n\
         [[log]]\nname = \"prices\"\ndurability = \"engine\"\npartitions_count = 2\n\
         compact = true\nage_max = \"20m\"\n\
         [[rule]]\nfilter = \"prices/#\"\nlog = \"prices\"\n\
         [[rule]]\nfilter = \"$mqtt/#\"\nlog = \"prices\"\n",
        "7".repeat(64),
        servers.join(", ")
    )
}

/// Waits until it is so.
///
/// # Panics
/// It is not within [`PATIENCE`].
#[track_caller]
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited for {what}");
        thread::sleep(Duration::from_millis(50));
    }
}
