//! A small node over real sockets, with planted faults, for the tests of the engine.
#![allow(dead_code)] // each test file uses its part

#[path = "../../../client/tests/support/mod.rs"]
mod support;

mod mqtt;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bench::engine::{Common, Handle, Tally};
use support::{Conversation, Node};
use wire::Step;
use wire::http::{HeadLimits, HeadScan, Request, ResponseWriter};
use wire::websocket::{Assembler, Event, Role, frame};

pub const PATIENCE: Duration = Duration::from_secs(60);

/// The fault of one record on its way to subscribers. It is the first from the tenth on that is not
/// the first of its topic: a subscriber does not miss the first message of a topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    Nothing,
    Lose,
    Repeat,
    Swap,
    /// Connections end while publications are appended, before these are answered.
    Cut,
}

pub struct Server {
    pub address: SocketAddr,
    ends: Arc<AtomicBool>,
    /// Connections whose first request was dealt with.
    pub ready: Arc<AtomicUsize>,
    /// Messages and pings of MQTT that clients have acknowledged and sent.
    pub mqtt: Arc<MqttCounts>,
}

/// The counts of all connections of MQTT.
#[derive(Default)]
pub struct MqttCounts {
    pub acknowledged: AtomicUsize,
    pub pings: AtomicUsize,
}

impl Server {
    pub fn start(plant: Plant) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server {
            address: listener.local_addr().unwrap(),
            ends: Arc::default(),
            ready: Arc::default(),
            mqtt: Arc::default(),
        };
        let node: Arc<Mutex<Node>> = Arc::default();
        let (ends, ready) = (server.ends.clone(), server.ready.clone());
        let mqtt = server.mqtt.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::Acquire) {
                    return;
                }
                let (node, ends, ready) = (node.clone(), ends.clone(), ready.clone());
                let mqtt = mqtt.clone();
                thread::spawn(move || serve(stream.unwrap(), &node, plant, &ends, &ready, &mqtt));
            }
        });
        server
    }

    pub fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// The options for clients of MQTT.
    pub fn common_of_mqtt(&self) -> Common {
        let mut common = Common::new(&[format!("mqtt://{}", self.address)]).unwrap();
        common.threads = 2;
        common
    }

    pub fn wait_ready(&self, connections: usize) {
        let since = Instant::now();
        while self.ready.load(Ordering::Acquire) < connections {
            assert!(since.elapsed() < PATIENCE, "the subscribers arrive in time");
            thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn common(&self) -> Common {
        let mut common = Common::new(&[self.url()]).unwrap();
        common.threads = 2;
        common
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        let _ = TcpStream::connect(self.address);
    }
}

/// The records in the order in which this server delivers them.
fn delivered(node: &Node, from: usize, plant: Plant) -> Vec<usize> {
    let mut order: Vec<usize> = (from..node.records.len()).collect();
    let planted = match plant {
        Plant::Nothing | Plant::Cut => None,
        Plant::Lose | Plant::Repeat | Plant::Swap => planted(node),
    };
    if let Some(at) = order.iter().position(|index| Some(*index) == planted) {
        match plant {
            Plant::Nothing | Plant::Cut => {}
            Plant::Lose => drop(order.remove(at)),
            Plant::Repeat => order.insert(at, order[at]),
            Plant::Swap if at + 1 < order.len() => order.swap(at, at + 1),
            Plant::Swap => order.truncate(at), // waits for its partner
        }
    }
    order
}

/// The place of the record that is not delivered as it should be.
fn planted(node: &Node) -> Option<usize> {
    let has_one_before = |at: &usize| {
        let topic = &node.records[*at].topic;
        node.records[..*at].iter().any(|before| before.topic == *topic)
    };
    (9..node.records.len()).find(has_one_before)
}

fn serve(
    mut stream: TcpStream,
    node: &Mutex<Node>,
    plant: Plant,
    ends: &AtomicBool,
    ready: &AtomicUsize,
    counts: &MqttCounts,
) {
    let mut answers = 0;
    let mut session = mqtt::Session::default();
    stream.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let mut input = Vec::new();
    let mut buffer = [0; 16384];
    let mut kind = None;
    let mut conversation = Conversation::default();
    let mut seen = 0;
    let mut topics = Vec::new();
    while !ends.load(Ordering::Acquire) {
        if !read_some(&mut stream, &mut buffer, &mut input) {
            return;
        }
        if kind.is_none() && !input.is_empty() {
            kind = kind_of(&input);
            seen = node.lock().unwrap().records.len();
            if kind == Some('e') {
                ready.fetch_add(1, Ordering::AcqRel);
            }
        }
        let mut out = Vec::new();
        match kind {
            Some('n') => {
                let mut node = node.lock().unwrap();
                if native(&mut input, &mut node, &mut conversation, plant, &mut seen) {
                    return;
                }
                // The handshake, WELCOME and SUBSCRIBED.
                let answered = answers + conversation.out.len();
                if std::mem::replace(&mut answers, answered) < 3 && answered >= 3 {
                    ready.fetch_add(1, Ordering::AcqRel);
                }
                out = conversation.out.drain(..).collect::<Vec<_>>().concat();
            }
            Some('e') => echo(&mut input, &mut out),
            Some('m') => {
                let mut node = node.lock().unwrap();
                if session.serve(&mut input, &mut node, plant, &mut seen, &mut out) {
                    ready.fetch_add(1, Ordering::AcqRel);
                }
                session.count(counts);
            }
            Some('s' | 'p') => {
                let node = node.lock().unwrap();
                let is_stream = kind == Some('s');
                if let Some(asked) = asked_topics(&mut input, &node, &mut seen) {
                    topics = asked;
                    ready.fetch_add(1, Ordering::AcqRel);
                    begin_http(is_stream, &mut out);
                }
                http(is_stream, &topics, &node, plant, &mut seen, &mut out);
                if !is_stream && !out.is_empty() {
                    topics.clear();
                }
            }
            _ => {}
        }
        if stream.write_all(&out).is_err() {
            return;
        }
    }
}

/// Reads the next bytes; returns whether the connection is still there.
fn read_some(stream: &mut TcpStream, buffer: &mut [u8], input: &mut Vec<u8>) -> bool {
    match stream.read(buffer) {
        Ok(bytes) => {
            input.extend_from_slice(&buffer[..bytes]);
            bytes > 0
        }
        Err(error) => is_repeatable(error.kind()),
    }
}

/// The topics of a whole request, which is taken away; `seen` moves to its cursor.
fn asked_topics(input: &mut Vec<u8>, node: &Node, seen: &mut usize) -> Option<Vec<String>> {
    let request = head(input)?;
    if let Some(since) = since_of(&request) {
        *seen = node.records.iter().filter(|record| record.offset <= since).count();
    }
    Some(topics_of(&request))
}

/// Whether a read without data leaves the connection usable.
fn is_repeatable(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// The kind of a connection by its first request: MQTT, native, echo, event stream or long poll.
fn kind_of(input: &[u8]) -> Option<char> {
    if input.first() == Some(&0x10) {
        return Some('m');
    }
    input.get(4..11).map(|target| match target {
        b"/crore " => 'n',
        b"/echo H" => 'e',
        b"/events" => 's',
        _ => 'p',
    })
}

/// Delivers and receives; whether the connection is cut.
fn native(
    input: &mut Vec<u8>,
    node: &mut Node,
    conversation: &mut Conversation,
    plant: Plant,
    seen: &mut usize,
) -> bool {
    for index in delivered(node, *seen, plant) {
        let record = node.records[index].clone();
        conversation.deliver(&record, node);
        *seen = (*seen).max(index + 1);
    }
    if input.is_empty() {
        return false;
    }
    // A replay goes up to here.
    conversation.receive(&std::mem::take(input), node);
    let appended = node.records.len() - std::mem::replace(seen, node.records.len());
    plant == Plant::Cut && appended > 0 && node.records.len() < 30
}

fn topics_of(request: &str) -> Vec<String> {
    let topic = |part: &str| {
        let name = part.strip_prefix("topic=").or(part.strip_prefix("/topics/"));
        name.map(str::to_owned)
    };
    request.split(['?', '&', ' ']).filter_map(topic).collect()
}

fn since_of(request: &str) -> Option<u64> {
    let since = request.split("since=").nth(1)?.split(['&', ' ']).next()?;
    since.split_once(':')?.1.parse().ok()
}

/// The first line of a whole head, which is taken away.
fn head(input: &mut Vec<u8>) -> Option<String> {
    let step = Request::decode(input, &mut HeadScan::new(), &HeadLimits::default()).unwrap();
    let Step::Done { value, consumed } = step else {
        return None;
    };
    let line = format!("{} {} ", value.method, value.target);
    input.drain(..consumed);
    Some(line)
}

/// Begins the answer of an event stream.
fn begin_http(is_stream: bool, out: &mut Vec<u8>) {
    if is_stream {
        ResponseWriter::new(out, 200).header("Content-Type", "text/event-stream").finish_chunked();
    }
}

fn http(
    is_stream: bool,
    topics: &[String],
    node: &Node,
    plant: Plant,
    seen: &mut usize,
    out: &mut Vec<u8>,
) {
    let mut messages = Vec::new();
    for index in delivered(node, *seen, plant) {
        let record = &node.records[index];
        if topics.is_empty() {
            return;
        }
        *seen = (*seen).max(index + 1);
        if !topics.contains(&record.topic) {
            continue;
        }
        let payload = std::str::from_utf8(&record.payload).unwrap();
        let json = format!("{{\"topic\":\"{}\",\"data\":\"{payload}\"}}", record.topic);
        if is_stream {
            let event = format!("id: {}:{}\ndata: {json}\n\n", node.epoch, record.offset);
            wire::http::body::append_chunk(out, event.as_bytes());
        } else {
            messages.push(json);
        }
    }
    if !messages.is_empty() {
        let cursor = node.records[*seen - 1].offset;
        let page = format!(
            "{{\"messages\":[{}],\"more\":false,\"cursor\":\"{}:{cursor}\"}}",
            messages.join(","),
            node.epoch
        );
        ResponseWriter::new(out, 200).finish_with_body(page.as_bytes());
    }
}

/// Answers the handshake and then every text.
fn echo(input: &mut Vec<u8>, out: &mut Vec<u8>) {
    if input.starts_with(b"GET") {
        let bytes = std::mem::take(input);
        let limits = HeadLimits::default();
        let step = Request::decode(&bytes, &mut HeadScan::new(), &limits).unwrap();
        let Step::Done { value, consumed } = step else {
            *input = bytes;
            return;
        };
        let upgrade = wire::websocket::handshake::Upgrade::check(&value).unwrap();
        upgrade.encode_response(out, None);
        *input = bytes[consumed..].to_vec();
    }
    let mut assembler = Assembler::new();
    let mut consumed = 0;
    while consumed < input.len() {
        let mut assembly = Vec::new();
        let step =
            assembler.decode(&mut input[consumed..], Role::Server, 1 << 20, &mut assembly).unwrap();
        let Step::Done { value, consumed: bytes } = step else {
            break;
        };
        if let Event::Text(text) = value {
            frame::encode(out, true, wire::websocket::Opcode::Text, text.as_bytes(), None);
        }
        consumed += bytes;
    }
    input.drain(..consumed);
}

pub fn wait(handle: &mut Handle, until: impl Fn(&Tally) -> bool) {
    let since = Instant::now();
    while !until(handle.total()) {
        assert!(since.elapsed() < PATIENCE, "in time: {:?}", handle.total().trouble);
        thread::sleep(Duration::from_millis(5));
    }
}
