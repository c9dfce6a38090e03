//! Log lines on standard output: RFC 3339 in UTC, as text or JSON. Sentences with fields; never payloads or tokens.
//!
//! Place: every part of the binary has a copy of the [`Log`], made out to what it writes about. Invariants: who writes never
//! waits for whoever reads (`writer`); each target has a level of its own, which a reload or an operator changes (`target`); the
//! newest lines can be looked at (`recent`).

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

/// Writes lines about one thing; a copy writes to the same place.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    shared: &'static Shared,
    target: Target,
}

/// There is one log in a process, for as long as it lives.
#[derive(Debug)]
struct Shared {
    format: Format,
    levels: SharedLevels,
    recent: Recent,
    writer: Writer,
}

/// At its end, what is queued is written. For whoever ends with the process.
#[must_use]
#[derive(Debug)]
pub struct Flushing(Log);

impl Drop for Flushing {
    fn drop(&mut self) {
        self.0.flush(END_PATIENCE);
    }
}

/// So long the end of the process waits for whoever reads its lines.
const END_PATIENCE: Duration = Duration::from_secs(2);

impl Log {
    /// Lines about the node. They wait until [`Log::begin`].
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

    /// Begins to write, on a thread that keeps the rights that the process has now.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn begin(&self) -> io::Result<()> {
        self.shared.writer.spawn(self.shared.format)
    }

    /// Has everything written when the value goes.
    pub fn flushing(self) -> Flushing {
        Flushing(self)
    }

    /// The same log, for lines about something else.
    pub fn to(self, target: Target) -> Log {
        Log { target, ..self }
    }

    /// From now on goes by these levels.
    pub fn set_levels(&self, levels: &Levels) {
        self.shared.levels.set(levels);
    }

    /// The present levels.
    pub fn levels(&self) -> Levels {
        self.shared.levels.get()
    }

    /// How lines are written.
    pub fn format(&self) -> Format {
        self.shared.format
    }

    /// The newest lines.
    pub fn recent(&self) -> &'static Recent {
        &self.shared.recent
    }

    /// What has been written and what has not.
    pub fn counts(&self) -> Counts {
        self.shared.writer.counts()
    }

    /// One line: a sentence and its fields.
    pub fn write(&self, level: Level, sentence: &str, fields: &[(&str, &str)]) {
        self.write_at(SystemTime::now(), level, sentence, fields);
    }

    /// The same of something that happened before.
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

    /// Lines that were not even made.
    pub fn count_left_out(&self, count: u64) {
        self.shared.writer.count_left_out(count);
    }

    /// A line that whoever started the process waits for: `listening clients http://...`, `ready`. As text it stands
    /// without time and level, so that a script can take it apart.
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

    /// Waits until what was said so far has been written, at most so long.
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
