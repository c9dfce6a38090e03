//! The messages between a run and its load generators: one JSON object per line.
//!
//! Place: between the processes of a run. The first line to a generator is its [`PartConfig`], the
//! others are [`Order`]s; its output are [`Line`]s. A generator ends with its input. Times are on
//! the monotonic clock of the machine, which all processes share.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::audit::Findings;
use crate::engine::{Counts, EchoesConfig, PublishersConfig, SubscribersConfig, Tally};
use crate::statistics::Digest;

/// The configuration of a load generator.
#[derive(Debug, Serialize, Deserialize)]
pub struct PartConfig {
    /// The load, whose trusted certificates are the two fields below.
    pub work: Work,
    /// Trusted certificates of a server with TLS; without this file, the system's.
    pub certificate: Option<PathBuf>,
    /// Accept any certificate.
    pub is_insecure: bool,
    /// File for the acknowledged messages of publishers.
    pub ledger: Option<PathBuf>,
    /// Time between two lines of progress, in milliseconds.
    pub interval_ms: u64,
}

/// The load of a generator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Subscribers.
    Subscribers(SubscribersConfig),
    /// Publishers.
    Publishers(PublishersConfig),
    /// Clients of an echo service.
    Echoes(EchoesConfig),
}

/// An order to a running load generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Measure the messages whose intended time is in this span, and send none after it. The span
    /// begins at least [`MEASURE_AHEAD_NS`] after the order.
    Measure {
        /// The begin.
        from_ns: u64,
        /// The end.
        until_ns: u64,
    },
    /// Disconnect all clients, and let them return.
    Leave {
        /// The time of the disconnect.
        at_ns: u64,
        /// The time of the return.
        return_ns: u64,
    },
    /// Expect the loss of the server.
    Outage {
        /// The time from which a client that loses its connection counts as away.
        at_ns: u64,
    },
    /// Read the acknowledged messages of the publishers from this file.
    Ledger {
        /// The path.
        path: PathBuf,
    },
    /// Report the measured span.
    Report,
    /// End after the answers to pending requests.
    Stop,
}

/// Minimum time between the order to measure a span and its begin.
pub const MEASURE_AHEAD_NS: u64 = 500_000_000;

/// A line of output of a load generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The generator has started.
    Started {
        /// Number of clients or connections.
        clients: u64,
        /// Number of threads.
        threads: u64,
        /// Notes about the plan, such as why there are fewer clients than requested.
        notes: Vec<String>,
    },
    /// The generator cannot start.
    Failed {
        /// The reason.
        why: String,
    },
    /// The progress of an interval.
    Progress(Box<Progress>),
    /// The answer to [`Order::Report`].
    Measured(Box<Measured>),
    /// The last line.
    Ended(Box<Ended>),
}

/// The progress of an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Length of the interval in seconds.
    pub seconds: f64,
    /// Messages received in the interval.
    pub received: u64,
    /// Messages sent in the interval.
    pub sent: u64,
    /// Latencies of the measured messages that arrived in the interval.
    pub latency: Digest,
    /// The state since the start.
    pub totals: Totals,
    /// Whether all messages were sent.
    pub has_sent_all: bool,
    /// Whether every audited stream has all acknowledged messages.
    pub has_all_acknowledged: bool,
}

/// The state since the start of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// The counts.
    #[serde(flatten)]
    pub counts: Counts,
    /// Seconds during which connects were in progress.
    pub connecting_s: f64,
    /// Time from the intended connect to the end of the handshake.
    pub connect_time: Digest,
    /// Time from the return, or from the loss of the server, until a client was live again.
    pub return_time: Digest,
    /// The newest problem, as text.
    pub trouble: Option<String>,
}

impl From<&Tally> for Totals {
    fn from(tally: &Tally) -> Totals {
        Totals {
            counts: tally.counts,
            connecting_s: tally.connecting.seconds(),
            connect_time: tally.connect_time.digest(),
            return_time: tally.return_time.digest(),
            trouble: tally.trouble.clone(),
        }
    }
}

/// The figures of the measured span.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Messages sent in the span.
    pub sent: u64,
    /// Time from the intended sending to the receipt.
    pub latency: Digest,
    /// The latencies as a distribution: shares and microseconds.
    pub distribution: Vec<(f64, f64)>,
    /// Delay of a message's sending after its intended time.
    pub send_delay: Digest,
    /// Time from the intended sending to the receipt by the last client.
    pub last_receiver: Digest,
}

/// The final state of a load generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The state since the start.
    pub totals: Totals,
    /// The findings of the audit.
    pub findings: Option<Findings>,
    /// Latencies of the sampled clients.
    pub sample: Option<SampleFigures>,
}

/// Latencies of a few clients, as published tests have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleFigures {
    /// Number of clients.
    pub clients: u64,
    /// Number of their messages.
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
