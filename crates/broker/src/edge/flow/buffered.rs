//! Unfinished input: counts what each connection buffers, and ends the connection with the most.
//!
//! Step 2 of the path, behind a test of one flag; the bounds are those of
//! `edge::connections::buffered`.

use crate::edge::Edge;
use crate::edge::connections::buffered::Came;
use crate::edge::ends::End;
use crate::ids::{ConnIndex, NONE};
use crate::protocol::flag;
use wire::native::CloseCode;

impl Edge {
    /// Counts the buffered bytes of a connection, and ends the largest holders while all together
    /// buffer too much.
    #[inline]
    pub(crate) fn count_input(&mut self, index: ConnIndex, came: Came) {
        let slot = &self.connections.slots[index];
        if slot.is(flag::UNFINISHED) || slot.input != NONE || slot.state != NONE {
            self.count_buffered_input(index, came);
        }
    }

    /// Counts it where nothing has come: the state or the user of the connection has changed.
    pub(crate) fn count_buffered(&mut self, index: ConnIndex) {
        self.count_input(index, Came::default());
    }

    fn count_buffered_input(&mut self, index: ConnIndex, came: Came) {
        let Some(bytes) = self.buffered_bytes_of(index) else {
            return self.connections.release_buffered(index);
        };
        let is_unentitled = self.is_anonymous(index);
        let now_s = self.now_s();
        self.connections.slots[index].set(flag::UNFINISHED);
        self.connections.buffered.hold(index, bytes, is_unentitled, came, now_s);
        let bytes_max = self.settings.limits.pinned_bytes_max;
        while let Some(largest) = self.connections.buffered.first_to_end(bytes_max) {
            self.statistics.input_closed +=
                u64::from(!self.connections.slots[largest].is(flag::DEAD));
            self.note_end(largest, End::UNFINISHED_INPUT);
            self.abort(largest);
            self.drop_buffered(largest);
        }
    }

    /// Bytes of buffers with unfinished frames, messages, heads and bodies of a connection; none if
    /// it has no such thing.
    fn buffered_bytes_of(&self, index: ConnIndex) -> Option<u64> {
        let slot = &self.connections.slots[index];
        if slot.is(flag::DEAD) {
            return None;
        }
        let of_input = self.connections.input_bytes(index);
        let of_state = self.sessions.get(slot.state);
        let of_state = of_state.and_then(|state| state.buffered_bytes());
        of_input
            .into_iter()
            .chain(of_state)
            .reduce(|one, other| one + other)
            .map(|bytes| bytes as u64)
    }

    /// Gives back the buffers of a connection that ends with this turn.
    fn drop_buffered(&mut self, index: ConnIndex) {
        self.connections.release_buffered(index);
        self.connections.drop_input(index);
        let state = self.sessions.get(self.connections.slots[index].state);
        if state.is_some_and(|state| state.is_open_unit()) {
            self.take_state(index);
        }
    }

    /// Whether a buffer should be no larger than it has to be.
    pub(crate) fn is_short_of_input(&self) -> bool {
        self.connections.buffered.bytes() > self.settings.limits.pinned_bytes_max / 2
    }

    /// Whether a node that asks for tokens has not accepted one from this client, so far.
    pub(crate) fn is_anonymous(&self, index: ConnIndex) -> bool {
        self.settings.entitlement.is_some() && self.connections.slots[index].entitlement == NONE
    }

    /// The longest message or body that a connection may send where others may send this much: less
    /// before HELLO, and without an accepted credential.
    pub(crate) fn input_bytes_max(&self, index: ConnIndex, bytes_max: u32) -> u32 {
        if self.connections.slots[index].facts().awaits_hello || self.is_anonymous(index) {
            bytes_max.min(self.settings.limits.anonymous_input_bytes_max)
        } else {
            bytes_max
        }
    }

    /// The longest payload that a connection may publish, in bytes. Frames of a client without a
    /// credential have room for topic and tags beside it; a body over HTTP is the payload.
    pub(crate) fn payload_bytes_max(&self, index: ConnIndex) -> u32 {
        let payload_bytes_max = self.settings.limits.message_bytes_max;
        if self.is_anonymous(index) && !self.connections.slots[index].facts().answers_requests {
            payload_bytes_max
                .min(self.settings.limits.anonymous_input_bytes_max.saturating_sub(ENVELOPE_BYTES))
        } else {
            payload_bytes_max
        }
    }

    /// Sweeps a connection with unfinished input. True: the input stands still, and the connection
    /// ends.
    pub(crate) fn sweep_buffered(&mut self, index: ConnIndex) -> bool {
        let now_s = self.now_s();
        let timeout_ms = u64::from(self.settings.limits.unfinished_input_timeout_ms);
        let slot = &self.connections.slots[index];
        let is_read = !slot.is(flag::PAUSED | flag::RESUMED | flag::CHOKED | flag::HELD);
        if !self.connections.buffered.stands_still(index, is_read, now_s, timeout_ms) {
            return false;
        }
        self.statistics.input_timeouts += 1;
        if slot.facts().answers_requests {
            self.handshake_timed_out(index);
        } else if slot.is(flag::BLOCKED) {
            self.note_end(index, End::of_node(CloseCode::InputTimeout.number()));
            self.abort(index);
        } else {
            self.close_native(index, CloseCode::InputTimeout);
        }
        true
    }
}

/// Maximum bytes of a PUBLISH beside its payload: topic, content type, tags, numbers.
const ENVELOPE_BYTES: u32 = 8 << 10;
