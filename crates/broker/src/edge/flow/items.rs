//! SUBSCRIBE and UNSUBSCRIBE of many items, spread over turns.
//!
//! Step 3 of the path. A frame may have ten thousand items, and each costs an edge and its homes
//! much more than its bytes do: a subscription to a filter asks every home for the position of each
//! of its partitions. So an edge has a budget for a turn, in units of about a microsecond. Without
//! budget, without room at a home, or with a client that does not read its answers, the rest of the
//! frame is buffered for a later turn; others are served in between.
//!
//! Invariants: items are dealt with in order, and nothing that comes behind a frame before all of
//! its items; a turn deals with at least one item of each frame that has its turn, so that every
//! frame ends.

use crate::edge::{Edge, NONE, flag};
use crate::ids::ConnIndex;
use crate::session::State;
use crate::session::items::{ITEM_WORK, Items, Kind, WORK_TURN_MAX};
use crate::session::native::decode::subscribe_of;
use wire::native::{Element, ListIter, SubscribeItem};

impl Edge {
    /// A turn begins.
    pub(crate) fn renew_work(&mut self) {
        self.work.left = WORK_TURN_MAX;
    }

    /// A subscription to a filter has been asked for: every home examines all its partitions.
    pub(crate) fn charge_filter(&mut self) {
        let work = self.settings.partitions_count();
        self.work.left = self.work.left.saturating_sub(work);
    }

    /// The items of a SUBSCRIBE.
    pub(crate) fn subscribe_items<'a>(
        &mut self,
        index: ConnIndex,
        mut items: ListIter<'a, SubscribeItem<'a>>,
    ) {
        let is_left = self.take_items(index, &mut items, |edge, item| {
            edge.begin_subscription(index, item.subscription, subscribe_of(item.request));
        });
        if is_left {
            self.leave_items(index, Kind::Subscribe, items.rest());
        }
    }

    /// The items of an UNSUBSCRIBE.
    pub(crate) fn unsubscribe_items(&mut self, index: ConnIndex, mut items: ListIter<'_, u32>) {
        let is_left = self.take_items(index, &mut items, |edge, client| {
            edge.end_subscription(index, client);
        });
        if is_left {
            self.leave_items(index, Kind::Unsubscribe, items.rest());
        }
    }

    /// Whether items of a frame wait.
    pub(crate) fn has_items(&self, index: ConnIndex) -> bool {
        matches!(self.sessions.get(self.connections.slots[index].state), Some(State::Items(_)))
    }

    /// Continues with the items of a frame. True when none is left.
    pub(crate) fn continue_items(&mut self, index: ConnIndex) -> bool {
        if !self.has_items(index) {
            return true;
        }
        if let Some(State::Items(mut items)) = self.take_state(index) {
            let is_left = self.some_items(index, &mut items);
            if is_left {
                self.set_state(index, State::Items(items));
                self.go_on_later(index);
            }
        }
        self.count_buffered(index);
        !self.has_items(index)
    }

    fn some_items(&mut self, index: ConnIndex, items: &mut Items) -> bool {
        let rest = &items.bytes[items.done..];
        let (is_left, (count, rest)) = match items.kind {
            Kind::Subscribe => {
                let mut walk = ListIter::of_rest(items.count, rest);
                let is_left = self.take_items(index, &mut walk, |edge, item: SubscribeItem<'_>| {
                    edge.begin_subscription(index, item.subscription, subscribe_of(item.request));
                });
                (is_left, walk.rest())
            }
            Kind::Unsubscribe => {
                let mut walk = ListIter::of_rest(items.count, rest);
                let is_left = self.take_items(index, &mut walk, |edge, client| {
                    edge.end_subscription(index, client);
                });
                (is_left, walk.rest())
            }
        };
        (items.count, items.done) = (count, items.bytes.len() - rest.len());
        is_left
    }

    /// Handles items as far as the turn's budget allows, at least one. True if some are left.
    fn take_items<'a, T: Element<'a>>(
        &mut self,
        index: ConnIndex,
        items: &mut ListIter<'a, T>,
        mut take: impl FnMut(&mut Edge, T),
    ) -> bool {
        while !self.connections.slots[index].is(flag::CLOSING)
            && let Some(item) = items.next()
        {
            take(self, item);
            self.work.left = self.work.left.saturating_sub(ITEM_WORK);
            let is_over = self.work.left == 0 || !self.has_room() || self.is_choked(index);
            if is_over && items.len() > 0 && !self.connections.slots[index].is(flag::CLOSING) {
                return true;
            }
        }
        false
    }

    fn leave_items(&mut self, index: ConnIndex, kind: Kind, (count, bytes): (usize, &[u8])) {
        debug_assert!(self.connections.slots[index].state == NONE, "a frame is whole");
        let items = Items { kind, count, bytes: bytes.to_vec(), done: 0 };
        self.set_state(index, State::Items(items.into()));
        self.go_on_later(index);
    }

    /// In the next turn; or when a home has room.
    fn go_on_later(&mut self, index: ConnIndex) {
        if !self.pause_for_room(index) {
            self.connections.slots[index].set(flag::RESUMED);
            let key = self.connections.slots.key(index);
            self.spend(key);
        }
    }
}
