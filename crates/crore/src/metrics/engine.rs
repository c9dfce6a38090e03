//! Families of logs in an engine that need more than one counter.

use super::families::Families;
use node::NodeStatistics;

/// Families of logs in an engine; all zero without one.
pub fn write(families: &mut Families, statistics: &NodeStatistics) {
    let silence_ms = statistics.engine.silence_ms;
    families.gauge(
        "crore_engine_silence_seconds",
        "Time since a broker of the engine has answered.",
        silence_ms as f64 / 1_000.0,
    );
}
