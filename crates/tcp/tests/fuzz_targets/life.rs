//! The life of one connection between two stacks, whose packets have any fate.

use super::{Bytes, Device};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use stdx::hash::Seed;
use tcp::{Close, Config, Conn, Event, Read, Stack, Time, Write};

/// Time of loss, repetition and delay; then the network is good. An opening without an answer is
/// forgotten after a minute.
const BAD_MS: u64 = 20_000;
/// Everything must be over so long after that.
const GOOD_MS: u64 = 600_000;

struct End {
    stack: Stack,
    device: Device,
    conn: Option<Conn>,
    is_open: bool,
    written: usize,
    read: usize,
    has_ended: bool,
    has_shut_down: bool,
    has_cookies: bool,
    /// On their way to the other end.
    packets: VecDeque<Vec<u8>>,
}

fn byte(side: usize, at: usize) -> u8 {
    (at * 13 + at / 253 + side * 77) as u8
}

impl End {
    fn new(number: u8, half_open_max: u32) -> (End, IpAddr) {
        let address = IpAddr::from([192, 0, 2, number]);
        let mut config = Config::new(vec![address], Seed(u64::from(number), 3));
        config.table_segment_bits = 0;
        config.half_open_max = half_open_max;
        let end = End {
            stack: Stack::new(config, Time(0)),
            device: Device::default(),
            conn: None,
            is_open: false,
            written: 0,
            read: 0,
            has_ended: false,
            has_shut_down: false,
            has_cookies: half_open_max == 0,
            packets: VecDeque::new(),
        };
        (end, address)
    }

    fn write(&mut self, now: Time, side: usize, count: usize) {
        let Some(conn) = self.conn.filter(|_| self.is_open && !self.has_shut_down) else { return };
        let bytes: Vec<u8> = (0..count).map(|at| byte(side, self.written + at)).collect();
        match self.stack.write(now, conn, &[IoSlice::new(&bytes)], &mut self.device) {
            Write::Wrote(count) => self.written += count,
            Write::Blocked => {}
            Write::Dead => panic!("a dead key without an event"),
        }
    }

    fn read(&mut self, side: usize, count: usize) {
        let Some(conn) = self.conn.filter(|_| self.is_open) else { return };
        let mut buffer = vec![0; count.max(1)];
        match self.stack.read(conn, &mut buffer) {
            Read::Data(count) => {
                for found in &buffer[..count] {
                    assert_eq!(*found, byte(1 - side, self.read), "byte {}", self.read);
                    self.read += 1;
                }
            }
            Read::Blocked => assert!(!self.has_ended),
            Read::Ended => self.has_ended = true,
            Read::Lost(reason) => panic!("lost: {reason:?}"),
            Read::Dead => panic!("a dead key without an event"),
        }
    }

    fn shut_down(&mut self, now: Time) {
        if let Some(conn) = self.conn.filter(|_| self.is_open && !self.has_shut_down) {
            self.has_shut_down = true;
            self.stack.shutdown_write(now, conn, &mut self.device);
        }
    }

    fn end_turn(&mut self, now: Time) {
        self.stack.end_turn(now, &mut self.device);
        self.packets.extend(self.device.sent.drain(..));
        let mut events = Vec::new();
        self.stack.take_events(&mut events);
        for event in events {
            match event {
                Event::Accepted { conn, .. } => {
                    // A late copy of the first segment brings a cookie back once more.
                    let is_copy = self.conn.is_some();
                    assert!(!is_copy || self.has_cookies, "accepted twice");
                    if is_copy {
                        self.stack.close(conn, Close::Reset);
                    } else {
                        (self.conn, self.is_open) = (Some(conn), true);
                    }
                }
                Event::Connected(_) => self.is_open = true,
                Event::Readable(_) | Event::Writable(_) => assert!(self.is_open),
                Event::Closed { reason, .. } => panic!("lost: {reason:?}"),
            }
        }
    }
}

/// Any fate of the packets of the first 20 seconds: both streams arrive whole, and nothing is left.
pub fn life(data: &[u8]) {
    let mut bytes = Bytes(data);
    let start = Time(1 << 33);
    let mut now = start;
    let (mut first, _) = End::new(1, 10);
    let (mut second, address) = End::new(2, u32::from(bytes.byte() & 1));
    second.stack.listen(SocketAddr::new(address, 80));
    let to = SocketAddr::new(address, 80);
    first.conn = first.stack.connect(now, None, to, &mut first.device).ok();
    let mut ends = [first, second];
    ends.iter_mut().for_each(|end| end.end_turn(now));
    while !bytes.is_empty() && now < start + Duration::from_millis(BAD_MS) {
        let action = bytes.byte();
        let side = usize::from(action >> 3 & 1);
        let amount = usize::from(action >> 4);
        match action & 7 {
            0 | 1 => deliver(&mut ends, side, now),
            2 => drop(ends[side].packets.pop_front()),
            3 => ends[side].packets.extend_from_within_front(amount & 1 == 0),
            4 => ends[side].write(now, side, amount * amount * 40 + 1),
            5 => ends[side].read(side, amount * amount * 40 + 1),
            6 => now = now + Duration::from_millis(1 << (amount & 11)),
            _ if amount == 15 => ends[side].shut_down(now),
            _ => now = now + Duration::from_micros(amount as u64 * 50),
        }
        ends.iter_mut().for_each(|end| end.end_turn(now));
    }
    finish(&mut ends, now);
}

/// Gives the oldest packet from a side to the other.
fn deliver(ends: &mut [End; 2], side: usize, now: Time) {
    if let Some(packet) = ends[side].packets.pop_front() {
        let other = &mut ends[1 - side];
        other.stack.receive(now, &packet, 1, &mut other.device);
    }
}

/// Repeats the oldest packet, or moves it behind the others.
trait Shuffle {
    fn extend_from_within_front(&mut self, is_repeated: bool);
}

impl Shuffle for VecDeque<Vec<u8>> {
    fn extend_from_within_front(&mut self, is_repeated: bool) {
        if let Some(packet) = self.pop_front() {
            if is_repeated {
                self.push_front(packet.clone());
            }
            self.push_back(packet);
        }
    }
}

/// The network is good, both ends say something, and end.
fn finish(ends: &mut [End; 2], mut now: Time) {
    let end = now + Duration::from_millis(GOOD_MS);
    let is_over = |ends: &[End; 2]| {
        ends.iter().all(|end| end.has_ended && end.has_shut_down)
            && ends[0].read == ends[1].written
            && ends[1].read == ends[0].written
    };
    let mut turns = 0;
    let mut said = [false; 2];
    while !is_over(ends) {
        turns += 1;
        assert!(turns < 50_000 && now < end, "not over: {:?}", ends[0].stack.statistics());
        for side in 0..2 {
            while !ends[side].packets.is_empty() {
                deliver(ends, side, now);
            }
            let end = &mut ends[side];
            let before = end.written;
            if !said[side] {
                // Something must be said: an opening whose answer was lost may be forgotten.
                end.write(now, side, 10);
                said[side] = end.written > before || end.has_shut_down;
            } else {
                end.shut_down(now);
            }
            (0..20).for_each(|_| end.read(side, 10_000));
            end.end_turn(now);
        }
        if ends.iter().all(|end| end.packets.is_empty()) {
            let next = ends.iter().filter_map(|end| end.stack.next_time(now)).min();
            now = next.unwrap_or(now).max(now + Duration::from_millis(1));
        }
    }
    for end in ends.iter_mut() {
        if let Some(conn) = end.conn {
            end.stack.close(conn, Close::Graceful);
        }
        end.end_turn(now);
    }
    // The last packets, and TIME-WAIT.
    for _ in 0..2_000 {
        for side in 0..2 {
            while !ends[side].packets.is_empty() {
                deliver(ends, side, now);
            }
            ends[side].end_turn(now);
        }
        now = now + Duration::from_millis(100);
    }
    for end in ends.iter() {
        let statistics = end.stack.statistics();
        let left = [
            statistics.connections,
            statistics.active,
            statistics.half_open,
            statistics.time_wait,
            statistics.retained_bytes,
            statistics.unread_bytes,
        ];
        assert_eq!(left, [0; 6], "{statistics:?}");
    }
}
