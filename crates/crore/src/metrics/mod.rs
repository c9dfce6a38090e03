//! The node's metrics: what the shards have counted, folded, and what the process uses. Never a label for a topic or a client.
//!
//! Two counters stand where a gauge would race: connections are `accepted` and `closed`, and also the gauge, which is
//! their difference at one moment.

mod connections;
mod disks;
mod door;
mod entitlement;
mod exposition;
pub mod log;
mod messages;
mod process;
mod tls;
mod topics;

use crate::process::memory;
use crate::reload::Counts;
use ::entitlement::Statistics as OfJudge;
use exposition::Exposition;
use node::NodeStatistics;

/// The whole text.
pub fn render(node_name: &str, statistics: &NodeStatistics, judge: &OfJudge) -> String {
    let NodeStatistics { edge, home, .. } = statistics;
    let mut exposition = Exposition::default();
    let labels = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("commit", option_env!("CRORE_COMMIT").unwrap_or("unknown")),
        ("node", node_name),
    ];
    exposition.information("crore_build_info", "What runs here.", &labels);
    connections::write(&mut exposition, edge);
    connections::write_shortages(&mut exposition, &statistics.sockets);
    door::write(&mut exposition, &statistics.door, &edge.turned_away);
    messages::write(&mut exposition, edge, home);
    entitlement::write_edge(&mut exposition, edge);
    topics::write(&mut exposition, home);
    disks::write(&mut exposition, statistics);
    tls::write(&mut exposition, &statistics.tls);
    entitlement::write(&mut exposition, judge);
    process::write_threads(&mut exposition, statistics);
    process::write_memory(
        &mut exposition,
        &statistics.memory,
        memory::rest(&statistics.memory),
    );
    process::write_process(&mut exposition);
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

#[cfg(test)]
mod tests {
    use super::*;
    use broker::edge::EdgeStatistics;
    use broker::home::HomeStatistics;

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
