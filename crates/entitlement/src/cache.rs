//! A cache of tokens with verified signatures, by their digests: reconnecting clients with known
//! tokens need no new verification.
//!
//! Shared by all I/O threads, beside the path of messages. Invariants: the cache only has tokens
//! signed by a known key, so that no attacker can fill it; an entry has the key's number, and
//! counts only while that key is known; the size is bounded, and a full cache drops its older half
//! at once. Claims are not cached: they are checked each time.

use broker::entitlement::Digest;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Number of locks, so that I/O threads rarely contend.
const SHARDS_COUNT: usize = 16;

/// The cache.
pub struct VerifiedTokens {
    shards: [Mutex<Shard>; SHARDS_COUNT],
    /// Maximum number of entries in each of the two halves of a shard.
    half_len_max: usize,
}

/// Key numbers by digest, in two generations. An entry has 20 bytes, and the table's overhead.
#[derive(Default)]
struct Shard {
    younger: HashMap<Digest, u32>,
    older: HashMap<Digest, u32>,
}

const _: () = assert!(size_of::<(Digest, u32)>() == 20);

impl VerifiedTokens {
    /// A cache for this number of tokens; 0 disables it.
    pub fn new(len_max: usize) -> VerifiedTokens {
        VerifiedTokens {
            shards: std::array::from_fn(|_| Mutex::default()),
            half_len_max: len_max.div_ceil(2 * SHARDS_COUNT),
        }
    }

    /// The number of the key that has signed the token, if the token is in the cache.
    pub fn key_of(&self, digest: &Digest) -> Option<u32> {
        let mut shard = self.shard(digest);
        if let Some(key) = shard.younger.get(digest) {
            return Some(*key);
        }
        let key = shard.older.remove(digest)?;
        // A token in use outlives its generation.
        shard.put(*digest, key, self.half_len_max);
        Some(key)
    }

    /// Adds a token signed by the key with this number.
    pub fn insert(&self, digest: Digest, key: u32) {
        if self.half_len_max > 0 {
            self.shard(&digest).put(digest, key, self.half_len_max);
        }
    }

    /// The number of cached tokens.
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
    fn tokens_in_use_stay_and_the_cache_is_bounded() {
        let tokens = VerifiedTokens::new(3_200);
        tokens.insert(digest(0), 7);
        for number in 1..100_000 {
            tokens.insert(digest(number), 8);
            // Requested often enough to be found in either generation.
            if number % 16 == 0 {
                assert_eq!(tokens.key_of(&digest(0)), Some(7), "{number}");
            }
        }
        assert!(tokens.len() <= 3_200, "{}", tokens.len());
        assert_eq!(tokens.key_of(&digest(99_999)), Some(8));
        assert_eq!(tokens.key_of(&digest(1)), None);
    }

    #[test]
    fn a_cache_may_be_disabled() {
        let tokens = VerifiedTokens::new(0);
        tokens.insert(digest(1), 1);
        assert!(tokens.len() == 0 && tokens.key_of(&digest(1)).is_none());
    }
}
