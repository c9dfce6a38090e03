//! What `/metrics` says of connections: how many, what they speak, how they end, their bytes, and
//! who found no room.

use super::families::Families;
use broker::edge::EdgeStatistics;
use net::kernel::Statistics;
use std::borrow::Cow;

/// Families of the end: whether it has been asked for, and who was led away.
pub fn write_drain(families: &mut Families, is_draining: bool, sent_away: u64) {
    families.gauge(
        "crore_draining",
        "1 if the node is draining or stopping, else 0.",
        u8::from(is_draining),
    );
    families.counter(
        "crore_sent_away_total",
        "Sessions and event streams that the drain has told to reconnect.",
        sent_away,
    );
}

/// Families of connections and their bytes.
pub fn write(families: &mut Families, edge: &EdgeStatistics) {
    families.counter("crore_connections_accepted_total", "Connections accepted.", edge.accepted);
    families.counter(
        "crore_connections_closed_total",
        "Connections closed, for any reason.",
        edge.closed,
    );
    families.gauge("crore_connections", "Open connections.", edge.connections);
    let known = edge.native_sessions + edge.event_streams + edge.echo_sessions + edge.long_polls;
    let sessions = [
        ("native", edge.native_sessions),
        ("events", edge.event_streams),
        ("long_poll", edge.long_polls),
        ("echo", edge.echo_sessions),
        ("http", edge.connections.saturating_sub(known)),
    ];
    families.gauges("crore_sessions", "Open connections by protocol.", "protocol", &sessions);
    write_ends(families, edge);
    let ended = [
        ("slow", edge.slow_closed),
        ("operator", edge.disconnected_by_operators),
        ("handshake_timeout", edge.handshake_timeouts),
        ("ping_timeout", edge.ping_timeouts),
        ("unacknowledged", edge.unacknowledged),
        ("unfinished_input", edge.input_closed),
        ("input_timeout", edge.input_timeouts),
    ];
    families.counters(
        "crore_connections_ended_by_node_total",
        "Connections that the node closed because of the peer's behaviour or an operator's request, by reason.",
        "reason",
        &ended,
    );
    families.counter(
        "crore_protocol_errors_total",
        "Frames and messages that violated their protocol.",
        edge.protocol_errors,
    );
    families.counter("crore_http_requests_total", "HTTP requests.", edge.http_requests);
    families.counter("crore_http_errors_total", "HTTP answers of 400 and above.", edge.http_errors);
    families.counter("crore_pings_total", "Pings sent to quiet connections.", edge.pings);
    families.counter("crore_received_bytes_total", "Bytes read from clients.", edge.read_bytes);
    families.counter("crore_sent_bytes_total", "Bytes written to clients.", edge.written_bytes);
    write_compression(families, edge);
    families.gauge(
        "crore_pinned_bytes",
        "Output bytes held by blocked connections.",
        edge.pinned_bytes,
    );
    families.gauge(
        "crore_ring_segment_bytes",
        "Bytes of log segments that large outgoing frames keep in memory, including dropped segments.",
        edge.ring_segment_bytes,
    );
    families.gauge(
        "crore_kept_input_bytes",
        "Buffered bytes of incomplete frames, messages and bodies.",
        edge.kept_bytes,
    );
}

/// Families of how connections end, and of what clients were told before.
fn write_ends(families: &mut Families, edge: &EdgeStatistics) {
    let ends = edge.ends.iter().map(|(by, code, count)| {
        let labels = vec![("by", Cow::Borrowed(by)), ("code", code)];
        (labels, count)
    });
    families.counters_by(
        "crore_disconnects_total",
        "Closed connections, by the closing side and its WebSocket close code, or a word if there was no close frame.",
        ends,
    );
    let errors: Vec<(&str, u64)> =
        edge.errors.iter().map(|(code, count)| (code.name(), count)).collect();
    families.counters(
        "crore_errors_total",
        "Errors sent to clients, by code: frames, answers and events.",
        "code",
        &errors,
    );
}

/// Established connections by what carries them.
pub fn write_transports(families: &mut Families, edge: &EdgeStatistics, tls: &tls::Statistics) {
    let encrypted = tls.open_tls12 + tls.open_tls13 + tls.handshaking;
    families.gauges(
        "crore_transport_connections",
        "Open connections by transport; TLS includes connections in their handshake.",
        "transport",
        &[("tcp", edge.connections.saturating_sub(encrypted)), ("tls", encrypted)],
    );
}

/// Families of sockets that were not to be had.
pub fn write_shortages(families: &mut Families, sockets: &Statistics) {
    families.counter(
        "crore_connections_refused_total",
        "Connections refused because the node has reached its maximum number of connections.",
        sockets.refused,
    );
    families.counter(
        "crore_connections_passed_on_total",
        "Connections that a full I/O thread passed to another I/O thread.",
        sockets.passed_on,
    );
    let errors = &sockets.accept_errors;
    families.counters(
        "crore_accept_errors_total",
        "Failed accepts by cause: the descriptor table was full, the machine had no open files or no memory left, epoll had no watches left, or the peer had closed the connection.",
        "reason",
        &[
            ("descriptors", errors.descriptors),
            ("files", errors.files),
            ("memory", errors.memory),
            ("watches", errors.watches),
            ("other", errors.other),
        ],
    );
    families.counter(
        "crore_writes_without_memory_total",
        "Writes that failed because the system had no TCP memory; the node repeats them.",
        sockets.starved_writes,
    );
}

fn write_compression(families: &mut Families, edge: &EdgeStatistics) {
    families.counter(
        "crore_compressed_messages_total",
        "Compressed messages; a message for several receivers counts once.",
        edge.compressed,
    );
    families.counter(
        "crore_compressed_input_bytes_total",
        "Bytes of compressed messages before compression.",
        edge.compressed_plain_bytes,
    );
    families.counter(
        "crore_compressed_output_bytes_total",
        "Bytes of compressed messages after compression.",
        edge.compressed_bytes,
    );
    families.counter(
        "crore_incompressible_messages_total",
        "Messages sent uncompressed because compression did not make them smaller.",
        edge.incompressible,
    );
    families.counter(
        "crore_inflated_messages_total",
        "Compressed messages received from clients.",
        edge.inflated,
    );
    families.counter(
        "crore_inflate_refusals_total",
        "Compressed messages that exceeded the maximum size when decompressed; their connections were closed.",
        edge.inflate_too_large,
    );
}
