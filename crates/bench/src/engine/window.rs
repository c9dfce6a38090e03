//! The measured span of a run, and actions that are scheduled while it runs.
//!
//! Place: from the owner of a run to its workers, who look at these times whenever they need them.
//! Times are on the monotonic clock. A message belongs to the window of its *intended* time, so
//! that a late message is never lost between two windows.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::payload::{Clock, Header};

/// The measured span; shared by all workers of a run.
#[derive(Debug)]
pub struct Window {
    from_ns: AtomicU64,
    until_ns: AtomicU64,
}

impl Window {
    /// From this time on, without an end.
    pub fn from(from_ns: u64) -> Arc<Window> {
        Arc::new(Window { from_ns: AtomicU64::new(from_ns), until_ns: AtomicU64::new(u64::MAX) })
    }

    /// Another span from now on. Publishers and echo clients have nothing to send behind its end.
    pub fn set(&self, from_ns: u64, until_ns: u64) {
        // Between the two stores a worker may count a message outside of the span. The reader sets
        // the span some time before it begins, and drops the counts until then.
        self.until_ns.store(until_ns, Ordering::Release);
        self.from_ns.store(from_ns, Ordering::Release);
    }

    /// The time after which no message is sent.
    pub fn until_ns(&self) -> u64 {
        self.until_ns.load(Ordering::Acquire)
    }

    /// Whether this intended time is in the window.
    pub fn contains(&self, at_ns: u64) -> bool {
        self.from_ns.load(Ordering::Acquire) <= at_ns && at_ns < self.until_ns()
    }

    /// Whether a received message counts. Of another machine's clock only the arrival can be told.
    pub fn counts(&self, header: &Header, now_ns: u64) -> bool {
        self.contains(match header.clock {
            Clock::Monotonic => header.intended_ns,
            Clock::Realtime => now_ns,
        })
    }
}

/// A span that may be set while the run continues.
#[derive(Debug)]
pub struct Span {
    start_ns: AtomicU64,
    end_ns: AtomicU64,
}

impl Span {
    /// This one.
    pub fn new(span: Range<u64>) -> Arc<Span> {
        Arc::new(Span { start_ns: AtomicU64::new(span.start), end_ns: AtomicU64::new(span.end) })
    }

    /// The current span.
    pub fn get(&self) -> Range<u64> {
        let start_ns = self.start_ns.load(Ordering::Acquire);
        start_ns..self.end_ns.load(Ordering::Acquire)
    }

    /// Sets the span. It lies in the future, so that no worker acts on one half of it.
    pub fn set(&self, span: Range<u64>) {
        self.end_ns.store(span.end, Ordering::Release);
        self.start_ns.store(span.start, Ordering::Release);
    }
}

/// The unplanned end of a server: from this time on, clients that lose their connection are away,
/// until each is live again.
#[derive(Debug, Default)]
pub struct Outage(AtomicU64);

impl Outage {
    /// It begins at this time.
    pub fn begin(&self, at_ns: u64) {
        self.0.store(at_ns, Ordering::Release);
    }

    /// The time of the begin, if it has come.
    pub fn begun_ns(&self, now_ns: u64) -> Option<u64> {
        let at_ns = self.0.load(Ordering::Acquire);
        (at_ns != 0 && at_ns <= now_ns).then_some(at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_belong_to_a_window_by_their_intended_time() {
        let header = |clock, intended_ns| Header {
            clock,
            publisher: 1,
            topic_hash: 1,
            intended_ns,
            sequence: 1,
        };
        let window = Window::from(10);
        for (intended_ns, counts) in [(9, false), (10, true), (u64::MAX - 1, true)] {
            assert_eq!(window.counts(&header(Clock::Monotonic, intended_ns), 0), counts);
        }
        window.set(20, 30);
        for (intended_ns, counts) in [(19, false), (20, true), (29, true), (30, false)] {
            assert_eq!(window.counts(&header(Clock::Monotonic, intended_ns), 99), counts);
            assert_eq!(window.counts(&header(Clock::Realtime, 0), intended_ns), counts);
        }
    }

    #[test]
    fn outages_begin_once_they_are_told() {
        let outage = Outage::default();
        assert_eq!(outage.begun_ns(u64::MAX), None);
        outage.begin(5);
        assert_eq!((outage.begun_ns(4), outage.begun_ns(5)), (None, Some(5)));
    }
}
