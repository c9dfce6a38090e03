//! The Internet checksum (RFC 1071): the complement of a sum in ones' complement.
//!
//! The sum does not depend on the order of bytes within a word, so it adds little-endian words of
//! 32 bits and swaps nothing: the result is stored in the order in which it was summed.

/// A sum of words that is not folded yet.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes at an even distance from the start of the sum. An odd number of bytes
    /// counts as if a zero followed, so only the last ones may be odd.
    pub fn add(self, bytes: &[u8]) -> Sum {
        let (words, tail) = bytes.as_chunks::<4>();
        let mut sum = self.0;
        for word in words {
            sum += u64::from(u32::from_le_bytes(*word));
        }
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        Sum(sum + u64::from(u32::from_le_bytes(last)))
    }

    /// Adds a word of 16 bits that is sent in network order.
    pub fn add_word(self, word: u16) -> Sum {
        Sum(self.0 + u64::from(word.to_be()))
    }

    /// The checksum, as the bytes to send. Over bytes that contain their own right checksum it is
    /// zero.
    pub fn finish(self) -> [u8; 2] {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (!(sum as u16)).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, a word at a time.
    fn slowly(bytes: &[u8]) -> [u8; 2] {
        let mut sum = 0_u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (!(sum as u16)).to_be_bytes()
    }

    #[test]
    fn sums_agree_with_the_definition() {
        let bytes: Vec<u8> = (0..1500_u32).map(|number| (number * 37 + 11) as u8).collect();
        for length in (0..64).chain([576, 1459, 1460, 1500]) {
            assert_eq!(Sum::default().add(&bytes[..length]).finish(), slowly(&bytes[..length]));
        }
        let ones = [0xff; 4096];
        assert_eq!(Sum::default().add(&ones).finish(), slowly(&ones));
    }

    #[test]
    fn parts_and_words_add_up() {
        let whole = [0x12, 0x34, 0xab, 0xcd, 0x06, 0x07, 0x99];
        let parts = Sum::default().add(&whole[..2]).add_word(0xabcd).add(&whole[4..]);
        assert_eq!(parts.finish(), slowly(&whole));
    }

    /// RFC 1071, section 3.
    #[test]
    fn the_example_of_the_rfc_holds() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().add(&bytes).finish(), (!0xddf2_u16).to_be_bytes());
    }
}
