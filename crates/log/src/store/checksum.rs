//! CRC-32C, the checksum of all files of a log; it uses the processor's instructions if there are
//! any.

use crc_fast::{CrcAlgorithm, Digest};

/// The checksum of some bytes.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The checksum of consecutive parts.
pub(super) fn crc32c_of(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    digest.finalize() as u32 // the algorithm has 32 bits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of the algorithm's catalogue and of RFC 3720, B.4.
    #[test]
    fn checksums_agree_with_known_values() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    /// Compared bit by bit, for every length that takes another path through the library, and for
    /// every cut.
    #[test]
    fn checksums_are_right_for_any_length_and_cut() {
        let bytes: Vec<u8> =
            (0..5_000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let mut expected = u32::MAX;
        for len in 0..bytes.len() {
            let (whole, cut) = (&bytes[..len], len / 3);
            assert_eq!(crc32c(whole), !expected, "{len} bytes");
            if len % 97 == 0 {
                assert_eq!(crc32c_of(&[&whole[..cut], &whole[cut..]]), !expected);
            }
            expected ^= u32::from(bytes[len]);
            for _ in 0..8 {
                let is_odd = expected & 1 == 1;
                expected = (expected >> 1) ^ if is_odd { 0x82f6_3b78 } else { 0 };
            }
        }
    }
}
