//! The steps of a drain, and when clients are to return.
//!
//! Invariant: return times lie evenly in the window, on one edge and on all of them together.

use crate::ids::ConnIndex;
use crate::mail::EdgeId;
use std::ops::Range;
use stdx::handing::Hand;

/// A drain under way.
#[derive(Clone, Copy, Hand)]
pub(crate) struct Drain {
    window_ms: u64,
    step: Step,
}

#[derive(Clone, Copy, Hand)]
enum Step {
    /// The connections before this index have been notified.
    Telling(u32),
    /// Clients close by themselves until then.
    Waiting { until_ms: u64 },
    /// The connections before this index are not read any more.
    Holding(u32),
    /// The homes answer the requests that are under way.
    Settling,
    /// The connections before this index have been closed.
    Closing(u32),
    /// Only answers of the homes are written.
    Over,
}

/// The next action of a drain, with the connections that it concerns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Draining {
    /// Tells clients to go.
    Tell(Range<u32>),
    /// Reads nothing more from them.
    Hold(Range<u32>),
    /// Closes them: nothing is under way for them any more.
    Close(Range<u32>),
    /// Nothing in this turn.
    Nothing,
}

/// The state of the edge that a drain depends on.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    pub now_ms: u64,
    /// Homes have room for requests: a ticket asks them.
    pub has_room: bool,
    /// Homes have answered all requests but pages.
    pub is_settled: bool,
    /// Connections, and the indexes in use.
    pub connections: u32,
    pub places: u32,
}

/// Time in which clients take their answers and close; half the window if that is less.
const PATIENCE_MS_MAX: u64 = 1_000;
/// Connections that one turn examines.
const CONNECTIONS_TURN_MAX: u32 = 1_024;
/// The golden ratio of 32 bits: its multiples fall evenly.
const GOLDEN: u32 = 0x9e37_79b9;
/// The beginning of the edges' sequences, apart from each other: the square root of two, less one.
const EDGES_APART: u32 = 0x6a09_e667;
/// A window is not longer.
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

impl Drain {
    /// A drain that asks clients to return within this time.
    pub fn new(window_ms: u64) -> Drain {
        Drain { window_ms: window_ms.min(DAY_MS), step: Step::Telling(0) }
    }

    /// Whether notified clients may finish first.
    pub fn lets_finish(&self) -> bool {
        self.window_ms > 0 && matches!(self.step, Step::Telling(_) | Step::Waiting { .. })
    }

    /// Takes the next step, if it is due.
    pub fn advance(&mut self, progress: Progress) -> Draining {
        let places = progress.places;
        let patience_ms = (self.window_ms / 2).min(PATIENCE_MS_MAX);
        let some = |next: u32| {
            let end = places.min(next + CONNECTIONS_TURN_MAX);
            (next..end, (end < places).then_some(end))
        };
        let (draining, step) = match self.step {
            Step::Telling(_) if !progress.has_room => return Draining::Nothing,
            Step::Telling(next) => {
                let (range, next) = some(next);
                let waiting = match self.window_ms {
                    0 => Step::Over,
                    _ => Step::Waiting { until_ms: progress.now_ms + patience_ms },
                };
                (Draining::Tell(range), next.map_or(waiting, Step::Telling))
            }
            Step::Waiting { until_ms }
                if progress.now_ms < until_ms && progress.connections > 0 =>
            {
                return Draining::Nothing;
            }
            Step::Waiting { .. } => (Draining::Nothing, Step::Holding(0)),
            Step::Holding(next) => {
                let (range, next) = some(next);
                (Draining::Hold(range), next.map_or(Step::Settling, Step::Holding))
            }
            Step::Settling if !progress.is_settled => return Draining::Nothing,
            Step::Settling => (Draining::Nothing, Step::Closing(0)),
            Step::Closing(next) => {
                let (range, next) = some(next);
                (Draining::Close(range), next.map_or(Step::Over, Step::Closing))
            }
            Step::Over => return Draining::Nothing,
        };
        self.step = step;
        draining
    }

    /// Whether a further step is due at once.
    pub fn has_more(&self, has_room: bool, is_settled: bool) -> bool {
        match self.step {
            Step::Telling(_) => has_room,
            Step::Holding(_) | Step::Closing(_) => true,
            Step::Settling => is_settled,
            Step::Waiting { .. } | Step::Over => false,
        }
    }

    /// The time of the next step; milliseconds of the monotonic clock.
    pub fn deadline_ms(&self, connections: u32) -> Option<u64> {
        match self.step {
            Step::Waiting { until_ms } => (connections > 0).then_some(until_ms),
            Step::Telling(_)
            | Step::Holding(_)
            | Step::Settling
            | Step::Closing(_)
            | Step::Over => None,
        }
    }

    /// A client's delay before it returns, in milliseconds: evenly over the window, even with few
    /// clients. Neighbours lie far apart, and so do edges.
    pub fn return_after_ms(&self, edge: EdgeId, index: ConnIndex) -> u64 {
        let of_edge = u32::from(edge.0).wrapping_mul(EDGES_APART);
        let place = index.0.wrapping_mul(GOLDEN).wrapping_add(of_edge);
        (u64::from(place) * self.window_ms) >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRESS: Progress =
        Progress { now_ms: 0, has_room: true, is_settled: true, connections: 9, places: 1_500 };

    #[test]
    fn a_drain_tells_waits_holds_settles_and_closes() {
        let mut drain = Drain::new(600);
        let mut at = |change: fn(&mut Progress)| {
            let mut progress = PROGRESS;
            change(&mut progress);
            drain.advance(progress)
        };
        assert_eq!(at(|progress| progress.has_room = false), Draining::Nothing);
        assert_eq!(at(|_| ()), Draining::Tell(0..1_024));
        assert_eq!(at(|_| ()), Draining::Tell(1_024..1_500));
        assert_eq!(at(|progress| progress.now_ms = 299), Draining::Nothing, "patience");
        assert_eq!(at(|progress| progress.now_ms = 300), Draining::Nothing, "over");
        assert_eq!(at(|_| ()), Draining::Hold(0..1_024));
        assert_eq!(at(|_| ()), Draining::Hold(1_024..1_500));
        assert_eq!(at(|progress| progress.is_settled = false), Draining::Nothing);
        assert_eq!(at(|_| ()), Draining::Nothing, "settled");
        assert_eq!(at(|_| ()), Draining::Close(0..1_024));
        assert_eq!(at(|_| ()), Draining::Close(1_024..1_500));
        assert_eq!(at(|_| ()), Draining::Nothing);
        assert!(!drain.has_more(true, true) && drain.deadline_ms(9).is_none());
    }

    #[test]
    fn a_drain_ends_its_patience_when_no_connection_is_left() {
        let mut drain = Drain::new(600);
        drain.advance(Progress { places: 1, ..PROGRESS });
        assert_eq!((drain.deadline_ms(1), drain.deadline_ms(0)), (Some(300), None));
        assert!(drain.lets_finish() && !drain.has_more(true, true));
        drain.advance(Progress { connections: 0, ..PROGRESS });
        assert!(!drain.lets_finish() && drain.has_more(true, true));
    }

    #[test]
    fn a_drain_without_a_window_only_tells() {
        let mut drain = Drain::new(0);
        assert_eq!(drain.advance(Progress { places: 1, ..PROGRESS }), Draining::Tell(0..1));
        assert!(!drain.lets_finish() && !drain.has_more(true, true));
        assert_eq!(drain.advance(PROGRESS), Draining::Nothing);
    }

    #[test]
    fn return_times_lie_evenly_in_the_window() {
        let drain = Drain::new(1_000);
        let mut tenths = [0; 10];
        for index in 0..100 {
            tenths[drain.return_after_ms(EdgeId(1), ConnIndex(index)) as usize / 100] += 1;
        }
        assert!(tenths.iter().all(|count| (9..=11).contains(count)), "{tenths:?}");
    }
}
