//! Topics that an edge has interest in, by the indexes that their homes gave to it. Names stay at
//! home.

use crate::ids::TopicIndex;
use crate::mail::PartitionId;
use stdx::blocks::List;
use stdx::handing::Hand;
use stdx::pages::Pages;

/// A topic that this edge has interest in.
#[derive(Default, Hand)]
pub(crate) struct Topic {
    /// Plain subscriptions.
    pub subscribers: List,
    /// The newest grant's; 0 when there was none.
    pub generation: u32,
    pub partition: PartitionId,
    /// One more than the handle of its name, once a filter has brought it; 0 without.
    pub named: u32,
}

const _: () = assert!(size_of::<Topic>() <= 24);

/// Topics of one home, by index; grows by pages.
#[derive(Default, Hand)]
pub(crate) struct Topics {
    topics: Pages<Topic, PAGE>,
}

const PAGE: usize = 256;

impl Topics {
    /// The topic at an index that the home has given.
    pub fn at(&mut self, index: TopicIndex) -> &mut Topic {
        self.topics.grow_to(index, Topic::default);
        &mut self.topics[index]
    }

    /// The topic, if the index was ever given.
    pub fn get(&self, index: TopicIndex) -> Option<&Topic> {
        self.topics.get(index)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Topic)> {
        (0..).zip(self.topics.iter_mut())
    }

    /// Bytes touched.
    pub fn memory_bytes(&self) -> usize {
        self.topics.memory_bytes()
    }
}
