//! Ended connections whose last segments may still be under way: TIME-WAIT (RFC 9293, 3.6.1).
//!
//! An entry answers the peer's repeated FIN, and keeps the flow from being used again for a minute,
//! but for a SYN that is clearly new. Beyond the bound the oldest entry ends early.

use crate::flow::Flow;
use crate::seq::Seq;
use crate::table::Table;
use crate::time::{Time, has_come};
use std::collections::VecDeque;
use stdx::slab::Slab;

/// Twice the maximum segment lifetime, as most systems take it.
const TIME_WAIT_MS: u32 = 60_000;

#[derive(Debug)]
pub(crate) struct TimeWait {
    pub flow: Flow,
    /// Our next sequence number.
    pub nxt: Seq,
    /// The peer's next one.
    pub rcv_nxt: Seq,
    hash: u64,
    stamp: u32,
}

/// The entries of a shard.
#[derive(Debug)]
pub(crate) struct TimeWaits {
    entries: Slab<TimeWait>,
    table: Table,
    /// In the order of their ends; an entry that was renewed is there more than once.
    queue: VecDeque<(u32, u32, u32)>,
    stamp: u32,
    max: u32,
}

impl TimeWaits {
    pub fn new(max: u32) -> TimeWaits {
        TimeWaits {
            entries: Slab::new(),
            table: Table::new(6),
            queue: VecDeque::new(),
            stamp: 0,
            max: max.max(1),
        }
    }

    pub fn count(&self) -> usize {
        self.entries.len()
    }

    pub fn find(&self, flow: &Flow, hash: u64) -> Option<(u32, &TimeWait)> {
        let place = self.table.find(hash, |place| self.entries[place].flow == *flow)?;
        Some((place, &self.entries[place]))
    }

    pub fn insert(&mut self, now: Time, flow: Flow, hash: u64, nxt: Seq, rcv_nxt: Seq) {
        while self.entries.len() >= self.max as usize {
            let Some((_, place, stamp)) = self.queue.pop_front() else { break };
            self.end(place, stamp);
        }
        let entry = TimeWait { flow, nxt, rcv_nxt, hash, stamp: 0 };
        let place = self.entries.insert(entry);
        self.table.insert(hash, place);
        self.renew(now, place);
    }

    /// The full time begins again, as the peer has repeated its FIN.
    pub fn renew(&mut self, now: Time, place: u32) {
        self.stamp = self.stamp.wrapping_add(1);
        let Some(entry) = self.entries.get_mut(place) else { return };
        entry.stamp = self.stamp;
        // A peer that repeats FIN in a storm must not fill the queue.
        if self.queue.len() >= 2 * self.max as usize
            && let Some((_, place, stamp)) = self.queue.pop_front()
        {
            self.end(place, stamp);
        }
        self.queue.push_back((now.ms().wrapping_add(TIME_WAIT_MS), place, self.stamp));
    }

    pub fn remove(&mut self, place: u32) {
        if let Some(entry) = self.entries.remove(place) {
            self.table.remove(entry.hash, place);
        }
    }

    fn end(&mut self, place: u32, stamp: u32) {
        if self.entries.get(place).is_some_and(|entry| entry.stamp == stamp) {
            self.remove(place);
        }
    }

    /// Ends those whose time has passed.
    pub fn expire(&mut self, now: Time) {
        while let Some(&(at_ms, place, stamp)) = self.queue.front() {
            if !has_come(now.ms(), at_ms) {
                return;
            }
            self.queue.pop_front();
            self.end(place, stamp);
        }
    }

    /// The next moment at which one may end, in milliseconds.
    pub fn next_ms(&self) -> Option<u32> {
        self.queue.front().map(|(at_ms, ..)| *at_ms)
    }

    /// Bytes in use.
    pub fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes() + self.table.memory_bytes() + self.queue.capacity() * 12
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::hash::Seed;

    #[test]
    fn entries_end_in_time_and_within_the_bound() {
        let mut waits = TimeWaits::new(3);
        let flow = |peer_port| Flow {
            peer: "192.0.2.1".parse().unwrap(),
            peer_port,
            local_port: 80,
            local: 0,
        };
        let hash = |port| flow(port).hash(Seed(1, 2));
        for port in 0..5_u16 {
            let now = Time(u64::from(port) * 1_000_000);
            waits.insert(now, flow(port), hash(port), Seq(1), Seq(2));
        }
        let is_there = |waits: &TimeWaits, port| waits.find(&flow(port), hash(port)).is_some();
        assert_eq!((waits.count(), is_there(&waits, 1), is_there(&waits, 2)), (3, false, true));
        let (place, _) = waits.find(&flow(2), hash(2)).unwrap();
        waits.renew(Time(50_000_000), place);
        waits.expire(Time(64_000_000));
        assert_eq!((waits.count(), is_there(&waits, 2)), (1, true));
        assert_eq!(waits.next_ms(), Some(110_000));
        waits.expire(Time(110_000_000));
        assert_eq!((waits.count(), waits.next_ms()), (0, None));
        for _ in 0..100 {
            waits.renew(Time(0), 0);
        }
        assert!(waits.queue.len() <= 6);
    }
}
