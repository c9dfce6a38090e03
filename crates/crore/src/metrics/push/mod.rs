//! Pushes metrics at an interval in InfluxDB's line protocol: to a file, a UDP socket, or an HTTP
//! server, mostly Telegraf.
//!
//! On a thread of its own, which asks the node as a scrape does: no message waits for it.
//! Invariants: one push at a time, and what could not be sent is gone, so that nothing gathers;
//! every write, and every answer that is waited for, has a bound; failures are counted, and told at
//! most once a minute.

pub use fetch::push::Target;

use super::{Gather, line_protocol};
use crate::logging::{Level, Log};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two lines of the log about pushes that fail.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Counters of pushes.
#[derive(Debug, Default)]
pub struct PushCounters {
    sent: AtomicU64,
    failed: AtomicU64,
}

/// Numbers of pushes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PushCounts {
    /// Accepted by the file, the system's socket, or the server.
    pub sent: u64,
    /// Refused, or not accepted in time.
    pub failed: u64,
}

impl PushCounters {
    /// The numbers now.
    pub fn counts(&self) -> PushCounts {
        PushCounts {
            sent: self.sent.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}

/// Settings of the pushes.
pub struct Push {
    /// The target.
    pub target: Target,
    /// The interval.
    pub interval: Duration,
    /// The node's name, for each line.
    pub node_name: String,
    /// Gathers the families.
    pub gather: Gather,
    /// Counts pushes.
    pub counters: Arc<PushCounters>,
    /// Reports failures.
    pub log: Log,
}

/// Pushes from now on, until the process ends.
///
/// # Errors
/// No thread to be had.
pub fn spawn(mut push: Push) -> io::Result<()> {
    std::thread::Builder::new().name("metrics".into()).spawn(move || {
        let mut telling = Telling::default();
        let mut due = Instant::now();
        loop {
            let result = push.once();
            push.tell(&mut telling, &result);
            // One that took longer than an interval is not made up for.
            due = (due + push.interval).max(Instant::now());
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    })?;
    Ok(())
}

impl Push {
    fn once(&mut self) -> io::Result<()> {
        let unix_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let lines = line_protocol::lines(&(self.gather)(), &self.node_name, unix_ns);
        let result = self.target.send(&lines);
        let counter = match result {
            Ok(()) => &self.counters.sent,
            Err(_) => &self.counters.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        result
    }

    /// Says in the log what came of a push, if that is news.
    fn tell(&self, telling: &mut Telling, result: &io::Result<()>) {
        if let Some((level, sentence, error)) = telling.line(Instant::now(), result) {
            let fields = [("to", &*self.target.to_string()), ("error", &error)];
            self.log.write(level, sentence, &fields);
        }
    }
}

/// Decides which results are logged: the first failure, then one a minute, and the recovery.
#[derive(Debug, Default)]
struct Telling {
    told_at: Option<Instant>,
    is_failing: bool,
}

impl Telling {
    fn line(
        &mut self,
        now: Instant,
        result: &io::Result<()>,
    ) -> Option<(Level, &'static str, String)> {
        let was_failing = std::mem::replace(&mut self.is_failing, result.is_err());
        let may_tell = self.told_at.is_none_or(|told_at| now.duration_since(told_at) >= TELL_EVERY);
        match result {
            Err(error) if may_tell => {
                self.told_at = Some(now);
                let sentence = "Metrics could not be pushed; this sample is lost.";
                Some((Level::Warn, sentence, error.to_string()))
            }
            Ok(()) if was_failing => {
                let sentence = "Metrics are pushed again.";
                Some((Level::Info, sentence, "none".into()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
