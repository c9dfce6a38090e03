//! Order of a producer's connections: the newer of two.
//!
//! A home lets the newest connection of a producer publish and fences the older ones. A native
//! connection is as old as its HELLO, whatever it sends later: bytes of a connection that its
//! client has given up may be read long after the next one has begun, and must not fence that. An
//! HTTP request is as old as itself, because clients pool their connections. The stamp is in
//! milliseconds of the clock that all edges share. Of two connections of the same millisecond
//! neither fences the other; the sequences keep their order.
//!
//! A slot has the low half of the stamp, which covers 24 days. When a session that has published as
//! a producer reaches half of that, the sweep over all slots stores its whole stamp apart
//! ([`OldSessions`]), so that its age stays right. A session whose first publication comes later
//! than a slot can express counts as older than all others.

use crate::edge::connections::slots::Slot;
use crate::ids::ConnIndex;
use crate::protocol::flag;
use std::collections::BTreeMap;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// The greatest age that a slot can express, in milliseconds.
pub(crate) const AGE_MS_MAX: u32 = 1 << 31;
/// The age from which a producer's stamp is stored apart, in milliseconds.
const APART_MS: u32 = AGE_MS_MAX / 2;

/// Begin of old sessions that publish as producers: milliseconds of the monotonic clock, by
/// connection.
#[derive(Default, Hand)]
pub(crate) struct OldSessions {
    began_ms: BTreeMap<ConnIndex, u64>,
}

impl OldSessions {
    /// The stamp of a connection's publications.
    pub fn stamp(&self, index: ConnIndex, slot: &Slot, now_ms: u64) -> u64 {
        match self.began_ms.get(&index) {
            Some(began_ms) => *began_ms,
            None => match age_ms(now_ms, slot.hello_ms) {
                age_ms if age_ms < AGE_MS_MAX => now_ms.saturating_sub(age_ms.into()),
                _ => 0,
            },
        }
    }

    /// Keeps the age of a session within the range of its slot's stamp, and the stamp here where
    /// the slot's is not enough. The sweep calls this for each connection.
    #[inline]
    pub fn age(&mut self, index: ConnIndex, slot: &mut Slot, now_ms: u64) {
        if age_ms(now_ms, slot.hello_ms) >= APART_MS {
            self.age_old(index, slot, now_ms);
        }
    }

    #[cold]
    fn age_old(&mut self, index: ConnIndex, slot: &mut Slot, now_ms: u64) {
        let session_age_ms = age_ms(now_ms, slot.hello_ms);
        if session_age_ms < AGE_MS_MAX && slot.is(flag::PRODUCES) {
            let began_ms = now_ms.saturating_sub(session_age_ms.into());
            self.began_ms.entry(index).or_insert(began_ms);
        }
        if session_age_ms > AGE_MS_MAX {
            slot.hello_ms = (now_ms as u32).wrapping_sub(AGE_MS_MAX); // of the low halves
        }
    }

    /// The connection goes.
    pub fn release(&mut self, index: ConnIndex) {
        self.began_ms.remove(&index);
    }

    /// Bytes, about.
    pub fn memory_bytes(&self) -> usize {
        tree_bytes(self.began_ms.len(), size_of::<(ConnIndex, u64)>())
    }
}

/// The age of such a session, in milliseconds.
pub(crate) fn age_ms(now_ms: u64, hello_ms: u32) -> u32 {
    (now_ms as u32).wrapping_sub(hello_ms) // of the low halves
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 86_400_000;

    fn session(now_ms: u64, produces: bool) -> Slot {
        let mut slot = Slot::FREE;
        slot.hello_ms = now_ms as u32; // as `stamp_hello`
        if produces {
            slot.set(flag::PRODUCES);
        }
        slot
    }

    /// A client that was fenced stays so for as long as its connection lasts.
    #[test]
    fn a_producer_of_a_year_is_as_old_as_it_is() {
        let began_ms = 5_000_000_000;
        let mut old = OldSessions::default();
        let mut first = session(began_ms, true);
        let mut second = session(began_ms + DAY_MS, true);
        for day in 1..366 {
            let now_ms = began_ms + day * DAY_MS;
            old.age(ConnIndex(1), &mut first, now_ms);
            old.age(ConnIndex(2), &mut second, now_ms);
            assert_eq!(old.stamp(ConnIndex(1), &first, now_ms), began_ms, "day {day}");
            let stamp = old.stamp(ConnIndex(2), &second, now_ms);
            assert_eq!(stamp, began_ms + DAY_MS, "day {day}");
        }
        old.release(ConnIndex(1));
        old.release(ConnIndex(2));
        assert_eq!(old.memory_bytes(), 0);
    }

    /// The moment of an old session is lost; it must not pass for a newer one than a later session.
    #[test]
    fn a_late_producer_is_the_oldest() {
        let began_ms = 5_000_000_000;
        let mut old = OldSessions::default();
        let mut first = session(began_ms, false);
        for day in 1..60 {
            old.age(ConnIndex(1), &mut first, began_ms + day * DAY_MS);
        }
        let now_ms = began_ms + 60 * DAY_MS;
        first.set(flag::PRODUCES);
        assert_eq!(old.stamp(ConnIndex(1), &first, now_ms), 0);
        assert_eq!(age_ms(now_ms, first.hello_ms), AGE_MS_MAX + DAY_MS as u32);
        old.age(ConnIndex(1), &mut first, now_ms);
        assert_eq!(old.stamp(ConnIndex(1), &first, now_ms), 0);
    }
}
