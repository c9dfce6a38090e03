//! Shared terms: equal permissions of many tokens are stored once, however many clients present
//! them.
//!
//! Shared by all I/O threads, beside the path of messages. Invariants: the table keeps no terms
//! alive, and has a maximum size; further terms work as well, but are not shared.

use broker::entitlement::Terms;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Number of locks, so that I/O threads rarely contend.
const SHARDS_COUNT: usize = 16;

/// Terms by hash.
pub struct TermsTable {
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS_COUNT],
    shard_len_max: usize,
}

#[derive(Default)]
struct Shard {
    known: HashMap<u64, Weak<Terms>>,
    /// The number of entries at which dead ones are removed: at least twice the number of live ones
    /// at the last removal, so that a removal is worth its cost.
    clear_at: usize,
}

impl TermsTable {
    /// Maximum number of entries.
    pub fn new(len_max: usize) -> TermsTable {
        TermsTable {
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| Mutex::default()),
            shard_len_max: len_max.div_ceil(SHARDS_COUNT),
        }
    }

    /// The equal terms, if they are known.
    pub fn share(&self, terms: Terms) -> Arc<Terms> {
        let hash = self.hasher.hash_one(&terms);
        let shard = &self.shards[hash as usize % SHARDS_COUNT];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = shard.known.get(&hash).and_then(Weak::upgrade)
            && *known == terms
        {
            return known;
        }
        let terms = Arc::new(terms);
        if shard.has_room(self.shard_len_max) {
            shard.known.insert(hash, Arc::downgrade(&terms));
        }
        terms
    }
}

impl Shard {
    fn has_room(&mut self, len_max: usize) -> bool {
        if self.known.len() >= self.clear_at.max(64) {
            self.known.retain(|_, terms| terms.strong_count() > 0);
            self.clear_at = 2 * self.known.len();
        }
        self.known.len() < len_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use broker::entitlement::Permissions;

    fn terms(filter: &str) -> Terms {
        Terms {
            permissions: Permissions { publish: vec![filter.into()], ..Permissions::default() },
            ..Terms::default()
        }
    }

    fn known_count(table: &TermsTable) -> usize {
        let len = |shard: &Mutex<Shard>| shard.lock().unwrap().known.len();
        table.shards.iter().map(len).sum()
    }

    #[test]
    fn equal_terms_are_shared() {
        let table = TermsTable::new(100);
        let first = table.share(terms("a"));
        assert!(Arc::ptr_eq(&first, &table.share(terms("a"))));
        assert!(!Arc::ptr_eq(&first, &table.share(terms("b"))));
        drop(first);
        // The table kept no terms alive.
        assert_eq!(Arc::strong_count(&table.share(terms("a"))), 1);
    }

    #[test]
    fn dead_terms_are_removed_and_live_ones_are_bounded() {
        let table = TermsTable::new(160);
        for number in 0..100_000 {
            table.share(terms(&number.to_string()));
        }
        assert!(known_count(&table) <= 64 * SHARDS_COUNT);
        let table = TermsTable::new(160);
        let living: Vec<_> =
            (0..1_000).map(|number| table.share(terms(&number.to_string()))).collect();
        assert!(known_count(&table) <= 160);
        assert!((0..1_000).all(|number| *living[number] == terms(&number.to_string())));
    }
}
