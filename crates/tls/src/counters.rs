//! Counters of one thread's TLS: only this thread writes them, every thread may read them.

use std::sync::atomic::{AtomicU64, Ordering};
use stdx::Counters;
use stdx::metrics::Metrics;

/// The numbers of one [`crate::Tls`] at one moment; those of several threads can be added.
/// [`struct@Counters`] counts them, relaxed: each number is right by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Counters, Metrics)]
#[counters(shared = Counters)]
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
    /// A client showed no certificate, and must.
    pub failed_certificate_missing: u64,
    /// The certificate of a client has expired, or is not valid yet.
    pub failed_certificate_expired: u64,
    /// No trusted authority has signed the certificate of a client.
    pub failed_certificate_unknown: u64,
    /// The certificate of a client is revoked, or its authority has no list that says.
    pub failed_certificate_revoked: u64,
    /// The certificate of a client is malformed, or not one for clients.
    pub failed_certificate_invalid: u64,
    /// Anything else that was not a handshake.
    pub failed_malformed: u64,
    /// The peer went away, or was too slow, before the handshake was done.
    pub failed_gone: u64,
    /// Established TLS connections closed because of a faulty record or an alert of the client.
    #[metric("crore_tls_faults_total")]
    pub faults: u64,
    /// TLS connections that the client closed without a close_notify.
    #[metric("crore_tls_truncated_total")]
    pub truncated: u64,
    /// Key updates of TLS 1.3 sent by the node.
    #[metric("crore_tls_key_updates_total")]
    pub key_updates: u64,
    /// Connections before or in their TLS handshake.
    #[metric("crore_tls_handshaking")]
    pub handshaking: u64,
    /// Connections of TLS 1.2 now.
    pub open_tls12: u64,
    /// Connections of TLS 1.3 now.
    pub open_tls13: u64,
    /// Bytes of established connections' state, without buffers.
    pub state_bytes: u64,
    /// Bytes of unfinished records and handshakes, and of records that a socket did not take.
    pub buffer_bytes: u64,
}

/// One writer: no atomic addition is needed.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}

pub(crate) fn subtract(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).saturating_sub(amount), Ordering::Relaxed);
}
