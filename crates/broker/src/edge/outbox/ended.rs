//! Plain topics whose subscriptions have ended while frames for them wait in the outbox.
//!
//! Beside the path, between UNSUBSCRIBE and the flush. Frames of such a topic are not sent: the
//! client would take them for frames of a new subscription to the same topic, which has to read
//! them again. One walk through the outbox drops the frames of all topics that have ended since the
//! last walk. A frame may end ten thousand subscriptions, and a walk for each would cost the
//! square.
//!
//! Invariant: an outbox is rid of these frames before it is written or spilled.

use super::FrameNumber;
use crate::ids::ConnIndex;
use crate::mail::HomeId;
use std::collections::BTreeMap;
use stdx::handing::Hand;

/// Topics, by home and index, each with the place behind the last frame of the ended subscription.
pub(super) type Topics = BTreeMap<(HomeId, u32), FrameNumber>;

/// Topics that have ended, by connection.
#[derive(Default, Hand)]
pub(super) struct Ended {
    by_connection: BTreeMap<ConnIndex, Topics>,
}

impl Ended {
    /// Whether no outbox has such frames.
    pub fn is_empty(&self) -> bool {
        self.by_connection.is_empty()
    }

    /// Notes that a connection's topic has ended; its frames end before the place `behind`.
    pub fn end(&mut self, index: ConnIndex, topic: (HomeId, u32), behind: FrameNumber) {
        self.by_connection.entry(index).or_default().insert(topic, behind);
    }

    /// Takes the ended topics of a connection.
    pub fn take(&mut self, index: ConnIndex) -> Option<Topics> {
        self.by_connection.remove(&index)
    }

    /// Takes the ended topics of any connection.
    pub fn take_first(&mut self) -> Option<(ConnIndex, Topics)> {
        self.by_connection.pop_first()
    }
}
