//! Time as an input: microseconds since a moment that the caller chooses.
//!
//! Invariant: the caller's times never go back. Structures of one connection keep the lower 32 bits
//! of milliseconds or microseconds; differences of these are right for 24 days and for 35 minutes.

use std::ops::Add;
use std::time::Duration;

/// A moment, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Time(pub u64);

impl Time {
    /// The lower 32 bits of milliseconds.
    pub fn ms(self) -> u32 {
        (self.0 / 1000) as u32
    }

    /// The lower 32 bits of microseconds.
    pub fn us(self) -> u32 {
        self.0 as u32
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, time: Duration) -> Time {
        Time(self.0 + time.as_micros() as u64)
    }
}

/// The time from one moment to a later one, both in the same unit; 0 if it is not later.
pub(crate) fn elapsed(now: u32, since: u32) -> u32 {
    (now.wrapping_sub(since) as i32).max(0) as u32
}

/// Whether a moment has come.
pub(crate) fn has_come(now: u32, moment: u32) -> bool {
    now.wrapping_sub(moment) as i32 >= 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_survive_the_wrap() {
        let before = Time((1 << 32) * 1000 - 1000);
        let after = before + Duration::from_millis(3);
        assert_eq!((before.ms(), after.ms()), (u32::MAX, 2));
        assert_eq!((elapsed(after.ms(), before.ms()), elapsed(before.ms(), after.ms())), (3, 0));
        assert!(has_come(after.ms(), before.ms()) && !has_come(before.ms(), after.ms()));
    }
}
