//! What a limit of so many in a second promises, held against what a node let through, on a machine
//! of any speed.

use std::time::{Duration, Instant};

/// A node reads its clock in milliseconds, and once in a turn.
const CLOCK_STEP: Duration = Duration::from_millis(10);

/// A limit that is used from now on.
#[derive(Debug)]
pub struct Rate {
    per_second: u64,
    began: Instant,
}

impl Rate {
    /// So many in a second, and as many at once. To be made before the first of them is asked for.
    pub fn of(per_second: u64) -> Rate {
        Rate { per_second, began: Instant::now() }
    }

    /// Asserts, when all answers are there, that of `asked` as many were let through as the limit
    /// promises: a second's worth at least, and no more than that and what the time since has
    /// brought.
    #[track_caller]
    pub fn check(&self, passed: usize, asked: usize) {
        let (passed, asked, most) = (passed as u64, asked as u64, self.most());
        assert!(passed >= self.per_second.min(asked), "only {passed} of {asked} went through");
        assert!(passed <= most, "{passed} of {asked} went through instead of {most}");
    }

    /// As many as can have been let through until now.
    pub fn most(&self) -> u64 {
        let elapsed = self.began.elapsed() + CLOCK_STEP;
        self.per_second + (self.per_second as f64 * elapsed.as_secs_f64()) as u64
    }
}
