//! Counters for `count`: those of all edges and homes of a world, by the names in scripts.

use super::World;
use broker::edge::{EdgeStatistics, TurnedAway};
use broker::home::HomeStatistics;

impl World<'_> {
    pub(super) fn count(&self, names: &[&str]) -> String {
        let mut sum = EdgeStatistics::default();
        let mut homes = HomeStatistics::default();
        for shard in &self.shards {
            sum += shard.edge.statistics();
            if let Some(home) = &shard.home {
                homes += home.statistics();
            }
        }
        let value = |name: &&str| {
            let found = count_of_edges(&sum, name)
                .or_else(|| count_of_refusals(&sum.turned_away, name))
                .or_else(|| count_of_homes(&homes, name))
                .or_else(|| count_by_code(&sum, name));
            let count = found.unwrap_or_else(|| panic!("no such counter: {name}"));
            format!("{name} {count}")
        };
        names.iter().map(value).collect::<Vec<_>>().join(" ")
    }
}

fn count_of_edges(sum: &EdgeStatistics, name: &str) -> Option<u64> {
    Some(match name {
        "connections" => sum.connections,
        "sessions" => {
            sum.native_sessions + sum.json_sessions + sum.echo_sessions + sum.event_streams
        }
        "mqtt-sessions" => sum.mqtt_sessions,
        "protocol-errors" => sum.protocol_errors,
        "wills" => sum.wills,
        "packets-too-large" => sum.packets_too_large,
        "unknown-acknowledgements" => sum.unknown_acknowledgements,
        "delivered" => sum.delivered,
        "subscriptions" => sum.subscriptions,
        "filters" => sum.filters,
        "pinned" => sum.pinned_bytes,
        "kept" => sum.buffered_bytes,
        // The size depends on the chunks in which the input came.
        "keeps" => u64::from(sum.buffered_bytes > 0),
        "input-closed" => sum.input_closed,
        "input-timeouts" => sum.input_timeouts,
        "lagging" => sum.lagging,
        "pages" => sum.pages,
        "sent-away" => sum.sent_away,
        "own-publications-lost" => sum.own_publications_lost,
        "tickets-issued" => sum.tickets_issued,
        "tickets-resumed" => sum.tickets_resumed,
        "entitlements" => sum.entitlements,
        "questions" => sum.questions,
        "credentials-refused" => sum.credentials_refused,
        "forbidden" => sum.forbidden.total(),
        "renewals" => sum.renewals,
        "expired" => sum.tokens_expired,
        "revoked" => sum.revoked,
        "tickets-refused" => sum.tickets_refused,
        "conflated" => sum.conflated,
        "dropped" => sum.dropped,
        "disconnected" => sum.disconnected,
        "compressed" => sum.compressed,
        "plain-bytes" => sum.compressed_plain_bytes,
        "packed-bytes" => sum.compressed_bytes,
        "incompressible" => sum.incompressible,
        "inflated" => sum.inflated,
        "inflate-too-large" => sum.inflate_too_large,
        "keeps-segments" => u64::from(sum.ring_segment_bytes > 0),
        "slow" => sum.slow_closed,
        "slow-for-all" => sum.slow_closed_for_all,
        "handshake-timeouts" => sum.handshake_timeouts,
        "ping-timeouts" => sum.ping_timeouts,
        "pings" => sum.pings,
        "subscriptions-refused" => sum.subscriptions_refused,
        "replayed" => sum.replayed,
        "recovered" => sum.recoveries.complete,
        "recovered-gap" => sum.recoveries.gap,
        "recovered-refused" => sum.recoveries.refused,
        "handshakes" => sum.handshakes.count(),
        "handshakes-ms" => sum.handshakes.sum_us() / 1_000,
        "long-polls" => sum.long_polls,
        "closed" => sum.closed,
        "ends" => sum.ends.iter().map(|(_, _, count)| count).sum(),
        "forbidden-publish" => sum.forbidden.publish,
        _ => return None,
    })
}

fn count_of_refusals(refused: &TurnedAway, name: &str) -> Option<u64> {
    Some(match name {
        "publishes-too-fast" => refused.publishes_too_fast,
        "requests-too-fast" => refused.requests_too_fast,
        "ping-floods" => refused.ping_floods,
        "error-floods" => refused.error_floods,
        "filters-too-many" => refused.filters_too_many,
        "subscriptions-too-fast" => refused.subscriptions_too_fast,
        "filters-of-user" => refused.filters_of_user,
        "clients-unknown" => refused.clients_unknown,
        "clients-refused" => refused.clients_refused,
        "histories-shed" => refused.histories_without_memory,
        "subscriptions-shed" => refused.subscriptions_without_memory,
        "publishes-shed" => refused.publishes_without_memory,
        _ => return None,
    })
}

fn count_of_homes(homes: &HomeStatistics, name: &str) -> Option<u64> {
    Some(match name {
        "topics" => homes.topics,
        "sleeping" => homes.mqtt_sessions_sleeping,
        "indexes" => homes.indexes,
        "published" => homes.published,
        "staged" => homes.staged,
        "duplicates" => homes.duplicates,
        "out-of-order" => homes.refused.out_of_order,
        "rate-limited" => homes.refused.rate_limited,
        _ => return None,
    })
}

/// `by-node/3004`, `by-client/1000`: connections with this end; `error/not_found`: errors with this
/// code.
fn count_by_code(sum: &EdgeStatistics, name: &str) -> Option<u64> {
    match name.split_once('/') {
        Some(("error", code)) => {
            sum.errors.iter().find(|(known, _)| known.name() == code).map(|(_, count)| count)
        }
        Some((side, code)) => {
            let side = side.strip_prefix("by-");
            let mut ends = sum.ends.iter();
            let end = ends.find(|(by, known, _)| Some(*by) == side && known == code);
            end.map(|(_, _, count)| count)
        }
        None => None,
    }
}
