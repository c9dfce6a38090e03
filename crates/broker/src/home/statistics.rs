//! What a home counts about itself, for metrics. Plain numbers; nothing per topic.

use super::{Home, Interests};
use crate::mail::Code;
use stdx::Counters;
use stdx::handing::Hand;

/// Counters since the start and present sizes of one home.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Hand, Counters)]
pub struct HomeStatistics {
    /// Topics known.
    pub topics: u64,
    /// Bytes of names, topic entries and their hash slots.
    pub topics_bytes: u64,
    /// Indexes that edges hold.
    pub indexes: u64,
    /// Filters known.
    pub filters: u64,
    /// Records present in the logs.
    pub records: u64,
    /// Bytes of records present, with the headers of their segments.
    pub log_bytes: u64,
    /// Bytes of the indexes of segments.
    pub index_bytes: u64,
    /// Retained messages.
    pub retained: u64,
    /// Bytes of retained messages.
    pub retained_bytes: u64,
    /// Producers remembered, each for every partition that it publishes to.
    pub producers: u64,
    /// Idempotency keys remembered.
    pub idempotency_keys: u64,
    /// Bytes of what is remembered of both.
    pub dedup_bytes: u64,
    /// Streams (partition, edge) that are being read from the log.
    pub lagging_streams: u64,
    /// Messages appended.
    pub published: u64,
    /// Publications that had been appended before, answered with their first position.
    pub duplicates: u64,
    /// Live messages posted to edges.
    pub delivered: u64,
    /// Times that a stream began to lag.
    pub lagged: u64,
    /// Publishes, subscribes and filters refused.
    pub refused: HomeRefusals,
    /// Segments evicted.
    pub evicted_segments: u64,
    /// Records evicted with them.
    pub evicted_records: u64,
    /// Topics forgotten.
    pub forgotten: u64,
    /// Gaps told to subscriptions.
    pub gaps: u64,
    /// Streams that lost records to eviction.
    pub stream_gaps: u64,
    /// Pages read for subscriptions.
    pub pages_read: u64,
    /// Pages of history read.
    pub histories_read: u64,
    /// Publications that wait for a disk.
    pub staged: u64,
    /// Logs on disk that take no publications at present.
    pub logs_unavailable: u64,
    /// Times that a log on disk got nothing done for so long that what needed its disk was refused.
    pub logs_stalled: u64,
    /// Durable records that memory had no room for.
    pub uncached: u64,
    /// Questions to disks.
    pub disk_reads: u64,
    /// Requests that wait for a disk to answer.
    pub disk_reads_waiting: u64,
    /// Pages that wait for their turn.
    pub pages_waiting: u64,
}

/// What a home refused, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Hand, Counters)]
pub struct HomeRefusals {
    /// `topics_max`.
    pub topics_full: u64,
    /// `filters_per_shard_max`.
    pub filters_full: u64,
    /// `retained_bytes_max`.
    pub retained_full: u64,
    /// A record that the log's bounds have no room for.
    pub log_full: u64,
    /// No memory for another segment or name.
    pub memory_full: u64,
    /// `message_bytes_max`.
    pub message_too_large: u64,
    /// `producers_max`.
    pub producers_full: u64,
    /// Publications of a producer that a newer connection had taken over.
    pub fenced: u64,
    /// Publications of a producer below what is remembered of it.
    pub out_of_order: u64,
    /// Publications for another epoch.
    pub epoch_mismatch: u64,
    /// The log's disk takes nothing, or could not be read.
    pub log_unavailable: u64,
    /// `publish_rate_max` of a rule.
    pub rate_limited: u64,
    /// Anything else.
    pub other: u64,
}

impl HomeRefusals {
    pub(super) fn count(&mut self, code: Code) {
        let counter = match code {
            Code::TopicsFull => &mut self.topics_full,
            Code::FiltersFull => &mut self.filters_full,
            Code::RetainedFull => &mut self.retained_full,
            Code::LogFull => &mut self.log_full,
            Code::LogUnavailable => &mut self.log_unavailable,
            Code::MemoryFull => &mut self.memory_full,
            Code::MessageTooLarge => &mut self.message_too_large,
            Code::ProducersFull => &mut self.producers_full,
            Code::ProducerFenced => &mut self.fenced,
            Code::OutOfOrder => &mut self.out_of_order,
            Code::EpochMismatch => &mut self.epoch_mismatch,
            Code::RateLimited => &mut self.rate_limited,
            _ => &mut self.other,
        };
        *counter += 1;
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.topics_full
            + self.filters_full
            + self.retained_full
            + self.log_full
            + self.log_unavailable
            + self.memory_full
            + self.message_too_large
            + self.producers_full
            + self.fenced
            + self.out_of_order
            + self.epoch_mismatch
            + self.rate_limited
            + self.other
    }
}

impl Home {
    /// Counters and present sizes.
    pub fn statistics(&self) -> HomeStatistics {
        let Interests { topics, edges, filters, .. } = &self.interests;
        let logs = || self.partitions.iter().map(|partition| &partition.log);
        let disks = || self.shares.iter().filter_map(|share| share.disk.as_ref());
        let (pages_waiting, disk_reads_waiting) = self.queue.counts();
        HomeStatistics {
            topics: topics.len() as u64,
            topics_bytes: topics.allocated_bytes() as u64,
            indexes: edges.iter().map(|edge| edge.indexes_count() as u64).sum(),
            filters: filters.len() as u64,
            records: logs().map(|log| log.records() as u64).sum(),
            log_bytes: self.shares.iter().map(|share| share.bytes).sum(),
            index_bytes: logs().map(|log| log.index_bytes() as u64).sum(),
            retained: self.retained.len() as u64,
            retained_bytes: self.shares.iter().map(|share| share.retained_bytes).sum(),
            producers: self.dedup.producers_count() as u64,
            idempotency_keys: self.dedup.keys_count() as u64,
            dedup_bytes: self.dedup.allocated_bytes() as u64,
            lagging_streams: edges.iter().map(|edge| edge.lagging.len() as u64).sum(),
            staged: disks().map(|disk| disk.len() as u64).sum(),
            logs_unavailable: disks().filter(|disk| !disk.takes_appends()).count() as u64,
            disk_reads_waiting: disk_reads_waiting as u64,
            pages_waiting: pages_waiting as u64,
            ..self.statistics
        }
    }
}
