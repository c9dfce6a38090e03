//! Packets that are written, read again, and damaged.

use super::*;
use crate::seq::Seq;

const V4: (&str, &str) = ("192.0.2.1", "198.51.100.7");
const V6: (&str, &str) = ("2001:db8::1", "2001:db8::2");

fn head<'a>((from, to): (&str, &str), options: &'a [u8]) -> Head<'a> {
    Head {
        from: from.parse().unwrap(),
        to: to.parse().unwrap(),
        source_port: 8800,
        target_port: 40_001,
        seq: Seq(0xfffffff0),
        ack: Seq(7),
        flags: ACK | PSH,
        window: 512,
        options,
    }
}

fn written(addresses: (&str, &str), options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut frame = [0xaa; 1500];
    let length = head(addresses, options).write(payload, &mut frame).unwrap();
    frame[..length].to_vec()
}

#[test]
fn a_written_segment_is_read_again() {
    for addresses in [V4, V6] {
        for payload in [&b""[..], b"x", b"odd", b"some bytes"] {
            let options = [1, 1, 4, 2];
            let mut packet = written(addresses, &options, payload);
            packet.extend([0; 6]); // Ethernet pads short frames
            let Ok(Packet::Segment { from, to, segment }) = parse(&packet) else {
                panic!("{packet:?}");
            };
            assert_eq!(
                (from.to_string(), to.to_string()),
                (addresses.0.into(), addresses.1.into())
            );
            assert_eq!((segment.source_port, segment.target_port), (8800, 40_001));
            assert_eq!((segment.seq, segment.ack), (Seq(0xfffffff0), Seq(7)));
            assert_eq!((segment.flags, segment.window), (ACK | PSH, 512));
            assert_eq!((segment.options, segment.payload), (&options[..], payload));
            assert_eq!(segment.end(), Seq(0xfffffff0) + payload.len() as u32);
        }
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    for addresses in [V4, V6] {
        let packet = written(addresses, &[], b"payload");
        for bit in 0..packet.len() * 8 {
            let mut flipped = packet.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // Traffic class, flow label and hop limit of IPv6 are covered by no checksum.
            let is_uncovered = (0..4).contains(&bit) || (8..32).contains(&bit) || bit / 8 == 7;
            let is_free = addresses == V6 && is_uncovered;
            assert!(parse(&flipped).is_err() || is_free, "bit {bit}");
        }
    }
}

#[test]
fn every_shorter_packet_is_dropped() {
    for addresses in [V4, V6] {
        let packet = written(addresses, &[1, 1, 1, 1], b"payload");
        for length in 0..packet.len() {
            assert!(matches!(parse(&packet[..length]), Err(Dropped::Malformed)), "{length}");
        }
        let mut short = [0; 30];
        assert_eq!(head(addresses, &[]).write(b"", &mut short), None);
    }
}

/// Changes a byte of an IPv4 header, and mends the checksum.
fn with_ip(change: impl Fn(&mut [u8])) -> Result<(), Dropped> {
    let mut packet = written(V4, &[], b"payload");
    change(&mut packet);
    packet[10..12].fill(0);
    let head_bytes = usize::from(packet[0] & 15) * 4;
    let sum = Sum::default().add(&packet[..head_bytes]).finish();
    packet[10..12].copy_from_slice(&sum);
    parse(&packet).map(|_| ())
}

#[test]
fn packets_of_others_are_dropped_by_reason() {
    assert_eq!(with_ip(|_| ()), Ok(()));
    assert_eq!(with_ip(|ip| ip[6] |= 0x20), Err(Dropped::Fragment));
    assert_eq!(with_ip(|ip| ip[7] = 1), Err(Dropped::Fragment));
    assert_eq!(with_ip(|ip| ip[9] = 17), Err(Dropped::Protocol));
    assert_eq!(with_ip(|ip| ip[12] = 224), Err(Dropped::Sender));
    assert_eq!(with_ip(|ip| ip[12..16].fill(255)), Err(Dropped::Sender));
    assert_eq!(with_ip(|ip| ip[0] = 0x46), Err(Dropped::IpOptions));
    assert_eq!(with_ip(|ip| ip[0] = 0x44), Err(Dropped::Malformed));
    assert!(matches!(parse(&[0x55; 60]), Err(Dropped::Malformed)));
}

#[test]
fn options_are_read_and_written() {
    let options = Options::of_syn(1460, Some(3), true);
    let mut bytes = [0; 12];
    assert_eq!(options.write_syn(&mut bytes), 12);
    assert_eq!(Options::parse(&bytes), options);
    let blocks = [(Seq(1), Seq(5)), (Seq(u32::MAX), Seq(3))];
    let mut bytes = [0; 36];
    let length = Options::write_sacks(blocks.into_iter(), &mut bytes);
    assert_eq!((length, Options::parse(&bytes[..length]).sacks()), (20, &blocks[..]));
    let many = (0..9).map(|number| (Seq(number), Seq(number + 1)));
    let length = Options::write_sacks(many, &mut bytes);
    assert_eq!((length, Options::parse(&bytes).sacks().len()), (36, 4));
    assert_eq!(Options::write_sacks(std::iter::empty(), &mut bytes), 0);
}

#[test]
fn broken_options_end_the_list() {
    let mss = |bytes: &[u8]| Options::parse(bytes).mss;
    assert_eq!(mss(&[8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 5, 180]), Some(1460));
    for broken in [&[3, 0][..], &[3, 1], &[3, 9, 1], &[3], &[0]] {
        let options = [&[1, 2, 4, 5, 180], broken, &[2, 4, 1, 1]].concat();
        // The broken one may still swallow bytes, but nothing behind it counts twice.
        assert!(mss(&options).is_some(), "{broken:?}");
        assert_eq!(mss(&[broken, &[2, 4]].concat()), None, "{broken:?}");
    }
    assert_eq!(Options::parse(&[3, 3, 200]).scale, Some(14));
    assert_eq!(mss(&[2, 3, 5]), None);
}

fn unreachable(kind: u8, code: u8, mtu: u16) -> Vec<u8> {
    let quoted = &written(V4, &[], b"payload")[..28];
    let mut icmp = vec![kind, code, 0, 0, 0, 0];
    icmp.extend(mtu.to_be_bytes());
    icmp.extend(quoted);
    let sum = Sum::default().add(&icmp).finish();
    icmp[2..4].copy_from_slice(&sum);
    let mut packet = [0; 20].to_vec();
    let router: std::net::Ipv4Addr = "203.0.113.1".parse().unwrap();
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&(20 + icmp.len() as u16).to_be_bytes());
    packet[9] = 1;
    packet[12..16].copy_from_slice(&router.octets());
    packet[16..20].copy_from_slice(&[192, 0, 2, 1]);
    let sum = Sum::default().add(&packet).finish();
    packet[10..12].copy_from_slice(&sum);
    packet.extend(icmp);
    packet
}

#[test]
fn reports_name_the_segment() {
    let report = |kind, code, mtu| match parse(&unreachable(kind, code, mtu)) {
        Ok(Packet::Icmp(report)) => Ok(report),
        Ok(other) => panic!("{other:?}"),
        Err(reason) => Err(reason),
    };
    let too_big = report(3, 4, 1400).unwrap();
    assert_eq!((too_big.trouble, too_big.seq), (Trouble::TooBig(1400), Seq(0xfffffff0)));
    assert_eq!((too_big.source_port, too_big.target_port), (8800, 40_001));
    assert_eq!(too_big.to.to_string(), V4.1);
    assert_eq!(report(3, 3, 0).unwrap().trouble, Trouble::Refused);
    assert_eq!(report(3, 1, 0).unwrap().trouble, Trouble::Unreachable);
    assert_eq!(report(8, 0, 0), Err(Dropped::Protocol));
    let mut broken = unreachable(3, 3, 0);
    *broken.last_mut().unwrap() ^= 1;
    assert!(matches!(parse(&broken), Err(Dropped::Checksum)));
}

/// A kernel that leaves checksums to its device writes the sum of the pseudo-header there.
#[test]
fn partial_checksums_are_right_where_they_are_allowed() {
    for addresses in [V4, V6] {
        let mut packet = written(addresses, &[], b"abc");
        let at = packet.len() - 3 - TCP_BYTES + CHECKSUM.start;
        let Head { from, to, .. } = head(addresses, &[]);
        let [high, low] = pseudo_header(from, to, PROTOCOL_TCP, TCP_BYTES + 3).finish();
        packet[at..at + 2].copy_from_slice(&[!high, !low]);
        assert!(matches!(parse(&packet), Err(Dropped::Checksum)));
        assert!(parse_with(&packet, Checksums::Partial).is_ok());
        packet[at] ^= 1;
        assert!(matches!(parse_with(&packet, Checksums::Partial), Err(Dropped::Checksum)));
    }
}
