//! Tokens whose signature was verified, by their digests: a storm of clients that come back with the tokens that they had
//! costs no signature each.
//!
//! Shared by all I/O threads, beside the path of messages. Invariants: only tokens that a key of ours has signed are in
//! it, so nobody else can fill it; with each stands the key's number, and it counts only while that key is known; at most
//! so many, of which the older half goes at once. It says nothing of claims: they are read and judged each time.

use broker::entitlement::Digest;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Locks, so that I/O threads seldom meet.
const SHARDS_COUNT: usize = 16;

/// Verified tokens.
pub struct VerifiedTokens {
    shards: [Mutex<Shard>; SHARDS_COUNT],
    /// In each of the two halves of a shard.
    half_len_max: usize,
}

/// Key numbers by digest, in two generations. An entry has 20 bytes, and what the table adds.
#[derive(Default)]
struct Shard {
    younger: HashMap<Digest, u32>,
    older: HashMap<Digest, u32>,
}

const _: () = assert!(size_of::<(Digest, u32)>() == 20);

impl VerifiedTokens {
    /// Room for so many; 0 remembers none.
    pub fn new(len_max: usize) -> VerifiedTokens {
        VerifiedTokens {
            shards: std::array::from_fn(|_| Mutex::default()),
            half_len_max: len_max.div_ceil(2 * SHARDS_COUNT),
        }
    }

    /// The number of the key that has signed it, if that is known.
    pub fn key_of(&self, digest: &Digest) -> Option<u32> {
        let mut shard = self.shard(digest);
        if let Some(key) = shard.younger.get(digest) {
            return Some(*key);
        }
        let key = shard.older.remove(digest)?;
        // Still in use: it outlives its generation.
        shard.put(*digest, key, self.half_len_max);
        Some(key)
    }

    /// Remembers a token that the key of this number has signed.
    pub fn insert(&self, digest: Digest, key: u32) {
        if self.half_len_max > 0 {
            self.shard(&digest).put(digest, key, self.half_len_max);
        }
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        let len = |shard: &Mutex<Shard>| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.younger.len() + shard.older.len()
        };
        self.shards.iter().map(len).sum()
    }

    fn shard(&self, digest: &Digest) -> std::sync::MutexGuard<'_, Shard> {
        let shard = &self.shards[usize::from(digest.0[0]) % SHARDS_COUNT];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn put(&mut self, digest: Digest, key: u32, len_max: usize) {
        if self.younger.len() >= len_max && !self.younger.contains_key(&digest) {
            self.older = std::mem::take(&mut self.younger);
        }
        self.younger.insert(digest, key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use broker::entitlement::CredentialKind;

    fn digest(number: u32) -> Digest {
        Digest::of(CredentialKind::Token, &number.to_le_bytes())
    }

    #[test]
    fn what_is_in_use_stays_and_the_rest_is_bounded() {
        let tokens = VerifiedTokens::new(3_200);
        tokens.insert(digest(0), 7);
        for number in 1..100_000 {
            tokens.insert(digest(number), 8);
            // Asked for often enough to be met in either generation.
            if number % 16 == 0 {
                assert_eq!(tokens.key_of(&digest(0)), Some(7), "{number}");
            }
        }
        assert!(tokens.len() <= 3_200, "{}", tokens.len());
        assert_eq!(tokens.key_of(&digest(99_999)), Some(8));
        assert_eq!(tokens.key_of(&digest(1)), None);
    }

    #[test]
    fn nothing_can_be_remembered() {
        let tokens = VerifiedTokens::new(0);
        tokens.insert(digest(1), 1);
        assert!(tokens.len() == 0 && tokens.key_of(&digest(1)).is_none());
    }
}
