//! A histogram of durations for metrics: counts in fixed buckets, each twice as wide as the last.
//!
//! Plain numbers, so that a shard's report is a copy. Recording costs a few instructions and
//! allocates nothing. Many equal durations are recorded at once.

use crate::handing::Hand;

/// The number of buckets: the first ends at 16 microseconds, each further one at twice the bound
/// before, and the last is unbounded.
pub const BUCKETS_COUNT: usize = 21;
/// The first bucket ends at 2 to this power.
const LEAST_BITS: u32 = 4;

/// Counts by duration, and their sum. Bounds are inclusive.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Hand)]
pub struct Histogram {
    counts: [u64; BUCKETS_COUNT],
    sum_us: u64,
}

impl Histogram {
    /// Records one duration, in microseconds.
    pub fn record(&mut self, took_us: u64) {
        self.record_many(took_us, 1);
    }

    /// Records `count` equal durations.
    pub fn record_many(&mut self, took_us: u64, count: u64) {
        // A wrong clock must not make the sum overflow.
        let took_us = took_us.min(TOOK_US_MAX);
        self.counts[bucket_of(took_us)] += count;
        self.sum_us = self.sum_us.saturating_add(took_us.saturating_mul(count));
    }

    /// The number of recorded durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of the durations, in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// Upper bounds of the buckets in microseconds, without the last bucket, and the number of
    /// durations up to each bound.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        let bounds = (0..BUCKETS_COUNT as u32 - 1).map(|place| 1_u64 << (LEAST_BITS + place));
        let sums = self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        bounds.zip(sums)
    }
}

impl std::ops::AddAssign for Histogram {
    fn add_assign(&mut self, other: Histogram) {
        for (own, other) in self.counts.iter_mut().zip(other.counts) {
            *own += other;
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }
}

/// A day: no measured duration is longer.
const TOOK_US_MAX: u64 = 86_400_000_000;

fn bucket_of(took_us: u64) -> usize {
    let bits = u64::BITS - (took_us.saturating_sub(1) >> LEAST_BITS).leading_zeros();
    (bits as usize).min(BUCKETS_COUNT - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive() {
        for (took_us, bound_us) in [
            (0, 16),
            (1, 16),
            (16, 16),
            (17, 32),
            (32, 32),
            (33, 64),
            (1_024, 1_024),
            (1_025, 2_048),
            (8_388_608, 8_388_608),
        ] {
            let mut histogram = Histogram::default();
            histogram.record(took_us);
            let first = histogram.cumulative().find(|(_, count)| *count == 1);
            assert_eq!(first, Some((bound_us, 1)), "{took_us}");
        }
    }

    #[test]
    fn durations_above_all_bounds_are_counted() {
        let mut histogram = Histogram::default();
        histogram.record(8_388_609);
        histogram.record(u64::MAX);
        assert!(histogram.cumulative().all(|(_, count)| count == 0));
        assert_eq!(histogram.count(), 2);
        assert_eq!(histogram.sum_us(), 8_388_609 + TOOK_US_MAX);
    }

    #[test]
    fn recording_many_equals_recording_each() {
        let (mut many, mut one) = (Histogram::default(), Histogram::default());
        many.record_many(100, 3);
        (0..3).for_each(|_| one.record(100));
        assert_eq!(many, one);
        many += one;
        assert_eq!((many.count(), many.sum_us()), (6, 600));
    }
}
