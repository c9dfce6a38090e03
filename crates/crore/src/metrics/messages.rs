//! What `/metrics` says of messages: published, delivered, lagging, and what became of those that could not be had.

use super::exposition::Exposition;
use broker::edge::EdgeStatistics;
use broker::home::HomeStatistics;

/// Families of what is published, delivered, and left out.
pub fn write(exposition: &mut Exposition, edge: &EdgeStatistics, home: &HomeStatistics) {
    exposition.counter(
        "crore_publishes_received_total",
        "Publications received from clients.",
        edge.publishes,
    );
    exposition.counter(
        "crore_messages_appended_total",
        "Messages appended to a log.",
        home.published,
    );
    exposition.counter(
        "crore_publishes_duplicate_total",
        "Publications that had been appended before, answered with their first position.",
        home.duplicates,
    );
    let refusals = [
        ("topics_full", home.refused.topics_full),
        ("filters_full", home.refused.filters_full),
        ("retained_full", home.refused.retained_full),
        ("log_full", home.refused.log_full),
        ("log_unavailable", home.refused.log_unavailable),
        ("memory_full", home.refused.memory_full),
        ("message_too_large", home.refused.message_too_large),
        ("producers_full", home.refused.producers_full),
        ("producer_fenced", home.refused.fenced),
        ("out_of_order", home.refused.out_of_order),
        ("epoch_mismatch", home.refused.epoch_mismatch),
        ("other", home.refused.other),
    ];
    exposition.counters(
        "crore_refusals_total",
        "Publishes, subscribes and filters that a home shard refused.",
        "reason",
        &refusals,
    );
    exposition.counter(
        "crore_messages_posted_total",
        "Live messages that home shards posted to I/O threads.",
        home.delivered,
    );
    exposition.counter(
        "crore_messages_delivered_total",
        "Messages handed to connections; each receiver counts.",
        edge.delivered,
    );
    exposition.gauge(
        "crore_subscriptions",
        "Subscriptions now.",
        edge.subscriptions,
    );
    exposition.counter(
        "crore_subscriptions_refused_total",
        "Subscriptions refused.",
        edge.subscriptions_refused,
    );
    exposition.counter(
        "crore_messages_skipped_total",
        "Messages for filters that were left out, with an announcement.",
        edge.skipped,
    );
    exposition.counter(
        "crore_subscriptions_lagged_total",
        "Times that a subscription fell behind the recent frames and went on from the log.",
        edge.lagging,
    );
    exposition.counter(
        "crore_tickets_issued_total",
        "Resume tickets issued.",
        edge.tickets_issued,
    );
    exposition.counter(
        "crore_tickets_resumed_total",
        "Sessions that came back with a resume ticket.",
        edge.tickets_resumed,
    );
    exposition.counter(
        "crore_tickets_refused_total",
        "Resume tickets that did not hold.",
        edge.tickets_refused,
    );
    exposition.counter(
        "crore_subscriptions_conflated_total",
        "Times that a slow subscription was brought to its newest message, past others.",
        edge.conflated,
    );
    exposition.counter(
        "crore_subscriptions_dropped_total",
        "Times that a slow subscription went on live without the messages that it had missed.",
        edge.dropped,
    );
    exposition.counter(
        "crore_subscriptions_disconnected_total",
        "Subscriptions ended because their client did not keep up.",
        edge.disconnected,
    );
    exposition.counter("crore_gaps_total", "Gaps told to subscribers.", edge.gaps);
    exposition.counter(
        "crore_pages_total",
        "Pages read for replaying and lagging subscriptions.",
        edge.pages,
    );
    exposition.counter(
        "crore_histories_total",
        "Pages of history read.",
        home.histories_read,
    );
    exposition.gauge(
        "crore_streams_lagging",
        "Streams between a partition and an I/O thread that are fed from the log now.",
        home.lagging_streams,
    );
    exposition.counter(
        "crore_streams_lagged_total",
        "Times that such a stream began to lag.",
        home.lagged,
    );
    exposition.counter(
        "crore_stream_gaps_total",
        "Times that such a stream lost records to eviction.",
        home.stream_gaps,
    );
}
