//! The content of the file of ticket keys, and the rotation of keys. Pure.

/// Keys, the newest first: one signs; the others are valid until their tickets have expired.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Ring {
    keys: Vec<Key>,
}

#[derive(Clone, PartialEq, Eq)]
struct Key {
    secret: [u8; 32],
    /// Milliseconds since 1970, like the next field.
    created_ms: u64,
    /// Time at which the next key began to sign; 0: this key signs.
    retired_ms: u64,
    /// The longest lifetime of a ticket that it may have signed.
    lifetime_ms: u64,
}

const MAGIC: &[u8; 8] = b"CROREKEY";
const VERSION: u16 = 1;
const HEAD_BYTES: usize = 16;
const KEY_BYTES: usize = 56;
const CHECKSUM_BYTES: usize = 4;
/// Maximum number of keys of a file. If all of them are still valid, the newest signs for longer.
const KEYS_MAX: usize = 16;

/// Maximum size of a file.
pub const FILE_BYTES_MAX: usize = HEAD_BYTES + KEYS_MAX * KEY_BYTES + CHECKSUM_BYTES;

impl Ring {
    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The secrets; the first belongs to the signing key.
    pub fn secrets(&self) -> impl Iterator<Item = [u8; 32]> {
        self.keys.iter().map(|key| key.secret)
    }

    /// Updates the keys at `now_ms`, for tickets with the lifetime `lifetime_ms`: removes keys
    /// whose tickets have all expired, and adds a signing key if the newest is older than
    /// `age_max_ms`. Returns whether the keys changed.
    pub fn advance(
        &mut self,
        now_ms: u64,
        lifetime_ms: u64,
        age_max_ms: u64,
        new_secret: &mut dyn FnMut() -> Option<[u8; 32]>,
    ) -> bool {
        let before = self.clone();
        self.keys.retain(|key| key.retired_ms == 0 || key.believed_until_ms() > now_ms);
        let is_due = match self.keys.first() {
            Some(newest) => now_ms.saturating_sub(newest.created_ms) >= age_max_ms,
            None => true,
        };
        if is_due
            && self.keys.len() < KEYS_MAX
            && let Some(secret) = new_secret()
        {
            if let Some(newest) = self.keys.first_mut() {
                // 0 would mean that it still signs.
                newest.retired_ms = now_ms.max(1);
            }
            let key = Key { secret, created_ms: now_ms, retired_ms: 0, lifetime_ms };
            self.keys.insert(0, key);
        }
        if let Some(newest) = self.keys.first_mut() {
            newest.lifetime_ms = newest.lifetime_ms.max(lifetime_ms);
        }
        *self != before
    }

    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FILE_BYTES_MAX);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&0_u16.to_le_bytes());
        bytes.extend_from_slice(&(self.keys.len() as u32).to_le_bytes());
        for key in &self.keys {
            bytes.extend_from_slice(&key.secret);
            for number in [key.created_ms, key.retired_ms, key.lifetime_ms] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        let checksum = crc_fast::crc32_iscsi(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Parses the keys of a file.
    ///
    /// # Errors
    /// The fault, in words.
    pub fn decode(bytes: &[u8]) -> Result<Ring, &'static str> {
        if bytes.len() > FILE_BYTES_MAX {
            return Err("the file is too long");
        }
        if bytes.len() < HEAD_BYTES + CHECKSUM_BYTES {
            return Err("the file is too short");
        }
        let (checked, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
        if &checked[..8] != MAGIC {
            return Err("the file has another format");
        }
        if checksum != crc_fast::crc32_iscsi(checked).to_le_bytes() {
            return Err("the checksum is wrong");
        }
        let (head, rest) = checked.split_at(HEAD_BYTES);
        if head[8..10] != VERSION.to_le_bytes() || head[10..12] != [0, 0] {
            return Err("the file has another version");
        }
        let (keys, left_over) = rest.as_chunks::<KEY_BYTES>();
        if !left_over.is_empty() || head[12..16] != (keys.len() as u32).to_le_bytes() {
            return Err("the length is wrong");
        }
        let keys: Vec<Key> = keys.iter().map(Key::decode).collect();
        let is_in_order = |(place, key): (usize, &Key)| (place == 0) == (key.retired_ms == 0);
        if keys.is_empty() || !keys.iter().enumerate().all(is_in_order) {
            return Err("the file does not mark the signing key");
        }
        Ok(Ring { keys })
    }
}

impl Key {
    fn believed_until_ms(&self) -> u64 {
        self.retired_ms.saturating_add(self.lifetime_ms)
    }

    fn decode(bytes: &[u8; KEY_BYTES]) -> Key {
        let mut secret = [0; 32];
        secret.copy_from_slice(&bytes[..32]);
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(number)
        };
        Key { secret, created_ms: number(32), retired_ms: number(40), lifetime_ms: number(48) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring after starts at these moments, with tickets of 100 ms and keys of 1,000; the secrets
    /// count from 1.
    fn after(starts: &[u64]) -> Ring {
        let mut ring = Ring::default();
        let mut last = 0;
        for &now_ms in starts {
            ring.advance(now_ms, 100, 1_000, &mut || {
                last += 1;
                Some([last; 32])
            });
        }
        ring
    }

    fn check(starts: &[u64], secrets: &[u8]) {
        let ring = after(starts);
        let found: Vec<u8> = ring.secrets().map(|secret| secret[0]).collect();
        assert_eq!(found, secrets, "{starts:?}");
        assert!(Ring::decode(&ring.encode()) == Ok(ring), "{starts:?}");
    }

    #[test]
    fn keys_give_way() {
        check(&[5_000], &[1]);
        check(&[5_000, 5_999], &[1]);
        check(&[5_000, 6_000], &[2, 1]);
        // It may have signed up to the start at which it was retired.
        check(&[5_000, 6_000, 6_099], &[2, 1]);
        check(&[5_000, 6_000, 6_100], &[2]);
        check(&[5_000, 9_000, 9_099], &[2, 1]);
        check(&[5_000, 9_000, 20_000], &[3, 2]);
        // The clock was set back.
        check(&[5_000, 0, 5_999], &[1]);
        check(&[0, 1_000], &[2, 1]);
    }

    #[test]
    fn a_longer_lifetime_counts() {
        let mut ring = after(&[0]);
        let mut secret = || Some([9; 32]);
        assert!(ring.advance(10, 5_000, 1_000, &mut secret));
        assert!(!ring.advance(20, 50, 1_000, &mut secret));
        assert!(ring.advance(1_000, 50, 1_000, &mut secret));
        assert!(!ring.advance(1_040, 50, 1_000, &mut secret));
        assert_eq!(ring.secrets().count(), 2);
        assert!(ring.advance(6_000, 50, 10_000, &mut secret));
        assert_eq!(ring.secrets().count(), 1);
    }

    #[test]
    fn there_are_no_more_than_fit() {
        let mut ring = Ring::default();
        for start in 0..100 {
            ring.advance(start, 1 << 40, 1, &mut || Some([start as u8; 32]));
        }
        assert_eq!(ring.secrets().count(), KEYS_MAX);
        assert_eq!(ring.encode().len(), FILE_BYTES_MAX);
        // None that may have signed is given up for a newer one.
        assert_eq!(ring.secrets().last(), Some([0; 32]));
        assert!(Ring::decode(&ring.encode()) == Ok(ring));
    }

    #[test]
    fn without_random_bytes_the_old_one_signs() {
        let mut ring = after(&[0]);
        assert!(!ring.advance(5_000, 100, 1_000, &mut || None));
        assert_eq!(ring.secrets().collect::<Vec<_>>(), [[1; 32]]);
    }

    #[test]
    fn any_damage_is_found() {
        let bytes = after(&[0, 1_000]).encode();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert!(Ring::decode(&damaged).is_err(), "byte {at}, bit {bit}");
            }
            assert!(Ring::decode(&bytes[..at]).is_err(), "{at} bytes");
        }
        assert!(Ring::decode(&[&bytes[..], &[0]].concat()).is_err());
        assert!(Ring::decode(&[0; 5_000]).is_err());
    }

    /// A file can have a valid checksum and invalid content.
    #[test]
    fn nonsense_is_refused() {
        let check = |change: &dyn Fn(&mut Vec<u8>), problem: &str| {
            let mut bytes = after(&[0, 1_000]).encode();
            bytes.truncate(bytes.len() - CHECKSUM_BYTES);
            change(&mut bytes);
            let checksum = crc_fast::crc32_iscsi(&bytes);
            bytes.extend_from_slice(&checksum.to_le_bytes());
            assert_eq!(Ring::decode(&bytes).err(), Some(problem));
        };
        check(&|bytes| bytes[8] = 2, "the file has another version");
        check(&|bytes| bytes[10] = 1, "the file has another version");
        check(&|bytes| bytes[12] = 1, "the length is wrong");
        check(&|bytes| bytes.truncate(100), "the length is wrong");
        check(&|bytes| bytes[HEAD_BYTES + 40] = 1, "the file does not mark the signing key");
        check(
            &|bytes| {
                bytes.truncate(HEAD_BYTES);
                bytes[12] = 0;
            },
            "the file does not mark the signing key",
        );
    }
}
