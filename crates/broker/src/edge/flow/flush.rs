//! Flush: writes the queued frames, and continues work that waited for an empty outbox.
//!
//! Step 10 of the path. Invariant: output that an empty outbox allows (the next page, the answers
//! to buffered input) goes out in the same flush.

use crate::edge::Edge;
use crate::edge::ends::End;
use crate::edge::outbox::{Flushed, Writer};
use crate::ids::ConnIndex;
use crate::protocol::flag;
use stdx::key::Key;

impl Edge {
    /// Whether so much is waiting to be flushed that the turn should do it now.
    pub fn wants_flush(&self) -> bool {
        self.outboxes.has_unflushed(self.settings.limits.ring_bytes as usize / 4)
    }

    /// Writes the queued frames, once for each connection with something new, vectored. `write` is
    /// the socket.
    pub fn flush(&mut self, write: &mut Writer<'_>) {
        self.outboxes.begin_flush();
        if self.subscriptions.have_losses() {
            self.leave_lost_streams();
        }
        self.wake_readers();
        let mut at = 0;
        while let Some(index) = self.outboxes.next_dirty(&mut self.connections.slots, &mut at) {
            if self.connections.slots[index].is(flag::GATED) {
                self.write_record_first(index);
                continue;
            }
            let limits = &self.settings.limits;
            let written_bytes = &mut self.statistics.written_bytes;
            match self.outboxes.flush(
                &mut self.connections.slots,
                index,
                limits,
                written_bytes,
                write,
            ) {
                Flushed::Drained => self.drained(index),
                Flushed::Full(None) => {}
                Flushed::Full(Some(excess)) => self.end_slow(index, excess),
                Flushed::Failed => {
                    self.note_end(index, End::LOST);
                    self.abort(index);
                }
            }
        }
        self.outboxes.end_flush(&mut self.connections.slots);
        self.end_aborted();
        self.outboxes.rewind();
    }

    /// The socket has room again.
    pub fn writable(&mut self, key: Key) {
        if self.connections.slots.get(key).is_some() {
            self.connections.slots[ConnIndex(key.index)].clear(flag::BLOCKED);
            self.outboxes.mark_dirty(&mut self.connections.slots, ConnIndex(key.index));
        }
    }

    /// The connection's outbox is empty.
    fn drained(&mut self, index: ConnIndex) {
        self.subscriptions.end_recoveries(index);
        let slot = &mut self.connections.slots[index];
        if slot.is(flag::CLOSING) {
            self.finish(index);
            return;
        }
        // Before anything else is queued: the cursors are those of the frames that were written.
        self.ticket_may_go_on(index);
        if self.connections.slots[index].is(flag::CLOSING) {
            return;
        }
        if self.connections.slots[index].is(flag::CHOKED) {
            self.connections.slots[index].clear(flag::CHOKED);
            self.resume(index);
        }
        if self.connections.slots[index].is(flag::OWED) {
            self.owe_positions(index);
        }
        if self.connections.slots[index].is(flag::LAGGING) {
            self.read_lagging(index);
        }
        if self.connections.slots[index].facts().answers_requests {
            self.poll_settled(index);
        }
    }
}
