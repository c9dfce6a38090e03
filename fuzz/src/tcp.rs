//! The stack of TCP: packets, options, a stack with any peer and application, and the life of a
//! connection between two stacks. The tests of `tcp` run the same targets with random input.

use std::net::IpAddr;
use stdx::prng::Prng;
use tcp::Seq;
use tcp::packet::{ACK, FIN, Head, PSH, RST, SYN};

use crate::tcp_targets;

/// The target `tcp_packet`: the stack drops an IP packet, or reads a segment. A written segment is
/// read again without a change.
pub fn tcp_packet(data: &[u8]) {
    tcp_targets::packet(data);
}

/// The target `tcp_options`: the bytes of a segment's options.
pub fn tcp_options(data: &[u8]) {
    tcp_targets::options(data);
}

/// The target `tcp_stack`: actions of a peer and of the application above a stack.
pub fn tcp_stack(data: &[u8]) {
    tcp_targets::stack(data);
}

/// The target `tcp_life`: the fate of the packets of a connection between two stacks.
pub fn tcp_life(data: &[u8]) {
    tcp_targets::life(data);
}

/// Options of a SYN: segment size, scale, selective acknowledgements.
const OPENING: &[u8] = &[2, 4, 5, 180, 1, 3, 3, 7, 1, 1, 4, 2];
/// Two selective acknowledgements.
const BLOCKS: &[u8] = &[1, 1, 5, 18, 0, 0, 0, 9, 0, 0, 0, 12, 0, 0, 0, 20, 0, 0, 0, 30];

/// Seeds of `tcp_packet`: segments over both versions of IP, and broken ones.
pub fn packets() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for (from, to) in [("192.0.2.2", "192.0.2.1"), ("2001:db8::2", "2001:db8::1")] {
        let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
        for (flags, options, payload) in [
            (SYN, OPENING, &b""[..]),
            (SYN | ACK, OPENING, b""),
            (ACK, BLOCKS, b""),
            (ACK | PSH, b"", b"payload"),
            (ACK | FIN, b"", b"odd"),
            (RST, b"", b""),
        ] {
            let head = Head {
                from,
                to,
                source_port: 5_000,
                target_port: 80,
                seq: Seq(u32::MAX),
                ack: Seq(77),
                flags,
                window: 512,
                options,
            };
            let mut frame = vec![0; 200];
            let length = head.write(payload, &mut frame).unwrap();
            frame.truncate(length);
            packets.push(frame);
        }
    }
    let mut damaged = packets[3].clone();
    damaged[41] ^= 1;
    packets.push(damaged);
    packets.push(packets[9][..50].to_vec());
    packets
}

/// Seeds of `tcp_options`.
pub fn options() -> Vec<Vec<u8>> {
    let lists: [&[u8]; 10] = [
        b"",
        OPENING,
        BLOCKS,
        &[2, 4, 0, 0],
        &[3, 3, 255, 0, 2, 4, 5, 180],
        &[1, 1, 1, 1],
        &[253, 4, 170, 187, 4, 2, 1, 1],
        &[2, 1, 5, 180],
        &[5, 34, 1, 2, 3],
        &[8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1],
    ];
    lists.iter().map(|list| list.to_vec()).collect()
}

/// A segment of the peer, as `tcp_stack` reads it.
fn segment(choice: u8, flags: u8, length: u8, options: &[u8], window: u16) -> Vec<u8> {
    let mut bytes = vec![1, choice, flags, 128, 0, 128, 0, length];
    if choice & 0x20 != 0 {
        bytes.push(options.len() as u8 / 4);
        bytes.extend_from_slice(options);
    }
    bytes.extend(window.to_be_bytes());
    bytes
}

/// Seeds of `tcp_stack`: conversations, each from the opening on.
pub fn stacks() -> Vec<Vec<u8>> {
    let opening = [segment(0x20, 0, 0, OPENING, 65_535), segment(0, 4, 0, b"", 512)].concat();
    let data = segment(0x10, 4, 9, b"", 512);
    let (write, read, pause) = (vec![6, 0, 200, 0], vec![7, 0, 4, 0], vec![5, 4, 0]);
    let (end, closed) = (segment(0, 10, 0, b"", 512), segment(0, 4, 0, b"", 0));
    let sacked = segment(0x20, 4, 0, BLOCKS, 512);
    let (shutdown, close, reset) = (vec![8, 0], vec![8, 2], vec![8, 3]);
    let lives: [&[&Vec<u8>]; 10] = [
        &[&opening, &data, &read, &write, &closed, &end, &close],
        &[&opening, &write, &pause, &pause, &sacked, &pause],
        &[&opening, &closed, &write, &pause, &pause, &closed],
        &[&opening, &data, &data, &end, &shutdown, &pause, &closed],
        &[&opening, &shutdown, &data, &end, &read, &close],
        &[&opening, &close, &end, &segment(0x20, 0, 0, OPENING, 9), &pause],
        &[&opening, &reset, &data],
        &[&opening, &segment(0, 12, 0, b"", 0), &write],
        &[&vec![9, 0], &segment(0x20, 11, 0, OPENING, 512), &write, &end],
        &[&vec![10, 0], &opening, &data, &vec![10, 9], &pause],
    ];
    let whole = |(at, life): (usize, &&[&Vec<u8>])| {
        let first = vec![(at % 3 > 0) as u8];
        [vec![&first], life.to_vec()].concat().into_iter().flatten().copied().collect()
    };
    lives.iter().enumerate().map(whole).collect()
}

/// Seeds of `tcp_life`.
pub fn lives() -> Vec<Vec<u8>> {
    (0..10)
        .map(|seed| {
            let mut prng = Prng::new(seed);
            (0..100 + 30 * seed).map(|_| prng.next_u64() as u8).collect()
        })
        .collect()
}
