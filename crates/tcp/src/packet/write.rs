//! A segment as an IP packet, written into the frame that leaves.

use super::{PROTOCOL_TCP, pseudo_header};
use crate::checksum::Sum;
use crate::seq::Seq;
use std::net::{IpAddr, Ipv6Addr};

/// Bytes of an IPv4 header without options.
pub const IPV4_BYTES: usize = 20;
/// Bytes of an IPv6 header.
pub const IPV6_BYTES: usize = 40;
/// Bytes of a TCP header without options.
pub const TCP_BYTES: usize = 20;
/// RFC 1700's default for the time to live.
const HOPS_MAX: u8 = 64;

/// Everything of a segment but its payload.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The sender.
    pub from: IpAddr,
    /// The receiver, of the same version of IP.
    pub to: IpAddr,
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub target_port: u16,
    /// The number of the first byte, or of SYN.
    pub seq: Seq,
    /// The acknowledgement; not meant without the flag.
    pub ack: Seq,
    /// The flags.
    pub flags: u8,
    /// The window to send, shifted already.
    pub window: u16,
    /// Options in whole words, at most 40 bytes.
    pub options: &'a [u8],
}

impl Head<'_> {
    /// Writes the packet to the start of the frame and returns its length. None if the frame is too
    /// short for it.
    pub fn write(&self, payload: &[u8], frame: &mut [u8]) -> Option<usize> {
        let tcp_bytes = TCP_BYTES + self.options.len() + payload.len();
        let ip_bytes = ip_bytes(self.to);
        let frame = frame.get_mut(..ip_bytes + tcp_bytes)?;
        let (ip, tcp) = frame.split_at_mut(ip_bytes);
        write_ip(self.from, self.to, tcp_bytes, ip);
        let (head, rest) = tcp.split_first_chunk_mut::<TCP_BYTES>()?;
        head[0..2].copy_from_slice(&self.source_port.to_be_bytes());
        head[2..4].copy_from_slice(&self.target_port.to_be_bytes());
        head[4..8].copy_from_slice(&self.seq.0.to_be_bytes());
        head[8..12].copy_from_slice(&self.ack.0.to_be_bytes());
        head[12] = (((TCP_BYTES + self.options.len()) / 4) << 4) as u8;
        head[13] = self.flags;
        head[14..16].copy_from_slice(&self.window.to_be_bytes());
        head[16..20].fill(0); // checksum, urgent pointer
        let (options, bytes) = rest.split_at_mut(self.options.len());
        options.copy_from_slice(self.options);
        bytes.copy_from_slice(payload);
        let sum = pseudo_header(self.from, self.to, PROTOCOL_TCP, tcp_bytes).add(tcp).finish();
        tcp[16..18].copy_from_slice(&sum);
        Some(ip_bytes + tcp_bytes)
    }
}

/// Bytes of the IP header of a packet to this address.
pub(crate) fn ip_bytes(to: IpAddr) -> usize {
    if to.is_ipv4() { IPV4_BYTES } else { IPV6_BYTES }
}

fn write_ip(from: IpAddr, to: IpAddr, tcp_bytes: usize, ip: &mut [u8]) {
    if let (IpAddr::V4(from), IpAddr::V4(to)) = (from, to) {
        let length = (IPV4_BYTES + tcp_bytes) as u16;
        ip[0..2].copy_from_slice(&[0x45, 0]);
        ip[2..4].copy_from_slice(&length.to_be_bytes());
        // No identification, as no fragments (RFC 6864): "do not fragment".
        ip[4..8].copy_from_slice(&[0, 0, 0x40, 0]);
        ip[8..12].copy_from_slice(&[HOPS_MAX, PROTOCOL_TCP, 0, 0]);
        ip[12..16].copy_from_slice(&from.octets());
        ip[16..20].copy_from_slice(&to.octets());
        let sum = Sum::default().add(ip).finish();
        ip[10..12].copy_from_slice(&sum);
        return;
    }
    ip[0..4].copy_from_slice(&[0x60, 0, 0, 0]);
    ip[4..6].copy_from_slice(&(tcp_bytes as u16).to_be_bytes());
    ip[6..8].copy_from_slice(&[PROTOCOL_TCP, HOPS_MAX]);
    ip[8..24].copy_from_slice(&octets_v6(from));
    ip[24..40].copy_from_slice(&octets_v6(to));
}

fn octets_v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => Ipv6Addr::octets(&address),
    }
}

/// The greatest payload without options in a packet of `mtu` bytes to this address.
pub fn payload_max(mtu: u16, to: IpAddr) -> u16 {
    mtu.saturating_sub((ip_bytes(to) + TCP_BYTES) as u16)
}
