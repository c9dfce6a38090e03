//! The timers of active blocks: a wheel of slots of a millisecond.
//!
//! A timer that is set again, which every acknowledgement does, costs a few writes to hot memory. A
//! deadline beyond one turn of the wheel stays in its slot until its turn has come.

use crate::active::{Actives, NONE};
use crate::time::has_come;

const SLOTS: u32 = 4096;

/// The wheel. Owned by one shard.
#[derive(Debug)]
pub(crate) struct Wheel {
    slots: Vec<u32>,
    /// A bit for each slot that is not empty.
    used: [u64; (SLOTS / 64) as usize],
    /// Slots of moments before this one are empty.
    now_ms: u32,
    count: u32,
}

impl Wheel {
    pub fn new(now_ms: u32) -> Wheel {
        Wheel { slots: vec![NONE; SLOTS as usize], used: [0; 64], now_ms, count: 0 }
    }

    /// Sets the deadline of a block, at the earliest the next millisecond.
    pub fn set(&mut self, actives: &mut Actives, id: u32, deadline_ms: u32) {
        self.cancel(actives, id);
        let deadline_ms = if has_come(self.now_ms, deadline_ms) {
            self.now_ms.wrapping_add(1)
        } else {
            deadline_ms
        };
        let slot = (deadline_ms % SLOTS) as usize;
        let first = self.slots[slot];
        if first != NONE {
            actives[first].wheel_previous = id;
        }
        let block = &mut actives[id];
        block.deadline_ms = deadline_ms;
        block.wheel_previous = NONE;
        block.wheel_next = first;
        block.is_in_wheel = true;
        self.slots[slot] = id;
        self.used[slot / 64] |= 1 << (slot % 64);
        self.count += 1;
    }

    /// Removes a block, if it is there.
    pub fn cancel(&mut self, actives: &mut Actives, id: u32) {
        let block = &mut actives[id];
        if !block.is_in_wheel {
            return;
        }
        block.is_in_wheel = false;
        let (previous, next) = (block.wheel_previous, block.wheel_next);
        let slot = (block.deadline_ms % SLOTS) as usize;
        if next != NONE {
            actives[next].wheel_previous = previous;
        }
        if previous == NONE {
            self.slots[slot] = next;
            if next == NONE {
                self.used[slot / 64] &= !(1 << (slot % 64));
            }
        } else {
            actives[previous].wheel_next = next;
        }
        self.count -= 1;
    }

    /// Takes the blocks whose deadlines have come.
    pub fn expire(&mut self, actives: &mut Actives, now_ms: u32, expired: &mut Vec<u32>) {
        if !has_come(now_ms, self.now_ms) {
            return;
        }
        let ticks = now_ms.wrapping_sub(self.now_ms).min(SLOTS);
        let from = self.now_ms;
        // The time moves before the slots: a timer that is set meanwhile is later than now.
        self.now_ms = now_ms;
        if self.count == 0 {
            return;
        }
        for tick in 1..=ticks {
            let slot = (from.wrapping_add(tick) % SLOTS) as usize;
            if self.used[slot / 64] & 1 << (slot % 64) == 0 {
                continue;
            }
            let mut id = self.slots[slot];
            while id != NONE {
                let next = actives[id].wheel_next;
                if has_come(now_ms, actives[id].deadline_ms) {
                    self.cancel(actives, id);
                    expired.push(id);
                }
                id = next;
            }
        }
    }

    /// A moment before which no deadline comes; None without timers.
    pub fn next_ms(&self) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        let first = self.now_ms.wrapping_add(1);
        let start = (first % SLOTS) as usize;
        // The word of the first slot twice: its upper bits first, its lower bits last.
        for step in 0..=self.used.len() {
            let word = (start / 64 + step) % self.used.len();
            let mut bits = self.used[word];
            if step == 0 {
                bits &= u64::MAX << (start % 64);
            }
            if bits != 0 {
                let slot = (word * 64) as u32 + bits.trailing_zeros();
                return Some(first.wrapping_add(slot.wrapping_sub(first) % SLOTS));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seq::Seq;
    use std::collections::BTreeMap;
    use stdx::prng::Prng;

    #[test]
    fn the_wheel_agrees_with_a_map() {
        for seed in 0..20 {
            let mut prng = Prng::new(seed);
            let start = u32::MAX - 3000;
            let (mut actives, mut wheel) = (Actives::default(), Wheel::new(start));
            let ids: Vec<u32> = (0..200).map(|line| actives.insert(line, Seq(0), 0)).collect();
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            let mut now = 0_u32;
            while now < 40_000 {
                let id = ids[prng.below(200) as usize];
                if prng.chance(0.7) {
                    let is_far = prng.chance(0.1);
                    let deadline = now + prng.below(if is_far { 20_000 } else { 500 }) as u32;
                    wheel.set(&mut actives, id, start.wrapping_add(deadline));
                    model.insert(id, deadline.max(now + 1));
                } else {
                    wheel.cancel(&mut actives, id);
                    model.remove(&id);
                }
                if prng.chance(0.3) {
                    let first = model.values().min();
                    let next = wheel.next_ms().map(|next| next.wrapping_sub(start));
                    assert_eq!(first.is_some(), next.is_some());
                    assert!(next <= first.copied() && next.is_none_or(|next| next > now));
                    let is_long = prng.chance(0.1);
                    now += prng.below(if is_long { 6000 } else { 40 }) as u32;
                    let mut expired = Vec::new();
                    wheel.expire(&mut actives, start.wrapping_add(now), &mut expired);
                    expired.sort_unstable();
                    let due: Vec<u32> =
                        model.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id).collect();
                    assert_eq!(expired, due);
                    model.retain(|_, at| *at > now);
                }
                assert_eq!(wheel.count as usize, model.len());
            }
        }
    }
}
