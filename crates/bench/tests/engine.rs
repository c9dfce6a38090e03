//! The engine over real sockets against a small node: figures are right, and planted faults are found.

#[path = "../../client/tests/support/mod.rs"]
mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bench::BenchCommand;
use bench::audit::{Entry, Findings, Ledger};
use bench::engine::{
    Absence, Beginning, Common, Echoes, EchoesConfig, Handle, Publishers, PublishersConfig, Route,
    Subscribers, SubscribersConfig, Tally, Transport,
};
use bench::verify::Faults;
use clap::Parser;
use support::{Conversation, Node};
use wire::Step;
use wire::http::{HeadLimits, HeadScan, Request, ResponseWriter};
use wire::websocket::{Assembler, Event, Role, frame};

const PATIENCE: Duration = Duration::from_secs(30);

/// What is done to the tenth record on its way to subscribers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plant {
    Nothing,
    Lose,
    Repeat,
    Swap,
}

struct Server {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    /// Connections whose first request was dealt with.
    ready: Arc<AtomicUsize>,
}

impl Server {
    fn start(plant: Plant) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server {
            address: listener.local_addr().unwrap(),
            ends: Arc::default(),
            ready: Arc::default(),
        };
        let node: Arc<Mutex<Node>> = Arc::default();
        let (ends, ready) = (server.ends.clone(), server.ready.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::Acquire) {
                    return;
                }
                let (node, ends, ready) = (node.clone(), ends.clone(), ready.clone());
                thread::spawn(move || serve(stream.unwrap(), &node, plant, &ends, &ready));
            }
        });
        server
    }

    fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    fn wait_ready(&self, connections: usize) {
        let since = Instant::now();
        while self.ready.load(Ordering::Acquire) < connections {
            assert!(since.elapsed() < PATIENCE, "the subscribers arrive in time");
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn common(&self) -> Common {
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
    if let Some(at) = order.iter().position(|index| *index == 9) {
        match plant {
            Plant::Nothing => {}
            Plant::Lose => drop(order.remove(at)),
            Plant::Repeat => order.insert(at, 9),
            Plant::Swap if order.contains(&10) => order.swap(at, at + 1),
            Plant::Swap => order.truncate(at), // waits for its partner
        }
    }
    order
}

fn serve(
    mut stream: TcpStream,
    node: &Mutex<Node>,
    plant: Plant,
    ends: &AtomicBool,
    ready: &AtomicUsize,
) {
    let mut answers = 0;
    stream
        .set_read_timeout(Some(Duration::from_millis(2)))
        .unwrap();
    let mut input = Vec::new();
    let mut buffer = [0; 16384];
    let mut kind = None;
    let mut conversation = Conversation::default();
    let mut seen = 0;
    let mut topics = Vec::new();
    while !ends.load(Ordering::Acquire) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(bytes) => input.extend_from_slice(&buffer[..bytes]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
        if kind.is_none() && !input.is_empty() {
            kind = input.get(4..11).map(|target| match target {
                b"/crore " => 'n',
                b"/echo H" => 'e',
                b"/events" => 's',
                _ => 'p',
            });
            seen = node.lock().unwrap().records.len();
            if kind == Some('e') {
                ready.fetch_add(1, Ordering::AcqRel);
            }
        }
        let mut out = Vec::new();
        match kind {
            Some('n') => {
                let mut node = node.lock().unwrap();
                let order = delivered(&node, seen, plant);
                for index in &order {
                    let record = node.records[*index].clone();
                    conversation.deliver(&record, &node);
                    seen = seen.max(index + 1);
                }
                if !input.is_empty() {
                    // A replay goes up to here.
                    conversation.receive(&std::mem::take(&mut input), &mut node);
                    seen = node.records.len();
                }
                // The handshake, WELCOME and SUBSCRIBED.
                let before = answers;
                answers += conversation.out.len();
                if before < 3 && answers >= 3 {
                    ready.fetch_add(1, Ordering::AcqRel);
                }
                out = conversation.out.drain(..).collect::<Vec<_>>().concat();
            }
            Some('e') => echo(&mut input, &mut out),
            Some('s' | 'p') => {
                let node = node.lock().unwrap();
                if let Some(request) = head(&mut input) {
                    topics = request
                        .split(['?', '&', ' '])
                        .filter_map(|part| {
                            part.strip_prefix("topic=")
                                .or(part.strip_prefix("/topics/"))
                        })
                        .map(str::to_owned)
                        .collect();
                    let since = request.split("since=").nth(1).and_then(|rest| {
                        rest.split(['&', ' '])
                            .next()?
                            .split_once(':')?
                            .1
                            .parse::<u64>()
                            .ok()
                    });
                    if let Some(since) = since {
                        seen = node
                            .records
                            .iter()
                            .filter(|record| record.offset <= since)
                            .count();
                    }
                    ready.fetch_add(1, Ordering::AcqRel);
                    if kind == Some('s') {
                        ResponseWriter::new(&mut out, 200)
                            .header("Content-Type", "text/event-stream")
                            .finish_chunked();
                    }
                }
                http(
                    kind == Some('s'),
                    &topics,
                    &node,
                    plant,
                    &mut seen,
                    &mut out,
                );
                if kind == Some('p') && !out.is_empty() {
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
        let step = assembler
            .decode(&mut input[consumed..], Role::Server, 1 << 20, &mut assembly)
            .unwrap();
        let Step::Done {
            value,
            consumed: bytes,
        } = step
        else {
            break;
        };
        if let Event::Text(text) = value {
            frame::encode(
                out,
                true,
                wire::websocket::Opcode::Text,
                text.as_bytes(),
                None,
            );
        }
        consumed += bytes;
    }
    input.drain(..consumed);
}

fn wait(handle: &mut Handle, until: impl Fn(&Tally) -> bool) {
    let since = Instant::now();
    while !until(handle.total()) {
        assert!(
            since.elapsed() < PATIENCE,
            "in time: {:?}",
            handle.total().trouble
        );
        thread::sleep(Duration::from_millis(5));
    }
}

/// Publishes 5 messages on each of 8 topics, of which each of 4 clients has 2.
fn run(transport: Transport, per_client: u32, plant: Plant) -> Faults {
    let server = Server::start(plant);
    let mut config = SubscribersConfig::new(
        server.common(),
        "t/{1..8}".parse().unwrap(),
        u64::from(8 / per_client),
    );
    config.transport = transport;
    config.topics.per_client = per_client;
    config.sample = 2;
    let clients = config.clients;
    let mut subscribers = Subscribers::start(config).unwrap();
    wait(&mut subscribers, |total| {
        total.connections == clients as i64
    });
    // A poll counts as open before it has arrived, and only then messages may flow.
    server.wait_ready(clients as usize);
    let mut load = PublishersConfig::new(server.common(), "t/{1..8}".parse().unwrap(), 400.0);
    load.connections = 2;
    load.load.count = 40;
    let mut publishers = Publishers::start(load).unwrap();
    wait(&mut publishers, |total| total.received == 40);
    let published = publishers.stop().total;
    assert_eq!(
        (published.sent, published.inflight, published.unacknowledged),
        (40, 0, 0)
    );
    assert_eq!(published.latency.count(), 40);
    let wanted = if plant == Plant::Lose { 39 } else { 40 };
    wait(&mut subscribers, |total| total.received >= wanted);
    let snapshot = subscribers.snapshot();
    assert_eq!(snapshot.total.clients_with_data, clients);
    let summary = subscribers.stop();
    assert_eq!(summary.samples.len(), 2);
    assert_eq!(summary.total.connects, clients);
    assert_eq!(summary.total.connect_time.count(), clients);
    assert_eq!(summary.total.foreign, 0);
    assert!(summary.total.latency.count() >= wanted);
    assert_eq!(
        summary.total.clients_faulty,
        u64::from(!summary.total.is_clean())
    );
    summary.total.faults
}

#[test]
fn native_subscribers() {
    assert!(run(Transport::Ws, 2, Plant::Nothing).is_clean());
    let lost = run(Transport::Ws, 2, Plant::Lose);
    assert_eq!((lost.lost, lost.proof_failed), (1, 1));
    assert_eq!(run(Transport::Ws, 2, Plant::Repeat).repeated, 1);
}

#[test]
fn many_topics_of_one_client() {
    let server = Server::start(Plant::Nothing);
    let mut config = SubscribersConfig::new(server.common(), "m/{1..2000}".parse().unwrap(), 1);
    config.topics.per_client = 2_000;
    let mut subscribers = Subscribers::start(config).unwrap();
    wait(&mut subscribers, |total| total.connections == 1);
    let mut load = PublishersConfig::new(server.common(), "m/{1..2000}".parse().unwrap(), 0.0);
    load.load.count = 300;
    let mut publishers = Publishers::start(load).unwrap();
    wait(&mut publishers, |total| total.received == 300);
    wait(&mut subscribers, |total| total.received == 300);
    assert!(subscribers.stop().total.is_clean());
}

/// 4 audited clients of 2 topics each, which begin with the oldest message, and 40 messages for them.
fn audited(plant: Plant, change: impl FnOnce(&mut SubscribersConfig)) -> (Tally, Findings) {
    let server = Server::start(plant);
    let topics = || "t/{1..8}".parse().unwrap();
    let mut config = SubscribersConfig::new(server.common(), topics(), 4);
    config.topics.per_client = 2;
    config.is_audited = true;
    config.beginning = Beginning::First;
    change(&mut config);
    let returns = u64::from(config.away.is_some());
    let mut subscribers = Subscribers::start(config).unwrap();
    wait(&mut subscribers, |total| total.clients_live == 4);
    let mut load = PublishersConfig::new(server.common(), topics(), 0.0);
    load.load.count = 40;
    let mut publishers = Publishers::start(load).unwrap();
    wait(&mut publishers, |total| total.received == 40);
    publishers.stop();
    assert!(!subscribers.has_all_acknowledged(), "nothing is known yet");
    let mut ledger = Ledger::default();
    for topic in 1..=8 {
        let entry = Entry {
            acknowledged: 5,
            sequence: 5,
        };
        ledger.insert(format!("t/{topic}"), entry);
    }
    subscribers.set_ledger(ledger);
    let since = Instant::now();
    while !subscribers.has_all_acknowledged() {
        assert!(since.elapsed() < PATIENCE, "{:?}", subscribers.total());
        thread::sleep(Duration::from_millis(5));
    }
    // Whether they were away before, during or after that is the machine's choice.
    wait(&mut subscribers, |total| {
        total.clients_live == 4 && total.return_time.count() >= returns
    });
    let summary = subscribers.stop();
    (summary.total, summary.findings.unwrap())
}

#[test]
fn streams_are_audited_to_their_ledger() {
    let (total, findings) = audited(Plant::Nothing, |_| {});
    assert!(findings.is_good(), "{findings:?}");
    assert_eq!((findings.streams, findings.complete), (8, 8));
    assert_eq!((findings.messages, total.messages), (40, 40));
    assert_eq!(findings.ledger_acknowledged, Some(40));
    for plant in [Plant::Lose, Plant::Repeat] {
        let (_, findings) = audited(plant, |_| {});
        assert_eq!((findings.complete, findings.faulty), (7, 1), "{plant:?}");
        assert!(findings.examples[0].starts_with("t/"), "{findings:?}");
    }
}

#[test]
fn an_auditor_that_comes_later_begins_with_the_oldest() {
    let server = Server::start(Plant::Nothing);
    let mut load = PublishersConfig::new(server.common(), "t".parse().unwrap(), 0.0);
    load.load.count = 20;
    let mut publishers = Publishers::start(load).unwrap();
    wait(&mut publishers, |total| total.received == 20);
    for (beginning, messages) in [(Beginning::First, 20), (Beginning::Last(5), 5)] {
        let mut config = SubscribersConfig::new(server.common(), "t".parse().unwrap(), 1);
        config.beginning = beginning;
        config.is_audited = true;
        let mut auditor = Subscribers::start(config).unwrap();
        wait(&mut auditor, |total| total.clients_live == 1);
        let summary = auditor.stop();
        assert_eq!(
            (summary.total.messages, summary.total.recovered),
            (messages, messages)
        );
        assert_eq!(summary.findings.unwrap().complete, 1);
    }
    // The fake node knows epoch 7 only: a position of another one is a gap.
    for (beginning, gaps) in [(Beginning::Since(7, 3), 0), (Beginning::Since(8, 3), 1)] {
        let mut config = SubscribersConfig::new(server.common(), "t".parse().unwrap(), 1);
        config.beginning = beginning;
        config.is_audited = true;
        let mut auditor = Subscribers::start(config).unwrap();
        wait(&mut auditor, |total| total.clients_live == 1);
        let summary = auditor.stop();
        assert_eq!(
            (summary.total.gaps, summary.total.epochs_lost),
            (gaps, gaps)
        );
        let findings = summary.findings.unwrap();
        assert!(findings.is_good(), "{findings:?}");
        assert_eq!(findings.with_gaps, gaps);
    }
}

#[test]
fn clients_that_do_not_read_lose_nothing() {
    let (total, findings) = audited(Plant::Nothing, |config| {
        config.stall = Some(Absence {
            after: Duration::from_millis(200),
            span: Duration::from_millis(600),
        });
        config.receive_bytes = Some(4096);
    });
    assert_eq!((findings.complete, total.disconnects), (8, 0));
}

#[test]
fn clients_that_were_away_return_all_at_once() {
    let (total, findings) = audited(Plant::Nothing, |config| {
        config.away = Some(Absence {
            after: Duration::from_millis(300),
            span: Duration::from_millis(300),
        });
    });
    assert_eq!((findings.complete, findings.messages), (8, 40));
    assert!(total.connects > 4, "they came back");
    assert_eq!(total.disconnects, 0, "they left by themselves");
}

#[test]
fn event_stream_subscribers() {
    assert!(run(Transport::Sse, 2, Plant::Nothing).is_clean());
    assert_eq!(run(Transport::Sse, 2, Plant::Lose).lost, 1);
    assert_eq!(run(Transport::Sse, 2, Plant::Repeat).repeated, 1);
}

#[test]
fn long_poll_subscribers() {
    assert!(run(Transport::Http, 1, Plant::Nothing).is_clean());
    assert_eq!(run(Transport::Http, 1, Plant::Lose).lost, 1);
}

#[test]
fn disorder_is_found() {
    // One topic, so that the swapped records belong to one stream.
    let server = Server::start(Plant::Swap);
    let mut config = SubscribersConfig::new(server.common(), "t".parse().unwrap(), 1);
    config.transport = Transport::Sse;
    let mut subscribers = Subscribers::start(config).unwrap();
    wait(&mut subscribers, |total| total.connections == 1);
    let mut load = PublishersConfig::new(server.common(), "t".parse().unwrap(), 1_000.0);
    load.load.count = 20;
    let publishers = Publishers::start(load).unwrap();
    wait(&mut subscribers, |total| total.received == 20);
    publishers.stop();
    let faults = subscribers.stop().total.faults;
    assert_eq!(
        (faults.out_of_order, faults.lost, faults.repeated),
        (1, 0, 0)
    );
}

#[test]
fn echo_clients_come_and_go() {
    let server = Server::start(Plant::Nothing);
    let mut common = server.common();
    common.routes[0].target = "/echo".to_owned();
    let mut handle = Echoes::start(EchoesConfig {
        common,
        clients: 4,
        clients_max: 10,
        every: Duration::from_millis(40),
        size: 64,
    })
    .unwrap();
    wait(&mut handle, |total| {
        total.connections == 4 && total.received > 10
    });
    handle.set_clients(9);
    wait(&mut handle, |total| {
        total.connections == 9 && total.clients_with_data == 9
    });
    handle.set_clients(2);
    wait(&mut handle, |total| total.connections == 2);
    let received = handle.total().received;
    wait(&mut handle, |total| total.received > received + 5);
    let total = handle.stop().total;
    assert!(total.is_clean(), "{:?}", total.faults);
    assert!(total.latency.count() > 10);
}

#[test]
fn echo_clients_go_where_they_are_told() {
    let (first, second) = (Server::start(Plant::Nothing), Server::start(Plant::Nothing));
    let mut handle = Echoes::start(EchoesConfig {
        common: Common::with_target(&[first.url()], "/echo").unwrap(),
        clients: 3,
        clients_max: 20,
        every: Duration::from_millis(40),
        size: 64,
    })
    .unwrap();
    let other = Route::resolve(&second.url(), "/echo").unwrap();
    assert_eq!(handle.add_clients(4, &[other]), Ok(7));
    wait(&mut handle, |total| {
        total.connections == 7 && total.clients_with_data == 7
    });
    assert_eq!(
        (
            first.ready.load(Ordering::Acquire),
            second.ready.load(Ordering::Acquire)
        ),
        (3, 4)
    );
    // Replaced at once, by others: those of the second server really go.
    handle.set_clients(3);
    assert_eq!(handle.add_clients(4, &[]), Ok(7));
    wait(&mut handle, |total| {
        total.connects == 11 && total.connections == 7
    });
    assert_eq!(
        (
            first.ready.load(Ordering::Acquire),
            second.ready.load(Ordering::Acquire)
        ),
        (7, 4)
    );
    assert_eq!(handle.add_clients(100, &[]), Ok(20), "as many as planned");
    handle.set_clients(0);
    wait(&mut handle, |total| total.connections == 0);
    let total = handle.stop().total;
    assert!(total.is_clean(), "{:?}", total.faults);
}

#[test]
fn a_server_that_comes_later_is_found() {
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let common = Common::new(&[format!("ws://{address}")]).unwrap();
    let config = SubscribersConfig::new(common, "t".parse().unwrap(), 1);
    let mut subscribers = Subscribers::start(config).unwrap();
    wait(&mut subscribers, |total| total.connects_failed > 0);
    assert!(subscribers.stop().total.trouble.is_some());
}

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: BenchCommand,
}

/// The whole command, until a duration or a stop, with its exit code.
#[test]
fn commands_end_with_their_exit_code() {
    fn exit_of(line: &str, stop: &AtomicBool) -> ExitCode {
        let words = std::iter::once("bench").chain(line.split_ascii_whitespace());
        bench::run(Line::try_parse_from(words).unwrap().command, stop).unwrap()
    }
    for (plant, wanted) in [
        (Plant::Nothing, ExitCode::SUCCESS),
        (Plant::Lose, ExitCode::from(1)),
    ] {
        let server = Server::start(plant);
        let url = server.url();
        let stop = Arc::new(AtomicBool::new(false));
        let subscribing = {
            let (stop, url) = (stop.clone(), url.clone());
            thread::spawn(move || {
                let line = format!(
                    "sub --url {url} --clients 3 --topics c/{{1..3}} --interval 100ms --json"
                );
                exit_of(&line, &stop)
            })
        };
        server.wait_ready(3);
        let line = format!(
            "pub --url {url} --topics c/{{1..3}} --rate 500 --count 60 --size 100 --interval 100ms"
        );
        assert_eq!(exit_of(&line, &AtomicBool::new(false)), ExitCode::SUCCESS);
        thread::sleep(Duration::from_secs(1)); // what was published last is on its way
        stop.store(true, Ordering::Release);
        assert_eq!(subscribing.join().unwrap(), wanted, "{plant:?}");
    }
}
