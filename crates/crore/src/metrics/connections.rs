//! Families of connections that several counters make: by protocol, by transport, and by their end.

use super::families::Families;
use broker::edge::EdgeStatistics;
use std::borrow::Cow;

/// Families of an edge's connections.
pub fn write(families: &mut Families, edge: &EdgeStatistics) {
    let known = edge.native_sessions
        + edge.json_sessions
        + edge.mqtt_sessions
        + edge.event_streams
        + edge.echo_sessions
        + edge.long_polls;
    let sessions = [
        ("native", edge.native_sessions),
        ("json", edge.json_sessions),
        ("mqtt", edge.mqtt_sessions),
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
}

/// Families of connection ends, and of errors that clients received before.
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

/// Established connections by transport.
pub fn write_transports(families: &mut Families, edge: &EdgeStatistics, tls: &tls::Statistics) {
    let encrypted = tls.open_tls12 + tls.open_tls13 + tls.handshaking;
    families.gauges(
        "crore_transport_connections",
        "Open connections by transport; TLS includes connections in their handshake.",
        "transport",
        &[("tcp", edge.connections.saturating_sub(encrypted)), ("tls", encrypted)],
    );
}
