//! Items of a SUBSCRIBE or UNSUBSCRIBE that wait for a later turn (`edge::flow::items`).

use stdx::handing::Hand;

/// The maximum work of all items in one turn of an edge.
pub(crate) const WORK_TURN_MAX: u32 = 16_384;
/// The minimum work of one item: a request to a home, and an answer.
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
    pub fn buffered_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}
