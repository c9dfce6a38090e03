//! SUBSCRIBE and UNSUBSCRIBE of many items, spread over turns.
//!
//! Step 3 of the path. A frame may have ten thousand items, and each costs an edge and its homes
//! much more than its bytes do: a subscription to a filter asks every home where each of its
//! partitions stands. So an edge has a budget for a turn, in units of about a microsecond. When
//! that is used up, or a home has no room, or the client does not take its answers, the rest of the
//! frame is kept and goes on in a later turn; others are served in between.
//!
//! Invariants: items are dealt with in order, and nothing that comes behind a frame before all of
//! its items; a turn deals with at least one item of each frame that has its turn, so that every
//! frame ends.

use stdx::handing::Hand;

/// What all items of a turn may cost an edge.
pub(crate) const WORK_TURN_MAX: u32 = 16_384;
/// What one item costs at least: a request to a home, and an answer.
pub(crate) const ITEM_WORK: u32 = 4;

/// Items of a frame that wait for a later turn.
#[derive(Hand)]
pub(crate) struct Items {
    pub kind: Kind,
    pub count: usize,
    pub bytes: Vec<u8>,
    /// Bytes of items that are done.
    pub done: usize,
}

#[derive(Clone, Copy, Hand)]
pub(crate) enum Kind {
    Subscribe,
    Unsubscribe,
}

impl Items {
    /// Bytes that are kept for them.
    pub fn kept_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}
