//! A rate limit in eight bytes: a token bucket, stored as the time at which it will be full again.
//!
//! Invariant: over any period, the admitted cost is at most the rate times the period, plus the
//! burst; a full bucket always admits one operation, whatever its cost.

use crate::handing::Hand;

const NS_PER_MS: u64 = 1_000_000;
const NS_PER_S: u64 = 1_000_000_000;

/// A rate, and the burst beyond it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowance {
    /// The cost of one unit, in nanoseconds times 2^`SHIFT`, so that bytes can be counted.
    unit: u64,
    burst_ns: u64,
}

const SHIFT: u32 = 10;

impl Allowance {
    /// `units` per second, at least one, and a burst of one second.
    pub fn per_second(units: u64) -> Allowance {
        Allowance { unit: (NS_PER_S << SHIFT) / units.max(1), burst_ns: NS_PER_S }
    }

    /// `units` per minute, at least one, and a burst of one minute.
    pub fn per_minute(units: u64) -> Allowance {
        Allowance { unit: ((60 * NS_PER_S) << SHIFT) / units.max(1), burst_ns: 60 * NS_PER_S }
    }

    /// Enlarges the burst by `units`.
    pub fn with_more(self, units: u64) -> Allowance {
        let more_ns = self.cost_ns(units);
        Allowance { burst_ns: self.burst_ns.saturating_add(more_ns), ..self }
    }

    fn cost_ns(self, units: u64) -> u64 {
        let cost = (u128::from(self.unit) * u128::from(units)) >> SHIFT;
        u64::try_from(cost).unwrap_or(u64::MAX)
    }
}

/// One bucket, full at first.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Hand)]
pub struct Bucket {
    /// The time when it will be full, in nanoseconds of the caller's clock.
    full_ns: u64,
}

impl Bucket {
    /// Takes `units` if they are available.
    ///
    /// # Errors
    /// The units are not available. The value is the time in milliseconds until they are, if no
    /// other caller takes any before.
    pub fn take(&mut self, allowance: Allowance, now_ms: u64, units: u64) -> Result<(), u64> {
        let now_ns = now_ms.saturating_mul(NS_PER_MS);
        let begin_ns = self.full_ns.max(now_ns);
        let cost_ns = allowance.cost_ns(units);
        // A cost beyond the burst has to wait until the bucket is full.
        let room_ns = allowance.burst_ns.saturating_sub(cost_ns);
        let late_ns = (begin_ns - now_ns).saturating_sub(room_ns);
        if late_ns > 0 {
            return Err(late_ns.div_ceil(NS_PER_MS));
        }
        self.full_ns = begin_ns.saturating_add(cost_ns);
        Ok(())
    }

    /// Takes `units` whether they are available or not; the next caller then waits longer.
    pub fn force(&mut self, allowance: Allowance, now_ms: u64, units: u64) {
        let begin_ns = self.full_ns.max(now_ms.saturating_mul(NS_PER_MS));
        self.full_ns = begin_ns.saturating_add(allowance.cost_ns(units));
    }

    /// Returns units that were taken but not used.
    pub fn give_back(&mut self, allowance: Allowance, units: u64) {
        self.full_ns = self.full_ns.saturating_sub(allowance.cost_ns(units));
    }

    /// The earliest time when one unit can be taken; never in the past.
    pub fn next_ms(&self, allowance: Allowance, now_ms: u64) -> u64 {
        let room_ns = allowance.burst_ns.saturating_sub(allowance.cost_ns(1));
        now_ms.max(self.full_ns.saturating_sub(room_ns).div_ceil(NS_PER_MS))
    }

    /// Whether it is full, so that it need not be stored.
    pub fn is_full(&self, now_ms: u64) -> bool {
        self.full_ns <= now_ms.saturating_mul(NS_PER_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the units that are admitted in a period, with one request each millisecond.
    fn let_through(allowance: Allowance, from_ms: u64, to_ms: u64, bucket: &mut Bucket) -> u64 {
        let mut count = 0;
        for now_ms in from_ms..to_ms {
            while bucket.take(allowance, now_ms, 1).is_ok() {
                count += 1;
            }
        }
        count
    }

    #[test]
    fn a_burst_is_admitted_and_then_the_rate() {
        for rate in [1, 10, 100, 3_000, 70_000] {
            let (allowance, mut bucket) = (Allowance::per_second(rate), Bucket::default());
            let first = let_through(allowance, 5_000, 5_001, &mut bucket);
            assert!(first.abs_diff(rate) <= 1 + rate / 1_000, "{first} of {rate}");
            let later = let_through(allowance, 5_001, 15_001, &mut bucket);
            assert!(later.abs_diff(10 * rate) <= 1 + rate / 100, "{later} of {rate}");
            assert!(!bucket.is_full(15_001));
            assert!(bucket.is_full(17_000));
        }
        let minute = Allowance::per_minute(60);
        assert_eq!(let_through(minute, 1, 2, &mut Bucket::default()), 60);
        assert_eq!(let_through(minute, 1, 120_002, &mut Bucket::default()), 180);
    }

    #[test]
    fn a_cost_beyond_the_burst_needs_a_full_bucket() {
        let (allowance, mut bucket) = (Allowance::per_second(1_000), Bucket::default());
        assert_eq!(bucket.take(allowance, 7, 5_000), Ok(()));
        assert_eq!(bucket.take(allowance, 7, 1), Err(4_001));
        assert_eq!(bucket.next_ms(allowance, 7), 4_008);
        assert_eq!(bucket.take(allowance, 4_008, 1), Ok(()));
        assert_eq!(bucket.take(allowance, 4_008, 5_000), Err(1_000));
        assert_eq!(bucket.take(allowance, 5_008, 5_000), Ok(()));
    }

    #[test]
    fn forced_units_delay_the_next_ones() {
        let (allowance, mut bucket) = (Allowance::per_second(10), Bucket::default());
        bucket.force(allowance, 0, 30);
        assert_eq!(bucket.next_ms(allowance, 0), 2_100);
        assert!(bucket.take(allowance, 2_099, 1).is_err());
        assert!(bucket.take(allowance, 2_100, 1).is_ok());
    }

    #[test]
    fn returned_units_are_available_again() {
        let (allowance, mut bucket) = (Allowance::per_second(2), Bucket::default());
        for _ in 0..5 {
            assert_eq!(bucket.take(allowance, 7, 2), Ok(()));
            bucket.give_back(allowance, 2);
        }
        assert_eq!(bucket.take(allowance, 7, 2), Ok(()));
        assert_eq!(bucket.take(allowance, 7, 1), Err(500));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let allowance = Allowance::per_second(u64::MAX);
        assert_eq!(Bucket::default().take(allowance, u64::MAX, u64::MAX), Ok(()));
        let slow = Allowance::per_minute(0);
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(slow, 0, u64::MAX), Ok(()));
        assert!(bucket.take(slow, u64::MAX / 2_000_000, 1).is_err());
    }
}
