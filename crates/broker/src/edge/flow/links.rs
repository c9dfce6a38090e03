//! Requests to homes: posts them, and pauses and resumes the connections that wait for room.
//!
//! Step 4 of the path. The counts and their bounds are those of `edge::links`.

use crate::edge::Edge;
use crate::ids::{ConnIndex, NONE};
use crate::mail::{HomeId, PartitionId, RequestClass, ToHome};
use crate::protocol::flag;

impl Edge {
    /// Whether a home has room for another request that it answers from memory.
    pub(crate) fn may_request(&self, home: HomeId) -> bool {
        self.links.may_request(home, &self.settings.limits)
    }

    /// Whether all homes have room for requests.
    pub(crate) fn has_room(&self) -> bool {
        self.links.full_home(&self.settings.limits).is_none()
    }

    /// Whether a home has room for a page of a partition.
    pub(crate) fn may_read(&self, partition: PartitionId) -> bool {
        let (home, log) = (self.settings.home_of(partition), self.settings.log_number(partition));
        self.may_recover() && self.links.may_read(home, log, &self.settings.limits)
    }

    /// Whether publications of this cost together may still be sent to a partition; if not, its
    /// log does not keep up and has too much waiting.
    pub(crate) fn may_publish(&self, partition: PartitionId, cost: u64) -> bool {
        let log = self.settings.log_that_waits(partition);
        log.is_none_or(|log| self.links.may_publish(self.settings.home_of(partition), log, cost))
    }

    /// Has the connection examined when the home has room again for what it answers from memory.
    pub(crate) fn wait_for(&mut self, home: HomeId, index: ConnIndex) {
        self.links.wait(home, RequestClass::Memory, self.connections.slots.key(index));
    }

    /// Has the connection ask for pages of the partition when its turn has come.
    pub(crate) fn wait_to_read(&mut self, partition: PartitionId, index: ConnIndex) {
        let home = self.settings.home_of(partition);
        let class = RequestClass::Pages(self.settings.log_number(partition));
        self.links.wait(home, class, self.connections.slots.key(index));
    }

    /// Has the connections ask that wait for pages, as many as there is room for.
    pub(crate) fn wake_readers(&mut self) {
        if !self.may_recover() {
            return;
        }
        let Edge { links, connections, outboxes, settings, .. } = self;
        links.take_readers(&settings.limits, |key| {
            if connections.slots.get(key).is_some_and(|slot| !slot.is(flag::DEAD)) {
                outboxes.mark_dirty(&mut connections.slots, ConnIndex(key.index));
            }
        });
    }

    /// Whether a connection waits for a page that there is room for.
    pub(crate) fn may_wake_readers(&self) -> bool {
        self.may_recover() && self.links.has_readers(&self.settings.limits)
    }

    /// Whether the homes have answered everything but pages.
    pub(crate) fn is_settled(&self) -> bool {
        self.links.is_settled()
    }

    /// Stops reading from the connection while some home has no room for requests. False if all
    /// have.
    pub(crate) fn pause_for_room(&mut self, index: ConnIndex) -> bool {
        let full = self.links.full_home(&self.settings.limits);
        if let Some(home) = full {
            let key = self.connections.slots.key(index);
            let slot = &mut self.connections.slots[index];
            slot.set(flag::PAUSED);
            self.links.wait_in_turn(home, key, slot.is(flag::SERVED));
        }
        full.is_some()
    }

    /// Stops reading from the connection if the frame that it has just sent has brought a log on
    /// disk to its bound, or found it there.
    pub(crate) fn pause_for_log(&mut self, index: ConnIndex) {
        if let Some((home, log)) = self.links.take_full_log() {
            self.connections.slots[index].set(flag::PAUSED);
            self.links.wait(home, RequestClass::Disk(log), self.connections.slots.key(index));
        }
    }

    /// Posts a request. Callers that can wait have asked [`Edge::may_request`] or
    /// [`Edge::may_read`]; one frame's worth may go beyond.
    pub(crate) fn request(&mut self, home: HomeId, request: ToHome) {
        let class = request.class(&self.settings);
        self.links.post(home, class, request.cost(), &self.settings.limits);
        self.out.requests[usize::from(home)].push(request);
    }

    /// A frame begins: a log that filled before is not its doing.
    pub(crate) fn begin_frame(&mut self) {
        self.links.begin_frame();
    }

    /// Numbers a question for names.
    pub(crate) fn next_describe_number(&mut self) -> u32 {
        self.links.next_describe_number()
    }

    /// A home has handled requests of this class.
    pub(crate) fn consumed(
        &mut self,
        home: HomeId,
        class: RequestClass,
        requests: u32,
        bytes: u64,
    ) {
        self.links.consume(home, class, requests, bytes);
        self.go_on_waiting(home, class);
    }

    /// A log makes no progress, or does again.
    pub(crate) fn log_stalled(&mut self, home: HomeId, log: u16, is_stalled: bool) {
        for class in [RequestClass::Disk(log), RequestClass::Pages(log)] {
            self.links.set_stalled(home, class, is_stalled);
            self.go_on_waiting(home, class);
        }
    }

    /// Counts live bytes that have been handled, and gives credit back when it is worth a request.
    pub(crate) fn give_credit(&mut self, home: HomeId, bytes: u32) {
        if let Some(bytes) = self.links.credit(home, bytes, &self.settings.limits) {
            self.out.requests[usize::from(home)].push(ToHome::Credit { bytes });
        }
    }

    /// Resumes the connections that wait for a class, if it has room.
    fn go_on_waiting(&mut self, home: HomeId, class: RequestClass) {
        for key in self.links.take_waiting(home, class, &self.settings.limits) {
            let Some(slot) = self.connections.slots.get(key) else {
                continue;
            };
            // A long poll that lags waits for a page; its connection stays paused until it is
            // answered.
            if !slot.facts().answers_requests || slot.state == NONE {
                self.resume(ConnIndex(key.index));
            }
            if self.wants_ticket(ConnIndex(key.index)) {
                self.mark_dirty(ConnIndex(key.index));
            }
        }
    }
}
