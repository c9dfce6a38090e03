//! Many peers at once: floods of SYN, readers that read nothing, connections that come and go.

use super::host::{ALL, FIRST, Host, PLAIN, Peer, ends};
use crate::peer::Sent;
use std::time::Duration;
use stdx::prng::Prng;
use tcp::packet::{ACK, FIN, SYN};
use tcp::{Close, Event};

fn syn(seq: u32) -> Sent {
    Sent { seq, flags: SYN, window: u16::MAX, options: ALL.to_vec(), ..Sent::default() }
}

/// 200,000 SYN in a second from as many senders: connections work, new ones come in, memory and
/// packets have a bound, and a minute later nothing is left.
#[test]
fn a_flood_of_syn_leaves_connections_alone() {
    let mut host = Host::new(|_| {});
    let mut old: Vec<Peer> = (0..10).map(|number| host.open(ends(number), ALL, 512)).collect();
    let (memory, packets) = (host.stack.memory_bytes(), host.packets);
    let mut prng = Prng::new(7);
    for number in 0..200_000_u32 {
        let answers = host.give(ends(1_000 + number), &syn(prng.next_u64() as u32));
        assert_eq!(answers.len(), 1);
        if number % 1_000 == 999 {
            host.now = host.now + Duration::from_millis(5);
            host.turn();
            host.check(&mut old[number as usize / 1_000 % 10]);
        }
    }
    let statistics = host.stack.statistics();
    assert_eq!((statistics.half_open, statistics.cookies_sent), (65_536, 200_000 - 65_536));
    // An entry is 64 bytes; queue and table come to as many.
    let grown = host.stack.memory_bytes() - memory;
    assert!(grown < 65_536 * 160, "{grown}");
    // A good client comes in by a cookie.
    let answer = host.exchange(ends(500_000), &syn(FIRST));
    let number = answer.last().unwrap().1.seq.wrapping_add(1);
    let mut new = host.complete(ends(500_000), number, 512);
    host.check(&mut new);
    host.pass(Duration::from_secs(70));
    assert_eq!(host.stack.statistics().half_open, 0);
    // An answer for each, five repetitions of those with an entry, and what the checks took.
    let bound = 200_000 + 5 * 65_536 + 210 * 3;
    assert!(host.packets - packets <= bound, "{}", host.packets - packets);
    old.iter_mut().for_each(|peer| host.check(peer));
}

/// A sender that repeats its SYN has one entry.
#[test]
fn repeated_syn_have_one_entry() {
    let mut host = Host::new(|_| {});
    for _ in 0..100_000 {
        assert_eq!(host.give(ends(0), &syn(FIRST)).len(), 1);
    }
    assert_eq!(host.stack.statistics().half_open, 1);
    assert!(host.stack.memory_bytes() < 1 << 20, "{}", host.stack.memory_bytes());
}

/// 20,000 peers ask for much and read nothing. Unacknowledged bytes stay within the bound of the
/// shard, and a connection without any can still write.
#[test]
fn slow_readers_share_a_bound() {
    const BOUND: usize = 16 << 20;
    let mut host = Host::new(|config| config.unacknowledged_bytes_max = BOUND);
    let mut good = host.open(ends(100_000), ALL, 512);
    let peers: Vec<Peer> = (0..20_000).map(|number| host.open(ends(number), ALL, 512)).collect();
    for round in 0..3 {
        for peer in &peers {
            host.write(peer.conn, 4_000);
        }
        host.turn();
        let statistics = host.stack.statistics();
        // One write may pass the bound, by a window.
        assert!(statistics.retained_bytes <= (BOUND + 65_536) as u64, "{statistics:?}");
        assert!(statistics.retained_bytes >= (BOUND / 4 * 3) as u64, "{round} {statistics:?}");
    }
    let memory = host.stack.memory_bytes();
    assert!(memory < BOUND + (20_000 * 512) + (4 << 20), "{memory}");
    // Ten minutes of repetitions, with backoff: about thirty segments of each.
    let packets = host.packets;
    host.pass(Duration::from_secs(600));
    assert!(host.packets - packets < 20_000 * 30, "{}", host.packets - packets);
    assert!(host.stack.memory_bytes() <= memory + (1 << 20));
    // The bound is shared: when some give up their bytes, others can write.
    for peer in &peers {
        host.stack.close(peer.conn, Close::Reset);
    }
    host.turn();
    assert_eq!(host.stack.statistics().retained_bytes, 0);
    host.check(&mut good);
}

/// Peers that open and end at once leave a bounded rest.
#[test]
fn connections_that_come_and_go_leave_little() {
    let mut host = Host::new(|config| config.time_wait_max = 10_000);
    let mut live = 0_u32;
    let mut at_half = 0;
    for number in 0..100_000_u32 {
        let peer = host.open(ends(number), PLAIN, u16::MAX);
        // We end first, so that we remember the connection.
        host.stack.close(peer.conn, Close::Graceful);
        host.turn();
        host.exchange(peer.ends, &peer.acknowledgement(1));
        let end = Sent { flags: ACK | FIN, ..peer.acknowledgement(1) };
        host.exchange(peer.ends, &end);
        live = live.max(host.stack.connections_count());
        host.now = host.now + Duration::from_micros(100);
        if number == 50_000 {
            at_half = host.stack.memory_bytes();
        }
    }
    assert!(live <= 1 && host.stack.statistics().time_wait == 10_000);
    let grown = host.stack.memory_bytes() - at_half;
    assert!(grown < 1 << 20, "{grown} of {at_half}");
}

/// Repeated FIN to a remembered connection: an answer each, and no memory.
#[test]
fn repeated_ends_cost_an_answer() {
    let mut host = Host::new(|config| config.time_wait_max = 100);
    let peer = host.open(ends(0), PLAIN, u16::MAX);
    host.stack.close(peer.conn, Close::Graceful);
    host.turn();
    let end = Sent { flags: ACK | FIN, ..peer.acknowledgement(1) };
    host.exchange(peer.ends, &end);
    let memory = host.stack.memory_bytes();
    for _ in 0..100_000 {
        assert_eq!(host.exchange(peer.ends, &end).len(), 1);
    }
    assert!(host.stack.memory_bytes() <= memory + 16_384);
}

/// Segments of no connection cost an answer each, and no memory; resets not even that.
#[test]
fn unknown_segments_cost_an_answer() {
    let mut host = Host::new(|_| {});
    let memory = host.stack.memory_bytes();
    for number in 0..100_000 {
        let sent = Sent { seq: number, ack: 5, flags: ACK, ..Sent::default() };
        assert_eq!(host.give(ends(number), &sent).len(), 1);
    }
    assert_eq!(host.stack.memory_bytes(), memory);
    assert!(!host.events.iter().any(|event| matches!(event, Event::Accepted { .. })));
}

/// The owner was busy for longer than any timeout, and the answers wait for it: nothing is sent
/// again before it has seen them.
#[test]
fn no_timer_expires_before_packets_that_wait() {
    const PEERS: u32 = 40;
    let mut host = Host::new(|_| {});
    let peers: Vec<Peer> = (0..PEERS).map(|number| host.open(ends(number), PLAIN, 512)).collect();
    for peer in &peers {
        host.write(peer.conn, 100);
    }
    host.take();
    host.turn();
    let received = host.now;
    host.now = received + Duration::from_secs(20);
    host.stack.end_turn_after(host.now, received, &mut host.device);
    assert_eq!(host.take().len(), 0);
    assert_eq!(host.stack.next_time(host.now), Some(host.now), "the wait is over at once");
    let acks: Vec<Vec<u8>> =
        peers.iter().map(|peer| peer.acknowledgement(100).packet(peer.ends)).collect();
    host.stack.look_ahead(acks.iter().map(Vec::as_slice));
    for ack in &acks[1..] {
        host.stack.receive(host.now, ack, 1, &mut host.device);
    }
    // The first peer did not answer.
    let again: Vec<u16> = host.turn().into_iter().map(|(ends, _)| ends.to_port).collect();
    assert_eq!(again, [peers[0].ends.from_port]);
    assert_eq!(host.stack.statistics().timeouts, 1);
}

/// Many connections with lost segments, and a device without room: the end of a turn tries one of
/// them. Otherwise an overload would take all time from what could end it.
#[test]
fn a_full_device_is_tried_once_a_turn() {
    const PEERS: u32 = 1_000;
    let mut host = Host::new(|_| {});
    let peers: Vec<Peer> = (0..PEERS).map(|number| host.open(ends(number), PLAIN, 512)).collect();
    for peer in &peers {
        host.write(peer.conn, 100);
    }
    host.take();
    host.device.room = 0;
    host.pass(Duration::from_secs(2));
    let tries = |host: &Host| host.stack.statistics().device_full;
    let before = tries(&host);
    assert_eq!(host.turn().len(), 0);
    assert!(tries(&host) <= before + 2, "{} of {before}", tries(&host) - before);
    host.device.room = usize::MAX;
    assert_eq!(host.turn().len() as u32, PEERS);
}
