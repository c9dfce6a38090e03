//! Declarations of the section `[metrics]`.

use super::{GIB, MIB, OptionSpec, option, seconds, size};
use crate::configuration::value::Kind;

/// Metrics that are pushed. Prometheus asks for them, at `/metrics` of the operators' port, without
/// any of this.
pub(super) const METRICS_OPTIONS: &[OptionSpec] = &[
    option(
        "metrics.push_to",
        Kind::Text { bytes_max: 2_048 },
        "",
        "Where the metrics are pushed in InfluxDB's line protocol, for Telegraf and its like: file:PATH, udp:HOST:PORT or http://HOST:PORT/PATH. Not given: nowhere. A push that fails is counted, told in the log, and not repeated.",
    ),
    option("metrics.push_interval", seconds(1, 3_600), "10s", "How often."),
    option(
        "metrics.push_file_bytes_max",
        size(MIB, 64 * GIB),
        "64MiB",
        "Bytes of the file of file:PATH; when it is full it gets .1 behind its name, in place of the one before, and a new one begins.",
    ),
];
