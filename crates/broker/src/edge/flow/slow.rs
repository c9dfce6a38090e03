//! The end of a connection that does not take what it is sent: the rest of the frame begun on the
//! wire, then a close frame.
//!
//! Beside the path, behind a bound of the outbox. The client is to know why it was ended and that
//! it may resume, so a WebSocket connection is closed with 3002 `slow_consumer`, or with 3003
//! `pinned_bytes` where not its own bound was reached but that of all together. A begun frame has
//! to be complete before another one, so its rest goes first. The end comes with the flush, as for
//! every connection that is aborted: until then the edge may be in the middle of a delivery.
//!
//! Invariants: nothing is queued for such a connection any more; all of them together keep at most
//! a part of `pinned_bytes_max` ([`ENDING_PART`]), beside that; a client that does not read is
//! reset after `keep_alive_timeout`. Where the rest does not fit, and on HTTP, which has no word
//! for it, the connection is reset at once.

use crate::edge::Edge;
use crate::edge::ends::End;
use crate::edge::excess::Excess;
use crate::ids::ConnIndex;
use crate::protocol::flag;
use wire::native::CloseCode;
use wire::websocket::close::{CloseCode as WebSocketClose, ClosePayload};
use wire::websocket::frame::{Opcode, encode};

/// Begun frames and close frames of all connections that end take at most this part of
/// `pinned_bytes_max`.
const ENDING_PART: u64 = 8;

impl Edge {
    /// Ends a connection with too many owned bytes: by its own bound, or by that of all together.
    pub(crate) fn end_slow(&mut self, index: ConnIndex, excess: Excess) {
        let slot = &self.connections.slots[index];
        if slot.is(flag::DEAD) {
            return;
        }
        self.statistics.slow_closed += 1;
        self.statistics.slow_closed_for_all += u64::from(excess == Excess::Shared);
        let is_websocket = slot.facts().is_websocket;
        // A connection that closes already has sent its reason.
        if is_websocket && !slot.is(flag::CLOSING) {
            self.note_end(index, End::of_node(code_of(excess).number()));
            self.connections.end_slow(index, excess);
        } else {
            self.note_end(index, End::SLOW);
        }
        self.abort(index);
    }

    /// Gives the connections that end in this turn their close frames. The others that were aborted
    /// are reset.
    pub(crate) fn close_ending(&mut self) {
        for (key, excess) in self.connections.take_ending() {
            let (index, code) = (ConnIndex(key.index), code_of(excess));
            // It may have been lost meanwhile.
            if self.connections.slots.get(key).is_some() && self.keep_begun(index, code) {
                self.connections.slots[index].clear(flag::DEAD | flag::CHOKED);
                self.note_close(index, Some(code.number()));
                self.close(index);
            }
        }
    }

    /// Drops all that waits but the frame that is begun, and puts the close frame behind it. False
    /// without room for them.
    fn keep_begun(&mut self, index: ConnIndex, code: CloseCode) -> bool {
        let mut close = Vec::new();
        let payload = ClosePayload::new(WebSocketClose(code.number()), code.text());
        encode(&mut close, true, Opcode::Close, payload.as_bytes(), None);
        let bytes_max = self.settings.limits.pinned_bytes_max / ENDING_PART;
        self.outboxes.keep_begun(&mut self.connections.slots, index, &close, bytes_max)
    }
}

fn code_of(excess: Excess) -> CloseCode {
    match excess {
        Excess::Own => CloseCode::SlowConsumer,
        Excess::Shared => CloseCode::PinnedBytes,
    }
}
