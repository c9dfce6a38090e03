//! The partitioners of Kafka's clients: each finds a key's partition by a hash of its own.
//!
//! A log whose producers use another client than Kafka's own names its partitioner. Then the nodes
//! look for a topic in the partition in which these producers put it.

use super::{fnv1a, murmur2};
use crate::handing::Hand;

/// A choice of partitions by key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand)]
pub enum Partitioner {
    /// Kafka's own client for Java, and others after it: murmur2 without its sign bit.
    #[default]
    Murmur2,
    /// librdkafka's default (`consistent_random`), also that of its clients for Python, Go, .NET
    /// and Node: CRC-32.
    Crc32,
    /// Sarama's default: FNV-1a, and the absolute value of the signed remainder.
    Fnv1a,
}

impl Partitioner {
    /// The partition of a key in a log of `count` partitions; 0 if `count` is 0.
    pub fn partition_of(self, key: &[u8], count: u32) -> u32 {
        let hash = match self {
            Partitioner::Murmur2 => murmur2(key) & 0x7fff_ffff,
            Partitioner::Crc32 => crc32(key),
            // The remainder of a negative number is negative, so its absolute value is that of the
            // absolute number.
            Partitioner::Fnv1a => fnv1a(key).cast_signed().unsigned_abs(),
        };
        hash.checked_rem(count).unwrap_or(0)
    }
}

/// CRC-32 as in Ethernet and zip: reflected, polynomial 0x04c11db7.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| (crc >> 8) ^ CRC_TABLE[usize::from(crc as u8 ^ byte)])
}

const CRC_TABLE: [u32; 256] = crc_table();

const fn crc_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut place = 0;
    while place < table.len() {
        let mut crc = place as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[place] = crc;
        place += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: [u32; 5] = [1, 7, 12, 17, 64];

    /// The hashes that librdkafka's test of its partitioners expects (tests/0048-partitioner.c).
    #[test]
    fn partitions_agree_with_librdkafka() {
        let long: &str = "this is another string with more length to it perhaps";
        let cases = [
            ("23456", 0xb1b4_51d7, 0x058d_780f, 0x27e6_f469),
            (long, 0xb015_0df7, 0x4f77_03da, 0x155e_3e5f),
            ("hejsan", 0xd077_037e, 0x5ec1_9395, 0x17b1_e27a),
            ("", 0, 0x106e_08d9, 0x7ee3_623b),
        ];
        for (key, crc32, murmur2, fnv1a) in cases {
            for count in COUNTS {
                let of = |partitioner: Partitioner| partitioner.partition_of(key.as_bytes(), count);
                assert_eq!(of(Partitioner::Crc32), crc32 % count, "{key} of {count}");
                assert_eq!(of(Partitioner::Murmur2), murmur2 % count, "{key} of {count}");
                assert_eq!(of(Partitioner::Fnv1a), fnv1a % count, "{key} of {count}");
            }
        }
    }

    /// The hashes of Go's `hash/fnv` after Sarama's absolute value, as librdkafka's test has them
    /// (src/rdfnv1a.c).
    #[test]
    fn partitions_agree_with_sarama() {
        let cases = [
            ("kafka", 0x0d33_c4e1),
            ("giberish123456789", 0x77a5_8295),
            ("1234", 0x023b_dd03),
            ("234", 0x2dea_3cd2),
            ("34", 0x740f_a83e),
            ("4", 0x310c_a263),
            ("PreAmbleWillBeRemoved,ThePrePartThatIs", 0x65cb_d69c),
            ("reAmbleWillBeRemoved,ThePrePartThatIs", 0x6e49_c79a),
            ("eAmbleWillBeRemoved,ThePrePartThatIs", 0x69ee_d356),
            ("AmbleWillBeRemoved,ThePrePartThatIs", 0x6abc_c023),
        ];
        for (key, hash) in cases {
            for count in COUNTS {
                let partition = Partitioner::Fnv1a.partition_of(key.as_bytes(), count);
                assert_eq!(partition, hash % count, "{key} of {count}");
            }
        }
    }

    /// The check value of CRC-32/ISO-HDLC.
    #[test]
    fn crc32_agrees_with_its_published_check() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_log_without_partitions_has_the_first() {
        for partitioner in [Partitioner::Murmur2, Partitioner::Crc32, Partitioner::Fnv1a] {
            assert_eq!(partitioner.partition_of(b"a", 0), 0);
        }
    }
}
