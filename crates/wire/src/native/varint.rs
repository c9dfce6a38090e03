//! LEB128 varints: seven bits a byte, lowest first; the high bit announces further bytes.
//!
//! Canonical: a value has one encoding, its shortest. At most [`BYTES_MAX`] bytes.

use super::FrameError;

/// The maximum length of a varint: a `u64` above 2^63.
pub const BYTES_MAX: usize = 10;

/// Decodes one varint from the start of `bytes`: its value and the bytes behind it.
///
/// # Errors
/// `Truncated` if the bytes end inside it, `VarintOverlong` for a needless last byte of zero,
/// `VarintOverflow` above `u64`.
#[inline]
pub fn decode(bytes: &[u8]) -> Result<(u64, &[u8]), FrameError> {
    match bytes {
        [byte, rest @ ..] if *byte < 0x80 => Ok((u64::from(*byte), rest)),
        _ => match decode_word(bytes) {
            Some((value, length)) => Ok((value, &bytes[length..])),
            None => decode_long(bytes),
        },
    }
}

/// Decodes a varint of 2 to 8 bytes, all at once, if 8 bytes are there: most offsets.
#[inline]
fn decode_word(bytes: &[u8]) -> Option<(u64, usize)> {
    let word = u64::from_le_bytes(*bytes.first_chunk()?);
    let ends = !word & 0x8080_8080_8080_8080;
    let length = ends.trailing_zeros() as usize / 8 + 1;
    if ends == 0 || bytes[length - 1] == 0 {
        return None;
    }
    // The bytes up to the end, then seven bits of each: pairs, fours, eight.
    let of_word = word & (ends ^ (ends - 1)) & 0x7F7F_7F7F_7F7F_7F7F;
    let pairs = of_word & 0x007F_007F_007F_007F | (of_word & 0x7F00_7F00_7F00_7F00) >> 1;
    let fours = pairs & 0x0000_3FFF_0000_3FFF | (pairs & 0x3FFF_0000_3FFF_0000) >> 2;
    Some((fours & 0x0FFF_FFFF | (fours & 0x0FFF_FFFF_0000_0000) >> 4, length))
}

/// Appends `value`.
#[inline]
pub fn encode(value: u64, out: &mut Vec<u8>) {
    if value < 0x80 {
        out.push(value as u8);
    } else {
        encode_long(value, out);
    }
}

fn encode_long(value: u64, out: &mut Vec<u8>) {
    let mut bytes = [0; BYTES_MAX];
    let length = write(value, &mut bytes);
    out.extend_from_slice(&bytes[..length]);
}

/// Writes `value` to the start of `bytes` and returns its length, 1 to [`BYTES_MAX`].
///
/// # Panics
/// If `bytes` is too short for the value.
pub fn write(mut value: u64, bytes: &mut [u8]) -> usize {
    let mut length = 0;
    while value >= 0x80 {
        bytes[length] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    bytes[length] = value as u8;
    length + 1
}

/// The length of `value` in bytes, 1 to [`BYTES_MAX`].
#[must_use]
pub const fn length(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

#[inline(never)]
fn decode_long(bytes: &[u8]) -> Result<(u64, &[u8]), FrameError> {
    let mut value = 0_u64;
    for (index, &byte) in bytes.iter().take(BYTES_MAX).enumerate() {
        if index == BYTES_MAX - 1 && byte > 1 {
            return Err(FrameError::VarintOverflow);
        }
        value |= u64::from(byte & 0x7F) << (7 * index);
        if byte < 0x80 {
            if byte == 0 {
                return Err(FrameError::VarintOverlong);
            }
            return Ok((value, &bytes[index + 1..]));
        }
    }
    Err(FrameError::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_round_trips() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1_u64 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                encode(value, &mut bytes);
                assert_eq!(bytes.len(), length(value), "{value}");
                assert_eq!(decode(&bytes), Ok((value, &[][..])), "{value}");
                for rest in [[0; 9], [0x80; 9], [0x7F; 9]] {
                    let followed = [&bytes[..], &rest].concat();
                    assert_eq!(decode(&followed), Ok((value, &rest[..])), "{value}");
                }
                for end in 0..bytes.len() {
                    assert_eq!(decode(&bytes[..end]), Err(FrameError::Truncated), "{value}");
                }
            }
        }
    }

    #[test]
    fn only_the_shortest_form_is_accepted() {
        assert_eq!(decode(&[0x80, 0x00]), Err(FrameError::VarintOverlong));
        let long = [0xFF, 0x80, 0x00, 1, 1, 1, 1, 1, 1];
        assert_eq!(decode(&long), Err(FrameError::VarintOverlong));
        assert_eq!(decode(&[0xFF, 0x80, 0x00]), Err(FrameError::VarintOverlong));
        let mut bytes = [0xFF; 10];
        bytes[9] = 0x02;
        assert_eq!(decode(&bytes), Err(FrameError::VarintOverflow));
        assert_eq!(decode(&[0xFF; 11]), Err(FrameError::VarintOverflow));
    }
}
