//! What the metrics say of the node's own log lines: written, dropped, left out.

use super::families::Families;
use crate::logging::{Counts, TARGETS};

/// Families of the process's log.
pub fn write(families: &mut Families, counts: &Counts) {
    let written: Vec<(&str, u64)> = TARGETS
        .into_iter()
        .map(|target| (target.word(), counts.written[target as usize]))
        .collect();
    families.counters(
        "crore_log_lines_total",
        "Lines written to standard output, by what they are about.",
        "target",
        &written,
    );
    families.counters(
        "crore_log_lines_dropped_total",
        "Lines that were not written: those before them were not taken (output), or there were more in a second than is wanted (rate).",
        "reason",
        &[("output", counts.dropped), ("rate", counts.left_out)],
    );
}
