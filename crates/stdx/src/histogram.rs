//! How often something took how long: counts in fixed buckets that double, for metrics.
//!
//! Plain numbers, so that a shard's report is a copy. Recording costs a few instructions and
//! allocates nothing. Whoever measures many things that took equally long records them at once.

use crate::handing::Hand;

/// Buckets: the least ends at 16 microseconds, each further one at twice as much, and the last has
/// no end.
pub const BUCKETS_COUNT: usize = 21;
/// Where the least bucket ends is a power of two: this one.
const LEAST_BITS: u32 = 4;

/// Counts by duration, and their sum. Bounds are inclusive.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Hand)]
pub struct Histogram {
    counts: [u64; BUCKETS_COUNT],
    sum_us: u64,
}

impl Histogram {
    /// One that took so many microseconds.
    pub fn record(&mut self, took_us: u64) {
        self.record_many(took_us, 1);
    }

    /// So many that took as long each.
    pub fn record_many(&mut self, took_us: u64, count: u64) {
        // Beyond the last bound of all: a clock that was wrong must not make the sum wrap.
        let took_us = took_us.min(TOOK_US_MAX);
        self.counts[bucket_of(took_us)] += count;
        self.sum_us = self.sum_us.saturating_add(took_us.saturating_mul(count));
    }

    /// How many were recorded.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How long they took together, in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// For each bucket but the last its upper bound in microseconds, and how many took at most so
    /// long.
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

/// A day: nothing that is measured takes longer.
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
    fn what_is_longer_than_all_bounds_counts() {
        let mut histogram = Histogram::default();
        histogram.record(8_388_609);
        histogram.record(u64::MAX);
        assert!(histogram.cumulative().all(|(_, count)| count == 0));
        assert_eq!(histogram.count(), 2);
        assert_eq!(histogram.sum_us(), 8_388_609 + TOOK_US_MAX);
    }

    #[test]
    fn many_are_as_many_times_one() {
        let (mut many, mut one) = (Histogram::default(), Histogram::default());
        many.record_many(100, 3);
        (0..3).for_each(|_| one.record(100));
        assert_eq!(many, one);
        many += one;
        assert_eq!((many.count(), many.sum_us()), (6, 600));
    }
}
