//! Which suites are offered and taken, and in which order.
//!
//! Place: under the configurations of servers and clients. What it is for: the hash of a suite is a
//! tenth to a third of a handshake's cost (docs/decisions/0008-tls-handshakes.md).

use rustls::SupportedCipherSuite;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider};

/// The library's suites, all of them, in the order in which we like them: AES-128 with SHA-256
/// first, because processors have instructions for both and seldom for SHA-384.
#[doc(hidden)]
pub fn cipher_suites() -> Vec<SupportedCipherSuite> {
    vec![
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ]
}

/// The cryptography of both sides.
pub(crate) fn provider() -> CryptoProvider {
    CryptoProvider { cipher_suites: cipher_suites(), ..default_provider() }
}
