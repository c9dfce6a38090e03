//! Subscriptions to filters: asked of every home, dropped, and which of them match a topic.

use crate::edge::Edge;
use crate::edge::slots::flag;
use crate::edge::subscriptions::{
    FILTERS, FilterEntry, Kind, NEVER_MATCHED, NamedTopic, Subscription,
};
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{AddFilter, HomeId, PartitionCursor, PartitionId, ToHome};
use crate::notice::Refusal;
use crate::settings::LagPolicy;
use crate::topic::Filter;
use stdx::blocks::List;
use stdx::chunk::Slice;
use wire::native::ErrorCode;

impl Edge {
    /// One more subscription to a filter; how many the connection has. They are counted only where
    /// fewer are allowed than subscriptions in all.
    fn hold_filter(&mut self, index: ConnIndex) -> u32 {
        let limits = &self.settings.limits;
        if limits.filters_per_session_max >= limits.subscriptions_per_session_max {
            return 0;
        }
        let held = self.subscriptions.filters_held.entry(index).or_default();
        *held += 1;
        *held
    }

    fn release_filter(&mut self, index: ConnIndex) {
        if let Some(held) = self.subscriptions.filters_held.get_mut(&index) {
            *held -= 1;
            if *held == 0 {
                self.subscriptions.filters_held.remove(&index);
            }
        }
    }

    /// Asks for a filter with wildcards, live but in the partitions for which it comes with a
    /// cursor. Without a policy of its own the rules have one. Answered by
    /// `tell_subscribed_filters` or `tell_refused`; none if it is refused at once.
    pub(crate) fn subscribe_filter(
        &mut self,
        index: ConnIndex,
        filter: Filter<'_>,
        client: u32,
        since: &[PartitionCursor],
        fail_on_gap: bool,
        policy: Option<LagPolicy>,
    ) -> Option<u32> {
        let kind = match fail_on_gap {
            true => Kind::FilterWithoutGap,
            false => Kind::Filter,
        };
        let policy = policy.unwrap_or_else(|| self.settings.policy_of(filter));
        let subscription = self.insert_subscription(index, client, 0, kind, policy);
        let held = self.hold_filter(index);
        let limits = &self.settings.limits;
        if filter.levels_count() > limits.filter_levels_max as usize {
            let limit = u64::from(limits.filter_levels_max);
            self.refused(
                subscription,
                Refusal { limit: Some(limit), ..Refusal::of(ErrorCode::FilterTooWide) },
            );
            return None;
        }
        if held > limits.filters_per_session_max {
            self.statistics.turned_away.filters_too_many += 1;
            let limit = u64::from(limits.filters_per_session_max);
            self.refused(
                subscription,
                Refusal { limit: Some(limit), ..Refusal::of(ErrorCode::TooManyFilters) },
            );
            return None;
        }
        let known = self.subscriptions.filters.get(filter).copied();
        if known.is_some_and(|id| self.holds_filter(index, id)) {
            self.refused(subscription, Refusal::of(ErrorCode::AlreadySubscribed));
            return None;
        }
        let id = match known {
            Some(id) => id,
            None if self.subscriptions.filter_entries.len()
                >= limits.filters_per_shard_max as usize =>
            {
                let limit = u64::from(limits.filters_per_shard_max);
                self.refused(
                    subscription,
                    Refusal { limit: Some(limit), ..Refusal::of(ErrorCode::FiltersFull) },
                );
                return None;
            }
            None => self.add_filter(filter),
        };
        let entry = &mut self.subscriptions.filter_entries[id];
        let position = entry.members.len() as u32;
        self.subscriptions.members.push(&mut entry.members, subscription);
        let name = entry.name.clone();
        self.subscriptions.table[subscription].topic = id;
        self.set_list_position(subscription, position);
        self.note_if_large(subscription);
        self.expect_grants(subscription, fail_on_gap);
        let key = self.subscription_key(subscription);
        let user = self.user_hash(index);
        for home in 0..self.settings.homes_count {
            let is_theirs = |cursor: &&PartitionCursor| {
                let partition = cursor.partition;
                self.settings.home_of(partition) == home
            };
            let since = since.iter().filter(is_theirs).copied().collect();
            self.request(
                home,
                ToHome::AddFilter(AddFilter {
                    user,
                    filter: name.clone(),
                    subscription: key,
                    since,
                }),
            );
        }
        Some(subscription)
    }

    /// Whether the connection has a subscription to the filter.
    fn holds_filter(&self, index: ConnIndex, id: u32) -> bool {
        if self.connections.slots[index].is(flag::LARGE) {
            return self.subscriptions.large.of_topic(index, FILTERS, id).is_some();
        }
        let members = &self.subscriptions.filter_entries[id].members;
        if members.len() < self.connections.slots[index].subscriptions_count as usize {
            return self
                .subscriptions
                .members
                .iter(members)
                .any(|other| self.subscriptions.table[other].connection == index);
        }
        self.chain(index).any(|other| {
            let entry = &self.subscriptions.table[other];
            entry.is_filter() && entry.topic == id
        })
    }

    fn add_filter(&mut self, filter: Filter<'_>) -> u32 {
        let id = self.subscriptions.filter_entries.insert(FilterEntry {
            // Of its own: a part of an area would keep all of that for as long as the filter lives.
            name: Slice::copy_of(filter.as_str().as_bytes()),
            members: List::new(),
        });
        self.subscriptions.filters.insert(filter, id);
        self.subscriptions.filters_version += 1;
        id
    }

    /// The filter of a subscription.
    pub(crate) fn filter_name(&self, subscription: SubIndex) -> Option<&str> {
        let filter = self.subscriptions.table[subscription].topic;
        let name = &self.subscriptions.filter_entries.get(filter)?.name;
        std::str::from_utf8(name).ok()
    }

    /// Takes a subscription out of its filter; the last one takes the filter with it.
    pub(crate) fn drop_filter_subscription(
        &mut self,
        subscription: SubIndex,
        entry: &Subscription,
    ) {
        self.release_filter(entry.connection);
        let Some(filter) = self.subscriptions.filter_entries.get_mut(entry.topic) else {
            return;
        };
        let position = Self::list_position(entry);
        debug_assert_eq!(
            self.subscriptions.members.get(&filter.members, position),
            Some(subscription)
        );
        if let Some(moved) =
            self.subscriptions.members.swap_remove_at(&mut filter.members, position)
        {
            self.set_list_position(moved, position as u32);
        }
        if !self.subscriptions.filter_entries[entry.topic].members.is_empty() {
            return;
        }
        let Some(filter) = self.subscriptions.filter_entries.remove(entry.topic) else {
            return;
        };
        if let Ok(parsed) = Filter::parse(std::str::from_utf8(&filter.name).unwrap_or_default()) {
            self.subscriptions.filters.remove(parsed);
        }
        self.subscriptions.filters_version += 1;
        for home in 0..self.settings.homes_count {
            self.request(home, ToHome::RemoveFilter { filter: filter.name.clone() });
        }
    }

    /// A home names a topic that filters of this edge match.
    pub(crate) fn announced(
        &mut self,
        home: HomeId,
        index: ConnIndex,
        partition: PartitionId,
        name: Slice,
    ) {
        let topic = self.subscriptions.topics[usize::from(home)].at(index);
        topic.partition = partition;
        if topic.named == 0 {
            let named = NamedTopic { name, version: NEVER_MATCHED, filters: Vec::new() };
            self.subscriptions.named_bytes += named.owned_bytes();
            topic.named = self.subscriptions.named.insert(named) + 1;
        }
    }

    /// Finds which filters match, if the set of filters has changed since.
    pub(crate) fn match_named(&mut self, named: u32) {
        let topic = &mut self.subscriptions.named[named];
        if topic.version != self.subscriptions.filters_version {
            topic.version = self.subscriptions.filters_version;
            self.subscriptions.named_bytes -= topic.owned_bytes();
            topic.filters.clear();
            let name = std::str::from_utf8(&topic.name).unwrap_or_default();
            let filters = &mut topic.filters;
            self.subscriptions.filters.matches(name, &mut |&filter| filters.push(filter));
            self.subscriptions.named_bytes += topic.owned_bytes();
        }
    }
}
