//! When the clients of a run do not read, or are away: at times that are the same for all workers.
//!
//! Place: from the configuration to the pools. Times are on the monotonic clock. Pure.

use std::ops::Range;
use std::sync::Arc;

use crate::payload::Clock;

use super::config::Absence;
use super::window::{Outage, Span};

/// What is planned for a run.
#[derive(Clone, Debug)]
pub(super) struct Absences {
    /// Nothing is read in this span, in nanoseconds.
    pub(super) stall: Range<u64>,
    /// All connections are dropped at its start and return at its end, in nanoseconds.
    pub(super) away: Arc<Span>,
    /// Connects per second when they return; 0: as fast as it goes. As at the beginning without it.
    pub(super) return_rate: Option<f64>,
    /// The server goes, at a time that is told when it comes.
    pub(super) outage: Arc<Outage>,
    /// `SO_RCVBUF` of every socket; the kernel's own without it.
    pub(super) receive_bytes: Option<usize>,
}

impl Absences {
    /// None at all.
    pub(super) fn none() -> Absences {
        Absences {
            stall: NEVER,
            away: Span::new(NEVER),
            return_rate: None,
            outage: Arc::default(),
            receive_bytes: None,
        }
    }

    /// Counted from now.
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

    /// The clients do not read.
    pub(super) fn is_stalled(&self, now_ns: u64) -> bool {
        self.stall.contains(&now_ns)
    }

    /// When something begins or ends.
    pub(super) fn next(&self, now_ns: u64) -> Option<u64> {
        let away = self.away.get();
        let times = [self.stall.start, away.start, away.end];
        times.into_iter().filter(|at| *at > now_ns).min()
    }

    /// When the clients return or returned, once they have been sent away; 0 before. Where the server went, it is when
    /// that was.
    pub(super) fn return_ns(&self, now_ns: u64) -> u64 {
        if let Some(begun_ns) = self.outage.begun_ns(now_ns) {
            begun_ns
        } else if now_ns < self.away.get().start {
            0
        } else {
            self.away.get().end
        }
    }

    /// Whoever loses its connection now is away.
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
