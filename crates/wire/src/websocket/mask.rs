//! Masking of WebSocket payloads (RFC 6455 section 5.3): `byte[i] ^= key[i mod 4]`.
//!
//! Place on the path: step 2, the only loop of the codec that touches each byte from a client.
//! Masking and unmasking are the same operation.

/// Length of a masking key.
pub const MASK_KEY_BYTES: usize = 4;

/// Applies `key` to `payload` in place, starting with `key[0]`.
#[inline]
pub fn mask(payload: &mut [u8], key: [u8; MASK_KEY_BYTES]) {
    let word = u64::from_ne_bytes([key[0], key[1], key[2], key[3], key[0], key[1], key[2], key[3]]);
    // Whole words of eight bytes, so that the key needs no rotation and the compiler can use
    // vectors.
    let (words, tail) = payload.as_chunks_mut::<8>();
    for bytes in words {
        *bytes = (u64::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
    }
    for (byte, key) in tail.iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masking_equals_its_definition_at_every_length() {
        let key = [0x37, 0xfa, 0x21, 0x3d];
        for len in 0..200usize {
            let plain: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            let expected: Vec<u8> =
                plain.iter().enumerate().map(|(i, byte)| byte ^ key[i % 4]).collect();
            let mut masked = plain.clone();
            mask(&mut masked, key);
            assert_eq!(masked, expected, "{len} bytes");
            mask(&mut masked, key);
            assert_eq!(masked, plain, "{len} bytes, back");
        }
    }
}
