//! What workers count: one [`Tally`] per worker, handed over ten times a second and merged by the reader.
//!
//! Place: between the workers and the report. All fields are differences since the last hand-over, so that merging is
//! adding. Pure.

use crate::spans::Spans;
use crate::statistics::Recorder;
use crate::verify::Faults;

/// Counts and latencies of some span of time.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Connections now open, as a difference.
    pub connections: i64,
    /// Connections that were established.
    pub connects: u64,
    /// Attempts that failed.
    pub connects_failed: u64,
    /// Open connections that were lost.
    pub disconnects: u64,
    /// From the intended time of a connect to the end of its handshake.
    pub connect_time: Recorder,
    /// When connecting went on: from intended times of connects to the ends of their handshakes.
    pub connecting: Spans,
    /// Messages received (or pongs, or acknowledgements).
    pub received: u64,
    /// Payload bytes received.
    pub received_bytes: u64,
    /// Messages sent.
    pub sent: u64,
    /// From the intended send time to the receipt.
    pub latency: Recorder,
    /// Clients that have received something, as a difference.
    pub clients_with_data: u64,
    /// Clients with at least one fault, as a difference.
    pub clients_faulty: u64,
    /// What was not as promised.
    pub faults: Faults,
    /// Gaps that the server announced.
    pub gaps: u64,
    /// Skipped markers of the server.
    pub skipped: u64,
    /// Messages of other publishers, which carry no time and no sequence.
    pub foreign: u64,
    /// Requests that the server refused.
    pub refused: u64,
    /// Publications whose connection was lost before their acknowledgement.
    pub unacknowledged: u64,
    /// Publications that wait for their acknowledgement now, as a difference.
    pub inflight: i64,
    /// The newest trouble in words.
    pub trouble: Option<String>,
}

impl Tally {
    /// Adds another span, or another worker.
    pub fn merge(&mut self, other: &Tally) {
        self.connections += other.connections;
        self.connects += other.connects;
        self.connects_failed += other.connects_failed;
        self.disconnects += other.disconnects;
        self.connect_time.merge(&other.connect_time);
        self.connecting.merge(&other.connecting);
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.sent += other.sent;
        self.latency.merge(&other.latency);
        self.clients_with_data += other.clients_with_data;
        self.clients_faulty += other.clients_faulty;
        self.faults.add(&other.faults);
        self.gaps += other.gaps;
        self.skipped += other.skipped;
        self.foreign += other.foreign;
        self.refused += other.refused;
        self.unacknowledged += other.unacknowledged;
        self.inflight += other.inflight;
        if other.trouble.is_some() {
            self.trouble.clone_from(&other.trouble);
        }
    }

    /// Empties it and keeps the recorders' memory.
    pub fn clear(&mut self) {
        // Every field by name: a fresh tally would be two fresh histograms, ten times a second for each worker.
        let Tally {
            connections,
            connects,
            connects_failed,
            disconnects,
            connect_time,
            connecting,
            received,
            received_bytes,
            sent,
            latency,
            clients_with_data,
            clients_faulty,
            faults,
            gaps,
            skipped,
            foreign,
            refused,
            unacknowledged,
            inflight,
            trouble,
        } = self;
        for count in [
            connects,
            connects_failed,
            disconnects,
            received,
            received_bytes,
            sent,
            clients_with_data,
            clients_faulty,
            gaps,
            skipped,
            foreign,
            refused,
            unacknowledged,
        ] {
            *count = 0;
        }
        for difference in [connections, inflight] {
            *difference = 0;
        }
        connect_time.clear();
        connecting.clear();
        latency.clear();
        *faults = Faults::default();
        *trouble = None;
    }

    /// Whether no message was lost, repeated or out of order.
    pub fn is_clean(&self) -> bool {
        self.faults.is_clean()
    }
}
