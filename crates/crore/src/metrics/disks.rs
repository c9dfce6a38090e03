//! What `/metrics` says of logs on disk: what they hold, how long their disks take, what failed.

use super::exposition::seconds;
use super::families::Families;
use node::NodeStatistics;

/// Families of logs on disk. They stand there without one too, as zeros.
pub fn write(families: &mut Families, statistics: &NodeStatistics) {
    let NodeStatistics { home, log, .. } = statistics;
    families.gauge(
        "crore_disk_logs_unavailable",
        "Logs on disk that currently accept no publications.",
        // A log thread whose disk hangs does not answer; homes know of it, each for itself.
        log.unavailable.max(home.logs_unavailable.min(1)),
    );
    families.counter(
        "crore_disk_logs_stalled_total",
        "Times that a log on disk made no progress within the stall timeout, so that a home shard refused requests for its disk.",
        home.logs_stalled,
    );
    families.gauge("crore_disk_log_bytes", "Bytes of segments and indexes on disk.", log.bytes);
    families.gauge("crore_publishes_staged", "Publications that wait for a disk.", home.staged);
    families.counter(
        "crore_disk_batches_total",
        "Batches made durable, each with one write and one sync.",
        log.batches,
    );
    families.counter(
        "crore_disk_batch_records_total",
        "Messages in durable batches.",
        log.batch_records,
    );
    families.counter(
        "crore_disk_batch_bytes_total",
        "Bytes of messages in durable batches.",
        log.batch_bytes,
    );
    families.counter(
        "crore_disk_batches_failed_total",
        "Batches that failed to be written.",
        log.batches_failed,
    );
    families.counter(
        "crore_disk_records_refused_total",
        "Publications refused because their batch failed to be written.",
        log.records_refused,
    );
    families.gauge(
        "crore_disk_sync_seconds_max",
        "Longest time of a batch since the start, write and sync.",
        seconds(log.sync_us_max),
    );
    families.counter(
        "crore_disk_reads_total",
        "Requests answered from the disk: pages, and starts of histories.",
        log.reads,
    );
    families.counter(
        "crore_disk_reads_failed_total",
        "Requests that the disk failed to answer.",
        log.reads_failed,
    );
    families.counter(
        "crore_disk_reads_damaged_total",
        "Pages from the disk without their damaged messages; the readers received a gap.",
        log.reads_damaged,
    );
    families.gauge(
        "crore_disk_reads_waiting",
        "Requests that wait for an answer from a disk.",
        home.disk_reads_waiting,
    );
    families.gauge(
        "crore_pages_waiting",
        "Pages and histories that wait for their turn at a home shard.",
        home.pages_waiting,
    );
    families.counter(
        "crore_disk_segments_dropped_total",
        "Segments that logs on disk dropped because of age or size.",
        log.segments_dropped,
    );
    families.counter(
        "crore_disk_expiries_failed_total",
        "Times that a log on disk failed to drop a segment, or to look for one, because of a disk error.",
        log.expiries_failed,
    );
    families.counter(
        "crore_disk_removals_failed_total",
        "Times that an obsolete file of a log on disk could not be removed.",
        log.removals_failed,
    );
    families.counter(
        "crore_disk_retained_lost_total",
        "Retained messages lost on disk: their segment expired, and they could not be read or copied.",
        log.retained_lost,
    );
    families.gauge(
        "crore_disk_torn_bytes",
        "Bytes that the start cut from the ends of logs; none of them had been acknowledged.",
        log.torn_bytes,
    );
    families.gauge(
        "crore_disk_damages",
        "Damaged places that the start found; acknowledged messages may be lost.",
        log.damages,
    );
}
