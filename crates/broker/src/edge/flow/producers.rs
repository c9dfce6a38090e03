//! Stamps of publications: which of two connections of a producer is the newer one.
//!
//! The rules are those of [`OldSessions`](super::super::connections::producers::OldSessions).

use crate::edge::Edge;
use crate::edge::connections::producers::{AGE_MS_MAX, age_ms};
use crate::ids::ConnIndex;
use crate::protocol::flag;

impl Edge {
    /// The connection is served from now on. Until then its stamp says when it was accepted.
    pub(crate) fn count_handshake(&mut self, index: ConnIndex) {
        let took_ms = age_ms(self.now.monotonic_ms, self.connections.slots[index].hello_ms);
        self.statistics.handshakes.record(u64::from(took_ms) * 1_000);
    }

    /// The session, or before it the connection, begins now.
    pub(crate) fn stamp_hello(&mut self, index: ConnIndex) {
        self.connections.slots[index].hello_ms = self.now.monotonic_ms as u32; // the low half
    }

    /// The stamp of a native connection, which publishes as a producer.
    pub(crate) fn producer_stamp(&mut self, index: ConnIndex) -> u64 {
        let slot = &mut self.connections.slots[index];
        slot.set(flag::PRODUCES);
        self.connections.old_sessions.stamp(index, slot, self.now.monotonic_ms)
    }

    /// The stamp of a request that has just come.
    pub(crate) fn request_stamp(&self) -> u64 {
        self.now.monotonic_ms
    }

    /// How long ago the session of a native connection began, in milliseconds; at most 24 days,
    /// whatever is longer.
    pub(crate) fn session_age_ms(&self, index: ConnIndex) -> u32 {
        age_ms(self.now.monotonic_ms, self.connections.slots[index].hello_ms).min(AGE_MS_MAX)
    }
}
