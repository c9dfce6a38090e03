//! How a world is run, and what a run gave.

use crate::mutation::Mutation;
use crate::oracle::Failure;
use crate::plan::Scale;
use stdx::Counters;

/// What a run of one world gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// Folded from all that crossed network and mailboxes: the same seed gives the same.
    pub hash: u64,
    /// What went wrong first.
    pub failure: Option<Failure>,
    /// The last doings of the client concerned.
    pub notes: Vec<String>,
    /// Messages judged.
    pub deliveries: u64,
    /// Publications.
    pub publications: u64,
    /// Announced holes judged.
    pub holes: u64,
    /// Turns of all reactors.
    pub turns: u64,
    /// Letters and requests that crossed mailboxes.
    pub posts: u64,
    /// How often the planted bug struck.
    pub strikes: u32,
    /// What came about, so that a sweep shows what it reached.
    pub reached: Reached,
}

/// Sums of the node's counters, to see what a sweep exercised.
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
    /// Topics forgotten.
    pub forgotten: u64,
    /// Refusals of homes.
    pub refused: u64,
    /// Connections closed for being slow.
    pub slow_closed: u64,
    /// Nodes that were killed.
    pub crashes: u64,
    /// Nodes that led their clients away and ended in order.
    pub drains: u64,
    /// Reloads of nodes.
    pub reloads: u64,
    /// Shards that were handed over.
    pub hand_overs: u64,
    /// What nodes told of themselves on `$sys/...`.
    pub events: u64,
    /// Events of more than a second had room for.
    pub events_left_out: u64,
    /// Events for which a home had no room.
    pub events_lost: u64,
    /// Connections and renewals refused because their user had as many connections as may be.
    pub crowds: u64,
    /// Sessions that came back with a ticket.
    pub resumed: u64,
    /// Messages that nodes compressed.
    pub compressed: u64,
    /// Compressed messages of clients.
    pub inflated: u64,
    /// New epochs of logs after a crash.
    pub new_epochs: u64,
    /// Acknowledgements of what the log had already.
    pub duplicates: u64,
    /// Of those, over HTTP.
    pub duplicates_over_http: u64,
    /// Event streams over filters that came back with an id.
    pub streams_resumed: u64,
    /// Filters of event streams that were refused while others of the stream went on.
    pub filters_refused: u64,
    /// Times that a log thread refused what a home had sent.
    pub batches_refused: u64,
    /// Questions answered from disk.
    pub disk_answers: u64,
    /// Starts that cut a torn tail.
    pub torn_tails: u64,
    /// Starts that found damage.
    pub damaged_starts: u64,
    /// Starts of logs that died in the middle.
    pub starts_that_died: u64,
    /// Starts of logs on a full disk, that could be read only.
    pub full_starts: u64,
    /// Starts of logs that a full disk refused.
    pub refused_starts: u64,
    /// Bits flipped in what had been synced.
    pub flips: u64,
    /// Newest segments lost, and directories put back from a copy.
    pub ends_lost: u64,
    /// Logs repaired because a start could not read them.
    pub repairs: u64,
    /// Segments dropped from disks.
    pub dropped_segments: u64,
    /// Batches made durable.
    pub batches: u64,
    /// Reads that found damage.
    pub damaged_reads: u64,
    /// Calls to disks that hung.
    pub hangs: u64,
    /// Logs that counted as stalled, by home.
    pub stalls: u64,
    /// Subscriptions to logs in memory that had their last message while a disk hung.
    pub served_beside_a_hang: u64,
}

/// How to run a world.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How large.
    pub scale: Scale,
    /// A planted bug.
    pub mutation: Option<Mutation>,
    /// Keep the clients' doings as text.
    pub tracing: bool,
    /// Whose doings are wanted, instead of those of the client that a failure concerns.
    pub client: Option<usize>,
    /// Shards are handed over now and then, as in live upgrades.
    pub upgrades: bool,
}
