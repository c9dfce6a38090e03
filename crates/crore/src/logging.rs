//! Log lines on standard output: RFC 3339 in UTC, as text or JSON. Sentences with fields; never
//! payloads or tokens.
//!
//! Place: every part of the binary has a copy of the [`Log`] for its target. Invariants: a thread
//! that logs never waits for the reader of the output (`writer`); each target has its own level,
//! which a reload or an operator changes (`target`); the newest lines can be read (`recent`).

mod line;
mod recent;
mod target;
mod writer;

pub use line::{Format, Level, rfc3339};
use recent::Recent;
pub use recent::{Found, LINES_MAX as RECENT_LINES_MAX, Wanted};
pub use target::{Levels, OFF, TARGETS, Target, parse_level, parse_pair};
pub use writer::Counts;

use line::Line;
use std::io;
use std::time::{Duration, SystemTime};
use target::SharedLevels;
use writer::Writer;

/// Writes lines of one target; all copies write to the same output.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    shared: &'static Shared,
    target: Target,
}

/// A process has one log, until its end.
#[derive(Debug)]
struct Shared {
    format: Format,
    levels: SharedLevels,
    recent: Recent,
    writer: Writer,
}

/// Writes the queued lines when it is dropped, at the end of the process.
#[must_use]
#[derive(Debug)]
pub struct Flushing(Log);

impl Drop for Flushing {
    fn drop(&mut self) {
        self.0.flush(END_PATIENCE);
    }
}

/// Maximum time that the end of the process waits for the reader of the lines.
const END_PATIENCE: Duration = Duration::from_secs(2);

impl Log {
    /// Creates the log for lines about the node. They wait until [`Log::begin`].
    pub fn new(format: Format, levels: &Levels) -> Log {
        Log {
            shared: Box::leak(Box::new(Shared {
                format,
                levels: SharedLevels::new(levels),
                recent: Recent::default(),
                writer: Writer::default(),
            })),
            target: Target::Node,
        }
    }

    /// Begins to write, on a thread that keeps the present rights of the process.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn begin(&self) -> io::Result<()> {
        self.shared.writer.spawn(self.shared.format)
    }

    /// A guard that writes all lines when it is dropped.
    pub fn flushing(self) -> Flushing {
        Flushing(self)
    }

    /// This log, for another target.
    pub fn to(self, target: Target) -> Log {
        Log { target, ..self }
    }

    /// Sets the levels.
    pub fn set_levels(&self, levels: &Levels) {
        self.shared.levels.set(levels);
    }

    /// The present levels.
    pub fn levels(&self) -> Levels {
        self.shared.levels.get()
    }

    /// The format of lines.
    pub fn format(&self) -> Format {
        self.shared.format
    }

    /// The newest lines.
    pub fn recent(&self) -> &'static Recent {
        &self.shared.recent
    }

    /// Counts of written and dropped lines.
    pub fn counts(&self) -> Counts {
        self.shared.writer.counts()
    }

    /// Writes one line: a sentence and its fields.
    pub fn write(&self, level: Level, sentence: &str, fields: &[(&str, &str)]) {
        self.write_at(SystemTime::now(), level, sentence, fields);
    }

    /// Writes a line about an earlier event.
    pub fn write_at(
        &self,
        time: SystemTime,
        level: Level,
        sentence: &str,
        fields: &[(&str, &str)],
    ) {
        if self.shared.levels.is_on(self.target, level) {
            self.put(time, level, sentence, fields);
        }
    }

    /// Counts lines that were dropped before they were formatted.
    pub fn count_left_out(&self, count: u64) {
        self.shared.writer.count_left_out(count);
    }

    /// Writes a line for the program that started the process: `listening clients http://...`,
    /// `ready`. As text it has no time and no level, so that a script can parse it.
    pub fn announce(&self, event: &str, fields: &[(&str, &str)]) {
        match self.shared.format {
            Format::Json => self.put(SystemTime::now(), Level::Info, event, fields),
            Format::Text => {
                let mut text = event.to_owned();
                for (_, value) in fields {
                    text.push(' ');
                    text.push_str(value);
                }
                self.shared.writer.push(self.target, text);
            }
        }
    }

    /// Waits until the lines so far have been written, for at most this time.
    pub fn flush(&self, patience: Duration) {
        self.shared.writer.flush(self.shared.format, patience);
    }

    fn put(&self, time: SystemTime, level: Level, sentence: &str, fields: &[(&str, &str)]) {
        let line = Line { time, level, target: self.target, sentence, fields };
        self.shared.recent.push(&line);
        let text = line.write(self.shared.format);
        self.shared.writer.push(self.target, text);
    }
}
