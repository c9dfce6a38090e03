//! What `/metrics` says of the process: its threads, its memory by what it holds, its time.

use super::exposition::Exposition;
use crate::process;
use crate::process::memory::Rest;
use node::NodeStatistics;
use stdx::memory::Components;

/// Families of I/O threads and their turns.
pub fn write_threads(exposition: &mut Exposition, statistics: &NodeStatistics) {
    exposition.gauge("crore_io_threads", "I/O threads.", statistics.io_threads);
    exposition.gauge(
        "crore_io_threads_silent",
        "I/O threads that did not answer this scrape in time; their numbers are missing here.",
        statistics.silent_threads,
    );
    exposition.gauge(
        "crore_log_threads_silent",
        "Log threads that did not answer this scrape in time; their numbers are missing here.",
        statistics.silent_logs,
    );
    exposition.gauge(
        "crore_connections_max",
        "Connections that the node can hold.",
        statistics.connections_max,
    );
    exposition.counter(
        "crore_turns_total",
        "Turns of all I/O threads.",
        statistics.turns,
    );
    exposition.counter(
        "crore_turns_long_total",
        "Turns of over ten milliseconds.",
        statistics.long_turns,
    );
}

/// Families of memory, from one look at the process, so that they add up.
pub fn write_memory(exposition: &mut Exposition, components: &Components, rest: Option<Rest>) {
    let mut values: Vec<(&str, i64)> = components
        .iter()
        .map(|(component, bytes)| (component.name(), bytes as i64))
        .collect();
    if let Some(rest) = rest {
        values.extend([
            ("stacks", rest.stacks as i64),
            ("binary", rest.binary as i64),
            ("allocator_free", rest.allocator_free as i64),
            ("unaccounted", rest.unaccounted),
        ]);
        exposition.gauge(
            "crore_process_proportional_bytes",
            "User-space memory: the proportional set size.",
            rest.total,
        );
    }
    exposition.gauges(
        "crore_memory_bytes",
        "User-space memory by what it holds; all together the proportional set size.",
        "component",
        &values,
    );
}

/// Families that every process has, under the names that everybody gives them.
pub fn write_process(exposition: &mut Exposition) {
    let own = std::process::id();
    if let Some(bytes) = process::resident_bytes(own) {
        exposition.gauge(
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            bytes,
        );
    }
    if let Some(seconds) = process::cpu_seconds(own) {
        exposition.counter(
            "process_cpu_seconds_total",
            "Total user and system CPU time spent in seconds.",
            seconds,
        );
    }
}
