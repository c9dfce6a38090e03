//! CRC-32C, the checksum of everything that is on disk, by the processor's own instructions where
//! it has them.

use crc_fast::{CrcAlgorithm, Digest};

/// The checksum of some bytes.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The checksum of parts that lie one behind the other.
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

    /// The value that the algorithm's catalogue gives, and zeros and ones of RFC 3720, B.4.
    #[test]
    fn known_values() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    /// Bit by bit, of every length that takes another way through the library, and however it is
    /// cut.
    #[test]
    fn any_length_and_any_cut() {
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
