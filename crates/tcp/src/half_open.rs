//! Openings of peers that are not complete: SYN has come, and the answer is not acknowledged.
//!
//! Such an opening costs an entry, not a line, so that a flood of SYN does not touch connections.
//! Beyond the bound the answer carries the entry instead: its sequence number is a *cookie* (RFC
//! 4987, 3.6), and the peer's acknowledgement brings it back. The number has 2 bits for the segment
//! size, 4 for the window scale, 1 for selective acknowledgements, 2 for the time and 23 of a keyed
//! hash. Cookies are not the rule, because 23 bits are easier to guess than 32.

use crate::flow::Flow;
use crate::seq::Seq;
use crate::table::Table;
use crate::time::{Time, has_come};
use std::collections::VecDeque;
use stdx::hash::{Seed, keyed};
use stdx::slab::Slab;

/// The answer is sent again after 1, 2, 4, 8 and 16 seconds, and given up after 32.
const TRIES: usize = 6;
/// Segment sizes that a cookie can name.
const COOKIE_SIZES: [u16; 4] = [536, 1220, 1400, 1460];
/// A cookie is good for one to two of these periods.
const COOKIE_PERIOD_S: u64 = 64;
const NO_SCALE: u8 = 15;

/// The content of a peer's SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Opening {
    /// The peer's first sequence number.
    pub irs: Seq,
    /// Ours.
    pub iss: Seq,
    /// The greatest payload to the peer, in bytes.
    pub mss: u16,
    /// The shift of the peer's windows.
    pub scale: Option<u8>,
    /// Whether the peer understands selective acknowledgements.
    pub has_sack: bool,
    /// The next hop to the peer.
    pub hop: u8,
    /// The listener.
    pub listener: u8,
}

#[derive(Debug)]
pub(crate) struct HalfOpen {
    pub flow: Flow,
    pub opening: Opening,
    hash: u64,
    /// Tells entries of one place apart.
    stamp: u32,
}

/// The half-open connections of a shard.
#[derive(Debug)]
pub(crate) struct HalfOpens {
    entries: Slab<HalfOpen>,
    table: Table,
    /// The times of the next answers, a queue for each number of answers sent.
    queues: [VecDeque<(u32, u32, u32)>; TRIES],
    stamp: u32,
    max: u32,
    seed: Seed,
    /// The period of the last cookie.
    cookie_sent: Option<u64>,
}

impl HalfOpens {
    pub fn new(max: u32, seed: Seed) -> HalfOpens {
        HalfOpens {
            entries: Slab::new(),
            table: Table::new(4),
            queues: Default::default(),
            stamp: 0,
            max,
            seed,
            cookie_sent: None,
        }
    }

    pub fn count(&self) -> usize {
        self.entries.len()
    }

    pub fn is_full(&self) -> bool {
        self.entries.len() >= self.max as usize
    }

    pub fn find(&self, flow: &Flow, hash: u64) -> Option<(u32, &HalfOpen)> {
        let place = self.table.find(hash, |place| self.entries[place].flow == *flow)?;
        Some((place, &self.entries[place]))
    }

    /// An entry's flow and opening.
    pub fn at(&self, place: u32) -> Option<(Flow, Opening)> {
        self.entries.get(place).map(|entry| (entry.flow, entry.opening))
    }

    /// Adds an entry, whose answer was sent just now.
    pub fn insert(&mut self, now: Time, flow: Flow, hash: u64, opening: Opening) {
        self.stamp = self.stamp.wrapping_add(1);
        let entry = HalfOpen { flow, opening, hash, stamp: self.stamp };
        let place = self.entries.insert(entry);
        self.table.insert(hash, place);
        self.queues[0].push_back((now.ms().wrapping_add(1_000), place, self.stamp));
    }

    pub fn remove(&mut self, place: u32) -> Option<HalfOpen> {
        let entry = self.entries.remove(place)?;
        self.table.remove(entry.hash, place);
        Some(entry)
    }

    /// Takes the next opening whose answer is due again. Those that were answered often enough are
    /// dropped.
    pub fn due(&mut self, now: Time) -> Option<(Flow, Opening)> {
        for tries in 0..TRIES {
            while let Some(&(at_ms, place, stamp)) = self.queues[tries].front() {
                if !has_come(now.ms(), at_ms) {
                    break;
                }
                self.queues[tries].pop_front();
                let Some(entry) = self.entries.get(place).filter(|entry| entry.stamp == stamp)
                else {
                    continue;
                };
                if tries + 1 == TRIES {
                    self.remove(place);
                    continue;
                }
                let wait_ms = 1_000 << (tries + 1);
                let result = (entry.flow, entry.opening);
                self.queues[tries + 1].push_back((now.ms().wrapping_add(wait_ms), place, stamp));
                return Some(result);
            }
        }
        None
    }

    /// The first moment at which an answer is due again, in milliseconds; entries that are gone may
    /// make it earlier.
    pub fn next_ms(&self) -> Option<u32> {
        let fronts = self.queues.iter().filter_map(|queue| queue.front());
        fronts.map(|(at_ms, ..)| *at_ms).reduce(|a, b| if has_come(a, b) { b } else { a })
    }

    /// The sequence number that carries an opening.
    pub fn cookie(&mut self, now: Time, flow: &Flow, opening: &Opening) -> Seq {
        let period = period(now);
        self.cookie_sent = Some(period);
        let size = COOKIE_SIZES.iter().rposition(|size| *size <= opening.mss).unwrap_or(0) as u32;
        let scale = u32::from(opening.scale.unwrap_or(NO_SCALE));
        let low = size << 7 | scale << 3 | u32::from(opening.has_sack) << 2 | (period as u32 & 3);
        Seq(self.mac(flow, opening.irs, period, low) << 9 | low)
    }

    /// Whether a cookie may still come back.
    pub fn has_cookies(&self, now: Time) -> bool {
        self.cookie_sent.is_some_and(|sent| period(now) <= sent + 1)
    }

    /// The opening that an acknowledged cookie carries. None if it is not one of ours, or is too
    /// old. The listener and the hop are the caller's to set.
    pub fn of_cookie(&self, now: Time, flow: &Flow, irs: Seq, iss: Seq) -> Option<Opening> {
        if !self.has_cookies(now) {
            return None;
        }
        let now = period(now);
        let low = iss.0 & 0x1ff;
        let period = [now, now.wrapping_sub(1)].into_iter().find(|at| *at as u32 & 3 == low & 3)?;
        if self.mac(flow, irs, period, low) != iss.0 >> 9 {
            return None;
        }
        let scale = (low >> 3 & 15) as u8;
        Some(Opening {
            irs,
            iss,
            mss: COOKIE_SIZES[(low >> 7 & 3) as usize],
            scale: (scale != NO_SCALE).then_some(scale),
            has_sack: low & 4 != 0,
            hop: 0,
            listener: 0,
        })
    }

    /// 23 bits that only we can compute.
    fn mac(&self, flow: &Flow, irs: Seq, period: u64, low: u32) -> u32 {
        let mut bytes = [0; 32 + 16];
        let mut head = [0; 32];
        let length = flow.bytes(&mut head);
        bytes[..32].copy_from_slice(&head);
        bytes[length..length + 4].copy_from_slice(&irs.0.to_be_bytes());
        bytes[32..40].copy_from_slice(&period.to_be_bytes());
        bytes[40..44].copy_from_slice(&low.to_be_bytes());
        (keyed(self.seed, &bytes) >> 41) as u32
    }

    /// Bytes in use.
    pub fn memory_bytes(&self) -> usize {
        let queues: usize = self.queues.iter().map(VecDeque::capacity).sum();
        self.entries.memory_bytes() + self.table.memory_bytes() + queues * 12
    }
}

fn period(now: Time) -> u64 {
    now.0 / (COOKIE_PERIOD_S * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(port: u16) -> Flow {
        let peer = "192.0.2.1".parse().unwrap();
        Flow { peer, peer_port: port, local_port: 80, local: 0 }
    }

    fn opening(mss: u16, scale: Option<u8>, has_sack: bool) -> Opening {
        Opening { irs: Seq(77), iss: Seq(0), mss, scale, has_sack, hop: 0, listener: 0 }
    }

    const SECOND: u64 = 1_000_000;

    #[test]
    fn a_cookie_carries_the_opening() {
        let mut half_opens = HalfOpens::new(1, Seed(1, 2));
        let start = Time(1_000 * SECOND);
        for mss in COOKIE_SIZES {
            for scale in [None, Some(0), Some(7), Some(14)] {
                for has_sack in [false, true] {
                    let opening = opening(mss, scale, has_sack);
                    let iss = half_opens.cookie(start, &flow(5), &opening);
                    let read =
                        |now, flow: &Flow, irs, iss| half_opens.of_cookie(now, flow, Seq(irs), iss);
                    let expected = Some(Opening { iss, ..opening });
                    assert_eq!(read(start, &flow(5), 77, iss), expected);
                    assert_eq!(read(Time(start.0 + 64 * SECOND), &flow(5), 77, iss), expected);
                    assert_eq!(read(Time(start.0 + 128 * SECOND), &flow(5), 77, iss), None);
                    assert_eq!(read(start, &flow(6), 77, iss), None);
                    assert_eq!(read(start, &flow(5), 78, iss), None);
                    assert_eq!(read(start, &flow(5), 77, iss + (1 << 9)), None);
                }
            }
        }
        let odd = half_opens.cookie(start, &flow(5), &opening(1399, None, false));
        assert_eq!(half_opens.of_cookie(start, &flow(5), Seq(77), odd).unwrap().mss, 1220);
        let never = HalfOpens::new(1, Seed(1, 2));
        assert_eq!(never.of_cookie(start, &flow(5), Seq(77), odd), None);
    }

    #[test]
    fn answers_are_repeated_and_given_up() {
        let mut half_opens = HalfOpens::new(10, Seed(1, 2));
        let hash = |port| flow(port).hash(Seed(3, 4));
        half_opens.insert(Time(0), flow(1), hash(1), opening(536, None, true));
        half_opens.insert(Time(0), flow(2), hash(2), opening(536, None, true));
        let (place, _) = half_opens.find(&flow(2), hash(2)).unwrap();
        assert!(half_opens.remove(place).is_some() && half_opens.remove(place).is_none());
        let mut repeated = Vec::new();
        for ms in 0..70_000 {
            while let Some((due, _)) = half_opens.due(Time(ms * 1000)) {
                repeated.push((ms, due.peer_port));
            }
        }
        assert_eq!(repeated, [(1000, 1), (3000, 1), (7000, 1), (15_000, 1), (31_000, 1)]);
        assert_eq!((half_opens.count(), half_opens.next_ms()), (0, None));
    }
}
