//! The number of each user's connections: the edges' connections are checked against their tokens,
//! and against the table.
//!
//! Checked after each turn of a shard, in worlds with tokens: changes are answered within the turn,
//! and other shards do not run meanwhile.

use super::World;
use broker::edge::Edge;
use std::collections::{BTreeMap, BTreeSet};
use stdx::key::Key;

/// A counted connection: its user, and the maximum in its token.
type Counted = (Box<str>, Option<u32>);

/// Counted connections, by shard.
pub(super) type CountedUsers = Vec<BTreeMap<(u32, u32), Counted>>;

fn counted(edge: &Edge) -> BTreeMap<(u32, u32), Counted> {
    let all = edge.counted_users().map(|user| {
        let Key { index, generation } = user.connection;
        ((index, generation), (user.user, user.connections_max))
    });
    all.collect()
}

impl World {
    /// Checks the new and ended connections after a shard's turn.
    pub(super) fn check_users(&mut self, shard: usize) {
        if self.plan.entitled_count() == 0 {
            return;
        }
        let edge = self.reactors[shard].edge();
        let now = counted(edge);
        let before = std::mem::take(&mut self.counted[shard]);
        let gone = before.iter().filter(|(key, _)| !now.contains_key(key));
        let gone: Vec<Box<str>> = gone.map(|(_, (user, _))| user.clone()).collect();
        let came = now.iter().filter(|(key, _)| !before.contains_key(key));
        let mut came_max: BTreeMap<Box<str>, u32> = BTreeMap::new();
        for (_, (user, connections_max)) in came {
            let most = came_max.entry(user.clone()).or_default();
            *most = (*most).max(connections_max.unwrap_or(u32::MAX));
        }
        self.counted[shard] = now;
        for (user, most) in came_max {
            let count = self.count_of(&user);
            if count > most as usize {
                let text = format!("{user} has {count} connections, and {most} were allowed");
                self.oracle.fail(None, text);
            }
        }
        for user in gone {
            let others = self.count_of(&user);
            self.saboteur.on_user_gone(&self.users, &user, others);
        }
        self.check_user_table(shard);
    }

    /// Checks that the table has exactly the users of all counted connections.
    fn check_user_table(&mut self, shard: usize) {
        let all = self.counted.iter().flat_map(BTreeMap::values);
        let users: BTreeSet<&str> = all.map(|(user, _)| &**user).collect();
        let (expected, found) = (users.len() as u64, self.users.statistics().users);
        if found != expected {
            let text =
                format!("after edge {shard}: {found} users in the table, and {expected} there");
            self.oracle.fail(None, text);
        }
    }

    fn count_of(&self, user: &str) -> usize {
        let all = self.counted.iter().flat_map(BTreeMap::values);
        all.filter(|(other, _)| **other == *user).count()
    }

    /// Checks that all clients with tokens count, if all tokens count.
    pub(super) fn check_everybody_counts(&mut self) {
        let count: usize = self.counted.iter().map(BTreeMap::len).sum();
        let entitled = self.plan.entitled_count();
        if self.plan.users_are_counted() && count < entitled {
            let text = format!("{entitled} clients are connected with a token, and {count} count");
            self.oracle.fail(None, text);
        }
    }

    /// Checks that no connection counts after all clients have left.
    pub(super) fn check_nobody_counts(&mut self) {
        let counted: usize = self.counted.iter().map(BTreeMap::len).sum();
        let users = self.users.statistics().users;
        if counted > 0 || users > 0 {
            let text =
                format!("everybody has left, and {counted} connections of {users} users count");
            self.oracle.fail(None, text);
        }
    }
}
