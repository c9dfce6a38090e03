//! One stack, and a peer and an application that do anything.

use super::{Bytes, Device};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use stdx::hash::Seed;
use tcp::packet::{ACK, FIN, Head, PSH, Packet, RST, SYN, parse};
use tcp::{Close, Config, Conn, Event, Read, Seq, Stack, Time, Write};

const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
const PORT: u16 = 80;
/// The peer has two ports.
const PEER_PORT: u16 = 5_000;

struct World {
    stack: Stack,
    device: Device,
    now: Time,
    conns: Vec<Conn>,
    /// Our port and the last numbers that the stack has sent, by the peer's port.
    seen: BTreeMap<u16, (u16, Seq, Seq)>,
}

/// Any sequence of packets, calls and pauses: nothing panics, events name living connections, every
/// packet is a good one, and nothing is left half an hour after the last connection.
pub fn stack(data: &[u8]) {
    let mut bytes = Bytes(data);
    let mut config = Config::new(vec![OURS], Seed(5, 6));
    config.table_segment_bits = 1;
    config.connections_max = 3;
    config.half_open_max = u32::from(bytes.byte() & 1) * 2;
    config.unread_bytes_max = 20_000;
    config.unacknowledged_bytes_max = 40_000;
    let now = Time(1 << 36);
    let mut stack = Stack::new(config, now);
    stack.listen(SocketAddr::new(OURS, PORT));
    let (conns, seen) = (Vec::new(), BTreeMap::new());
    let mut world = World { stack, device: Device::default(), now, conns, seen };
    while !bytes.is_empty() {
        world.act(&mut bytes);
        world.end_turn();
    }
    world.device.room = usize::MAX;
    for conn in std::mem::take(&mut world.conns) {
        world.stack.close(conn, Close::Reset);
    }
    world.end_turn();
    world.pass(Duration::from_secs(1_800));
    let statistics = world.stack.statistics();
    let left = [
        statistics.connections,
        statistics.active,
        statistics.half_open,
        statistics.time_wait,
        statistics.retained_bytes,
        statistics.unread_bytes,
    ];
    // Connections that began unseen are closed in the same way by `events`.
    assert_eq!(left, [0; 6], "{statistics:?}");
}

impl World {
    fn act(&mut self, bytes: &mut Bytes<'_>) {
        let conn = |world: &World, byte: u8| {
            let count = world.conns.len();
            (count > 0).then(|| world.conns[usize::from(byte) % count])
        };
        match bytes.byte() % 12 {
            0 => {
                let length = usize::from(bytes.byte());
                let packet = bytes.take(length);
                self.stack.look_ahead([&packet[..]].into_iter());
                self.stack.receive(self.now, &packet, 1, &mut self.device);
            }
            1..=4 => self.segment(bytes),
            5 => self.pass(Duration::from_millis(u64::from(bytes.word() & 0x3fff))),
            6 => {
                let (choice, length) = (bytes.byte(), usize::from(bytes.word()));
                if let Some(conn) = conn(self, choice) {
                    let zeros = vec![0; length];
                    let wrote =
                        self.stack.write(self.now, conn, &[IoSlice::new(&zeros)], &mut self.device);
                    assert!(!matches!(wrote, Write::Wrote(count) if count > length));
                }
            }
            7 => {
                let (choice, length) = (bytes.byte(), usize::from(bytes.word()).max(1));
                if let Some(conn) = conn(self, choice) {
                    let mut buffer = vec![0; length];
                    let read = self.stack.read(conn, &mut buffer);
                    assert!(!matches!(read, Read::Data(count) if count == 0 || count > length));
                }
            }
            8 => {
                let choice = bytes.byte();
                if let Some(conn) = conn(self, choice >> 2) {
                    match choice & 3 {
                        0 => self.stack.shutdown_write(self.now, conn, &mut self.device),
                        1 => self.stack.expect_acknowledgements(conn, Duration::from_secs(3)),
                        choice => {
                            let how = if choice == 2 { Close::Graceful } else { Close::Reset };
                            self.stack.close(conn, how);
                            self.conns.retain(|known| *known != conn);
                        }
                    }
                }
            }
            9 => {
                let port = PEER_PORT + u16::from(bytes.byte() & 1);
                let to = SocketAddr::new(PEER, port);
                if let Ok(conn) = self.stack.connect(self.now, None, to, &mut self.device) {
                    self.conns.push(conn);
                }
            }
            10 => self.device.room = usize::from(bytes.byte()),
            _ => match bytes.byte() & 1 {
                0 => self.stack.pause_accepting(),
                _ => self.stack.resume_accepting(),
            },
        }
    }

    /// A segment of the peer, with numbers close to the right ones.
    fn segment(&mut self, bytes: &mut Bytes<'_>) {
        let choice = bytes.byte();
        let port = PEER_PORT + u16::from(choice & 1);
        let seen = self.seen.get(&port).copied().unwrap_or((PORT, Seq(0), Seq(u32::MAX - 999)));
        let (local_port, ours, peers) = seen;
        let near = |number: Seq, word: u16| match choice >> 1 & 7 {
            0..6 => number,
            6 => number + u32::from(word) - 0x8000,
            _ => number + u32::from(word & 0xff) - 0x40,
        };
        let flags = match bytes.byte() & 15 {
            0..4 => SYN,
            4..9 => ACK,
            9 => ACK | PSH,
            10 => ACK | FIN,
            11 => ACK | SYN,
            12 => RST,
            13 => ACK | RST,
            _ => bytes.byte(),
        };
        let (seq, ack) = (near(peers, bytes.word()), near(ours, bytes.word()));
        let length = usize::from(choice >> 4 & 1) * usize::from(bytes.byte() & 15) * 100;
        let options = if choice & 0x20 == 0 {
            Vec::new()
        } else {
            let words = usize::from(bytes.byte() % 11);
            bytes.take(words * 4)
        };
        let head = Head {
            from: PEER,
            to: OURS,
            source_port: port,
            target_port: local_port,
            seq,
            ack,
            flags,
            window: bytes.word(),
            options: &options,
        };
        let mut frame = vec![0; 2_000];
        let count = head.write(&vec![0; length], &mut frame).unwrap();
        self.stack.look_ahead([&frame[..count]].into_iter());
        self.stack.receive(self.now, &frame[..count], 1, &mut self.device);
    }

    fn end_turn(&mut self) {
        for _ in 0..2 {
            self.stack.end_turn(self.now, &mut self.device);
            self.take();
        }
    }

    /// Takes packets and events.
    fn take(&mut self) {
        for packet in std::mem::take(&mut self.device.sent) {
            let Ok(Packet::Segment { segment, to, from }) = parse(&packet) else {
                panic!("a bad packet: {packet:?}");
            };
            assert_eq!(from, OURS);
            if to == PEER {
                let numbers = (segment.source_port, segment.end(), segment.ack);
                self.seen.insert(segment.target_port, numbers);
            }
        }
        let mut events = Vec::new();
        self.stack.take_events(&mut events);
        for event in events {
            match event {
                Event::Accepted { conn, .. } => {
                    assert!(!self.conns.contains(&conn));
                    self.conns.push(conn);
                }
                // An application may have closed the connection within the turn.
                Event::Connected(_) | Event::Readable(_) | Event::Writable(_) => {}
                Event::Closed { conn, .. } => {
                    assert!(self.stack.peer_address(conn).is_none());
                    self.conns.retain(|known| *known != conn);
                }
            }
        }
        assert!(self.conns.len() <= 3);
        for conn in &self.conns {
            assert!(self.stack.peer_address(*conn).is_some(), "a dead key without an event");
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut turns = 0;
        while let Some(next) = self.stack.next_time(self.now).filter(|next| *next < end) {
            turns = if next <= self.now { turns + 1 } else { 0 };
            assert!(turns < 10, "a turn at once, again and again");
            self.now = next.max(self.now);
            self.stack.end_turn(self.now, &mut self.device);
            self.take();
            if self.device.room == 0 {
                self.now = end;
            }
        }
        self.now = end.max(self.now);
    }
}
