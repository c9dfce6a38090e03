//! Families of TLS that several counters make: handshakes, connections by version, and bytes.

use super::families::Families;
use tls::Statistics;

/// Families of TLS; all zero without TLS, so that dashboards need no special case.
pub fn write(families: &mut Families, tls: &Statistics) {
    families.counters(
        "crore_tls_handshakes_total",
        "Completed TLS handshakes: full, or resumed with a ticket.",
        "kind",
        &[("full", tls.handshakes_full), ("resumed", tls.handshakes_resumed)],
    );
    families.counters(
        "crore_tls_handshakes_failed_total",
        "Failed TLS handshakes by cause: plain HTTP, no common parameters, an alert of the client, a certificate of the client that is missing, has expired, was signed by an unknown authority, is revoked or invalid, malformed input, or the client closed the connection.",
        "reason",
        &[
            ("plain_http", tls.failed_plain_http),
            ("no_agreement", tls.failed_no_agreement),
            ("refused_by_client", tls.failed_refused_by_peer),
            ("certificate_missing", tls.failed_certificate_missing),
            ("certificate_expired", tls.failed_certificate_expired),
            ("certificate_unknown", tls.failed_certificate_unknown),
            ("certificate_revoked", tls.failed_certificate_revoked),
            ("certificate_invalid", tls.failed_certificate_invalid),
            ("malformed", tls.failed_malformed),
            ("gone", tls.failed_gone),
        ],
    );
    families.gauges(
        "crore_tls_connections",
        "Established TLS connections, by version.",
        "version",
        &[("1.2", tls.open_tls12), ("1.3", tls.open_tls13)],
    );
    families.gauges(
        "crore_tls_bytes",
        "Memory of TLS: keys of established connections and states of handshakes, without the library's own allocations; buffers of incomplete records and of unsent output.",
        "part",
        &[("state", tls.state_bytes), ("buffers", tls.buffer_bytes)],
    );
}
