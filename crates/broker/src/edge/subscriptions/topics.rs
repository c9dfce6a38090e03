//! Topics that an edge has interest in, by the indexes that their homes gave to it. Names stay at
//! home.

use super::Subscriptions;
use super::filters::MatchedIndex;
use crate::ids::{ConnIndex, SubIndex, TopicIndex};
use crate::mail::{HomeId, PartitionId};
use stdx::blocks::List;
use stdx::handing::Hand;
use stdx::names::NameText;
use stdx::pages::Pages;

/// A topic that this edge has interest in.
#[derive(Default, Hand)]
pub(super) struct Topic {
    /// Plain subscriptions.
    pub subscribers: List,
    /// The newest grant's; 0 when there was none.
    pub generation: u32,
    pub partition: PartitionId,
    /// One more than the handle of its name, once a filter has brought it; 0 without.
    pub matched: u32,
}

const _: () = assert!(size_of::<Topic>() <= 24);

impl Topic {
    /// The handle of its name, once a filter has brought it.
    #[inline]
    pub fn name(&self) -> Option<MatchedIndex> {
        self.matched.checked_sub(1)
    }
}

/// Topics of one home, by index; grows by pages.
#[derive(Default, Hand)]
pub(super) struct Topics {
    topics: Pages<Topic, PAGE>,
}

const PAGE: usize = 256;

impl Topics {
    /// The topic at an index that the home has given.
    #[inline]
    pub fn at(&mut self, index: TopicIndex) -> &mut Topic {
        self.topics.grow_to(index.0, Topic::default);
        &mut self.topics[index.0]
    }

    /// The topic, if the index was ever given.
    pub fn get(&self, index: TopicIndex) -> Option<&Topic> {
        self.topics.get(index.0)
    }

    /// Asks for the memory of a topic; see [`stdx::prefetch`].
    #[inline]
    pub fn prefetch(&self, index: TopicIndex) {
        self.topics.prefetch(index.0);
    }

    pub fn iter(&self) -> impl Iterator<Item = &Topic> {
        self.topics.iter()
    }

    /// Bytes in use.
    pub fn memory_bytes(&self) -> usize {
        self.topics.memory_bytes()
    }
}

/// Subscriptions that take a live message of a topic.
pub(crate) struct Takers {
    /// The only plain subscription, if there is just one.
    pub single: Option<SubIndex>,
    /// The topic's name, if filters may match it.
    pub by_filter: Option<MatchedIndex>,
    pub partition: PartitionId,
}

impl Subscriptions {
    /// The subscriptions that take a message of a topic. Several plain subscriptions are appended
    /// to `several`.
    #[inline]
    pub fn takers(
        &mut self,
        home: HomeId,
        index: TopicIndex,
        several: &mut Vec<SubIndex>,
    ) -> Takers {
        let topic = self.topics[usize::from(home)].at(index);
        let mut single = None;
        match topic.subscribers.len() {
            0 => {}
            1 => single = self.members.first(&topic.subscribers).map(SubIndex),
            _ => several.extend(self.members.iter(&topic.subscribers).map(SubIndex)),
        }
        Takers { single, by_filter: topic.name(), partition: topic.partition }
    }

    /// Asks for the memory of a topic; see [`stdx::prefetch`].
    #[inline]
    pub fn prefetch_topic(&self, home: HomeId, index: TopicIndex) {
        if let Some(topics) = self.topics.get(usize::from(home)) {
            topics.prefetch(index);
        }
    }

    /// Asks for the memory of a topic's only plain subscription, and returns it;
    /// [`SubIndex::NONE`] for other topics.
    #[inline]
    pub fn prefetch_only_taker(&self, home: HomeId, index: TopicIndex) -> SubIndex {
        let topic = self.topics.get(usize::from(home)).and_then(|topics| topics.get(index));
        let subscribers = topic.map(|topic| &topic.subscribers).filter(|list| list.len() == 1);
        let only = subscribers.and_then(|subscribers| self.members.first(subscribers));
        only.iter().for_each(|only| self.table.prefetch(*only));
        only.map_or(SubIndex::NONE, SubIndex)
    }

    /// The connection of a subscription, if there is such a one.
    #[inline]
    pub fn connection_of(&self, subscription: SubIndex) -> Option<ConnIndex> {
        self.table.get(subscription.0).map(|entry| entry.connection)
    }

    /// The number of a topic's plain subscriptions, and of those that match it by filter.
    pub fn counts_of_topic(&self, home: HomeId, index: TopicIndex) -> (u32, u32) {
        let topics = self.topics.get(usize::from(home));
        let Some(topic) = topics.and_then(|topics| topics.get(index)) else {
            return (0, 0);
        };
        let by_filter = topic.name().map_or(0, |matched| self.filters.members_count(matched));
        (topic.subscribers.len() as u32, by_filter as u32)
    }

    /// The partition of a topic of this edge.
    pub fn partition_of_topic(&mut self, home: HomeId, index: TopicIndex) -> PartitionId {
        self.topics[usize::from(home)].at(index).partition
    }

    /// The partition of a plain subscription's topic; none before the grant.
    pub fn partition_of(&self, subscription: SubIndex) -> Option<PartitionId> {
        let (home, index) = self.table[subscription.0].topic()?;
        self.topics[usize::from(home)].get(index).map(|topic| topic.partition)
    }

    /// The newest grant's generation, if the topic has no plain subscription: it is to be released.
    pub fn unused_generation(&mut self, home: HomeId, index: TopicIndex) -> Option<u32> {
        let topic = self.topics[usize::from(home)].at(index);
        topic.subscribers.is_empty().then_some(topic.generation)
    }

    /// The name of a topic, where the edge has it: filters or sessions of MQTT have brought it.
    pub fn name_of_topic(&self, home: HomeId, index: TopicIndex) -> Option<NameText> {
        let topic = self.topics.get(usize::from(home))?.get(index)?;
        self.filters.name_of_matched(topic.name()?)
    }

    /// The home has taken the index back.
    pub fn release_topic(&mut self, home: HomeId, index: TopicIndex) {
        let topic = std::mem::take(self.topics[usize::from(home)].at(index));
        debug_assert!(topic.subscribers.is_empty(), "a home releases what the edge has released");
        if let Some(matched) = topic.name() {
            self.filters.release_matched(matched);
        }
    }

    /// The bytes of all topics.
    pub fn topics_bytes(&self) -> usize {
        self.topics.iter().map(|topics| topics.memory_bytes()).sum()
    }
}
