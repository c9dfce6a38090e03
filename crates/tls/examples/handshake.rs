//! What the library's server half of a handshake costs, and sealing and opening: the floor of `docs/performance.md`.
//!
//! Client and server talk in memory, and only the server's steps are timed, by the thread's own CPU clock. Usage:
//! `handshake CERTIFICATE KEY COUNT`.

use rustix::time::{ClockId, clock_gettime};
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};
use std::sync::Arc;
use std::time::Duration;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [certificate, key, count] = &arguments[..] else {
        eprintln!("usage: handshake CERTIFICATE KEY COUNT");
        std::process::exit(2);
    };
    let count: u32 = count.parse().expect("a number");
    let chain: Vec<_> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(key).expect("a key");
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(chain.clone());
    let provider = Arc::new(default_provider());
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[version])
            .expect("a version")
            .with_no_client_auth()
            .with_single_cert(chain.clone(), key.clone_key())
            .expect("certificate and key");
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.ticketer = Ticketer::new().expect("randomness");
        server.send_tls13_tickets = 1;
        let server = Arc::new(server);
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[version])
            .expect("a version")
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        let mut fresh = client.clone();
        fresh.resumption = rustls::client::Resumption::disabled();
        for (name, config) in [("full", fresh), ("resumed", client)] {
            let config = Arc::new(config);
            // The first one fetches a ticket, and warms up.
            handshake(&server, &config);
            let (mut time, mut resumed) = (Duration::ZERO, 0);
            for _ in 0..count {
                let (spent, is_resumed) = handshake(&server, &config);
                time += spent;
                resumed += u32::from(is_resumed);
            }
            println!(
                "{:?} {name}: {:?} of server CPU each; {resumed} of {count} were resumed",
                version.version,
                time / count
            );
        }
    }
}

/// One handshake; what the server spent, and whether it was resumed.
fn handshake(server: &Arc<ServerConfig>, client: &Arc<ClientConfig>) -> (Duration, bool) {
    let name = "localhost".try_into().expect("a name");
    let mut client = ClientConnection::new(Arc::clone(client), name).expect("a client");
    let mut spent = Duration::ZERO;
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let mut connection = None;
    loop {
        while client.wants_write() {
            client.write_tls(&mut to_server).expect("memory");
        }
        let begin = cpu_time();
        let connection = connection.get_or_insert_with(|| {
            UnbufferedServerConnection::new(Arc::clone(server)).expect("one")
        });
        let is_done = serve(connection, &mut to_server, &mut to_client);
        spent += cpu_time() - begin;
        let mut records = &to_client[..];
        while !records.is_empty() {
            client.read_tls(&mut records).expect("memory");
            client.process_new_packets().expect("a good server");
        }
        to_client.clear();
        if is_done && !client.is_handshaking() && !client.wants_write() {
            let resumed = client.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
            return (spent, resumed);
        }
    }
}

/// What this thread has spent so far; others that share the core do not count.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What the library has to do with what has come; whether the handshake is done.
fn serve(
    connection: &mut UnbufferedServerConnection,
    incoming: &mut Vec<u8>,
    outgoing: &mut Vec<u8>,
) -> bool {
    loop {
        let status = connection.process_tls_records(incoming);
        let discard = status.discard;
        let mut is_done = None;
        match status.state.expect("a good client") {
            ConnectionState::EncodeTlsData(mut data) => {
                let begin = outgoing.len();
                if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
                    outgoing.resize(begin + size.required_size, 0);
                    data.encode(&mut outgoing[begin..]).expect("room");
                }
            }
            ConnectionState::TransmitTlsData(data) => data.done(),
            ConnectionState::BlockedHandshake => is_done = Some(false),
            ConnectionState::WriteTraffic(_) => is_done = Some(true),
            _ => panic!("nothing else is sent"),
        }
        incoming.drain(..discard);
        if let Some(is_done) = is_done {
            return is_done && !connection.is_handshaking();
        }
    }
}
