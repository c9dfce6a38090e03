//! The node's figures of the last five minutes, for the charts of the operators' page.
//!
//! Place: the thread of [`crate::sys_statistics`] takes a sample every [`INTERVAL`] from counters
//! that exist anyway; the operators' port reads them. Invariants: at most [`SAMPLES_MAX`] samples
//! of a fixed size; a sample is of the whole node: while an I/O thread does not answer there is
//! none, and the next one covers the time since the last.

use node::NodeStatistics;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use stdx::histogram::Histogram;

/// Time between two samples.
pub const INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of samples: five minutes.
pub const SAMPLES_MAX: usize = 150;

/// The samples, and the counters before the next one.
#[derive(Default)]
pub struct StatisticsHistory(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    before: Option<(Instant, Counters)>,
    /// The number of the next sample.
    next: u64,
    samples: VecDeque<Sample>,
}

/// Counters since the start of the node.
#[derive(Clone, Copy, Default)]
struct Counters {
    counted: Counted,
    deliveries: Histogram,
}

/// One interval: figures at its end, and counts of the interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
struct Sample {
    /// Rises by one with each sample.
    number: u64,
    /// Milliseconds since 1970-01-01 UTC.
    time_ms: u64,
    /// Time since the previous sample.
    interval_ms: u64,
    connections: u64,
    subscriptions: u64,
    topics: u64,
    lagging_streams: u64,
    /// Bytes of messages and clients, all components together.
    memory_bytes: u64,
    /// Memory pressure, 0 to 3.
    memory_pressure: u8,
    /// Time from the publication to the write; null without deliveries.
    publish_to_write_us: Option<Quantiles>,
    counted: Counted,
}

/// Latencies of the deliveries of an interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
struct Quantiles {
    p50: f64,
    p99: f64,
}

macro_rules! counted {
    ($($(#[$doc:meta])* $name:ident = $of:expr;)*) => {
        /// Events.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
        struct Counted { $($(#[$doc])* $name: u64,)* }

        impl Counted {
            fn of(statistics: &NodeStatistics) -> Counted {
                Counted { $($name: $of(statistics),)* }
            }

            fn since(&self, before: &Counted) -> Counted {
                Counted { $($name: self.$name.saturating_sub(before.$name),)* }
            }
        }
    };
}

counted! {
    accepted = |of: &NodeStatistics| of.edge.accepted;
    closed = |of: &NodeStatistics| of.edge.closed;
    published = |of: &NodeStatistics| of.home.published;
    delivered = |of: &NodeStatistics| of.edge.delivered;
    read_bytes = |of: &NodeStatistics| of.edge.read_bytes;
    written_bytes = |of: &NodeStatistics| of.edge.written_bytes;
    /// Subscriptions that fell behind the ring.
    lagging = |of: &NodeStatistics| of.edge.lagging;
    /// Gaps reported to subscribers.
    gaps = |of: &NodeStatistics| of.edge.gaps;
    /// Clients that were disconnected because they read too slowly.
    slow_closed = |of: &NodeStatistics| of.edge.slow_closed;
    /// Connections, credentials and actions.
    refusals = refusals;
    protocol_errors = |of: &NodeStatistics| of.edge.protocol_errors;
}

/// Connections that were turned away, credentials that were refused, and actions that were not
/// permitted.
pub fn refusals(NodeStatistics { edge, door, sockets, .. }: &NodeStatistics) -> u64 {
    let admission = &door.admission;
    edge.forbidden.total()
        + edge.credentials_refused
        + edge.subscriptions_refused
        + admission.entrance_connections
        + admission.entrance_rate
        + admission.address_connections
        + admission.address_rate
        + door.without_memory
        + sockets.refused
}

impl StatisticsHistory {
    /// Whether it is time for a sample.
    pub fn is_due(&self, now: Instant) -> bool {
        let before = self.open().before.map(|(at, _)| at);
        before.is_none_or(|at| now.saturating_duration_since(at) >= INTERVAL)
    }

    /// Takes a sample. The first one only serves as the base of the second.
    pub fn record(&self, statistics: &NodeStatistics, (now, time): (Instant, SystemTime)) {
        if statistics.silent_threads > 0 {
            return;
        }
        let counters = Counters {
            counted: Counted::of(statistics),
            deliveries: statistics.timings.deliveries,
        };
        let mut kept = self.open();
        let Some((at, before)) = kept.before.replace((now, counters)) else {
            return;
        };
        let interval_ms = now.saturating_duration_since(at).as_millis() as u64;
        let sample = Sample {
            number: kept.next,
            time_ms: time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64,
            interval_ms: interval_ms.max(1),
            connections: statistics.edge.connections,
            subscriptions: statistics.edge.subscriptions,
            topics: statistics.home.topics,
            lagging_streams: statistics.home.lagging_streams,
            memory_bytes: statistics.memory.iter().map(|(_, bytes)| bytes).sum(),
            memory_pressure: statistics.door.pressure,
            publish_to_write_us: quantiles(&counters.deliveries, &before.deliveries),
            counted: counters.counted.since(&before.counted),
        };
        kept.next += 1;
        if kept.samples.len() == SAMPLES_MAX {
            kept.samples.pop_front();
        }
        kept.samples.push_back(sample);
    }

    /// The samples from this number on, the oldest first, as JSON.
    pub fn shown(&self, from: u64) -> Value {
        let kept = self.open();
        let samples: Vec<&Sample> =
            kept.samples.iter().filter(|sample| sample.number >= from).collect();
        json!({
            "interval_ms": INTERVAL.as_millis() as u64,
            "samples_max": SAMPLES_MAX,
            "next": kept.next,
            "samples": samples,
        })
    }

    fn open(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The median and the 99th percentile of the counts between two looks; none if there are none.
/// Counts within a bucket are taken as spread evenly.
fn quantiles(now: &Histogram, before: &Histogram) -> Option<Quantiles> {
    let all = now.count().checked_sub(before.count()).filter(|all| *all > 0)?;
    let buckets = now.cumulative().zip(before.cumulative());
    let at_most: Vec<(u64, u64)> =
        buckets.map(|((bound, now), (_, before))| (bound, now.saturating_sub(before))).collect();
    let quantile = |share: f64| {
        let wanted = share * all as f64;
        let (mut from, mut below) = (0, 0);
        for &(bound, count) in &at_most {
            if count as f64 >= wanted {
                let part = (wanted - below as f64) / (count - below).max(1) as f64;
                return from as f64 + (bound - from) as f64 * part;
            }
            (from, below) = (bound, count);
        }
        // Values above the last bound.
        from as f64
    };
    Some(Quantiles { p50: quantile(0.5), p99: quantile(0.99) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64, base: Instant) -> (Instant, SystemTime) {
        (base + Duration::from_secs(second), UNIX_EPOCH + Duration::from_secs(second))
    }

    #[test]
    fn samples_are_differences_and_bounded() {
        let history = StatisticsHistory::default();
        let base = Instant::now();
        let mut statistics = NodeStatistics::default();
        assert!(history.is_due(base));
        for round in 0..=(SAMPLES_MAX as u64 + 10) {
            statistics.edge.connections = round;
            statistics.home.published += 100;
            history.record(&statistics, at(round * 2, base));
            assert!(!history.is_due(at(round * 2 + 1, base).0));
            assert!(history.is_due(at(round * 2 + 2, base).0));
        }
        let shown = history.shown(0);
        let samples = shown["samples"].as_array().unwrap();
        assert_eq!(samples.len(), SAMPLES_MAX);
        assert_eq!(shown["next"], 160);
        assert_eq!((&samples[0]["number"], &samples[0]["connections"]), (&json!(10), &json!(11)));
        assert_eq!(samples[0]["time_ms"], 22_000);
        assert_eq!(samples[0]["counted"]["published"], 100);
        assert_eq!(samples[0]["publish_to_write_us"], Value::Null);
        assert_eq!(history.shown(159)["samples"].as_array().unwrap().len(), 1);
        assert_eq!(history.shown(160)["samples"], json!([]));
    }

    #[test]
    fn a_silent_thread_makes_no_sample_and_no_false_rate() {
        let history = StatisticsHistory::default();
        let base = Instant::now();
        let mut statistics = NodeStatistics::default();
        statistics.edge.delivered = 1_000;
        history.record(&statistics, at(0, base));
        let silent = NodeStatistics { silent_threads: 1, ..NodeStatistics::default() };
        history.record(&silent, at(2, base));
        assert_eq!(history.shown(0)["samples"], json!([]));
        statistics.edge.delivered = 1_400;
        history.record(&statistics, at(4, base));
        let sample = &history.shown(0)["samples"][0];
        assert_eq!(
            (&sample["interval_ms"], &sample["counted"]["delivered"]),
            (&json!(4_000), &json!(400))
        );
    }

    #[test]
    fn quantiles_are_of_the_interval() {
        let mut before = Histogram::default();
        before.record_many(1_000_000, 500);
        let mut now = before;
        assert_eq!(quantiles(&now, &before), None);
        now.record_many(16, 98);
        now.record_many(64, 2);
        let found = quantiles(&now, &before).unwrap();
        assert!(found.p50 < 16.0 && (32.0..=64.0).contains(&found.p99), "{found:?}");
        now.record_many(u64::MAX, 1_000);
        let found = quantiles(&now, &before).unwrap();
        let last = now.cumulative().last().unwrap().0 as f64;
        assert_eq!((found.p50, found.p99), (last, last));
    }
}
