//! Occupancy: the first subscriber of a topic by its name, and the last, for `$sys/topics/...`.
//!
//! Beside the path: where the settings do not ask for it, a subscription passes by here with a
//! branch. Invariants: the messages in a second have a bound, and the rest is counted and reported
//! when the second is over, so that a storm costs a counter; topics below `$sys/` themselves are
//! never reported.

use super::Home;
use super::turn::Turn;
use crate::sys::{Occupancy, is_reserved};
use stdx::handing::Hand;

/// The events of this second: those published, and those left out.
#[derive(Clone, Copy, Debug, Default, Hand)]
pub(super) struct Reported {
    second: u64,
    occupied: u32,
    vacated: u32,
    occupied_left_out: u64,
    vacated_left_out: u64,
}

impl Reported {
    fn owes(&self) -> bool {
        self.occupied_left_out > 0 || self.vacated_left_out > 0
    }
}

impl Home {
    /// Whether a topic that is about to be subscribed to, or has just been released, has no
    /// subscriber by its name, and somebody wants to know.
    #[inline]
    pub(super) fn is_vacant(&self, topic: u32) -> bool {
        self.settings.sys.topics && !self.interests.is_subscribed(topic)
    }

    /// Reports that a topic has its first subscriber.
    pub(super) fn report_occupied(&mut self, topic: u32, turn: &mut Turn<'_>) {
        let name = self.interests.topics.name(topic);
        if is_own(name) {
            return;
        }
        let rate_max = self.events_rate_max();
        let reported = &mut self.reported;
        if reported.occupied < rate_max {
            reported.occupied += 1;
            turn.out.occupancy.push(Occupancy::Occupied(name.into()));
        } else {
            reported.occupied_left_out += 1
        }
    }

    /// Reports a topic that an edge has released, if it has lost its last subscriber.
    pub(super) fn report_vacated(&mut self, topic: u32, turn: &mut Turn<'_>) {
        if !self.is_vacant(topic) {
            return;
        }
        let name = self.interests.topics.name(topic);
        if is_own(name) {
            return;
        }
        let rate_max = self.events_rate_max();
        let reported = &mut self.reported;
        if reported.vacated < rate_max {
            reported.vacated += 1;
            turn.out.occupancy.push(Occupancy::Vacated(name.into()));
        } else {
            reported.vacated_left_out += 1
        }
    }

    /// This home's share.
    fn events_rate_max(&self) -> u32 {
        let homes_count = u32::from(self.settings.homes_count.max(1));
        self.settings.sys.events_rate_max.div_ceil(homes_count)
    }

    /// Once in each turn: publishes the number of events left out when their second is over.
    pub(super) fn renew_reported(&mut self, turn: &mut Turn<'_>) {
        let second = self.elapsed.ms / 1_000;
        if second == self.reported.second {
            return;
        }
        if self.reported.owes() {
            turn.out.occupancy.push(Occupancy::LeftOut {
                occupied: self.reported.occupied_left_out,
                vacated: self.reported.vacated_left_out,
            });
        }
        self.reported = Reported { second, ..Reported::default() };
    }

    /// The end of the second in which events were left out; milliseconds of the home's clock.
    pub(super) fn reported_deadline_ms(&self) -> Option<u64> {
        let reported = &self.reported;
        reported.owes().then(|| (reported.second + 1) * 1_000)
    }
}

fn is_own(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(is_reserved)
}
