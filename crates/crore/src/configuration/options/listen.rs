//! Options of the listeners for clients, plain and with TLS.

use super::spec::{KIB, MANY, MIB, count, count_or_auto, options, size, text};
use super::typed::{choice, choices};
use crate::configuration::value::Kind;
use std::net::SocketAddr;
use std::path::PathBuf;
use stdx::networks::Networks;

options! {
    /// Addresses, and settings of the kernel for each connection.
    section "listen": Listen;

    /// Addresses for clients. An address beyond loopback needs entitlement.mode = "tokens", or
    /// listen.open.
    clients: Vec<SocketAddr> = "127.0.0.1:8800", Kind::Addresses, Restart;
    /// Serve every client that can reach the node, even with authentication off (entitlement.mode =
    /// "open"): every client can then publish and read everything. If listen.clients is not given,
    /// it becomes 0.0.0.0:8800.
    open: bool = "false", Kind::Boolean, Restart;
    /// Addresses of health, metrics and the live page. An empty list serves none.
    operators: Vec<SocketAddr> = "127.0.0.1:8801", Kind::Addresses, Restart;
    /// Connections that the kernel queues for each I/O thread. The kernel limits it to
    /// net.core.somaxconn.
    backlog: i32 = "4096", count(1, 1 << 20), Restart;
    /// The kernel's send buffer for each connection. Without this limit the kernel keeps megabytes
    /// for every client that does not read.
    socket_send_bytes: usize = "32KiB", size(4 * KIB, 16 * MIB), Restart;
    /// Required: connections to listen.clients come from proxies (listen.proxies) and begin with a
    /// header of the PROXY protocol, version 1 or 2, with the client's address. The node closes
    /// others.
    proxy_protocol: ProxyProtocol = "off", choice::<ProxyProtocol>(), Restart;
    /// Addresses of proxies that may send a PROXY header, to listen.clients and tls.listen.
    proxies: Networks = "", Kind::Networks, Restart;
    /// Connections of listen.clients together; more get 503. Auto: no separate limit.
    connections_max: Option<u32> = "auto", count_or_auto(1, MANY), Restart;
    /// New connections of listen.clients in a second, with a burst of the same number; more get
    /// 429. Auto: no limit.
    connect_rate_max: Option<u32> = "auto", count_or_auto(1, MANY), Restart;
}

options! {
    /// TLS for clients, beside the plain addresses. On when a certificate is given. A reload reads
    /// the files again.
    section "tls": Tls;

    /// Addresses for clients with TLS (https, wss). An address beyond loopback needs
    /// entitlement.mode = "tokens", or listen.open, which makes it 0.0.0.0:8843 if it is not given.
    listen: Vec<SocketAddr> = "127.0.0.1:8843", Kind::Addresses, Restart;
    /// The certificate in PEM, followed by its intermediate certificates. `crore tls self-signed`
    /// generates one for tests.
    certificate_file: Option<PathBuf> = example "/etc/crore/cert.pem", text(4_096), Restart;
    /// The certificate's private key in PEM, without a passphrase.
    key_file: Option<PathBuf> = example "/etc/crore/key.pem", text(4_096), Restart;
    /// The authorities (CA) that sign certificates of clients, in PEM. Clients are then asked for a
    /// certificate, on tls.listen and mqtt.tls_listen. With entitlement.mode = "tokens", a client
    /// that shows no other credential is the user with the certificate's common name (or first
    /// alternative name) until the certificate expires, and has that user's grants.
    client_ca_file: Option<PathBuf> = example "/etc/crore/clients-ca.pem", text(4_096), Restart;
    /// required: a client without a certificate is refused. optional: it may show a token, an API
    /// key or a password instead.
    client_certificates: ClientCertificates = "required", choice::<ClientCertificates>(), Restart;
    /// Lists of revoked certificates (CRL, version 2) in PEM, one of each authority. Connections
    /// that are open when a reload reads it again stay.
    client_crl_file: Option<PathBuf> = example "/etc/crore/clients-crl.pem", text(4_096), Restart;
    /// The oldest version of TLS that the node accepts.
    version_min: TlsVersion = "1.2", choice::<TlsVersion>(), Restart;
    /// Like listen.proxy_protocol, for tls.listen; the header comes before TLS.
    proxy_protocol: ProxyProtocol = "off", choice::<ProxyProtocol>(), Restart;
    /// Connections of tls.listen together; the node closes more. Auto: no separate limit.
    connections_max: Option<u32> = "auto", count_or_auto(1, MANY), Restart;
    /// New connections of tls.listen in a second, with a burst of the same number; the node closes
    /// more. Auto: no limit.
    connect_rate_max: Option<u32> = "auto", count_or_auto(1, MANY), Restart;
}

/// Whether connections begin with a header of the PROXY protocol.
#[derive(PartialEq, Eq)]
pub enum ProxyProtocol {
    /// None does.
    Off,
    /// Each does.
    Required,
}

choices! { ProxyProtocol: Off = "off", Required = "required" }

/// Whether clients must show a certificate.
#[derive(PartialEq, Eq)]
pub enum ClientCertificates {
    /// They must.
    Required,
    /// They may.
    Optional,
}

choices! { ClientCertificates: Required = "required", Optional = "optional" }

/// A version of TLS.
#[derive(PartialEq, Eq)]
pub enum TlsVersion {
    /// 1.2.
    V12,
    /// 1.3.
    V13,
}

choices! { TlsVersion: V12 = "1.2", V13 = "1.3" }
