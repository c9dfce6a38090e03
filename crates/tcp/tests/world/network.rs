//! The network between two stacks, and the device of each.

use super::pick;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::prng::Prng;
use tcp::packet::{ACK, FIN, Options, PSH, Packet, RST, SYN, parse};
use tcp::{Frames, Time};

/// Faults of the network, until their end.
#[derive(Debug, Clone)]
pub struct Faults {
    /// One way, in microseconds: at least, and at random in addition.
    pub delay_us: u64,
    pub jitter_us: u64,
    pub loss: f64,
    pub repetition: f64,
    pub damage: f64,
    /// Longer packets are lost, and reported if the sender listens.
    pub mtu: usize,
    pub is_mtu_reported: bool,
    /// Nothing passes from the first to the second moment after the start.
    pub blackout: Option<(u64, u64)>,
    /// Frames that a device takes in a turn.
    pub device_frames: usize,
    /// The time after the start at which loss, repetition, damage and blackouts end.
    pub end_us: u64,
}

impl Faults {
    pub fn random(prng: &mut Prng) -> Faults {
        let delay_us = pick(prng, [20, 200, 5_000, 50_000, 150_000]);
        let jitter_us = match prng.below(3) {
            0 => 0,
            1 => delay_us / 4,
            _ => delay_us * 2,
        };
        let mut rarely = |probability: f64, max: f64| {
            if prng.chance(probability) { prng.below(1_000) as f64 / 1_000.0 * max } else { 0.0 }
        };
        let (loss, repetition, damage) = (rarely(0.7, 0.3), rarely(0.3, 0.2), rarely(0.3, 0.1));
        let blackout = prng.chance(0.2).then(|| {
            let from = prng.below(5_000_000);
            (from, from + prng.below(10_000_000))
        });
        Faults {
            delay_us,
            jitter_us,
            loss,
            repetition,
            damage,
            mtu: pick(prng, [600, 1290, 9_000, 9_000, 9_000]),
            is_mtu_reported: prng.chance(0.5),
            blackout,
            device_frames: if prng.chance(0.3) { prng.between(1, 8) as usize } else { 10_000 },
            end_us: prng.between(1_000_000, 40_000_000),
        }
    }
}

pub struct Network {
    pub faults: Faults,
    /// Packets that were given to the network.
    pub sent: u64,
    prng: Prng,
    start: Time,
    /// Packets of each receiver, by the time of arrival and a number.
    under_way: [BTreeMap<(Time, u64), Vec<u8>>; 2],
    number: u64,
}

impl Network {
    pub fn new(faults: Faults, prng: Prng) -> Network {
        let under_way = [BTreeMap::new(), BTreeMap::new()];
        Network { faults, sent: 0, prng, start: Time(0), under_way, number: 0 }
    }

    pub fn begin(&mut self, now: Time) {
        self.start = now;
    }

    pub fn next(&self, side: usize) -> Option<Time> {
        self.under_way[side].keys().next().map(|(at, _)| *at)
    }

    pub fn receive(&mut self, side: usize, now: Time) -> Option<Vec<u8>> {
        let entry = self.under_way[side].first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }

    pub fn send(&mut self, from: usize, now: Time, packet: Vec<u8>) {
        self.sent += 1;
        let age_us = now.0 - self.start.0;
        // A peer that has nothing to send cannot notice that a reset was lost.
        let is_reset = matches!(
            parse(&packet), Ok(Packet::Segment { segment, .. }) if segment.has(RST)
        );
        let is_faulty = age_us < self.faults.end_us && !is_reset;
        let is_dark = self.faults.blackout.is_some_and(|(from, to)| (from..to).contains(&age_us));
        if packet.len() > self.faults.mtu {
            if self.faults.is_mtu_reported
                && let Some(report) = too_big(&packet, self.faults.mtu)
            {
                self.carry(from, now, report);
            }
            return;
        }
        if is_dark && !is_reset || is_faulty && self.prng.chance(self.faults.loss) {
            return;
        }
        if is_faulty && self.prng.chance(self.faults.repetition) {
            self.carry(1 - from, now, packet.clone());
        }
        let mut packet = packet;
        if is_faulty && self.prng.chance(self.faults.damage) {
            let bit = self.prng.below(packet.len() as u64 * 8) as usize;
            packet[bit / 8] ^= 1 << (bit % 8);
        }
        self.carry(1 - from, now, packet);
    }

    fn carry(&mut self, to: usize, now: Time, packet: Vec<u8>) {
        self.number += 1;
        let delay_us = self.faults.delay_us + self.prng.below(self.faults.jitter_us + 1);
        self.under_way[to].insert((now + Duration::from_micros(delay_us), self.number), packet);
    }
}

/// The report of a router with a short link (RFC 792); only about IPv4.
fn too_big(packet: &[u8], mtu: usize) -> Option<Vec<u8>> {
    if packet[0] >> 4 != 4 {
        return None;
    }
    let mut icmp = vec![3, 4, 0, 0, 0, 0];
    icmp.extend((mtu as u16).to_be_bytes());
    icmp.extend(&packet[..28]);
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum);
    let mut report = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0, 203, 0, 113, 1];
    report.extend(&packet[12..16]);
    report[2..4].copy_from_slice(&(20 + icmp.len() as u16).to_be_bytes());
    let sum = checksum(&report);
    report[10..12].copy_from_slice(&sum);
    report.extend(icmp);
    Some(report)
}

/// RFC 1071, by its definition.
pub fn checksum(bytes: &[u8]) -> [u8; 2] {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// The device of one end: frames of a turn, up to a bound.
#[derive(Default)]
pub struct Wire {
    frame: Vec<u8>,
    frames: Vec<Vec<u8>>,
    frames_max: usize,
}

impl Wire {
    pub fn begin_turn(&mut self, network: &mut Network, now: Time) {
        let is_faulty = now.0 - network.start.0 < network.faults.end_us;
        self.frames_max = if is_faulty { network.faults.device_frames } else { 10_000 };
        self.frame.resize(2_000, 0xaa);
    }

    pub fn end_turn(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.frames)
    }
}

impl Frames for Wire {
    fn next_frame(&mut self) -> Option<&mut [u8]> {
        (self.frames.len() < self.frames_max).then_some(&mut self.frame[..])
    }

    fn send(&mut self, length: usize, _: u8) {
        self.frames.push(self.frame[..length].to_vec());
    }
}

/// A packet in a line of a trace.
pub fn describe(packet: &[u8]) -> String {
    match parse(packet) {
        Ok(Packet::Segment { segment, .. }) => {
            let names = [(SYN, 'S'), (FIN, 'F'), (RST, 'R'), (PSH, 'P'), (ACK, 'A')];
            let flags: String =
                names.iter().filter(|(flag, _)| segment.has(*flag)).map(|(_, name)| name).collect();
            format!(
                "{}>{} {flags} seq {:?} len {} ack {:?} win {} {:?}",
                segment.source_port,
                segment.target_port,
                segment.seq,
                segment.payload.len(),
                segment.ack,
                segment.window,
                Options::parse(segment.options).sacks(),
            )
        }
        Ok(Packet::Icmp(icmp)) => format!("{icmp:?}"),
        Err(reason) => format!("{reason:?}"),
    }
}
