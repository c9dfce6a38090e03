//! Answers that a host owes its neighbours on an Ethernet: ARP (RFC 826), neighbour solicitations
//! of IPv6 (RFC 4861, 7.2.4), and echo requests (RFC 792; RFC 4443, 4.2).
//!
//! Place: for networks without a kernel that would answer. Malformed frames and those that ask for
//! others have no answer, and nothing is remembered.

use crate::checksum::Sum;
use crate::packet::pseudo_header;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address of a station on an Ethernet.
pub type Station = [u8; 6];

const LINK_BYTES: usize = 14;
const ARP: [u8; 2] = [0x08, 0x06];
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Hardware Ethernet, protocol IPv4, lengths 6 and 4.
const ARP_HEAD: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_BYTES: usize = 28;
const ARP_REQUEST: u8 = 1;
const ARP_REPLY: u8 = 2;

const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// The flags "solicited" and "override".
const ADVERTISEMENT_FLAGS: u8 = 0x60;
/// The hop limit proves that a solicitation comes from the same link.
const HOPS_ON_LINK: u8 = 255;
const HOPS: u8 = 64;
/// The option with the station of the target, of 8 bytes.
const TARGET_STATION: [u8; 2] = [2, 1];
/// Head, target, option.
const ADVERTISEMENT_BYTES: usize = 8 + 16 + 8;

/// Writes the answer to a frame, if it asks for one of our addresses at this station. Returns its
/// length in bytes; `None` without an answer, or if `out` has no room for it.
pub fn answer(frame: &[u8], ours: Station, addresses: &[IpAddr], out: &mut [u8]) -> Option<usize> {
    let (head, rest) = frame.split_first_chunk::<LINK_BYTES>()?;
    let kind = [head[12], head[13]];
    let asker = station(&head[6..12]);
    // An answer to a group would be heard by all its members.
    if asker[0] & 1 != 0 {
        return None;
    }
    let answer = match kind {
        ARP => arp(rest, ours, addresses)?,
        IPV4 if head[..6] == ours => echo_v4(rest, addresses)?,
        IPV6 => message_v6(rest, ours, addresses, head[..6] == ours)?,
        _ => return None,
    };
    let whole = [&asker[..], &ours, &kind, &answer].concat();
    out.get_mut(..whole.len())?.copy_from_slice(&whole);
    Some(whole.len())
}

fn station(bytes: &[u8]) -> Station {
    let mut station = [0; 6];
    station.copy_from_slice(bytes);
    station
}

fn arp(packet: &[u8], ours: Station, addresses: &[IpAddr]) -> Option<Vec<u8>> {
    let packet = packet.get(..ARP_BYTES)?;
    let target = Ipv4Addr::new(packet[24], packet[25], packet[26], packet[27]);
    let is_request = packet[..6] == ARP_HEAD && packet[6..8] == [0, ARP_REQUEST];
    if !is_request || !addresses.contains(&IpAddr::V4(target)) {
        return None;
    }
    let asker = &packet[8..18];
    Some([&ARP_HEAD[..], &[0, ARP_REPLY], &ours, &target.octets(), asker].concat())
}

fn echo_v4(packet: &[u8], addresses: &[IpAddr]) -> Option<Vec<u8>> {
    let (head, _) = packet.split_first_chunk::<IPV4_BYTES>()?;
    let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let message = packet.get(IPV4_BYTES..length)?;
    let target = Ipv4Addr::new(head[16], head[17], head[18], head[19]);
    let is_whole = head[0] == 0x45 && u16::from_be_bytes([head[6], head[7]]) & 0x3fff == 0;
    let is_echo = head[9] == ICMP && message.starts_with(&[ECHO_REQUEST, 0]) && message.len() >= 8;
    let is_ours = addresses.contains(&IpAddr::V4(target));
    let is_right = Sum::default().add(head).finish() == [0; 2]
        && Sum::default().add(message).finish() == [0; 2];
    if !(is_whole && is_echo && is_ours && is_right) {
        return None;
    }
    let mut answer = packet[..length].to_vec();
    answer[6..12].copy_from_slice(&[0, 0, HOPS, ICMP, 0, 0]);
    answer[12..16].copy_from_slice(&head[16..20]);
    answer[16..20].copy_from_slice(&head[12..16]);
    let sum = Sum::default().add(&answer[..IPV4_BYTES]).finish();
    answer[10..12].copy_from_slice(&sum);
    answer[IPV4_BYTES..IPV4_BYTES + 4].copy_from_slice(&[ECHO_REPLY, 0, 0, 0]);
    let sum = Sum::default().add(&answer[IPV4_BYTES..]).finish();
    answer[IPV4_BYTES + 2..IPV4_BYTES + 4].copy_from_slice(&sum);
    Some(answer)
}

/// An answer to a message of ICMP for IPv6; `is_ours` if the frame was sent to our station.
fn message_v6(
    packet: &[u8],
    ours: Station,
    addresses: &[IpAddr],
    is_ours: bool,
) -> Option<Vec<u8>> {
    let (head, rest) = packet.split_first_chunk::<IPV6_BYTES>()?;
    let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
    let message = rest.get(..length)?;
    let [from, to] = [&head[8..24], &head[24..40]].map(address_v6);
    let is_right = head[6] == ICMPV6
        && pseudo_header(from.into(), to.into(), ICMPV6, length).add(message).finish() == [0; 2];
    if head[0] >> 4 != 6 || !is_right {
        return None;
    }
    match *message.first()? {
        SOLICITATION if head[7] == HOPS_ON_LINK => {
            let target = address_v6(message.get(8..24)?);
            // A sender without an address asks whether the address is free (RFC 4862): the answer
            // goes to all hosts.
            let (asker, flags) = if from.is_unspecified() {
                (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), ADVERTISEMENT_FLAGS & 0x3f)
            } else {
                (from, ADVERTISEMENT_FLAGS)
            };
            if !addresses.contains(&target.into()) || asker.is_multicast() && !from.is_unspecified()
            {
                return None;
            }
            let mut answer = vec![ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0];
            answer.extend(target.octets());
            answer.extend([&TARGET_STATION[..], &ours].concat());
            debug_assert_eq!(answer.len(), ADVERTISEMENT_BYTES);
            Some(packet_v6(target, asker, HOPS_ON_LINK, answer))
        }
        ECHO_REQUEST_V6 if is_ours && message.len() >= 8 && addresses.contains(&to.into()) => {
            let mut answer = message.to_vec();
            answer[..4].copy_from_slice(&[ECHO_REPLY_V6, 0, 0, 0]);
            (!from.is_multicast()).then(|| packet_v6(to, from, HOPS, answer))
        }
        _ => None,
    }
}

/// A packet with a message whose checksum is zero yet.
fn packet_v6(from: Ipv6Addr, to: Ipv6Addr, hops: u8, mut message: Vec<u8>) -> Vec<u8> {
    let length = message.len();
    let sum = pseudo_header(from.into(), to.into(), ICMPV6, length).add(&message).finish();
    message[2..4].copy_from_slice(&sum);
    let [high, low] = (length as u16).to_be_bytes();
    let head = [0x60, 0, 0, 0, high, low, ICMPV6, hops];
    [&head[..], &from.octets(), &to.octets(), &message].concat()
}

fn address_v6(bytes: &[u8]) -> Ipv6Addr {
    let mut address = [0; 16];
    address.copy_from_slice(bytes);
    Ipv6Addr::from(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Station = [2, 0, 0, 0, 0, 1];
    const ASKER: Station = [2, 0, 0, 0, 0, 9];

    fn addresses() -> Vec<IpAddr> {
        ["192.0.2.1", "2001:db8::1"].map(|text| text.parse().unwrap()).to_vec()
    }

    fn ask(to: Station, kind: [u8; 2], packet: &[u8]) -> Option<Vec<u8>> {
        let frame = [&to[..], &ASKER, &kind, packet].concat();
        let mut out = [0; 1514];
        let length = answer(&frame, OURS, &addresses(), &mut out)?;
        assert_eq!(out[..14], [&ASKER[..], &OURS, &kind].concat());
        Some(out[14..length].to_vec())
    }

    fn arp_request(target: [u8; 4]) -> Vec<u8> {
        let asker = [&ASKER[..], &[192, 0, 2, 9]].concat();
        [&ARP_HEAD[..], &[0, ARP_REQUEST], &asker, &[0; 6], &target].concat()
    }

    #[test]
    fn arp_is_answered_for_our_address_only() {
        let reply = ask([0xff; 6], ARP, &arp_request([192, 0, 2, 1])).unwrap();
        let mut expected = [&ARP_HEAD[..], &[0, ARP_REPLY], &OURS, &[192, 0, 2, 1]].concat();
        expected.extend([&ASKER[..], &[192, 0, 2, 9]].concat());
        assert_eq!(reply, expected);
        assert_eq!(ask([0xff; 6], ARP, &arp_request([192, 0, 2, 2])), None);
        assert_eq!(ask([0xff; 6], ARP, &arp_request([192, 0, 2, 1])[..27]), None);
        assert_eq!(ask([0xff; 6], ARP, &reply), None);
    }

    /// The example of a ping: 20 bytes of IPv4, 8 of ICMP, 4 of data.
    fn ping() -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 32, 0, 7, 0x40, 0, 64, ICMP, 0, 0, 192, 0, 2, 9];
        packet.extend([192, 0, 2, 1, ECHO_REQUEST, 0, 0, 0, 0, 1, 0, 2, b'p', b'i', b'n', b'g']);
        let sum = Sum::default().add(&packet[..20]).finish();
        packet[10..12].copy_from_slice(&sum);
        let sum = Sum::default().add(&packet[20..]).finish();
        packet[22..24].copy_from_slice(&sum);
        packet
    }

    #[test]
    fn a_ping_is_answered() {
        let answer = ask(OURS, IPV4, &ping()).unwrap();
        assert_eq!(Sum::default().add(&answer[..20]).finish(), [0; 2]);
        assert_eq!(Sum::default().add(&answer[20..]).finish(), [0; 2]);
        assert_eq!(answer[12..22], [192, 0, 2, 1, 192, 0, 2, 9, ECHO_REPLY, 0]);
        assert_eq!(answer[24..], ping()[24..]);
        assert_eq!(ask([2; 6], IPV4, &ping()), None);
        for bit in 0..ping().len() * 8 {
            let mut damaged = ping();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ask(OURS, IPV4, &damaged), None, "bit {bit}");
        }
    }

    fn solicitation(from: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
        let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);
        let head = [SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
        packet_v6(from, group, HOPS_ON_LINK, [&head[..], &target.octets()].concat())
    }

    #[test]
    fn solicitations_are_answered() {
        let [ours, asker, other]: [Ipv6Addr; 3] =
            ["2001:db8::1", "2001:db8::9", "2001:db8::7"].map(|text| text.parse().unwrap());
        let group = [0x33, 0x33, 0xff, 0, 0, 1];
        let answer = ask(group, IPV6, &solicitation(asker, ours)).unwrap();
        assert_eq!(answer.len(), IPV6_BYTES + ADVERTISEMENT_BYTES);
        assert_eq!(answer[8..40], [ours.octets(), asker.octets()].concat());
        assert_eq!((answer[40], answer[44]), (ADVERTISEMENT, ADVERTISEMENT_FLAGS));
        assert_eq!(answer[72 - 6..], OURS);
        let sum = pseudo_header(ours.into(), asker.into(), ICMPV6, ADVERTISEMENT_BYTES);
        assert_eq!(sum.add(&answer[40..]).finish(), [0; 2]);
        assert_eq!(ask(group, IPV6, &solicitation(asker, other)), None);
        let free = ask(group, IPV6, &solicitation(Ipv6Addr::UNSPECIFIED, ours)).unwrap();
        assert_eq!((free[24], free[44]), (0xff, ADVERTISEMENT_FLAGS & 0x3f));
        let mut far = solicitation(asker, ours);
        far[7] = 64;
        assert_eq!(ask(group, IPV6, &far), None);
    }

    #[test]
    fn a_ping_over_ipv6_is_answered() {
        let [ours, asker]: [Ipv6Addr; 2] =
            ["2001:db8::1", "2001:db8::9"].map(|text| text.parse().unwrap());
        let ping = packet_v6(asker, ours, 64, vec![ECHO_REQUEST_V6, 0, 0, 0, 0, 1, 0, 2, 5]);
        let answer = ask(OURS, IPV6, &ping).unwrap();
        assert_eq!((answer[40], &answer[44..]), (ECHO_REPLY_V6, &ping[44..]));
        assert_eq!(ask([2; 6], IPV6, &ping), None);
    }

    #[test]
    fn groups_are_not_answered() {
        let frame = [&[0xff; 6][..], &[1; 6], &ARP, &arp_request([192, 0, 2, 1])].concat();
        assert_eq!(answer(&frame, OURS, &addresses(), &mut [0; 100]), None);
        let frame = [&[0xff; 6][..], &ASKER, &ARP, &arp_request([192, 0, 2, 1])].concat();
        assert_eq!(answer(&frame, OURS, &addresses(), &mut [0; 41]), None);
    }
}
