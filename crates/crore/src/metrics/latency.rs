//! What `/metrics` says of time: how long handshakes, messages, mailboxes, turns and syncs take, in
//! buckets.

use super::families::Families;
use node::NodeStatistics;

/// Families of durations.
pub fn write(families: &mut Families, statistics: &NodeStatistics) {
    let timings = &statistics.timings;
    families.histogram(
        "crore_handshake_seconds",
        "Time from the accept of a connection to the head of its first request, or to HELLO if it begins a session, including TLS. In whole milliseconds.",
        statistics.edge.handshakes,
    );
    families.histogram(
        "crore_publish_to_write_seconds",
        "Time from the turn that read a publication to the end of the turn that wrote it to a subscriber, for each live delivery.",
        timings.deliveries,
    );
    families.histogram(
        "crore_mailbox_delay_seconds",
        "Time from the sending of a batch to another I/O thread to the turn that receives it.",
        timings.mailboxes,
    );
    families.histogram("crore_turn_seconds", "Duration of a turn of an I/O thread.", timings.turns);
    families.histogram(
        "crore_disk_sync_seconds",
        "Time of a batch of a log on disk, write and sync.",
        statistics.log.syncs,
    );
}
