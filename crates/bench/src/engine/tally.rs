//! The counts of workers: one [`Tally`] per worker, handed over ten times a second and merged by
//! the reader.
//!
//! Place: between the workers and the reports. All fields are differences since the last hand-over,
//! so that merging is adding. Pure.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};
use stdx::Counters;

use crate::spans::Spans;
use crate::statistics::Recorder;
use crate::verify::Faults;

/// The counts of a span of time, in a tally and in every report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Counters, Serialize, Deserialize)]
pub struct Counts {
    /// Open connections, as a difference.
    pub connections: i64,
    /// Established connections.
    pub connects: u64,
    /// Failed attempts to connect.
    pub connects_failed: u64,
    /// Open connections that were lost.
    pub disconnects: u64,
    /// Clients that have received a message, as a difference.
    pub clients_with_data: u64,
    /// Clients whose topics are all subscribed and not replaying, as a difference.
    pub clients_live: i64,
    /// Received messages, pongs or acknowledgements.
    pub received: u64,
    /// Distinct received messages, by their sequence numbers.
    pub messages: u64,
    /// Distinct messages that were replayed after a start in the past or a reconnect.
    pub recovered: u64,
    /// Received payload bytes.
    pub received_bytes: u64,
    /// Sent messages.
    pub sent: u64,
    /// Sent messages of the measured span.
    #[serde(skip)]
    pub sent_measured: u64,
    /// Workers that have sent all their messages.
    #[serde(skip)]
    pub finished: u64,
    /// Violations of the delivery guarantees.
    pub faults: Faults,
    /// Clients with at least one fault, as a difference.
    pub clients_faulty: u64,
    /// Announced gaps.
    pub gaps: u64,
    /// Announced skips.
    pub skipped: u64,
    /// Streams whose epoch changed while their position stayed valid.
    pub epochs_continued: u64,
    /// Streams whose epoch changed and whose position became invalid.
    pub epochs_lost: u64,
    /// Streams that still wait for messages of the ledger, as a difference.
    #[serde(skip)]
    pub due: i64,
    /// Workers that know the ledger.
    #[serde(skip)]
    pub judging: u64,
    /// Messages of other publishers, which carry no time and no sequence number.
    pub foreign: u64,
    /// Refused requests.
    pub refused: u64,
    /// Publications whose connection was lost before their acknowledgement.
    pub unacknowledged: u64,
    /// Publications that were sent again after the loss of their connection.
    pub repeated_sends: u64,
    /// Acknowledgements of messages that the log already had.
    pub duplicates: u64,
    /// Publications that wait for an acknowledgement, as a difference.
    pub inflight: i64,
}

/// Counts and latencies of a span of time.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The counts. A tally dereferences to them.
    pub counts: Counts,
    /// Time from the intended connect to the end of the handshake.
    pub connect_time: Recorder,
    /// Spans from intended connects to the ends of their handshakes.
    pub connecting: Spans,
    /// Delay of a message's sending after its intended time.
    pub send_delay: Recorder,
    /// Time from the intended sending to the receipt.
    pub latency: Recorder,
    /// Time from the intended sending to the receipt by the last client, if that is measured.
    pub last_receiver: Recorder,
    /// Time from the return of all absent clients until each was live again.
    pub return_time: Recorder,
    /// The newest problem, as text.
    pub trouble: Option<String>,
}

impl Tally {
    /// Adds another span, or another worker.
    pub fn merge(&mut self, other: &Tally) {
        self.counts += other.counts;
        self.connect_time.merge(&other.connect_time);
        self.connecting.merge(&other.connecting);
        self.send_delay.merge(&other.send_delay);
        self.latency.merge(&other.latency);
        self.last_receiver.merge(&other.last_receiver);
        self.return_time.merge(&other.return_time);
        if other.trouble.is_some() {
            self.trouble.clone_from(&other.trouble);
        }
    }

    /// Empties the tally and keeps the memory of its recorders. A fresh tally would allocate
    /// histograms ten times a second for each worker.
    pub fn clear(&mut self) {
        let Tally {
            counts,
            connect_time,
            connecting,
            send_delay,
            latency,
            last_receiver,
            return_time,
            trouble,
        } = self;
        for recorder in [connect_time, send_delay, latency, last_receiver, return_time] {
            recorder.clear();
        }
        connecting.clear();
        (*counts, *trouble) = (Counts::default(), None);
    }

    /// Whether no message was lost, repeated or out of order.
    pub fn is_clean(&self) -> bool {
        self.faults.is_clean()
    }
}

impl Deref for Tally {
    type Target = Counts;

    fn deref(&self) -> &Counts {
        &self.counts
    }
}

impl DerefMut for Tally {
    fn deref_mut(&mut self) -> &mut Counts {
        &mut self.counts
    }
}
