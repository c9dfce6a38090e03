//! The memory of many idle connections.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use stdx::hash::Seed;
use tcp::{Config, Event, Frames, Read, Stack, Time, Write};

const CONNECTIONS: u32 = 120_000;
/// Connections that are busy at the same time.
const STEP: u32 = 1_000;

/// Packets on their way from one stack to the other.
#[derive(Default)]
struct Wire {
    frame: Vec<u8>,
    frames: Vec<Vec<u8>>,
}

impl Frames for Wire {
    fn next_frame(&mut self) -> Option<&mut [u8]> {
        self.frame.resize(1_500, 0);
        Some(&mut self.frame)
    }

    fn send(&mut self, length: usize, _: u8) {
        self.frames.push(self.frame[..length].to_vec());
    }
}

fn address(number: u32) -> IpAddr {
    IpAddr::from([10, 0, 0, number as u8])
}

/// Two stacks, and the packets between them.
struct Pair {
    now: Time,
    stacks: [Stack; 2],
    wires: [Wire; 2],
    events: [Vec<Event>; 2],
}

impl Pair {
    fn new() -> Pair {
        let stack = |addresses: Vec<IpAddr>, seed| {
            let config = Config { ports_first: 1024, ..Config::new(addresses, Seed(seed, 1)) };
            Stack::new(config, Time(0))
        };
        let stacks = [stack((1..=4).map(address).collect(), 1), stack(vec![address(9)], 2)];
        Pair { now: Time(0), stacks, wires: Default::default(), events: Default::default() }
    }

    /// Carries everything that is under way, until nothing is.
    fn settle(&mut self) {
        loop {
            for (side, stack) in self.stacks.iter_mut().enumerate() {
                stack.end_turn(self.now, &mut self.wires[side]);
                stack.take_events(&mut self.events[side]);
            }
            let under_way = self.wires.each_mut().map(|wire| std::mem::take(&mut wire.frames));
            if under_way.iter().all(Vec::is_empty) {
                return;
            }
            for (side, packets) in under_way.iter().enumerate() {
                let to = 1 - side;
                for packet in packets {
                    self.stacks[to].receive(self.now, packet, 0, &mut self.wires[to]);
                }
            }
            self.now.0 += 50;
        }
    }
}

/// Opens connections, sends a message on each, and reads it, so that each has been in use and is
/// idle again. Returns the bytes of the accepting stack.
fn use_connections(pair: &mut Pair, count: u32) -> usize {
    let to = SocketAddr::new(address(9), 80);
    for number in 0..count {
        let from = Some(address(1 + number % 4));
        pair.stacks[0].connect(pair.now, from, to, &mut pair.wires[0]).unwrap();
        if number % STEP == STEP - 1 {
            pair.settle();
        }
    }
    let accepted = pair.events[1].split_off(0).into_iter().map(|event| match event {
        Event::Accepted { conn, .. } => conn,
        other => panic!("{other:?}"),
    });
    for (number, conn) in (0..).zip(accepted) {
        let parts = [IoSlice::new(b"a message")];
        let written = pair.stacks[1].write(pair.now, conn, &parts, &mut pair.wires[1]);
        assert_eq!(written, Write::Wrote(9));
        if number % STEP == STEP - 1 {
            pair.settle();
        }
    }
    let mut buffer = [0; 100];
    for event in pair.events[0].split_off(0) {
        if let Event::Readable(conn) = event {
            assert_eq!(pair.stacks[0].read(conn, &mut buffer), Read::Data(9));
        }
    }
    pair.settle();
    // The repetitions of answers to SYN are due, and not needed.
    pair.now.0 += 2_000_000;
    pair.settle();
    pair.stacks[1].memory_bytes()
}

#[test]
fn an_idle_connection_costs_a_line_and_a_place_in_the_table() {
    let mut pair = Pair::new();
    pair.stacks[1].listen(SocketAddr::new(address(9), 80)).unwrap();
    let first = use_connections(&mut pair, CONNECTIONS / 2);
    let both = use_connections(&mut pair, CONNECTIONS / 2);
    let statistics = pair.stacks[1].statistics();
    assert_eq!((statistics.connections, statistics.active), (u64::from(CONNECTIONS), 0));
    assert_eq!((statistics.retained_bytes, statistics.resent), (0, 0));
    let bytes = (both - first) as f64 / f64::from(CONNECTIONS / 2);
    println!("{bytes:.1} bytes for a further connection");
    assert!(bytes < 77.0, "{bytes} bytes");
}
