//! A home's counters, for metrics. Plain numbers; nothing per topic.

use super::{Home, Interests};
use crate::mail::Code;
use stdx::Counters;
use stdx::handing::Hand;
use stdx::metrics::Metrics;

/// Counters since the start and present sizes of one home.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Hand, Counters, Metrics)]
pub struct HomeStatistics {
    /// Known topics.
    #[metric("crore_topics")]
    pub topics: u64,
    /// Bytes of names, topic entries and their hash slots.
    pub topics_bytes: u64,
    /// Indexes that edges hold.
    pub indexes: u64,
    /// Filters with wildcards known to home shards.
    #[metric("crore_filters")]
    pub filters: u64,
    /// Messages in the logs.
    #[metric("crore_log_records")]
    pub records: u64,
    /// Bytes of records present, with the headers of their segments.
    pub log_bytes: u64,
    /// Bytes of the indexes of segments.
    pub index_bytes: u64,
    /// Retained messages.
    #[metric("crore_retained_messages")]
    pub retained: u64,
    /// Bytes of retained messages.
    pub retained_bytes: u64,
    /// Known producers, counted once for each partition that they publish to.
    #[metric("crore_producers")]
    pub producers: u64,
    /// Known idempotency keys.
    #[metric("crore_idempotency_keys")]
    pub idempotency_keys: u64,
    /// Bytes of both.
    pub dedup_bytes: u64,
    /// Streams between a partition and an I/O thread that are currently read from the log.
    #[metric("crore_streams_lagging")]
    pub lagging_streams: u64,
    /// Messages appended to a log.
    #[metric("crore_messages_appended_total")]
    pub published: u64,
    /// Repeated publications that were already appended; the answer has their first position.
    #[metric("crore_publishes_duplicate_total")]
    pub duplicates: u64,
    /// Live messages that home shards posted to I/O threads.
    #[metric("crore_messages_posted_total")]
    pub delivered: u64,
    /// Times that a stream between a partition and an I/O thread began to lag.
    #[metric("crore_streams_lagged_total")]
    pub lagged: u64,
    /// Publishes, subscribes and filters that a home shard refused.
    #[metric("crore_refusals_total", by = "reason")]
    pub refused: HomeRefusals,
    /// Segments that the logs dropped because of age or size.
    #[metric("crore_log_evicted_segments_total")]
    pub evicted_segments: u64,
    /// Messages that the logs dropped because of age or size.
    #[metric("crore_log_evicted_records_total")]
    pub evicted_records: u64,
    /// Idle topics removed from memory; their positions stay comparable.
    #[metric("crore_topics_forgotten_total")]
    pub forgotten: u64,
    /// Gaps reported to subscriptions.
    pub gaps: u64,
    /// Times that a stream between a partition and an I/O thread lost records to eviction.
    #[metric("crore_stream_gaps_total")]
    pub stream_gaps: u64,
    /// Pages read for subscriptions.
    pub pages_read: u64,
    /// Pages of history read.
    #[metric("crore_histories_total")]
    pub histories_read: u64,
    /// Publications that wait for a disk or for an engine.
    #[metric("crore_publishes_staged")]
    pub staged: u64,
    /// Logs on disk that take no publications at present.
    pub logs_unavailable: u64,
    /// Times that a log on disk made no progress within the stall timeout, so that a home shard
    /// refused requests for its disk.
    #[metric("crore_disk_logs_stalled_total", limit = "log_stall_timeout")]
    pub logs_stalled: u64,
    /// Messages of a log on disk or in an engine that memory had no room for.
    #[metric("crore_log_uncached_total")]
    pub uncached: u64,
    /// Questions to disks.
    pub disk_reads: u64,
    /// Requests that wait for an answer from a disk.
    #[metric("crore_disk_reads_waiting")]
    pub disk_reads_waiting: u64,
    /// Pages and histories that wait for their turn at a home shard.
    #[metric("crore_pages_waiting")]
    pub pages_waiting: u64,
    /// Messages of the engine that home shards received.
    #[metric("crore_engine_received_total")]
    pub tail_records: u64,
    /// Batches of the engine with messages or holes that home shards received.
    #[metric("crore_engine_batches_total")]
    pub tail_letters: u64,
    /// Messages of the engine that are not delivered: repetitions, fenced or out of order.
    #[metric("crore_engine_dropped_total")]
    pub tail_dropped: u64,
    /// Messages of the engine that home shards had no room for; their subscribers received a gap.
    #[metric("crore_engine_lost_total")]
    pub tail_lost: u64,
    /// Retained messages that home shards wrote into the engine again, because the newest message
    /// of their topic in the engine is not delivered.
    #[metric("crore_engine_restorations_total")]
    pub tail_restorations: u64,
    /// Retained messages that home shards did not write again, because too many waited for that: a
    /// node that starts later may retain a message that was not delivered.
    #[metric("crore_engine_unrestored_total")]
    pub tail_unrestored: u64,
    /// Messages of the engine that home shards retained beyond `retained_bytes_max`: other nodes or
    /// producers wrote them.
    #[metric("crore_engine_retained_over_total")]
    pub tail_retained_over: u64,
    /// Retained messages of the engine that home shards had no room for.
    #[metric("crore_engine_unretained_total")]
    pub tail_unretained: u64,
    /// Times that a partition of the engine began at a home shard: first, or anew.
    #[metric("crore_engine_beginnings_total")]
    pub tail_restarts: u64,
    /// Times that a partition of the engine made no progress within the stall timeout, so that a
    /// home shard refused its publications.
    #[metric("crore_engine_stalls_total", limit = "log_stall_timeout")]
    pub tail_stalls: u64,
    /// Times that a home shard dropped its part of a mirror on disk: damaged, full, hung, too far
    /// behind, or of other records than the engine's.
    #[metric("crore_mirrors_lost_total")]
    pub mirrors_lost: u64,
    /// Sessions of MQTT whose clients are away.
    #[metric("crore_mqtt_sessions_sleeping")]
    pub mqtt_sessions_sleeping: u64,
    /// Parts of mirrors on disk that receive no messages at present.
    #[metric("crore_mirrors_closed")]
    pub mirrors_closed: u64,
    /// Partitions of the engine whose publications home shards refuse at present.
    #[metric("crore_engine_partitions_closed")]
    pub partitions_closed: u64,
    /// Publications without a verdict of the engine in time; the answer was `outcome_unknown`.
    #[metric("crore_engine_outcomes_unknown_total")]
    pub outcomes_unknown: u64,
    /// Names of publications that home shards remember, to find repetitions in the engine.
    #[metric("crore_engine_names")]
    pub tail_names: u64,
    /// Requests with positions in the engine that this node had not reached.
    #[metric("crore_engine_positions_ahead_total")]
    pub positions_ahead: u64,
    /// Requests with positions in the engine that this node has not reached yet.
    #[metric("crore_engine_positions_waiting")]
    pub positions_waiting: u64,
}

/// A home's refusals, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Hand, Counters, Metrics)]
pub struct HomeRefusals {
    /// `topics_max`.
    #[metric(limit = "topics_max")]
    pub topics_full: u64,
    /// `filters_per_shard_max`.
    pub filters_full: u64,
    /// `retained_bytes_max`.
    #[metric(limit = "retained_bytes_max")]
    pub retained_full: u64,
    /// A record that the log's bounds have no room for.
    #[metric(limit = "log_bytes_max")]
    pub log_full: u64,
    /// No memory for another segment or name.
    pub memory_full: u64,
    /// `message_bytes_max`.
    pub message_too_large: u64,
    /// `producers_max`.
    #[metric(limit = "producers_max")]
    pub producers_full: u64,
    /// Publications of a producer that a newer connection had taken over.
    pub producer_fenced: u64,
    /// Publications of a producer below its remembered ones.
    pub out_of_order: u64,
    /// Publications for another epoch.
    pub epoch_mismatch: u64,
    /// The log's disk takes nothing, or could not be read.
    pub log_unavailable: u64,
    /// `publish_rate_max` of a rule.
    #[metric(limit = "rule.publish_rate_max")]
    pub rate_limited: u64,
    /// Anything else.
    pub other: u64,
}

impl HomeRefusals {
    pub(super) fn count(&mut self, code: Code) {
        let counters = [
            (Code::TopicsFull, &mut self.topics_full),
            (Code::FiltersFull, &mut self.filters_full),
            (Code::RetainedFull, &mut self.retained_full),
            (Code::LogFull, &mut self.log_full),
            (Code::LogUnavailable, &mut self.log_unavailable),
            (Code::MemoryFull, &mut self.memory_full),
            (Code::MessageTooLarge, &mut self.message_too_large),
            (Code::ProducersFull, &mut self.producers_full),
            (Code::ProducerFenced, &mut self.producer_fenced),
            (Code::OutOfOrder, &mut self.out_of_order),
            (Code::EpochMismatch, &mut self.epoch_mismatch),
            (Code::RateLimited, &mut self.rate_limited),
        ];
        let found = counters.into_iter().find(|(of, _)| *of == code);
        let counter = found.map_or(&mut self.other, |(_, counter)| counter);
        *counter += 1;
    }

    /// The sum of the counts.
    pub fn total(&self) -> u64 {
        self.topics_full
            + self.filters_full
            + self.retained_full
            + self.log_full
            + self.log_unavailable
            + self.memory_full
            + self.message_too_large
            + self.producers_full
            + self.producer_fenced
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
        let mirrors = || self.shares.iter().filter_map(|share| share.mirror.as_ref());
        let engines = || self.partitions.iter().filter_map(|partition| partition.engine.as_ref());
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
            staged: disks().map(|disk| disk.len() as u64).sum::<u64>()
                + engines().map(|engine| engine.pending_count() as u64).sum::<u64>(),
            partitions_closed: engines().filter(|engine| engine.is_closed()).count() as u64,
            tail_names: engines().map(|engine| engine.names_count() as u64).sum(),
            positions_waiting: self.ahead.len() as u64,
            logs_unavailable: disks().filter(|disk| !disk.takes_appends()).count() as u64,
            mqtt_sessions_sleeping: self.clients.sleeping() + self.shared.sleeping(),
            mirrors_closed: mirrors().filter(|mirror| !mirror.is_open()).count() as u64,
            disk_reads_waiting: disk_reads_waiting as u64,
            pages_waiting: pages_waiting as u64,
            ..self.statistics
        }
    }
}
