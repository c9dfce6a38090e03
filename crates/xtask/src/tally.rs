//! Counts the results of test runners.

use std::fmt;
use std::ops::Add;

/// The numbers of passed and failed tests of a runner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
}

impl Tally {
    /// One passed check.
    pub const ONE_PASSED: Tally = Tally { passed: 1, failed: 0 };
    /// One failed check.
    pub const ONE_FAILED: Tally = Tally { passed: 0, failed: 1 };

    /// The result in a line of output; zero if it has none. Known lines are those of `cargo test`
    /// (`test result: ok. 3 passed; 0 failed; ...`) and of our runners (`3 passed, 0 failed`).
    pub fn of_line(line: &str) -> Tally {
        let counts = match line.strip_prefix("test result: ") {
            Some(result) => result.split_once(". ").and_then(|(_, counts)| {
                let mut parts = counts.split("; ");
                Some((parts.next()?, parts.next()?))
            }),
            None => line.split_once(", "),
        };
        counts
            .and_then(|(passed, failed)| {
                let passed = passed.strip_suffix(" passed")?.parse().ok()?;
                let failed = failed.strip_suffix(" failed")?.parse().ok()?;
                Some(Tally { passed, failed })
            })
            .unwrap_or_default()
    }
}

impl Add for Tally {
    type Output = Tally;

    fn add(self, other: Tally) -> Tally {
        Tally { passed: self.passed + other.passed, failed: self.failed + other.failed }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} passed, {} failed", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_runners_are_counted() {
        let check = |line, passed, failed| {
            assert_eq!(Tally::of_line(line), Tally { passed, failed }, "{line}");
        };
        check(
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.1s",
            12,
            0,
        );
        check("test result: FAILED. 3 passed; 2 failed; 0 ignored", 3, 2);
        check("301 passed, 4 failed", 301, 4);
        check("test frame::tests::masks ... ok", 0, 0);
        check("I say 3 passed, 4 failed", 0, 0);
        check("3 passed, four failed", 0, 0);
        check("", 0, 0);
    }

    #[test]
    fn the_closing_line_has_the_sum() {
        assert_eq!((Tally::ONE_PASSED + Tally::ONE_FAILED).to_string(), "1 passed, 1 failed");
    }
}
