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
pub fn decode(bytes: &[u8]) -> Result<(u64, &[u8]), FrameError> {
    match bytes.split_first() {
        Some((&byte, rest)) if byte < 0x80 => Ok((u64::from(byte), rest)),
        Some(_) => decode_long(bytes),
        None => Err(FrameError::Truncated),
    }
}

/// Appends `value`.
pub fn encode(value: u64, out: &mut Vec<u8>) {
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
                for end in 0..bytes.len() {
                    assert_eq!(decode(&bytes[..end]), Err(FrameError::Truncated), "{value}");
                }
            }
        }
    }

    #[test]
    fn only_the_shortest_form_is_accepted() {
        assert_eq!(decode(&[0x80, 0x00]), Err(FrameError::VarintOverlong));
        assert_eq!(decode(&[0xFF, 0x80, 0x00]), Err(FrameError::VarintOverlong));
        let mut bytes = [0xFF; 10];
        bytes[9] = 0x02;
        assert_eq!(decode(&bytes), Err(FrameError::VarintOverflow));
        assert_eq!(decode(&[0xFF; 11]), Err(FrameError::VarintOverflow));
    }
}
