//! How many requests may be on their way to a home, and who waits until there may be more.
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

use super::Edge;
use super::slots::{NONE, Protocol, flag};
use crate::ids::ConnIndex;
use crate::mail::{HomeId, Lane, PartitionId, ToHome};
use crate::settings::Limits;
use std::collections::{BTreeSet, VecDeque};
use stdx::handing::Hand;
use stdx::key::Key;

/// Bytes of requests that wait for one log and home, from which on an edge refuses publications to
/// it. Far above what a disk that works leaves waiting, as connections are no longer read at
/// `stream_credit_bytes`.
const BEYOND_BYTES_MAX: u64 = 64 << 20;

/// Pages of a log that an edge has asked one home for and not received, at most: some turns' worth,
/// so that a home never waits for the next question.
const PAGES_INFLIGHT_MAX: u32 = 128;

/// Requests of one lane on their way to a home.
#[derive(Default, Hand)]
pub(crate) struct Room {
    /// Those that the home has not dealt with, and what they cost.
    inflight: u32,
    inflight_bytes: u64,
    /// The log gets nothing done: the home answers at once.
    is_stalled: bool,
    /// Connections that wait for room, each once.
    waiting: VecDeque<Key>,
    /// The same, and they have just had some: they wait behind the others.
    served: VecDeque<Key>,
    waits: BTreeSet<Key>,
}

impl Room {
    fn has_room(&self, limits: &Limits) -> bool {
        self.is_stalled
            || self.inflight < limits.requests_inflight_max
                && self.inflight_bytes < u64::from(limits.stream_credit_bytes)
    }

    /// How many more pages may be asked for; [`Room::has_room`] for a lane of pages.
    fn pages_left(&self, limits: &Limits) -> u32 {
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
    own: Room,
    /// What may have to wait for a disk, by the logs' indexes.
    logs: Box<[Room]>,
    /// Pages, by the logs' indexes.
    pages: Box<[Room]>,
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

    fn room(&mut self, lane: Lane) -> &mut Room {
        match lane {
            Lane::Memory => &mut self.own,
            Lane::Disk(log) => &mut self.logs[usize::from(log)],
            Lane::Pages(log) => &mut self.pages[usize::from(log)],
        }
    }
}

impl Edge {
    /// Whether a home has room for another request that it answers from memory.
    pub(crate) fn may_request(&self, home: HomeId) -> bool {
        let link = &self.links.homes[usize::from(home)];
        link.own.has_room(&self.settings.limits)
    }

    /// Whether a home has room for a page of a partition.
    pub(crate) fn may_read(&self, partition: PartitionId) -> bool {
        if !self.may_recover() {
            return false;
        }
        let link = &self.links.homes[usize::from(self.settings.home_of(partition))];
        let log = usize::from(self.settings.log_number(partition));
        link.pages[log].pages_left(&self.settings.limits) > 0
    }

    /// Whether publications that cost so much together may still be sent to a partition; if not,
    /// its log does not keep up and has too much waiting.
    pub(crate) fn may_publish(&self, partition: PartitionId, cost: u64) -> bool {
        let Some(log) = self.settings.log_on_disk(partition) else {
            return true;
        };
        let link = &self.links.homes[usize::from(self.settings.home_of(partition))];
        let inflight_bytes = link.logs[usize::from(log)].inflight_bytes;
        inflight_bytes == 0 || inflight_bytes + cost <= BEYOND_BYTES_MAX
    }

    /// Has the connection looked at when the home has room again for what it answers from memory.
    pub(crate) fn wait_for(&mut self, home: HomeId, index: ConnIndex) {
        self.wait_for_room(home, Lane::Memory, index);
    }

    /// Has the connection ask for pages of the partition when its turn has come.
    pub(crate) fn wait_to_read(&mut self, partition: PartitionId, index: ConnIndex) {
        let home = self.settings.home_of(partition);
        let lane = Lane::Pages(self.settings.log_number(partition));
        self.wait_for_room(home, lane, index);
    }

    /// Has those ask that wait for pages, as many as there is room for. Who is looked at may have
    /// no use for it, so this is done again as long as there is room and somebody waits
    /// ([`Edge::may_wake_readers`]).
    pub(super) fn wake_readers(&mut self) {
        if !self.may_recover() {
            return;
        }
        for home in 0..self.links.homes.len() {
            for log in 0..self.links.homes[home].pages.len() {
                let room = &self.links.homes[home].pages[log];
                for _ in 0..room.pages_left(&self.settings.limits) {
                    let room = &mut self.links.homes[home].pages[log];
                    let Some(key) = room.waiting.pop_front() else {
                        break;
                    };
                    room.waits.remove(&key);
                    if self.connections.slots.get(key).is_some() {
                        self.touch(key.index);
                    }
                }
            }
        }
    }

    /// Whether somebody waits for a page that there is room for.
    pub(super) fn may_wake_readers(&self) -> bool {
        let limits = &self.settings.limits;
        let mut pages = self.links.homes.iter().flat_map(|link| &link.pages);
        self.may_recover()
            && pages.any(|room| !room.waiting.is_empty() && room.pages_left(limits) > 0)
    }

    fn wait_for_room(&mut self, home: HomeId, lane: Lane, index: ConnIndex) {
        let key = self.connections.slots.key(index);
        let room = self.links.homes[usize::from(home)].room(lane);
        if room.waits.insert(key) {
            room.waiting.push_back(key);
        }
    }

    /// Has the connection go on when a home has room again, in its turn: who went on and found none
    /// keeps its place, and who found some comes after all others. Otherwise the first, with enough
    /// to send, would take all room for ever.
    fn queue_for(&mut self, home: HomeId, index: ConnIndex) {
        let key = self.connections.slots.key(index);
        let is_served = self.connections.slots[index].is(flag::SERVED);
        let room = self.links.homes[usize::from(home)].room(Lane::Memory);
        if room.waits.insert(key) {
            match is_served {
                true => room.served.push_back(key),
                false => room.waiting.push_back(key),
            }
        }
    }

    /// Whether all homes have room for requests.
    pub(crate) fn has_room(&self) -> bool {
        (0..self.settings.homes_count).all(|home| self.may_request(home))
    }

    /// Whether the homes have answered everything but pages.
    pub(super) fn is_settled(&self) -> bool {
        let mut links = self.links.homes.iter();
        links.all(|link| link.own.inflight == 0 && link.logs.iter().all(|room| room.inflight == 0))
    }

    /// Stops reading from the connection while some home has no room for requests. False if all
    /// have.
    pub(crate) fn pause_for_room(&mut self, index: ConnIndex) -> bool {
        let full = (0..self.settings.homes_count).find(|&home| !self.may_request(home));
        if let Some(home) = full {
            self.connections.slots[index].set(flag::PAUSED);
            self.queue_for(home, index);
        }
        full.is_some()
    }

    /// Stops reading from the connection if the frame that it has just sent has brought a log on
    /// disk to its bound, or found it there.
    pub(crate) fn pause_for_log(&mut self, index: ConnIndex) {
        if let Some((home, log)) = self.links.full_log.take() {
            self.connections.slots[index].set(flag::PAUSED);
            self.wait_for_room(home, Lane::Disk(log), index);
        }
    }

    /// Posts a request. Callers that can wait have asked [`Edge::may_request`] or
    /// [`Edge::may_read`]; one frame's worth may go beyond.
    pub(crate) fn request(&mut self, home: HomeId, request: ToHome) {
        let lane = request.lane(&self.settings);
        let room = self.links.homes[usize::from(home)].room(lane);
        room.inflight += 1;
        room.inflight_bytes += u64::from(request.cost());
        if let Lane::Disk(log) = lane
            && !room.has_room(&self.settings.limits)
        {
            self.links.full_log = Some((home, log));
        }
        self.out.requests[usize::from(home)].push(request);
    }

    /// A frame begins: what was asked before is not its doing.
    pub(crate) fn begin_frame(&mut self) {
        self.links.full_log = None;
    }

    pub(super) fn consumed(&mut self, home: HomeId, lane: Lane, requests: u32, bytes: u64) {
        let room = self.links.homes[usize::from(home)].room(lane);
        debug_assert!(
            requests <= room.inflight && bytes <= room.inflight_bytes,
            "a home consumes what it was sent"
        );
        room.inflight = room.inflight.saturating_sub(requests);
        room.inflight_bytes = room.inflight_bytes.saturating_sub(bytes);
        self.give_room(home, lane);
    }

    pub(super) fn log_stalled(&mut self, home: HomeId, log: u16, is_stalled: bool) {
        for lane in [Lane::Disk(log), Lane::Pages(log)] {
            self.links.homes[usize::from(home)].room(lane).is_stalled = is_stalled;
            self.give_room(home, lane);
        }
    }

    /// Goes on with those that wait, if there is room. Who waits for pages is woken by the flush,
    /// some at a time.
    fn give_room(&mut self, home: HomeId, lane: Lane) {
        if matches!(lane, Lane::Pages(_)) {
            return;
        }
        let room = self.links.homes[usize::from(home)].room(lane);
        if room.waits.is_empty() || !room.has_room(&self.settings.limits) {
            return;
        }
        room.waits.clear();
        let served = std::mem::take(&mut room.served);
        for key in std::mem::take(&mut room.waiting).into_iter().chain(served) {
            if self.connections.slots.get(key).is_none() {
                continue;
            }
            let slot = &self.connections.slots[key.index];
            // A long poll that lags waits for a page; its connection stays paused until it is
            // answered.
            if slot.protocol != Protocol::Http || slot.state == NONE {
                self.resume(key.index);
            }
            if self.wants_ticket(key.index) {
                self.touch(key.index);
            }
        }
    }
}
