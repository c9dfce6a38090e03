//! How many requests may be on their way to a home, and who waits until there may be more.
//!
//! Requests that a home answers from memory are dealt with in its next turn. Those that may have to wait for a log on disk
//! are counted apart, log by log: a disk that hangs fills the count of its own log and no other. A connection that has
//! brought a log to its bound is not read until there is room; others do not notice, unless they use that log too. How
//! long it waits is the home's to bound: when the log gets nothing done, it says `Stalled`, refuses at once what needs the
//! disk, and nobody waits for room any more.
//!
//! Invariant: a frame is dealt with as a whole, so each connection may go beyond the bound of a log by one frame. Together
//! publications of a log that go beyond it stay below [`BEYOND_BYTES_MAX`]; more are refused.

use super::slots::{NONE, Protocol, flag};
use super::{Edge, HomeLink};
use crate::mail::{HomeId, PartitionId, Request};
use crate::settings::Limits;
use std::collections::BTreeSet;
use stdx::key::Key;

/// Bytes of requests that wait for one log and home, from which on an edge refuses publications to it. Far above what a
/// disk that works leaves waiting, as connections are no longer read at `stream_credit_bytes`.
const BEYOND_BYTES_MAX: u64 = 64 << 20;

/// Requests of one kind on their way to a home.
#[derive(Default)]
pub(super) struct Room {
    /// Those that the home has not dealt with, and what they cost.
    inflight: u32,
    inflight_bytes: u64,
    /// The log gets nothing done: the home answers at once.
    is_stalled: bool,
    /// Connections that wait for room, each once.
    waiting: Vec<Key>,
    waits: BTreeSet<Key>,
}

impl Room {
    fn has_room(&self, limits: &Limits) -> bool {
        self.is_stalled
            || self.inflight < limits.requests_inflight_max
                && self.inflight_bytes < u64::from(limits.stream_credit_bytes)
    }
}

impl HomeLink {
    pub fn new(logs_count: usize) -> HomeLink {
        HomeLink {
            own: Room::default(),
            logs: (0..logs_count).map(|_| Room::default()).collect(),
            credit_due: 0,
        }
    }

    fn room(&mut self, log: Option<u16>) -> &mut Room {
        match log {
            Some(log) => &mut self.logs[usize::from(log)],
            None => &mut self.own,
        }
    }
}

impl Edge {
    /// Whether a home has room for another request that it answers from memory.
    pub(crate) fn may_request(&self, home: HomeId) -> bool {
        let link = &self.homes[usize::from(home)];
        link.own.has_room(&self.settings.limits)
    }

    /// Whether a home has room for a request that reads records of a partition.
    pub(crate) fn may_read(&self, partition: PartitionId) -> bool {
        let link = &self.homes[usize::from(self.settings.home_of(partition))];
        let room = match self.settings.log_on_disk(partition) {
            Some(log) => &link.logs[usize::from(log)],
            None => &link.own,
        };
        room.has_room(&self.settings.limits)
    }

    /// Where a plain subscription's topic lives.
    pub(super) fn partition_of(&self, subscription: u32) -> PartitionId {
        let entry = &self.subscriptions[subscription];
        let topic = self.topics[usize::from(entry.home)].get(entry.topic);
        topic.map_or(0, |topic| topic.partition)
    }

    /// Whether a publication may still be sent to a partition; if not, its log does not keep up and has too much waiting.
    pub(crate) fn may_publish(&self, partition: PartitionId) -> bool {
        let Some(log) = self.settings.log_on_disk(partition) else {
            return true;
        };
        let link = &self.homes[usize::from(self.settings.home_of(partition))];
        link.logs[usize::from(log)].inflight_bytes < BEYOND_BYTES_MAX
    }

    /// Has the connection looked at when the home has room again for what it answers from memory.
    pub(crate) fn wait_for(&mut self, home: HomeId, index: u32) {
        self.wait_for_room(home, None, index);
    }

    /// Has the connection looked at when there is room for reads of the partition.
    pub(crate) fn wait_to_read(&mut self, partition: PartitionId, index: u32) {
        let (home, log) = (
            self.settings.home_of(partition),
            self.settings.log_on_disk(partition),
        );
        self.wait_for_room(home, log, index);
    }

    fn wait_for_room(&mut self, home: HomeId, log: Option<u16>, index: u32) {
        let key = self.slots.key(index);
        let room = self.homes[usize::from(home)].room(log);
        if room.waits.insert(key) {
            room.waiting.push(key);
        }
    }

    /// Whether all homes have room for requests.
    pub(crate) fn has_room(&self) -> bool {
        (0..self.settings.homes_count).all(|home| self.may_request(home))
    }

    /// Stops reading from the connection while some home has no room for requests. False if all have.
    pub(crate) fn pause_for_room(&mut self, index: u32) -> bool {
        let full = (0..self.settings.homes_count).find(|&home| !self.may_request(home));
        if let Some(home) = full {
            self.slots[index].set(flag::PAUSED);
            self.wait_for(home, index);
        }
        full.is_some()
    }

    /// Stops reading from the connection if the frame that it has just sent has brought a log on disk to its bound, or found
    /// it there.
    pub(crate) fn pause_for_log(&mut self, index: u32) {
        if let Some((home, log)) = self.full_log.take() {
            self.slots[index].set(flag::PAUSED);
            self.wait_for_room(home, Some(log), index);
        }
    }

    /// Posts a request. Callers that can wait have asked [`Edge::may_request`] or [`Edge::may_read`]; one frame's worth may
    /// go beyond.
    pub(crate) fn request(&mut self, home: HomeId, request: Request) {
        let log = request.log_on_disk(&self.settings);
        let room = self.homes[usize::from(home)].room(log);
        room.inflight += 1;
        room.inflight_bytes += u64::from(request.cost());
        if let Some(log) = log
            && !room.has_room(&self.settings.limits)
        {
            self.full_log = Some((home, log));
        }
        self.out.requests[usize::from(home)].push(request);
    }

    /// A frame begins: what was asked before is not its doing.
    pub(crate) fn begin_frame(&mut self) {
        self.full_log = None;
    }

    pub(super) fn consumed(&mut self, home: HomeId, log: Option<u16>, requests: u32, bytes: u64) {
        let room = self.homes[usize::from(home)].room(log);
        debug_assert!(
            requests <= room.inflight && bytes <= room.inflight_bytes,
            "a home consumes what it was sent"
        );
        room.inflight = room.inflight.saturating_sub(requests);
        room.inflight_bytes = room.inflight_bytes.saturating_sub(bytes);
        self.give_room(home, log);
    }

    pub(super) fn log_stalled(&mut self, home: HomeId, log: u16, is_stalled: bool) {
        self.homes[usize::from(home)].room(Some(log)).is_stalled = is_stalled;
        self.give_room(home, Some(log));
    }

    /// Goes on with those that wait, if there is room.
    fn give_room(&mut self, home: HomeId, log: Option<u16>) {
        let room = self.homes[usize::from(home)].room(log);
        if room.waiting.is_empty() || !room.has_room(&self.settings.limits) {
            return;
        }
        room.waits.clear();
        for key in std::mem::take(&mut room.waiting) {
            if self.slots.get(key).is_none() {
                continue;
            }
            let slot = &self.slots[key.index];
            // A long poll that lags waits for a page; its connection stays paused until it is answered.
            if slot.protocol != Protocol::Http || slot.state == NONE {
                self.resume(key.index);
            }
            if self.slots[key.index].is(flag::LAGGING) || self.wants_ticket(key.index) {
                self.touch(key.index);
            }
        }
    }
}
