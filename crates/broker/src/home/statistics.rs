//! What a home counts about itself, for metrics. Plain numbers; nothing per topic.

use crate::mail::Code;

/// Counters since the start and present sizes of one home.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
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

stdx::hand!(struct HomeStatistics {
    topics, topics_bytes, indexes, filters, records, log_bytes, index_bytes, retained, retained_bytes, producers,
    idempotency_keys, dedup_bytes, lagging_streams, published, duplicates, delivered, lagged, refused,
    evicted_segments, evicted_records, forgotten, gaps, stream_gaps, pages_read, histories_read, staged,
    logs_unavailable, logs_stalled, uncached, disk_reads, disk_reads_waiting, pages_waiting,
});

/// What a home refused, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
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

stdx::hand!(struct HomeRefusals {
    topics_full, filters_full, retained_full, log_full, memory_full, message_too_large, producers_full, fenced,
    out_of_order, epoch_mismatch, log_unavailable, rate_limited, other,
});

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

impl std::ops::AddAssign for HomeStatistics {
    fn add_assign(&mut self, other: HomeStatistics) {
        self.topics += other.topics;
        self.topics_bytes += other.topics_bytes;
        self.indexes += other.indexes;
        self.filters += other.filters;
        self.records += other.records;
        self.log_bytes += other.log_bytes;
        self.index_bytes += other.index_bytes;
        self.retained += other.retained;
        self.retained_bytes += other.retained_bytes;
        self.producers += other.producers;
        self.idempotency_keys += other.idempotency_keys;
        self.dedup_bytes += other.dedup_bytes;
        self.lagging_streams += other.lagging_streams;
        self.published += other.published;
        self.duplicates += other.duplicates;
        self.delivered += other.delivered;
        self.lagged += other.lagged;
        self.refused += other.refused;
        self.evicted_segments += other.evicted_segments;
        self.evicted_records += other.evicted_records;
        self.forgotten += other.forgotten;
        self.gaps += other.gaps;
        self.stream_gaps += other.stream_gaps;
        self.pages_read += other.pages_read;
        self.histories_read += other.histories_read;
        self.staged += other.staged;
        self.logs_unavailable += other.logs_unavailable;
        self.logs_stalled += other.logs_stalled;
        self.uncached += other.uncached;
        self.disk_reads += other.disk_reads;
        self.disk_reads_waiting += other.disk_reads_waiting;
        self.pages_waiting += other.pages_waiting;
    }
}

impl std::ops::AddAssign for HomeRefusals {
    fn add_assign(&mut self, other: HomeRefusals) {
        self.topics_full += other.topics_full;
        self.filters_full += other.filters_full;
        self.retained_full += other.retained_full;
        self.log_full += other.log_full;
        self.log_unavailable += other.log_unavailable;
        self.memory_full += other.memory_full;
        self.message_too_large += other.message_too_large;
        self.producers_full += other.producers_full;
        self.fenced += other.fenced;
        self.out_of_order += other.out_of_order;
        self.epoch_mismatch += other.epoch_mismatch;
        self.rate_limited += other.rate_limited;
        self.other += other.other;
    }
}
