//! What one thread's TLS has done and holds: counters that only this thread writes and anybody may
//! read.

use std::sync::atomic::{AtomicU64, Ordering};
use stdx::Counters;

/// Counters of one [`crate::Tls`], shared with whoever reports them. Relaxed: each number is right
/// by itself.
#[derive(Debug, Default)]
pub struct Counters {
    pub(crate) handshakes_full: AtomicU64,
    pub(crate) handshakes_resumed: AtomicU64,
    pub(crate) failed_plain_http: AtomicU64,
    pub(crate) failed_no_agreement: AtomicU64,
    pub(crate) failed_refused_by_peer: AtomicU64,
    pub(crate) failed_malformed: AtomicU64,
    pub(crate) failed_gone: AtomicU64,
    pub(crate) faults: AtomicU64,
    pub(crate) truncated: AtomicU64,
    pub(crate) key_updates: AtomicU64,
    pub(crate) handshaking: AtomicU64,
    pub(crate) open_tls12: AtomicU64,
    pub(crate) open_tls13: AtomicU64,
    pub(crate) state_bytes: AtomicU64,
    pub(crate) buffer_bytes: AtomicU64,
}

/// The numbers at one moment; those of several threads can be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Counters)]
pub struct Statistics {
    /// Handshakes done with certificates.
    pub handshakes_full: u64,
    /// Handshakes done with a session ticket.
    pub handshakes_resumed: u64,
    /// Handshakes that failed because the peer spoke plain HTTP.
    pub failed_plain_http: u64,
    /// No version, suite, group or application protocol in common.
    pub failed_no_agreement: u64,
    /// The peer sent an alert: most often it does not know who signed the certificate.
    pub failed_refused_by_peer: u64,
    /// Anything else that was not a handshake.
    pub failed_malformed: u64,
    /// The peer went away, or was too slow, before the handshake was done.
    pub failed_gone: u64,
    /// Established connections that a fault of the peer's records, or its fatal alert, has ended.
    pub faults: u64,
    /// Established connections that the peer ended without saying so in TLS.
    pub truncated: u64,
    /// Key updates of TLS 1.3, of both directions.
    pub key_updates: u64,
    /// Handshakes under way now.
    pub handshaking: u64,
    /// Connections of TLS 1.2 now.
    pub open_tls12: u64,
    /// Connections of TLS 1.3 now.
    pub open_tls13: u64,
    /// Bytes of established connections' state, without buffers.
    pub state_bytes: u64,
    /// Bytes of unfinished records and handshakes, and of what a socket did not take.
    pub buffer_bytes: u64,
}

impl Counters {
    /// The numbers now.
    pub fn statistics(&self) -> Statistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            handshakes_full: read(&self.handshakes_full),
            handshakes_resumed: read(&self.handshakes_resumed),
            failed_plain_http: read(&self.failed_plain_http),
            failed_no_agreement: read(&self.failed_no_agreement),
            failed_refused_by_peer: read(&self.failed_refused_by_peer),
            failed_malformed: read(&self.failed_malformed),
            failed_gone: read(&self.failed_gone),
            faults: read(&self.faults),
            truncated: read(&self.truncated),
            key_updates: read(&self.key_updates),
            handshaking: read(&self.handshaking),
            open_tls12: read(&self.open_tls12),
            open_tls13: read(&self.open_tls13),
            state_bytes: read(&self.state_bytes),
            buffer_bytes: read(&self.buffer_bytes),
        }
    }
}

/// One writer: no atomic addition is needed.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}

pub(crate) fn subtract(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).saturating_sub(amount), Ordering::Relaxed);
}
