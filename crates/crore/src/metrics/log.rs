//! Families of log lines: written, dropped, left out.

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
}
