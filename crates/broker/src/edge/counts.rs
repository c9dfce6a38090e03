//! Counters by place, of a table whose places are known when it is compiled.

use stdx::handing::{Hand, Input, Layout};

/// Numbers by place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counts<const N: usize>([u64; N]);

impl<const N: usize> Counts<N> {
    pub(crate) fn count(&mut self, place: usize) {
        if let Some(number) = self.0.get_mut(place) {
            *number += 1;
        }
    }

    /// The number of a place.
    pub fn of(&self, place: usize) -> u64 {
        self.0.get(place).copied().unwrap_or(0)
    }

    /// All numbers, in order.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.0.into_iter()
    }
}

impl<const N: usize> Hand for Counts<N> {
    fn give(&self, out: &mut Vec<u8>) {
        self.0.give(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        Hand::take(input).map(Counts)
    }

    fn layout(layout: &mut Layout) {
        layout.name("Counts");
        <[u64; N]>::layout(layout);
    }
}

impl<const N: usize> Default for Counts<N> {
    fn default() -> Self {
        Counts([0; N])
    }
}

impl<const N: usize> std::ops::AddAssign for Counts<N> {
    fn add_assign(&mut self, other: Counts<N>) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own += other;
        }
    }
}
