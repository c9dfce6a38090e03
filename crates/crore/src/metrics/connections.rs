//! What `/metrics` says of connections: how many, what they speak, how they end, their bytes, and who found no room.

use super::exposition::Exposition;
use broker::edge::EdgeStatistics;
use net::kernel::Statistics;

/// Families of connections and their bytes.
pub fn write(exposition: &mut Exposition, edge: &EdgeStatistics) {
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

/// Families of sockets that were not to be had.
pub fn write_shortages(exposition: &mut Exposition, sockets: &Statistics) {
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
