//! What `/metrics` says of messages: published, delivered, lagging, and what became of those that
//! could not be had.

use super::families::Families;
use broker::edge::EdgeStatistics;
use broker::home::HomeStatistics;

/// Families of what is published, delivered, and left out.
pub fn write(families: &mut Families, edge: &EdgeStatistics, home: &HomeStatistics) {
    families.counter(
        "crore_publishes_received_total",
        "Publications received from clients.",
        edge.publishes,
    );
    families.counter(
        "crore_messages_appended_total",
        "Messages appended to a log.",
        home.published,
    );
    families.counter(
        "crore_publishes_duplicate_total",
        "Repeated publications that were already appended; the answer has their first position.",
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
        ("rate_limited", home.refused.rate_limited),
        ("other", home.refused.other),
    ];
    families.counters(
        "crore_refusals_total",
        "Publishes, subscribes and filters that a home shard refused.",
        "reason",
        &refusals,
    );
    families.counter(
        "crore_messages_posted_total",
        "Live messages that home shards posted to I/O threads.",
        home.delivered,
    );
    families.counter(
        "crore_messages_delivered_total",
        "Messages handed to connections; each receiver counts.",
        edge.delivered,
    );
    families.counter(
        "crore_messages_replayed_total",
        "Messages handed to connections that were read from a log for one replaying or lagging subscription, and retained messages.",
        edge.replayed,
    );
    families.counters(
        "crore_recoveries_total",
        "Subscriptions with a position, by result: all messages after it followed, there was a gap, or the subscription was refused because of a gap.",
        "result",
        &[
            ("complete", edge.recoveries.complete),
            ("gap", edge.recoveries.gap),
            ("refused", edge.recoveries.refused),
        ],
    );
    families.gauge("crore_subscriptions", "Current subscriptions.", edge.subscriptions);
    families.counter(
        "crore_subscriptions_refused_total",
        "Subscriptions refused.",
        edge.subscriptions_refused,
    );
    families.counter(
        "crore_subscriptions_lagged_total",
        "Times that a subscription fell behind the recent frames and continued from the log.",
        edge.lagging,
    );
    families.counter("crore_tickets_issued_total", "Resume tickets issued.", edge.tickets_issued);
    families.counter(
        "crore_tickets_resumed_total",
        "Sessions resumed with a ticket.",
        edge.tickets_resumed,
    );
    families.counter(
        "crore_tickets_refused_total",
        "Resume tickets that were refused.",
        edge.tickets_refused,
    );
    families.counter(
        "crore_subscriptions_conflated_total",
        "Times that a slow subscription skipped to its newest message.",
        edge.conflated,
    );
    families.counter(
        "crore_subscriptions_dropped_total",
        "Times that a slow subscription continued live without its missed messages.",
        edge.dropped,
    );
    families.counter(
        "crore_subscriptions_disconnected_total",
        "Subscriptions ended because their client was too slow.",
        edge.disconnected,
    );
    families.counter("crore_gaps_total", "Gaps reported to subscribers.", edge.gaps);
    families.counter(
        "crore_pages_total",
        "Pages read for replaying and lagging subscriptions.",
        edge.pages,
    );
    families.counter("crore_histories_total", "Pages of history read.", home.histories_read);
    families.gauge(
        "crore_streams_lagging",
        "Streams between a partition and an I/O thread that are currently read from the log.",
        home.lagging_streams,
    );
    families.counter(
        "crore_streams_lagged_total",
        "Times that such a stream began to lag.",
        home.lagged,
    );
    families.counter(
        "crore_stream_gaps_total",
        "Times that such a stream lost records to eviction.",
        home.stream_gaps,
    );
}
