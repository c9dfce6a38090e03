//! Outsiders who know addresses and ports, but see no packet.

use super::host::{ALL, FIRST, Host, OURS, PORT, ends};
use crate::peer::{Ends, Sent};
use std::time::Duration;
use stdx::prng::Prng;
use tcp::packet::{ACK, RST, SYN};

/// The bound of challenges in a second (RFC 5961, 7), with its jitter.
const CHALLENGES_MAX: u64 = 1_250;

/// One reset for each window of the numbers is sure to hit the window, and still ends nothing.
#[test]
fn resets_through_all_windows_end_nothing() {
    let mut host = Host::new(|_| {});
    let mut peer = host.open(ends(0), ALL, 512);
    let packets = host.packets;
    for step in 0..(1_u32 << 18) {
        // Steps of a window, but not onto the very next number.
        let seq = peer.seq.wrapping_add(7).wrapping_add(step << 14);
        host.give(peer.ends, &Sent { seq, flags: RST, ..Sent::default() });
    }
    assert_eq!(host.packets - packets, 1, "a challenge for the one in the window");
    host.check(&mut peer);
}

/// A random reset ends the connection with probability 2^-32: a million have one chance in 4,000.
#[test]
fn random_resets_end_nothing() {
    let mut host = Host::new(|_| {});
    let mut peer = host.open(ends(0), ALL, 512);
    let (mut prng, packets) = (Prng::new(1), host.packets);
    for _ in 0..1_000_000 {
        let (seq, ack) = (prng.next_u64() as u32, prng.next_u64() as u32);
        host.give(peer.ends, &Sent { seq, ack, flags: RST | ACK, ..Sent::default() });
    }
    // One of 262,144 hits the window: 4 are expected.
    assert!((1..20).contains(&(host.packets - packets)), "{}", host.packets - packets);
    host.check(&mut peer);
}

#[test]
fn syns_end_nothing_and_their_answers_are_bounded() {
    let mut host = Host::new(|_| {});
    let mut peer = host.open(ends(0), ALL, 512);
    let (mut prng, packets) = (Prng::new(2), host.packets);
    for number in 0..100_000 {
        // Half of them in the window.
        let within = peer.seq.wrapping_add(prng.below(16_000) as u32);
        let seq = if number % 2 == 0 { within } else { prng.next_u64() as u32 };
        host.give(peer.ends, &Sent { seq, flags: SYN, ..Sent::default() });
    }
    assert!(host.packets - packets <= CHALLENGES_MAX, "{}", host.packets - packets);
    host.check(&mut peer);
}

/// Data need a number within the window and an acknowledgement of the last 64 KiB: even if the
/// window is hit, one of 65,536 passes.
#[test]
fn data_need_an_acknowledgement_in_range() {
    let mut host = Host::new(|_| {});
    let peer = host.open(ends(0), ALL, 512);
    let (mut prng, packets) = (Prng::new(3), host.packets);
    let mut taken = 0;
    let tries = 1_000_000_u64;
    for _ in 0..tries {
        // Always the first byte, which is in the window until it is taken.
        let sent = Sent { ack: prng.next_u64() as u32, ..peer.segment(b"forged") };
        host.give(peer.ends, &sent);
        if !host.read(peer.conn).is_empty() {
            taken += 1;
            break;
        }
    }
    // 15 of a million are expected; so the first comes early or late, but is one.
    assert!(taken <= 1);
    assert!(host.packets - packets <= CHALLENGES_MAX, "{}", host.packets - packets);
    let mut accepted = 0;
    let mut host = Host::new(|_| {});
    for number in 0..200 {
        let peer = host.open(ends(number), ALL, 512);
        for _ in 0..5_000 {
            let sent = Sent { ack: prng.next_u64() as u32, ..peer.segment(b"forged") };
            host.give(peer.ends, &sent);
            let is_taken = !host.read(peer.conn).is_empty();
            accepted += u64::from(is_taken);
            if is_taken {
                break;
            }
        }
        host.turn();
    }
    // 2^16 of 2^32 numbers in a million tries: 15 are expected.
    assert!((3..50).contains(&accepted), "{accepted}");
}

#[test]
fn acknowledgements_free_nothing_and_their_answers_are_bounded() {
    let mut host = Host::new(|_| {});
    let peer = host.open(ends(0), ALL, 512);
    assert_eq!(host.write(peer.conn, 14_600), 14_600);
    host.turn();
    let retained = host.stack.statistics().retained_bytes;
    let (mut prng, packets) = (Prng::new(4), host.packets);
    for _ in 0..100_000 {
        let sent = Sent {
            seq: prng.next_u64() as u32,
            ack: prng.next_u64() as u32,
            flags: ACK,
            window: 0,
            ..Sent::default()
        };
        host.give(peer.ends, &sent);
    }
    // A hit needs the window of 2^14 and a flight of 14,600: one of 2^32 * 72 packets.
    assert_eq!(host.stack.statistics().retained_bytes, retained);
    assert!(host.packets - packets <= CHALLENGES_MAX, "{}", host.packets - packets);
    let answer = host.exchange(peer.ends, &peer.acknowledgement(14_600));
    assert!(answer.is_empty() && host.stack.statistics().retained_bytes == 0);
}

/// A forged cookie passes with a probability of at most 2^-23.
#[test]
fn forged_cookies_open_nothing() {
    let mut host = Host::new(|config| config.half_open_max = 0);
    host.exchange(ends(0), &Sent { seq: FIRST, flags: SYN, ..Sent::default() });
    assert_eq!(host.stack.statistics().cookies_sent, 1);
    let (mut prng, packets, memory) = (Prng::new(5), host.packets, host.stack.memory_bytes());
    for number in 0..500_000 {
        let (seq, ack) = (prng.next_u64() as u32, prng.next_u64() as u32);
        host.give(ends(number), &Sent { seq, ack, flags: ACK, ..Sent::default() });
    }
    assert!(host.stack.statistics().cookies_accepted <= 1);
    assert!(host.packets - packets <= 1 && host.stack.memory_bytes() <= memory + 65_536);
}

/// First numbers follow a clock and a secret (RFC 6528): another flow's tells nothing.
#[test]
fn first_numbers_of_other_flows_tell_nothing() {
    let mut host = Host::new(|_| {});
    let first = |host: &mut Host, number: u32| {
        let syn = Sent { seq: FIRST, flags: SYN, ..Sent::default() };
        host.exchange(ends(number), &syn)[0].1.seq
    };
    let numbers: Vec<u32> = (0..1_000).map(|number| first(&mut host, number)).collect();
    let mut steps: Vec<u32> =
        numbers.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
    steps.sort_unstable();
    steps.dedup();
    assert!(steps.len() > 990, "{}", steps.len());
    let halves = numbers.iter().filter(|number| **number < 1 << 31).count();
    assert!((400..600).contains(&halves), "{halves}");
    // The first number of a flow grows by 250,000 in a second.
    host.pass(Duration::from_secs(100));
    let later = first(&mut host, 0);
    assert_eq!(later.wrapping_sub(numbers[0]), 25_000_000);
}

/// The sender of a packet is its receiver, as in the attack "land". Our device sends the answers
/// back to us.
#[test]
fn packets_from_ourselves_do_not_circle() {
    for flags in [SYN, SYN | ACK, ACK, RST | ACK] {
        let mut host = Host::new(|_| {});
        let own = Ends { from: OURS, to: OURS, from_port: PORT, to_port: PORT };
        let mut under_way = vec![(own, Sent { seq: 5, flags, ..Sent::default() })];
        for _ in 0..100 {
            under_way = under_way.iter().flat_map(|(ends, sent)| host.give(*ends, sent)).collect();
            under_way.extend(host.pass(Duration::from_millis(1)));
        }
        assert!(under_way.is_empty() && host.packets <= 1, "{} for {flags}", host.packets);
    }
}
