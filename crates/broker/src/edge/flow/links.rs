//! Requests to homes: posts them, and pauses and resumes the connections that wait for room.
//!
//! Step 4 of the path. The counts and their bounds are those of [`Links`](super::super::links::Links).

use crate::edge::Edge;
use crate::edge::links::BEYOND_BYTES_MAX;
use crate::ids::ConnIndex;
use crate::ids::NONE;
use crate::mail::{HomeId, Lane, PartitionId, ToHome};
use crate::protocol::Protocol;
use crate::protocol::flag;

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
    pub(crate) fn wake_readers(&mut self) {
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
    pub(crate) fn may_wake_readers(&self) -> bool {
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
    pub(crate) fn is_settled(&self) -> bool {
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

    pub(crate) fn consumed(&mut self, home: HomeId, lane: Lane, requests: u32, bytes: u64) {
        let room = self.links.homes[usize::from(home)].room(lane);
        debug_assert!(
            requests <= room.inflight && bytes <= room.inflight_bytes,
            "a home consumes what it was sent"
        );
        room.inflight = room.inflight.saturating_sub(requests);
        room.inflight_bytes = room.inflight_bytes.saturating_sub(bytes);
        self.give_room(home, lane);
    }

    pub(crate) fn log_stalled(&mut self, home: HomeId, log: u16, is_stalled: bool) {
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
