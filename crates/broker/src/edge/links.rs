//! Links to homes: how many requests may be on their way to each, and which connections wait until
//! there may be more. Owner of these counts; it knows connections by their keys only.
//!
//! Requests that a home answers from memory are dealt with in its next turn. Those that may have to
//! wait for a log on disk are counted apart, log by log: a disk that hangs fills the count of its
//! own log and no other. A connection that has brought a log to its bound is not read until there
//! is room; others do not notice, unless they use that log too. How long it waits is the home's to
//! bound: when the log gets nothing done, it says `Stalled`, refuses at once what needs the disk,
//! and nobody waits for room any more.
//!
//! Pages for subscriptions that replay or lag are counted apart from both. When thousands of
//! subscriptions are behind at once, most of them wait here, in order, at the cost of their place
//! in the row: a home has a few turns' worth of pages to serve, and whoever publishes or subscribes
//! meanwhile does not stand behind them.
//!
//! Invariant: a frame or request is dealt with as a whole, so each connection may go beyond the
//! bound of a log by one. All publications of a log that go beyond it take at most
//! [`BEYOND_BYTES_MAX`]: one that does not fit, with all that its request sends to that log, is
//! refused. Only a log with nothing on its way takes a request whatever its size.

use crate::mail::{HomeId, Lane};
use crate::settings::Limits;
use std::collections::{BTreeSet, VecDeque};
use stdx::handing::Hand;
use stdx::key::Key;

/// See the module.
#[derive(Hand)]
pub(crate) struct Links {
    pub homes: Vec<HomeLink>,
    /// A log on disk that has no room for more requests since the frame that is being dealt with.
    pub full_log: Option<(HomeId, u16)>,
    /// The number of the newest question for names; an answer repeats it.
    pub describe_number: u32,
}

impl Links {
    /// Links to so many homes with so many logs, without a request under way.
    pub fn new(homes_count: usize, logs_count: usize) -> Links {
        Links {
            homes: (0..homes_count).map(|_| HomeLink::new(logs_count)).collect(),
            full_log: None,
            describe_number: 0,
        }
    }
}

/// Bytes of requests that wait for one log and home, from which on an edge refuses publications to
/// it. Far above what a disk that works leaves waiting, as connections are no longer read at
/// `stream_credit_bytes`.
pub(crate) const BEYOND_BYTES_MAX: u64 = 64 << 20;

/// Pages of a log that an edge has asked one home for and not received, at most: some turns' worth,
/// so that a home never waits for the next question.
pub(crate) const PAGES_INFLIGHT_MAX: u32 = 128;

/// Requests of one lane on their way to a home.
#[derive(Default, Hand)]
pub(crate) struct Room {
    /// Those that the home has not dealt with, and what they cost.
    pub inflight: u32,
    pub inflight_bytes: u64,
    /// The log gets nothing done: the home answers at once.
    pub is_stalled: bool,
    /// Connections that wait for room, each once.
    pub waiting: VecDeque<Key>,
    /// The same, and they have just had some: they wait behind the others.
    pub served: VecDeque<Key>,
    pub waits: BTreeSet<Key>,
}

impl Room {
    pub fn has_room(&self, limits: &Limits) -> bool {
        self.is_stalled
            || self.inflight < limits.requests_inflight_max
                && self.inflight_bytes < u64::from(limits.stream_credit_bytes)
    }

    /// How many more pages may be asked for; [`Room::has_room`] for a lane of pages.
    pub fn pages_left(&self, limits: &Limits) -> u32 {
        let pages_max = PAGES_INFLIGHT_MAX.min(limits.requests_inflight_max);
        match self.is_stalled {
            true => pages_max,
            false => pages_max.saturating_sub(self.inflight),
        }
    }
}

/// What is on its way to one home.
#[derive(Hand)]
pub(crate) struct HomeLink {
    /// What is answered from memory.
    pub own: Room,
    /// What may have to wait for a disk, by the logs' indexes.
    pub logs: Box<[Room]>,
    /// Pages, by the logs' indexes.
    pub pages: Box<[Room]>,
    /// Live bytes dealt with and not yet given back as credit.
    pub credit_due: u32,
}

impl HomeLink {
    pub fn new(logs_count: usize) -> HomeLink {
        HomeLink {
            own: Room::default(),
            logs: (0..logs_count).map(|_| Room::default()).collect(),
            pages: (0..logs_count).map(|_| Room::default()).collect(),
            credit_due: 0,
        }
    }

    pub fn room(&mut self, lane: Lane) -> &mut Room {
        match lane {
            Lane::Memory => &mut self.own,
            Lane::Disk(log) => &mut self.logs[usize::from(log)],
            Lane::Pages(log) => &mut self.pages[usize::from(log)],
        }
    }
}
