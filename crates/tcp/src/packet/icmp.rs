//! Reports of routers and hosts about segments that were sent from here (RFC 792, RFC 4443).
//!
//! Such a report quotes the head of the segment. The quoted sequence number lets the receiver of
//! the report believe only those about bytes in flight (RFC 5927).

use super::{Dropped, PROTOCOL_ICMPV6, PROTOCOL_TCP, address_v6, pseudo_header};
use crate::checksum::Sum;
use crate::seq::Seq;
use std::net::{IpAddr, Ipv4Addr};

/// A report about a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Icmp {
    /// The sender of the quoted segment: we.
    pub from: IpAddr,
    /// Our port.
    pub source_port: u16,
    /// The receiver of the quoted segment.
    pub to: IpAddr,
    /// The receiver's port.
    pub target_port: u16,
    /// The sequence number of the quoted segment.
    pub seq: Seq,
    /// The report.
    pub trouble: Trouble,
}

/// The content of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// The packet was longer than a link on its way allows: the link's maximum, in bytes.
    TooBig(u32),
    /// The host has no such protocol or port.
    Refused,
    /// The network or the host cannot be reached at present.
    Unreachable,
}

pub(super) fn parse_v4(bytes: &[u8]) -> Result<Icmp, Dropped> {
    let (head, quoted) = bytes.split_first_chunk::<8>().ok_or(Dropped::Malformed)?;
    if Sum::default().add(bytes).finish() != [0; 2] {
        return Err(Dropped::Checksum);
    }
    let trouble = match (head[0], head[1]) {
        (3, 4) => Trouble::TooBig(u32::from(u16::from_be_bytes([head[6], head[7]]))),
        (3, 2 | 3) => Trouble::Refused,
        (3, 0..=15) => Trouble::Unreachable,
        _ => return Err(Dropped::Protocol),
    };
    let (ip, _) = quoted.split_first_chunk::<20>().ok_or(Dropped::Malformed)?;
    if ip[0] >> 4 != 4 || ip[9] != PROTOCOL_TCP {
        return Err(Dropped::Protocol);
    }
    let head_bytes = usize::from(ip[0] & 15) * 4;
    let from = Ipv4Addr::from([ip[12], ip[13], ip[14], ip[15]]);
    let to = Ipv4Addr::from([ip[16], ip[17], ip[18], ip[19]]);
    quoting(from.into(), to.into(), quoted.get(head_bytes..).unwrap_or_default(), trouble)
}

pub(super) fn parse_v6(from: IpAddr, to: IpAddr, bytes: &[u8]) -> Result<Icmp, Dropped> {
    let (head, quoted) = bytes.split_first_chunk::<8>().ok_or(Dropped::Malformed)?;
    if pseudo_header(from, to, PROTOCOL_ICMPV6, bytes.len()).add(bytes).finish() != [0; 2] {
        return Err(Dropped::Checksum);
    }
    let trouble = match (head[0], head[1]) {
        (1, 4) => Trouble::Refused,
        (1, _) => Trouble::Unreachable,
        (2, _) => Trouble::TooBig(u32::from_be_bytes([head[4], head[5], head[6], head[7]])),
        _ => return Err(Dropped::Protocol),
    };
    let (ip, segment) = quoted.split_first_chunk::<40>().ok_or(Dropped::Malformed)?;
    if ip[0] >> 4 != 6 || ip[6] != PROTOCOL_TCP {
        return Err(Dropped::Protocol);
    }
    let (from, to) = (address_v6(&ip[8..24]), address_v6(&ip[24..40]));
    quoting(from.into(), to.into(), segment, trouble)
}

fn quoting(from: IpAddr, to: IpAddr, segment: &[u8], trouble: Trouble) -> Result<Icmp, Dropped> {
    let (head, _) = segment.split_first_chunk::<8>().ok_or(Dropped::Malformed)?;
    Ok(Icmp {
        from,
        source_port: u16::from_be_bytes([head[0], head[1]]),
        to,
        target_port: u16::from_be_bytes([head[2], head[3]]),
        seq: Seq(u32::from_be_bytes([head[4], head[5], head[6], head[7]])),
        trouble,
    })
}
