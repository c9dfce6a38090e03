//! When the last of many subscribers had a message: the time that a fan-out takes as a whole.
//!
//! Place: behind [`super::subscriptions`], where all clients have the same topic. Each worker keeps
//! what it has seen since it last handed over; what all workers together have seen is kept until
//! the last receiver is known.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::statistics::Recorder;

/// Messages that are not with everybody yet; of the older ones nothing is told.
const OPEN_MAX: usize = 65_536;

/// Which message: its publisher and its number.
type Key = (u32, u64);

/// How many have it, and how long the slowest of them took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    receivers: u64,
    slowest_ns: u64,
}

/// What all workers have seen.
pub(super) type SharedReceivers = Arc<Mutex<HashMap<Key, Seen>>>;

/// What one worker has seen.
pub(super) struct Receivers {
    all: u64,
    shared: SharedReceivers,
    seen: HashMap<Key, Seen>,
}

impl Receivers {
    /// A message is with everybody when it is with `all`.
    pub(super) fn new(all: u64, shared: SharedReceivers) -> Receivers {
        Receivers { all, shared, seen: HashMap::new() }
    }

    pub(super) fn received(&mut self, publisher: u32, sequence: u64, latency_ns: u64) {
        let seen = self.seen.entry((publisher, sequence)).or_default();
        seen.receivers += 1;
        seen.slowest_ns = seen.slowest_ns.max(latency_ns);
    }

    /// Hands over, and records the messages that everybody has now.
    pub(super) fn look(&mut self, into: &mut Recorder) {
        if self.seen.is_empty() {
            return;
        }
        let mut open = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, seen) in self.seen.drain() {
            let all = open.entry(key).or_default();
            all.receivers += seen.receivers;
            all.slowest_ns = all.slowest_ns.max(seen.slowest_ns);
            if all.receivers >= self.all {
                into.record_ns(all.slowest_ns);
                open.remove(&key);
            }
        }
        if open.len() > OPEN_MAX {
            open.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_receiver_of_all_workers_counts() {
        let shared = SharedReceivers::default();
        let mut workers = [(); 2].map(|()| Receivers::new(3, shared.clone()));
        let mut recorder = Recorder::new();
        workers[0].received(1, 1, 5_000);
        workers[0].received(1, 1, 9_000);
        workers[0].received(1, 2, 1_000);
        workers[0].look(&mut recorder);
        assert_eq!(recorder.count(), 0);
        workers[1].received(1, 1, 7_000);
        workers[1].look(&mut recorder);
        let digest = recorder.digest();
        assert_eq!((digest.count, digest.max_us), (1, 9.0));
    }
}
