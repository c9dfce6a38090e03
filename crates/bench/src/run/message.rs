//! What a run and its load generators say to each other: one JSON object per line.
//!
//! Place: between the processes of a run. The first line that a generator reads is its
//! [`PartConfig`], the others are [`Order`]s; what it writes are [`Line`]s. When its input ends, it
//! ends. Times are on the monotonic clock of the machine, which all processes share.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::audit::Findings;
use crate::engine::Transport;
use crate::statistics::Digest;
use crate::verify::Faults;

/// What a load generator is to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartConfig {
    /// What it does.
    pub role: Role,
    /// The server.
    pub url: String,
    /// Whose certificates are believed, where the server speaks TLS: those of this file, or the
    /// system's.
    pub certificate: Option<PathBuf>,
    /// Any certificate is believed.
    pub is_insecure: bool,
    /// Source addresses, as patterns.
    pub local_addresses: Vec<String>,
    /// Connects per second; 0: as fast as it goes.
    pub connect_rate: f64,
    /// Between two lines of progress.
    pub interval_ms: u64,
}

/// What a load generator does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Subscribes, one topic each.
    Subscribers {
        /// How they receive.
        transport: Transport,
        /// How many.
        clients: u64,
        /// The topics, as a pattern; client i takes topic i modulo their number.
        topics: String,
        /// So many keep their own latencies.
        sample: u64,
        /// Every stream is audited.
        is_audited: bool,
        /// Whether the last receiver of each message is measured.
        has_last_receiver: bool,
        /// Connects per second when they return from being away.
        return_rate: f64,
    },
    /// Publishes.
    Publishers {
        /// Connections that share the load.
        connections: u64,
        /// The topics, in turn.
        topics: String,
        /// Each message is for a random topic instead.
        is_random: bool,
        /// Messages per second.
        rate: f64,
        /// Bytes of a message.
        size: usize,
        /// Ask for acknowledgements.
        acknowledge: bool,
        /// Send again until it is acknowledged.
        exactly_once: bool,
        /// Acknowledgements that one connection waits for.
        inflight_max: usize,
        /// Where to write what was acknowledged.
        ledger: Option<PathBuf>,
    },
    /// Pings an echo service.
    Echoes {
        /// How many.
        clients: u64,
        /// Between two pings of one client, in seconds.
        every_s: f64,
        /// Bytes of a ping.
        size: usize,
    },
}

/// What a load generator is told while it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// What was meant for this span is measured, and nothing is sent behind it. It lies
    /// [`MEASURE_AHEAD_NS`] ahead.
    Measure {
        /// Its begin.
        from_ns: u64,
        /// Its end.
        until_ns: u64,
    },
    /// All clients lose their connections and return.
    Leave {
        /// When they lose them.
        at_ns: u64,
        /// When they return.
        return_ns: u64,
    },
    /// The server is about to go.
    Outage {
        /// From when on who loses its connection counts as away.
        at_ns: u64,
    },
    /// What publishers were acknowledged stands in this file.
    Ledger {
        /// Its path.
        path: PathBuf,
    },
    /// Tell what was measured.
    Report,
    /// End, once what is under way has its answer.
    Stop,
}

/// How long before its begin a measured span is told.
pub const MEASURE_AHEAD_NS: u64 = 500_000_000;

/// What a load generator tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// It has begun.
    Started {
        /// Clients or connections that it carries.
        clients: u64,
        /// Threads.
        threads: u64,
        /// Why they are fewer than wanted.
        notes: Vec<String>,
    },
    /// It cannot begin.
    Failed {
        /// Why.
        why: String,
    },
    /// An interval is over.
    Progress(Box<Progress>),
    /// The answer to [`Order::Report`].
    Measured(Box<Measured>),
    /// The last line.
    Ended(Box<Ended>),
}

/// How far it has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Seconds of the interval.
    pub seconds: f64,
    /// Received in the interval.
    pub received: u64,
    /// Sent in the interval.
    pub sent: u64,
    /// Measured latencies that came in the interval.
    pub latency: Digest,
    /// Since the start.
    pub totals: Totals,
    /// Nothing is to be sent any more.
    pub has_sent_all: bool,
    /// Every audited stream has what was acknowledged.
    pub has_all_acknowledged: bool,
}

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Open connections.
    pub connections: i64,
    /// Connections that were made.
    pub connects: u64,
    /// Attempts that failed.
    pub connects_failed: u64,
    /// Open connections that were lost.
    pub disconnects: u64,
    /// Clients whose subscription is answered, and nothing is replayed.
    pub clients_live: i64,
    /// Clients that have received something.
    pub clients_with_data: u64,
    /// Received, or acknowledged.
    pub received: u64,
    /// Different messages.
    pub messages: u64,
    /// Those of them that were replayed.
    pub recovered: u64,
    /// Sent.
    pub sent: u64,
    /// Refused by the server.
    pub refused: u64,
    /// Never acknowledged.
    pub unacknowledged: u64,
    /// Sent again after a loss of the connection.
    pub repeated_sends: u64,
    /// Without an acknowledgement now.
    pub inflight: i64,
    /// Not as promised.
    pub faults: Faults,
    /// Announced gaps.
    pub gaps: u64,
    /// Announced skips.
    pub skipped: u64,
    /// Messages that no generator wrote.
    pub foreign: u64,
    /// Seconds in which connecting went on.
    pub connecting_s: f64,
    /// From the intended connect to the end of the handshake.
    pub connect_time: Digest,
    /// From the return, or from the loss of the server, until live again.
    pub return_time: Digest,
    /// The newest trouble.
    pub trouble: Option<String>,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Sent within the span.
    pub sent: u64,
    /// From the intended time to the receipt.
    pub latency: Digest,
    /// The latencies as a distribution: shares and microseconds.
    pub distribution: Vec<(f64, f64)>,
    /// How much later than intended messages left.
    pub send_delay: Digest,
    /// From the intended time until the last of all clients had it.
    pub last_receiver: Digest,
}

/// What a load generator left.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Since the start.
    pub totals: Totals,
    /// What the audit found.
    pub findings: Option<Findings>,
    /// Median, 95th and 99th percentile over the sampled clients' own messages, in microseconds.
    pub sample: Option<SampleFigures>,
}

/// Latencies of a few clients, as published tests have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleFigures {
    /// How many clients.
    pub clients: u64,
    /// Their messages.
    pub messages: u64,
    /// Median, in microseconds.
    pub p50_us: f64,
    /// 95th percentile, in microseconds.
    pub p95_us: f64,
    /// 99th percentile, in microseconds.
    pub p99_us: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_back() {
        let orders = [Order::Measure { from_ns: 1, until_ns: 2 }, Order::Stop];
        for order in orders {
            let text = serde_json::to_string(&order).unwrap();
            assert!(!text.contains('\n'));
            assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), order);
        }
        let line = Line::Progress(Box::new(Progress { received: 5, ..Progress::default() }));
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
    }
}
