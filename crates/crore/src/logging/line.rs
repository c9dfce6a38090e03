//! One log line: level, target, sentence and fields, as text for people or JSON for machines. Pure.
//!
//! Invariants: a line contains no line breaks. As text it is cut at [`LINE_BYTES_MAX`]; as JSON
//! each of its values is cut at an eighth of that. This module does not read the clock.

use super::target::Target;
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum length of a line in bytes; longer lines are cut.
const LINE_BYTES_MAX: usize = 8 << 10;
/// Marks a cut.
const CUT: &str = "...";
/// Members of every JSON line; no field has such a name.
const OWN_NAMES: [&str; 5] = ["number", "time", "level", "target", "message"];

/// The format of lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Format {
    /// Text, for people.
    Text,
    /// JSON: one object for each line.
    Json,
}

/// Severity, by the action that an operator must take.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Act now.
    Error,
    /// Act soon, or know.
    Warn,
    /// Know if you look.
    Info,
    /// Details for debugging.
    Debug,
}

impl Level {
    /// The level with this name.
    pub fn parse(word: &str) -> Option<Level> {
        let all = [Level::Error, Level::Warn, Level::Info, Level::Debug];
        all.into_iter().find(|level| level.word() == word)
    }

    /// The name of the level.
    pub fn word(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

/// The content of a line.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The time of the event.
    pub time: SystemTime,
    /// The severity.
    pub level: Level,
    /// The target.
    pub target: Target,
    /// A constant sentence.
    pub sentence: &'a str,
    /// The variable fields.
    pub fields: &'a [(&'a str, &'a str)],
}

impl Line<'_> {
    /// The line, without its line ending.
    pub fn write(&self, format: Format) -> String {
        let line = match format {
            Format::Text => self.text(),
            Format::Json => return self.json(None),
        };
        cut(line)
    }

    fn text(&self) -> String {
        let time = rfc3339(self.time);
        let (level, target) = (self.level.word(), self.target.word());
        let mut text = format!("{time} {level:5} {target}: {}", self.sentence);
        for (name, value) in self.fields {
            let plain = !value.is_empty()
                && value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
            let _ = if plain {
                write!(text, " {name}={value}")
            } else {
                write!(text, " {name}={value:?}")
            };
        }
        text.replace(['\n', '\r'], " ")
    }

    /// The line as an object, with its number if it has one. Long values are cut.
    pub fn json(&self, number: Option<u64>) -> String {
        let mut object = serde_json::Map::new();
        if let Some(number) = number {
            object.insert("number".into(), number.into());
        }
        object.insert("time".into(), rfc3339(self.time).into());
        object.insert("level".into(), self.level.word().into());
        object.insert("target".into(), self.target.word().into());
        object.insert("message".into(), self.sentence.into());
        // Values are cut one by one, so that the output stays valid JSON.
        let value_bytes_max = LINE_BYTES_MAX / 8;
        for (name, value) in self.fields {
            debug_assert!(!OWN_NAMES.contains(name), "{name} is the line's own");
            let value = if value.len() > value_bytes_max {
                cut_at(value, value_bytes_max)
            } else {
                (*value).to_owned()
            };
            object.insert((*name).into(), value.into());
        }
        serde_json::Value::Object(object).to_string()
    }
}

fn cut(line: String) -> String {
    if line.len() > LINE_BYTES_MAX { cut_at(&line, LINE_BYTES_MAX) } else { line }
}

fn cut_at(text: &str, bytes_max: usize) -> String {
    let is_boundary = |at: &usize| text.is_char_boundary(*at);
    let end = (0..=bytes_max).rev().find(is_boundary).unwrap_or(0);
    let mut short = text[..end].to_owned();
    short.push_str(CUT);
    short
}

/// Formats a time as `2026-11-21T21:59:03.120Z` (RFC 3339, section 5.6).
pub fn rfc3339(time: SystemTime) -> String {
    let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since_1970.as_secs();
    let (year, month, day) = civil_date(seconds / 86_400);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        seconds / 3_600 % 24,
        seconds / 60 % 60,
        seconds % 60,
        since_1970.subsec_millis()
    )
}

/// Year, month and day of a day counted from 1970-01-01. The computation begins years in March, so
/// that the leap day is the last.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times() {
        for (milliseconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (1_798_761_599_001, "2026-12-31T23:59:59.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_millis(milliseconds)), expected);
        }
    }

    #[test]
    fn lines() {
        let fields = [("address", "127.0.0.1:1"), ("reason", "it \"broke\"\nbadly")];
        let line = Line {
            time: UNIX_EPOCH,
            level: Level::Warn,
            target: Target::Tls,
            sentence: "A listener failed.",
            fields: &fields,
        };
        assert_eq!(
            line.write(Format::Text),
            "1970-01-01T00:00:00.000Z warn  tls: A listener failed. address=127.0.0.1:1 reason=\"it \\\"broke\\\"\\nbadly\""
        );
        assert_eq!(
            line.write(Format::Json),
            "{\"address\":\"127.0.0.1:1\",\"level\":\"warn\",\"message\":\"A listener failed.\",\"reason\":\"it \\\"broke\\\"\\nbadly\",\"target\":\"tls\",\"time\":\"1970-01-01T00:00:00.000Z\"}"
        );
        assert!(line.json(Some(7)).contains("\"number\":7"));
        let split = Line { sentence: "one\nline", ..line };
        assert!(!split.write(Format::Text).contains('\n'));
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let long = "\u{e9}".repeat(LINE_BYTES_MAX);
        let line = Line {
            time: UNIX_EPOCH,
            level: Level::Info,
            target: Target::Access,
            sentence: "A request was answered.",
            fields: &[("path", &long)],
        };
        for format in [Format::Text, Format::Json] {
            let written = line.write(format);
            assert!(written.len() <= LINE_BYTES_MAX + CUT.len(), "{format:?}");
            assert!(written.contains(CUT));
        }
    }

    #[test]
    fn levels() {
        assert!(Level::Error < Level::Warn && Level::Info < Level::Debug);
        assert_eq!(Level::parse("info"), Some(Level::Info));
        assert_eq!(Level::parse("Info"), None);
    }
}
