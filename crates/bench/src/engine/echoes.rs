//! Clients of an echo service: each regularly sends a text message and measures the round trip.
//!
//! Place: a [`Protocol`] of the pool. The pings of all clients are spread evenly over the interval
//! and have intended times, so that the delay of a late ping counts.

use std::sync::Arc;

use wire::websocket::Opcode;

use super::native::send;
use super::protocol::{Protocol, Turn};
use super::sockets::{Incoming, Sockets};
use super::window::Window;
use crate::payload::{Clock, Header};
use crate::verify::{Faults, Stream};

/// Maximum number of pings in one turn.
const TURN_PINGS_MAX: usize = 512;

/// All clients of a worker.
pub(super) struct Echoes {
    sockets: Sockets,
    every_ns: u64,
    size: usize,
    publisher: u32,
    clients: Vec<Client>,
    /// The next client.
    cursor: u32,
    /// The intended time of the next ping.
    next_ns: u64,
    frame: Vec<u8>,
    window: Arc<Window>,
    is_finished: bool,
}

/// The state of a client: 48 bytes.
#[derive(Clone, Copy, Default)]
struct Client {
    is_open: bool,
    has_data: bool,
    is_faulty: bool,
    sent: u64,
    stream: Stream,
}

impl Echoes {
    pub(super) fn new(
        sockets: Sockets,
        every_ns: u64,
        size: usize,
        publisher: u32,
        window: Arc<Window>,
    ) -> Echoes {
        Echoes {
            sockets,
            every_ns: every_ns.max(1),
            size,
            publisher,
            clients: Vec::new(),
            cursor: 0,
            next_ns: 0,
            frame: Vec::new(),
            window,
            is_finished: false,
        }
    }

    /// Time between two pings of this worker.
    fn step_ns(&self) -> u64 {
        (self.every_ns / (self.clients.len() as u64).max(1)).max(1)
    }

    fn pong(&mut self, place: u32, payload: &[u8], turn: &mut Turn<'_>) {
        let client = &mut self.clients[place as usize];
        turn.tally.received += 1;
        turn.tally.received_bytes += payload.len() as u64;
        if !client.has_data {
            client.has_data = true;
            turn.tally.clients_with_data += 1;
        }
        let Some(header) =
            Header::read(payload).filter(|header| header.publisher == self.publisher)
        else {
            turn.tally.foreign += 1;
            return;
        };
        let mut faults = Faults::default();
        if header.topic_hash != place {
            faults.proof_failed += 1; // another client's message
        }
        client.stream.check_sequence(&header, &mut faults);
        if !faults.is_clean() {
            turn.tally.faults += faults;
            turn.tally.clients_faulty += u64::from(!std::mem::replace(&mut client.is_faulty, true));
        }
        if self.window.counts(&header, turn.now_ns) {
            turn.tally.latency.record_ns(turn.now_ns.saturating_sub(header.intended_ns));
        }
    }
}

impl Protocol for Echoes {
    fn begin(&mut self, place: u32, turn: &mut Turn<'_>) {
        if self.clients.len() <= place as usize {
            self.clients.resize(place as usize + 1, Client::default());
        }
        self.sockets.begin(place, turn.route, turn.to(place));
    }

    fn receive(
        &mut self,
        place: u32,
        bytes: &mut [u8],
        turn: &mut Turn<'_>,
    ) -> Result<usize, String> {
        let mut consumed = 0;
        while let Some((incoming, length)) = self.sockets.next(place, &mut bytes[consumed..])? {
            consumed += length;
            match incoming {
                Incoming::Opened => {
                    turn.opened();
                    self.clients[place as usize].is_open = true;
                }
                Incoming::Text(payload) | Incoming::Binary(payload) => {
                    let payload = payload.to_vec();
                    self.pong(place, &payload, turn);
                }
                Incoming::Ping(payload) => {
                    let payload = payload.to_vec();
                    send(Opcode::Pong, &payload, place, turn);
                }
                Incoming::Other => {}
            }
        }
        Ok(consumed)
    }

    fn lost(&mut self, place: u32, _turn: &mut Turn<'_>) {
        self.sockets.lost(place);
        let Some(client) = self.clients.get_mut(place as usize) else {
            return;
        };
        client.is_open = false;
        // Pings in flight are lost with the connection, which is not a fault of the echo.
        client.stream = Stream::default();
    }

    fn resize(&mut self, clients: u32) {
        self.clients.truncate(clients as usize);
        self.cursor = 0;
        if clients == 0 {
            self.next_ns = 0; // clients that come later have no pings due
        }
    }

    fn wake_ns(&self) -> Option<u64> {
        let has_more = !self.clients.is_empty() && self.next_ns < self.window.until_ns();
        has_more.then_some(self.next_ns)
    }

    fn tick(&mut self, turn: &mut Turn<'_>) {
        if self.next_ns == 0 {
            self.next_ns = turn.now_ns;
        }
        for _ in 0..TURN_PINGS_MAX {
            if self.next_ns > turn.now_ns
                || self.next_ns >= self.window.until_ns()
                || self.clients.is_empty()
            {
                return;
            }
            let intended_ns = self.next_ns;
            self.next_ns += self.step_ns();
            let place = self.cursor % self.clients.len() as u32;
            self.cursor = place + 1;
            let client = &mut self.clients[place as usize];
            if !client.is_open {
                continue;
            }
            client.sent += 1;
            let header = Header {
                clock: Clock::Monotonic,
                publisher: self.publisher,
                topic_hash: place,
                intended_ns,
                sequence: client.sent,
            };
            self.frame.clear();
            header.write(self.size, turn.random, &mut self.frame);
            send(Opcode::Text, &self.frame, place, turn);
            turn.tally.sent += 1;
            turn.tally.sent_measured += u64::from(self.window.contains(intended_ns));
        }
    }

    fn look(&mut self, turn: &mut Turn<'_>) {
        let has_ended = self.clients.is_empty() || self.next_ns >= self.window.until_ns();
        if has_ended && self.window.until_ns() <= turn.now_ns && !self.is_finished {
            self.is_finished = true;
            turn.tally.finished += 1;
        }
    }
}
