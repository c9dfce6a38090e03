//! Sessions with many subscriptions: theirs are found by number and by topic without a walk through
//! the chain, which would make n subscriptions cost n * n.
//!
//! Invariant: of a connection with [`flag::LARGE`] every subscription is in `by_client`, and every
//! one that has a topic in `by_topic`; of the others none is. A connection that has become large
//! stays so until it ends: others pay nothing.

use super::{Slot, Subscription, Subscriptions};
use crate::ids::{ConnIndex, SubIndex, TopicIndex};
use crate::mail::HomeId;
use crate::protocol::flag;
use std::collections::BTreeMap;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// Subscriptions of large sessions.
#[derive(Default, Hand)]
pub(super) struct Large {
    /// Subscriptions by connection and the client's own number.
    by_client: BTreeMap<(ConnIndex, u32), SubIndex>,
    /// Subscriptions by connection, home and index of the topic; those to filters by [`FILTERS`]
    /// and the filter.
    by_topic: BTreeMap<(ConnIndex, HomeId, u32), SubIndex>,
}

/// In place of a home.
pub(super) const FILTERS: HomeId = HomeId(u16::MAX);
/// A session with more subscriptions is large.
const CHAIN_WALK_MAX: u32 = 64;

impl Large {
    fn insert(&mut self, subscription: SubIndex, entry: &Subscription) {
        self.by_client.insert((entry.connection, entry.client), subscription);
        if let Some(target) = target_of(entry) {
            self.by_topic.insert(target, subscription);
        }
    }

    /// About how many bytes both maps take.
    pub fn memory_bytes(&self) -> usize {
        tree_bytes(self.by_client.len(), size_of::<((ConnIndex, u32), SubIndex)>())
            + tree_bytes(self.by_topic.len(), size_of::<((ConnIndex, HomeId, u32), SubIndex)>())
    }

    /// A subscription of a large session by its topic or its filter.
    pub fn of_topic(&self, index: ConnIndex, home: HomeId, target: u32) -> Option<SubIndex> {
        self.by_topic.get(&(index, home, target)).copied()
    }
}

impl Subscriptions {
    /// The connection's plain subscription to a topic.
    #[inline]
    pub fn find_plain(
        &self,
        index: ConnIndex,
        slot: &Slot,
        home: HomeId,
        topic: TopicIndex,
    ) -> Option<SubIndex> {
        if slot.is(flag::LARGE) {
            return self.large.of_topic(index, home, topic.0);
        }
        let subscribers = &self.topics[usize::from(home)].get(topic)?.subscribers;
        if subscribers.len() < slot.subscriptions_count as usize {
            let mut members = self.members.iter(subscribers).map(SubIndex);
            return members.find(|&other| self.table[other.0].connection == index);
        }
        let mut chain = self.chain(slot.subscriptions);
        chain.find(|&other| self.table[other.0].topic() == Some((home, topic)))
    }

    /// The connection's subscription by the client's own number.
    pub fn find_client(&self, index: ConnIndex, slot: &Slot, client: u32) -> Option<SubIndex> {
        if slot.is(flag::LARGE) {
            return self.large.by_client.get(&(index, client)).copied();
        }
        self.chain(slot.subscriptions).find(|&other| self.table[other.0].client == client)
    }

    /// A connection has another subscription, or a subscription has got its topic.
    pub(super) fn note_if_large(&mut self, slot: &mut Slot, subscription: SubIndex) {
        if slot.is(flag::LARGE) {
            self.large.insert(subscription, &self.table[subscription.0]);
        } else if slot.subscriptions_count > CHAIN_WALK_MAX {
            slot.set(flag::LARGE);
            let mut at = slot.subscriptions;
            while let Some(entry) = self.table.get(at.0) {
                self.large.insert(at, entry);
                at = entry.next;
            }
        }
    }

    /// A subscription has gone.
    pub(super) fn release_if_large(&mut self, slot: &Slot, entry: &Subscription) {
        if slot.is(flag::LARGE) {
            self.large.by_client.remove(&(entry.connection, entry.client));
            if let Some(target) = target_of(entry) {
                self.large.by_topic.remove(&target);
            }
        }
    }
}

fn target_of(entry: &Subscription) -> Option<(ConnIndex, HomeId, u32)> {
    let (home, target) = match entry.filter() {
        Some(filter) => (FILTERS, filter),
        None => entry.topic().map(|(home, topic)| (home, topic.0))?,
    };
    Some((entry.connection, home, target))
}
