//! Declarations of the section `[metrics]`.

use super::spec::{GIB, MIB, OptionSpec, option, seconds, size};
use crate::configuration::value::Kind;

/// Metrics that are pushed. Prometheus asks for them, at `/metrics` of the operators' port, without
/// any of this.
pub(super) const METRICS_OPTIONS: &[OptionSpec] = &[
    option(
        "metrics.push_to",
        Kind::Text { bytes_max: 2_048 },
        "",
        "Target of the metrics in InfluxDB's line protocol, for Telegraf and others: file:PATH, udp:HOST:PORT or http://HOST:PORT/PATH. Not given: none. A failed push is counted and logged, and not repeated.",
    ),
    option("metrics.push_interval", seconds(1, 3_600), "10s", "Interval of pushes."),
    option(
        "metrics.push_file_bytes_max",
        size(MIB, 64 * GIB),
        "64MiB",
        "Bytes of the file of file:PATH. The node renames a full file to its name with .1, replaces the previous one, and begins a new file.",
    ),
];
