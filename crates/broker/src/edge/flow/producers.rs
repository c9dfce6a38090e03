//! Ages of sessions: stamps of publications, and how long handshakes take.

use crate::edge::Edge;
use crate::ids::ConnIndex;

impl Edge {
    /// Stamps a connection that is served from now on. Until then it has the stamp of its accept.
    pub(crate) fn count_handshake(&mut self, index: ConnIndex) {
        let took_ms = self.connections.session_age_ms(index, self.now);
        self.statistics.handshakes.record(u64::from(took_ms) * 1_000);
    }

    /// The session, or before it the connection, begins now.
    pub(crate) fn stamp_hello(&mut self, index: ConnIndex) {
        self.connections.begin_session(index, self.now);
    }

    /// The stamp of a native connection, which publishes as a producer.
    pub(crate) fn producer_stamp(&mut self, index: ConnIndex) -> u64 {
        self.connections.producer_stamp(index, self.now)
    }

    /// The stamp of a request that has just come.
    pub(crate) fn request_stamp(&self) -> u64 {
        self.now.monotonic_ms
    }
}
