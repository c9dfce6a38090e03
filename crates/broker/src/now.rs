//! The time, from the shell.

use stdx::handing::Hand;

/// One time for a whole turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand)]
pub struct Now {
    /// Milliseconds of a clock that never goes back and does not jump; for deadlines and ages.
    pub monotonic_ms: u64,
    /// Milliseconds since 1970, by a clock that may jump; for people and records.
    pub unix_ms: u64,
}
