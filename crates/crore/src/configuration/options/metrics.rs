//! Options of metrics that are pushed.

use super::spec::{GIB, MIB, options, seconds, size, text};
use std::time::Duration;

options! {
    /// Metrics that the node pushes. Prometheus can always scrape them at /metrics of the
    /// operators' port.
    section "metrics": MetricsPush;

    /// Target of the metrics in InfluxDB's line protocol, for Telegraf and others: file:PATH,
    /// udp:HOST:PORT or http://HOST:PORT/PATH. Not given: none. A failed push is counted and
    /// logged, and not repeated.
    push_to: Option<String> = example "udp:127.0.0.1:8094", text(2_048), Restart;
    /// Interval of pushes.
    push_interval: Duration = "10s", seconds(1, 3_600), Restart;
    /// Bytes of the file of file:PATH. The node renames a full file to its name with .1, replaces
    /// the previous one, and begins a new file.
    push_file_bytes_max: u64 = "64MiB", size(MIB, 64 * GIB), Restart;
}
