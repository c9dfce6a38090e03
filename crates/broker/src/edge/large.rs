//! Sessions with many subscriptions: theirs are found by number and by topic without a walk through
//! the chain, which would make n subscriptions cost n * n.
//!
//! Invariant: of a connection with [`flag::LARGE`] every subscription is in `by_client`, and every
//! one that has a topic in `by_topic`; of the others none is. Whoever has become large stays so
//! until it goes: others pay nothing.

use super::Edge;
use super::slots::{NONE, flag};
use super::subscriptions::Subscription;
use crate::ids::{ConnIndex, SubIndex, TopicIndex};
use crate::mail::HomeId;
use std::collections::BTreeMap;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// Subscriptions of large sessions.
#[derive(Default, Hand)]
pub(crate) struct Large {
    /// By connection and the client's own number.
    by_client: BTreeMap<(u32, u32), u32>,
    /// By connection, home and index of the topic; those to filters by [`FILTERS`] and the filter.
    by_topic: BTreeMap<(u32, HomeId, u32), u32>,
}

/// In place of a home.
pub(super) const FILTERS: HomeId = HomeId::MAX;
/// A session with more subscriptions is large.
const CHAIN_WALK_MAX: u32 = 64;

impl Large {
    fn insert(&mut self, subscription: SubIndex, entry: &Subscription) {
        self.by_client.insert((entry.connection, entry.client), subscription);
        if entry.topic != NONE {
            self.by_topic.insert(topic_of(entry), subscription);
        }
    }

    /// Bytes of both maps, about.
    pub fn memory_bytes(&self) -> usize {
        tree_bytes(self.by_client.len(), size_of::<((u32, u32), u32)>())
            + tree_bytes(self.by_topic.len(), size_of::<((u32, HomeId, u32), u32)>())
    }

    /// Of a large session: by the client's number.
    pub fn of_client(&self, index: ConnIndex, client: u32) -> Option<u32> {
        self.by_client.get(&(index, client)).copied()
    }

    /// Of a large session: by the topic.
    pub fn of_topic(&self, index: ConnIndex, home: HomeId, topic: TopicIndex) -> Option<u32> {
        self.by_topic.get(&(index, home, topic)).copied()
    }
}

impl Edge {
    /// A connection has another subscription, or a subscription has got its topic.
    pub(super) fn note_if_large(&mut self, subscription: SubIndex) {
        let entry = &self.subscriptions.table[subscription];
        let slot = &mut self.connections.slots[entry.connection];
        if slot.is(flag::LARGE) {
            self.subscriptions.large.insert(subscription, entry);
        } else if slot.subscriptions_count > CHAIN_WALK_MAX {
            slot.set(flag::LARGE);
            let mut at = slot.subscriptions;
            while let Some(entry) = self.subscriptions.table.get(at) {
                self.subscriptions.large.insert(at, entry);
                at = entry.next;
            }
        }
    }

    /// A subscription has gone.
    pub(super) fn forget_if_large(&mut self, entry: &Subscription) {
        if self.connections.slots[entry.connection].is(flag::LARGE) {
            let client = (entry.connection, entry.client);
            self.subscriptions.large.by_client.remove(&client);
            self.subscriptions.large.by_topic.remove(&topic_of(entry));
        }
    }
}

fn topic_of(entry: &Subscription) -> (u32, HomeId, u32) {
    let home = match entry.is_filter() {
        true => FILTERS,
        false => entry.home,
    };
    (entry.connection, home, entry.topic)
}
