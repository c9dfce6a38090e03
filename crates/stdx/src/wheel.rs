//! A timer wheel for deadlines of milliseconds to minutes: handshakes, conflation, rates, long polls.
//!
//! Slow deadlines of every connection (ping, expiry) do not belong here: they are swept. A deadline is not
//! cancelled; when it comes, the caller looks whether what it named is still there and still wants it (a
//! [`Key`](crate::key::Key) in `T` tells), and inserts again if it has moved. Memory: `size_of::<T>() + 8`
//! bytes per pending deadline plus the slack of a growing list, 2 KiB per level in use (three for deadlines
//! within four minutes); a slot's list goes when its time has come.
//!
//! Hierarchical, 64 slots to a level, one millisecond the finest: a deadline waits at the level of the highest
//! base-64 digit in which it differs from the wheel's time, and moves down as time reaches its slot. It is
//! touched once per level, at most eleven times.

use crate::memory::vector_bytes;

/// Slots of a level: one base-64 digit.
const SLOTS: usize = 64;
const DIGIT_BITS: u32 = SLOTS.trailing_zeros();

/// Pending deadlines with a `T` each. Owned by one shard.
#[derive(Debug)]
pub struct Wheel<T> {
    levels: Vec<Level<T>>,
    /// Everything before has expired. Never goes back.
    now_ms: u64,
    len: usize,
}

#[derive(Debug)]
struct Level<T> {
    /// Bit i: slot i has entries.
    occupied: u64,
    slots: Box<[Slot<T>]>,
}

#[derive(Debug)]
struct Slot<T> {
    earliest_ms: u64,
    entries: Vec<(u64, T)>,
}

impl<T> Wheel<T> {
    /// An empty wheel whose time is `now_ms`; allocates nothing.
    pub const fn new(now_ms: u64) -> Wheel<T> {
        Wheel {
            levels: Vec::new(),
            now_ms,
            len: 0,
        }
    }

    /// Adds a deadline, in milliseconds of the clock that `expire` is given. One that has passed already
    /// expires at the next call.
    pub fn insert(&mut self, deadline_ms: u64, value: T) {
        self.len += 1;
        self.place(deadline_ms, value);
    }

    /// Moves to `expired` everything whose deadline is at or before `now_ms`, by deadline, equal deadlines in
    /// the order of insertion. A clock that goes back is taken as standing still.
    pub fn expire(&mut self, now_ms: u64, expired: &mut Vec<T>) {
        let now_ms = now_ms.max(self.now_ms);
        while let Some((level, slot)) = self.first_slot() {
            let start_ms = self.slot_start_ms(level, slot);
            if start_ms > now_ms {
                break;
            }
            self.now_ms = start_ms;
            let taken = self.levels[level].take(slot);
            if level == 0 {
                self.len -= taken.len();
                expired.extend(taken.into_iter().map(|(_, value)| value));
            } else {
                for (deadline_ms, value) in taken {
                    self.place(deadline_ms, value);
                }
            }
        }
        self.now_ms = now_ms;
    }

    /// The earliest pending deadline.
    pub fn next_deadline(&self) -> Option<u64> {
        let (level, slot) = self.first_slot()?;
        Some(self.levels[level].slots[slot].earliest_ms)
    }

    /// Pending deadlines.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of its levels and of the lists in them.
    pub fn memory_bytes(&self) -> usize {
        let slots = self.levels.iter().flat_map(|level| &level.slots);
        let lists: usize = slots
            .map(|slot| size_of::<Slot<T>>() + vector_bytes::<(u64, T)>(slot.entries.capacity()))
            .sum();
        lists + vector_bytes::<Level<T>>(self.levels.capacity())
    }

    /// What has passed already waits in the slot of the present millisecond.
    fn place(&mut self, deadline_ms: u64, value: T) {
        let due_ms = deadline_ms.max(self.now_ms);
        let highest_bit = (due_ms ^ self.now_ms).checked_ilog2().unwrap_or(0);
        let level = (highest_bit / DIGIT_BITS) as usize;
        while self.levels.len() <= level {
            self.levels.push(Level::new());
        }
        self.levels[level].put(digit(due_ms, level), deadline_ms, value);
    }

    /// The slot whose time comes first. Entries of a level share all higher digits with the wheel's time, so
    /// those of lower levels come before, and no occupied slot lies behind the time.
    fn first_slot(&self) -> Option<(usize, usize)> {
        let level = self.levels.iter().position(|level| level.occupied != 0)?;
        Some((level, self.levels[level].occupied.trailing_zeros() as usize))
    }

    /// The wheel's time with the level's digit replaced by `slot` and lower digits by 0.
    fn slot_start_ms(&self, level: usize, slot: usize) -> u64 {
        let shift = DIGIT_BITS * level as u32;
        let above = self.now_ms.checked_shr(shift + DIGIT_BITS).unwrap_or(0);
        (above.checked_shl(shift + DIGIT_BITS).unwrap_or(0)) | ((slot as u64) << shift)
    }
}

fn digit(time_ms: u64, level: usize) -> usize {
    (time_ms >> (DIGIT_BITS * level as u32)) as usize % SLOTS
}

impl<T> Level<T> {
    fn new() -> Level<T> {
        let slots = (0..SLOTS).map(|_| Slot {
            earliest_ms: u64::MAX,
            entries: Vec::new(),
        });
        Level {
            occupied: 0,
            slots: slots.collect(),
        }
    }

    fn put(&mut self, slot: usize, deadline_ms: u64, value: T) {
        self.occupied |= 1 << slot;
        let slot = &mut self.slots[slot];
        slot.earliest_ms = slot.earliest_ms.min(deadline_ms);
        slot.entries.push((deadline_ms, value));
    }

    fn take(&mut self, slot: usize) -> Vec<(u64, T)> {
        self.occupied &= !(1 << slot);
        let slot = &mut self.slots[slot];
        slot.earliest_ms = u64::MAX;
        std::mem::take(&mut slot.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;

    fn check(start_ms: u64, deadlines: &[u64], now_ms: u64, expected: &[u64], next: Option<u64>) {
        let mut wheel = Wheel::new(start_ms);
        for deadline in deadlines {
            wheel.insert(*deadline, *deadline);
        }
        let mut expired = Vec::new();
        wheel.expire(now_ms, &mut expired);
        assert_eq!((&expired[..], wheel.next_deadline()), (expected, next));
        assert_eq!(wheel.len(), deadlines.len() - expected.len());
    }

    #[test]
    fn expires_what_is_due() {
        check(0, &[], 100, &[], None);
        check(0, &[5, 3, 5], 4, &[3], Some(5));
        check(0, &[5, 3, 5], 5, &[3, 5, 5], None);
        check(100, &[7, 100, 101], 100, &[7, 100], Some(101));
        check(
            63,
            &[64, 4_095, 4_096, 262_144],
            4_095,
            &[64, 4_095],
            Some(4_096),
        );
        check(0, &[u64::MAX, 1 << 40, 1], 1 << 39, &[1], Some(1 << 40));
        check(0, &[u64::MAX], u64::MAX, &[u64::MAX], None);
        check(u64::MAX, &[0, u64::MAX], 0, &[0, u64::MAX], None);
        check(
            1_700_000_000_000,
            &[1_700_000_010_000],
            1_700_000_009_999,
            &[],
            Some(1_700_000_010_000),
        );
    }

    /// Against a list sorted by (deadline, insertion); late insertions count as due at the wheel's time.
    #[test]
    fn agrees_with_a_sorted_list() {
        for seed in 0..20 {
            let mut prng = Prng::new(seed);
            let mut now_ms = prng.below(1 << 42);
            let mut wheel = Wheel::new(now_ms);
            let mut list: Vec<(u64, u64, u32)> = Vec::new();
            for id in 0..3_000u32 {
                let ahead_bits = prng.below(24);
                let deadline = now_ms.saturating_sub(5) + prng.below(1 << ahead_bits);
                wheel.insert(deadline, id);
                list.push((deadline.max(now_ms), deadline, id));
                if prng.chance(0.2) {
                    let step_bits = prng.below(16);
                    now_ms += prng.below(1 << step_bits);
                    let mut expired = Vec::new();
                    wheel.expire(now_ms, &mut expired);
                    list.sort_by_key(|(due, _, id)| (*due, *id));
                    let rest = list.split_off(list.partition_point(|(due, _, _)| *due <= now_ms));
                    assert!(
                        expired.iter().eq(list.iter().map(|(_, _, id)| id)),
                        "seed {seed}"
                    );
                    list = rest;
                }
                let earliest = list.iter().map(|(_, deadline, _)| *deadline).min();
                assert_eq!((wheel.next_deadline(), wheel.len()), (earliest, list.len()));
            }
        }
    }

    #[test]
    fn a_slot_keeps_no_memory() {
        let mut wheel = Wheel::new(0);
        for id in 0..10_000u64 {
            wheel.insert(id % 300_000, id);
        }
        wheel.expire(300_000, &mut Vec::new());
        let slots = wheel.levels.iter().flat_map(|level| level.slots.iter());
        assert_eq!(slots.map(|slot| slot.entries.capacity()).sum::<usize>(), 0);
    }
}
