//! What `/metrics` says of logs on disk: what they hold, how long their disks take, what failed.

use super::exposition::seconds;
use super::families::Families;
use node::NodeStatistics;

/// Families of logs on disk. They stand there without one too, as zeros.
pub fn write(families: &mut Families, statistics: &NodeStatistics) {
    let NodeStatistics { home, log, .. } = statistics;
    families.gauge(
        "crore_disk_logs_unavailable",
        "Logs on disk that take no publications now.",
        // A log thread whose disk hangs does not answer; homes know of it, each for itself.
        log.unavailable.max(home.logs_unavailable.min(1)),
    );
    families.counter(
        "crore_disk_logs_stalled_total",
        "Times that a log on disk got nothing done for so long that a home refused what needed its disk.",
        home.logs_stalled,
    );
    families.gauge("crore_disk_log_bytes", "Bytes of segments and indexes on disk now.", log.bytes);
    families.gauge("crore_publishes_staged", "Publications that wait for a disk now.", home.staged);
    families.counter(
        "crore_disk_batches_total",
        "Batches made durable, each with one write and one sync.",
        log.batches,
    );
    families.counter(
        "crore_disk_batch_records_total",
        "Messages in these batches.",
        log.batch_records,
    );
    families.counter("crore_disk_batch_bytes_total", "Bytes of these messages.", log.batch_bytes);
    families.counter(
        "crore_disk_batches_failed_total",
        "Batches that the disk refused.",
        log.batches_failed,
    );
    families.counter(
        "crore_disk_records_refused_total",
        "Publications refused with them.",
        log.records_refused,
    );
    families.gauge(
        "crore_disk_sync_seconds_max",
        "The longest time that a batch has taken since the start, write and sync.",
        seconds(log.sync_us_max),
    );
    families.counter(
        "crore_disk_reads_total",
        "Questions answered from the disk: pages, and where histories begin.",
        log.reads,
    );
    families.counter(
        "crore_disk_reads_failed_total",
        "Questions that the disk refused.",
        log.reads_failed,
    );
    families.counter(
        "crore_disk_reads_damaged_total",
        "Pages from the disk that lacked damaged messages; their readers were told of the gap.",
        log.reads_damaged,
    );
    families.gauge(
        "crore_disk_reads_waiting",
        "Requests that wait for a disk to answer now.",
        home.disk_reads_waiting,
    );
    families.gauge(
        "crore_pages_waiting",
        "Pages and histories that wait for their turn at a home shard now.",
        home.pages_waiting,
    );
    families.counter(
        "crore_disk_segments_dropped_total",
        "Segments that logs on disk dropped for age or size.",
        log.segments_dropped,
    );
    families.counter(
        "crore_disk_expiries_failed_total",
        "Times that a log on disk was to drop a segment, or to look for one, and its disk refused.",
        log.expiries_failed,
    );
    families.counter(
        "crore_disk_removals_failed_total",
        "Times that a file of a log on disk that counts no more could not be removed.",
        log.removals_failed,
    );
    families.counter(
        "crore_disk_retained_lost_total",
        "Retained messages that are on disk no more: their segment was due, and they could not be read or copied.",
        log.retained_lost,
    );
    families.gauge(
        "crore_disk_torn_bytes",
        "Bytes that the start cut from the ends of logs: they had never been acknowledged.",
        log.torn_bytes,
    );
    families.gauge(
        "crore_disk_damages",
        "Places of damage that the start found: acknowledged messages may be lost.",
        log.damages,
    );
}
