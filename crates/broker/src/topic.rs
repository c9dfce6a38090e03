//! Names of topics and filters: their validity and their matches.
//!
//! Place on the path: a session checks every name that a client gives, once; behind it a name is
//! valid. Names are UTF-8 of 1 to [`NAME_BYTES_MAX`] bytes without control characters, in levels
//! separated by `/`. Slashes are never merged, and an empty level is a level: `/a`, `a` and `a/`
//! differ.
//!
//! Filters use MQTT's wildcards: `+` stands for one whole level, `#` only at the end for the rest
//! and its parent (`a/#` matches `a`). A filter that starts with a wildcard never matches a name
//! that starts with `$` (MQTT 5.0, sections 4.7.1 and 4.7.2).

use std::fmt;
use wire::native::ErrorCode;

/// Longest topic name or filter, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// A valid topic name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicName<'a>(&'a str);

/// A valid filter, with or without wildcards.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Filter<'a>(&'a str);

/// The reason why a text is neither topic name nor filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopicError {
    /// The text has no bytes.
    Empty,
    /// The text has more than [`NAME_BYTES_MAX`] bytes.
    TooLong,
    /// The text holds a control character, U+0000 to U+001F or U+007F.
    ControlCharacter,
    /// A topic name holds `+` or `#`.
    WildcardInName,
    /// A filter's `+` or `#` is not a whole level, or `#` is not the last one.
    MisplacedWildcard,
}

impl TopicError {
    /// The code of the refusal: that of a long name, or else `malformed`.
    pub(crate) fn code(self, malformed: ErrorCode) -> ErrorCode {
        if self == TopicError::TooLong { ErrorCode::TopicTooLong } else { malformed }
    }
}

impl<'a> TopicName<'a> {
    /// Checks a topic name.
    pub fn parse(text: &'a str) -> Result<TopicName<'a>, TopicError> {
        if (1..=NAME_BYTES_MAX).contains(&text.len()) && is_unremarkable(text.as_bytes()) {
            return Ok(TopicName(text));
        }
        check_text(text)?;
        if text.bytes().any(is_wildcard) {
            return Err(TopicError::WildcardInName);
        }
        Ok(TopicName(text))
    }

    /// The name.
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

impl<'a> Filter<'a> {
    /// Checks a filter. Every topic name is one.
    pub fn parse(text: &'a str) -> Result<Filter<'a>, TopicError> {
        check_text(text)?;
        let mut levels = text.split('/').peekable();
        while let Some(level) = levels.next() {
            let placed = match level {
                "+" => true,
                "#" => levels.peek().is_none(),
                _ => !level.bytes().any(is_wildcard),
            };
            if !placed {
                return Err(TopicError::MisplacedWildcard);
            }
        }
        Ok(Filter(text))
    }

    /// The filter's text.
    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// Whether it has no wildcard and so names one topic.
    pub fn is_plain(self) -> bool {
        !self.0.bytes().any(is_wildcard)
    }

    /// The number of levels; at most 256, as names are short.
    pub fn levels_count(self) -> usize {
        self.0.split('/').count()
    }

    /// Whether the filter covers a topic. The definition that
    /// [`FilterTrie`](crate::filters::FilterTrie) is tested against.
    pub fn matches(self, topic: &str) -> bool {
        if topic.starts_with('$') && self.0.starts_with(['+', '#']) {
            return false;
        }
        let mut levels = topic.split('/');
        for wanted in self.0.split('/') {
            if wanted == "#" {
                return true;
            }
            match levels.next() {
                Some(level) if wanted == "+" || wanted == level => {}
                _ => return false,
            }
        }
        levels.next().is_none()
    }

    /// Whether every topic that `other` covers is covered by this filter too.
    pub fn covers(self, other: Filter<'_>) -> bool {
        self.covers_with(other, Some)
    }

    /// [`Filter::covers`] with placeholders: `stands_for` maps a level of this filter to its text;
    /// `None`: the level covers nothing.
    pub fn covers_with(
        self,
        other: Filter<'_>,
        stands_for: impl Fn(&'a str) -> Option<&'a str>,
    ) -> bool {
        if other.0.starts_with('$') && self.0.starts_with(['+', '#']) {
            return false;
        }
        let mut levels = other.0.split('/');
        // Every topic has a first level, so that this is the same.
        let own = if self.0 == "+/#" { "#" } else { self.0 };
        for own in own.split('/') {
            if own == "#" {
                return true;
            }
            let Some(own) = stands_for(own) else {
                return false;
            };
            match levels.next() {
                Some(level) if own == level && level != "#" => {}
                Some(level) if own == "+" && level != "#" => {}
                _ => return false,
            }
        }
        // A filter that ends with `#` has topics beyond the last level of this filter, its parent
        // among them.
        levels.next().is_none()
    }

    /// Whether some topic is covered by both.
    pub fn overlaps(self, other: Filter<'_>) -> bool {
        let spares =
            |filter: &str, other: &str| filter.starts_with(['+', '#']) && other.starts_with('$');
        if spares(self.0, other.0) || spares(other.0, self.0) {
            return false;
        }
        let (mut own, mut others) = (self.0.split('/'), other.0.split('/'));
        loop {
            match (own.next(), others.next()) {
                (Some("#"), _) | (_, Some("#")) | (None, None) => return true,
                (Some(a), Some(b)) if a == b || a == "+" || b == "+" => {}
                _ => return false,
            }
        }
    }

    /// Whether this filter is more specific than the other, which covers the same topic, and so
    /// wins. Level by level from the left, a literal level beats `+`, and `+` beats `#`, as in
    /// [`FilterTrie`](crate::filters::FilterTrie).
    pub fn beats(self, other: Filter<'_>) -> bool {
        let weight = |level: Option<&str>| match level {
            Some("#") => 0,
            Some("+") => 1,
            _ => 2,
        };
        let (mut own, mut others) = (self.0.split('/'), other.0.split('/'));
        loop {
            match (own.next(), others.next()) {
                (None, None) => return false,
                (a, b) if weight(a) != weight(b) => return weight(a) > weight(b),
                (None, _) | (_, None) => return false,
                _ => {}
            }
        }
    }
}

impl<'a> From<TopicName<'a>> for Filter<'a> {
    fn from(name: TopicName<'a>) -> Filter<'a> {
        Filter(name.0)
    }
}

impl fmt::Debug for TopicName<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.0)
    }
}

impl fmt::Debug for Filter<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.0)
    }
}

impl fmt::Display for TopicError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopicError::Empty => formatter.write_str("empty"),
            TopicError::TooLong => write!(formatter, "longer than {NAME_BYTES_MAX} bytes"),
            TopicError::ControlCharacter => {
                formatter.write_str("control characters are not allowed")
            }
            TopicError::WildcardInName => {
                formatter.write_str("`+` and `#` are not allowed in a topic name")
            }
            TopicError::MisplacedWildcard => {
                formatter.write_str("`+` and `#` must be whole levels, and `#` the last one")
            }
        }
    }
}

impl std::error::Error for TopicError {}

fn check_text(text: &str) -> Result<(), TopicError> {
    if text.is_empty() {
        return Err(TopicError::Empty);
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(TopicError::TooLong);
    }
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(TopicError::ControlCharacter);
    }
    Ok(())
}

/// Whether no byte is a control character or a wildcard. Eight bytes at a time: every publication
/// asks.
fn is_unremarkable(text: &[u8]) -> bool {
    let (words, tail) = text.as_chunks::<8>();
    let mut last = [b'a'; 8];
    last.iter_mut().zip(tail).for_each(|(place, byte)| *place = *byte);
    words.iter().chain([&last]).all(|word| {
        let word = u64::from_le_bytes(*word);
        let equals = |byte: u8| below(word ^ each(byte), 1);
        below(word, b' ') | equals(0x7f) | equals(b'+') | equals(b'#') == 0
    })
}

/// Not 0 if a byte of the word is below the bound, which is at most 128.
fn below(word: u64, bound: u8) -> u64 {
    word.wrapping_sub(each(bound)) & !word & each(0x80)
}

/// A word of eight equal bytes.
fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

fn is_wildcard(byte: u8) -> bool {
    matches!(byte, b'+' | b'#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        use TopicError::*;
        let longest = "n".repeat(NAME_BYTES_MAX);
        let too_long = "n".repeat(NAME_BYTES_MAX + 1);
        let umlauts = "ä".repeat(128); // 128 characters, 256 bytes
        let cases: &[(&str, Result<(), TopicError>)] = &[
            ("a", Ok(())),
            ("/", Ok(())),
            ("//", Ok(())),
            ("a/b/c", Ok(())),
            ("/a", Ok(())),
            ("a/", Ok(())),
            ("$sys/x", Ok(())),
            ("ä ö/\u{1F600}", Ok(())),
            ("\u{80}", Ok(())),
            (&longest, Ok(())),
            ("", Err(Empty)),
            (&too_long, Err(TooLong)),
            (&umlauts, Err(TooLong)),
            ("a\0", Err(ControlCharacter)),
            ("a\nb", Err(ControlCharacter)),
            ("\u{1f}", Err(ControlCharacter)),
            ("\u{7f}", Err(ControlCharacter)),
            ("+", Err(WildcardInName)),
            ("a/#", Err(WildcardInName)),
            ("a+b", Err(WildcardInName)),
        ];
        for (text, expected) in cases {
            assert_eq!(TopicName::parse(text).map(drop), *expected, "{text:?}");
        }
    }

    #[test]
    fn filters() {
        use TopicError::*;
        let cases: &[(&str, Result<bool, TopicError>)] = &[
            ("a", Ok(true)),
            ("a//b/", Ok(true)),
            ("+", Ok(false)),
            ("#", Ok(false)),
            ("a/+/b", Ok(false)),
            ("+/+/#", Ok(false)),
            ("/#", Ok(false)),
            ("/+", Ok(false)),
            ("$x/#", Ok(false)),
            ("a#", Err(MisplacedWildcard)),
            ("a/#/b", Err(MisplacedWildcard)),
            ("#/", Err(MisplacedWildcard)),
            ("a+/b", Err(MisplacedWildcard)),
            ("++", Err(MisplacedWildcard)),
            ("+#", Err(MisplacedWildcard)),
            ("", Err(Empty)),
            ("+/\0", Err(ControlCharacter)),
        ];
        for (text, expected) in cases {
            assert_eq!(Filter::parse(text).map(Filter::is_plain), *expected, "{text:?}");
        }
    }

    #[test]
    fn matching() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("a/b", &["a/b"], &["a", "a/b/", "/a/b", "a/b/c", "a//b"]),
            ("a/#", &["a", "a/", "a/b", "a/b/c"], &["ab", "/a", "b/a", "$a"]),
            ("a/+", &["a/", "a/b"], &["a", "a/b/c"]),
            ("+", &["a", "ä"], &["/a", "a/", "$a"]),
            ("+/+", &["/a", "a/", "/", "a/b"], &["a", "a/b/c", "$a/b"]),
            ("#", &["a", "/", "a/b"], &["$", "$a/b"]),
            ("$a/#", &["$a", "$a/b"], &["a"]),
            ("$a/+", &["$a/b", "$a/$b"], &["$a"]),
            ("a/+/#", &["a/b", "a/$b", "a/b/c", "a/"], &["a"]),
            ("/+", &["/a", "/$a"], &["a", "//a"]),
        ];
        for (filter, yes, no) in cases {
            let filter = Filter::parse(filter).unwrap();
            for topic in *yes {
                assert!(filter.matches(topic), "{filter:?} {topic:?}");
            }
            for topic in *no {
                assert!(!filter.matches(topic), "{filter:?} {topic:?}");
            }
        }
    }

    /// A check against all topics and filters of up to three levels over a few names.
    #[test]
    fn overlapping_and_beating() {
        let paths = |levels: &[&str]| {
            let mut all: Vec<String> = levels.iter().map(ToString::to_string).collect();
            let mut longest = all.clone();
            for _ in 0..2 {
                longest = longest
                    .iter()
                    .flat_map(|path| levels.iter().map(move |level| format!("{path}/{level}")))
                    .collect();
                all.extend_from_slice(&longest);
            }
            all
        };
        let topics = paths(&["a", "$s", ""]);
        let texts = paths(&["a", "$s", "+", "#"]);
        let filters: Vec<Filter<'_>> =
            texts.iter().filter_map(|text| Filter::parse(text).ok()).collect();
        for &one in &filters {
            for &other in &filters {
                let mut both =
                    topics.iter().filter(|topic| one.matches(topic) && other.matches(topic));
                let topic = both.next();
                assert_eq!(one.overlaps(other), topic.is_some(), "{one:?} {other:?}");
                if let Some(topic) = topic {
                    let mut trie = crate::filters::FilterTrie::default();
                    trie.insert(one, one);
                    trie.insert(other, other);
                    let wins = trie.most_specific(topic) == Some(&one) && one != other;
                    assert_eq!(one.beats(other), wins, "{one:?} {other:?} {topic:?}");
                }
            }
        }
    }

    /// The vectors that every SDK shares.
    #[test]
    fn shared_vectors() {
        let all: serde_json::Value =
            serde_json::from_str(include_str!("../../../spec/vectors/topics.json")).unwrap();
        let cases = |list: &str| all[list].as_array().unwrap().clone();
        for case in cases("topics") {
            let text = case["topic"].as_str().unwrap();
            assert_eq!(TopicName::parse(text).is_ok(), case["valid"], "{text:?}");
        }
        for case in cases("filters") {
            let text = case["filter"].as_str().unwrap();
            assert_eq!(Filter::parse(text).is_ok(), case["valid"], "{text:?}");
        }
        for case in cases("matching") {
            let filter = Filter::parse(case["filter"].as_str().unwrap()).unwrap();
            let topic = case["topic"].as_str().unwrap();
            assert_eq!(filter.matches(topic), case["matches"], "{filter:?} {topic:?}");
        }
    }
}
