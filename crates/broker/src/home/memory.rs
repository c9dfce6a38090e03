//! The components of a home's memory. A look at each structure and segment, none at each topic.

use super::Home;
use super::partitions::HomePartition;
use stdx::chunk::Slice;
use stdx::memory::{Component, Components, vector_bytes};

impl Home {
    /// Bytes of each component that this home has touched.
    pub fn memory(&self) -> Components {
        let interests = &self.interests;
        let logs = || self.partitions.iter().map(|partition| &partition.log);
        let mut memory = Components::new();
        let indexes = interests.edges.iter().map(|edge| edge.memory_bytes());
        let topics = interests.topics.memory_bytes() + indexes.sum::<usize>();
        memory.add(Component::HomeTopics, topics);
        memory.add(Component::Names, interests.topics.names_bytes());
        memory.add(Component::Filters, interests.filters.memory_bytes());
        memory.add(Component::Log, logs().map(|log| log.bytes()).sum());
        memory.add(Component::LogIndex, logs().map(|log| log.index_bytes()).sum());
        let retained: u64 = self.shares.iter().map(|share| share.retained_bytes).sum();
        let heads = self.retained.len() * Slice::HEAD_BYTES;
        memory.add(Component::Retained, self.retained.memory_bytes() + retained as usize + heads);
        memory.add(Component::PublishOnce, self.dedup.allocated_bytes());
        memory.add(Component::Work, self.work_bytes());
        memory
    }

    fn work_bytes(&self) -> usize {
        let each = self.partitions.iter().map(|partition| {
            size_of_val(&*partition.lag_from) + vector_bytes::<u64>(partition.ages.capacity())
        });
        let engines = self.partitions.iter().filter_map(|partition| partition.engine.as_ref());
        let mirrors = self.shares.iter().filter_map(|share| share.mirror.as_ref());
        let disks = self.shares.iter().filter_map(|share| share.disk.as_ref());
        vector_bytes::<HomePartition>(self.partitions.capacity())
            + each.sum::<usize>()
            + disks.map(|disk| disk.memory_bytes()).sum::<usize>()
            + mirrors.map(|mirror| mirror.memory_bytes()).sum::<usize>()
            + engines.map(|engine| engine.memory_bytes()).sum::<usize>()
            + self.queue.memory_bytes()
            + self.letters.memory_bytes()
            + self.ahead.memory_bytes()
            + self.rates.memory_bytes()
            + self.clients.memory_bytes()
            + self.shared.memory_bytes()
            + self.groups.memory_bytes()
            + vector_bytes::<(u32, Slice)>(self.forgetting.capacity())
    }
}
