//! Deadlines of handshakes. All take equally long, so they wait in the order in which they were
//! set; where a reload has made their time shorter, a deadline behind a longer one comes with it.
//!
//! Invariant: a deadline that finds its connection gone or moved on does nothing.

use std::collections::VecDeque;
use stdx::handing::Hand;
use stdx::key::Key;
use stdx::memory::vector_bytes;

/// The kind of a fast deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub(crate) enum Deadline {
    /// The first request's head must have arrived.
    Head(Key),
    /// The first frame of a native session must have arrived.
    Hello(Key),
}

/// Deadlines of handshakes, the first one first. None is taken out before it comes: its connection
/// tells then.
#[derive(Default, Hand)]
pub(crate) struct Handshakes {
    /// With the low half of the monotonic clock's milliseconds: each entry is there for ten seconds
    /// for every connection that comes.
    pending: VecDeque<(u32, Deadline)>,
}

impl Handshakes {
    /// Comes at `at_ms`, but not before any that was set.
    pub fn set(&mut self, at_ms: u64, deadline: Deadline) {
        let mut at_ms = at_ms as u32;
        if let Some((last_ms, _)) = self.pending.back()
            && (at_ms.wrapping_sub(*last_ms) as i32) < 0
        {
            at_ms = *last_ms;
        }
        self.pending.push_back((at_ms, deadline));
    }

    /// The time of the first deadline; milliseconds of the monotonic clock.
    pub fn next_ms(&self, now_ms: u64) -> Option<u64> {
        let (at_ms, _) = self.pending.front()?;
        let ahead_ms = at_ms.wrapping_sub(now_ms as u32) as i32;
        Some(now_ms.saturating_add_signed(ahead_ms.into()))
    }

    pub fn take_due(&mut self, now_ms: u64) -> Option<Deadline> {
        if self.next_ms(now_ms)? > now_ms {
            return None;
        }
        let (_, deadline) = self.pending.pop_front()?;
        if self.pending.is_empty() {
            // The memory that a storm needed is released.
            self.pending = VecDeque::new();
        }
        Some(deadline)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        vector_bytes::<(u32, Deadline)>(self.pending.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the low half of the clock is kept, which begins anew every 49 days.
    #[test]
    fn handshakes_come_in_order_where_the_low_half_of_the_clock_begins_anew() {
        let key = |index| Key { index, generation: 1 };
        let turn_ms = u64::from(u32::MAX) + 1;
        let mut handshakes = Handshakes::default();
        for (index, at_ms) in (0..).zip([turn_ms - 5, turn_ms, turn_ms + 5]) {
            handshakes.set(at_ms, Deadline::Head(key(index)));
        }
        assert_eq!(handshakes.next_ms(turn_ms - 10_000), Some(turn_ms - 5));
        assert_eq!(handshakes.take_due(turn_ms - 6), None);
        let due = [turn_ms - 5, turn_ms + 1, turn_ms + 5].map(|now_ms| handshakes.take_due(now_ms));
        let expected = [0, 1, 2].map(|index| Some(Deadline::Head(key(index))));
        assert_eq!(due, expected);
        assert_eq!(handshakes.next_ms(turn_ms + 5), None);
        assert_eq!(handshakes.memory_bytes(), 0);
    }

    /// A reload may shorten the handshake timeout.
    #[test]
    fn a_shorter_handshake_waits_for_the_longer_one_before_it() {
        let key = |index| Key { index, generation: 1 };
        let turn_ms = u64::from(u32::MAX) + 1;
        let mut handshakes = Handshakes::default();
        for (index, at_ms) in (0..).zip([turn_ms + 5, turn_ms - 5, turn_ms + 6]) {
            handshakes.set(at_ms, Deadline::Head(key(index)));
        }
        assert_eq!(handshakes.take_due(turn_ms + 4), None);
        let due = [5, 5, 5, 6].map(|ms| handshakes.take_due(turn_ms + ms));
        let expected = [Some(0), Some(1), None, Some(2)];
        assert_eq!(due, expected.map(|index| index.map(|index| Deadline::Head(key(index)))));
    }
}
