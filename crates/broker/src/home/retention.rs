//! Retention: room for new records, expired records, records that the disk has dropped; and the
//! release of topics.
//!
//! Of a log in memory, an evicted segment takes its records away for good. Of a log on disk it only
//! leaves the cache; records are gone when the log thread has reported it too
//! ([`Home::raise_floors`]).

use super::Home;
use super::partitions::{HomePartition, Share};
use super::topics::NONE;
use super::turn::Turn;
use crate::mail::PartitionId;
use stdx::chunk::Slice;

/// Topics that one call of [`Home::pump`] examines after the disk has dropped records of them.
const PUMP_FORGETS_MAX: usize = 1024;

impl Home {
    /// Evicts until so many more bytes fit into the memory of a log. False, and everything that
    /// could go has gone or nothing has, if they never will.
    pub(super) fn make_room(&mut self, share: usize, needed: u64, turn: &mut Turn<'_>) -> bool {
        if needed > self.shares[share].bytes_max {
            return false;
        }
        while self.shares[share].bytes + needed > self.shares[share].bytes_max {
            if !self.evict_oldest(share, turn) {
                return false;
            }
        }
        true
    }

    /// Memory that the segments of a log take here.
    pub(super) fn allocated_bytes(&self, share: usize) -> u64 {
        let partitions = self.shares[share].partitions.clone();
        let logs = partitions.map(|local| &self.partitions[local as usize].log);
        logs.map(|log| log.allocated_bytes() as u64).sum()
    }

    /// Evicts the segment of a log that has been quiet for longest. False if there is none.
    pub(super) fn evict_oldest(&mut self, share: usize, turn: &mut Turn<'_>) -> bool {
        let age_of = |local: &u32| self.partitions[*local as usize].ages.front().copied();
        let oldest = self.shares[share]
            .partitions
            .clone()
            .filter_map(|local| Some((age_of(&local)?, local)))
            .min();
        oldest.is_some_and(|(_, local)| self.evict_segment(local, turn))
    }

    pub(super) fn evict_segment(&mut self, local: u32, turn: &mut Turn<'_>) -> bool {
        let partition = &mut self.partitions[local as usize];
        let Some(evicted) = partition.log.evict_oldest_segment(turn.memory) else {
            return false;
        };
        partition.ages.pop_front();
        if let Some(engine) = partition.engine.as_deref_mut() {
            engine.evicted(evicted.last);
        }
        self.shares[partition.share].bytes -= evicted.bytes as u64;
        if !partition.has_disk {
            self.dedup.evicted(local, evicted.last);
            self.statistics.evicted_segments += 1;
            self.statistics.evicted_records += evicted.last - evicted.first + 1;
        }
        for topic in evicted.topics() {
            self.forget_if_idle(topic, turn);
        }
        true
    }

    /// Evicts expired records, at most `segments_max` segments. True if there is more.
    pub(super) fn evict_expired(&mut self, segments_max: usize, turn: &mut Turn<'_>) -> bool {
        if self.elapsed.ms < self.expiry_ms {
            return false;
        }
        let mut left = segments_max;
        let mut soonest_ms = u64::MAX;
        for local in 0..self.partitions.len() as u32 {
            while let Some(expiry) = expiry_of(&self.partitions[local as usize], &self.shares) {
                if expiry > self.elapsed.ms {
                    soonest_ms = soonest_ms.min(expiry);
                    break;
                }
                if left == 0 {
                    return true;
                }
                left -= 1;
                self.evict_segment(local, turn);
            }
        }
        self.expiry_ms = soonest_ms;
        false
    }
    /// Forgets a topic without subscribers by name and without records.
    pub(super) fn forget_if_idle(&mut self, topic: u32, turn: &mut Turn<'_>) {
        let Some(entry) = self.interests.topics.get(topic) else {
            return;
        };
        let last = entry.last();
        let local = entry.partition as usize;
        let partition = &self.partitions[local];
        let is_kept = entry.retained != NONE
            || last >= partition.floor()
            || self.shares[partition.share].is_staged(topic);
        if is_kept || self.interests.is_subscribed(topic) {
            return;
        }
        self.interests.drop_all(topic, turn.out);
        self.interests.topics.remove(topic);
        let partition = &mut self.partitions[local];
        partition.forgotten_through = partition.forgotten_through.max(last);
        self.statistics.forgotten += 1;
    }

    /// The disk has dropped records: below these floors there is nothing any more, and these topics
    /// may have none left.
    pub(super) fn raise_floors(
        &mut self,
        floors: Vec<(PartitionId, u64)>,
        topics: Vec<(PartitionId, Slice)>,
    ) {
        for (partition, floor) in floors {
            if let Some(local) = self.local(partition) {
                let partition = &mut self.partitions[local as usize];
                partition.disk_floor = partition.disk_floor.max(floor);
                let engine = partition.engine.as_deref_mut();
                if let Some(found) = engine.and_then(|engine| engine.found.as_deref_mut()) {
                    found.raise_floor(floor);
                }
                self.dedup.evicted(local, partition.disk_floor - 1);
            }
        }
        for (partition, name) in topics {
            if let Some(local) = self.local(partition) {
                self.forgetting.push_back((local, name));
            }
        }
    }

    /// Forgets some of the topics that the disk has nothing of any more. True if there are more.
    pub(super) fn forget_dropped(&mut self, turn: &mut Turn<'_>) -> bool {
        let count = self.forgetting.len().min(PUMP_FORGETS_MAX);
        for _ in 0..count {
            if let Some((local, name)) = self.forgetting.pop_front()
                && let Some(topic) = self.interests.topics.find(&name, local)
            {
                self.forget_if_idle(topic, turn);
            }
        }
        !self.forgetting.is_empty()
    }
}

/// The time at which the oldest segment of a partition is to be evicted; milliseconds of the
/// monotonic clock. None if never for its age.
fn expiry_of(partition: &HomePartition, shares: &[Share]) -> Option<u64> {
    let age_max_ms = shares[partition.share].age_max_ms;
    if age_max_ms == u64::MAX {
        return None;
    }
    let oldest_ms = *partition.ages.front()?;
    Some(oldest_ms.saturating_add(age_max_ms).saturating_add(1))
}
