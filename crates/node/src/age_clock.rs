//! The clock by which a log on disk ages.
//!
//! Its records have wall clock times, and an opened log knows no other times. But a forward step of
//! that clock is not age: everything would be dropped at once. So the step is subtracted for as
//! long as earlier records may stay. After that, they are too old by any clock, and the wall clock
//! applies. Records written in the meantime have times in this clock's future, and count as new.
//!
//! A backward step after a forward step is subtracted from it. Time during which the machine slept
//! counts as a step.

use stdx::handing::Hand;

/// Maximum drift of the wall clock between two readings, in milliseconds, that is not a step.
const DRIFT_MS_MAX: u64 = 1_000;

/// The clocks of a log thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogTime {
    /// Monotonic time in microseconds.
    pub monotonic_us: u64,
    /// Milliseconds since 1970.
    pub unix_ms: u64,
}

/// The clock; see the module.
#[derive(Debug, Hand)]
pub(crate) struct AgeClock {
    age_max_ms: u64,
    /// The last reading: monotonic and wall clock.
    last_ms: Option<(u64, u64)>,
    /// The sum of the forward steps.
    ahead_ms: u64,
    /// The monotonic time until which it is subtracted.
    until_ms: u64,
}

impl AgeClock {
    /// A clock for records with this retention time.
    pub fn new(age_max_ms: u64) -> AgeClock {
        AgeClock { age_max_ms, last_ms: None, ahead_ms: 0, until_ms: 0 }
    }

    /// Reads the clocks: milliseconds since 1970 for the age of records. Call it regularly, because
    /// drift adds up.
    pub fn look(&mut self, time: LogTime) -> u64 {
        let now_ms = time.monotonic_us / 1_000;
        let (before_ms, wall_ms) = self.last_ms.unwrap_or((now_ms, time.unix_ms));
        self.last_ms = Some((now_ms, time.unix_ms));
        let expected_ms = wall_ms.saturating_add(now_ms.saturating_sub(before_ms));
        if time.unix_ms > expected_ms.saturating_add(DRIFT_MS_MAX) {
            self.ahead_ms += time.unix_ms - expected_ms;
            self.until_ms = now_ms.saturating_add(self.age_max_ms);
        } else if time.unix_ms.saturating_add(DRIFT_MS_MAX) < expected_ms {
            self.ahead_ms = self.ahead_ms.saturating_sub(expected_ms - time.unix_ms);
        }
        if now_ms >= self.until_ms {
            self.ahead_ms = 0;
        }
        time.unix_ms - self.ahead_ms.min(time.unix_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN_MS: u64 = 1_700_000_000_000;
    const DAY_MS: u64 = 86_400_000;

    fn look(clock: &mut AgeClock, passed_ms: u64, step_ms: i64) -> i64 {
        let shown_ms = clock.look(LogTime {
            monotonic_us: passed_ms * 1_000,
            unix_ms: (BEGAN_MS + passed_ms).saturating_add_signed(step_ms),
        });
        shown_ms.cast_signed() - BEGAN_MS.cast_signed()
    }

    #[test]
    fn a_step_forwards_counts_when_all_is_too_old() {
        let mut clock = AgeClock::new(10_000);
        let day_ms = DAY_MS.cast_signed();
        assert_eq!(look(&mut clock, 0, 0), 0);
        assert_eq!(look(&mut clock, 1_000, 0), 1_000);
        assert_eq!(look(&mut clock, 2_000, day_ms), 2_000);
        assert_eq!(look(&mut clock, 11_999, day_ms), 11_999);
        assert_eq!(look(&mut clock, 12_000, day_ms), 12_000 + day_ms);
        assert_eq!(look(&mut clock, 13_000, day_ms), 13_000 + day_ms);
    }

    #[test]
    fn steps_back() {
        let mut clock = AgeClock::new(10_000);
        assert_eq!(look(&mut clock, 0, 0), 0);
        assert_eq!(look(&mut clock, 1_000, 60_000), 1_000);
        assert_eq!(look(&mut clock, 2_000, 20_000), 2_000);
        assert_eq!(look(&mut clock, 3_000, 0), 3_000);
        // Nothing has stepped ahead: it is as if time had not come so far yet.
        assert_eq!(look(&mut clock, 4_000, -60_000), 4_000 - 60_000);
        assert_eq!(look(&mut clock, 5_000, -60_000), 5_000 - 60_000);
    }

    /// A log without a retention time is not affected either.
    #[test]
    fn drift_does_not_count_as_a_step() {
        let mut clock = AgeClock::new(10_000);
        for second in 0..60 {
            let drift_ms = second as i64;
            let shown_ms = look(&mut clock, second * 1_000, drift_ms);
            assert_eq!(shown_ms, second as i64 * 1_000 + drift_ms);
        }
        let mut clock = AgeClock::new(0);
        assert_eq!(look(&mut clock, 0, 0), 0);
        assert_eq!(look(&mut clock, 1, 60_000), 60_001);
    }
}
