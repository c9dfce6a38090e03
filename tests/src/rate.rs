//! Checks a rate limit against a node's results, on a machine of any speed.

use std::time::{Duration, Instant};

/// A node reads its clock in milliseconds, once per turn.
const CLOCK_STEP: Duration = Duration::from_millis(10);

/// A limit, used from now on.
#[derive(Debug)]
pub struct Rate {
    per_second: u64,
    began: Instant,
}

impl Rate {
    /// A limit per second, with an equal burst. Create it before the first request.
    pub fn of(per_second: u64) -> Rate {
        Rate { per_second, began: Instant::now() }
    }

    /// Asserts, after all answers, that of `asked` requests the limit's number has passed: at least
    /// the burst, and at most the burst and the rate over the time since.
    #[track_caller]
    pub fn check(&self, passed: usize, asked: usize) {
        let (passed, asked, most) = (passed as u64, asked as u64, self.most());
        assert!(passed >= self.per_second.min(asked), "only {passed} of {asked} went through");
        assert!(passed <= most, "{passed} of {asked} went through instead of {most}");
    }

    /// The maximum number that can have passed until now.
    pub fn most(&self) -> u64 {
        let elapsed = self.began.elapsed() + CLOCK_STEP;
        self.per_second + (self.per_second as f64 * elapsed.as_secs_f64()) as u64
    }
}
