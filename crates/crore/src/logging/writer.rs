//! Writes lines to standard output, on a thread of its own behind a bounded queue.
//!
//! Invariants: a thread that logs never waits for the reader of the output, even if it is a pipe
//! that no process reads; lines that do not fit are counted and reported as soon as lines flow
//! again. Lines that clients cause leave half of the queue to other lines.

use super::line::{Format, Level, Line};
use super::target::{TARGETS, Target};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Maximum number of queued lines.
const QUEUE_LINES_MAX: usize = 8_192;
/// Maximum number of their bytes.
const QUEUE_BYTES_MAX: usize = 4 << 20;

/// Counts of written and dropped lines since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Lines written, by target.
    pub written: [u64; TARGETS.len()],
    /// Lines dropped because standard output did not accept the lines before them.
    pub dropped: u64,
    /// Lines dropped because of the configured limit per second, or because the node could not
    /// process them.
    pub left_out: u64,
}

/// A queue of lines, and their counts.
#[derive(Debug, Default)]
pub struct Writer {
    queue: Mutex<Queue>,
    /// Signals that there are lines.
    filled: Condvar,
    /// Signals that the queue is empty.
    emptied: Condvar,
    written: [AtomicU64; TARGETS.len()],
    left_out: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<(Target, String)>,
    bytes: usize,
    /// Number of dropped lines.
    dropped: u64,
    /// Number of dropped lines that were reported.
    dropped_told: u64,
    /// Whether lines have been taken from the queue and are being written.
    is_writing: bool,
    has_thread: bool,
}

impl Writer {
    /// Queues a line, or counts it as dropped.
    pub fn push(&self, target: Target, line: String) {
        let mut queue = self.lock();
        let share = if target.is_of_clients() { 2 } else { 1 };
        let is_full = queue.lines.len() >= QUEUE_LINES_MAX / share
            || queue.bytes + line.len() > QUEUE_BYTES_MAX / share;
        if is_full {
            queue.dropped += 1;
            return;
        }
        queue.bytes += line.len();
        queue.lines.push_back((target, line));
        drop(queue);
        self.filled.notify_one();
    }

    /// Counts lines that were dropped before they were formatted.
    pub fn count_left_out(&self, count: u64) {
        self.left_out.fetch_add(count, Ordering::Relaxed);
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        let written = self.written.each_ref().map(|count| count.load(Ordering::Relaxed));
        Counts {
            written,
            dropped: self.lock().dropped,
            left_out: self.left_out.load(Ordering::Relaxed),
        }
    }

    /// Writes queued lines to standard output until the end of the process.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn spawn(&'static self, format: Format) -> io::Result<()> {
        self.lock().has_thread = true;
        let write = move || {
            loop {
                self.write_some(format, &mut io::stdout());
            }
        };
        let thread = std::thread::Builder::new().name("logging".into());
        thread.spawn(write).map(|_| ()).inspect_err(|_| {
            self.lock().has_thread = false;
        })
    }

    /// Waits until the queued lines have been written, for at most this time. Before there is a
    /// thread, it writes them itself.
    pub fn flush(&self, format: Format, patience: Duration) {
        let queue = self.lock();
        if !queue.has_thread {
            let has_lines = !queue.lines.is_empty();
            drop(queue);
            if has_lines {
                self.write_some(format, &mut io::stdout());
            }
            return;
        }
        let is_busy = |queue: &mut Queue| queue.is_writing || !queue.lines.is_empty();
        let waited = self.emptied.wait_timeout_while(queue, patience, is_busy);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for lines and writes them. If standard output is closed, the node continues to serve.
    fn write_some(&self, format: Format, output: &mut dyn Write) {
        let queue = self.lock();
        let is_empty = |queue: &mut Queue| queue.lines.is_empty();
        let mut queue =
            self.filled.wait_while(queue, is_empty).unwrap_or_else(PoisonError::into_inner);
        let lines = std::mem::take(&mut queue.lines);
        queue.bytes = 0;
        queue.is_writing = true;
        // These lines precede the dropped ones.
        let dropped = queue.dropped - queue.dropped_told;
        queue.dropped_told = queue.dropped;
        drop(queue);
        let mut bytes = Vec::with_capacity(lines.iter().map(|(_, line)| line.len() + 1).sum());
        for (_, line) in &lines {
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
        }
        if dropped > 0 {
            bytes.extend_from_slice(dropped_line(format, dropped).as_bytes());
            bytes.push(b'\n');
        }
        let _ = output.write_all(&bytes).and_then(|()| output.flush());
        for (target, _) in &lines {
            self.written[*target as usize].fetch_add(1, Ordering::Relaxed);
        }
        self.lock().is_writing = false;
        self.emptied.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn dropped_line(format: Format, count: u64) -> String {
    let line = Line {
        time: SystemTime::now(),
        level: Level::Warn,
        target: Target::Logging,
        sentence: "Log lines were dropped: standard output did not accept the lines before them.",
        fields: &[("count", &count.to_string())],
    };
    line.write(format)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(writer: &Writer) -> String {
        let mut output = Vec::new();
        writer.write_some(Format::Text, &mut output);
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn what_does_not_fit_is_counted_and_told_behind_what_did() {
        let writer = Writer::default();
        for number in 0..QUEUE_LINES_MAX + 3 {
            writer.push(Target::Node, number.to_string());
        }
        let text = text_of(&writer);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), QUEUE_LINES_MAX + 1);
        assert_eq!(lines[QUEUE_LINES_MAX - 1], (QUEUE_LINES_MAX - 1).to_string());
        assert!(
            lines[QUEUE_LINES_MAX].ends_with("before them. count=3"),
            "{}",
            lines[QUEUE_LINES_MAX]
        );
        // Once.
        writer.push(Target::Node, "next".into());
        assert_eq!(text_of(&writer), "next\n");
        let counts = writer.counts();
        assert_eq!(counts.dropped, 3);
        assert_eq!(counts.written[Target::Node as usize], QUEUE_LINES_MAX as u64 + 1);
    }

    #[test]
    fn clients_leave_room() {
        let writer = Writer::default();
        let long = "x".repeat(64 << 10);
        for _ in 0..QUEUE_BYTES_MAX / long.len() {
            writer.push(Target::Access, long.clone());
        }
        assert!(writer.counts().dropped > 0);
        let before = writer.counts().dropped;
        writer.push(Target::Node, "still".into());
        assert_eq!(writer.counts().dropped, before);
        assert!(text_of(&writer).contains("\nstill\n"));
    }

    #[test]
    fn a_flush_waits_no_longer_than_it_is_told() {
        let writer = Writer::default();
        writer.lock().has_thread = true;
        writer.push(Target::Node, "nobody takes this".into());
        writer.flush(Format::Text, Duration::from_millis(1));
        assert!(text_of(&writer).contains("nobody"));
        writer.flush(Format::Text, Duration::from_secs(600));
    }
}
