//! The node's metrics: what the shards have counted, folded, and what the process uses. Never a
//! label for a topic or a client.
//!
//! A family of one counter is declared at the counter's field (`stdx::metrics`); modules here make
//! those of several. One list of all ([`collect`]) is written as [`text`] for Prometheus, and as
//! `line_protocol` where metrics are pushed ([`push`]). Two counters stand where a gauge would
//! race: connections are `accepted` and `closed`, and also the gauge, which is their difference at
//! one moment.

mod connections;
mod disks;
mod door;
mod engine;
mod entitlement;
mod exposition;
mod families;
#[cfg(test)]
mod hanging;
mod limits;
mod line_protocol;
mod log;
mod process;
pub mod push;
pub mod reference;
mod tls;
mod topics;

pub use exposition::text;
pub use families::Family;

use crate::cluster::ClusterCounts;
use crate::logging;
use crate::process::memory;
use crate::reloaded::Counts;
use ::entitlement::Statistics as OfJudge;
use families::Families;
use node::NodeStatistics;
use push::PushCounts;
use std::sync::Arc;

/// Sources of the metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sources<'a> {
    /// Name of the node.
    pub node_name: &'a str,
    /// Counters of its shards, log threads and sockets.
    pub statistics: NodeStatistics,
    /// Counters of the authenticator.
    pub authenticator: OfJudge,
    /// Reloads of the configuration.
    pub reloads: Counts,
    /// Lines of the log.
    pub log: logging::Counts,
    /// Counters of pushes.
    pub pushes: PushCounts,
    /// Counts of the cluster.
    pub cluster: ClusterCounts,
}

/// Asks for all families, from any thread.
pub type Gather = Arc<dyn Fn() -> Vec<Family> + Send + Sync>;

/// All families, in their order.
pub fn collect(sources: &Sources<'_>) -> Vec<Family> {
    let statistics = &sources.statistics;
    let NodeStatistics { edge, home, .. } = statistics;
    let mut families = Families::default();
    let labels = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("commit", option_env!("BUILD_COMMIT").unwrap_or("unknown")),
        ("node", sources.node_name),
    ];
    families.information("crore_build_info", "Version, commit and name of the node.", &labels);
    families.declared(edge);
    connections::write(&mut families, edge);
    connections::write_transports(&mut families, edge, &statistics.tls);
    families.declared(&statistics.sockets);
    families.declared(&statistics.sockets.user);
    families.declared(&edge.turned_away);
    families.declared(&statistics.door);
    families.declared(&statistics.door.admission);
    families.declared(&statistics.door.users);
    door::write(&mut families, &statistics.door, &edge.turned_away);
    limits::write(&mut families, statistics);
    families.declared(home);
    topics::write(&mut families, home);
    families.declared(&statistics.timings);
    families.declared(&statistics.log);
    disks::write(&mut families, statistics);
    families.declared(&statistics.engine);
    engine::write(&mut families, statistics);
    write_cluster(&mut families, sources.cluster);
    families.declared(&statistics.tls);
    tls::write(&mut families, &statistics.tls);
    families.declared(&sources.authenticator);
    entitlement::write(&mut families, &sources.authenticator);
    process::write_threads(&mut families, statistics);
    let rest = memory::rest(&statistics.memory);
    process::write_memory(&mut families, &statistics.memory, rest);
    process::write_process(&mut families);
    write_reloads(&mut families, sources.reloads);
    log::write(&mut families, &sources.log);
    write_pushes(&mut families, sources.pushes);
    families.finish()
}

fn write_cluster(families: &mut Families, counts: ClusterCounts) {
    families.gauge(
        "crore_cluster_nodes",
        "Nodes of the cluster that report regularly, this one included; 0 without an engine.",
        counts.nodes,
    );
    families.gauge(
        "crore_cluster_silence_seconds",
        "Time since this node has read its own report in the cluster's control topic. After 60 s the node accepts no tokens.",
        counts.silence_ms as f64 / 1e3,
    );
}

fn write_reloads(families: &mut Families, counts: Counts) {
    families.counters(
        "crore_reloads_total",
        "Reloads of the configuration by result; a configuration with a fault is refused as a whole.",
        "result",
        &[("taken", counts.taken), ("refused", counts.refused)],
    );
    families.gauge(
        "crore_configuration_changes_waiting",
        "Changes of the configuration that wait for a restart since the last reload.",
        counts.waiting,
    );
}

fn write_pushes(families: &mut Families, counts: PushCounts) {
    families.counters(
        "crore_metrics_pushes_total",
        "Pushes of the metrics to metrics.push_to, by result.",
        "result",
        &[("sent", counts.sent), ("failed", counts.failed)],
    );
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
        let home = HomeStatistics { topics: 9, ..HomeStatistics::default() };
        let text = text(&collect(&Sources {
            node_name: "n\"1",
            statistics: NodeStatistics { edge, home, ..NodeStatistics::default() },
            ..Sources::default()
        }));
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

    /// The rules of `promtool check metrics`, which the foreign suites run on a node: help for each
    /// family, `_total` for counters and for nothing else, no unit but base units, lower case.
    #[test]
    fn names_follow_the_conventions() {
        let text = text(&collect(&Sources::default()));
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
                    name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()),
                    "{line}"
                );
                for unit in ["_ms", "_milliseconds", "_kib", "_percent", "_count"] {
                    assert!(!name.contains(unit), "{line}");
                }
            } else {
                let name = line.split(['{', ' ']).next().unwrap();
                let parts = ["_bucket", "_sum", "_count"];
                let family = parts.iter().find_map(|part| name.strip_suffix(part));
                let last = helped.last().map(String::as_str);
                assert!(last == Some(name) || last == family, "{line}");
            }
        }
    }
}
