//! Open-loop pacing: the clock decides when an event is due, never an answer.
//!
//! Place: connecting and publishing. An event's time is its *intended* time; one that is late is
//! still sent, with that time, so that a backlog shows as latency and is never left out. Pure: time
//! is an argument.

/// A steady schedule shared by several workers: worker `w` of `n` owns the events `w`, `w + n`, `w
/// + 2n`, …
#[derive(Clone, Debug)]
pub struct Pace {
    start_ns: u64,
    rate: f64,
    next: u64,
    stride: u64,
}

impl Pace {
    /// `rate` events per second over all workers from `start_ns` on; 0 means all at once.
    pub fn new(start_ns: u64, rate: f64, worker: u64, workers: u64) -> Pace {
        Pace { start_ns, rate, next: worker, stride: workers.max(1) }
    }

    /// Restarts the schedule now. Events that were requested after a pause were not due during it.
    pub fn restart(&mut self, now_ns: u64) {
        self.start_ns = now_ns;
        self.next %= self.stride;
    }

    /// Whether there is a rate; without one everything is due at once.
    pub fn is_paced(&self) -> bool {
        self.rate > 0.0
    }

    /// Takes the next event if it is due: its number over all workers, and its intended time.
    pub fn take(&mut self, now_ns: u64) -> Option<(u64, u64)> {
        let at = self.due_ns();
        if at > now_ns {
            return None;
        }
        let number = self.next;
        self.next += self.stride;
        Some((number, at))
    }

    /// The time of the next event.
    pub fn due_ns(&self) -> u64 {
        if self.rate <= 0.0 {
            return self.start_ns;
        }
        let after_ns = self.next as f64 * 1e9 / self.rate;
        self.start_ns.saturating_add(after_ns as u64)
    }

    /// The time of the next event, rounded up to a multiple of `step_ns`; 0 rounds nothing. Events
    /// that wait for it leave together, and each keeps its own intended time.
    pub fn step_ns(&self, step_ns: u64) -> u64 {
        let due_ns = self.due_ns();
        if step_ns == 0 { due_ns } else { due_ns.div_ceil(step_ns).saturating_mul(step_ns) }
    }

    /// The number of the next event.
    pub fn next(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_at_their_time() {
        let mut pace = Pace::new(1_000, 1_000.0, 0, 1);
        assert_eq!(pace.take(999), None);
        assert_eq!(pace.take(1_000), Some((0, 1_000)));
        assert_eq!(pace.take(1_000), None);
        assert_eq!(pace.due_ns(), 1_001_000);
        // Late: all that was due is still there, with the times it should have had.
        assert_eq!(pace.take(5_000_000), Some((1, 1_001_000)));
        assert_eq!(pace.take(5_000_000), Some((2, 2_001_000)));
        assert_eq!(pace.take(5_000_000), Some((3, 3_001_000)));
        assert_eq!(pace.take(5_000_000), Some((4, 4_001_000)));
        assert_eq!(pace.take(5_000_000), None);
        let mut pace = Pace::new(0, 1_000.0, 1, 3);
        assert_eq!(pace.take(9_000_000), Some((1, 1_000_000)));
        pace.restart(10_000_000);
        assert_eq!(pace.take(11_000_000), Some((1, 11_000_000)));
        assert_eq!(pace.take(11_000_000), None);
    }

    #[test]
    fn steps_gather_events() {
        let mut pace = Pace::new(400, 1e7, 0, 1);
        assert_eq!((pace.step_ns(0), pace.step_ns(1_000)), (400, 1_000));
        let mut together = Vec::new();
        while let Some((_, intended_ns)) = pace.take(1_000) {
            together.push(intended_ns);
        }
        assert_eq!(together, [400, 500, 600, 700, 800, 900, 1_000]);
        assert_eq!(pace.step_ns(1_000), 2_000);
    }

    #[test]
    fn workers_share_one_schedule() {
        let mut all = Vec::new();
        for worker in 0..3 {
            let mut pace = Pace::new(0, 10.0, worker, 3);
            while let Some(event) = pace.take(900_000_000) {
                all.push(event);
            }
        }
        all.sort_unstable();
        let wanted: Vec<_> = (0..10).map(|number| (number, number * 100_000_000)).collect();
        assert_eq!(all, wanted);
    }

    #[test]
    fn no_rate_is_all_at_once() {
        let mut pace = Pace::new(7, 0.0, 1, 2);
        assert_eq!(pace.take(6), None);
        assert_eq!(pace.take(7), Some((1, 7)));
        assert_eq!(pace.take(7), Some((3, 7)));
    }

    #[test]
    fn no_drift_over_a_long_run() {
        let mut pace = Pace::new(0, 3.0, 0, 1);
        pace.next = 3 * 86_400;
        assert_eq!(pace.due_ns(), 86_400_000_000_000);
    }
}
