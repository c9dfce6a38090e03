//! SUBSCRIBE packets that wait for homes: each is answered once, when all of its filters have been
//! decided.

use crate::mail::SubscriptionKey;
use stdx::handing::Hand;

/// See the module.
#[derive(Default, Hand)]
pub(crate) struct Subscribing {
    packets: Vec<Packet>,
    next_place: u32,
}

/// A SUBSCRIBE packet without an answer.
#[derive(Hand)]
struct Packet {
    id: u16,
    /// The place of its first filter among all filters of the session.
    first: u32,
    entries: Vec<Entry>,
    /// Filters without a decision, and one more until the packet is whole.
    undecided: u32,
}

/// A filter of a packet.
#[derive(Clone, Hand)]
pub(crate) struct Entry {
    pub filter: Box<str>,
    /// The number that the subscription gets when it is granted.
    pub number: u32,
    /// Retained messages are wanted.
    pub wants_retained: bool,
    /// Only if the session has no such subscription.
    pub is_for_new: bool,
    /// The client has unsubscribed since.
    pub is_cancelled: bool,
    /// The granted subscription, whose retained messages follow the answer.
    pub granted: Option<SubscriptionKey>,
    /// The reason code of the decision.
    code: Option<u8>,
}

/// A decided packet.
#[derive(Default)]
pub(crate) struct Decided {
    pub id: u16,
    /// The reason codes of its filters.
    pub codes: Vec<u8>,
    /// Subscriptions whose retained messages follow.
    pub granted: Vec<SubscriptionKey>,
}

impl Subscribing {
    /// No packets.
    pub const fn new() -> Subscribing {
        Subscribing { packets: Vec::new(), next_place: 0 }
    }

    /// Whether every packet is answered.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// A packet begins; its filters follow. Identifier 0 is that of a session that wakes, which has
    /// no answer.
    pub fn begin(&mut self, id: u16) {
        let first = self.next_place;
        self.packets.push(Packet { id, first, entries: Vec::new(), undecided: 1 });
    }

    /// The newest packet has no further filters. The packet, if all of them are decided by now.
    pub fn finish(&mut self) -> Option<Decided> {
        let newest = self.packets.len().checked_sub(1)?;
        self.packets[newest].undecided -= 1;
        self.take_decided(newest)
    }

    /// The next filter of the newest packet: its place.
    pub fn push(&mut self, filter: &str, number: u32, wants_retained: bool) -> u32 {
        let place = self.next_place;
        if let Some(packet) = self.packets.last_mut() {
            packet.entries.push(Entry {
                filter: filter.into(),
                number,
                wants_retained,
                is_for_new: false,
                is_cancelled: false,
                granted: None,
                code: None,
            });
            packet.undecided += 1;
            // Two bits of a pending number are taken.
            self.next_place = place.wrapping_add(1) & (u32::MAX >> 2);
        }
        place
    }

    /// The filter at a place, until it is decided.
    pub fn entry(&mut self, place: u32) -> Option<&mut Entry> {
        self.packets.iter_mut().find_map(|packet| {
            let at = place.checked_sub(packet.first)? as usize;
            packet.entries.get_mut(at)
        })
    }

    /// The name of the filter at a place, until it is decided.
    pub fn name(&self, place: u32) -> Option<&str> {
        self.packets.iter().find_map(|packet| {
            let at = place.checked_sub(packet.first)? as usize;
            packet.entries.get(at).map(|entry| &*entry.filter)
        })
    }

    /// Whether the filter at a place is one of a session that wakes.
    pub fn is_of_wake(&self, place: u32) -> bool {
        self.packets.iter().any(|packet| {
            let at = place.checked_sub(packet.first);
            packet.id == 0 && at.is_some_and(|at| (at as usize) < packet.entries.len())
        })
    }

    /// The client unsubscribes from a filter that waits. False if none does.
    pub fn cancel(&mut self, filter: &str) -> bool {
        let entries = self.packets.iter_mut().flat_map(|packet| &mut packet.entries);
        let waiting = entries.filter(|it| it.code.is_none() && !it.is_cancelled);
        let mut found = false;
        for entry in waiting.filter(|it| &*it.filter == filter) {
            entry.is_cancelled = true;
            found = true;
        }
        found
    }

    /// The decision on a filter. The packet, if all of its filters are decided by now.
    pub fn decide(&mut self, place: u32, code: u8) -> Option<Decided> {
        let of_packet = |packet: &Packet| {
            place.checked_sub(packet.first).is_some_and(|at| (at as usize) < packet.entries.len())
        };
        let found = self.packets.iter().position(of_packet)?;
        let packet = &mut self.packets[found];
        let entry = &mut packet.entries[(place - packet.first) as usize];
        if entry.code.replace(code).is_none() {
            packet.undecided -= 1;
        }
        self.take_decided(found)
    }

    fn take_decided(&mut self, at: usize) -> Option<Decided> {
        if self.packets[at].undecided > 0 {
            return None;
        }
        let packet = self.packets.remove(at);
        let codes = packet.entries.iter().map(|entry| entry.code.unwrap_or(0x80)).collect();
        let granted = packet.entries.iter().filter_map(|entry| entry.granted).collect();
        Some(Decided { id: packet.id, codes, granted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_answered_when_all_filters_are_decided() {
        let mut subscribing = Subscribing::default();
        subscribing.begin(7);
        let first = ["a", "b"].map(|filter| subscribing.push(filter, 10, true));
        assert!(subscribing.finish().is_none());
        subscribing.begin(8);
        let other = subscribing.push("c", 12, false);
        assert!(subscribing.finish().is_none());
        assert!(subscribing.entry(first[1]).is_some_and(|it| &*it.filter == "b"));
        assert!(subscribing.cancel("b") && !subscribing.cancel("d"));
        let mut decide = |place, code| {
            subscribing.decide(place, code).map(|decided| (decided.id, decided.codes))
        };
        assert_eq!(decide(first[1], 1), None);
        assert_eq!(decide(other, 0), Some((8, vec![0])));
        assert_eq!(decide(first[0], 0x87), Some((7, vec![0x87, 1])));
        assert!(subscribing.entry(first[0]).is_none());
        assert!(subscribing.decide(first[0], 0).is_none());
    }

    #[test]
    fn a_decision_comes_before_the_packet_is_whole() {
        let mut subscribing = Subscribing::default();
        subscribing.begin(7);
        let place = subscribing.push("a", 10, true);
        assert!(subscribing.decide(place, 0x87).is_none());
        let place = subscribing.push("b", 10, true);
        assert!(subscribing.decide(place, 1).is_none());
        let decided = subscribing.finish().map(|decided| decided.codes);
        assert_eq!(decided, Some(vec![0x87, 1]));
    }
}
