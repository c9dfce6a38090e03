//! Subscriptions to filters at an edge: a trie of its own filters, and for each topic that homes have announced, which
//! of them match.
//!
//! Step 8 of the path. Invariants: each distinct filter is posted once to every home while anybody subscribes to it;
//! a subscription to a filter is live when every home has accepted it; what matches a topic is found again only when
//! the set of filters has changed.

use super::Edge;
use super::Refusal;
use super::large::FILTERS;
use super::outbox::Skipped;
use super::slots::flag;
use super::subscriptions::{Kind, Stage, Subscription};
use crate::mail::{HomeId, PartitionId, Request, SubscriptionKey};
use crate::settings::LagPolicy;
use crate::topic::Filter;
use stdx::blocks::List;
use stdx::chunk::Slice;
use wire::native::ErrorCode;

/// One filter with its subscriptions.
pub(crate) struct FilterEntry {
    name: Slice,
    pub members: List,
    /// Homes that have not answered yet.
    waiting: u16,
    /// Who asked for it first; answers name it.
    asker: SubscriptionKey,
}

/// A topic that some home has announced to this edge.
pub(crate) struct NamedTopic {
    pub name: Slice,
    /// The version of the set of filters that `filters` was found with.
    version: u32,
    /// Filters of this edge that match.
    pub filters: Vec<u32>,
}

impl Edge {
    /// Asks for a filter with wildcards. Answered by `tell_subscribed_filter` or `tell_refused`.
    pub(crate) fn subscribe_filter(&mut self, index: u32, filter: Filter<'_>, client: u32) -> u32 {
        let subscription =
            self.insert_subscription(index, client, 0, Kind::Filter, LagPolicy::Replay);
        let limits = &self.settings.limits;
        if filter.levels_count() > limits.filter_levels_max as usize {
            let limit = u64::from(limits.filter_levels_max);
            self.refused(
                subscription,
                Refusal {
                    limit: Some(limit),
                    ..Refusal::of(ErrorCode::FilterTooWide)
                },
            );
            return subscription;
        }
        let known = self.filters.get(filter).copied();
        if known.is_some_and(|id| self.holds_filter(index, id)) {
            self.refused(subscription, Refusal::of(ErrorCode::AlreadySubscribed));
            return subscription;
        }
        let id = match known {
            Some(id) => id,
            None if self.filter_entries.len() >= limits.filters_per_shard_max as usize => {
                let limit = u64::from(limits.filters_per_shard_max);
                self.refused(
                    subscription,
                    Refusal {
                        limit: Some(limit),
                        ..Refusal::of(ErrorCode::FiltersFull)
                    },
                );
                return subscription;
            }
            None => self.add_filter(filter, subscription),
        };
        let entry = &mut self.filter_entries[id];
        let position = entry.members.len() as u32;
        self.members.push(&mut entry.members, subscription);
        let ready = entry.waiting == 0;
        self.subscriptions[subscription].topic = id;
        self.set_list_position(subscription, position);
        self.note_if_large(subscription);
        if ready {
            self.open_filter_subscription(subscription);
        }
        subscription
    }

    /// Whether the connection has a subscription to the filter.
    fn holds_filter(&self, index: u32, id: u32) -> bool {
        if self.slots[index].is(flag::LARGE) {
            return self.large.of_topic(index, FILTERS, id).is_some();
        }
        let members = &self.filter_entries[id].members;
        if members.len() < self.slots[index].subscriptions_count as usize {
            return self
                .members
                .iter(members)
                .any(|other| self.subscriptions[other].connection == index);
        }
        self.chain(index).any(|other| {
            let entry = &self.subscriptions[other];
            entry.is_filter() && entry.topic == id
        })
    }

    fn add_filter(&mut self, filter: Filter<'_>, subscription: u32) -> u32 {
        let name = self.mail.copy(filter.as_str().as_bytes());
        let homes = self.settings.homes_count;
        let asker = self.subscription_key(subscription);
        let entry = FilterEntry {
            name: name.clone(),
            members: List::new(),
            waiting: homes,
            asker,
        };
        let id = self.filter_entries.insert(entry);
        self.filters_asked.insert(asker.generation, id);
        self.filters.insert(filter, id);
        self.filters_version = self.filters_version.wrapping_add(1);
        for home in 0..homes {
            self.request(
                home,
                Request::AddFilter {
                    filter: name.clone(),
                    subscription: asker,
                },
            );
        }
        id
    }

    /// A home has answered for a filter.
    pub(crate) fn filter_granted(&mut self, asker: SubscriptionKey, result: Result<(), ErrorCode>) {
        let Some(&id) = self.filters_asked.get(&asker.generation) else {
            return;
        };
        let entry = &mut self.filter_entries[id];
        entry.waiting -= 1;
        let done = entry.waiting == 0;
        if done {
            self.filters_asked.remove(&asker.generation);
        }
        let members: Vec<u32> = self.members.iter(&entry.members).collect();
        match result {
            Err(code) => members
                .into_iter()
                .for_each(|member| self.refused(member, Refusal::of(code))),
            Ok(()) if done => members
                .into_iter()
                .for_each(|member| self.open_filter_subscription(member)),
            Ok(()) => {}
        }
    }

    fn open_filter_subscription(&mut self, subscription: u32) {
        self.subscriptions[subscription].stage = Stage::Wide;
        self.tell_subscribed_filter(subscription);
    }

    /// Takes a subscription out of its filter; the last one takes the filter with it.
    pub(crate) fn drop_filter_subscription(&mut self, subscription: u32, entry: &Subscription) {
        let Some(filter) = self.filter_entries.get_mut(entry.topic) else {
            return;
        };
        let position = Self::list_position(entry);
        debug_assert_eq!(
            self.members.get(&filter.members, position),
            Some(subscription)
        );
        if let Some(moved) = self.members.swap_remove_at(&mut filter.members, position) {
            self.set_list_position(moved, position as u32);
        }
        if !self.filter_entries[entry.topic].members.is_empty() {
            return;
        }
        let Some(filter) = self.filter_entries.remove(entry.topic) else {
            return;
        };
        self.filters_asked.remove(&filter.asker.generation);
        if let Ok(parsed) = Filter::parse(std::str::from_utf8(&filter.name).unwrap_or_default()) {
            self.filters.remove(parsed);
        }
        self.filters_version = self.filters_version.wrapping_add(1);
        for home in 0..self.settings.homes_count {
            self.request(
                home,
                Request::RemoveFilter {
                    filter: filter.name.clone(),
                },
            );
        }
    }

    /// A home names a topic that filters of this edge match.
    pub(crate) fn announced(
        &mut self,
        home: HomeId,
        index: u32,
        partition: PartitionId,
        name: Slice,
    ) {
        let topic = self.topics[usize::from(home)].at(index);
        topic.partition = partition;
        if topic.named == 0 {
            let version = self.filters_version.wrapping_sub(1);
            topic.named = self.named.insert(NamedTopic {
                name,
                version,
                filters: Vec::new(),
            }) + 1;
        }
    }

    /// Finds which filters match, if the set of filters has changed since.
    pub(crate) fn match_named(&mut self, named: u32) {
        let topic = &mut self.named[named];
        if topic.version != self.filters_version {
            topic.version = self.filters_version;
            topic.filters.clear();
            let name = std::str::from_utf8(&topic.name).unwrap_or_default();
            let filters = &mut topic.filters;
            self.filters
                .matches(name, &mut |&filter| filters.push(filter));
        }
    }

    /// Every connection with filters is told that messages of a partition were left out.
    pub(crate) fn skip_for_filters(&mut self, skipped: Skipped) {
        let members: Vec<u32> = self
            .filter_entries
            .iter()
            .flat_map(|(_, entry)| self.members.iter(&entry.members))
            .map(|subscription| self.subscriptions[subscription].connection)
            .collect();
        for index in members {
            self.skip(index, skipped);
            self.touch(index);
        }
    }
}
