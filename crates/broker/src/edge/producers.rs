//! Which of two connections of a producer is the newer one.
//!
//! A home lets the newest connection of a producer publish and fences the older ones. A native connection is as old as
//! its HELLO, whatever it sends later: bytes of a connection that its client has given up may be read long after
//! the next one has begun, and must not fence that. An HTTP request is as old as itself, because clients pool their
//! connections. The stamp is in milliseconds of the clock that all edges share. Of the same millisecond neither connection
//! fences the other; their order is kept by the sequences then.
//!
//! A slot keeps the low half of the stamp. A session that has lasted for longer than half its range, 24 days, counts as
//! 24 days old; the sweep over all slots sees to that.

use super::Edge;

/// The greatest age that a stamp tells, in milliseconds.
const AGE_MS_MAX: u32 = 1 << 31;

impl Edge {
    /// The connection is served from now on. Until then its stamp says when it was accepted.
    pub(crate) fn count_handshake(&mut self, index: u32) {
        let took_ms = age_ms(self.now.monotonic_ms, self.slots[index].hello_ms);
        self.statistics
            .handshakes
            .record(u64::from(took_ms) * 1_000);
    }

    /// The session, or before it the connection, begins now.
    pub(crate) fn stamp_hello(&mut self, index: u32) {
        self.slots[index].hello_ms = self.now.monotonic_ms as u32; // the low half
    }

    /// The stamp of a native connection.
    pub(crate) fn producer_stamp(&self, index: u32) -> u64 {
        let now_ms = self.now.monotonic_ms;
        now_ms.saturating_sub(age_ms(now_ms, self.slots[index].hello_ms).into())
    }

    /// The stamp of a request that has just come.
    pub(crate) fn request_stamp(&self) -> u64 {
        self.now.monotonic_ms
    }

    /// How long ago the session of a native connection began, in milliseconds; at most 24 days, whatever is longer.
    pub(super) fn session_age_ms(&self, index: u32) -> u32 {
        age_ms(self.now.monotonic_ms, self.slots[index].hello_ms).min(AGE_MS_MAX)
    }

    /// Keeps the age of an old session within what a slot can tell. Called for each now and then.
    pub(super) fn age_hello(&mut self, index: u32) {
        let hello_ms = self.slots[index].hello_ms;
        self.slots[index].hello_ms = kept(self.now.monotonic_ms, hello_ms);
    }
}

/// How long ago that was.
fn age_ms(now_ms: u64, hello_ms: u32) -> u32 {
    (now_ms as u32).wrapping_sub(hello_ms) // of the low halves
}

/// The same moment, or the earliest that can be told.
fn kept(now_ms: u64, hello_ms: u32) -> u32 {
    match age_ms(now_ms, hello_ms) {
        0..=AGE_MS_MAX => hello_ms,
        _ => (now_ms as u32).wrapping_sub(AGE_MS_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However long a session lasts, it stays older than those that begin after it.
    #[test]
    fn sessions_of_a_year() {
        const DAY_MS: u64 = 86_400_000;
        let first_ms = 5_000_000_000;
        let mut hello_ms = first_ms as u32;
        for day in 0..366 {
            let now_ms = first_ms + day * DAY_MS;
            hello_ms = kept(now_ms, hello_ms);
            let expected = (day * DAY_MS).min(AGE_MS_MAX.into());
            assert_eq!(u64::from(age_ms(now_ms, hello_ms)), expected, "day {day}");
        }
    }
}
