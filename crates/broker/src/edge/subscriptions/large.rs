//! Sessions with many subscriptions: theirs are found by number and by topic without a walk through
//! the chain, which would make n subscriptions cost n * n.
//!
//! Invariant: of a connection with [`flag::LARGE`] every subscription is in `by_client`, and every
//! one that has a topic in `by_topic`; of the others none is. Whoever has become large stays so
//! until it goes: others pay nothing.

use super::Subscription;
use crate::ids::{ConnIndex, NONE, SubIndex, TopicIndex};
use crate::mail::HomeId;
use std::collections::BTreeMap;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// Subscriptions of large sessions.
#[derive(Default, Hand)]
pub(crate) struct Large {
    /// By connection and the client's own number.
    pub by_client: BTreeMap<(u32, u32), u32>,
    /// By connection, home and index of the topic; those to filters by [`FILTERS`] and the filter.
    pub by_topic: BTreeMap<(u32, HomeId, u32), u32>,
}

/// In place of a home.
pub(crate) const FILTERS: HomeId = HomeId::MAX;
/// A session with more subscriptions is large.
pub(crate) const CHAIN_WALK_MAX: u32 = 64;

impl Large {
    pub fn insert(&mut self, subscription: SubIndex, entry: &Subscription) {
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

pub(crate) fn topic_of(entry: &Subscription) -> (u32, HomeId, u32) {
    let home = match entry.is_filter() {
        true => FILTERS,
        false => entry.home,
    };
    (entry.connection, home, entry.topic)
}
