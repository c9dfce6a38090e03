//! SUBSCRIBE packets that wait for homes: each is answered once, when all of its filters have been
//! decided.

use super::options::Options;
use crate::mail::SubscriptionKey;
use stdx::handing::Hand;
use wire::mqtt::ReasonCode;

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
    /// The place of the filter whose decision is this one's too: an earlier packet asked for the
    /// same filter, and its homes have not answered.
    pub behind: Option<u32>,
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
                behind: None,
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

    /// The place of an earlier filter of the same name that waits, and that the client wants.
    pub fn first_of(&self, place: u32) -> Option<u32> {
        let name = self.name(place)?;
        let entries = self.packets.iter().flat_map(|packet| (packet.first..).zip(&packet.entries));
        let is_it = |(at, it): &(u32, &Entry)| {
            let waits = it.code.is_none() && it.behind.is_none() && !it.is_cancelled;
            *at != place && waits && &*it.filter == name
        };
        entries.into_iter().find(is_it).map(|(at, _)| at)
    }

    /// The number of the newest filter whose decision is that of the filter at a place.
    pub fn newest_behind(&self, place: u32) -> Option<u32> {
        let entries = self.packets.iter().flat_map(|packet| &packet.entries);
        let mut behind = entries.filter(|entry| entry.behind == Some(place));
        behind.next_back().map(|entry| entry.number)
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

    /// Decides a filter, and those behind it. Returns the packets that have no undecided filter
    /// left.
    pub fn decide(&mut self, place: u32, code: u8) -> Vec<Decided> {
        let mut decisions = vec![(place, code)];
        for packet in &self.packets {
            let entries = (packet.first..).zip(&packet.entries);
            let behind = entries.filter(|(_, entry)| entry.behind == Some(place));
            decisions.extend(behind.map(|(at, entry)| (at, entry.code_behind(code))));
        }
        decisions.into_iter().filter_map(|(place, code)| self.decide_one(place, code)).collect()
    }

    fn decide_one(&mut self, place: u32, code: u8) -> Option<Decided> {
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

impl Entry {
    /// The reason code, where the filter before it got this one: each packet has a QoS of its own.
    fn code_behind(&self, code: u8) -> u8 {
        let is_granted = code < ReasonCode::Unspecified.byte();
        if is_granted { Options::of(self.number).qos } else { code }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(subscribing: &mut Subscribing, place: u32, code: u8) -> Vec<(u16, Vec<u8>)> {
        let decided = subscribing.decide(place, code).into_iter();
        decided.map(|decided| (decided.id, decided.codes)).collect()
    }

    #[test]
    fn a_filter_behind_another_has_its_decision() {
        let qos = |qos| Options { qos, ..Options::default() }.number();
        for (code, codes) in [(1, [1, 2]), (0x87, [0x87, 0x87])] {
            let mut subscribing = Subscribing::default();
            subscribing.begin(7);
            let first = subscribing.push("a/+", qos(1), true);
            assert!(subscribing.finish().is_none());
            subscribing.begin(8);
            let again = subscribing.push("a/+", qos(2), true);
            subscribing.entry(again).expect("just pushed").behind = Some(first);
            assert!(subscribing.finish().is_none(), "the homes have not answered");
            let answers = [(7, vec![codes[0]]), (8, vec![codes[1]])];
            assert_eq!(decide(&mut subscribing, first, code), answers);
            assert!(subscribing.is_empty());
        }
    }

    #[test]
    fn the_first_packet_for_a_filter_that_waits() {
        let mut subscribing = Subscribing::default();
        subscribing.begin(0);
        let woken = subscribing.push("a", 10, false);
        subscribing.begin(7);
        let [other, again] = ["b", "a"].map(|filter| subscribing.push(filter, 10, true));
        let firsts = |subscribing: &Subscribing| {
            [woken, other, again].map(|place| subscribing.first_of(place))
        };
        assert_eq!(firsts(&subscribing), [Some(again), None, Some(woken)]);
        subscribing.entry(again).expect("just pushed").behind = Some(woken);
        assert_eq!(firsts(&subscribing), [None, None, Some(woken)]);
        assert!(subscribing.cancel("a"));
        assert_eq!(subscribing.first_of(again), None);
        assert_eq!(subscribing.first_of(99), None);
    }

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
        let mut decide = |place, code| decide(&mut subscribing, place, code);
        assert_eq!(decide(first[1], 1), []);
        assert_eq!(decide(other, 0), [(8, vec![0])]);
        assert_eq!(decide(first[0], 0x87), [(7, vec![0x87, 1])]);
        assert!(subscribing.entry(first[0]).is_none());
        assert!(subscribing.decide(first[0], 0).is_empty());
    }

    #[test]
    fn a_decision_comes_before_the_packet_is_whole() {
        let mut subscribing = Subscribing::default();
        subscribing.begin(7);
        let place = subscribing.push("a", 10, true);
        assert!(subscribing.decide(place, 0x87).is_empty());
        let place = subscribing.push("b", 10, true);
        assert!(subscribing.decide(place, 1).is_empty());
        let decided = subscribing.finish().map(|decided| decided.codes);
        assert_eq!(decided, Some(vec![0x87, 1]));
    }
}
