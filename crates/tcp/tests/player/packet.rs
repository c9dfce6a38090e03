//! Packets as text: `PA 1+100 ack 1 win 512 <sack 3-5>`.
//!
//! Numbers are relative to the first ones of their streams.

use super::line::{number_after, word_after};
use crate::peer::Sent;
use tcp::packet::{ACK, FIN, PSH, RST, SYN};

/// The flag of urgent bytes, which the stack ignores.
pub const URG: u8 = 32;

/// Names of flags, in the order of a script.
pub const FLAGS: [(char, u8); 6] =
    [('S', SYN), ('F', FIN), ('R', RST), ('P', PSH), ('A', ACK), ('U', URG)];

/// The first numbers of a flow: the peer's, and ours as far as it is known.
#[derive(Clone, Copy, Debug)]
pub struct Firsts {
    pub peer: u32,
    pub ours: u32,
}

/// The byte of a stream at a place; `side` is 0 for the peer's.
pub fn byte(side: u8, at: u32) -> u8 {
    (at.wrapping_mul(31).wrapping_add(at / 251)) as u8 ^ (side * 0x5a)
}

/// The bytes of a stream from a place.
pub fn bytes(side: u8, from: u32, count: usize) -> Vec<u8> {
    (0..count as u32).map(|at| byte(side, from.wrapping_add(at))).collect()
}

/// The segment that a text stands for, from the peer.
pub fn segment(text: &str, firsts: Firsts) -> Sent {
    let mut words = text.split(' ');
    let names = words.next().unwrap_or_default();
    let numbers = words.next().unwrap_or_default();
    let (seq, length) = numbers.split_once('+').unwrap_or((numbers, "0"));
    let number = |text: &str| -> i64 {
        text.parse().unwrap_or_else(|_| panic!("not a number: {text} in `{names} {numbers}`"))
    };
    let (seq, length) = (number(seq) as u32, number(length) as usize);
    let flag = |name: char| FLAGS.iter().find(|(known, _)| *known == name);
    let flags = names
        .chars()
        .filter(|name| *name != '.')
        .map(|name| flag(name).unwrap_or_else(|| panic!("no flag {name}")).1)
        .fold(0, |flags, flag| flags | flag);
    let ack = word_after(text, "ack").map(|ack| firsts.ours.wrapping_add(number(ack) as u32));
    Sent {
        seq: firsts.peer.wrapping_add(seq),
        ack: ack.unwrap_or(0),
        flags,
        window: number_after(text, "win").unwrap_or(65_535) as u16,
        options: options(text, firsts),
        payload: bytes(0, seq + u32::from(names.contains('S')), length),
    }
}

/// The bytes of the options in `<...>`.
fn options(text: &str, firsts: Firsts) -> Vec<u8> {
    let Some((_, list)) = text.split_once('<') else { return Vec::new() };
    let list = list.split('>').next().unwrap_or_default();
    let mut bytes = Vec::new();
    let mut sacks = Vec::new();
    for option in list.split(", ") {
        let (name, value) = option.split_once(' ').unwrap_or((option, ""));
        match name {
            "mss" => {
                bytes.extend([2, 4]);
                bytes.extend(value.parse::<u16>().unwrap().to_be_bytes());
            }
            "wscale" => bytes.extend([3, 3, value.parse().unwrap()]),
            "sackOK" => bytes.extend([4, 2]),
            "nop" => bytes.push(1),
            "end" => bytes.push(0),
            // Bytes in hexadecimal.
            "raw" => {
                bytes.extend(value.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()))
            }
            "sack" => {
                let (from, to) = value.split_once('-').unwrap();
                for number in [from, to] {
                    let number = firsts.ours.wrapping_add(number.parse().unwrap());
                    sacks.extend(number.to_be_bytes());
                }
            }
            _ => panic!("no option {name}"),
        }
    }
    if !sacks.is_empty() {
        bytes.extend([5, 2 + sacks.len() as u8]);
        bytes.extend(sacks);
    }
    while !bytes.len().is_multiple_of(4) {
        bytes.push(1);
    }
    bytes
}

/// The text of a segment of the stack.
pub fn text(sent: &Sent, firsts: Firsts) -> String {
    let names: String =
        FLAGS.iter().filter(|(_, flag)| sent.flags & *flag != 0).map(|(name, _)| *name).collect();
    let seq = sent.seq.wrapping_sub(firsts.ours);
    let mut text = format!("> {names} {}", seq as i32);
    if !sent.payload.is_empty() {
        text.push_str(&format!("+{}", sent.payload.len()));
    }
    if sent.flags & ACK != 0 {
        text.push_str(&format!(" ack {}", sent.ack.wrapping_sub(firsts.peer) as i32));
    } else {
        assert_eq!(sent.ack, 0, "a number that is not meant");
    }
    text.push_str(&format!(" win {}", sent.window));
    if !sent.options.is_empty() {
        text.push_str(&format!(" <{}>", options_text(&sent.options, firsts)));
    }
    if sent.payload != bytes(1, seq, sent.payload.len()) {
        text.push_str(" OTHER BYTES");
    }
    text
}

fn options_text(mut bytes: &[u8], firsts: Firsts) -> String {
    let mut texts = Vec::new();
    while let Some((kind, rest)) = bytes.split_first() {
        if *kind == 1 {
            bytes = rest;
            continue;
        }
        let length = usize::from(rest[0]);
        let value = &bytes[2..length];
        match (*kind, length) {
            (2, 4) => texts.push(format!("mss {}", u16::from_be_bytes([value[0], value[1]]))),
            (3, 3) => texts.push(format!("wscale {}", value[0])),
            (4, 2) => texts.push("sackOK".to_string()),
            (5, _) => {
                for number in value.chunks(8) {
                    let number = u64::from_be_bytes(number.try_into().unwrap());
                    let relative = |number: u32| number.wrapping_sub(firsts.peer);
                    let (from, to) = (relative((number >> 32) as u32), relative(number as u32));
                    texts.push(format!("sack {from}-{to}"));
                }
            }
            _ => texts.push(format!("option {kind} of {length} bytes")),
        }
        bytes = &bytes[length..];
    }
    texts.join(", ")
}
