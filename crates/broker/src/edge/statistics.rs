//! Counters of an edge, for metrics. Plain numbers; nothing per topic or client.

use crate::edge::counts::Counts;
use crate::edge::ends::EndCounts;
use crate::entitlement::Action;
use stdx::Counters;
use stdx::handing::Hand;
use stdx::histogram::Histogram;
use stdx::metrics::Metrics;
use wire::native::ErrorCode;

/// Counters and gauges of one edge, since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand, Counters, Metrics)]
pub struct EdgeStatistics {
    /// Connections accepted.
    #[metric("crore_connections_accepted_total")]
    pub accepted: u64,
    /// Connections closed, for any reason.
    #[metric("crore_connections_closed_total")]
    pub closed: u64,
    /// Open connections.
    #[metric("crore_connections")]
    pub connections: u64,
    /// Native sessions among the connections.
    pub native_sessions: u64,
    /// Native sessions as JSON among the connections.
    pub json_sessions: u64,
    /// Sessions of MQTT.
    pub mqtt_sessions: u64,
    /// Event streams among the connections.
    pub event_streams: u64,
    /// Echo sessions among the connections.
    pub echo_sessions: u64,
    /// Long polls among the connections.
    pub long_polls: u64,
    /// Connections ended, by code or cause.
    pub ends: EndCounts,
    /// Time from the accept of a connection to the head of its first request, or to HELLO if it
    /// begins a session, including TLS. In whole milliseconds.
    #[metric("crore_handshake_seconds")]
    pub handshakes: Histogram,
    /// Error frames and answers, by code.
    pub errors: ErrorCounts,
    /// Current subscriptions.
    #[metric("crore_subscriptions")]
    pub subscriptions: u64,
    /// Subscriptions refused.
    #[metric("crore_subscriptions_refused_total")]
    pub subscriptions_refused: u64,
    /// Distinct filters now.
    pub filters: u64,
    /// Distinct tokens and API keys of connected clients.
    #[metric("crore_entitlements")]
    pub entitlements: u64,
    /// Tokens and API keys that needed a check.
    #[metric("crore_credential_questions_total")]
    pub questions: u64,
    /// Tokens and API keys that were refused.
    #[metric("crore_credentials_refused_total")]
    pub credentials_refused: u64,
    /// Actions that the client's token, or the permissions of clients without a token, do not
    /// allow.
    #[metric("crore_forbidden_total", by = "action")]
    pub forbidden: Forbidden,
    /// Sessions that renewed their token.
    #[metric("crore_renewals_total")]
    pub renewals: u64,
    /// Connections closed because their token expired.
    #[metric("crore_tokens_expired_total")]
    pub tokens_expired: u64,
    /// Connections closed because their token was revoked.
    #[metric("crore_revoked_total")]
    pub revoked: u64,
    /// HTTP requests.
    #[metric("crore_http_requests_total")]
    pub http_requests: u64,
    /// HTTP answers of 400 and above.
    #[metric("crore_http_errors_total")]
    pub http_errors: u64,
    /// Frames and messages that violated their protocol.
    #[metric("crore_protocol_errors_total")]
    pub protocol_errors: u64,
    /// Publications received from clients.
    #[metric("crore_publishes_received_total")]
    pub publishes: u64,
    /// Messages delivered to connections; each receiver counts.
    #[metric("crore_messages_delivered_total")]
    pub delivered: u64,
    /// Messages delivered from a log to one replaying or lagging subscription, and retained
    /// messages.
    #[metric("crore_messages_replayed_total")]
    pub replayed: u64,
    /// Subscriptions with a position, by result: all messages after it followed, there was a gap,
    /// or the subscription was refused because of a gap.
    #[metric("crore_recoveries_total", by = "result")]
    pub recoveries: Recoveries,
    /// Times that a subscription fell behind the recent frames and continued from the log.
    #[metric("crore_subscriptions_lagged_total")]
    pub lagging: u64,
    /// Times that a slow subscription skipped to its newest message.
    #[metric("crore_subscriptions_conflated_total")]
    pub conflated: u64,
    /// Times that a slow subscription continued live without its missed messages.
    #[metric("crore_subscriptions_dropped_total")]
    pub dropped: u64,
    /// Subscriptions ended because their client was too slow.
    #[metric("crore_subscriptions_disconnected_total")]
    pub disconnected: u64,
    /// Sessions and event streams that a drain asked to reconnect.
    #[metric("crore_sent_away_total")]
    pub sent_away: u64,
    /// Resume tickets issued.
    #[metric("crore_tickets_issued_total")]
    pub tickets_issued: u64,
    /// Sessions resumed with a ticket.
    #[metric("crore_tickets_resumed_total")]
    pub tickets_resumed: u64,
    /// Resume tickets that were refused.
    #[metric("crore_tickets_refused_total")]
    pub tickets_refused: u64,
    /// Pages read for replaying and lagging subscriptions.
    #[metric("crore_pages_total")]
    pub pages: u64,
    /// Gaps reported to subscribers.
    #[metric("crore_gaps_total")]
    pub gaps: u64,
    /// Connections closed because they did not drain.
    pub slow_closed: u64,
    /// Connections closed because the buffers of all connections together exceeded their bound.
    pub slow_closed_for_all: u64,
    /// Connections that operators have ended.
    pub disconnected_by_operators: u64,
    /// Connections whose first request did not arrive in time.
    pub handshake_timeouts: u64,
    /// Connections closed because they did not answer pings.
    #[metric(limit = "ping_interval")]
    pub ping_timeouts: u64,
    /// Connections lost because the peer's host acknowledged nothing any more.
    pub unacknowledged: u64,
    /// Pings sent to quiet connections.
    #[metric("crore_pings_total")]
    pub pings: u64,
    /// Bytes read from clients.
    #[metric("crore_received_bytes_total")]
    pub read_bytes: u64,
    /// Bytes written to clients.
    #[metric("crore_sent_bytes_total")]
    pub written_bytes: u64,
    /// Output bytes that wait for blocked connections.
    #[metric("crore_pinned_bytes")]
    pub pinned_bytes: u64,
    /// Bytes of log segments that large outgoing frames keep in memory, including dropped segments.
    #[metric("crore_ring_segment_bytes")]
    pub ring_segment_bytes: u64,
    /// Buffered bytes of incomplete frames, messages and bodies.
    #[metric("crore_kept_input_bytes")]
    pub buffered_bytes: u64,
    /// Connections closed because these bytes exceeded their bound.
    pub input_closed: u64,
    /// Connections closed because their unfinished input stopped.
    #[metric(limit = "unfinished_input_timeout")]
    pub input_timeouts: u64,
    /// Compressed messages; a message for several receivers counts once.
    #[metric("crore_compressed_messages_total")]
    pub compressed: u64,
    /// Bytes of compressed messages before compression.
    #[metric("crore_compressed_input_bytes_total")]
    pub compressed_plain_bytes: u64,
    /// Bytes of compressed messages after compression.
    #[metric("crore_compressed_output_bytes_total")]
    pub compressed_bytes: u64,
    /// Messages sent uncompressed because compression did not make them smaller.
    #[metric("crore_incompressible_messages_total")]
    pub incompressible: u64,
    /// Compressed messages received from clients.
    #[metric("crore_inflated_messages_total")]
    pub inflated: u64,
    /// Compressed messages that exceeded the maximum size when decompressed; their connections were
    /// closed.
    #[metric("crore_inflate_refusals_total")]
    pub inflate_too_large: u64,
    /// Wills of MQTT clients that were published.
    #[metric("crore_mqtt_wills_total")]
    pub wills: u64,
    /// Messages that an MQTT client did not get because they exceed its maximum packet size.
    #[metric("crore_mqtt_packets_too_large_total")]
    pub packets_too_large: u64,
    /// Acknowledgements of MQTT clients for a packet identifier that was not open.
    #[metric("crore_mqtt_unknown_acknowledgements_total")]
    pub unknown_acknowledgements: u64,
    /// Publications on $sys/... that were dropped because the queue of their home shard was full,
    /// wills of MQTT likewise, and records of MQTT sessions that their log refused.
    #[metric("crore_sys_publications_lost_total")]
    pub own_publications_lost: u64,
    /// Clients turned away by a rate or for want of memory.
    pub turned_away: TurnedAway,
}

/// Clients and requests turned away, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand, Counters, Metrics)]
pub struct TurnedAway {
    /// Publications refused because their connection publishes faster than it may.
    #[metric(limit = "publish_rate_max")]
    pub publishes_too_fast: u64,
    /// HTTP requests refused for the same reason.
    #[metric(limit = "requests_rate_max")]
    pub requests_too_fast: u64,
    /// Connections closed because their client pinged faster than it may.
    #[metric(limit = "ping_rate_max")]
    pub ping_floods: u64,
    /// Connections closed because the node refused too many of their requests.
    #[metric(limit = "errors_max")]
    pub error_floods: u64,
    /// Subscriptions refused because their session, or its token, has as many as it may.
    pub subscriptions_too_many: u64,
    /// Filters refused because their session holds as many as it may.
    #[metric(limit = "filters_per_session_max")]
    pub filters_too_many: u64,
    /// Subscriptions refused because their session begins them faster than it may.
    #[metric(limit = "subscribe_rate_max")]
    pub subscriptions_too_fast: u64,
    /// Filters refused because their user has as many as it may.
    #[metric(limit = "filters_per_user_max")]
    pub filters_of_user: u64,
    /// Requests of trusted proxies without the client's address, or with a malformed one.
    #[metric("crore_forwarded_unknown_total")]
    pub clients_unknown: u64,
    /// Clients behind trusted proxies refused because their address has as much as it may.
    pub clients_refused: u64,
    /// Histories and long polls refused for want of memory.
    pub histories_without_memory: u64,
    /// Subscriptions and sessions refused for want of memory.
    pub subscriptions_without_memory: u64,
    /// Publications refused for want of memory.
    pub publishes_without_memory: u64,
}

/// Errors sent to clients, by code.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Hand)]
pub struct ErrorCounts(Counts<{ ErrorCode::ALL.len() }>);

impl ErrorCounts {
    pub(crate) fn count(&mut self, code: ErrorCode) {
        self.0.count(place_of(code));
    }

    /// The count of one code.
    pub fn of(&self, code: ErrorCode) -> u64 {
        self.0.of(place_of(code))
    }

    /// The counts of all codes, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (ErrorCode, u64)> {
        ErrorCode::ALL.into_iter().zip(self.0.numbers())
    }
}

impl std::ops::AddAssign for ErrorCounts {
    fn add_assign(&mut self, other: ErrorCounts) {
        self.0 += other.0;
    }
}

/// The place of a code: codes are in the order of their numbers.
fn place_of(code: ErrorCode) -> usize {
    ErrorCode::ALL
        .binary_search_by_key(&code.number(), |known| known.number())
        .unwrap_or(usize::MAX)
}

/// Requests without permission, by action.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Hand, Counters, Metrics)]
pub struct Forbidden {
    /// Subscriptions.
    pub subscribe: u64,
    /// Publications.
    pub publish: u64,
    /// Histories.
    pub history: u64,
}

impl Forbidden {
    pub(crate) fn count(&mut self, action: Action) {
        let number = match action {
            Action::Subscribe => &mut self.subscribe,
            Action::Publish => &mut self.publish,
            Action::History => &mut self.history,
        };
        *number += 1;
    }

    /// The sum of the counts.
    pub fn total(&self) -> u64 {
        self.subscribe + self.publish + self.history
    }
}

/// Subscriptions that came with a position, by outcome.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Hand, Counters, Metrics)]
pub struct Recoveries {
    /// All records after the position follow.
    pub complete: u64,
    /// Some records are no longer available; the client got the gap.
    pub gap: u64,
    /// Refused because of a gap, as the client wanted it.
    pub refused: u64,
}

impl Recoveries {
    pub(crate) fn count(&mut self, is_resumed: bool, has_gap: bool) {
        match (is_resumed, has_gap) {
            (_, true) => self.gap += 1,
            (true, false) => self.complete += 1,
            (false, false) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_places_of_their_own() {
        let mut counts = ErrorCounts::default();
        for (number, code) in (1..).zip(ErrorCode::ALL) {
            (0..number).for_each(|_| counts.count(code));
        }
        for (number, (code, count)) in (1..).zip(counts.iter()) {
            assert_eq!(count, number, "{}", code.name());
            assert_eq!(counts.of(code), number);
        }
    }
}
