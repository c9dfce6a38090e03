//! Faults of a configuration: place, key, problem, and expected value.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The origin of a value or a fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The declaration.
    Default,
    /// A line of a file, from 1.
    File(Arc<PathBuf>, usize),
    /// An environment variable.
    Variable(String),
    /// A flag of the command line.
    Flag(&'static str),
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The place of the fault.
    pub origin: Origin,
    /// The key concerned, `section.name`; empty for the file as a whole.
    pub key: String,
    /// The problem.
    pub problem: String,
    /// The expected value.
    pub expected: String,
}

/// All that is wrong with a configuration; never empty. Exit code 78.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => formatter.write_str("default"),
            Origin::File(path, line) => write!(formatter, "{}:{line}", path.display()),
            Origin::Variable(name) => write!(formatter, "environment {name}"),
            Origin::Flag(name) => write!(formatter, "flag {name}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.origin)?;
        if !self.key.is_empty() {
            write!(formatter, "{}: ", self.key)?;
        }
        write!(formatter, "{}", self.problem)?;
        if !self.expected.is_empty() {
            write!(formatter, "; expected {}", self.expected)?;
        }
        Ok(())
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, fault) in self.0.iter().enumerate() {
            write!(formatter, "{}{fault}", if place == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// The candidate that a mistyped word most probably meant, if any is near enough.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let tolerance = (word.chars().count() / 3).max(2);
    candidates
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, removals and replacements between two words (Levenshtein), one row at a time.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (above, source) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = above + 1;
        for (place, target) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(source != *target);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_words() {
        let words = ["topics_max", "filters_per_shard_max", "io_threads", "name"];
        for (word, expected) in [
            ("topic_max", Some("topics_max")),
            ("topics_mx", Some("topics_max")),
            ("iothreads", Some("io_threads")),
            ("nam", Some("name")),
            ("xyzzy", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, words.into_iter()), expected, "{word}");
        }
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
