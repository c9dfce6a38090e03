//! What `/metrics` says of limits: how often each one was reached, under the name that it has in
//! the configuration.
//!
//! The numbers are those of other families, brought together by the question that an operator has:
//! which bound is too low?

use super::families::Families;
use broker::edge::EdgeStatistics;
use broker::mail::Code;
use node::NodeStatistics;

/// The family of limits.
pub fn write(families: &mut Families, statistics: &NodeStatistics) {
    let NodeStatistics { edge, home, door, .. } = statistics;
    let refused = &home.refused;
    let turned_away = &edge.turned_away;
    let admission = &door.admission;
    let of = |code| edge.errors.of(code);
    let limits = [
        ("connections_max", statistics.sockets.refused),
        ("listen.connections_max", admission.entrance_connections),
        ("listen.connect_rate_max", admission.entrance_rate),
        ("connections_per_address_max", admission.address_connections),
        ("connect_rate_per_address_max", admission.address_rate),
        ("memory_bytes_max", without_memory(edge, door.without_memory)),
        ("topics_max", refused.topics_full),
        ("filters_per_shard_max", of(Code::FiltersFull)),
        ("filter_levels_max", of(Code::FilterTooWide)),
        ("subscriptions_per_session_max", of(Code::TooManySubscriptions)),
        ("filters_per_session_max", turned_away.filters_too_many),
        ("filters_per_user_max", turned_away.filters_of_user),
        ("subscribe_rate_max", turned_away.subscriptions_too_fast),
        ("connections_per_user_max", door.users.refused),
        ("publish_rate_max", turned_away.publishes_too_fast),
        ("rule.publish_rate_max", refused.rate_limited),
        ("requests_rate_max", turned_away.requests_too_fast),
        ("ping_rate_max", turned_away.ping_floods),
        ("errors_max", turned_away.error_floods),
        ("message_bytes_max", of(Code::MessageTooLarge)),
        ("request_bytes_max", of(Code::RequestTooLarge)),
        ("frame_bytes_max", edge.ends.of_node(FRAME_TOO_LARGE)),
        ("head_bytes_max", of(Code::HeaderTooLarge)),
        ("handshake_timeout", edge.handshake_timeouts + door.proxied.late),
        ("ping_interval", edge.ping_timeouts),
        ("outbox_bytes_max", edge.slow_closed - edge.slow_closed_for_all),
        ("pinned_bytes_max", edge.input_closed + edge.slow_closed_for_all),
        ("unfinished_input_timeout", edge.input_timeouts),
        ("log_bytes_max", refused.log_full),
        ("retained_bytes_max", refused.retained_full),
        ("producers_max", refused.producers_full),
        ("log_stall_timeout", home.logs_stalled),
    ];
    families.counters(
        "crore_limits_hit_total",
        "Times that a limit was reached, by the name of the limit in the configuration.",
        "limit",
        &limits,
    );
}

/// `Message Too Big`, RFC 6455, section 7.4.1.
const FRAME_TOO_LARGE: u16 = 1009;

fn without_memory(edge: &EdgeStatistics, connections: u64) -> u64 {
    let turned_away = &edge.turned_away;
    connections
        + turned_away.histories_without_memory
        + turned_away.subscriptions_without_memory
        + turned_away.publishes_without_memory
}
