//! The blocking client over real sockets with a small node.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use client::backoff::BackoffSettings;
use client::{
    Client, Event, Events, EventsError, HistoryOptions, Options, Position, PublishOptions, Reason,
    RequestError, Start,
};
use support::{Conversation, EPOCH, Node};

const PATIENCE: Duration = Duration::from_secs(60);

/// The node's next action on its connection.
#[derive(Clone, Debug)]
enum Action {
    Publish(String, Vec<u8>),
    Drop,
    /// A message is appended while there is no connection: the next one is not accepted before.
    DropAndPublish(String, Vec<u8>),
    Close(u16),
    GoAway(u64, String),
}

struct Server {
    address: SocketAddr,
    node: Arc<Mutex<Node>>,
    actions: Arc<Mutex<Vec<Action>>>,
    closes: Arc<Mutex<Vec<u16>>>,
    ends: Arc<AtomicBool>,
}

impl Server {
    fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server {
            address: listener.local_addr().unwrap(),
            node: Arc::default(),
            actions: Arc::default(),
            closes: Arc::default(),
            ends: Arc::default(),
        };
        let (node, actions, closes, ends) = (
            server.node.clone(),
            server.actions.clone(),
            server.closes.clone(),
            server.ends.clone(),
        );
        thread::spawn(move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::Acquire) {
                    return;
                }
                serve(stream.unwrap(), &node, &actions, &closes, &ends);
            }
        });
        server
    }

    fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    fn action(&self, action: Action) {
        self.actions.lock().unwrap().push(action);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        let _ = TcpStream::connect(self.address);
    }
}

/// Serves one connection at a time, until it ends.
fn serve(
    mut stream: TcpStream,
    node: &Mutex<Node>,
    actions: &Mutex<Vec<Action>>,
    closes: &Mutex<Vec<u16>>,
    ends: &AtomicBool,
) {
    let mut conversation = Conversation::default();
    let mut buffer = [0; 4096];
    stream.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    while !ends.load(Ordering::Acquire) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(bytes) => conversation.receive(&buffer[..bytes], &mut node.lock().unwrap()),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(_) => return,
        }
        let actions: Vec<Action> = actions.lock().unwrap().drain(..).collect();
        for action in actions {
            match action {
                Action::Publish(topic, payload) => {
                    let mut node = node.lock().unwrap();
                    let record = node.publish(&topic, &payload);
                    conversation.deliver(&record, &node);
                }
                Action::Drop => return,
                Action::DropAndPublish(topic, payload) => {
                    node.lock().unwrap().publish(&topic, &payload);
                    return;
                }
                Action::Close(code) => conversation.send_close(code),
                Action::GoAway(after_ms, url) => conversation.go_away(after_ms, &[&url]),
            }
        }
        for bytes in conversation.out.drain(..) {
            if stream.write_all(&bytes).is_err() {
                return;
            }
        }
        if let Some(code) = conversation.closed.take() {
            closes.lock().unwrap().push(code);
            return;
        }
    }
}

fn options(url: String) -> Options {
    Options {
        backoff: BackoffSettings { base_ms: 20, max_ms: 50, reset_after_ms: 1_000 },
        ..Options::new(url)
    }
}

/// The first event that `wanted` accepts; others are dropped.
fn wait_for<T>(events: &Events, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        let event = events.next_within(PATIENCE).expect("the event comes in time");
        if let Some(found) = wanted(event) {
            return found;
        }
        assert!(since.elapsed() < PATIENCE, "other events only");
    }
}

fn subscribed(events: &Events) {
    wait_for(events, |event| matches!(event, Event::CaughtUp { .. }).then_some(()));
}

fn message(events: &Events) -> Vec<u8> {
    wait_for(events, |event| match event {
        Event::Message(message) => Some(message.payload),
        Event::Gap { .. } => panic!("{event:?}"),
        _ => None,
    })
}

#[test]
fn subscribe_publish_and_history() {
    let server = Server::start();
    let (client, events) = Client::connect(options(server.url())).unwrap();
    client.subscribe("a", Start::Live).unwrap();
    subscribed(&events);
    let answer = client.publish("a", "one", PublishOptions::default()).unwrap().wait().unwrap();
    assert_eq!(answer.position, Position { epoch: EPOCH, offset: 3 });
    assert_eq!(message(&events), b"one");
    let refused = client.publish("forbidden", "x", PublishOptions::default()).unwrap().wait();
    assert!(matches!(refused, Err(RequestError::Refused(error)) if error.code == 202));
    let page = client.history("a", HistoryOptions::default()).unwrap().wait().unwrap();
    assert_eq!((page.head, page.messages.len()), (3, 1));
    assert_eq!(page.messages[0].time_ms, Some(5));
    client.publish_unacknowledged("a", "two", PublishOptions::default()).unwrap();
    assert_eq!(message(&events), b"two");
    client.close();
    assert!(matches!(events.next_within(PATIENCE), Err(EventsError::Ended)));
    assert!(matches!(client.subscribe("b", Start::Live), Err(RequestError::Closed)));
    let since = Instant::now();
    while server.closes.lock().unwrap().is_empty() {
        assert!(since.elapsed() < PATIENCE, "the goodbye arrives");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(*server.closes.lock().unwrap(), [1000]);
}

#[test]
fn a_lost_connection_is_resumed_without_loss() {
    let server = Server::start();
    // No node listens on the port of the first URL.
    let urls = vec!["ws://127.0.0.1:1".to_owned(), server.url()];
    let (client, events) = Client::connect(Options { urls, ..options(String::new()) }).unwrap();
    client.subscribe("t", Start::Live).unwrap();
    subscribed(&events);
    for round in 0..5u8 {
        server.action(Action::Publish("t".into(), vec![round, 0]));
        assert_eq!(message(&events), [round, 0]);
        server.action(Action::DropAndPublish("t".into(), vec![round, 1]));
        wait_for(&events, |event| match event {
            Event::Disconnected { retry_in_ms, .. } => Some(retry_in_ms.expect("it comes back")),
            _ => None,
        });
        assert_eq!(message(&events), [round, 1]);
    }
    assert_eq!(client.counters().gaps, 0);
    assert_eq!(client.counters().messages, 10);
}

#[test]
fn a_publish_without_answer_is_unknown() {
    let server = Server::start();
    server.node.lock().unwrap().is_mute = true;
    let (client, _events) = Client::connect(options(server.url())).unwrap();
    let answer = client.publish("t", "x", PublishOptions::default()).unwrap();
    let since = Instant::now();
    while server.node.lock().unwrap().records.is_empty() {
        assert!(since.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(1));
    }
    assert!(answer.wait_within(Duration::from_millis(10)).is_none());
    server.action(Action::Drop);
    assert_eq!(answer.wait(), Err(RequestError::Unknown));
}

#[test]
fn a_slow_consumer_loses_nothing_in_bounded_memory() {
    let server = Server::start();
    for number in 0..3_000u32 {
        server.node.lock().unwrap().publish("t", &[&number.to_le_bytes()[..], &[7; 500]].concat());
    }
    let (client, events) =
        Client::connect(Options { events_max: 2, ..options(server.url()) }).unwrap();
    client.subscribe("t", Start::Since(Position { epoch: EPOCH, offset: 0 })).unwrap();
    thread::sleep(Duration::from_millis(50));
    for number in 0..3_000u32 {
        assert_eq!(message(&events)[..4], number.to_le_bytes());
    }
    subscribed(&events);
}

#[test]
fn final_close_codes_stop_the_client() {
    let server = Server::start();
    let (client, events) = Client::connect(options(server.url())).unwrap();
    client.subscribe("t", Start::Live).unwrap();
    subscribed(&events);
    server.action(Action::Close(3502));
    let retry = wait_for(&events, |event| match event {
        Event::Disconnected { reason: Reason::Closed { code: 3502, .. }, retry_in_ms } => {
            Some(retry_in_ms)
        }
        _ => None,
    });
    assert_eq!(retry, None);
    assert!(matches!(events.next_within(PATIENCE), Err(EventsError::Ended)));
    let answer = client.publish("t", "x", PublishOptions::default());
    assert!(answer.is_err() || matches!(answer.unwrap().wait(), Err(RequestError::Closed)));
}

#[test]
fn the_client_follows_a_go_away_to_another_node() {
    let (first, second) = (Server::start(), Server::start());
    second.node.lock().unwrap().publish("t", b"elsewhere");
    let (client, events) = Client::connect(options(first.url())).unwrap();
    client.subscribe("t", Start::Last(1)).unwrap();
    subscribed(&events);
    first.action(Action::GoAway(30, second.url()));
    let delay = wait_for(&events, |event| match event {
        Event::Disconnected { reason: Reason::GoAway { code: 3000 }, retry_in_ms } => retry_in_ms,
        _ => None,
    });
    assert_eq!(delay, 30);
    // The epoch is the same, and the node knows its position 0: the following messages are
    // delivered.
    assert_eq!(message(&events), b"elsewhere");
}

/// U15: above the bound of unsent bytes, commands wait, and all are carried out in order.
#[test]
fn commands_wait_for_unsent_bytes() {
    let server = Server::start();
    let options = Options { output_bytes_max: 1, ..options(server.url()) };
    let (client, _events) = Client::connect(options).unwrap();
    let publish = |_| client.publish("t", vec![7; 10_000], PublishOptions::default()).unwrap();
    let answers: Vec<_> = (0..100).map(publish).collect();
    let offsets = answers.into_iter().map(|answer| answer.wait().unwrap().position.offset);
    assert!(offsets.is_sorted());
}

/// X3: close in every state and twice is safe, and a call after it fails.
#[test]
fn close_is_safe_in_every_state() {
    let server = Server::start();
    let nowhere = "ws://127.0.0.1:9".to_owned();
    for (url, waits_for) in [(server.url(), ""), (server.url(), "live"), (nowhere, "waiting")] {
        let (client, events) = Client::connect(options(url)).unwrap();
        match waits_for {
            "live" => {
                client.subscribe("t", Start::Live).unwrap();
                subscribed(&events);
            }
            "waiting" => {
                wait_for(&events, |event| matches!(event, Event::Disconnected { .. }).then_some(()))
            }
            _ => {}
        }
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| client.close());
            }
        });
        client.close();
        let answer = client.publish("t", "x", PublishOptions::default());
        assert!(matches!(answer, Err(RequestError::Closed)), "{waits_for}");
        while events.next_within(PATIENCE).is_ok() {}
        assert!(matches!(events.next_within(PATIENCE), Err(EventsError::Ended)), "{waits_for}");
    }
}

#[test]
fn urls_are_checked_at_once() {
    assert!(Client::connect(Options::new("ftp://node")).is_err());
    // Trusted certificates are read at once too.
    let mut options = Options::new("wss://node");
    options.tls.roots = tls::Roots::File("no such file".into());
    let error = Client::connect(options).unwrap_err();
    assert!(matches!(error, client::ConnectError::Tls(_)), "{error}");
    let none = Options { urls: Vec::new(), ..Options::new("") };
    assert!(Client::connect(none).is_err());
}
