//! The order and the pace in which all connections are examined for slow deadlines.
//!
//! Connections that came together lie together, and are due together: examined in their order, they
//! would get tens of thousands of pings in one turn, and everything else would wait. So a sweep
//! goes in short steps, and takes blocks of neighbours (for the cache's sake) from everywhere (by
//! their numbers with the bits reversed): deadlines are spread over the whole round.
//!
//! A round is as long as deadlines allow to be late ([`Pace`]): looking at a million connections
//! that are pinged every five minutes takes more processor time than their pings when it is done
//! every four seconds.

use std::ops::Range;
use stdx::handing::Hand;

/// The time of a round through all connections, in milliseconds; a second if there are few.
const ROUND_MS: Range<u64> = 4_000..16_000;
/// A deadline may be late by this part of its interval.
const LATE_PART: u64 = 8;
/// Deadlines that one step is to bring together, where all have the shortest interval: who is woken
/// to answer one answers several, and so is the thread that reads the answers.
const STEP_DUE: u64 = 128;
/// Minimum blocks per second: a round of few connections is shorter.
const BLOCKS_PER_S_MIN: u64 = 64;
/// Neighbours that are examined together.
const BLOCK: u32 = 64;
/// The number of blocks in a step, if that makes it neither shorter nor longer than `STEP_MS`.
const STEP_BLOCKS: u64 = 32;
const STEP_MS: Range<u64> = 10..1_000;
/// Maximum length of a longer step, in milliseconds: input meanwhile waits for its pings.
const STEP_DUE_MS_MAX: u64 = 50;

/// The pace of a sweep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The shortest interval between two deadlines of a connection, in milliseconds.
    interval_ms: u64,
}

impl Pace {
    /// The pace for connections with this shortest interval, in seconds; a longer interval gives a
    /// slower pace, down to a bound.
    pub fn of(interval_s: u32) -> Pace {
        Pace { interval_ms: u64::from(interval_s) * 1_000 }
    }

    fn round_ms(self) -> u64 {
        (self.interval_ms / LATE_PART).clamp(ROUND_MS.start, ROUND_MS.end)
    }

    fn step_ms(self, places: u32) -> u64 {
        let by_blocks = ROUND_MS.start * STEP_BLOCKS / blocks(places).max(1);
        let by_due = self.interval_ms * STEP_DUE / u64::from(places.max(1));
        by_blocks.max(by_due.min(STEP_DUE_MS_MAX)).clamp(STEP_MS.start, STEP_MS.end)
    }
}

/// The progress of a sweep.
#[derive(Hand)]
pub(crate) struct Sweep {
    swept_ms: u64,
    /// The next block of the round, before its bits are reversed.
    at: u32,
    /// The number of bits; the round has two to the power of it blocks, without those that do not
    /// exist.
    bits: u32,
}

impl Sweep {
    pub fn new(now_ms: u64) -> Sweep {
        Sweep { swept_ms: now_ms, at: 0, bits: 0 }
    }

    /// The time of the next step; milliseconds of the monotonic clock. `places` are the indexes in
    /// use, and more.
    pub fn next_ms(&self, places: u32, pace: Pace) -> u64 {
        self.swept_ms + pace.step_ms(places)
    }

    /// The number of blocks to examine now.
    pub fn begin(&mut self, now_ms: u64, places: u32, pace: Pace) -> u32 {
        let round_ms = pace.round_ms();
        let elapsed_ms = now_ms.saturating_sub(self.swept_ms).min(round_ms);
        if elapsed_ms < pace.step_ms(places) {
            return 0;
        }
        self.swept_ms = now_ms;
        let share = (blocks(places) * elapsed_ms).div_ceil(round_ms);
        let share_min = (BLOCKS_PER_S_MIN * elapsed_ms).div_ceil(1_000);
        share.max(share_min).min(blocks(places)) as u32
    }

    /// The indexes of the next block. What grows while a round is under way comes in the next one.
    pub fn next_block(&mut self, places: u32) -> Range<u32> {
        let blocks = blocks(places) as u32;
        loop {
            if self.at >> self.bits > 0 {
                self.at = 0;
            }
            if self.at == 0 {
                self.bits = blocks.next_power_of_two().trailing_zeros();
            }
            let block = reversed(self.at, self.bits);
            self.at += 1;
            if block < blocks {
                return block * BLOCK..places.min((block + 1) * BLOCK);
            }
            if blocks == 0 {
                return 0..0;
            }
        }
    }
}

fn blocks(places: u32) -> u64 {
    u64::from(places.div_ceil(BLOCK))
}

/// The lowest `bits` bits of `number` in the opposite order.
fn reversed(number: u32, bits: u32) -> u32 {
    number.reverse_bits().checked_shr(32 - bits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Pace = Pace { interval_ms: 0 };
    const SLOW: Pace = Pace { interval_ms: 300_000 };

    /// All indexes of one round, in steps as they are due.
    fn round(sweep: &mut Sweep, places: u32, pace: Pace, now_ms: &mut u64) -> Vec<Vec<u32>> {
        let end_ms = *now_ms + pace.round_ms();
        let mut steps = Vec::new();
        while *now_ms < end_ms {
            *now_ms = sweep.next_ms(places, pace);
            let count = sweep.begin(*now_ms, places, pace);
            steps.push((0..count).flat_map(|_| sweep.next_block(places)).collect());
        }
        steps
    }

    #[test]
    fn a_round_looks_at_everyone() {
        for pace in [FAST, SLOW] {
            for places in [1, 63, 64, 65, 1_000, 4_096, 100_000, 1_000_003] {
                let mut now_ms = 77;
                let mut sweep = Sweep::new(now_ms);
                for _ in 0..3 {
                    let mut seen: Vec<u32> = round(&mut sweep, places, pace, &mut now_ms).concat();
                    seen.sort_unstable();
                    seen.dedup();
                    assert_eq!(seen, (0..places).collect::<Vec<u32>>(), "{places} places");
                }
            }
        }
    }

    #[test]
    fn neighbours_are_spread_over_the_round() {
        let mut now_ms = 0;
        let steps = round(&mut Sweep::new(now_ms), 1_000_000, FAST, &mut now_ms);
        let of_those = |step: &Vec<u32>| {
            let together = |index: &&u32| (400_000..432_000).contains(*index);
            step.iter().filter(together).count()
        };
        let most = steps.iter().map(of_those).max().unwrap_or(0);
        let even = 32_000 / steps.len();
        assert!(most <= 3 * even, "{most} in one step, where {even} would be even");
    }

    #[test]
    fn new_connections_are_swept_within_two_rounds() {
        let mut now_ms = 0;
        let mut sweep = Sweep::new(now_ms);
        let mut seen = std::collections::BTreeSet::new();
        for places in [0, 100, 5_000, 5_001, 70_000, 70_000] {
            seen.extend(round(&mut sweep, places, FAST, &mut now_ms).concat());
        }
        assert!((0..70_000).all(|index| seen.contains(&index)));
    }

    #[test]
    fn a_late_turn_does_not_do_more_than_a_round() {
        let mut sweep = Sweep::new(0);
        assert_eq!(sweep.begin(3_600_000, 6_400, FAST), 100);
        assert_eq!(sweep.begin(3_600_001, 6_400, FAST), 0);
    }

    #[test]
    fn a_slow_pace_brings_some_deadlines_together_and_delays_none_for_long() {
        let of = |interval_s, places| {
            let pace = Pace::of(interval_s);
            (pace.round_ms(), pace.step_ms(places))
        };
        assert_eq!(of(300, 1_000_000), (16_000, 38));
        assert_eq!(of(60, 1_000_000), (7_500, 10));
        assert_eq!(of(5, 1_000_000), (4_000, 10));
        assert_eq!(of(0, 1_000_000), (4_000, 10));
        assert_eq!(of(300, 10), (16_000, 1_000));
        assert_eq!(of(3_600, 10_000_000), (16_000, 46));
    }
}
