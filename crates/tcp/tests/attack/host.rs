//! A stack under attack, and the peers that attack it.

use crate::peer::{Device, Ends, Sent, read};
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use stdx::hash::Seed;
use tcp::packet::{ACK, SYN};
use tcp::{Config, Conn, Event, Read, Stack, Time, Write};

pub const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
pub const PORT: u16 = 80;
/// The first number of every peer.
pub const FIRST: u32 = u32::MAX - 5_000;
/// Options of a SYN: segments of 1460 bytes, selective acknowledgements, and a scale of 7.
pub const ALL: &[u8] = &[2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 7];
/// Options of a SYN: segments of 1460 bytes alone.
pub const PLAIN: &[u8] = &[2, 4, 5, 180];

static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// A host with a listener.
pub struct Host {
    pub stack: Stack,
    pub device: Device,
    pub now: Time,
    pub events: Vec<Event>,
    /// Packets that left.
    pub packets: u64,
}

/// A connection, seen from the peer.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    pub ends: Ends,
    pub conn: Conn,
    /// The number of the peer's next byte.
    pub seq: u32,
    /// The first byte of the stack.
    pub ack: u32,
}

/// The ends of a peer with this number: its address and port.
pub fn ends(number: u32) -> Ends {
    let from = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number / 50_000));
    Ends { from, to: OURS, from_port: 10_000 + (number % 50_000) as u16, to_port: PORT }
}

impl Host {
    pub fn new(set: impl FnOnce(&mut Config)) -> Host {
        let mut config = Config::new(vec![OURS], Seed(21, 22));
        config.receive_window = 16 << 10;
        config.table_segment_bits = 4;
        set(&mut config);
        let now = Time(5_000_000_000);
        let address = SocketAddr::new(config.addresses[0], PORT);
        let mut stack = Stack::new(config, now);
        assert_eq!(stack.listen(address), Some(0));
        Host { stack, device: Device::default(), now, events: Vec::new(), packets: 0 }
    }

    /// Gives the stack a packet, and returns its answers, without the end of the turn.
    pub fn give(&mut self, ends: Ends, sent: &Sent) -> Vec<(Ends, Sent)> {
        self.stack.receive(self.now, &sent.packet(ends), 1, &mut self.device);
        self.take()
    }

    /// Takes the packets that have left.
    pub fn take(&mut self) -> Vec<(Ends, Sent)> {
        self.packets += self.device.sent.len() as u64;
        self.stack.take_events(&mut self.events);
        self.device.sent.drain(..).map(|(packet, _)| read(&packet)).collect()
    }

    /// Ends the turn.
    pub fn turn(&mut self) -> Vec<(Ends, Sent)> {
        self.stack.end_turn(self.now, &mut self.device);
        self.take()
    }

    /// Gives the stack a packet in a turn of its own.
    pub fn exchange(&mut self, ends: Ends, sent: &Sent) -> Vec<(Ends, Sent)> {
        let mut answers = self.give(ends, sent);
        answers.extend(self.turn());
        answers
    }

    /// Lets time pass, with all turns that the stack asks for.
    pub fn pass(&mut self, time: Duration) -> Vec<(Ends, Sent)> {
        let end = self.now + time;
        let mut answers = Vec::new();
        while let Some(next) = self.stack.next_time(self.now).filter(|next| *next <= end) {
            self.now = next.max(self.now + Duration::from_millis(1)).min(end);
            answers.extend(self.turn());
            if self.now == end {
                break;
            }
        }
        self.now = end;
        answers
    }

    /// Opens a connection from a peer.
    pub fn open(&mut self, ends: Ends, options: &[u8], window: u16) -> Peer {
        let syn = Sent {
            seq: FIRST,
            flags: SYN,
            window: u16::MAX,
            options: options.to_vec(),
            ..Sent::default()
        };
        let answers = self.exchange(ends, &syn);
        assert_eq!(answers.len(), 1);
        self.complete(ends, answers[0].1.seq.wrapping_add(1), window)
    }

    /// Acknowledges the answer to SYN.
    pub fn complete(&mut self, ends: Ends, ack: u32, window: u16) -> Peer {
        let seq = FIRST.wrapping_add(1);
        let before = self.events.len();
        self.exchange(ends, &Sent { seq, ack, flags: ACK, window, ..Sent::default() });
        let Some(Event::Accepted { conn, .. }) = self.events.get(before).copied() else {
            panic!("{:?}", self.events.get(before));
        };
        Peer { ends, conn, seq, ack }
    }

    /// Writes zeros, and returns the number of bytes that were taken.
    pub fn write(&mut self, conn: Conn, bytes: usize) -> usize {
        match self.stack.write(self.now, conn, &[IoSlice::new(&ZEROS[..bytes])], &mut self.device) {
            Write::Wrote(count) => count,
            Write::Blocked => 0,
            Write::Dead => panic!("the connection is dead"),
        }
    }

    /// Reads everything that is there.
    pub fn read(&mut self, conn: Conn) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut buffer = vec![0; 65_536];
        while let Read::Data(count) = self.stack.read(conn, &mut buffer) {
            bytes.extend(&buffer[..count]);
        }
        bytes
    }

    /// Shows that a connection works in both directions.
    pub fn check(&mut self, peer: &mut Peer) {
        let question = peer.segment(b"question");
        peer.seq = peer.seq.wrapping_add(8);
        self.give(peer.ends, &question);
        assert_eq!(self.read(peer.conn), b"question");
        assert_eq!(self.write(peer.conn, 6), 6);
        let answers: Vec<Sent> = self
            .turn()
            .into_iter()
            .filter(|(ends, _)| *ends == peer.ends.reversed())
            .map(|(_, sent)| sent)
            .collect();
        assert!(
            answers.iter().any(|sent| sent.payload == [0; 6] && sent.ack == peer.seq),
            "{answers:?}"
        );
        peer.ack = peer.ack.wrapping_add(6);
        let acknowledgement = peer.segment(b"");
        self.exchange(peer.ends, &acknowledgement);
        assert!(self.stack.heard(self.now, peer.conn).is_some());
    }
}

impl Peer {
    /// The peer's next segment.
    pub fn segment(&self, payload: &[u8]) -> Sent {
        Sent {
            seq: self.seq,
            ack: self.ack,
            flags: ACK,
            window: 512,
            options: Vec::new(),
            payload: payload.to_vec(),
        }
    }

    /// A bare acknowledgement of a number after `ack`.
    pub fn acknowledgement(&self, bytes: u32) -> Sent {
        Sent { ack: self.ack.wrapping_add(bytes), ..self.segment(b"") }
    }

    /// Selective acknowledgements, relative to `ack`, at most four.
    pub fn with_sacks(&self, bytes: u32, sacks: &[(u32, u32)]) -> Sent {
        let mut options = vec![1, 1, 5, 2 + 8 * sacks.len() as u8];
        for (from, to) in sacks {
            options.extend(self.ack.wrapping_add(*from).to_be_bytes());
            options.extend(self.ack.wrapping_add(*to).to_be_bytes());
        }
        Sent { options, ..self.acknowledgement(bytes) }
    }
}
