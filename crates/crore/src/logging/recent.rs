//! The newest log lines, kept in memory for the operators' port.
//!
//! Invariants: at most [`LINES_MAX`] lines and [`BYTES_MAX`] bytes are kept, and the oldest are
//! dropped first; numbers rise by one with each line of the process, so that a reader that
//! continues after a number notices missed lines.

use super::line::{Level, Line};
use super::target::Target;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Maximum number of lines.
pub const LINES_MAX: usize = 1_000;
/// Maximum number of their bytes.
const BYTES_MAX: usize = 1 << 20;

/// The lines, shared by writers and readers.
#[derive(Debug, Default)]
pub struct Recent {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<KeptLine>,
    bytes: usize,
    /// Number of the newest line; 0 before the first.
    number: u64,
}

#[derive(Debug)]
struct KeptLine {
    number: u64,
    level: Level,
    target: Target,
    json: Box<str>,
}

/// A query for lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Only lines after the line with this number.
    pub after: u64,
    /// Only lines of this severity or a higher one.
    pub level: Level,
    /// Only lines of this target; none: of any target.
    pub target: Option<Target>,
    /// Maximum number of lines, the oldest first.
    pub len_max: usize,
}

/// The result of a query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// JSON objects, the oldest first.
    pub lines: Vec<Box<str>>,
    /// The number to continue after.
    pub next: u64,
    /// Number of the oldest stored line; one more than the newest if there is none.
    pub oldest: u64,
}

impl Recent {
    /// Stores a line.
    pub fn push(&self, line: &Line<'_>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.number += 1;
        let number = kept.number;
        let json = line.json(Some(number)).into_boxed_str();
        kept.bytes += json.len();
        kept.lines.push_back(KeptLine { number, level: line.level, target: line.target, json });
        while kept.lines.len() > LINES_MAX || kept.bytes > BYTES_MAX {
            let gone = kept.lines.pop_front().map_or(0, |line| line.json.len());
            kept.bytes -= gone;
        }
    }

    /// The stored lines that match a query.
    pub fn find(&self, wanted: &Wanted) -> Found {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_wanted = |line: &&KeptLine| {
            line.number > wanted.after
                && line.level <= wanted.level
                && wanted.target.is_none_or(|target| target == line.target)
        };
        let found: Vec<&KeptLine> =
            kept.lines.iter().filter(is_wanted).take(wanted.len_max).collect();
        let next = if found.len() == wanted.len_max {
            found.last().map_or(wanted.after, |line| line.number)
        } else {
            kept.number
        };
        Found {
            lines: found.iter().map(|line| line.json.clone()).collect(),
            next,
            oldest: kept.lines.front().map_or(kept.number + 1, |line| line.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    const ALL: Wanted = Wanted { after: 0, level: Level::Debug, target: None, len_max: usize::MAX };

    fn push(recent: &Recent, level: Level, target: Target, value: &str) {
        recent.push(&Line {
            time: UNIX_EPOCH,
            level,
            target,
            sentence: "A line.",
            fields: &[("value", value)],
        });
    }

    #[test]
    fn a_reader_goes_on_and_sees_what_it_has_missed() {
        let recent = Recent::default();
        assert_eq!(recent.find(&ALL).next, 0);
        for number in 1..=LINES_MAX + 5 {
            push(&recent, Level::Info, Target::Node, &number.to_string());
        }
        let first = recent.find(&Wanted { len_max: 10, ..ALL });
        assert_eq!((first.lines.len(), first.next, first.oldest), (10, 15, 6));
        assert!(first.lines[0].contains("\"number\":6"));
        let rest = recent.find(&Wanted { after: 15, ..ALL });
        assert_eq!((rest.lines.len(), rest.next), (LINES_MAX - 10, 1_005));
        let nothing = recent.find(&Wanted { after: 1_005, ..ALL });
        assert_eq!((nothing.lines.len(), nothing.next), (0, 1_005));
    }

    #[test]
    fn lines_are_chosen_and_bytes_are_bounded() {
        let recent = Recent::default();
        push(&recent, Level::Warn, Target::Tls, "a");
        push(&recent, Level::Info, Target::Tls, "b");
        push(&recent, Level::Error, Target::Node, "c");
        let warnings = Wanted { level: Level::Warn, ..ALL };
        assert_eq!(recent.find(&warnings).lines.len(), 2);
        let of_tls = Wanted { target: Some(Target::Tls), ..ALL };
        assert_eq!(recent.find(&of_tls).lines.len(), 2);
        // The newest that was looked at, though it was not wanted.
        assert_eq!(recent.find(&of_tls).next, 3);
        let long = "x".repeat(2 << 10);
        for _ in 0..LINES_MAX {
            push(&recent, Level::Info, Target::Access, &long);
        }
        let bytes: usize = recent.find(&ALL).lines.iter().map(|line| line.len()).sum();
        assert!(bytes <= BYTES_MAX && bytes > BYTES_MAX / 2, "{bytes}");
    }
}
