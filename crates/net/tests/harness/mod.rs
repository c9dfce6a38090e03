//! One `Kernel` with its events in order, waiting at most a minute for each.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use net::Statistics;
use net::kernel::{
    ConnectOptions, Handover, Kernel, KernelOptions, ListenOptions, Waker, registered_room,
};
use net::{Conn, Event, Net, Read, Write};

/// Far more than anything here takes; only a failing test waits so long.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Side {
    pub net: Kernel,
    pub waiting: VecDeque<Event>,
}

impl Side {
    pub fn new() -> Side {
        Side::with(options(), Handover::alone())
    }

    pub fn with(options: KernelOptions, handover: Handover) -> Side {
        let waker = Waker::new().expect("an eventfd");
        Side::on(Kernel::new(options, waker, handover).expect("an epoll"))
    }

    pub fn on(net: Kernel) -> Side {
        Side { net, waiting: VecDeque::new() }
    }

    pub fn listen(&mut self) -> SocketAddr {
        let options = ListenOptions::new(loopback());
        self.net.listen(&options).expect("a free port").1
    }

    pub fn connect(&mut self, remote: SocketAddr) -> Conn {
        self.net.connect(remote, &ConnectOptions::default()).expect("begun")
    }

    /// One poll that does not wait.
    pub fn turn(&mut self) {
        self.poll(Some(Duration::ZERO));
    }

    pub fn poll(&mut self, timeout: Option<Duration>) {
        let mut events = Vec::new();
        self.net.poll(timeout, &mut events).expect("a working epoll");
        self.waiting.extend(events);
    }

    /// The next event.
    pub fn next(&mut self) -> Event {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return event;
            }
            assert!(Instant::now() < deadline, "no event came");
            self.poll(Some(Duration::from_millis(500)));
        }
    }

    pub fn expect(&mut self, expected: Event) {
        assert_eq!(self.next(), expected);
    }

    pub fn accepted(&mut self) -> (Conn, SocketAddr) {
        match self.next() {
            Event::Accepted { conn, peer, listener: 0 } => (conn, peer),
            other => panic!("expected a connection, got {other:?}"),
        }
    }

    /// No event is there, and none comes in a poll of its own.
    pub fn expect_silence(&mut self) {
        self.turn();
        assert_eq!(self.waiting, [], "silence was expected");
    }

    /// Reads, waiting for `Readable`, until there are so many bytes.
    pub fn read_exactly(&mut self, conn: Conn, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        while bytes.len() < count {
            match self.net.read(conn, &mut buffer) {
                Read::Data(read) => bytes.extend_from_slice(&buffer[..read]),
                Read::Blocked => self.expect(Event::Readable(conn)),
                other => panic!("{other:?} after {} of {count} bytes", bytes.len()),
            }
        }
        assert_eq!(bytes.len(), count);
        bytes
    }

    pub fn write_all(&mut self, conn: Conn, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.net.write(conn, &[IoSlice::new(rest)]) {
                Write::Wrote(count) => rest = &rest[count..],
                Write::Blocked => self.expect(Event::Writable(conn)),
                Write::Failed(kind) => panic!("{kind:?} with {} bytes left", rest.len()),
            }
        }
    }

    pub fn statistics(&self) -> Statistics {
        self.net.statistics()
    }
}

/// The defaults; in the test binary `registered` every socket lives beside the descriptor table.
pub fn options() -> KernelOptions {
    let mut options = KernelOptions::default();
    if module_path!().starts_with("registered") && registered_room() > 0 {
        options.registered_max = 100_000;
        options.table_connections_max = 0;
    }
    options
}

pub fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A connected pair: (its key at the client, its key at the server).
pub fn pair(client: &mut Side, server: &mut Side, address: SocketAddr) -> (Conn, Conn) {
    let outgoing = client.connect(address);
    client.expect(Event::Connected(outgoing));
    let (incoming, _) = server.accepted();
    (outgoing, incoming)
}
