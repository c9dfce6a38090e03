//! The time until the last of many subscribers has a message: the duration of a whole fan-out.
//!
//! Place: behind [`super::subscriptions`], where all clients have the same topic. Each worker
//! counts receipts since its last hand-over. The shared map sums them up until the last receiver is
//! known.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::statistics::Recorder;

/// Maximum number of messages with missing receivers; beyond it, all of them are dropped without a
/// figure.
const OPEN_MAX: usize = 65_536;

/// The key of a message: its publisher and its number.
type Key = (u32, u64);

/// The number of receivers, and the latency of the slowest.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    receivers: u64,
    slowest_ns: u64,
}

/// The receipts of all workers.
pub(super) type SharedReceivers = Arc<Mutex<HashMap<Key, Seen>>>;

/// The receipts of one worker.
pub(super) struct Receivers {
    all: u64,
    shared: SharedReceivers,
    seen: HashMap<Key, Seen>,
}

impl Receivers {
    /// A message is complete when `all` clients have it.
    pub(super) fn new(all: u64, shared: SharedReceivers) -> Receivers {
        Receivers { all, shared, seen: HashMap::new() }
    }

    pub(super) fn received(&mut self, publisher: u32, sequence: u64, latency_ns: u64) {
        let seen = self.seen.entry((publisher, sequence)).or_default();
        seen.receivers += 1;
        seen.slowest_ns = seen.slowest_ns.max(latency_ns);
    }

    /// Hands over, and records the messages that all clients have.
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
