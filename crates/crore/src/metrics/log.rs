//! What the metrics say of what the node says itself: log lines written, dropped, left out;
//! `$sys/...`.

use super::families::Families;
use crate::logging::{Counts, TARGETS};

/// Families of the process's log, and of publications of its own.
pub fn write(families: &mut Families, counts: &Counts, sys_lost: u64) {
    let written: Vec<(&str, u64)> = TARGETS
        .into_iter()
        .map(|target| (target.word(), counts.written[target as usize]))
        .collect();
    families.counters(
        "crore_log_lines_total",
        "Lines written to standard output, by target.",
        "target",
        &written,
    );
    families.counters(
        "crore_log_lines_dropped_total",
        "Dropped lines by reason: standard output did not accept the lines before them (output), or the limit per second was reached (rate).",
        "reason",
        &[("output", counts.dropped), ("rate", counts.left_out)],
    );
    families.counter(
        "crore_sys_publications_lost_total",
        "Publications on $sys/... that were dropped because the queue of their home shard was full.",
        sys_lost,
    );
}
