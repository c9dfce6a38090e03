//! What an edge counts about itself, for metrics. Plain numbers; nothing per topic or client.

use crate::edge::counts::Counts;
use crate::edge::ends::EndCounts;
use crate::entitlement::Action;
use stdx::Counters;
use stdx::handing::Hand;
use stdx::histogram::Histogram;
use wire::native::ErrorCode;

/// Counters and gauges of one edge, since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand, Counters)]
pub struct EdgeStatistics {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections ended, for whatever reason.
    pub closed: u64,
    /// Connections now.
    pub connections: u64,
    /// Of these: native sessions.
    pub native_sessions: u64,
    /// Of these: event streams.
    pub event_streams: u64,
    /// Of these: echo sessions.
    pub echo_sessions: u64,
    /// Of these: long polls.
    pub long_polls: u64,
    /// Connections ended, by code or cause.
    pub ends: EndCounts,
    /// How long connections took from being accepted to HELLO answered, or to the head of their
    /// first request, in whole milliseconds.
    pub handshakes: Histogram,
    /// Errors told to clients, by code.
    pub errors: ErrorCounts,
    /// Subscriptions now.
    pub subscriptions: u64,
    /// Subscriptions refused.
    pub subscriptions_refused: u64,
    /// Distinct filters now.
    pub filters: u64,
    /// Distinct credentials whose clients are here now.
    pub entitlements: u64,
    /// Credentials that the shell was asked about.
    pub questions: u64,
    /// Credentials that were refused.
    pub credentials_refused: u64,
    /// Actions that were not permitted.
    pub forbidden: Forbidden,
    /// Sessions that went on with a new token.
    pub renewals: u64,
    /// Connections ended because their token had expired.
    pub tokens_expired: u64,
    /// Connections ended because their token was revoked.
    pub revoked: u64,
    /// HTTP requests.
    pub http_requests: u64,
    /// HTTP answers of 400 and above.
    pub http_errors: u64,
    /// Frames and WebSocket messages that broke their protocol.
    pub protocol_errors: u64,
    /// Publications received from clients.
    pub publishes: u64,
    /// Messages handed to connections (each receiver counts).
    pub delivered: u64,
    /// Of these: messages read from a log for one subscription, and retained ones.
    pub replayed: u64,
    /// Subscriptions that came with a position.
    pub recoveries: Recoveries,
    /// Times that a subscription fell behind what the ring keeps.
    pub lagging: u64,
    /// Times that a subscription was brought to its newest message, past others.
    pub conflated: u64,
    /// Times that a subscription was told to have missed messages, and went on live.
    pub dropped: u64,
    /// Subscriptions ended because their client did not keep up.
    pub disconnected: u64,
    /// Sessions and event streams that were told to go, and when to return.
    pub sent_away: u64,
    /// Resume tickets issued.
    pub tickets_issued: u64,
    /// Sessions that came back with one.
    pub tickets_resumed: u64,
    /// Tickets that did not hold.
    pub tickets_refused: u64,
    /// Pages read for replaying and lagging subscriptions.
    pub pages: u64,
    /// Gaps announced.
    pub gaps: u64,
    /// Connections closed because they did not drain.
    pub slow_closed: u64,
    /// Of these: because too much was kept for all connections together.
    pub slow_closed_for_all: u64,
    /// Connections that operators have ended.
    pub disconnected_by_operators: u64,
    /// Connections whose first request did not arrive in time.
    pub handshake_timeouts: u64,
    /// Connections closed because they did not answer pings.
    pub ping_timeouts: u64,
    /// Connections lost because the peer's host acknowledged nothing any more.
    pub unacknowledged: u64,
    /// Pings sent.
    pub pings: u64,
    /// Bytes received.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes owned by blocked connections now.
    pub pinned_bytes: u64,
    /// Bytes of segments of logs that large frames of the ring keep now.
    pub ring_segment_bytes: u64,
    /// Bytes of unfinished frames, messages and bodies now.
    pub kept_bytes: u64,
    /// Connections closed because these were too many.
    pub input_closed: u64,
    /// Connections closed because what they had begun to send did not go on.
    pub input_timeouts: u64,
    /// Messages compressed; one for many receivers counts once.
    pub compressed: u64,
    /// Their bytes before.
    pub compressed_plain_bytes: u64,
    /// Their bytes after.
    pub compressed_bytes: u64,
    /// Messages that did not get shorter, and went as they are.
    pub incompressible: u64,
    /// Messages inflated.
    pub inflated: u64,
    /// Messages that would have inflated to more than a message may have; their connections were
    /// closed.
    pub inflate_too_large: u64,
    /// Publications on `$sys/...` that were given up because their home had no room.
    pub own_publications_lost: u64,
    /// Who was turned away because of how fast they were, or because memory was short.
    pub turned_away: TurnedAway,
}

/// Who was turned away, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand, Counters)]
pub struct TurnedAway {
    /// Publications refused because their connection publishes faster than it may.
    pub publishes_too_fast: u64,
    /// HTTP requests refused for the same reason.
    pub requests_too_fast: u64,
    /// Connections closed because their client pinged faster than it may.
    pub ping_floods: u64,
    /// Connections closed because too much of what they sent was refused.
    pub error_floods: u64,
    /// Subscriptions refused because their session, or its token, has as many as it may.
    pub subscriptions_too_many: u64,
    /// Filters refused because their session holds as many as it may.
    pub filters_too_many: u64,
    /// Subscriptions refused because their session begins them faster than it may.
    pub subscriptions_too_fast: u64,
    /// Filters refused because their user has as many as it may.
    pub filters_of_user: u64,
    /// Requests of trusted proxies that did not say whose they are.
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

/// How often clients were told each error.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Hand)]
pub struct ErrorCounts(Counts<{ ErrorCode::ALL.len() }>);

impl ErrorCounts {
    pub(crate) fn count(&mut self, code: ErrorCode) {
        self.0.count(place_of(code));
    }

    /// Of one code.
    pub fn of(&self, code: ErrorCode) -> u64 {
        self.0.of(place_of(code))
    }

    /// Of all codes, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (ErrorCode, u64)> {
        ErrorCode::ALL.into_iter().zip(self.0.numbers())
    }
}

impl std::ops::AddAssign for ErrorCounts {
    fn add_assign(&mut self, other: ErrorCounts) {
        self.0 += other.0;
    }
}

/// They stand there by number.
fn place_of(code: ErrorCode) -> usize {
    ErrorCode::ALL
        .binary_search_by_key(&code.number(), |known| known.number())
        .unwrap_or(usize::MAX)
}

/// What was not permitted, by what was wanted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Hand, Counters)]
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

    /// All of them.
    pub fn total(&self) -> u64 {
        self.subscribe + self.publish + self.history
    }
}

/// What became of subscriptions that came with a position.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Hand, Counters)]
pub struct Recoveries {
    /// Everything behind the position follows.
    pub complete: u64,
    /// Some of it cannot be had; the client was told.
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
