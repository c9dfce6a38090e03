//! The number of connections of each user, over all I/O threads, and its limit.
//!
//! Place: the reactors ask for their edges when a connection presents a token whose user is counted
//! ([`broker::edge::UserChange`]), and when it has ended; never on a message's path. A lock is held
//! for one entry only.
//!
//! Invariants: each user with counted connections has one entry. A user is identified by a hash of
//! 64 bits with a random key: an entry has few bytes, and only one pair among billions of users
//! shares one.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use stdx::metrics::Metrics;

/// Number of parts of the table, with one lock each.
const PARTS_COUNT: usize = 64;

/// The table.
#[derive(Debug)]
pub struct Users {
    connections_max: Option<u32>,
    hasher: RandomState,
    parts: Box<[Mutex<Part>]>,
    refused: AtomicU64,
}

/// Numbers of connections by user; the key has two halves, so that an entry has 12 bytes.
type Part = HashMap<[u32; 2], u32>;

/// Counts of the table.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Metrics)]
pub struct UserStatistics {
    /// Connections refused because their user had the maximum.
    #[metric(limit = "connections_per_user_max")]
    pub refused: u64,
    /// Users with connections, if connections of users are limited.
    #[metric("crore_users")]
    pub users: u64,
}

impl Users {
    /// An empty table, with the maximum number of connections of each user.
    pub fn new(connections_max: Option<u32>) -> Users {
        Users {
            connections_max,
            hasher: RandomState::new(),
            parts: (0..PARTS_COUNT).map(|_| Mutex::default()).collect(),
            refused: AtomicU64::new(0),
        }
    }

    /// Counts a new connection of a user, with the maximum of the user's own token. False if the
    /// user has the maximum.
    pub fn enter(&self, user: &str, own_max: Option<u32>) -> bool {
        let connections_max = [self.connections_max, own_max].into_iter().flatten().min();
        let (mut part, key) = self.part(user);
        let connections = part.get(&key).copied().unwrap_or(0);
        if connections_max.is_some_and(|connections_max| connections >= connections_max) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        part.insert(key, connections + 1);
        true
    }

    /// Counts a connection of a user that the previous process has admitted.
    pub(crate) fn count(&self, user: &str) {
        let (mut part, key) = self.part(user);
        *part.entry(key).or_default() += 1;
    }

    /// Counts the end of a connection.
    pub fn leave(&self, user: &str) {
        let (mut part, key) = self.part(user);
        match part.get_mut(&key) {
            Some(connections) if *connections > 1 => *connections -= 1,
            _ => {
                part.remove(&key);
                // The memory for a storm is released.
                if part.capacity() > 4 * part.len() + 64 {
                    part.shrink_to_fit();
                }
            }
        }
    }

    /// Counters and gauges.
    pub fn statistics(&self) -> UserStatistics {
        let users = self.parts.iter().map(|part| lock(part).len() as u64);
        UserStatistics { refused: self.refused.load(Ordering::Relaxed), users: users.sum() }
    }

    fn part(&self, user: &str) -> (MutexGuard<'_, Part>, [u32; 2]) {
        let hash = self.hasher.hash_one(user);
        let part = lock(&self.parts[hash as usize % PARTS_COUNT]);
        (part, [hash as u32, (hash >> 32) as u32])
    }
}

impl Default for Users {
    /// Without a maximum, those of tokens apply.
    fn default() -> Users {
        Users::new(None)
    }
}

fn lock(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_maximum_applies() {
        let users = Users::new(Some(2));
        assert!(users.enter("anna", None));
        assert!(!users.enter("anna", Some(1)));
        assert!(users.enter("anna", Some(9)));
        assert!(!users.enter("anna", None));
        assert!(users.enter("ben", Some(1)));
        assert!(!users.enter("cleo", Some(0)));
        users.leave("anna");
        assert!(users.enter("anna", None));
        for user in ["anna", "anna", "ben"] {
            users.leave(user);
        }
        let expected = UserStatistics { refused: 3, users: 0 };
        assert_eq!(users.statistics(), expected);
    }

    #[test]
    fn without_a_maximum_those_of_tokens_apply() {
        let users = Users::default();
        assert!(users.enter("anna", Some(1)));
        assert!(!users.enter("anna", Some(1)));
        assert!(users.enter("anna", Some(2)));
    }

    #[test]
    fn handed_over_connections_count_beyond_the_maximum() {
        let users = Users::new(Some(1));
        users.count("anna");
        users.count("anna");
        users.leave("anna");
        assert!(!users.enter("anna", None));
        users.leave("anna");
        assert!(users.enter("anna", None));
    }

    #[test]
    fn threads_share_the_counts() {
        let users = Users::new(Some(4));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..2_000 {
                        let user = format!("user-{}", round % 7);
                        assert!(users.enter(&user, None));
                        users.leave(&user);
                    }
                });
            }
        });
        assert_eq!(users.statistics(), UserStatistics::default());
    }

    /// It keeps the budget of an idle connection with its own token.
    #[test]
    fn a_user_costs_less_than_forty_bytes() {
        let users = Users::default();
        let count = 200_000;
        for number in 0..count {
            assert!(users.enter(&number.to_string(), None));
        }
        // Entries of 12 bytes and one byte of the table, which is between half and seven eighths
        // full.
        let places: usize = users.parts.iter().map(|part| lock(part).capacity()).sum();
        let bytes = places * 8 / 7 * (size_of::<([u32; 2], u32)>() + 1);
        assert!(bytes / count < 40, "{} bytes", bytes / count);
    }
}
