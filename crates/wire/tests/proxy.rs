//! Headers of the PROXY protocol: the examples of the specification, refusals, and round trips of
//! any header.

mod drive;

use drive::check_cuts;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::net::{IpAddr, SocketAddr};
use wire::Step;
use wire::proxy::{
    Announced, HEADER_BYTES_MAX, LINE_BYTES_MAX, ProxyError, decode, encode_binary, encode_line,
};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn tcp(source: &str, target: &str) -> Announced {
    Announced::Tcp { source: source.parse().unwrap(), target: target.parse().unwrap() }
}

/// Decodes a header followed by other bytes.
fn announced(header: &[u8]) -> Result<Announced, ProxyError> {
    let input = [header, b"GET /"].concat();
    match decode(&input)? {
        Step::Done { value, consumed } => {
            assert_eq!(consumed, header.len());
            Ok(value)
        }
        Step::More { needed } => panic!("{needed} bytes needed of {header:?}"),
    }
}

/// Builds a header of version 2.
fn binary(command: u8, kind: u8, block: &[u8]) -> Vec<u8> {
    let len = (block.len() as u16).to_be_bytes();
    [SIGNATURE, &[command, kind], &len, block].concat()
}

#[test]
fn headers_of_version_1_are_decoded_or_refused() {
    let check = |line: &str, expected| assert_eq!(announced(line.as_bytes()), expected, "{line:?}");
    check(
        "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n",
        Ok(tcp("255.255.255.255:65535", "255.255.255.255:65535")),
    );
    check("PROXY TCP6 2001:db8::1 ::1 0 443\r\n", Ok(tcp("[2001:db8::1]:0", "[::1]:443")));
    check("PROXY UNKNOWN\r\n", Ok(Announced::Unknown));
    check("PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", Ok(Announced::Unknown));
    for line in [
        "PROXY \r\n",
        "PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n",
        "PROXY TCP4 1.2.3.4  1.2.3.4 1 2\r\n",
        "PROXY TCP4 01.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n",
        "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP6 1.2.3.4 ::1 1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n",
        "PROXY UNKNOWN\n",
    ] {
        check(line, Err(ProxyError::BadLine));
    }
    check("PROXY\tTCP4\r\n", Err(ProxyError::NotProxy));
    check("proxy UNKNOWN\r\n", Err(ProxyError::NotProxy));
    let with_len = |len: usize| format!("PROXY UNKNOWN {}\r\n", "x".repeat(len - 16));
    check(&with_len(LINE_BYTES_MAX), Ok(Announced::Unknown));
    check(&with_len(LINE_BYTES_MAX + 1), Err(ProxyError::TooLong));
}

#[test]
fn headers_of_version_2_are_decoded_or_refused() {
    let inet = [192, 0, 2, 1, 192, 0, 2, 2, 0x1f, 0x90, 1, 0xbb];
    let mut inet6 = [0; 36];
    inet6[..2].copy_from_slice(&[0x20, 1]);
    inet6[31..].copy_from_slice(&[1, 0, 1, 0, 2]);
    let check = |header: Vec<u8>, expected| assert_eq!(announced(&header), expected, "{header:x?}");
    check(binary(0x21, 0x11, &inet), Ok(tcp("192.0.2.1:8080", "192.0.2.2:443")));
    check(binary(0x21, 0x21, &inet6), Ok(tcp("[2001::]:1", "[::1]:2")));
    check(binary(0x21, 0x31, &[0; 216]), Ok(Announced::Unix));
    check(binary(0x21, 0, &[]), Ok(Announced::Unknown));
    check(binary(0x20, 0, &[]), Ok(Announced::Local));
    // The address block of LOCAL is discarded.
    check(binary(0x20, 0x11, &[1, 2]), Ok(Announced::Local));
    // Further fields: one of unknown type, and an empty one.
    let fields = [0xea, 0, 2, 7, 7, 4, 0, 0];
    check(
        binary(0x21, 0x11, &[&inet[..], &fields].concat()),
        Ok(tcp("192.0.2.1:8080", "192.0.2.2:443")),
    );
    for (kind, block) in [
        (0x11, &inet[..11]),
        (0x21, &inet6[..35]),
        (0x31, &[0; 215][..]),
        (0x11, &[&inet[..], &fields[..4]].concat()),
        (0x11, &[&inet[..], &fields[..2]].concat()),
        (0x11, &[&inet[..], &[3, 0, 1, 0]].concat()),
    ] {
        check(binary(0x21, kind, block), Err(ProxyError::BadLength));
    }
    for (command, kind) in
        [(0x11, 0x11), (0x22, 0x11), (0x31, 0x11), (0x21, 0x41), (0x21, 0x13), (0x21, 0x12)]
    {
        check(binary(command, kind, &inet), Err(ProxyError::BadKind));
    }
    let longest = [&[0xee, 2, 0xed][..], &[0; 749]].concat();
    check(binary(0x21, 0, &longest), Ok(Announced::Unknown));
    assert_eq!(binary(0x21, 0, &longest).len(), HEADER_BYTES_MAX);
    let longer = [&longest[..], &[0]].concat();
    check(binary(0x20, 0, &longer), Err(ProxyError::TooLong));
    check(binary(0x20, 0, &[0; 65_535]), Err(ProxyError::TooLong));
    let mut broken = SIGNATURE.to_vec();
    broken[11] = b'\r';
    assert_eq!(decode(&broken), Err(ProxyError::NotProxy));
}

#[test]
fn a_checksum_covers_every_byte() {
    let mut header = Vec::new();
    encode_binary(&mut header, &tcp("192.0.2.1:8080", "192.0.2.2:443"), true);
    for place in 16..header.len() {
        let mut damaged = header.clone();
        damaged[place] ^= 1;
        // The type of the field is not covered: after the change, the field is not a checksum.
        if place != header.len() - 7 {
            assert!(announced(&damaged).is_err(), "{place}");
        }
    }
}

fn socket() -> impl Strategy<Value = SocketAddr> {
    (any::<IpAddr>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip, port))
}

fn any_announced() -> impl Strategy<Value = Announced> {
    prop_oneof![
        Just(Announced::Local),
        Just(Announced::Unknown),
        Just(Announced::Unix),
        (socket(), socket()).prop_map(|(source, target)| Announced::Tcp { source, target }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        rng_seed: RngSeed::Fixed(0x9e37),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn headers_survive_encoding(sent in any_announced(), with_checksum: bool, seed: u64) {
        let mut header = Vec::new();
        encode_binary(&mut header, &sent, with_checksum);
        let came = announced(&header).unwrap();
        match (sent, came) {
            (Announced::Tcp { source, target }, Announced::Tcp { source: from, target: to }) => {
                let same = |a: SocketAddr, b: SocketAddr| {
                    a.ip().to_canonical() == b.ip().to_canonical() && a.port() == b.port()
                };
                prop_assert!(same(source, from) && same(target, to));
            }
            _ => prop_assert_eq!(sent, came),
        }
        check_cuts(seed, |cuts| drive::proxy(&header, cuts));
        let mut line = Vec::new();
        encode_line(&mut line, &sent);
        prop_assert!(line.len() <= LINE_BYTES_MAX);
        match (sent, announced(&line).unwrap()) {
            (Announced::Tcp { source, target }, came) if source.is_ipv4() == target.is_ipv4() => {
                prop_assert_eq!(came, sent);
            }
            (_, came) => prop_assert_eq!(came, Announced::Unknown),
        }
        check_cuts(seed, |cuts| drive::proxy(&line, cuts));
    }

    #[test]
    fn noise_never_panics(start in 0..3_usize, mut bytes in proptest::collection::vec(any::<u8>(), 0..900), seed: u64) {
        let starts = [&b""[..], b"PROXY TCP4 ", SIGNATURE];
        bytes.splice(0..0, starts[start].iter().copied());
        check_cuts(seed, |cuts| drive::proxy(&bytes, cuts));
    }
}
