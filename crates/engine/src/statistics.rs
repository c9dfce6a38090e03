//! Counts of an engine.

use crate::record::Unroutable;
use stdx::Counters;
use stdx::histogram::Histogram;
use stdx::metrics::Metrics;

/// Counts of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Counters, Metrics)]
pub struct EngineStatistics {
    /// Records of the engine that became messages.
    #[metric("crore_engine_records_total")]
    pub records: u64,
    /// Bytes of these messages.
    #[metric("crore_engine_record_bytes_total")]
    pub record_bytes: u64,
    /// Records of the engine that are no messages, by reason.
    #[metric("crore_engine_unroutable_total", by = "reason")]
    pub unroutable: UnroutableCounts,
    /// Publications that were sent to the engine.
    #[metric("crore_engine_produced_total")]
    pub produced: u64,
    /// Time between a publication's sending and the engine's answer.
    #[metric("crore_engine_produce_seconds")]
    pub produce: Histogram,
    /// Publications that were refused, and surely are not in the engine.
    #[metric("crore_engine_refused_total")]
    pub refused: u64,
    /// Publications of which no broker said whether they are in the engine; the tail tells.
    #[metric("crore_engine_unknown_total")]
    pub unknown: u64,
    /// Publications that have no answer yet.
    #[metric("crore_engine_pending")]
    pub pending: u64,
    /// Partitions that began anew because the engine had lost records.
    #[metric("crore_engine_truncations_total")]
    pub truncations: u64,
    /// Partitions that began anew because the engine dropped records before they were read.
    #[metric("crore_engine_overtaken_total")]
    pub overtaken: u64,
    /// Partitions that began anew because their topic was deleted and created again.
    #[metric("crore_engine_recreated_total")]
    pub recreated: u64,
    /// Times that a tail was started again because it brought nothing although it was behind.
    #[metric("crore_engine_watchdog_total")]
    pub watchdog: u64,
    /// Partitions whose tail waits for the end of another producer's transaction, for longer than
    /// six times `silence_max_ms`.
    #[metric("crore_engine_partitions_held")]
    pub held: u64,
    /// Times that a new producer took the place of one that was of no use any more.
    #[metric("crore_engine_producers_replaced_total")]
    pub producers_replaced: u64,
    /// Errors of brokers and of connections to them.
    #[metric("crore_engine_errors_total")]
    pub errors: u64,
    /// Partitions that take no publications now.
    #[metric("crore_engine_partitions_unavailable")]
    pub unavailable: u64,
    /// Partitions whose tail has not reached the end that their start found.
    #[metric("crore_engine_partitions_starting")]
    pub starting: u64,
    /// Milliseconds since a broker last answered.
    #[metric("crore_engine_silence_ms")]
    #[counters(max)]
    pub silence_ms: u64,
}

/// Records that are no messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Counters, Metrics)]
pub struct UnroutableCounts {
    /// The record has no key.
    pub no_key: u64,
    /// Prefix and key are no topic.
    pub invalid_topic: u64,
    /// The payload or the headers are too long.
    pub too_long: u64,
    /// The key belongs into another partition.
    pub wrong_partition: u64,
    /// A header of Crore has an invalid value.
    pub invalid_header: u64,
    /// The value does not begin with the number of a schema.
    pub no_schema_id: u64,
}

impl UnroutableCounts {
    pub(crate) fn count(&mut self, reason: Unroutable) -> &mut u64 {
        let counter = match reason {
            Unroutable::NoKey => &mut self.no_key,
            Unroutable::InvalidTopic => &mut self.invalid_topic,
            Unroutable::TooLong => &mut self.too_long,
            Unroutable::WrongPartition => &mut self.wrong_partition,
            Unroutable::InvalidHeader => &mut self.invalid_header,
            Unroutable::NoSchemaId => &mut self.no_schema_id,
        };
        *counter += 1;
        counter
    }
}
