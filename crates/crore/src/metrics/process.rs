//! Families of the process: its state, threads, memory by component, and processor time.

use super::families::Families;
use crate::process;
use crate::process::memory::Rest;
use node::NodeStatistics;
use stdx::memory::Components;

/// Families of the node's state and of its threads.
pub fn write_threads(families: &mut Families, statistics: &NodeStatistics) {
    families.gauge(
        "crore_draining",
        "1 if the node is draining or stopping, else 0.",
        u8::from(statistics.is_draining),
    );
    families.gauge("crore_io_threads", "I/O threads.", statistics.io_threads);
    families.gauge(
        "crore_io_threads_silent",
        "I/O threads that did not answer this scrape in time; other metrics lack their figures.",
        statistics.silent_threads,
    );
    families.gauge(
        "crore_log_threads_silent",
        "Log threads that did not answer this scrape in time; other metrics lack their figures.",
        statistics.silent_logs,
    );
    families.gauge(
        "crore_connections_max",
        "Maximum number of connections of the node.",
        statistics.connections_max,
    );
    families.counter(
        "crore_turns_total",
        "Turns of all I/O threads.",
        statistics.timings.turns.count(),
    );
}

/// Families of memory, from one look at the process, so that they add up.
pub fn write_memory(families: &mut Families, components: &Components, rest: Option<Rest>) {
    let mut values: Vec<(&str, i64)> =
        components.iter().map(|(component, bytes)| (component.name(), bytes as i64)).collect();
    if let Some(rest) = rest {
        values.extend([
            ("stacks", rest.stacks as i64),
            ("binary", rest.binary as i64),
            ("allocator_free", rest.allocator_free as i64),
            ("unaccounted", rest.unaccounted),
        ]);
        families.gauge(
            "crore_process_proportional_bytes",
            "User-space memory: the proportional set size.",
            rest.total,
        );
    }
    families.gauges(
        "crore_memory_bytes",
        "User-space memory by component; the sum is the proportional set size.",
        "component",
        &values,
    );
}

/// Families that every process has, under the names that everybody gives them.
pub fn write_process(families: &mut Families) {
    let own = std::process::id();
    if let Some(bytes) = process::resident_bytes(own) {
        families.gauge("process_resident_memory_bytes", "Resident memory size in bytes.", bytes);
    }
    if let Some(seconds) = process::cpu_seconds(own) {
        families.counter(
            "process_cpu_seconds_total",
            "Total user and system CPU time spent in seconds.",
            seconds,
        );
    }
}
