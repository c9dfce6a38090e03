//! What `/metrics` says of topics, filters, producers and logs in memory.

use super::families::Families;
use broker::home::HomeStatistics;

/// Families of what home shards keep.
pub fn write(families: &mut Families, home: &HomeStatistics) {
    families.gauge("crore_topics", "Known topics.", home.topics);
    families.gauge("crore_filters", "Filters with wildcards known to home shards.", home.filters);
    families.gauge(
        "crore_producers",
        "Known producers, counted once for each partition that they publish to.",
        home.producers,
    );
    families.gauge("crore_idempotency_keys", "Known idempotency keys.", home.idempotency_keys);
    families.counter(
        "crore_topics_forgotten_total",
        "Idle topics removed from memory; their positions stay comparable.",
        home.forgotten,
    );
    families.gauge("crore_log_records", "Messages in the logs.", home.records);
    families.gauge("crore_retained_messages", "Retained messages.", home.retained);
    families.counter(
        "crore_log_evicted_records_total",
        "Messages that the logs dropped because of age or size.",
        home.evicted_records,
    );
    families.counter(
        "crore_log_evicted_segments_total",
        "Segments that the logs dropped because of age or size.",
        home.evicted_segments,
    );
    let parts = [
        ("topics", home.topics_bytes),
        ("log", home.log_bytes),
        ("log_index", home.index_bytes),
        ("retained", home.retained_bytes),
        ("publish_once", home.dedup_bytes),
    ];
    families.gauges("crore_stored_bytes", "Memory of home shards by component.", "part", &parts);
}
