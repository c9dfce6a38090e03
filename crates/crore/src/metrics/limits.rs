//! The family of limits: how often each one was reached, under the name that it has in the
//! configuration.
//!
//! A counter that is about one limit names it at its field (`stdx::metrics`). Here stand limits
//! that are refused with a code of their own, or that several counters are about.

use super::families::Families;
use broker::edge::EdgeStatistics;
use broker::mail::Code;
use node::NodeStatistics;
use stdx::metrics::Metrics;

/// The family of limits.
pub fn write(families: &mut Families, statistics: &NodeStatistics) {
    let NodeStatistics { edge, home, door, .. } = statistics;
    let of = |code| edge.errors.of(code);
    let mut limits = vec![
        ("memory_bytes_max", without_memory(edge, door.without_memory)),
        ("filters_per_shard_max", of(Code::FiltersFull)),
        ("filter_levels_max", of(Code::FilterTooWide)),
        ("subscriptions_per_session_max", of(Code::TooManySubscriptions)),
        ("message_bytes_max", of(Code::MessageTooLarge)),
        ("request_bytes_max", of(Code::RequestTooLarge)),
        ("frame_bytes_max", edge.ends.of_node(FRAME_TOO_LARGE)),
        ("head_bytes_max", of(Code::HeaderTooLarge)),
        ("handshake_timeout", edge.handshake_timeouts + door.proxied.late),
        ("outbox_bytes_max", edge.slow_closed - edge.slow_closed_for_all),
        ("pinned_bytes_max", edge.input_closed + edge.slow_closed_for_all),
    ];
    for declared in [
        statistics.sockets.limits(),
        door.admission.limits(),
        door.users.limits(),
        edge.limits(),
        edge.turned_away.limits(),
        home.limits(),
        home.refused.limits(),
    ] {
        limits.extend(declared);
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::options::{LogTable, OPTIONS, RuleTable, Section};

    #[test]
    fn limits_have_the_names_of_their_options() {
        let mut known: Vec<String> = Vec::new();
        for spec in OPTIONS.iter() {
            let name = spec.key.split_once('.').map(|(_, name)| name);
            known.extend([Some(spec.key), name].into_iter().flatten().map(String::from));
        }
        known.extend(
            LogTable::OPTIONS
                .iter()
                .flat_map(|spec| [spec.key.into(), format!("log_{}", spec.key)]),
        );
        known.extend(RuleTable::OPTIONS.iter().map(|spec| format!("rule.{}", spec.key)));
        let mut families = Families::default();
        write(&mut families, &NodeStatistics::default());
        for sample in families.finish().into_iter().flat_map(|family| family.samples) {
            let (_, limit) = &sample.labels[0];
            assert!(known.iter().any(|name| name == limit), "{limit} is not the name of an option");
        }
    }
}
