//! The stack under test, its device, and the application above, as a script moves them.

use super::Entry;
use super::line::{Line, number_after, with_flow, word_after};
use super::packet::{Firsts, URG, byte, bytes, segment, text};
use super::report::{Report, checksum, report};
use crate::peer::{Device, Ends, read};
use std::collections::BTreeMap;
use std::io::{ErrorKind, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use stdx::hash::Seed;
use tcp::packet::SYN;
use tcp::{Close, Config, Conn, Event, Read, Stack, Time, Write};

/// The port on which the stack listens; the peer of flow `a` has port 5000, of `b` 5001.
const PORT: u16 = 80;
const PEER_PORT: u16 = 5_000;
/// The peer's first number: its numbers wrap around early.
const PEER_FIRST: u32 = u32::MAX - 2_000;
/// The start of a script, in microseconds.
const START: u64 = 1_000_000_000;

/// A connection of the script.
#[derive(Debug)]
struct Flow {
    conn: Option<Conn>,
    local_port: u16,
    firsts: Firsts,
    knows_ours: bool,
    /// Bytes that the application has written and read.
    written: u32,
    read: u32,
}

impl Default for Flow {
    fn default() -> Flow {
        let firsts = Firsts { peer: PEER_FIRST, ours: 0 };
        Flow { conn: None, local_port: PORT, firsts, knows_ours: false, written: 0, read: 0 }
    }
}

/// The stage.
pub struct Stage {
    config: Config,
    stack: Option<Stack>,
    device: Device,
    now: Time,
    flows: BTreeMap<char, Flow>,
    entries: Vec<Entry>,
}

impl Default for Stage {
    fn default() -> Stage {
        let mut config = Config::new(vec!["192.0.2.1".parse().unwrap()], Seed(11, 12));
        config.receive_window = 16 << 10;
        config.table_segment_bits = 2;
        Stage {
            config,
            stack: None,
            device: Device::default(),
            now: Time(START),
            flows: BTreeMap::new(),
            entries: Vec::new(),
        }
    }
}

fn kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::ConnectionReset => "reset",
        ErrorKind::ConnectionRefused => "refused",
        ErrorKind::TimedOut => "timed out",
        ErrorKind::HostUnreachable => "unreachable",
        ErrorKind::QuotaExceeded => "full",
        ErrorKind::AddrNotAvailable => "no address",
        _ => "another error",
    }
}

impl Stage {
    /// Takes a setting, which stands before everything else.
    pub fn set(&mut self, text: &str) {
        assert!(self.stack.is_none(), "{text}: too late");
        let number = |name| number_after(text, name);
        if text == "config ipv6" {
            self.config.addresses = vec!["2001:db8::1".parse().unwrap()];
        } else if let Some(mtu) = number("mtu") {
            self.config.mtu = mtu as u16;
        } else if let Some(max) = number("connections_max") {
            self.config.connections_max = max;
        } else if let Some(max) = number("half_open_max") {
            self.config.half_open_max = max;
        } else if let Some(max) = number("unread_bytes_max") {
            self.config.unread_bytes_max = max as usize;
        } else if let Some(max) = number("unacknowledged_bytes_max") {
            self.config.unacknowledged_bytes_max = max as usize;
        } else {
            panic!("{text}: no setting");
        }
    }

    fn is_v6(&self) -> bool {
        self.config.addresses[0].is_ipv6()
    }

    /// The ends of a packet from the peer.
    fn ends(&self, flow: char) -> Ends {
        let port = PEER_PORT + (flow as u16 - 'a' as u16);
        let peer: &str = if self.is_v6() { "2001:db8::2" } else { "192.0.2.2" };
        let local_port = self.flows.get(&flow).map_or(PORT, |flow| flow.local_port);
        Ends {
            from: peer.parse().unwrap(),
            to: self.config.addresses[0],
            from_port: port,
            to_port: local_port,
        }
    }

    /// Lets time pass, then carries out an input. `is_last` ends the turn.
    pub fn carry_out(&mut self, at_us: u64, line: &Line, is_last: bool) {
        self.pass_until(Time(START + at_us));
        self.flows.entry(line.flow).or_default();
        let (input, _) = line.text.split_once(" = ").unwrap_or((&line.text, ""));
        let place = self.entries.len();
        let answer = self.input(line.flow, input);
        let text =
            if answer.is_empty() { input.to_string() } else { format!("{input} = {answer}") };
        let entry = Entry { at_us, text: with_flow(line.flow, &text) };
        self.entries.insert(place, entry);
        self.collect();
        if is_last {
            self.end_turn();
        }
    }

    /// The transcript.
    pub fn finish(self) -> Vec<Entry> {
        self.entries
    }

    fn stack(&mut self) -> &mut Stack {
        self.stack.get_or_insert_with(|| Stack::new(self.config.clone(), Time(START)))
    }

    /// Ends turns whenever the stack asks for it, before this moment.
    fn pass_until(&mut self, moment: Time) {
        let mut turns = 0;
        while let Some(next) = self.stack.as_ref().and_then(|stack| stack.next_time(self.now)) {
            let next = next.max(self.now);
            if next >= moment {
                break;
            }
            turns = if next == self.now { turns + 1 } else { 0 };
            assert!(turns < 10, "the stack asks for a turn at once, again and again");
            self.now = next;
            self.end_turn();
        }
        self.now = moment;
    }

    fn end_turn(&mut self) {
        let now = self.now;
        self.stack();
        if let Some(stack) = &mut self.stack {
            stack.end_turn(now, &mut self.device);
        }
        self.collect();
    }

    /// Records packets and events.
    fn collect(&mut self) {
        let at_us = self.now.0 - START;
        for (packet, hop) in std::mem::take(&mut self.device.sent) {
            let (ends, sent) = read(&packet);
            let letter = (b'a' + (ends.to_port - PEER_PORT) as u8) as char;
            let flow = self.flows.entry(letter).or_default();
            if sent.flags & SYN != 0 && !flow.knows_ours {
                flow.firsts.ours = sent.seq;
                flow.knows_ours = true;
            }
            flow.local_port = ends.from_port;
            let mut text = text(&sent, flow.firsts);
            if hop != 1 {
                text.push_str(&format!(" hop {hop}"));
            }
            assert_eq!(ends.reversed(), self.ends(letter), "the ends of {text}");
            self.entries.push(Entry { at_us, text: with_flow(letter, &text) });
        }
        let mut events = Vec::new();
        self.stack().take_events(&mut events);
        for event in events {
            let (flow, text) = self.event(event);
            let text = with_flow(flow, &format!("event {text}"));
            self.entries.push(Entry { at_us, text });
        }
    }

    fn event(&mut self, event: Event) -> (char, String) {
        if let Event::Accepted { conn, peer, listener } = event {
            let letter = (b'a' + (peer.port() - PEER_PORT) as u8) as char;
            let flow = self.flows.entry(letter).or_default();
            (flow.conn, flow.written, flow.read) = (Some(conn), 0, 0);
            assert_eq!(self.stack().peer_address(conn), Some(peer));
            let number = if listener == 0 { String::new() } else { format!(" by {listener}") };
            return (letter, format!("accepted{number}"));
        }
        let (conn, text) = match event {
            Event::Connected(conn) => (conn, "connected".to_string()),
            Event::Readable(conn) => (conn, "readable".to_string()),
            Event::Writable(conn) => (conn, "writable".to_string()),
            Event::Closed { conn, reason } => (conn, format!("closed: {}", kind(reason))),
            Event::Accepted { .. } => unreachable!(),
        };
        let flow = self.flows.iter().find(|(_, flow)| flow.conn == Some(conn));
        (flow.map_or('?', |(letter, _)| *letter), text)
    }

    /// Carries out an input, and returns the answer.
    fn input(&mut self, flow: char, input: &str) -> String {
        let now = self.now;
        if let Some(packet) = input.strip_prefix("< ") {
            let count = number_after(packet, "times").unwrap_or(1);
            let hop = number_after(packet, "hop").unwrap_or(1) as u8;
            let packet = self.packet(flow, packet);
            self.stack();
            if let Some(stack) = &mut self.stack {
                (0..count).for_each(|_| stack.receive(now, &packet, hop, &mut self.device));
            }
            return String::new();
        }
        self.stack();
        let Some(stack) = &mut self.stack else { return String::new() };
        let conn = self.flows.get(&flow).and_then(|flow| flow.conn);
        let (name, value) = input.split_once(' ').unwrap_or((input, ""));
        match (name, conn) {
            ("advance", _) => {}
            ("listen", _) => {
                let ip: IpAddr = self.config.addresses[0];
                assert!(stack.listen(SocketAddr::new(ip, PORT)).is_some());
            }
            ("pause", _) => stack.pause_accepting(),
            ("resume", _) => stack.resume_accepting(),
            ("stop", _) => stack.stop_listening(),
            ("device", _) => self.device.room = value.parse().unwrap_or(usize::MAX),
            ("forget", _) => {
                // The next SYN has the first number.
                self.flows.entry(flow).or_default().knows_ours = false;
            }
            ("count", _) => return self.count(value).to_string(),
            ("connect", _) => return self.connect(flow),
            ("write", Some(conn)) => return self.write(flow, conn, value.parse().unwrap()),
            ("read", Some(conn)) => return self.read(flow, conn, value.parse().unwrap()),
            ("close", Some(conn)) => stack.close(conn, Close::Graceful),
            ("reset", Some(conn)) => stack.close(conn, Close::Reset),
            ("shutdown", Some(conn)) => stack.shutdown_write(now, conn, &mut self.device),
            ("expect", Some(conn)) => {
                stack.expect_acknowledgements(conn, Duration::from_secs_f64(value.parse().unwrap()))
            }
            ("heard", Some(conn)) => return format!("{:?}", stack.heard(now, conn).unwrap()),
            _ => panic!("{input}: no input, or no connection"),
        }
        String::new()
    }

    /// The packet of the peer, or the report of a router, that a text stands for.
    fn packet(&self, letter: char, text: &str) -> Vec<u8> {
        let (flow, ends) = (&self.flows[&letter], self.ends(letter));
        let content = match text.split(' ').next().unwrap_or_default() {
            "toobig" => Some(Report::TooBig(number_after(text, "toobig").unwrap() as u16)),
            "refused" => Some(Report::Refused),
            "unreachable" => Some(Report::Unreachable),
            _ => None,
        };
        if let Some(content) = content {
            let about = word_after(text, "about").unwrap().parse::<i64>().unwrap() as u32;
            return report(content, ends.reversed(), flow.firsts.ours.wrapping_add(about));
        }
        let sent = segment(text, flow.firsts);
        let mut packet = sent.packet(ends);
        if sent.flags & URG != 0 {
            // An urgent pointer, and the checksum with it.
            let head = packet.len() - sent.payload.len() - sent.options.len() - 20;
            let pair = [packet[head + 16], packet[head + 17]];
            packet[head + 19] = 3;
            let old = u32::from(!u16::from_be_bytes(pair));
            let sum = old + 3;
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            packet[head + 16..head + 18].copy_from_slice(&sum.to_be_bytes());
        }
        if word_after(text, "damaged").is_some() || text.ends_with("damaged") {
            *packet.last_mut().unwrap() ^= 1;
            assert_ne!(checksum(&packet[packet.len() - 20..]), [0; 2]);
        }
        packet
    }

    fn count(&mut self, name: &str) -> u64 {
        let statistics = self.stack().statistics();
        match name {
            "connections" => statistics.connections,
            "active" => statistics.active,
            "half_open" => statistics.half_open,
            "time_wait" => statistics.time_wait,
            "retained_bytes" => statistics.retained_bytes,
            "unread_bytes" => statistics.unread_bytes,
            "resent" => statistics.resent,
            "timeouts" => statistics.timeouts,
            "probes" => statistics.probes,
            "refused" => statistics.refused,
            "cookies_sent" => statistics.cookies_sent,
            "cookies_accepted" => statistics.cookies_accepted,
            "resets_in" => statistics.resets_in,
            "resets_out" => statistics.resets_out,
            "challenges" => statistics.challenges,
            "malformed" => statistics.malformed,
            "checksums" => statistics.checksums,
            "foreign" => statistics.foreign,
            "unknown" => statistics.unknown,
            "dropped_unread" => statistics.dropped_unread,
            "device_full" => statistics.device_full,
            _ => panic!("no counter {name}"),
        }
    }

    fn connect(&mut self, letter: char) -> String {
        let ends = self.ends(letter);
        let (now, to) = (self.now, SocketAddr::new(ends.from, ends.from_port));
        self.stack();
        let Some(stack) = &mut self.stack else { return String::new() };
        match stack.connect(now, None, to, &mut self.device) {
            Ok(conn) => {
                let flow = self.flows.entry(letter).or_default();
                *flow = Flow { conn: Some(conn), ..Flow::default() };
                "ok".to_string()
            }
            Err(error) => kind(error.kind()).to_string(),
        }
    }

    fn write(&mut self, letter: char, conn: Conn, count: usize) -> String {
        let (Some(flow), Some(stack)) = (self.flows.get_mut(&letter), &mut self.stack) else {
            return String::new();
        };
        let bytes = bytes(1, flow.written + 1, count);
        let (first, second) = bytes.split_at(count / 3);
        let parts = [IoSlice::new(first), IoSlice::new(second)];
        match stack.write(self.now, conn, &parts, &mut self.device) {
            Write::Wrote(count) => {
                flow.written += count as u32;
                format!("wrote {count}")
            }
            Write::Blocked => "blocked".to_string(),
            Write::Dead => "dead".to_string(),
        }
    }

    fn read(&mut self, letter: char, conn: Conn, count: usize) -> String {
        let (Some(flow), Some(stack)) = (self.flows.get_mut(&letter), &mut self.stack) else {
            return String::new();
        };
        let mut buffer = vec![0; count];
        match stack.read(conn, &mut buffer) {
            Read::Data(count) => {
                for found in &buffer[..count] {
                    flow.read += 1;
                    assert_eq!(*found, byte(0, flow.read), "byte {} of {letter}", flow.read);
                }
                format!("data {count}")
            }
            Read::Blocked => "blocked".to_string(),
            Read::Ended => "ended".to_string(),
            Read::Lost(reason) => format!("lost: {}", kind(reason)),
            Read::Dead => "dead".to_string(),
        }
    }
}
