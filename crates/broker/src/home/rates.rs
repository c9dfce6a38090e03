//! Rates of topics: messages in a second, where a rule bounds them.
//!
//! Place on the path: a publication under such a rule is asked about when nothing else speaks
//! against it; others cost nothing here. A topic's bucket is one number, the moment from which it
//! is full, and is kept only until then: a second after its last message a topic owns nothing.
//!
//! Invariants: in any second and a bit, a topic takes at most twice its rate, a second's worth of
//! it at once; each publication examines more buckets to be freed than it makes, so that there are
//! never many more than topics were published to within a second.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::Bound::{Excluded, Unbounded};
use stdx::handing::Hand;
use stdx::hash::{Seed, keyed};
use stdx::memory::tree_bytes;

const SECOND_NS: u64 = 1_000_000_000;
const MS_NS: u64 = 1_000_000;
/// Buckets examined with each publication, and in each turn.
const SWEEP_TAKE: usize = 2;
const SWEEP_TURN: usize = 64;

/// Buckets of topics that are not full.
#[derive(Debug, Hand)]
pub(super) struct Rates {
    /// Elapsed nanoseconds from which a bucket is full, by a secret hash of the topic's name.
    full_from_ns: BTreeMap<u64, u64>,
    /// The sweep continues behind it.
    swept: u64,
    seed: Seed,
}

impl Rates {
    /// An empty table. `seed` is the home's secret.
    pub fn new(seed: Seed) -> Rates {
        let derived = |place: &[u8]| keyed(seed, place);
        Rates {
            full_from_ns: BTreeMap::new(),
            swept: 0,
            seed: Seed(derived(b"rate 0"), derived(b"rate 1")),
        }
    }

    /// Takes one message of a topic out of its bucket; false if there is none left. `now_ms` are
    /// milliseconds of the home's clock. A rate that has changed counts from now on.
    pub fn take(&mut self, now_ms: u64, topic: &[u8], rate_max: NonZeroU32) -> bool {
        let now_ns = now_ms.saturating_mul(MS_NS);
        self.sweep_some(now_ns, SWEEP_TAKE);
        let place = keyed(self.seed, topic);
        let full_from_ns = self.full_from_ns.get(&place).copied().unwrap_or(0).max(now_ns);
        let taken_ns = full_from_ns + SECOND_NS / u64::from(rate_max.get());
        if taken_ns > now_ns + SECOND_NS {
            return false;
        }
        self.full_from_ns.insert(place, taken_ns);
        true
    }

    /// Frees some buckets that are full. Once in each turn.
    pub fn sweep(&mut self, now_ms: u64) {
        if !self.full_from_ns.is_empty() {
            self.sweep_some(now_ms.saturating_mul(MS_NS), SWEEP_TURN);
        }
    }

    /// Bytes touched, about.
    pub fn memory_bytes(&self) -> usize {
        tree_bytes(self.full_from_ns.len(), size_of::<(u64, u64)>())
    }

    fn sweep_some(&mut self, now_ns: u64, count: usize) {
        for _ in 0..count {
            let next = self.full_from_ns.range((Excluded(self.swept), Unbounded)).next();
            let Some((&place, &full_from_ns)) = next else {
                self.swept = 0;
                break;
            };
            self.swept = place;
            if full_from_ns <= now_ns {
                self.full_from_ns.remove(&place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(rates: &mut Rates, now_ms: u64, topic: &str, rate: u32, tries: u32) -> u32 {
        let rate = NonZeroU32::new(rate).unwrap();
        (0..tries).filter(|_| rates.take(now_ms, topic.as_bytes(), rate)).count() as u32
    }

    #[test]
    fn a_second_at_once_and_then_as_time_passes() {
        for rate in [1, 2, 3, 10, 1_000, 1_000_000] {
            let mut rates = Rates::new(Seed(1, 2));
            let now_ms = 5_000;
            let tries = 2 * rate + 5;
            assert_eq!(taken(&mut rates, now_ms, "a", rate, tries), rate);
            assert_eq!(taken(&mut rates, now_ms, "b", rate, 1), 1, "its own");
            assert_eq!(taken(&mut rates, now_ms + 1_000, "a", rate, tries), rate);
            let half = taken(&mut rates, now_ms + 1_500, "a", rate, tries);
            assert_eq!(half, rate / 2);
        }
    }

    #[test]
    fn a_refusal_costs_nothing() {
        let mut rates = Rates::new(Seed(1, 2));
        assert_eq!(taken(&mut rates, 0, "a", 4, 100), 4);
        assert_eq!(taken(&mut rates, 249, "a", 4, 100), 0);
        assert_eq!(taken(&mut rates, 250, "a", 4, 100), 1);
    }

    #[test]
    fn a_rate_that_changes_counts_at_once() {
        let mut rates = Rates::new(Seed(1, 2));
        assert_eq!(taken(&mut rates, 0, "a", 1, 2), 1);
        assert_eq!(taken(&mut rates, 500, "a", 100, 100), 50);
        assert_eq!(taken(&mut rates, 500, "a", 1, 1), 0);
    }

    #[test]
    fn full_buckets_are_freed() {
        let mut rates = Rates::new(Seed(1, 2));
        for topic in 0..1_000 {
            assert_eq!(taken(&mut rates, 0, &format!("t/{topic}"), 10, 1), 1);
        }
        assert!(rates.memory_bytes() >= 16_000);
        // By further publications alone, and then by turns.
        for _ in 0..600 {
            taken(&mut rates, 2_000, "one", 1_000_000, 1);
        }
        assert!(rates.full_from_ns.len() <= 2, "{}", rates.full_from_ns.len());
        for _ in 0..3 {
            rates.sweep(4_000);
        }
        assert_eq!(rates.memory_bytes(), 0);
    }
}
