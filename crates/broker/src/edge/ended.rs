//! Plain topics whose subscriptions have ended while frames for them wait in the outbox.
//!
//! Beside the path, between UNSUBSCRIBE and the flush. What waits of such a topic is not sent: a new subscription to the same
//! topic would be taken for the one that has to read it again. One walk through the outbox drops the frames of all topics
//! that have ended since the last, because a frame may end ten thousand subscriptions: a walk for each would cost the square.
//!
//! Invariant: an outbox is rid of these frames before it is written or spilled.

use super::Edge;
use super::ring::{Origin, Place};
use crate::mail::HomeId;
use std::collections::BTreeMap;
use stdx::blocks::List;
use stdx::handing::Hand;

/// Topics, by home and index, each with the place behind the last frame that a subscription was given before it ended.
type Topics = BTreeMap<(HomeId, u32), Place>;

/// Topics that have ended, by connection.
#[derive(Default, Hand)]
pub(super) struct Ended {
    by_connection: BTreeMap<u32, Topics>,
}

impl Ended {
    /// Whether no outbox has such frames.
    pub fn is_empty(&self) -> bool {
        self.by_connection.is_empty()
    }
}

impl Edge {
    /// A subscription to a topic has ended: what waits of it is not sent.
    pub(super) fn end_topic(&mut self, index: u32, home: HomeId, topic: u32) {
        if self.slots[index].places.is_empty() {
            return;
        }
        let behind = self.ring.next_place();
        let topics = self.ended.by_connection.entry(index).or_default();
        topics.insert((home, topic), behind);
    }

    /// Takes the frames of topics that have ended out of an outbox.
    pub(super) fn drop_ended(&mut self, index: u32) {
        let Some(topics) = self.ended.by_connection.remove(&index) else {
            return;
        };
        let mut list = std::mem::take(&mut self.slots[index].places);
        let mut kept = List::new();
        while let Some(place) = self.lists.pop_front(&mut list) {
            let has_ended = match self.ring.origin(place) {
                Origin::Plain { home, index, .. } => topics
                    .get(&(home, index))
                    .is_some_and(|behind| self.ring.is_before(place, *behind)),
                _ => false,
            };
            if !has_ended {
                self.lists.push(&mut kept, place);
            }
        }
        self.slots[index].places = kept;
    }

    /// The same for all outboxes.
    pub(super) fn drop_all_ended(&mut self) {
        while let Some((&index, _)) = self.ended.by_connection.first_key_value() {
            self.drop_ended(index);
        }
    }

    /// The connection goes, and its outbox with it.
    pub(super) fn forget_ended(&mut self, index: u32) {
        self.ended.by_connection.remove(&index);
    }
}
