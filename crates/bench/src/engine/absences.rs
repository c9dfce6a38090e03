//! The times at which the clients of a run do not read, or are away; the same for all workers.
//!
//! Place: from the configuration to the pools. Times are on the monotonic clock. Pure.

use std::ops::Range;
use std::sync::Arc;

use crate::payload::Clock;

use super::config::Absence;
use super::window::{Outage, Span};

/// The planned absences of a run.
#[derive(Clone, Debug)]
pub(super) struct Absences {
    /// Span without reads, in nanoseconds.
    pub(super) stall: Range<u64>,
    /// All connections are dropped at its start and reconnect at its end, in nanoseconds.
    pub(super) away: Arc<Span>,
    /// Rate of the reconnects per second; 0: no limit. Without it, the rate of the start.
    pub(super) return_rate: Option<f64>,
    /// The server stops, at a time that is set later.
    pub(super) outage: Arc<Outage>,
    /// `SO_RCVBUF` of every socket; without it, the kernel's default.
    pub(super) receive_bytes: Option<usize>,
}

impl Absences {
    /// No absences.
    pub(super) fn none() -> Absences {
        Absences {
            stall: NEVER,
            away: Span::new(NEVER),
            return_rate: None,
            outage: Arc::default(),
            receive_bytes: None,
        }
    }

    /// The absences relative to now.
    pub(super) fn new(
        stall: Option<Absence>,
        away: Option<Absence>,
        receive_bytes: Option<usize>,
    ) -> Absences {
        let now_ns = Clock::Monotonic.now_ns();
        let span = |absence: Option<Absence>| {
            absence.map_or(NEVER, |absence| {
                let start = now_ns + absence.after.as_nanos() as u64;
                start..start + absence.span.as_nanos() as u64
            })
        };
        Absences {
            stall: span(stall),
            away: Span::new(span(away)),
            return_rate: None,
            outage: Arc::default(),
            receive_bytes,
        }
    }

    /// Whether the clients do not read.
    pub(super) fn is_stalled(&self, now_ns: u64) -> bool {
        self.stall.contains(&now_ns)
    }

    /// The time of the next begin or end.
    pub(super) fn next(&self, now_ns: u64) -> Option<u64> {
        let away = self.away.get();
        let times = [self.stall.start, away.start, away.end];
        times.into_iter().filter(|at| *at > now_ns).min()
    }

    /// The time at which the clients reconnect, once they have been dropped; 0 before. If the
    /// server stopped, the time of the stop.
    pub(super) fn return_ns(&self, now_ns: u64) -> u64 {
        if let Some(begun_ns) = self.outage.begun_ns(now_ns) {
            begun_ns
        } else if now_ns < self.away.get().start {
            0
        } else {
            self.away.get().end
        }
    }

    /// Whether a connection lost now counts as absent.
    pub(super) fn is_away(&self, now_ns: u64) -> bool {
        self.away.get().contains(&now_ns) || self.outage.begun_ns(now_ns).is_some()
    }
}

const NEVER: Range<u64> = u64::MAX..u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let absences = Absences { stall: 10..20, away: Span::new(30..40), ..Absences::none() };
        for (now_ns, is_stalled, next, return_ns) in [
            (5, false, Some(10), 0),
            (10, true, Some(30), 0),
            (19, true, Some(30), 0),
            (20, false, Some(30), 0),
            (30, false, Some(40), 40),
            (50, false, None, 40),
        ] {
            let told = (
                absences.is_stalled(now_ns),
                absences.next(now_ns).filter(|at| *at < u64::MAX),
                absences.return_ns(now_ns),
            );
            assert_eq!(told, (is_stalled, next, return_ns), "{now_ns}");
        }
        assert_eq!(
            [29, 30, 39, 40].map(|now_ns| absences.is_away(now_ns)),
            [false, true, true, false]
        );
        absences.outage.begin(60);
        assert!(!absences.is_away(59) && absences.is_away(60));
        assert_eq!((absences.return_ns(59), absences.return_ns(70)), (40, 60));
        let none = Absences::none();
        assert!(!none.is_stalled(5) && none.return_ns(5) == 0);
    }
}
