//! What workers count: one [`Tally`] per worker, handed over ten times a second and merged by the
//! reader.
//!
//! Place: between the workers and the report. All fields are differences since the last hand-over,
//! so that merging is adding. Pure.

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
    /// Different messages received, as far as their numbers tell.
    pub messages: u64,
    /// Those of them that were replayed after a start in the past or a return.
    pub recovered: u64,
    /// Payload bytes received.
    pub received_bytes: u64,
    /// Messages sent.
    pub sent: u64,
    /// Those of them that belong to the measured span.
    pub sent_measured: u64,
    /// How much later than intended they left.
    pub send_delay: Recorder,
    /// Workers that have nothing more to send.
    pub finished: u64,
    /// From the intended send time to the receipt.
    pub latency: Recorder,
    /// From the intended send time until the last of all clients had a message, where that is
    /// looked for.
    pub last_receiver: Recorder,
    /// Clients that have received something, as a difference.
    pub clients_with_data: u64,
    /// Clients whose topics are all subscribed, and not replaying, as a difference.
    pub clients_live: i64,
    /// From the return of all clients that were away until each was live again.
    pub return_time: Recorder,
    /// Clients with at least one fault, as a difference.
    pub clients_faulty: u64,
    /// What was not as promised.
    pub faults: Faults,
    /// Gaps that the server announced.
    pub gaps: u64,
    /// Skipped markers of the server.
    pub skipped: u64,
    /// Streams whose epoch changed while their position stayed valid.
    pub epochs_continued: u64,
    /// Streams whose epoch changed, and their position was lost with it.
    pub epochs_lost: u64,
    /// Streams that still wait for messages of the ledger, as a difference.
    pub due: i64,
    /// Workers that know the ledger.
    pub judging: u64,
    /// Messages of other publishers, which carry no time and no sequence.
    pub foreign: u64,
    /// Requests that the server refused.
    pub refused: u64,
    /// Publications whose connection was lost before their acknowledgement.
    pub unacknowledged: u64,
    /// Publications that were sent again after a loss of their connection.
    pub repeated_sends: u64,
    /// Acknowledgements that said that the log had the message already.
    pub duplicates: u64,
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
        self.messages += other.messages;
        self.recovered += other.recovered;
        self.received_bytes += other.received_bytes;
        self.sent += other.sent;
        self.sent_measured += other.sent_measured;
        self.send_delay.merge(&other.send_delay);
        self.finished += other.finished;
        self.latency.merge(&other.latency);
        self.last_receiver.merge(&other.last_receiver);
        self.clients_with_data += other.clients_with_data;
        self.clients_live += other.clients_live;
        self.return_time.merge(&other.return_time);
        self.clients_faulty += other.clients_faulty;
        self.faults.add(&other.faults);
        self.gaps += other.gaps;
        self.skipped += other.skipped;
        self.epochs_continued += other.epochs_continued;
        self.epochs_lost += other.epochs_lost;
        self.due += other.due;
        self.judging += other.judging;
        self.foreign += other.foreign;
        self.refused += other.refused;
        self.unacknowledged += other.unacknowledged;
        self.repeated_sends += other.repeated_sends;
        self.duplicates += other.duplicates;
        self.inflight += other.inflight;
        if other.trouble.is_some() {
            self.trouble.clone_from(&other.trouble);
        }
    }

    /// Empties it and keeps the recorders' memory. A fresh tally would allocate histograms ten
    /// times a second for each worker.
    pub fn clear(&mut self) {
        let Tally {
            connections,
            connects,
            connects_failed,
            disconnects,
            connect_time,
            connecting,
            received,
            messages,
            recovered,
            received_bytes,
            sent,
            sent_measured,
            send_delay,
            finished,
            latency,
            last_receiver,
            clients_with_data,
            clients_live,
            return_time,
            clients_faulty,
            faults,
            gaps,
            skipped,
            epochs_continued,
            epochs_lost,
            due,
            judging,
            foreign,
            refused,
            unacknowledged,
            repeated_sends,
            duplicates,
            inflight,
            trouble,
        } = self;
        for count in [
            connects,
            connects_failed,
            disconnects,
            received,
            messages,
            recovered,
            received_bytes,
            sent,
            sent_measured,
            finished,
            clients_with_data,
            clients_faulty,
            gaps,
            skipped,
            epochs_continued,
            epochs_lost,
            judging,
            foreign,
            refused,
            unacknowledged,
            repeated_sends,
            duplicates,
        ] {
            *count = 0;
        }
        (*connections, *clients_live, *due, *inflight) = (0, 0, 0, 0);
        for recorder in [connect_time, send_delay, latency, last_receiver, return_time] {
            recorder.clear();
        }
        connecting.clear();
        (*faults, *trouble) = (Faults::default(), None);
    }

    /// Whether no message was lost, repeated or out of order.
    pub fn is_clean(&self) -> bool {
        self.faults.is_clean()
    }
}
