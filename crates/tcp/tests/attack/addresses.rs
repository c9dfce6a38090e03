//! Addresses that are no single host's, or not ours; and reports that end nothing.

use super::host::{ALL, FIRST, Host, OURS, PLAIN, PORT, ends};
use crate::peer::{Device, Ends, Sent, read};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tcp::Event;
use tcp::packet::SYN;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn syn() -> Sent {
    Sent { seq: FIRST, flags: SYN, options: PLAIN.to_vec(), ..Sent::default() }
}

/// RFC 9293, 3.9.2.3 (MUST-57, MUST-63).
#[test]
fn packets_of_no_single_host_are_dropped() {
    let mut host = Host::new(|config| config.addresses.push(address("2001:db8::1")));
    let listener = SocketAddr::new(address("2001:db8::1"), PORT);
    assert_eq!(host.stack.listen(listener), Some(1));
    for (from, to) in [
        ("192.0.2.2", "255.255.255.255"),
        ("192.0.2.2", "192.0.2.255"),
        ("192.0.2.2", "224.0.0.1"),
        ("192.0.2.2", "192.0.2.3"),
        ("255.255.255.255", "192.0.2.1"),
        ("224.0.0.1", "192.0.2.1"),
        ("0.0.0.0", "192.0.2.1"),
        ("2001:db8::2", "ff02::1"),
        ("ff02::1", "2001:db8::1"),
        ("::", "2001:db8::1"),
    ] {
        let ends = Ends { from: address(from), to: address(to), from_port: 9, to_port: PORT };
        assert!(host.exchange(ends, &syn()).is_empty(), "{from} {to}");
    }
    assert_eq!((host.stack.statistics().foreign, host.stack.statistics().half_open), (10, 0));
}

/// RFC 9293, 3.9.2.3 (MUST-46).
#[test]
fn connections_to_no_single_host_are_refused() {
    let mut host = Host::new(|config| config.addresses.push(address("2001:db8::1")));
    for to in ["0.0.0.0", "255.255.255.255", "224.0.0.1", "239.1.2.3", "::", "ff02::1"] {
        let to = SocketAddr::new(address(to), 80);
        let answer = host.stack.connect(host.now, None, to, &mut host.device);
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::AddrNotAvailable, "{to}");
    }
    assert_eq!(host.stack.connections_count(), 0);
}

/// RFC 9293, 3.9.1.1 (MUST-41 to MUST-45).
#[test]
fn each_listener_and_opener_has_its_address() {
    let (second, v6) = (address("192.0.2.8"), address("2001:db8::1"));
    let mut host = Host::new(|config| config.addresses.extend([second, v6]));
    // The first listener has the first address and this port, and keeps both.
    assert_eq!(host.stack.listen(SocketAddr::new(OURS, PORT)), None);
    assert_eq!(host.stack.listen(SocketAddr::new(second, PORT)), Some(1));
    assert_eq!(host.stack.listen(SocketAddr::new(address("0.0.0.0"), 81)), Some(2));
    assert_eq!(host.stack.listen(SocketAddr::new(address("192.0.2.77"), PORT)), None);
    host.open(ends(0), PLAIN, 512);
    host.open(Ends { to: second, ..ends(0) }, PLAIN, 512);
    host.open(Ends { to: second, to_port: 81, ..ends(0) }, PLAIN, 512);
    let listeners: Vec<u8> = host
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Accepted { listener, .. } => Some(*listener),
            _ => None,
        })
        .collect();
    assert_eq!(listeners, [0, 1, 2]);
    let v6_peer = address("2001:db8::9");
    for (from, to, expected) in [
        (None, address("192.0.2.9"), Some(OURS)),
        (Some(second), address("192.0.2.9"), Some(second)),
        (None, v6_peer, Some(v6)),
        (Some(second), v6_peer, None),
        (Some(address("192.0.2.77")), address("192.0.2.9"), None),
    ] {
        let mut device = Device::default();
        let answer = host.stack.connect(host.now, from, SocketAddr::new(to, 80), &mut device);
        assert_eq!(answer.is_ok(), expected.is_some());
        let sender = device.sent.first().map(|(packet, _)| read(packet).0.from);
        assert_eq!(sender, expected);
    }
}

/// Reports that are no reason for anything: source quench, time exceeded, a bad header (RFC 9293,
/// 3.9.2.2: MUST-55, MUST-56).
#[test]
fn other_reports_end_nothing() {
    let mut host = Host::new(|_| {});
    let mut peer = host.open(ends(0), ALL, 512);
    assert_eq!(host.write(peer.conn, 1_000), 1_000);
    let (_, sent) = host.turn().pop().unwrap();
    for kind in [4, 11, 12, 0, 5] {
        let quoted = Sent { payload: Vec::new(), ..sent.clone() }.packet(peer.ends.reversed());
        let mut icmp = vec![kind, 0, 0, 0, 0, 0, 0, 0];
        icmp.extend(&quoted);
        let sum = checksum(&icmp);
        icmp[2..4].copy_from_slice(&sum);
        let mut packet = Sent::default().packet(peer.ends);
        packet.truncate(20);
        packet[2..4].copy_from_slice(&(20 + icmp.len() as u16).to_be_bytes());
        packet[9] = 1;
        packet[10..12].fill(0);
        let sum = checksum(&packet);
        packet[10..12].copy_from_slice(&sum);
        packet.extend(icmp);
        host.stack.receive(host.now, &packet, 1, &mut host.device);
        assert!(host.turn().is_empty());
    }
    assert_eq!(host.stack.statistics().foreign, 5);
    peer.ack = peer.ack.wrapping_add(1_000);
    host.check(&mut peer);
    host.pass(Duration::from_secs(5));
    assert_eq!(host.stack.connections_count(), 1);
}

fn checksum(bytes: &[u8]) -> [u8; 2] {
    let sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
}
