//! Delays between reconnect attempts: exponential backoff with full jitter.
//!
//! Place: between a lost connection and the next connect. Pure: the randomness is an argument.
//!
//! Invariant: the n-th delay is uniformly distributed over `0..=min(base · 2ⁿ, max)`, so that a
//! million clients that lost their connections together reconnect spread out.

use crate::fault::{self, Fault};

/// The settings of a backoff, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffSettings {
    /// Upper bound of the first delay.
    pub base_ms: u64,
    /// Upper bound of every delay.
    pub max_ms: u64,
    /// Duration after which a connection counts as a success: the next delay is then a first one.
    pub reset_after_ms: u64,
}

impl Default for BackoffSettings {
    fn default() -> BackoffSettings {
        BackoffSettings { base_ms: 500, max_ms: 30_000, reset_after_ms: 10_000 }
    }
}

/// The number of attempts since the last success.
#[derive(Clone, Debug)]
pub struct Backoff {
    settings: BackoffSettings,
    attempts: u32,
}

impl Backoff {
    /// Starts before the first attempt.
    pub fn new(settings: BackoffSettings) -> Backoff {
        Backoff { settings, attempts: 0 }
    }

    /// The delay before the next attempt, in milliseconds. `lasted_ms` is the duration of the lost
    /// connection; 0 for a failed attempt. `random` returns a number between 0 and its argument.
    pub fn next_ms(&mut self, lasted_ms: u64, random: impl FnOnce(u64) -> u64) -> u64 {
        if lasted_ms >= self.settings.reset_after_ms || fault::is(Fault::ForgetsAttempts) {
            self.attempts = 0;
        }
        let bound = self
            .settings
            .base_ms
            .saturating_mul(1u64.checked_shl(self.attempts).unwrap_or(u64::MAX))
            .min(self.settings.max_ms);
        self.attempts = self.attempts.saturating_add(1);
        if fault::is(Fault::NoJitter) { bound } else { random(bound) }
    }

    /// The number of attempts since the last success.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::prng::Prng;

    #[test]
    fn delays_grow_to_the_maximum_with_full_jitter() {
        let settings = BackoffSettings { base_ms: 100, max_ms: 1_000, reset_after_ms: 5_000 };
        let mut random = Prng::new(1);
        for (attempt, bound) in [100, 200, 400, 800, 1_000, 1_000].into_iter().enumerate() {
            let mut sum = 0;
            for _ in 0..2_000 {
                let mut backoff = Backoff { settings, attempts: attempt as u32 };
                let delay = backoff.next_ms(0, |max| random.between(0, max));
                assert!(delay <= bound, "attempt {attempt}: {delay}");
                sum += delay;
            }
            let mean = sum / 2_000;
            assert!(mean > bound * 45 / 100 && mean < bound * 55 / 100, "{attempt}: {mean}");
        }
    }

    #[test]
    fn a_long_connection_resets_the_delay() {
        let mut random = Prng::new(2);
        let mut backoff = Backoff::new(BackoffSettings::default());
        for _ in 0..100 {
            assert!(backoff.next_ms(9_999, |max| random.between(0, max)) <= 30_000);
        }
        assert_eq!(backoff.attempts(), 100);
        assert!(backoff.next_ms(10_000, |max| random.between(0, max)) <= 500);
        assert_eq!(backoff.attempts(), 1);
    }
}
