//! Statistics over all messages: exact moments and an HdrHistogram, mergeable between threads.
//!
//! Place: one [`Recorder`] per worker thread and interval; the report merges them. Pure.
//!
//! Invariants: merging in any order gives the same counts and quantiles; the mean and variance
//! agree with those of the whole set (Chan, Golub and LeVeque's pairwise update), not of rounded
//! values.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The highest latency told apart, in microseconds: one hour. Higher ones count as this.
pub const MICROS_MAX: u64 = 3_600_000_000;

/// Latencies of many messages. About 180 KB at most, owned by one thread.
#[derive(Clone, Debug)]
pub struct Recorder {
    histogram: Histogram<u64>,
    count: u64,
    min_ns: u64,
    max_ns: u64,
    mean_ns: f64,
    squares_ns: f64,
}

/// The figures of a recorder, in microseconds; all zero without values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Digest {
    /// Values recorded.
    pub count: u64,
    /// The least, in microseconds.
    pub min_us: f64,
    /// The greatest, in microseconds.
    pub max_us: f64,
    /// The mean, in microseconds.
    pub mean_us: f64,
    /// The standard deviation of the sample (n - 1), in microseconds.
    pub stdev_us: f64,
    /// Half the width of the mean's 90 % confidence interval (normal approximation).
    pub ci90_us: f64,
    /// Half the width of the mean's 95 % confidence interval.
    pub ci95_us: f64,
    /// Half the width of the mean's 99 % confidence interval.
    pub ci99_us: f64,
    /// The median, within 0.1 %.
    pub p50_us: f64,
    /// 95th percentile, within 0.1 %.
    pub p95_us: f64,
    /// 99th percentile, within 0.1 %.
    pub p99_us: f64,
    /// 99.9th percentile, within 0.1 %.
    pub p999_us: f64,
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder::new()
    }
}

impl Recorder {
    /// An empty recorder.
    pub fn new() -> Recorder {
        Recorder {
            histogram: Histogram::new_with_bounds(1, MICROS_MAX, 3)
                .expect("1 to an hour with three digits is a valid range"),
            count: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            mean_ns: 0.0,
            squares_ns: 0.0,
        }
    }

    /// Records one latency in nanoseconds.
    pub fn record_ns(&mut self, nanos: u64) {
        self.histogram.saturating_record((nanos / 1_000).max(1));
        self.count += 1;
        self.min_ns = self.min_ns.min(nanos);
        self.max_ns = self.max_ns.max(nanos);
        let difference = nanos as f64 - self.mean_ns;
        self.mean_ns += difference / self.count as f64;
        self.squares_ns += difference * (nanos as f64 - self.mean_ns);
    }

    /// Adds all that `other` recorded.
    pub fn merge(&mut self, other: &Recorder) {
        if other.count == 0 {
            return;
        }
        self.histogram.add(&other.histogram).expect("all recorders have the same bounds");
        let count = self.count + other.count;
        let difference = other.mean_ns - self.mean_ns;
        let (own, others, all) = (self.count as f64, other.count as f64, count as f64);
        self.mean_ns += difference * others / all;
        self.squares_ns += other.squares_ns + difference * difference * own * others / all;
        self.count = count;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        if self.count > 0 {
            self.histogram.reset();
        }
        self.count = 0;
        self.min_ns = u64::MAX;
        self.max_ns = 0;
        self.mean_ns = 0.0;
        self.squares_ns = 0.0;
    }

    /// Values recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The latency in microseconds below which the share `quantile` (0 to 1) of the values lies.
    pub fn quantile_us(&self, quantile: f64) -> u64 {
        if self.count == 0 { 0 } else { self.histogram.value_at_quantile(quantile) }
    }

    /// The distribution: shares of the values, and the latency in microseconds that this share did
    /// not exceed. Four steps halve the rest, so that the far end is as visible as the middle; the
    /// last step is the greatest value.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        if self.count == 0 {
            return Vec::new();
        }
        let mut steps = vec![(0.0, self.min_ns as f64 / 1e3)];
        for step in 1_i32.. {
            let left = (-f64::from(step) / 4.0).exp2();
            if left * (self.count as f64) < 1.0 {
                break;
            }
            let share = 1.0 - left;
            steps.push((share, self.quantile_us(share) as f64));
        }
        steps.push((1.0, self.max_ns as f64 / 1e3));
        steps
    }

    /// All the figures.
    pub fn digest(&self) -> Digest {
        if self.count == 0 {
            return Digest::default();
        }
        let variance = if self.count > 1 { self.squares_ns / (self.count - 1) as f64 } else { 0.0 };
        let stdev_us = variance.max(0.0).sqrt() / 1e3;
        let error_us = stdev_us / (self.count as f64).sqrt();
        let quantile = |share: f64| self.histogram.value_at_quantile(share) as f64;
        Digest {
            count: self.count,
            min_us: self.min_ns as f64 / 1e3,
            max_us: self.max_ns as f64 / 1e3,
            mean_us: self.mean_ns / 1e3,
            stdev_us,
            ci90_us: 1.644_854 * error_us,
            ci95_us: 1.959_964 * error_us,
            ci99_us: 2.575_829 * error_us,
            p50_us: quantile(0.50),
            p95_us: quantile(0.95),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
        }
    }
}

/// The latencies of one sampled client, kept one by one up to [`Sample::VALUES_MAX`]; beyond that
/// an even random choice of them (reservoir), so that quantiles stay unbiased.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    values_us: Vec<f32>,
    seen: u64,
    sum_us: f64,
}

impl Sample {
    /// Values kept per client.
    pub const VALUES_MAX: usize = 10_000;

    /// Records one latency in nanoseconds; `random` is any 64 random bits.
    pub fn record_ns(&mut self, nanos: u64, random: u64) {
        let micros = nanos as f64 / 1e3;
        self.seen += 1;
        self.sum_us += micros;
        if self.values_us.len() < Sample::VALUES_MAX {
            self.values_us.push(micros as f32);
        } else {
            let place = ((u128::from(random) * u128::from(self.seen)) >> 64) as usize;
            if let Some(value) = self.values_us.get_mut(place) {
                *value = micros as f32;
            }
        }
    }

    /// The values that were kept, in microseconds.
    pub fn values_us(&self) -> &[f32] {
        &self.values_us
    }

    /// Count, then median, mean, 95th and 99th percentile in microseconds.
    pub fn figures(&self) -> (u64, f64, f64, f64, f64) {
        if self.values_us.is_empty() {
            return (0, 0.0, 0.0, 0.0, 0.0);
        }
        let mut sorted = self.values_us.clone();
        sorted.sort_by(f32::total_cmp);
        let at = |share: f64| {
            let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
            f64::from(sorted[rank.min(sorted.len()) - 1])
        };
        (self.seen, at(0.5), self.sum_us / self.seen as f64, at(0.95), at(0.99))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, wanted: f64) {
        assert!((value - wanted).abs() <= wanted.abs() * 0.001 + 1e-9, "{value} is not {wanted}");
    }

    #[test]
    fn known_values() {
        let mut recorder = Recorder::new();
        for micros in [2u64, 4, 4, 4, 5, 5, 7, 9] {
            recorder.record_ns(micros * 1_000);
        }
        let digest = recorder.digest();
        assert_eq!((digest.count, digest.min_us, digest.max_us), (8, 2.0, 9.0));
        near(digest.mean_us, 5.0);
        near(digest.stdev_us, (32.0f64 / 7.0).sqrt());
        near(digest.ci95_us, 1.959_964 * (32.0f64 / 7.0 / 8.0).sqrt());
        near(digest.ci90_us, 1.644_854 * (32.0f64 / 7.0 / 8.0).sqrt());
        near(digest.ci99_us, 2.575_829 * (32.0f64 / 7.0 / 8.0).sqrt());
        assert_eq!((digest.p50_us, digest.p95_us), (4.0, 9.0));
    }

    #[test]
    fn percentiles_of_one_to_a_hundred_thousand() {
        let mut recorder = Recorder::new();
        for micros in 1..=100_000u64 {
            recorder.record_ns(micros * 1_000);
        }
        let digest = recorder.digest();
        near(digest.p50_us, 50_000.0);
        near(digest.p95_us, 95_000.0);
        near(digest.p99_us, 99_000.0);
        near(digest.p999_us, 99_900.0);
        near(digest.mean_us, 50_000.5);
        near(digest.stdev_us, 28_867.66);
    }

    #[test]
    fn distributions_reach_from_the_least_to_the_greatest() {
        assert!(Recorder::new().distribution().is_empty());
        let mut recorder = Recorder::new();
        for micros in 1..=1_024u64 {
            recorder.record_ns(micros * 1_000);
        }
        let steps = recorder.distribution();
        assert_eq!(steps.first(), Some(&(0.0, 1.0)));
        assert_eq!(steps.last(), Some(&(1.0, 1_024.0)));
        assert_eq!(steps.len(), 2 + 40);
        let half = steps.iter().find(|(share, _)| *share == 0.5).unwrap();
        near(half.1, 512.0);
        assert!(steps.is_sorted_by(|left, right| left.0 < right.0 && left.1 <= right.1));
    }

    #[test]
    fn merging_equals_recording_together() {
        let mut whole = Recorder::new();
        let mut parts = [Recorder::new(), Recorder::new(), Recorder::new()];
        let mut random = stdx::prng::Prng::new(5);
        for number in 0..3_000usize {
            let nanos = random.below(50_000_000);
            whole.record_ns(nanos);
            parts[number * number % 3].record_ns(nanos);
        }
        let mut merged = Recorder::new();
        for part in &parts {
            merged.merge(part);
        }
        let (left, right) = (whole.digest(), merged.digest());
        assert_eq!(
            (left.count, left.min_us, left.max_us),
            (right.count, right.min_us, right.max_us)
        );
        assert_eq!((left.p50_us, left.p999_us), (right.p50_us, right.p999_us));
        near(left.mean_us, right.mean_us);
        near(left.stdev_us, right.stdev_us);
        merged.clear();
        assert_eq!(merged.digest(), Digest::default());
    }

    #[test]
    fn extremes_do_not_fail() {
        let mut recorder = Recorder::new();
        recorder.record_ns(0);
        recorder.record_ns(u64::MAX);
        let digest = recorder.digest();
        assert_eq!(digest.count, 2);
        assert!(digest.p999_us >= MICROS_MAX as f64 * 0.999);
        assert_eq!(Recorder::new().digest(), Digest::default());
    }

    #[test]
    fn samples() {
        let mut sample = Sample::default();
        assert_eq!(sample.figures().0, 0);
        for micros in (1..=100u64).rev() {
            sample.record_ns(micros * 1_000, 0);
        }
        assert_eq!(sample.figures(), (100, 50.0, 50.5, 95.0, 99.0));
        let mut random = stdx::prng::Prng::new(9);
        for _ in 0..Sample::VALUES_MAX * 3 {
            sample.record_ns(7_000, random.next_u64());
        }
        assert_eq!(sample.values_us.len(), Sample::VALUES_MAX);
        assert_eq!(sample.figures().1, 7.0);
    }
}
