//! Frames into outboxes: room in the ring first, then the frame, then its place for each
//! connection.
//!
//! Step 9 of the path. Invariant: room is reserved before a frame with a cursor is encoded, because
//! making room may take cursors back.

use crate::edge::Edge;
use crate::edge::outbox::{BODY_COPY_MAX, FrameNumber, Origin, Queued};
use crate::ids::{ConnIndex, SubIndex};
use crate::protocol::flag;
use stdx::chunk::Slice;

impl Edge {
    /// Queues an answer for one connection.
    pub(crate) fn send_private(&mut self, index: ConnIndex, bytes: &[u8]) {
        let place = self.enter_bytes(&[bytes], Origin::Private);
        self.push_place(index, place);
    }

    /// Makes room in the ring for one frame of at most `bytes_max` bytes. Older frames are dropped
    /// for it, even frames of the same connection, and the cursors of their subscriptions go back.
    /// A frame that carries a cursor is therefore written after this call, and only if
    /// [`Edge::takes_through`] or `Subscriptions::is_catching_up_at` still allows it.
    pub(crate) fn reserve(&mut self, bytes_max: usize) {
        let body_bytes = if bytes_max > BODY_COPY_MAX { bytes_max } else { 0 };
        self.make_room(bytes_max.min(BODY_COPY_MAX), body_bytes);
    }

    fn make_room(&mut self, len: usize, body_bytes: usize) {
        if let Some(limit) = self.outboxes.victims(len, body_bytes) {
            self.evict_before(limit);
            self.outboxes.drop_before(limit);
        }
    }

    /// Whether a plain subscription takes what ends at this offset: it does not lag, or lags only
    /// from there on.
    pub(crate) fn takes_through(&self, subscription: SubIndex, offset: u64) -> bool {
        offset <= self.subscriptions[subscription].lag_from()
    }

    /// Puts a frame into the ring, after making room for it.
    pub(crate) fn enter(&mut self, parts: &[&[u8]], body: Slice, origin: Origin) -> FrameNumber {
        let len = parts.iter().map(|part| part.len()).sum();
        self.make_room(len, body.len());
        self.outboxes.enter(parts, body, origin)
    }

    /// Puts bytes into the ring, beside it when they are many.
    pub(crate) fn enter_bytes(&mut self, parts: &[&[u8]], origin: Origin) -> FrameNumber {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len > BODY_COPY_MAX {
            self.enter(&[], Slice::concatenation_of(parts), origin)
        } else {
            self.enter(parts, Slice::empty(), origin)
        }
    }

    /// Queues a frame of the ring for a connection.
    pub(crate) fn push_place(&mut self, index: ConnIndex, place: FrameNumber) {
        let len_max = self.settings.limits.outbox_len_max;
        if self.outboxes.push(&mut self.connections.slots, index, place, len_max) == Queued::TooLong
        {
            self.spill(index, None);
        }
    }

    /// Marks the connection for the next flush even if no frame waits.
    pub(crate) fn mark_dirty(&mut self, index: ConnIndex) {
        if !self.connections.slots[index].is(flag::DEAD) {
            self.outboxes.mark_dirty(&mut self.connections.slots, index);
        }
    }

    /// Bytes that the outbox of this connection owns.
    pub(crate) fn owned_bytes(&self, index: ConnIndex) -> usize {
        self.outboxes.owned_bytes(&self.connections.slots[index])
    }
}
