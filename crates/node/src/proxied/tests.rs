//! Headers in pieces, from untrusted peers, too late, and missing, over a scripted network.

use super::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::handing::Input;
use stdx::networks::Network;
use wire::proxy::{encode_binary, encode_line};

#[derive(Default)]
struct State {
    reports: VecDeque<Event>,
    incoming: BTreeMap<u32, VecDeque<u8>>,
    closed: Vec<(u32, Close)>,
}

#[derive(Clone, Default)]
struct Script(Rc<RefCell<State>>);

impl Net for Script {
    fn poll(&mut self, _: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        events.extend(self.0.borrow_mut().reports.drain(..));
        Ok(())
    }

    fn read(&mut self, conn: Conn, buffer: &mut [u8]) -> Read {
        let mut state = self.0.borrow_mut();
        let incoming = state.incoming.entry(conn.index).or_default();
        if incoming.is_empty() {
            return Read::Blocked;
        }
        let count = incoming.len().min(buffer.len());
        for (place, byte) in buffer.iter_mut().zip(incoming.drain(..count)) {
            *place = byte;
        }
        Read::Data(count)
    }

    fn write(&mut self, _: Conn, _: &[IoSlice<'_>]) -> Write {
        Write::Blocked
    }

    fn shutdown_write(&mut self, _: Conn) {}

    fn close(&mut self, conn: Conn, how: Close) {
        self.0.borrow_mut().closed.push((conn.index, how));
    }

    fn pause_accepting(&mut self) {}

    fn resume_accepting(&mut self) {}
}

struct World {
    script: Script,
    net: Proxied<Script>,
}

fn conn(index: u32) -> Conn {
    Conn { index, generation: 1 }
}

impl World {
    fn new(timeout: Duration) -> World {
        let script = Script::default();
        let proxies = ["10.0.0.0/8"].iter().filter_map(|text| Network::parse(text));
        let options =
            ProxiedOptions { listeners: vec![false, true], proxies: proxies.collect(), timeout };
        World { net: Proxied::new(script.clone(), options), script }
    }

    fn accept(&self, index: u32, listener: u8, peer: &str) {
        self.report(Event::Accepted { conn: conn(index), peer: peer.parse().unwrap(), listener });
    }

    fn report(&self, event: Event) {
        self.script.0.borrow_mut().reports.push_back(event);
    }

    fn send(&self, index: u32, bytes: &[u8]) {
        let mut state = self.script.0.borrow_mut();
        state.incoming.entry(index).or_default().extend(bytes);
        state.reports.push_back(Event::Readable(conn(index)));
    }

    fn poll(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.net.poll(Some(Duration::ZERO), &mut events).unwrap();
        events
    }

    fn read(&mut self, index: u32, bytes: usize) -> Vec<u8> {
        let mut buffer = vec![0; bytes];
        match self.net.read(conn(index), &mut buffer) {
            Read::Data(count) => buffer[..count].to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// Continues in another process.
    fn hand_over(&mut self) {
        let mut bytes = Vec::new();
        self.net.hand_over(&mut bytes);
        let options = self.net.options.clone();
        for end in 0..bytes.len() {
            let mut none = Proxied::new(self.script.clone(), options.clone());
            assert!(none.take_over(&mut Input::new(&bytes[..end])).is_none());
        }
        self.net = Proxied::new(self.script.clone(), options);
        let mut input = Input::new(&bytes);
        assert_eq!(self.net.take_over(&mut input), Some(()));
        assert_eq!(input.left(), 0);
    }

    fn closed(&self) -> Vec<(u32, Close)> {
        std::mem::take(&mut self.script.0.borrow_mut().closed)
    }
}

const PATIENT: Duration = Duration::from_secs(3_600);

fn announced() -> Announced {
    Announced::Tcp {
        source: "[::ffff:192.0.2.7]:700".parse().unwrap(),
        target: "[::1]:443".parse().unwrap(),
    }
}

#[test]
fn a_header_may_arrive_byte_by_byte() {
    let mut header = Vec::new();
    encode_binary(&mut header, &announced(), true);
    let mut world = World::new(PATIENT);
    world.accept(0, 1, "10.0.0.1:1");
    for byte in &header {
        assert_eq!(world.poll(), []);
        world.send(0, &[*byte]);
    }
    let accepted =
        Event::Accepted { conn: conn(0), peer: "192.0.2.7:700".parse().unwrap(), listener: 1 };
    assert_eq!(world.poll(), [accepted]);
    world.send(0, b"hello");
    assert_eq!(world.poll(), [Event::Readable(conn(0))]);
    assert_eq!(world.read(0, 9), b"hello");
    assert_eq!(world.net.read(conn(0), &mut [0; 9]), Read::Blocked);
    assert_eq!(world.net.beginnings.len(), 0);
    assert_eq!(world.net.counters().statistics().headers, 1);
}

#[test]
fn bytes_behind_the_header_are_read_first() {
    let mut bytes = Vec::new();
    encode_line(&mut bytes, &Announced::Unknown);
    let header = bytes.len();
    bytes.extend((0..5_000_u32).map(|number| number as u8));
    let mut world = World::new(PATIENT);
    world.accept(0, 1, "10.0.0.1:1");
    world.send(0, &bytes);
    let events = world.poll();
    assert!(
        matches!(events[..], [Event::Accepted { peer, .. }, Event::Readable(_)] if peer.port() == 1),
        "{events:?}"
    );
    let mut came = world.read(0, 100);
    came.extend(world.read(0, 10_000));
    // The read was short, and the network reports nothing more: the layer does.
    assert_eq!(came.len(), HEADER_BYTES_MAX - header);
    assert_eq!(world.poll(), [Event::Readable(conn(0))]);
    came.extend(world.read(0, 10_000));
    assert_eq!(came, bytes[header..]);
    assert_eq!(world.net.beginnings.len(), 0);
}

#[test]
fn connections_without_a_valid_header_are_closed() {
    let mut world = World::new(PATIENT);
    world.accept(0, 1, "192.0.2.1:1");
    world.send(0, b"PROXY UNKNOWN\r\n");
    world.accept(1, 1, "10.0.0.1:1");
    world.send(1, b"GET / HTTP/1.1\r\n");
    world.accept(2, 0, "192.0.2.1:1");
    world.accept(3, 1, "10.0.0.1:1");
    world.report(Event::Closed { conn: conn(3), reason: io::ErrorKind::ConnectionReset });
    let events = world.poll();
    assert!(matches!(events[..], [Event::Accepted { conn, .. }] if conn.index == 2), "{events:?}");
    assert_eq!(world.closed(), [(0, Close::Reset), (1, Close::Reset)]);
    // Later events of the network for them are dropped; the index may be used again.
    world.report(Event::Closed { conn: conn(1), reason: io::ErrorKind::ConnectionReset });
    assert_eq!(world.poll(), []);
    world.accept(1, 0, "192.0.2.1:1");
    world.report(Event::Writable(conn(1)));
    assert_eq!(world.poll().len(), 2);
    let expected =
        ProxiedStatistics { refused: 1, malformed: 1, gone: 1, ..ProxiedStatistics::default() };
    assert_eq!(world.net.counters().statistics(), expected);
}

/// A proxy that names no client does not lend its own address.
#[test]
fn clients_that_a_proxy_does_not_name_share_an_address() {
    for announced in [Announced::Local, Announced::Unknown, Announced::Unix] {
        let mut header = Vec::new();
        encode_binary(&mut header, &announced, true);
        let mut world = World::new(PATIENT);
        world.accept(0, 1, "10.0.0.1:7");
        world.send(0, &header);
        let events = world.poll();
        assert!(
            matches!(events[..], [Event::Accepted { peer, .. }] if peer == SocketAddr::new(UNNAMED, 7)),
            "{announced:?}: {events:?}"
        );
    }
}

#[test]
fn silent_connections_are_closed_in_time() {
    let mut world = World::new(Duration::ZERO);
    world.accept(0, 1, "10.0.0.1:1");
    world.accept(1, 1, "10.0.0.1:1");
    world.send(1, b"PROXY UNKNOWN\r\n");
    assert_eq!(world.poll().len(), 1);
    world.poll();
    assert_eq!(world.closed(), [(0, Close::Reset)]);
    assert_eq!(world.net.counters().statistics().late, 1);
    assert!(world.net.deadlines.is_empty());
}

#[test]
fn a_connection_with_unread_bytes_is_closed() {
    let mut world = World::new(PATIENT);
    world.accept(0, 1, "10.0.0.1:1");
    world.send(0, b"PROXY UNKNOWN\r\nhello");
    world.poll();
    world.net.close(conn(0), Close::Graceful);
    assert_eq!(world.net.beginnings.len(), 0);
    assert_eq!(world.closed(), [(0, Close::Graceful)]);
}

#[test]
fn the_next_process_continues_at_any_byte() {
    let mut bytes = Vec::new();
    encode_binary(&mut bytes, &announced(), true);
    bytes.extend_from_slice(b"hello");
    for cut in 0..=bytes.len() {
        let mut world = World::new(PATIENT);
        world.accept(0, 1, "10.0.0.1:1");
        world.send(0, &bytes[..cut]);
        let mut events = world.poll();
        world.hand_over();
        world.send(0, &bytes[cut..]);
        events.extend(world.poll());
        let accepted = events
            .iter()
            .filter(|event| matches!(event, Event::Accepted { peer, .. } if peer.port() == 700));
        assert_eq!(accepted.count(), 1, "{cut}: {events:?}");
        let mut came = Vec::new();
        let mut buffer = [0; 9];
        while let Read::Data(count) = world.net.read(conn(0), &mut buffer) {
            came.extend_from_slice(&buffer[..count]);
        }
        assert_eq!(came, b"hello", "{cut}");
        assert_eq!(world.net.beginnings.len(), 0);
    }
}

#[test]
fn time_limits_continue_in_the_next_process() {
    let mut world = World::new(Duration::ZERO);
    world.accept(0, 1, "10.0.0.1:1");
    assert_eq!(world.poll(), []);
    world.hand_over();
    world.poll();
    assert_eq!(world.closed(), [(0, Close::Reset)]);
    assert_eq!(world.net.counters().statistics().late, 1);
}
