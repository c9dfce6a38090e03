//! Counters for `count`: those of all edges and homes of a world, by the names in scripts.

use super::World;
use broker::edge::EdgeStatistics;
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
        let texts = names.iter().map(|name| {
            let value = match *name {
                "connections" => sum.connections,
                "sessions" => sum.native_sessions + sum.echo_sessions + sum.event_streams,
                "subscriptions" => sum.subscriptions,
                "filters" => sum.filters,
                "pinned" => sum.pinned_bytes,
                "kept" => sum.buffered_bytes,
                // How much it is depends on how it came.
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
                "publishes-too-fast" => sum.turned_away.publishes_too_fast,
                "requests-too-fast" => sum.turned_away.requests_too_fast,
                "ping-floods" => sum.turned_away.ping_floods,
                "error-floods" => sum.turned_away.error_floods,
                "filters-too-many" => sum.turned_away.filters_too_many,
                "subscriptions-too-fast" => sum.turned_away.subscriptions_too_fast,
                "filters-of-user" => sum.turned_away.filters_of_user,
                "clients-unknown" => sum.turned_away.clients_unknown,
                "clients-refused" => sum.turned_away.clients_refused,
                "histories-shed" => sum.turned_away.histories_without_memory,
                "subscriptions-shed" => sum.turned_away.subscriptions_without_memory,
                "publishes-shed" => sum.turned_away.publishes_without_memory,
                "topics" => homes.topics,
                "indexes" => homes.indexes,
                "published" => homes.published,
                "staged" => homes.staged,
                "duplicates" => homes.duplicates,
                "out-of-order" => homes.refused.out_of_order,
                "rate-limited" => homes.refused.rate_limited,
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
                _ => count_of(&sum, name),
            };
            format!("{name} {value}")
        });
        texts.collect::<Vec<_>>().join(" ")
    }
}

/// `by-node/3004`, `by-client/1000`: connections with this end; `error/not_found`: errors with this
/// code.
fn count_of(sum: &EdgeStatistics, name: &str) -> u64 {
    let found = match name.split_once('/') {
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
    };
    found.unwrap_or_else(|| panic!("no such counter: {name}"))
}
