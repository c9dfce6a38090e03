//! CPU time of a server for a handshake: the TLS library alone, and `Tls` over a network of plain
//! memory.
//!
//! Client and server talk in memory, and only the server's steps are measured, by the CPU clock of
//! the thread: creation of its state, the steps, and the release of unneeded state. The client and
//! the end of the connection are not. Three servers take turns: the library with its own order of
//! suites, the library with ours, and [`tls::Tls`].

use crate::thread_time;
use net::{Close, Conn, Event, Net, Read, Write};
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConfig,
    SupportedProtocolVersion,
};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tls::{Server, ServerSettings, Tls};

/// Handshakes with one server until the next has its turn.
const BLOCK: u32 = 50;

/// The handshakes.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Certificate, as a PEM file.
    certificate: PathBuf,
    /// Its private key, as a PEM file.
    key: PathBuf,
    /// Number of handshakes of each server.
    count: u32,
    /// Time in microseconds that the thread sleeps before each step of the server: the cost of the
    /// same work on a core that slept.
    #[arg(long, value_name = "US", conflicts_with = "only")]
    pause: Option<u64>,
    /// Only this case and server, by the name that is printed, without reading the clock: for
    /// `callgrind --toggle-collect=*measured*`.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// Measures every server with every kind of handshake.
///
/// # Errors
/// A handshake fails.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let pause = options.pause.map(Duration::from_micros);
    let (count, only) = (options.count, options.only.as_ref());
    let files = Files { certificate: &options.certificate, key: &options.key };
    let versions = [&rustls::version::TLS13, &rustls::version::TLS12];
    for (version, resumes) in versions.iter().flat_map(|one| [(*one, false), (*one, true)]) {
        let kind = if resumes { "resumed" } else { "full" };
        let mut lines = Vec::new();
        for peer in Peer::all(&files, version, resumes) {
            let name = format!("{:?} {kind}, {}", version.version, peer.name);
            if only.is_none_or(|only| *only == name) {
                lines.push((name, peer, Vec::new()));
            }
        }
        let mut done = 0;
        while done < count {
            let block = BLOCK.min(count - done);
            for (_, peer, times) in &mut lines {
                let timing = Timing { is_timed: only.is_none(), pause };
                times.push(peer.block(block, resumes, timing) / block);
            }
            done += block;
        }
        for (name, peer, mut times) in lines {
            times.sort();
            println!(
                "{name}: {:?} of server CPU each, the median of {} blocks ({:?})",
                times[times.len() / 2],
                times.len(),
                peer.suite,
            );
        }
    }
    Ok(())
}

struct Files<'a> {
    certificate: &'a Path,
    key: &'a Path,
}

/// A server, and a client for it that keeps its tickets.
struct Peer {
    name: &'static str,
    server: AnyServer,
    client: Arc<ClientConfig>,
    suite: Option<CipherSuite>,
}

enum AnyServer {
    Library(Arc<ServerConfig>),
    Ours(Box<Tls<Memory>>),
}

impl Peer {
    fn all(
        files: &Files<'_>,
        version: &'static SupportedProtocolVersion,
        resumes: bool,
    ) -> Vec<Peer> {
        let settings = ServerSettings {
            certificate_file: files.certificate.to_owned(),
            key_file: files.key.to_owned(),
            tls12: true,
            clients: None,
        };
        let (server, _) = Server::load(settings).expect("certificate and key");
        let mut tls = Tls::new(Memory::default());
        tls.serve(0, &server);
        let ours = AnyServer::Ours(Box::new(tls));
        let plain = AnyServer::Library(library(files, version, false));
        let ordered = AnyServer::Library(library(files, version, true));
        [
            ("the library alone", plain),
            ("the library with our order of suites", ordered),
            ("Tls", ours),
        ]
        .map(|(name, server)| Peer {
            name,
            server,
            client: client(files, version, resumes),
            suite: None,
        })
        .into()
    }

    /// CPU time of the server for this number of handshakes.
    fn block(&mut self, count: u32, resumes: bool, timing: Timing) -> Duration {
        if self.suite.is_none() {
            // Fetches a ticket, and warms up.
            self.handshake(timing);
        }
        let mut spent = Duration::ZERO;
        for _ in 0..count {
            let (time, kind) = self.handshake(timing);
            let expected = if resumes { HandshakeKind::Resumed } else { HandshakeKind::Full };
            assert_eq!(kind, Some(expected));
            spent += time;
        }
        spent
    }

    fn handshake(&mut self, timing: Timing) -> (Duration, Option<HandshakeKind>) {
        let name = "localhost".try_into().expect("a name");
        let mut client = ClientConnection::new(Arc::clone(&self.client), name).expect("a client");
        let mut half =
            Half { connection: None, incoming: Vec::new(), outgoing: Vec::new(), is_done: false };
        if let AnyServer::Ours(tls) = &mut self.server {
            tls.net_mut().begin();
        }
        let mut spent = Duration::ZERO;
        while !half.is_done || client.is_handshaking() || client.wants_write() {
            let incoming = match &mut self.server {
                AnyServer::Library(_) => &mut half.incoming,
                AnyServer::Ours(tls) => &mut tls.net_mut().incoming,
            };
            while client.wants_write() {
                client.write_tls(incoming).expect("memory");
            }
            if let Some(pause) = timing.pause {
                std::thread::sleep(pause);
            }
            // Valgrind does not let us look for the clock.
            let begin = timing.is_timed.then(thread_time);
            measured(&mut self.server, &mut half);
            spent += begin.map_or(Duration::ZERO, |begin| thread_time() - begin);
            let mut records = &half.outgoing[..];
            while !records.is_empty() {
                client.read_tls(&mut records).expect("memory");
                client.process_new_packets().expect("a good server");
            }
            half.outgoing.clear();
        }
        self.suite = client.negotiated_cipher_suite().map(|suite| suite.suite());
        if let AnyServer::Ours(tls) = &mut self.server {
            let conn = tls.net().conn();
            tls.close(conn, Close::Reset);
        }
        (spent, client.handshake_kind())
    }
}

/// The timing of the server's steps.
#[derive(Clone, Copy)]
struct Timing {
    is_timed: bool,
    /// Before each of them.
    pause: Option<Duration>,
}

/// One server's half of one handshake.
struct Half {
    /// The library's state.
    connection: Option<UnbufferedServerConnection>,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    is_done: bool,
}

/// The measured part: all that the server does with its input.
#[inline(never)]
fn measured(server: &mut AnyServer, half: &mut Half) {
    match server {
        AnyServer::Library(config) => {
            let connection = half.connection.get_or_insert_with(|| {
                UnbufferedServerConnection::new(Arc::clone(config)).expect("one")
            });
            if serve(connection, &mut half.incoming, &mut half.outgoing) {
                half.is_done = true;
                half.connection = None;
            }
        }
        AnyServer::Ours(tls) => {
            let mut events = Vec::new();
            // Twice: what one poll leaves to be sent with the first answer, the next one sends.
            for _ in 0..2 {
                tls.poll(Some(Duration::ZERO), &mut events).expect("memory");
            }
            half.is_done = tls.net().is_told && tls.counters().statistics().handshaking == 0;
            std::mem::swap(&mut half.outgoing, &mut tls.net_mut().outgoing);
        }
    }
}

fn library(
    files: &Files<'_>,
    version: &'static SupportedProtocolVersion,
    in_our_order: bool,
) -> Arc<ServerConfig> {
    let mut provider = default_provider();
    if in_our_order {
        provider.cipher_suites = tls::cipher_suites();
    }
    let mut server = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[version])
        .expect("a version")
        .with_no_client_auth()
        .with_single_cert(chain(files), PrivateKeyDer::from_pem_file(files.key).expect("a key"))
        .expect("certificate and key");
    server.ignore_client_order = in_our_order;
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.ticketer = Ticketer::new().expect("randomness");
    server.send_tls13_tickets = 1;
    Arc::new(server)
}

fn client(
    files: &Files<'_>,
    version: &'static SupportedProtocolVersion,
    resumes: bool,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(chain(files));
    let mut client = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[version])
        .expect("a version")
        .with_root_certificates(roots)
        .with_no_client_auth();
    if !resumes {
        client.resumption = rustls::client::Resumption::disabled();
    }
    Arc::new(client)
}

fn chain(files: &Files<'_>) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(files.certificate)
        .and_then(Iterator::collect)
        .expect("a certificate")
}

/// Processes the library's input; returns whether the handshake is complete.
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

/// A network of one connection, of which both directions are plain memory.
#[derive(Default)]
struct Memory {
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    generation: u32,
    /// `Accepted` was said.
    is_told: bool,
}

impl Memory {
    fn begin(&mut self) {
        self.incoming.clear();
        self.outgoing.clear();
        self.generation += 1;
        self.is_told = false;
    }

    fn conn(&self) -> Conn {
        Conn { index: 0, generation: self.generation }
    }
}

impl Net for Memory {
    fn poll(&mut self, _timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let conn = self.conn();
        if !self.is_told {
            self.is_told = true;
            events.push(Event::Accepted { conn, peer: ([127, 0, 0, 1], 1).into(), listener: 0 });
        }
        if !self.incoming.is_empty() {
            events.push(Event::Readable(conn));
        }
        Ok(())
    }

    fn read(&mut self, _conn: Conn, buffer: &mut [u8]) -> Read {
        let count = self.incoming.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.incoming[..count]);
        self.incoming.drain(..count);
        match count {
            0 => Read::Blocked,
            count => Read::Data(count),
        }
    }

    fn write(&mut self, _conn: Conn, parts: &[IoSlice<'_>]) -> Write {
        for part in parts {
            self.outgoing.extend_from_slice(part);
        }
        Write::Wrote(parts.iter().map(|part| part.len()).sum())
    }

    fn shutdown_write(&mut self, _conn: Conn) {}

    fn close(&mut self, _conn: Conn, _how: Close) {}

    fn pause_accepting(&mut self) {}

    fn resume_accepting(&mut self) {}
}
