//! Log lines on standard output: RFC 3339 in UTC, as text or JSON. Sentences with fields; never payloads or tokens.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// How lines are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object for each line.
    Json,
}

/// By what an operator must do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Act now.
    Error,
    /// Act soon, or know.
    Warn,
    /// Know if you look.
    Info,
    /// For whoever searches a fault.
    Debug,
}

/// Writes lines; a copy writes to the same place, from the same level on.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    format: Format,
    /// A level by its number. There is one log in a process, for as long as it lives.
    least: &'static AtomicU8,
}

impl Level {
    /// The level of a word of the configuration.
    pub fn of(word: &str) -> Level {
        match word {
            "error" => Level::Error,
            "warn" => Level::Warn,
            "debug" => Level::Debug,
            _ => Level::Info,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

impl Log {
    /// Writes lines of `least` and more severe ones.
    pub fn new(format: Format, least: Level) -> Log {
        Log {
            format,
            least: Box::leak(Box::new(AtomicU8::new(least as u8))),
        }
    }

    /// From now on writes lines of `least` and more severe ones.
    pub fn set_level(&self, least: Level) {
        self.least.store(least as u8, Ordering::Relaxed);
    }

    /// One line: a sentence and its fields.
    pub fn write(&self, level: Level, sentence: &str, fields: &[(&str, &str)]) {
        if level as u8 <= self.least.load(Ordering::Relaxed) {
            emit(&line(
                self.format,
                SystemTime::now(),
                level,
                sentence,
                fields,
            ));
        }
    }

    /// A line that whoever started the process waits for: `listening clients http://...`, `ready`. As text it stands
    /// without time and level, so that a script can take it apart.
    pub fn announce(&self, event: &str, fields: &[(&str, &str)]) {
        match self.format {
            Format::Json => emit(&line(
                self.format,
                SystemTime::now(),
                Level::Info,
                event,
                fields,
            )),
            Format::Text => {
                let mut text = event.to_owned();
                for (_, value) in fields {
                    text.push(' ');
                    text.push_str(value);
                }
                emit(&text);
            }
        }
    }
}

/// Standard output may be gone; the node serves on.
fn emit(line: &str) {
    let mut output = std::io::stdout().lock();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

fn line(
    format: Format,
    time: SystemTime,
    level: Level,
    sentence: &str,
    fields: &[(&str, &str)],
) -> String {
    let time = rfc3339(time);
    match format {
        Format::Text => {
            let mut text = format!("{time} {:5} {sentence}", level.word());
            for (name, value) in fields {
                let plain = !value.is_empty()
                    && value
                        .bytes()
                        .all(|byte| byte.is_ascii_graphic() && byte != b'"');
                let _ = if plain {
                    write!(text, " {name}={value}")
                } else {
                    write!(text, " {name}={value:?}")
                };
            }
            text.replace(['\n', '\r'], " ")
        }
        Format::Json => {
            let mut object = serde_json::Map::new();
            object.insert("time".into(), time.into());
            object.insert("level".into(), level.word().into());
            object.insert("message".into(), sentence.into());
            for (name, value) in fields {
                object.insert((*name).into(), (*value).into());
            }
            serde_json::Value::Object(object).to_string()
        }
    }
}

/// `2026-11-21T21:59:03.120Z` (RFC 3339, section 5.6).
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

/// Year, month and day of a day counted from 1970-01-01. Years begin in March here, so that the leap day is the last.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
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
            assert_eq!(
                rfc3339(UNIX_EPOCH + Duration::from_millis(milliseconds)),
                expected
            );
        }
    }

    #[test]
    fn lines() {
        let fields = [
            ("address", "127.0.0.1:1"),
            ("reason", "it \"broke\"\nbadly"),
        ];
        assert_eq!(
            line(
                Format::Text,
                UNIX_EPOCH,
                Level::Warn,
                "A listener failed.",
                &fields
            ),
            "1970-01-01T00:00:00.000Z warn  A listener failed. address=127.0.0.1:1 reason=\"it \\\"broke\\\"\\nbadly\""
        );
        assert_eq!(
            line(
                Format::Json,
                UNIX_EPOCH,
                Level::Warn,
                "A listener failed.",
                &fields
            ),
            "{\"address\":\"127.0.0.1:1\",\"level\":\"warn\",\"message\":\"A listener failed.\",\"reason\":\"it \\\"broke\\\"\\nbadly\",\"time\":\"1970-01-01T00:00:00.000Z\"}"
        );
        let split = line(Format::Text, UNIX_EPOCH, Level::Info, "one\nline", &[]);
        assert!(!split.contains('\n'));
    }

    #[test]
    fn levels() {
        assert!(Level::of("error") < Level::of("warn") && Level::of("info") < Level::of("debug"));
    }
}
