//! Streams that have lost records: their live subscriptions continue by pages, which have each gap.
//!
//! Beside the path. An edge does not keep which of its topics lie in a partition, so it examines
//! all topics that it has of a home. A home reports all its streams that have lost records in a row
//! ([`crate::home`]), and the edge examines its topics once for all of them: before the next letter
//! of another kind, or with the flush.

use super::{Stage, Subscriptions};
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{HomeId, PartitionId};
use crate::settings::Settings;
use std::collections::BTreeMap;
use stdx::handing::Hand;

/// Streams that have lost something, and the last offset that they have brought.
#[derive(Default, Hand)]
pub(crate) struct Lost {
    streams: BTreeMap<(HomeId, PartitionId), u64>,
}

impl Lost {
    /// Takes in a loss. Of two in a row the first counts: behind it the stream has gone on, and has
    /// brought nothing before it lost again.
    fn note(&mut self, stream: (HomeId, PartitionId), from: u64) {
        let first = self.streams.entry(stream).or_insert(from);
        *first = from.min(*first);
    }

    /// Partitions whose streams have lost something, and the last offset before.
    pub fn partitions(&self) -> impl Iterator<Item = (PartitionId, u64)> {
        self.streams.iter().map(|(&(_, partition), &from)| (partition, from))
    }
}

impl Subscriptions {
    /// The stream of a partition has lost records after `from`.
    pub fn note_loss(&mut self, home: HomeId, partition: PartitionId, from: u64) {
        self.lost.note((home, partition), from);
    }

    /// Drops all that is known of how far a partition's stream has come.
    pub fn forget_positions(&mut self, partition: PartitionId) {
        self.lost.streams.retain(|(_, of), _| *of != partition);
        self.positions.forget(partition);
    }

    /// Whether a stream has lost something, and it has not been dealt with.
    #[inline]
    pub fn have_losses(&self) -> bool {
        !self.lost.streams.is_empty()
    }

    /// The losses, to be dealt with now.
    pub fn take_losses(&mut self) -> Lost {
        std::mem::take(&mut self.lost)
    }

    /// The subscriptions that take messages of a partition, or are about to: those to its topics
    /// that are granted, and all to filters.
    pub fn in_partition(&self, partition: PartitionId) -> Vec<SubIndex> {
        let topics = self.topics.iter().flat_map(|topics| topics.iter());
        let topics = topics.filter(|topic| topic.partition == partition);
        let plain = topics.flat_map(|topic| self.members.iter(&topic.subscribers).map(SubIndex));
        plain.chain(self.all_by_filter()).collect()
    }

    /// Live subscriptions to topics of streams that have lost something lag from now on, and
    /// recover. Their connections, in order.
    pub fn leave_lost(&mut self, lost: &Lost, settings: &Settings) -> Vec<ConnIndex> {
        let mut concerned: Vec<(SubIndex, u64)> = Vec::new();
        for (home, topics) in (0..).map(HomeId).zip(&self.topics) {
            let mut of_home =
                lost.streams.range((home, PartitionId::MIN)..=(home, PartitionId::MAX));
            if of_home.next().is_none() {
                continue;
            }
            for topic in topics.iter() {
                if let Some(from) = lost.streams.get(&(home, topic.partition)) {
                    let members = self.members.iter(&topic.subscribers);
                    concerned.extend(members.map(|member| (SubIndex(member), *from)));
                }
            }
        }
        concerned.retain(|(subscription, _)| self.table[subscription.0].stage == Stage::Live);
        let connections = concerned.into_iter().map(|(subscription, from)| {
            let entry = &mut self.table[subscription.0];
            // One that resumed on a lagging stream is ahead of it.
            entry.set_cursor(from.max(entry.cursor()));
            let index = entry.connection;
            self.set_lagging(subscription, settings);
            self.recovers(subscription);
            index
        });
        connections.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_losses_in_a_row_the_first_counts() {
        let mut lost = Lost::default();
        let stream = |partition| (HomeId(0), PartitionId(partition));
        for (partition, from) in [(1, 38), (2, 7), (1, 40)] {
            lost.note(stream(partition), from);
        }
        assert_eq!(lost.streams, BTreeMap::from([(stream(1), 38), (stream(2), 7)]));
    }
}
