//! Filters of an edge: a trie of them, and for each topic that homes have announced, which of them
//! match.
//!
//! Step 8 of the path. Invariants: every subscription asks every home, which answers with its start
//! in each partition, and is open when all have answered; the last subscription to a filter takes
//! the filter back from all homes; the filters of a topic are matched again only when the set of
//! filters has changed. `catch_up` has everything that is not simply live.

use super::large::FILTERS;
use super::{Slot, Stage, Subscription, Subscriptions, Unused};
use crate::filters::FilterTrie;
use crate::ids::{ConnIndex, SubIndex, TopicIndex};
use crate::mail::{HomeId, PartitionId};
use crate::protocol::flag;
use crate::settings::Limits;
use crate::topic::Filter;
use std::collections::BTreeMap;
use stdx::blocks::{List, ListPool};
use stdx::chunk::Slice;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;
use stdx::names::{Name, NameText, Names};
use stdx::slab::Slab;

/// A filter in the edge's table.
pub(crate) type FilterIndex = u32;
/// A topic's name in the edge's table.
pub(crate) type MatchedIndex = u32;

/// One filter with its subscriptions.
#[derive(Hand)]
pub(super) struct FilterEntry {
    pub name: Slice,
    pub members: List,
}

/// A topic that some home has announced to this edge.
#[derive(Hand)]
struct MatchedTopic {
    name: Name,
    /// The version of the set of filters that `filters` was found with.
    version: u32,
    /// Filters of this edge that match.
    filters: List,
}

const _: () = assert!(Slab::<MatchedTopic>::ENTRY_BYTES == 16);

/// In place of a version.
const NEVER_MATCHED: u32 = 0;

/// The filters of an edge, and the topics that they match.
#[derive(Hand)]
pub(super) struct Filters {
    trie: FilterTrie<FilterIndex>,
    pub(super) entries: Slab<FilterEntry>,
    /// Rises with every change of the set; never [`NEVER_MATCHED`].
    version: u32,
    /// Subscriptions to filters by connection, where these have a bound of their own.
    held: BTreeMap<ConnIndex, u32>,
    matched: Slab<MatchedTopic>,
    /// The filters of each.
    matches: ListPool,
    names: Names,
    /// Messages to filters so far.
    messages: u64,
    /// The number of the newest frame for filters, by which a connection gets it once.
    serial: u32,
}

impl Filters {
    pub fn new() -> Filters {
        Filters {
            trie: FilterTrie::default(),
            entries: Slab::new(),
            version: NEVER_MATCHED + 1,
            held: BTreeMap::new(),
            matched: Slab::new(),
            matches: ListPool::new(),
            names: Names::new(),
            messages: 0,
            serial: 0,
        }
    }

    pub fn begin_serial_at(&mut self, value: u32) {
        self.serial = value;
    }

    fn memory_bytes(&self) -> usize {
        self.trie.memory_bytes()
            + self.entries.memory_bytes()
            + self.matched.memory_bytes()
            + self.matches.memory_bytes()
            + self.names.memory_bytes()
            + tree_bytes(self.held.len(), size_of::<(ConnIndex, u32)>())
    }

    fn add(&mut self, filter: Filter<'_>) -> FilterIndex {
        let at = self.entries.insert(FilterEntry {
            // Of its own: a part of an area would keep all of that for as long as the filter lives.
            name: Slice::copy_of(filter.as_str().as_bytes()),
            members: List::new(),
        });
        self.trie.insert(filter, at);
        self.change();
        at
    }

    /// Takes a filter without members away.
    fn remove(&mut self, at: FilterIndex) -> Option<Slice> {
        let filter = self.entries.remove(at)?;
        if let Ok(parsed) = Filter::parse(std::str::from_utf8(&filter.name).unwrap_or_default()) {
            self.trie.remove(parsed);
        }
        self.change();
        Some(filter.name)
    }

    fn change(&mut self) {
        self.version = self.version.wrapping_add(1);
        if self.version == NEVER_MATCHED {
            // The versions of long ago come again.
            for place in 0..self.matched.places() {
                if let Some(topic) = self.matched.get_mut(place) {
                    topic.version = NEVER_MATCHED;
                }
            }
            self.version += 1;
        }
    }

    fn hold(&mut self, index: ConnIndex, limits: &Limits) -> u32 {
        if limits.filters_per_session_max >= limits.subscriptions_per_session_max {
            return 0;
        }
        let held = self.held.entry(index).or_default();
        *held += 1;
        *held
    }

    fn release(&mut self, index: ConnIndex) {
        if let Some(held) = self.held.get_mut(&index) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&index);
            }
        }
    }

    /// Finds which filters match, if the set of filters has changed since.
    fn match_topic(&mut self, matched: MatchedIndex) {
        let topic = &mut self.matched[matched];
        if topic.version != self.version {
            topic.version = self.version;
            self.matches.clear(&mut topic.filters);
            let name = std::str::from_utf8(self.names.get(topic.name)).unwrap_or_default();
            let (matches, filters) = (&mut self.matches, &mut topic.filters);
            self.trie.matches(name, &mut |&filter| matches.push(filters, filter));
        }
    }

    /// The name of a topic.
    pub fn name_of_matched(&self, matched: MatchedIndex) -> Option<NameText> {
        self.matched.get(matched).map(|topic| self.names.text(topic.name))
    }

    /// The topic that had the name is released.
    pub fn release_matched(&mut self, matched: MatchedIndex) {
        if let Some(mut matched) = self.matched.remove(matched) {
            self.matches.clear(&mut matched.filters);
            self.names.remove(matched.name);
        }
    }

    /// Subscriptions that match a topic by filter.
    pub fn members_count(&self, matched: MatchedIndex) -> usize {
        let filters = self.matched.get(matched).into_iter();
        let filters = filters.flat_map(|matched| self.matches.iter(&matched.filters));
        let entries = filters.filter_map(|filter| self.entries.get(filter));
        entries.map(|filter| filter.members.len()).sum()
    }

    fn takers(&self, matched: MatchedIndex, members: &ListPool, takers: &mut Vec<SubIndex>) {
        for filter in self.matches.iter(&self.matched[matched].filters) {
            if let Some(filter) = self.entries.get(filter) {
                takers.extend(members.iter(&filter.members).map(SubIndex));
            }
        }
    }
}

/// The reason of an immediate refusal of a subscription to a filter.
pub(crate) enum FilterRefusal {
    /// The connection has it already.
    AlreadySubscribed,
    /// The edge holds as many filters as it may.
    EdgeIsFull,
}

impl Subscriptions {
    /// Enters a new subscription in its filter's list; the filter's name is for all homes.
    pub fn join_filter(
        &mut self,
        subscription: SubIndex,
        slot: &mut Slot,
        filter: Filter<'_>,
        limits: &Limits,
    ) -> Result<Slice, FilterRefusal> {
        let index = self.table[subscription.0].connection;
        let known = self.filters.trie.get(filter).copied();
        if known.is_some_and(|at| self.holds_filter(index, slot, at)) {
            return Err(FilterRefusal::AlreadySubscribed);
        }
        let at = match known {
            Some(at) => at,
            None if self.filters.entries.len() >= limits.filters_per_shard_max as usize => {
                return Err(FilterRefusal::EdgeIsFull);
            }
            None => self.filters.add(filter),
        };
        let filter = &mut self.filters.entries[at];
        let entry = &mut self.table[subscription.0];
        entry.position = filter.members.len() as u32;
        entry.target = at;
        self.members.push(&mut filter.members, subscription.0);
        let name = filter.name.clone();
        self.note_if_large(slot, subscription);
        Ok(name)
    }

    /// Counts a new subscription to a filter for its connection until it is removed; how many the
    /// connection has. They are counted only where fewer are allowed than subscriptions in all.
    pub fn count_filter(&mut self, index: ConnIndex, limits: &Limits) -> u32 {
        self.filters.hold(index, limits)
    }

    /// The connection's subscription to a filter with wildcards.
    pub fn find_filter(
        &self,
        index: ConnIndex,
        slot: &Slot,
        filter: Filter<'_>,
    ) -> Option<SubIndex> {
        let at = self.filters.trie.get(filter).copied()?;
        if slot.is(flag::LARGE) {
            return self.large.of_topic(index, FILTERS, at);
        }
        self.chain(slot.subscriptions).find(|other| self.table[other.0].filter() == Some(at))
    }

    /// Whether the connection has a subscription to the filter.
    fn holds_filter(&self, index: ConnIndex, slot: &Slot, filter: FilterIndex) -> bool {
        if slot.is(flag::LARGE) {
            return self.large.of_topic(index, FILTERS, filter).is_some();
        }
        let members = &self.filters.entries[filter].members;
        if members.len() < slot.subscriptions_count as usize {
            return self.members.iter(members).any(|other| self.table[other].connection == index);
        }
        self.chain(slot.subscriptions).any(|other| self.table[other.0].filter() == Some(filter))
    }

    /// Takes a removed subscription out of its filter; the last one takes the filter with it.
    pub(super) fn leave_filter(
        &mut self,
        subscription: SubIndex,
        entry: &Subscription,
    ) -> Option<Unused> {
        self.filters.release(entry.connection);
        let at = entry.filter()?;
        let filter = self.filters.entries.get_mut(at)?;
        let position = entry.position as usize;
        debug_assert_eq!(self.members.get(&filter.members, position), Some(subscription.0));
        if let Some(moved) = self.members.swap_remove_at(&mut filter.members, position) {
            self.table[moved].position = entry.position;
        }
        let is_unused = filter.members.is_empty();
        is_unused.then(|| self.filters.remove(at)).flatten().map(Unused::Filter)
    }

    /// Whether the edge has filters, and so positions to send.
    pub fn has_filters(&self) -> bool {
        !self.filters.entries.is_empty()
    }

    /// The number of filters of the edge.
    pub fn filters_count(&self) -> usize {
        self.filters.entries.len()
    }

    /// The name of a subscription's filter.
    pub fn filter_name(&self, subscription: SubIndex) -> Option<&str> {
        let filter = self.table[subscription.0].filter()?;
        std::str::from_utf8(&self.filters.entries.get(filter)?.name).ok()
    }

    /// A home names a topic that filters of this edge match.
    pub fn announce(
        &mut self,
        home: HomeId,
        index: TopicIndex,
        partition: PartitionId,
        name: &[u8],
    ) {
        let topic = self.topics[usize::from(home)].at(index);
        topic.partition = partition;
        if topic.matched == 0
            && let Some(name) = self.filters.names.insert(name)
        {
            let matched = MatchedTopic { name, version: NEVER_MATCHED, filters: List::new() };
            topic.matched = self.filters.matched.insert(matched) + 1;
        }
    }

    /// A message has come for filters: appends the subscriptions that match its topic. The topic's
    /// name.
    #[inline]
    pub fn takers_by_filter(
        &mut self,
        matched: MatchedIndex,
        takers: &mut Vec<SubIndex>,
    ) -> NameText {
        self.filters.match_topic(matched);
        self.filters.messages += 1;
        self.filters.serial = self.next_serial();
        self.filters.takers(matched, &self.members, takers);
        self.filters.names.text(self.filters.matched[matched].name)
    }

    /// The number of the next message for filters. Odd numbers for connections that have it, even
    /// ones for those where each subscription gets its own.
    #[inline]
    pub fn next_serial(&self) -> u32 {
        (self.filters.serial.wrapping_add(2) | 1).max(3)
    }

    /// The number of the newest message for filters, by which a connection gets it once.
    #[inline]
    pub fn serial(&self) -> u32 {
        self.filters.serial
    }

    /// The number of messages for filters so far.
    #[inline]
    pub fn messages_by_filter(&self) -> u64 {
        self.filters.messages
    }

    /// A subscription to a filter is open: it takes messages from the next one on.
    pub(super) fn open_filter(&mut self, subscription: SubIndex) {
        let entry = &mut self.table[subscription.0];
        entry.stage = Stage::ByFilter;
        entry.set_cursor(self.filters.messages);
    }

    /// All subscriptions to filters.
    pub fn all_by_filter(&self) -> Vec<SubIndex> {
        let entries = self.filters.entries.iter();
        entries.flat_map(|(_, entry)| self.members.iter(&entry.members).map(SubIndex)).collect()
    }

    /// The bytes of filters, of the topics that they match and of their cursors.
    pub fn filters_bytes(&self) -> usize {
        self.filters.memory_bytes() + self.catch_up.memory_bytes()
    }
}
