//! What `/metrics` says of topics, filters, producers and logs in memory.

use super::exposition::Exposition;
use broker::home::HomeStatistics;

/// Families of what home shards keep.
pub fn write(exposition: &mut Exposition, home: &HomeStatistics) {
    exposition.gauge("crore_topics", "Topics known.", home.topics);
    exposition.gauge(
        "crore_filters",
        "Filters with wildcards known to home shards.",
        home.filters,
    );
    exposition.gauge(
        "crore_producers",
        "Producers remembered, each for every partition that it publishes to.",
        home.producers,
    );
    exposition.gauge(
        "crore_idempotency_keys",
        "Idempotency keys remembered.",
        home.idempotency_keys,
    );
    exposition.counter(
        "crore_topics_forgotten_total",
        "Idle topics forgotten; their positions stay comparable.",
        home.forgotten,
    );
    exposition.gauge(
        "crore_log_records",
        "Messages in the logs now.",
        home.records,
    );
    exposition.gauge(
        "crore_retained_messages",
        "Retained messages now.",
        home.retained,
    );
    exposition.counter(
        "crore_log_evicted_records_total",
        "Messages that the logs dropped for age or size.",
        home.evicted_records,
    );
    exposition.counter(
        "crore_log_evicted_segments_total",
        "Segments that the logs dropped for age or size.",
        home.evicted_segments,
    );
    let parts = [
        ("topics", home.topics_bytes),
        ("log", home.log_bytes),
        ("log_index", home.index_bytes),
        ("retained", home.retained_bytes),
        ("publish_once", home.dedup_bytes),
    ];
    exposition.gauges(
        "crore_stored_bytes",
        "Memory of home shards, by what it holds.",
        "part",
        &parts,
    );
}
