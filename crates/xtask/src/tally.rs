//! Counting what test runners report.

use std::fmt;
use std::ops::Add;

/// How many tests of a runner passed and how many failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
}

impl Tally {
    /// A check that is one test by itself.
    pub const ONE_PASSED: Tally = Tally { passed: 1, failed: 0 };
    /// The same, failed.
    pub const ONE_FAILED: Tally = Tally { passed: 0, failed: 1 };

    /// The result that a line of output states; nothing, where it states none. Understood are the
    /// line of `cargo test` (`test result: ok. 3 passed; 0 failed; ...`) and our runners' (`3
    /// passed, 0 failed`).
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
    fn lines_of_runners() {
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
    fn the_closing_line() {
        assert_eq!((Tally::ONE_PASSED + Tally::ONE_FAILED).to_string(), "1 passed, 1 failed");
    }
}
