//! The counters of nodes' runs in a window: a counter that does not rise is a copy.

use std::collections::{BTreeMap, VecDeque};
use stdx::handing::Hand;
use stdx::memory::{tree_bytes, vector_bytes};

/// The greatest counters of runs.
#[derive(Debug, Default, Hand)]
pub(super) struct Runs {
    /// Counters of each run, with numbers: the greatest, then the greatest behind that, and so on.
    counters: BTreeMap<u64, VecDeque<(u64, u64)>>,
    /// Runs by the number of their last record.
    by_age: BTreeMap<u64, u64>,
}

/// Counters of one run that are kept; more of them fall in a row only if a producer forges them.
const FALLING_MAX: usize = 64;

impl Runs {
    /// Notes a counter. True if it is above all of its run in the window.
    pub fn note(
        &mut self,
        run: u64,
        counter: u64,
        number: u64,
        horizon: u64,
        runs_max: usize,
    ) -> bool {
        let counters = self.counters.entry(run).or_default();
        if let Some((_, last)) = counters.back() {
            self.by_age.remove(last);
        }
        while counters.front().is_some_and(|(_, number)| *number < horizon) {
            counters.pop_front();
        }
        let is_new = counters.front().is_none_or(|(greatest, _)| *greatest < counter);
        while counters.back().is_some_and(|(least, _)| *least <= counter) {
            counters.pop_back();
        }
        if counters.len() >= FALLING_MAX {
            counters.pop_back();
        }
        counters.push_back((counter, number));
        self.by_age.insert(number, run);
        while let Some((&oldest, &run)) = self.by_age.first_key_value()
            && (oldest < horizon || self.by_age.len() > runs_max)
        {
            self.by_age.remove(&oldest);
            self.counters.remove(&run);
        }
        is_new
    }

    pub fn allocated_bytes(&self) -> usize {
        let counters = |it: &VecDeque<(u64, u64)>| vector_bytes::<(u64, u64)>(it.capacity());
        tree_bytes(self.counters.len(), size_of::<(u64, VecDeque<(u64, u64)>)>())
            + tree_bytes(self.by_age.len(), size_of::<(u64, u64)>())
            + self.counters.values().map(counters).sum::<usize>()
    }

    /// Runs that are known.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        assert_eq!(self.counters.len(), self.by_age.len());
        self.counters.len()
    }
}
