//! Hashes of names: a keyed one for tables, and those of Kafka's clients for the topic's partition.
//!
//! [`keyed`] is SipHash-1-3: clients choose topic names, so a table's hash must not be predictable,
//! or a few thousand chosen names would fall into one slot. Faster folded-multiply hashes have
//! published collisions that hold for every seed; SipHash with a secret random key has none, and
//! costs a 16-byte name about ten nanoseconds, once per publish or subscribe and never per
//! delivery.
//!
//! [`murmur2`] is Kafka's default partitioner bit for bit, so that any Kafka producer that
//! publishes with the topic's name as key reaches the partition where the nodes look for it. It is
//! not keyed: an attacker can flood one partition without collisions anyway.

mod partitioner;

pub use partitioner::Partitioner;

use crate::handing::{Hand, Input, Layout};

/// The random 128-bit key of a table's hash. The caller supplies the entropy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64, pub u64);

impl Hand for Seed {
    fn give(&self, out: &mut Vec<u8>) {
        (self.0, self.1).give(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        <(u64, u64)>::take(input).map(|(first, second)| Seed(first, second))
    }

    fn layout(layout: &mut Layout) {
        layout.name("Seed");
    }
}

/// The hash of `bytes` under `seed`: SipHash-1-3 with 64 bits of output.
pub fn keyed(seed: Seed, bytes: &[u8]) -> u64 {
    sip::<1, 3>(seed, bytes)
}

/// Kafka's murmur2 with its seed 0x9747b28c, as the unsigned reading of Java's `int`.
pub fn murmur2(bytes: &[u8]) -> u32 {
    const MULTIPLIER: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ bytes.len() as u32;
    let (words, tail) = bytes.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        word ^= word >> 24;
        hash = hash.wrapping_mul(MULTIPLIER) ^ word.wrapping_mul(MULTIPLIER);
    }
    if !tail.is_empty() {
        for (place, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

/// FNV-1a with 32 bits.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// The partition of a topic in a log of `count` partitions: (murmur2 & 0x7fffffff) mod count; 0 if
/// `count` is 0.
pub fn partition_of(topic: &[u8], count: u32) -> u32 {
    (murmur2(topic) & 0x7fff_ffff).checked_rem(count).unwrap_or(0)
}

/// SipHash-C-D.
fn sip<const C: usize, const D: usize>(seed: Seed, bytes: &[u8]) -> u64 {
    let mut state = [
        seed.0 ^ 0x736f_6d65_7073_6575,
        seed.1 ^ 0x646f_7261_6e64_6f6d,
        seed.0 ^ 0x6c79_6765_6e65_7261,
        seed.1 ^ 0x7465_6462_7974_6573,
    ];
    let mut take = |word: u64| {
        state[3] ^= word;
        (0..C).for_each(|_| sip_round(&mut state));
        state[0] ^= word;
    };
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        take(u64::from_le_bytes(*word));
    }
    let last = tail.iter().rev().fold(0, |last, byte| last << 8 | u64::from(*byte));
    // The length modulo 256 is part of the algorithm.
    take(last | (bytes.len() as u64) << 56);
    state[2] ^= 0xff;
    (0..D).for_each(|_| sip_round(&mut state));
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

fn sip_round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hasher;

    /// The vectors of Kafka's own tests.
    #[test]
    fn murmur2_agrees_with_kafka() {
        let cases: [(&[u8], i32); 6] = [
            (b"21", -973932308),
            (b"foobar", -790332482),
            (b"a-little-bit-long-string", -985981536),
            (b"a-little-bit-longer-string", -1486304829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
            (b"abc", 479470107),
        ];
        for (bytes, expected) in cases {
            assert_eq!(murmur2(bytes) as i32, expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn partitions_agree_with_kafka() {
        // abc: 479470107 mod 64; 21: -973932308 & 0x7fffffff = 1173551340.
        let cases = [("abc", 64, 27), ("21", 64, 44), ("21", 1, 0), ("21", 0, 0)];
        for (topic, count, expected) in cases {
            assert_eq!(partition_of(topic.as_bytes(), count), expected, "{topic} of {count}");
        }
        let mut counts = [0u32; 64];
        for number in 0..64_000 {
            counts[partition_of(format!("prices/{number}").as_bytes(), 64) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }

    /// SipHash-2-4's published vector: key 00..0f, input 00..0e.
    #[test]
    fn siphash_agrees_with_its_published_vector() {
        let seed = Seed(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        let input: Vec<u8> = (0..15).collect();
        assert_eq!(sip::<2, 4>(seed, &input), 0xa129_ca61_49be_45e5);
    }

    /// The standard library's default hasher is SipHash-1-3 with key 0.
    #[test]
    #[allow(clippy::disallowed_types)]
    fn siphash_1_3_agrees_with_the_standard_library() {
        for len in 0..70u8 {
            let input: Vec<u8> = (0..len).map(|byte| byte.wrapping_mul(37)).collect();
            let mut theirs = std::collections::hash_map::DefaultHasher::new();
            theirs.write(&input);
            assert_eq!(keyed(Seed(0, 0), &input), theirs.finish(), "{len} bytes");
            assert_ne!(keyed(Seed(0, 1), &input), theirs.finish());
        }
    }
}
