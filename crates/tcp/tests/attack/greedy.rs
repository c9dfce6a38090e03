//! Peers that lie to get more than their share, or to make us work.

use super::host::{ALL, FIRST, Host, OURS, PLAIN, PORT, ends};
use crate::peer::{Device, Sent, read};
use std::io::IoSlice;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use stdx::hash::Seed;
use stdx::prng::Prng;
use tcp::packet::SYN;
use tcp::{Config, Event, Stack, Time};

const MSS: u32 = 1_460;

/// Someone has injected data into both directions, so that each end acknowledges numbers that the
/// other has never sent, and each answer is another such number.
#[test]
fn desynchronized_ends_do_not_storm() {
    let mut host = Host::new(|_| {});
    let own: IpAddr = "192.0.2.9".parse().unwrap();
    let mut other = Stack::new(Config::new(vec![own], Seed(1, 2)), Time(0));
    let mut device = Device::default();
    let conn = other.connect(host.now, None, SocketAddr::new(OURS, PORT), &mut device).unwrap();
    let mut packets = 0_u64;
    let mut injected = false;
    let start = host.now;
    while host.now < start + Duration::from_secs(10) {
        // One way takes 50 us.
        host.now = host.now + Duration::from_micros(50);
        for (packet, _) in std::mem::take(&mut device.sent) {
            host.stack.receive(host.now, &packet, 1, &mut host.device);
        }
        host.stack.end_turn(host.now, &mut host.device);
        for (packet, _) in std::mem::take(&mut host.device.sent) {
            other.receive(host.now, &packet, 1, &mut device);
        }
        other.end_turn(host.now, &mut device);
        packets += device.sent.len() as u64;
        host.stack.take_events(&mut host.events);
        if !injected && let Some(Event::Accepted { conn: accepted, .. }) = host.events.first() {
            injected = true;
            // The attacker's 100 bytes come first, in the name of each end.
            let bytes = [IoSlice::new(&[7; 100])];
            let (mut to_host, mut to_other) = (Device::default(), Device::default());
            other.write(host.now, conn, &bytes, &mut to_host);
            host.stack.write(host.now, *accepted, &bytes, &mut to_other);
            let mut lost = Device::default();
            // The packets of both ends are lost.
            for (from, to) in [(&to_host, &mut host.stack), (&to_other, &mut other)] {
                let (ends, sent) = read(&from.sent[0].0);
                let forged = Sent { payload: vec![9; 5_000], ..sent };
                to.receive(host.now, &forged.packet(ends), 1, &mut lost);
            }
        }
    }
    assert!(injected && packets < 10 * 1_250, "{packets}");
}

/// Acknowledgements of bytes that were not sent are challenged, and give no room.
#[test]
fn optimistic_acknowledgements_give_no_room() {
    let mut host = Host::new(|_| {});
    let peer = host.open(ends(0), ALL, 512);
    assert_eq!(host.write(peer.conn, 1 << 20), 10 * MSS as usize);
    host.turn();
    let packets = host.packets;
    for bytes in 1..100_000 {
        host.give(peer.ends, &peer.acknowledgement(10 * MSS + bytes));
    }
    assert!(host.packets - packets <= 1_250, "{}", host.packets - packets);
    assert_eq!(host.write(peer.conn, 1 << 20), 0);
    // Acknowledgements before the bytes can have arrived are believed, as no sender can know
    // better; the bounds of flight and window stay.
    let mut acknowledged = 10 * MSS;
    for _ in 0..1_000 {
        let sent = Sent { window: u16::MAX, ..peer.acknowledgement(acknowledged) };
        host.give(peer.ends, &sent);
        acknowledged = acknowledged.wrapping_add(host.write(peer.conn, 1 << 20) as u32);
        let statistics = host.stack.statistics();
        assert!(statistics.retained_bytes <= (1 << 20) + (1 << 17), "{statistics:?}");
    }
}

/// RFC 5681, 3.1, "ACK division": the window grows by acknowledged bytes, not by packets.
#[test]
fn split_acknowledgements_grow_the_window_no_faster() {
    let mut host = Host::new(|_| {});
    let peer = host.open(ends(0), ALL, 512);
    assert_eq!(host.write(peer.conn, 1 << 20), 10 * MSS as usize);
    host.turn();
    let packets = host.packets;
    for bytes in 1..=10 * MSS {
        host.give(peer.ends, &peer.acknowledgement(bytes));
    }
    assert_eq!(host.packets, packets);
    assert_eq!(host.write(peer.conn, 1 << 20), 20 * MSS as usize);
}

/// Repeated acknowledgements release at most half of their number in segments.
#[test]
fn forged_repetitions_are_bounded() {
    let mut host = Host::new(|_| {});
    let peer = host.open(ends(0), PLAIN, u16::MAX);
    assert_eq!(host.write(peer.conn, 1 << 20), 10 * MSS as usize);
    host.turn();
    let mut written = 0;
    for _ in 0..3_000_000 {
        host.give(peer.ends, &Sent { window: u16::MAX, ..peer.acknowledgement(0) });
        host.events.clear();
        written += host.write(peer.conn, 1 << 20);
    }
    // The peer's window is the last bound.
    assert!(written <= 65_535 - 14_600, "{written}");
    assert!(host.stack.statistics().resent <= 2, "{:?}", host.stack.statistics());
}

/// A peer that has everything behind one hole for ever: retained bytes and segments have a bound.
#[test]
fn a_hole_for_ever_is_bounded() {
    for length in [1, 100, 10_000] {
        let mut host = Host::new(|_| {});
        let peer = host.open(ends(0), ALL, u16::MAX);
        let mut written = host.write(peer.conn, length) as u32;
        for _ in 0..15_000 {
            let more = host.write(peer.conn, length) as u32;
            written += more;
            let first = (length as u32).min(MSS);
            if more == 0 {
                let sacks = [(first, written)];
                let sent = Sent { window: u16::MAX, ..peer.with_sacks(0, &sacks) };
                host.give(peer.ends, &sent);
                host.turn();
            }
        }
        let statistics = host.stack.statistics();
        assert!(statistics.retained_bytes <= 5 << 18, "{statistics:?}");
        assert!(host.packets < 30_000, "{}", host.packets);
        // The peer comes to its senses.
        host.give(peer.ends, &Sent { window: u16::MAX, ..peer.acknowledgement(written) });
        assert_eq!(host.stack.statistics().retained_bytes, 0);
        assert!(host.write(peer.conn, 100) > 0);
    }
}

/// Random blocks: every packet that they cause is bounded, and the stream is whole afterwards.
#[test]
fn random_blocks_cause_bounded_work() {
    let mut host = Host::new(|_| {});
    let peer = host.open(ends(0), ALL, u16::MAX);
    let mut prng = Prng::new(6);
    // A large window first.
    let mut sent = 0;
    for _ in 0..8 {
        sent += host.write(peer.conn, 1 << 20) as u32;
        host.give(peer.ends, &Sent { window: u16::MAX, ..peer.acknowledgement(sent) });
    }
    let start = sent;
    sent += host.write(peer.conn, 1 << 20) as u32;
    let flight = u64::from((sent - start) / MSS);
    assert!(flight > 500, "{flight}");
    let packets = host.packets;
    for round in 0..20_000 {
        let sacks: Vec<(u32, u32)> = (0..4)
            .map(|_| {
                let from = start - 100_000 + prng.below(1_300_000) as u32;
                (from, from.wrapping_add(prng.below(20_000) as u32).wrapping_sub(1_000))
            })
            .collect();
        let lie = Sent { window: u16::MAX, ..peer.with_sacks(start, &sacks) };
        host.give(peer.ends, &lie);
        if round % 100 == 0 {
            host.turn();
        }
    }
    // Each segment is repeated once at the price of its block; no time passes for more.
    assert!(host.packets - packets <= 2 * flight, "{} of {flight}", host.packets - packets);
    host.give(peer.ends, &Sent { window: u16::MAX, ..peer.acknowledgement(sent) });
    assert_eq!(host.stack.statistics().retained_bytes, 0);
}

/// Segment sizes below 88 bytes are taken for 88: 1,000 bytes leave in at most 12 packets.
#[test]
fn tiny_segments_are_bounded() {
    for is_v6 in [false, true] {
        for mss in 0..=88_u16 {
            let mut host = Host::new(|config| {
                if is_v6 {
                    config.addresses = vec!["2001:db8::1".parse().unwrap()];
                }
            });
            let mut ends = ends(0);
            if is_v6 {
                ends.from = IpAddr::V6(Ipv6Addr::from(7));
                ends.to = "2001:db8::1".parse().unwrap();
            }
            let options = [2, 4, (mss >> 8) as u8, mss as u8];
            let peer = host.open(ends, &options, u16::MAX);
            let packets = host.packets;
            assert_eq!(host.write(peer.conn, 880), 880);
            host.turn();
            assert_eq!(host.packets - packets, 10);
        }
    }
}

/// A window that never opens costs a probe a minute, and ends with the application's patience.
#[test]
fn a_closed_window_costs_a_probe_a_minute() {
    let mut host = Host::new(|_| {});
    let peer = host.open(ends(0), ALL, 0);
    assert_eq!(host.write(peer.conn, 1_000), 0);
    let packets = host.packets;
    for _ in 0..600 {
        host.pass(Duration::from_secs(10));
        host.exchange(peer.ends, &Sent { window: 0, ..peer.acknowledgement(0) });
    }
    assert!(host.packets - packets < 110, "{}", host.packets - packets);
    assert!(host.stack.peer_address(peer.conn).is_some());
    assert_eq!(host.stack.statistics().retained_bytes, 0);
    host.stack.expect_acknowledgements(peer.conn, Duration::from_secs(1));
    host.pass(Duration::from_secs(61));
    assert!(host.stack.peer_address(peer.conn).is_none());
}

/// A peer that opens its window by bytes gets at most a packet for each of its own.
#[test]
fn a_window_of_bytes_costs_a_packet_for_a_packet() {
    let mut host = Host::new(|_| {});
    let peer = host.open(ends(0), PLAIN, 1);
    let (mut acknowledged, packets) = (0, host.packets);
    for _ in 0..10_000 {
        acknowledged += host.write(peer.conn, 1_000) as u32;
        host.turn();
        host.give(peer.ends, &Sent { window: 1, ..peer.acknowledgement(acknowledged) });
    }
    assert!(host.packets - packets <= 10_000);
}

/// Segments that overlap with other bytes: the first bytes of each number win, in every order.
#[test]
fn the_first_of_overlapping_bytes_win() {
    for seed in 0..300 {
        let mut host = Host::new(|_| {});
        let peer = host.open(ends(0), ALL, 512);
        let mut prng = Prng::new(seed);
        let mut first: Vec<Option<u8>> = vec![None; 1_000];
        let mut read = Vec::new();
        for round in 0..300 {
            let (from, length) = (prng.below(1_000) as usize, prng.between(1, 200) as usize);
            // At last everything once more.
            let range = if round == 299 { 0..1_000 } else { from..(from + length).min(1_000) };
            let bytes = vec![round as u8; range.len()];
            let sent =
                Sent { seq: peer.seq.wrapping_add(range.start as u32), ..peer.segment(&bytes) };
            let answers = host.exchange(peer.ends, &sent);
            read.extend(host.read(peer.conn));
            // The stack has taken the bytes that it reports: in order, or in its newest block.
            let edge = answers.last().map(|(_, sent)| sent.ack.wrapping_sub(peer.seq) as usize);
            let blocks = answers.last().map_or(Vec::new(), |(_, sent)| blocks(sent, peer.seq));
            for (at, place) in first.iter_mut().enumerate() {
                let is_there = edge.is_some_and(|edge| at < edge)
                    || blocks.iter().any(|(from, to)| (*from..*to).contains(&at));
                if range.contains(&at) && place.is_none() && is_there {
                    *place = Some(round as u8);
                }
            }
        }
        assert_eq!(read.len(), 1_000);
        for (at, byte) in read.iter().enumerate() {
            assert_eq!(first[at], Some(*byte), "byte {at} of seed {seed}");
        }
    }
}

/// The ranges of selective acknowledgements, relative to a number.
fn blocks(sent: &Sent, base: u32) -> Vec<(usize, usize)> {
    let options = tcp::packet::Options::parse(&sent.options);
    let relative = |seq: tcp::Seq| seq.0.wrapping_sub(base) as usize;
    options.sacks().iter().map(|(from, to)| (relative(*from), relative(*to))).collect()
}

/// Holes everywhere: a connection keeps at most eight ranges and 256 KiB behind them.
#[test]
fn holes_have_a_bound() {
    let mut host = Host::new(|_| {});
    for number in 0..100 {
        let peer = host.open(ends(number), ALL, 512);
        for hole in 0..1_000_u32 {
            let seq = peer.seq.wrapping_add(1 + hole * 16 % 16_000);
            host.exchange(peer.ends, &Sent { seq, ..peer.segment(b"12345678") });
        }
        assert!(host.stack.statistics().unread_bytes <= u64::from(number + 1) * 32 * 8);
    }
    let syn = Sent { seq: FIRST, flags: SYN, ..Sent::default() };
    assert_eq!(host.exchange(ends(1_000), &syn).len(), 1);
}
