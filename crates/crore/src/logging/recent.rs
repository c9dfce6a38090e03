//! The newest log lines, kept in memory for whoever looks at the operators' port.
//!
//! Invariants: at most [`LINES_MAX`] lines and [`BYTES_MAX`] bytes, the oldest go first; numbers rise by one with each line
//! of the process, so that a reader who goes on after a number sees what it has missed.

use super::line::{Level, Line};
use super::target::Target;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Lines kept.
pub const LINES_MAX: usize = 1_000;
/// Their bytes.
const BYTES_MAX: usize = 1 << 20;

/// Shared by those who write and those who look.
#[derive(Debug, Default)]
pub struct Recent {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<KeptLine>,
    bytes: usize,
    /// Of the newest line; 0 before the first.
    number: u64,
}

#[derive(Debug)]
struct KeptLine {
    number: u64,
    level: Level,
    target: Target,
    json: Box<str>,
}

/// Which lines are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Newer than the line of this number.
    pub after: u64,
    /// This severe, or more.
    pub level: Level,
    /// About this; none: about anything.
    pub target: Option<Target>,
    /// At most so many, the oldest of them first.
    pub len_max: usize,
}

/// Lines that were found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// JSON objects, oldest first.
    pub lines: Vec<Box<str>>,
    /// To go on after.
    pub next: u64,
    /// The oldest that is kept has this number; one more than the newest if none is.
    pub oldest: u64,
}

impl Recent {
    /// Keeps a line.
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

    /// Lines that are kept and wanted.
    pub fn find(&self, wanted: &Wanted) -> Found {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_wanted = |line: &&KeptLine| {
            line.number > wanted.after
                && line.level <= wanted.level
                && wanted.target.is_none_or(|target| target == line.target)
        };
        let found: Vec<&KeptLine> =
            kept.lines.iter().filter(is_wanted).take(wanted.len_max).collect();
        let next = match found.len() == wanted.len_max {
            true => found.last().map_or(wanted.after, |line| line.number),
            // All that there is has been looked at.
            false => kept.number,
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
