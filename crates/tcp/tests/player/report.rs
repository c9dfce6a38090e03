//! Reports of routers and hosts about segments of the stack.

use crate::peer::{Ends, Sent};
use std::net::IpAddr;
use tcp::packet::ACK;

/// The content of a router's report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    TooBig(u16),
    Refused,
    Unreachable,
}

/// A router's report about a segment from `ends.from` with this number.
pub fn report(report: Report, ends: Ends, seq: u32) -> Vec<u8> {
    let segment = Sent { seq, flags: ACK, ..Sent::default() };
    let quoted = segment.packet(ends);
    let mut icmp = match (report, ends.to.is_ipv4()) {
        (Report::TooBig(mtu), true) => vec![3, 4, 0, 0, 0, 0, (mtu >> 8) as u8, mtu as u8],
        (Report::TooBig(mtu), false) => vec![2, 0, 0, 0, 0, 0, (mtu >> 8) as u8, mtu as u8],
        (Report::Refused, true) => vec![3, 3, 0, 0, 0, 0, 0, 0],
        (Report::Refused, false) => vec![1, 4, 0, 0, 0, 0, 0, 0],
        (Report::Unreachable, true) => vec![3, 1, 0, 0, 0, 0, 0, 0],
        (Report::Unreachable, false) => vec![1, 0, 0, 0, 0, 0, 0, 0],
    };
    icmp.extend(&quoted);
    // A packet of TCP lends its IP header, whose protocol and length are set anew.
    let mut packet = Sent::default().packet(Ends { from: ends.to, ..ends.reversed() });
    let length = icmp.len() as u16;
    match (ends.from, ends.to) {
        (IpAddr::V4(_), IpAddr::V4(_)) => {
            packet.truncate(20);
            packet[2..4].copy_from_slice(&(20 + length).to_be_bytes());
            packet[9] = 1;
            packet[10..12].fill(0);
            let sum = checksum(&packet);
            packet[10..12].copy_from_slice(&sum);
            let sum = checksum(&icmp);
            icmp[2..4].copy_from_slice(&sum);
        }
        _ => {
            packet.truncate(40);
            packet[4..6].copy_from_slice(&length.to_be_bytes());
            packet[6] = 58;
            let mut whole = packet[8..40].to_vec();
            whole.extend([0, 0, (length >> 8) as u8, length as u8, 0, 0, 0, 58]);
            whole.extend(&icmp);
            let sum = checksum(&whole);
            icmp[2..4].copy_from_slice(&sum);
        }
    }
    packet.extend(icmp);
    packet
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
