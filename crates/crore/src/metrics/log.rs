//! What `/metrics` says of the node's own log lines: written, dropped, left out.

use super::exposition::Exposition;
use crate::logging::{Counts, TARGETS};

/// The families, as a text of its own: the log is not the node's.
pub fn render(counts: &Counts) -> String {
    let mut exposition = Exposition::default();
    let written: Vec<(&str, u64)> = TARGETS
        .into_iter()
        .map(|target| (target.word(), counts.written[target as usize]))
        .collect();
    exposition.counters(
        "crore_log_lines_total",
        "Lines written to standard output, by what they are about.",
        "target",
        &written,
    );
    exposition.counters(
        "crore_log_lines_dropped_total",
        "Lines that were not written: those before them were not taken (output), or there were more in a second than is wanted (rate).",
        "reason",
        &[("output", counts.dropped), ("rate", counts.left_out)],
    );
    exposition.finish()
}
