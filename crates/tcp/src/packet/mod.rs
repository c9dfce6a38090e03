//! IP packets: what a received one means ([`parse`]), and how a segment is written
//! ([`Head::write`]).
//!
//! First step of a received segment. Nothing is copied; a packet that is not whole, not ours to
//! judge or wrong by its checksum is [`Dropped`] with its reason, as RFC 1122 and RFC 9293 want it:
//! silently.

mod icmp;
mod options;
mod segment;
mod write;

pub use icmp::{Icmp, Trouble};
pub use options::{Options, SACKS_MAX};
pub use segment::{ACK, FIN, PSH, RST, SYN, Segment};
pub use write::{Head, IPV4_BYTES, IPV6_BYTES, TCP_BYTES, payload_max};

use crate::checksum::Sum;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_ICMPV6: u8 = 58;
/// The place of the checksum in a segment.
const CHECKSUM: Range<usize> = 16..18;

/// A received packet.
#[derive(Debug)]
pub enum Packet<'a> {
    /// A segment of TCP.
    Segment {
        /// The sender.
        from: IpAddr,
        /// The receiver.
        to: IpAddr,
        /// The segment.
        segment: Segment<'a>,
    },
    /// A report about a segment that was sent from here.
    Icmp(Icmp),
}

/// The reason why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dropped {
    /// Shorter than its headers say, or of another version of IP.
    Malformed,
    /// A fragment: segments never need fragmentation with path MTU discovery.
    Fragment,
    /// An IP header with options or extension headers.
    IpOptions,
    /// Neither TCP nor a report about a segment.
    Protocol,
    /// The sender is a group of hosts, or has no address (RFC 9293, 3.9.2.3).
    Sender,
    /// A wrong checksum.
    Checksum,
}

/// The checksums of TCP that are right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checksums {
    /// Those of the whole segment.
    Whole,
    /// Also those of the pseudo-header alone: a kernel leaves the rest to its device, and a virtual
    /// one, like veth, never adds it.
    Partial,
}

/// Reads an IP packet, without link header, whose checksums are whole.
///
/// # Errors
/// The reason to drop it.
pub fn parse(packet: &[u8]) -> Result<Packet<'_>, Dropped> {
    parse_with(packet, Checksums::Whole)
}

/// Reads an IP packet, without link header.
///
/// # Errors
/// The reason to drop it.
pub fn parse_with(packet: &[u8], checksums: Checksums) -> Result<Packet<'_>, Dropped> {
    match packet.first().map(|first| first >> 4) {
        Some(4) => parse_v4(packet, checksums),
        Some(6) => parse_v6(packet, checksums),
        _ => Err(Dropped::Malformed),
    }
}

/// The ends that a packet with a segment would have: sender, receiver, and their ports. Nothing is
/// checked; a packet that is short, or has options before its segment, gives none.
pub(crate) fn ends(packet: &[u8]) -> Option<(IpAddr, IpAddr, u16, u16)> {
    let (from, to, ports) = match packet.first()? {
        0x45 => {
            let (head, segment) = packet.split_first_chunk::<20>()?;
            let from = Ipv4Addr::from([head[12], head[13], head[14], head[15]]);
            let to = Ipv4Addr::from([head[16], head[17], head[18], head[19]]);
            (IpAddr::V4(from), IpAddr::V4(to), segment)
        }
        0x60..=0x6f => {
            let (head, segment) = packet.split_first_chunk::<40>()?;
            let address = |bytes| IpAddr::V6(address_v6(bytes));
            (address(&head[8..24]), address(&head[24..40]), segment)
        }
        _ => return None,
    };
    let (ports, _) = ports.split_first_chunk::<4>()?;
    let port = |at| u16::from_be_bytes([ports[at], ports[at + 1]]);
    Some((from, to, port(0), port(2)))
}

fn parse_v4(packet: &[u8], checksums: Checksums) -> Result<Packet<'_>, Dropped> {
    let (head, _) = packet.split_first_chunk::<20>().ok_or(Dropped::Malformed)?;
    let head_bytes = usize::from(head[0] & 15) * 4;
    let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
    if head_bytes < 20 || length < head_bytes || packet.len() < length {
        return Err(Dropped::Malformed);
    }
    if Sum::default().add(&packet[..head_bytes]).finish() != [0; 2] {
        return Err(Dropped::Checksum);
    }
    if head_bytes > 20 {
        return Err(Dropped::IpOptions);
    }
    // "More fragments", or a place behind the first one.
    if u16::from_be_bytes([head[6], head[7]]) & 0x3fff != 0 {
        return Err(Dropped::Fragment);
    }
    let from = Ipv4Addr::from([head[12], head[13], head[14], head[15]]);
    let to = Ipv4Addr::from([head[16], head[17], head[18], head[19]]);
    let (from, to, bytes) = (IpAddr::V4(from), IpAddr::V4(to), &packet[20..length]);
    if !is_single_host(from) {
        return Err(Dropped::Sender);
    }
    match head[9] {
        PROTOCOL_TCP => segment_of(from, to, bytes, checksums),
        PROTOCOL_ICMP => icmp::parse_v4(bytes).map(Packet::Icmp),
        _ => Err(Dropped::Protocol),
    }
}

fn parse_v6(packet: &[u8], checksums: Checksums) -> Result<Packet<'_>, Dropped> {
    let (head, rest) = packet.split_first_chunk::<40>().ok_or(Dropped::Malformed)?;
    let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
    let bytes = rest.get(..length).ok_or(Dropped::Malformed)?;
    let (from, to) = (address_v6(&head[8..24]), address_v6(&head[24..40]));
    let (from, to) = (IpAddr::V6(from), IpAddr::V6(to));
    if !is_single_host(from) {
        return Err(Dropped::Sender);
    }
    match head[6] {
        PROTOCOL_TCP => segment_of(from, to, bytes, checksums),
        PROTOCOL_ICMPV6 => icmp::parse_v6(from, to, bytes).map(Packet::Icmp),
        // Hop-by-hop options, routing, fragments, destination options.
        0 | 43 | 60 => Err(Dropped::IpOptions),
        44 => Err(Dropped::Fragment),
        _ => Err(Dropped::Protocol),
    }
}

/// Whether an address may be one end of a connection (RFC 9293, 3.9.2.3).
pub(crate) fn is_single_host(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(is_broadcast || address.is_multicast() || address.is_unspecified())
}

fn address_v6(bytes: &[u8]) -> Ipv6Addr {
    let mut address = [0; 16];
    address.copy_from_slice(bytes);
    Ipv6Addr::from(address)
}

fn segment_of(
    from: IpAddr,
    to: IpAddr,
    bytes: &[u8],
    checksums: Checksums,
) -> Result<Packet<'_>, Dropped> {
    let pseudo_header = pseudo_header(from, to, PROTOCOL_TCP, bytes.len());
    if pseudo_header.add(bytes).finish() != [0; 2] {
        // The device would have taken the complement.
        let [high, low] = pseudo_header.finish();
        let partial = [!high, !low];
        if checksums == Checksums::Whole || bytes.get(CHECKSUM) != Some(&partial[..]) {
            return Err(Dropped::Checksum);
        }
    }
    let segment = Segment::parse(bytes).ok_or(Dropped::Malformed)?;
    Ok(Packet::Segment { from, to, segment })
}

/// The sum of the pseudo-header (RFC 9293, 3.1; RFC 8200, 8.1).
pub(crate) fn pseudo_header(from: IpAddr, to: IpAddr, protocol: u8, length: usize) -> Sum {
    let sum = Sum::default();
    let sum = match from {
        IpAddr::V4(address) => sum.add(&address.octets()),
        IpAddr::V6(address) => sum.add(&address.octets()),
    };
    let sum = match to {
        IpAddr::V4(address) => sum.add(&address.octets()),
        IpAddr::V6(address) => sum.add(&address.octets()),
    };
    sum.add_word(u16::from(protocol)).add_word(length as u16)
}

#[cfg(test)]
mod tests;
