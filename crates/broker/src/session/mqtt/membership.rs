//! Memberships in groups: the shared subscriptions of a session.

use crate::mail::{PartitionCursor, PartitionId};
use std::collections::VecDeque;
use stdx::chunk::Slice;
use stdx::handing::Hand;

/// A shared subscription.
#[derive(Hand)]
pub(crate) struct Membership {
    /// The edge's own number of it; never 0.
    pub number: u64,
    /// The name of the group, `/`, and the filter.
    pub group: Box<str>,
    /// The options of the subscription, as a number.
    pub options: u32,
    /// The place of its filter in a SUBSCRIBE without an answer.
    pub place: Option<u32>,
    /// Homes that have not answered.
    pub unjoined: u16,
    /// The client has unsubscribed, and has not acknowledged every message.
    pub is_leaving: bool,
    /// Everything up to here is acknowledged by the members of the group.
    pub cursors: Vec<PartitionCursor>,
    /// Messages that wait for room in the window. The homes bound their number.
    pub waiting: VecDeque<ForMember>,
}

/// A message of a group for this member.
#[derive(Clone, Hand)]
pub(crate) struct ForMember {
    pub partition: PartitionId,
    pub topic: Slice,
    pub record: Slice,
}

impl Membership {
    /// The group has acknowledged everything up to a position.
    pub fn note_cursor(&mut self, cursor: PartitionCursor) {
        match self.cursors.binary_search_by_key(&cursor.partition, |it| it.partition) {
            Ok(at) => self.cursors[at] = cursor,
            Err(at) => self.cursors.insert(at, cursor),
        }
    }
}
