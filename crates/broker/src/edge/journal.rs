//! What an edge notes of its clients so that it can be told: entries for the access log and the
//! audit log, and the life of clients and topics on `$sys/...`.
//!
//! Beside the path: where neither is on, a session passes by here with a branch, and a message not
//! at all. Invariants: what is told in a second has a bound, and what was left out is counted and
//! told when the second is over, so that a storm costs a counter; nothing here holds a credential,
//! a query or a payload.

use crate::settings::Settings;
use std::collections::BTreeMap;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;
use stdx::pages::Pages;

/// Connections to a page.
pub(crate) const PAGE: usize = 256;
/// What is known of a connection because somebody wants to be told.
#[derive(Clone, Copy, Hand)]
pub(crate) struct Known {
    /// Where it comes from.
    pub address: u128,
    /// Against what an earlier connection left here.
    pub generation: u32,
    /// When its session began: milliseconds of the monotonic clock, their low half; how long it
    /// lasts is told up to 49 days.
    pub began_ms: u32,
    /// With which its WebSocket was closed; 0: not yet.
    pub close_code: u16,
    pub listener: u8,
    pub has_begun: bool,
    /// It has been noted at all: others were here before somebody wanted to know.
    pub is_noted: bool,
}

pub(crate) const UNKNOWN: Known = Known {
    address: 0,
    generation: 0,
    began_ms: 0,
    close_code: 0,
    listener: u8::MAX,
    has_begun: false,
    is_noted: false,
};

const _: () = assert!(size_of::<Known>() <= 32);

/// An HTTP request that has not been answered.
#[derive(Hand)]
pub(crate) struct Asked {
    pub method: Box<str>,
    pub path: Box<str>,
    pub at_ms: u64,
}

/// See the module.
#[derive(Default, Hand)]
pub(crate) struct Journal {
    /// By the connections' indexes; nothing where nobody asks.
    pub known: Pages<Known, PAGE>,
    pub asked: BTreeMap<u32, Asked>,
    pub access: Allowance,
    pub audit: Allowance,
    pub connected: Allowance,
    pub disconnected: Allowance,
    /// Requests of refused origins that have not been told, and when the next may be told.
    pub origins_refused: u64,
    pub origins_told_from_ms: u64,
}

/// How much may still be told in this second, and what was not.
#[derive(Clone, Copy, Default, Hand)]
pub(crate) struct Allowance {
    pub left: u32,
    pub left_out: u64,
}

impl Allowance {
    pub fn take(&mut self) -> bool {
        let is_left = self.left > 0;
        match is_left {
            true => self.left -= 1,
            false => self.left_out += 1,
        }
        is_left
    }

    /// A second begins: what was left out in the one before.
    pub fn renew(&mut self, rate_max: u32) -> u64 {
        self.left = rate_max;
        std::mem::take(&mut self.left_out)
    }
}

impl Journal {
    pub fn new(settings: &Settings) -> Journal {
        let mut journal = Journal::default();
        journal.renew(settings);
        journal
    }

    /// What was left out: of access, audit, connected, disconnected.
    pub fn renew(&mut self, settings: &Settings) -> [u64; 4] {
        if !settings.journal.access && !self.asked.is_empty() {
            self.asked.clear();
        }
        let share = |rate_max: u32| rate_max.div_ceil(u32::from(settings.edges_count.max(1)));
        let events_rate_max = share(settings.sys.events_rate_max);
        [
            self.access.renew(share(settings.journal.access_rate_max)),
            self.audit.renew(share(settings.journal.audit_rate_max)),
            self.connected.renew(events_rate_max),
            self.disconnected.renew(events_rate_max),
        ]
    }

    /// Whether something was left out that is to be told when the second is over.
    pub fn owes(&self) -> bool {
        let all = [self.access, self.audit, self.connected, self.disconnected];
        all.iter().any(|allowance| allowance.left_out > 0)
    }

    pub fn memory_bytes(&self) -> usize {
        self.known.memory_bytes() + tree_bytes(self.asked.len(), size_of::<(u32, Asked)>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted_once() {
        let mut allowance = Allowance::default();
        assert_eq!(allowance.renew(2), 0);
        let taken = [(); 5].map(|()| allowance.take());
        assert_eq!(taken, [true, true, false, false, false]);
        assert_eq!(allowance.renew(2), 3);
        assert!(allowance.take());
        assert_eq!(allowance.renew(2), 0);
    }
}
