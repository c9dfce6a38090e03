//! `/metrics`: what the shards have counted, folded, and what the process uses. Never a label for a topic or a client.
//!
//! Two counters stand where a gauge would race: connections are `accepted` and `closed`, and also the gauge, which is
//! their difference at one moment.

use super::door_metrics;
use super::exposition::Exposition;
use super::{entitlement_metrics, tls_metrics};
use crate::process;
use crate::process::memory::{self, Rest};
use crate::reload::Counts;
use broker::edge::EdgeStatistics;
use broker::home::HomeStatistics;
use net::kernel::Statistics;
use node::NodeStatistics;
use stdx::memory::Components;

/// The whole text.
pub fn render(
    node_name: &str,
    statistics: &NodeStatistics,
    entitlement: &entitlement::Statistics,
) -> String {
    let NodeStatistics { edge, home, .. } = statistics;
    let mut exposition = Exposition::default();
    let labels = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("commit", option_env!("CRORE_COMMIT").unwrap_or("unknown")),
        ("node", node_name),
    ];
    exposition.information("crore_build_info", "What runs here.", &labels);
    write_connections(&mut exposition, edge);
    write_shortages(&mut exposition, &statistics.sockets);
    door_metrics::write(&mut exposition, &statistics.door, &edge.turned_away);
    write_messages(&mut exposition, edge, home);
    write_entitlement(&mut exposition, edge);
    write_topics(&mut exposition, home);
    write_disks(&mut exposition, statistics);
    tls_metrics::write(&mut exposition, &statistics.tls);
    entitlement_metrics::write(&mut exposition, entitlement);
    write_threads(&mut exposition, statistics);
    write_memory(
        &mut exposition,
        &statistics.memory,
        memory::rest(&statistics.memory),
    );
    write_process(&mut exposition);
    exposition.finish()
}

/// The same of reloads; it goes behind the other.
pub fn of_reloads(counts: Counts) -> String {
    let mut exposition = Exposition::default();
    exposition.counters(
        "crore_reloads_total",
        "Reloads of the configuration; one with a fault is refused as a whole.",
        "result",
        &[("taken", counts.taken), ("refused", counts.refused)],
    );
    exposition.gauge(
        "crore_configuration_changes_waiting",
        "Changes of the configuration that the last reload has found and that wait for a restart.",
        counts.waiting,
    );
    exposition.finish()
}

fn write_connections(exposition: &mut Exposition, edge: &EdgeStatistics) {
    exposition.counter(
        "crore_connections_accepted_total",
        "Connections accepted.",
        edge.accepted,
    );
    exposition.counter(
        "crore_connections_closed_total",
        "Connections ended, for whatever reason.",
        edge.closed,
    );
    exposition.gauge("crore_connections", "Connections now.", edge.connections);
    let known = edge.native_sessions + edge.event_streams + edge.echo_sessions;
    let sessions = [
        ("native", edge.native_sessions),
        ("events", edge.event_streams),
        ("echo", edge.echo_sessions),
        ("http", edge.connections.saturating_sub(known)),
    ];
    exposition.gauges(
        "crore_sessions",
        "Connections now, by what they speak.",
        "protocol",
        &sessions,
    );
    let ended = [
        ("slow", edge.slow_closed),
        ("handshake_timeout", edge.handshake_timeouts),
        ("ping_timeout", edge.ping_timeouts),
        ("unacknowledged", edge.unacknowledged),
        ("unfinished_input", edge.input_closed),
    ];
    exposition.counters(
        "crore_connections_ended_by_node_total",
        "Connections that the node ended because their peer did not do its part.",
        "reason",
        &ended,
    );
    exposition.counter(
        "crore_protocol_errors_total",
        "Frames and messages that broke their protocol.",
        edge.protocol_errors,
    );
    exposition.counter(
        "crore_http_requests_total",
        "HTTP requests.",
        edge.http_requests,
    );
    exposition.counter(
        "crore_http_errors_total",
        "HTTP answers of 400 and above.",
        edge.http_errors,
    );
    exposition.counter(
        "crore_pings_total",
        "Pings sent to quiet connections.",
        edge.pings,
    );
    exposition.counter(
        "crore_received_bytes_total",
        "Bytes read from clients.",
        edge.read_bytes,
    );
    exposition.counter(
        "crore_sent_bytes_total",
        "Bytes written to clients.",
        edge.written_bytes,
    );
    write_compression(exposition, edge);
    exposition.gauge(
        "crore_pinned_bytes",
        "Bytes that blocked connections own now.",
        edge.pinned_bytes,
    );
    exposition.gauge(
        "crore_kept_input_bytes",
        "Bytes of unfinished frames, messages and bodies kept now.",
        edge.kept_bytes,
    );
}

fn write_shortages(exposition: &mut Exposition, sockets: &Statistics) {
    exposition.counter(
        "crore_connections_refused_total",
        "Connections that were told that there is no room for them.",
        sockets.refused,
    );
    exposition.counter(
        "crore_connections_passed_on_total",
        "Connections that a full I/O thread gave to one with room.",
        sockets.passed_on,
    );
    let errors = &sockets.accept_errors;
    exposition.counters(
        "crore_accept_errors_total",
        "Attempts to take a connection that failed: the descriptor table was full, the machine had no open files or no memory left, epoll no watches, or the peer was gone.",
        "reason",
        &[
            ("descriptors", errors.descriptors),
            ("files", errors.files),
            ("memory", errors.memory),
            ("watches", errors.watches),
            ("other", errors.other),
        ],
    );
    exposition.counter(
        "crore_writes_without_memory_total",
        "Writes for which the system had no TCP memory; they were tried again.",
        sockets.starved_writes,
    );
}

fn write_compression(exposition: &mut Exposition, edge: &EdgeStatistics) {
    exposition.counter(
        "crore_compressed_messages_total",
        "Messages compressed; one for many receivers counts once.",
        edge.compressed,
    );
    exposition.counter(
        "crore_compressed_input_bytes_total",
        "Bytes of these messages before.",
        edge.compressed_plain_bytes,
    );
    exposition.counter(
        "crore_compressed_output_bytes_total",
        "Bytes of these messages after.",
        edge.compressed_bytes,
    );
    exposition.counter(
        "crore_incompressible_messages_total",
        "Messages that did not get shorter, and went as they are.",
        edge.incompressible,
    );
    exposition.counter(
        "crore_inflated_messages_total",
        "Compressed messages of clients.",
        edge.inflated,
    );
    exposition.counter(
        "crore_inflate_refusals_total",
        "Compressed messages that would have been longer than a message may be; their connections were closed.",
        edge.inflate_too_large,
    );
}

fn write_messages(exposition: &mut Exposition, edge: &EdgeStatistics, home: &HomeStatistics) {
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

fn write_entitlement(exposition: &mut Exposition, edge: &EdgeStatistics) {
    exposition.gauge(
        "crore_entitlements",
        "Distinct tokens and API keys whose clients are here now.",
        edge.entitlements,
    );
    exposition.counter(
        "crore_credential_questions_total",
        "Tokens and API keys that had to be judged.",
        edge.questions,
    );
    exposition.counter(
        "crore_credentials_refused_total",
        "Tokens and API keys that were refused.",
        edge.credentials_refused,
    );
    exposition.counter(
        "crore_forbidden_total",
        "Actions that their client's token does not permit.",
        edge.forbidden,
    );
    exposition.counter(
        "crore_renewals_total",
        "Sessions that went on with a new token.",
        edge.renewals,
    );
    exposition.counter(
        "crore_tokens_expired_total",
        "Connections ended because their token had expired.",
        edge.tokens_expired,
    );
    exposition.counter(
        "crore_revoked_total",
        "Connections ended because their token was revoked.",
        edge.revoked,
    );
}

fn write_topics(exposition: &mut Exposition, home: &HomeStatistics) {
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

fn write_disks(exposition: &mut Exposition, statistics: &NodeStatistics) {
    let NodeStatistics { home, log, .. } = statistics;
    exposition.gauge(
        "crore_disk_logs_unavailable",
        "Logs on disk that take no publications now.",
        // A log thread whose disk hangs does not answer; homes know of it, each for itself.
        log.unavailable.max(home.logs_unavailable.min(1)),
    );
    exposition.counter(
        "crore_disk_logs_stalled_total",
        "Times that a log on disk got nothing done for so long that a home refused what needed its disk.",
        home.logs_stalled,
    );
    exposition.gauge(
        "crore_disk_log_bytes",
        "Bytes of segments and indexes on disk now.",
        log.bytes,
    );
    exposition.gauge(
        "crore_publishes_staged",
        "Publications that wait for a disk now.",
        home.staged,
    );
    exposition.counter(
        "crore_disk_batches_total",
        "Batches made durable, each with one write and one sync.",
        log.batches,
    );
    exposition.counter(
        "crore_disk_batch_records_total",
        "Messages in these batches.",
        log.batch_records,
    );
    exposition.counter(
        "crore_disk_batch_bytes_total",
        "Bytes of these messages.",
        log.batch_bytes,
    );
    exposition.counter(
        "crore_disk_batches_failed_total",
        "Batches that the disk refused.",
        log.batches_failed,
    );
    exposition.counter(
        "crore_disk_records_refused_total",
        "Publications refused with them.",
        log.records_refused,
    );
    exposition.counter(
        "crore_disk_sync_seconds_total",
        "Time that batches took, write and sync.",
        seconds(log.sync_us),
    );
    exposition.gauge(
        "crore_disk_sync_seconds_max",
        "The longest of them since the start.",
        seconds(log.sync_us_max),
    );
    exposition.counter(
        "crore_disk_reads_total",
        "Questions answered from the disk: pages, and where histories begin.",
        log.reads,
    );
    exposition.counter(
        "crore_disk_reads_failed_total",
        "Questions that the disk refused.",
        log.reads_failed,
    );
    exposition.counter(
        "crore_disk_reads_damaged_total",
        "Pages from the disk that lacked damaged messages; their readers were told of the gap.",
        log.reads_damaged,
    );
    exposition.gauge(
        "crore_disk_reads_waiting",
        "Requests that wait for a disk to answer now.",
        home.disk_reads_waiting,
    );
    exposition.gauge(
        "crore_pages_waiting",
        "Pages and histories that wait for their turn at a home shard now.",
        home.pages_waiting,
    );
    exposition.counter(
        "crore_disk_segments_dropped_total",
        "Segments that logs on disk dropped for age or size.",
        log.segments_dropped,
    );
    exposition.gauge(
        "crore_disk_torn_bytes",
        "Bytes that the start cut from the ends of logs: they had never been acknowledged.",
        log.torn_bytes,
    );
    exposition.gauge(
        "crore_disk_damages",
        "Places of damage that the start found: acknowledged messages may be lost.",
        log.damages,
    );
}

/// Microseconds as what Prometheus counts in.
fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}

fn write_threads(exposition: &mut Exposition, statistics: &NodeStatistics) {
    exposition.gauge("crore_io_threads", "I/O threads.", statistics.io_threads);
    exposition.gauge(
        "crore_io_threads_silent",
        "I/O threads that did not answer this scrape in time; their numbers are missing here.",
        statistics.silent_threads,
    );
    exposition.gauge(
        "crore_log_threads_silent",
        "Log threads that did not answer this scrape in time; their numbers are missing here.",
        statistics.silent_logs,
    );
    exposition.gauge(
        "crore_connections_max",
        "Connections that the node can hold.",
        statistics.connections_max,
    );
    exposition.counter(
        "crore_turns_total",
        "Turns of all I/O threads.",
        statistics.turns,
    );
    exposition.counter(
        "crore_turns_long_total",
        "Turns of over ten milliseconds.",
        statistics.long_turns,
    );
}

/// Both families from one look at the process, so that they add up.
fn write_memory(exposition: &mut Exposition, components: &Components, rest: Option<Rest>) {
    let mut values: Vec<(&str, i64)> = components
        .iter()
        .map(|(component, bytes)| (component.name(), bytes as i64))
        .collect();
    if let Some(rest) = rest {
        values.extend([
            ("stacks", rest.stacks as i64),
            ("binary", rest.binary as i64),
            ("allocator_free", rest.allocator_free as i64),
            ("unaccounted", rest.unaccounted),
        ]);
        exposition.gauge(
            "crore_process_proportional_bytes",
            "User-space memory: the proportional set size.",
            rest.total,
        );
    }
    exposition.gauges(
        "crore_memory_bytes",
        "User-space memory by what it holds; all together the proportional set size.",
        "component",
        &values,
    );
}

fn write_process(exposition: &mut Exposition) {
    let own = std::process::id();
    if let Some(bytes) = process::resident_bytes(own) {
        exposition.gauge(
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            bytes,
        );
    }
    if let Some(seconds) = process::cpu_seconds(own) {
        exposition.counter(
            "process_cpu_seconds_total",
            "Total user and system CPU time spent in seconds.",
            seconds,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_holds_what_was_counted() {
        let edge = EdgeStatistics {
            accepted: 7,
            closed: 3,
            connections: 4,
            native_sessions: 3,
            ..EdgeStatistics::default()
        };
        let home = HomeStatistics {
            topics: 9,
            ..HomeStatistics::default()
        };
        let text = render(
            "n\"1",
            &NodeStatistics {
                edge,
                home,
                ..NodeStatistics::default()
            },
            &Default::default(),
        );
        for line in [
            "crore_connections_accepted_total 7",
            "crore_connections 4",
            "crore_sessions{protocol=\"native\"} 3",
            "crore_sessions{protocol=\"http\"} 1",
            "crore_topics 9",
            "# TYPE crore_messages_delivered_total counter",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.contains("node=\"n\\\"1\""));
    }

    /// The rules of `promtool check metrics`, which the foreign suites run on a node: help for each family, `_total` for
    /// counters and for nothing else, no unit but base units, lower case.
    #[test]
    fn names_follow_the_conventions() {
        let text = render("n", &NodeStatistics::default(), &Default::default());
        let mut helped = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                assert!(help.len() > 5 && help.ends_with('.'), "{line}");
                helped.push(name.to_owned());
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert_eq!(helped.last().map(String::as_str), Some(name), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                assert!(
                    name.bytes()
                        .all(|byte| byte == b'_' || byte.is_ascii_lowercase()),
                    "{line}"
                );
                for unit in ["_ms", "_milliseconds", "_kib", "_percent", "_count"] {
                    assert!(!name.contains(unit), "{line}");
                }
            } else {
                let name = line.split(['{', ' ']).next().unwrap();
                assert_eq!(helped.last().map(String::as_str), Some(name), "{line}");
            }
        }
    }
}
