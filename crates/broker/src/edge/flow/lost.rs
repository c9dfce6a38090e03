//! Streams that have lost records: all that was live there goes on by pages.

use crate::edge::Edge;
use crate::edge::slots::flag;
use crate::edge::subscriptions::{Lost, Stage, note_loss};
use crate::mail::{HomeId, PartitionId};

impl Edge {
    /// The stream of a partition has lost records after `from`.
    pub(crate) fn stream_gap(&mut self, home: HomeId, partition: PartitionId, from: u64) {
        note_loss(&mut self.subscriptions.lost, (home, partition), from);
    }

    /// Has all be read from the log that takes its messages from a stream which has lost some.
    #[cold]
    pub(crate) fn leave_lost_streams(&mut self) {
        let lost = std::mem::take(&mut self.subscriptions.lost);
        let mut concerned = Vec::new();
        for home in 0..self.settings.homes_count {
            let mut of_home = lost.range((home, 0)..=(home, PartitionId::MAX));
            if of_home.next().is_none() {
                continue;
            }
            for (_, topic) in self.subscriptions.topics[usize::from(home)].iter_mut() {
                if let Some(from) = lost.get(&(home, topic.partition)) {
                    let members = self.subscriptions.members.iter(&topic.subscribers);
                    concerned.extend(members.map(|member| (member, *from)));
                }
            }
        }
        for (subscription, from) in concerned {
            let entry = &mut self.subscriptions.table[subscription];
            if entry.stage == Stage::Live {
                // One that resumed on a lagging stream is ahead of it.
                entry.set_cursor(from.max(entry.cursor()));
                let index = entry.connection;
                self.set_lagging(subscription);
                self.recovers(subscription);
                self.connections.slots[index].set(flag::LAGGING);
                self.touch(index);
            }
        }
        self.filters_leave(&lost);
    }

    fn filters_leave(&mut self, lost: &Lost) {
        let members: Vec<u32> = self
            .subscriptions
            .filter_entries
            .iter()
            .flat_map(|(_, entry)| self.subscriptions.members.iter(&entry.members))
            .collect();
        for subscription in members {
            for (&(_, partition), &from) in lost {
                match self.subscriptions.table[subscription].stage {
                    Stage::Pending => self.passed_while_opening(subscription, partition),
                    Stage::Wide if !self.is_behind(subscription, partition) => {
                        self.lag_filter(subscription, partition, from);
                        let (index, member) = self.member_of(subscription);
                        self.filter_recovers(index, member, partition);
                        self.touch(index);
                    }
                    _ => {}
                }
            }
        }
    }
}
