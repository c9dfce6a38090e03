//! The options and the result of a world's run.

use crate::mutation::Mutation;
use crate::oracle::{Failure, MqttCounts};
use crate::plan::Scale;
use stdx::Counters;

/// The result of one world's run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// A hash of all data in network and mailboxes: equal seeds give equal hashes.
    pub hash: u64,
    /// The first failure.
    pub failure: Option<Failure>,
    /// The last actions of its client.
    pub notes: Vec<String>,
    /// Checked messages.
    pub deliveries: u64,
    /// Publications.
    pub publications: u64,
    /// Checked gaps and skips.
    pub holes: u64,
    /// Turns of all reactors.
    pub turns: u64,
    /// Letters and requests that crossed mailboxes.
    pub posts: u64,
    /// The number of times that the planted bug took effect.
    pub strikes: u32,
    /// Events of the world, so that a sweep shows its coverage.
    pub reached: Reached,
}

/// Sums of the node's counters, to show the coverage of a sweep.
#[derive(Clone, Copy, Debug, Default, Counters)]
pub struct Reached {
    /// Subscriptions that fell behind the ring.
    pub lagging: u64,
    /// Pages read.
    pub pages: u64,
    /// Streams out of credit.
    pub streams_lagged: u64,
    /// Streams that lost records to eviction.
    pub stream_gaps: u64,
    /// Segments evicted.
    pub evicted_segments: u64,
    /// Topics removed.
    pub forgotten: u64,
    /// Refusals by homes.
    pub refused: u64,
    /// Connections closed because they were slow.
    pub slow_closed: u64,
    /// Nodes that were killed.
    pub crashes: u64,
    /// Nodes that drained and stopped regularly.
    pub drains: u64,
    /// Reloads of nodes.
    pub reloads: u64,
    /// Shards that were handed over.
    pub hand_overs: u64,
    /// Events that nodes published on `$sys/...`.
    pub events: u64,
    /// Events beyond the limit per second.
    pub events_left_out: u64,
    /// Events for which a home had no room.
    pub events_lost: u64,
    /// Connections and renewals refused because their user had the maximum number of connections.
    pub crowds: u64,
    /// Sessions resumed with a ticket.
    pub resumed: u64,
    /// Messages that nodes compressed.
    pub compressed: u64,
    /// Compressed messages of clients.
    pub inflated: u64,
    /// New epochs of logs after a crash.
    pub new_epochs: u64,
    /// Acknowledgements of messages that the log already contained.
    pub duplicates: u64,
    /// The part of these over HTTP.
    pub duplicates_over_http: u64,
    /// Event streams over filters that were resumed with an id.
    pub streams_resumed: u64,
    /// Filters of event streams that were refused while others continued.
    pub filters_refused: u64,
    /// Refusals of a home's batch by a log thread.
    pub batches_refused: u64,
    /// Questions answered from disk.
    pub disk_answers: u64,
    /// Starts that cut a torn tail.
    pub torn_tails: u64,
    /// Starts that found damage.
    pub damaged_starts: u64,
    /// Interrupted starts of logs.
    pub starts_that_died: u64,
    /// Starts of logs on a full disk, with a read-only log.
    pub full_starts: u64,
    /// Starts of logs refused because of a full disk.
    pub refused_starts: u64,
    /// Flipped bits of synced data.
    pub flips: u64,
    /// Lost newest segments and restored directories.
    pub ends_lost: u64,
    /// Logs repaired because a start found unreadable data.
    pub repairs: u64,
    /// Segments dropped from disks.
    pub dropped_segments: u64,
    /// Batches made durable.
    pub batches: u64,
    /// Reads that found damage.
    pub damaged_reads: u64,
    /// Disk calls that hung.
    pub hangs: u64,
    /// Logs that counted as stalled, by home.
    pub stalls: u64,
    /// Subscriptions to logs in memory that received their last message while a disk hung.
    pub served_beside_a_hang: u64,
    /// Messages to clients of MQTT.
    pub mqtt_deliveries: u64,
    /// The part of these with DUP.
    pub mqtt_repeats: u64,
    /// The part of these that were retained, for new subscriptions.
    pub mqtt_retained: u64,
    /// Messages that overlapping filters brought more than once.
    pub mqtt_overlaps: u64,
    /// Publications with QoS 1 and 2 that were acknowledged.
    pub mqtt_accepted: u64,
    /// Publications and releases that clients sent again.
    pub mqtt_resent: u64,
    /// Sessions of MQTT that continued.
    pub mqtt_continued: u64,
    /// The part of these whose connection was taken over.
    pub mqtt_takeovers: u64,
    /// Identifiers used again by a node that had died, before PUBREL.
    pub mqtt_ids_reused: u64,
    /// Wills that nodes published.
    pub mqtt_wills: u64,
    /// Messages to members of groups.
    pub mqtt_shared: u64,
    /// The part of these that another connection had before.
    pub mqtt_handed_on: u64,
}

impl Reached {
    /// Adds what clients of MQTT have counted.
    pub(super) fn add_mqtt(&mut self, counts: &MqttCounts) {
        self.mqtt_deliveries += counts.deliveries;
        self.mqtt_repeats += counts.repeats;
        self.mqtt_retained += counts.retained;
        self.mqtt_overlaps += counts.overlaps;
        self.mqtt_accepted += counts.accepted;
        self.mqtt_resent += counts.resent;
        self.mqtt_continued += counts.continued;
        self.mqtt_takeovers += counts.took_over;
        self.mqtt_ids_reused += counts.ids_reused;
        self.mqtt_shared += counts.shared;
        self.mqtt_handed_on += counts.handed_on;
    }
}

/// Options of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The size of the world.
    pub scale: Scale,
    /// A planted bug.
    pub mutation: Option<Mutation>,
    /// Whether to record the clients' actions.
    pub tracing: bool,
    /// The client whose actions are returned, instead of that of the failure.
    pub client: Option<usize>,
    /// Whether most native clients speak JSON.
    pub json: bool,
    /// Whether all worlds have clients of MQTT.
    pub mqtt: bool,
    /// Whether shards are sometimes handed over, as in live upgrades.
    pub upgrades: bool,
}
