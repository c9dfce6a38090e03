//! Families of logs on disk that need more than one counter.

use super::exposition::seconds;
use super::families::Families;
use node::NodeStatistics;

/// Families of logs on disk; all zero without one.
pub fn write(families: &mut Families, statistics: &NodeStatistics) {
    let NodeStatistics { home, log, .. } = statistics;
    families.gauge(
        "crore_disk_logs_unavailable",
        "Logs on disk that currently accept no publications.",
        // A log thread whose disk hangs does not answer; homes know of it, each for itself.
        log.unavailable.max(home.logs_unavailable.min(1)),
    );
    families.gauge(
        "crore_disk_sync_seconds_max",
        "Longest time of a batch since the start, write and sync.",
        seconds(log.sync_us_max),
    );
}
