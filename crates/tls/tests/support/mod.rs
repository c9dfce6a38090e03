//! A network in memory under [`tls::Tls`], and rustls itself as the peer at the other end of its
//! links.
#![allow(dead_code, missing_docs)]

use net::{Close, Conn, Event, Net, Read, Write};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tls::{Client, ClientSettings, Roots, Server, ServerSettings, Tls};

/// One connection: what the peer has sent and we have not read, and the other way round.
#[derive(Debug)]
pub struct Link {
    pub to_us: VecDeque<u8>,
    pub to_us_ended: bool,
    pub from_us: Vec<u8>,
    /// Bytes that a write still finds room for.
    pub room: usize,
    /// Bytes that one read gives at most.
    pub read_max: usize,
    pub shut: bool,
    pub closed: Option<Close>,
    /// The network loses it in the next poll.
    pub reset: bool,
    listener: Option<u8>,
    is_announced: bool,
    read_told: bool,
    write_blocked: bool,
    is_dead: bool,
}

impl Link {
    fn new(listener: Option<u8>) -> Link {
        Link {
            to_us: VecDeque::new(),
            to_us_ended: false,
            from_us: Vec::new(),
            room: usize::MAX,
            read_max: usize::MAX,
            shut: false,
            closed: None,
            reset: false,
            listener,
            is_announced: false,
            read_told: false,
            write_blocked: false,
            is_dead: false,
        }
    }
}

/// The network. Keeps the rules of [`net`] to the letter, and checks that its caller does.
#[derive(Clone, Debug, Default)]
pub struct Fake {
    links: Rc<RefCell<Vec<Link>>>,
    pub reads: Rc<RefCell<usize>>,
    pub writes: Rc<RefCell<usize>>,
}

impl Fake {
    /// A peer connects to this listener.
    pub fn accept(&self, listener: u8) -> Conn {
        self.add(Some(listener))
    }

    /// We connect to a peer.
    pub fn connect(&self) -> Conn {
        self.add(None)
    }

    fn add(&self, listener: Option<u8>) -> Conn {
        let mut links = self.links.borrow_mut();
        links.push(Link::new(listener));
        Conn { index: links.len() as u32 - 1, generation: 1 }
    }

    pub fn with<T>(&self, conn: Conn, look: impl FnOnce(&mut Link) -> T) -> T {
        look(&mut self.links.borrow_mut()[conn.index as usize])
    }

    /// Another epoll watches the socket, and reports unread bytes again.
    pub fn tell_anew(&self, conn: Conn) {
        self.with(conn, |link| link.read_told = false);
    }

    fn alive<T>(&self, conn: Conn, look: impl FnOnce(&mut Link) -> T) -> Option<T> {
        self.with(conn, |link| (!link.is_dead && link.closed.is_none()).then(|| look(link)))
    }
}

impl Net for Fake {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        assert!(timeout.is_some(), "a test that would wait for ever");
        for (index, link) in self.links.borrow_mut().iter_mut().enumerate() {
            let conn = Conn { index: index as u32, generation: 1 };
            if link.closed.is_some() || link.is_dead {
                continue;
            }
            if !link.is_announced {
                link.is_announced = true;
                let peer = "127.0.0.1:1".parse().unwrap();
                events.push(match link.listener {
                    Some(listener) => Event::Accepted { conn, peer, listener },
                    None => Event::Connected(conn),
                });
            }
            if link.reset {
                link.is_dead = true;
                let reason = io::ErrorKind::ConnectionReset;
                events.push(Event::Closed { conn, reason });
                continue;
            }
            if !link.read_told && (!link.to_us.is_empty() || link.to_us_ended) {
                link.read_told = true;
                events.push(Event::Readable(conn));
            }
            if link.write_blocked && link.room > 0 {
                link.write_blocked = false;
                events.push(Event::Writable(conn));
            }
        }
        Ok(())
    }

    fn read(&mut self, conn: Conn, buffer: &mut [u8]) -> Read {
        assert!(!buffer.is_empty());
        *self.reads.borrow_mut() += 1;
        let read = self.alive(conn, |link| {
            let count = buffer.len().min(link.to_us.len()).min(link.read_max);
            if count == 0 {
                if link.to_us_ended {
                    return Read::Ended;
                }
                link.read_told = false;
                return Read::Blocked;
            }
            for (place, byte) in buffer.iter_mut().zip(link.to_us.drain(..count)) {
                *place = byte;
            }
            if count < buffer.len() {
                link.read_told = false;
            }
            Read::Data(count)
        });
        read.unwrap_or(Read::Failed(io::ErrorKind::NotConnected))
    }

    fn write(&mut self, conn: Conn, parts: &[IoSlice<'_>]) -> Write {
        *self.writes.borrow_mut() += 1;
        let written = self.alive(conn, |link| {
            if link.shut {
                return Write::Failed(io::ErrorKind::BrokenPipe);
            }
            let bytes: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
            let count = bytes.len().min(link.room);
            link.from_us.extend_from_slice(&bytes[..count]);
            link.room -= count;
            if count < bytes.len() {
                link.write_blocked = true;
            }
            if count == 0 && !bytes.is_empty() { Write::Blocked } else { Write::Wrote(count) }
        });
        written.unwrap_or(Write::Failed(io::ErrorKind::NotConnected))
    }

    fn shutdown_write(&mut self, conn: Conn) {
        self.alive(conn, |link| link.shut = true);
    }

    fn close(&mut self, conn: Conn, how: Close) {
        self.alive(conn, |link| link.closed = Some(how));
    }

    fn pause_accepting(&mut self) {}

    fn resume_accepting(&mut self) {}
}

/// A directory of this test process.
pub fn scratch() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let directory = std::env::temp_dir().join(format!("crore-tls-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// Certificate and key of `localhost`, in files; everything of a process uses one pair.
pub fn files() -> &'static (PathBuf, PathBuf) {
    static FILES: LazyLock<(PathBuf, PathBuf)> =
        LazyLock::new(|| write_pair(&scratch(), "localhost"));
    &FILES
}

pub fn write_pair(directory: &Path, name: &str) -> (PathBuf, PathBuf) {
    let now_s =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let pair = tls::self_signed(&[name.to_owned()], 2, now_s - 3_600).unwrap();
    let (certificate, key) = (directory.join("cert.pem"), directory.join("key.pem"));
    std::fs::write(&certificate, pair.certificate_pem()).unwrap();
    std::fs::write(&key, pair.key_pem()).unwrap();
    (certificate, key)
}

pub fn server() -> Server {
    let (certificate_file, key_file) = files().clone();
    Server::load(ServerSettings { certificate_file, key_file, tls12: true, clients: None })
        .unwrap()
        .0
}

pub fn client(tls12_only: bool, resume: bool) -> Client {
    let roots = Roots::File(files().0.clone());
    Client::load(&ClientSettings { roots, resume, tls12_only, identity: None }).unwrap()
}

/// All suites of the library, one provider each, with the version that each belongs to.
pub fn providers() -> Vec<(Arc<CryptoProvider>, &'static SupportedProtocolVersion, String)> {
    let all = default_provider().cipher_suites;
    all.into_iter()
        .map(|suite| {
            let provider = CryptoProvider { cipher_suites: vec![suite], ..default_provider() };
            let version = if suite.tls13().is_some() {
                &rustls::version::TLS13
            } else {
                &rustls::version::TLS12
            };
            (Arc::new(provider), version, format!("{:?}", suite.suite()))
        })
        // Our certificate is one of ECDSA.
        .filter(|(_, _, name)| !name.contains("ECDHE_RSA"))
        .collect()
}

pub fn rustls_client(
    provider: Arc<CryptoProvider>,
    version: &'static SupportedProtocolVersion,
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files().0).unwrap()).unwrap();
    ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

pub fn rustls_server(
    provider: Arc<CryptoProvider>,
    version: &'static SupportedProtocolVersion,
) -> ServerConfig {
    let (certificate, key) = files();
    let certificate = CertificateDer::from_pem_file(certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap()
}

pub fn rustls_client_connection(config: ClientConfig) -> Connection {
    let name = "localhost".try_into().unwrap();
    ClientConnection::new(Arc::new(config), name).unwrap().into()
}

pub fn rustls_server_connection(config: ServerConfig) -> Connection {
    ServerConnection::new(Arc::new(config)).unwrap().into()
}

/// One link with `Tls` at our end and rustls at the other.
pub struct Pair {
    pub tls: Tls<Fake>,
    pub fake: Fake,
    pub conn: Conn,
    pub peer: Connection,
    /// Bytes of records that cross at a time, in either direction.
    pub chunk: usize,
    pub events: Vec<Event>,
    /// The bytes that our side and the peer have read.
    pub ours: Vec<u8>,
    pub theirs: Vec<u8>,
    pub read_bytes: usize,
    pub readable: bool,
    pub last_read: Read,
    pub peer_error: Option<rustls::Error>,
    pub peer_saw_end: bool,
}

impl Pair {
    /// We are the server.
    pub fn serving(server: &Server, peer: Connection) -> Pair {
        let fake = Fake::default();
        let mut tls = Tls::new(fake.clone());
        tls.serve(0, server);
        let conn = fake.accept(0);
        Pair::new(tls, fake, conn, peer)
    }

    /// We are the client.
    pub fn asking(client: &Client, peer: Connection) -> Pair {
        let fake = Fake::default();
        let mut tls = Tls::new(fake.clone());
        let conn = fake.connect();
        tls.start(conn, client, "localhost").unwrap();
        Pair::new(tls, fake, conn, peer)
    }

    fn new(tls: Tls<Fake>, fake: Fake, conn: Conn, peer: Connection) -> Pair {
        Pair {
            tls,
            fake,
            conn,
            peer,
            chunk: usize::MAX,
            events: Vec::new(),
            ours: Vec::new(),
            theirs: Vec::new(),
            read_bytes: 64 << 10,
            readable: false,
            last_read: Read::Blocked,
            peer_error: None,
            peer_saw_end: false,
        }
    }

    /// One turn of everything; whether anything moved.
    pub fn turn(&mut self) -> bool {
        let unread = |pair: &Pair| pair.fake.with(pair.conn, |link| link.to_us.len());
        let before = (self.ours.len(), self.theirs.len(), self.events.len());
        let moved_to_peer = self.carry_to_peer();
        let moved_to_us = self.carry_to_us();
        let unread_before = unread(self);
        let mut events = Vec::new();
        self.tls.poll(Some(Duration::ZERO), &mut events).unwrap();
        for event in &events {
            if *event == Event::Readable(self.conn) {
                assert!(!self.readable, "Readable is said once");
                self.readable = true;
            }
        }
        self.events.extend(events);
        self.read_some();
        let after = (self.ours.len(), self.theirs.len(), self.events.len());
        let has_read = unread(self) != unread_before;
        moved_to_peer || moved_to_us || has_read || before != after || self.readable
    }

    /// Turns until nothing moves.
    pub fn settle(&mut self) {
        for _ in 0..2_000_000 {
            // Two turns without anything: what one turn queued, the next one does.
            if !self.turn() && !self.turn() && !self.turn() {
                return;
            }
        }
        panic!("it never settles");
    }

    pub fn established(&self) -> bool {
        !self.peer.is_handshaking()
    }

    fn read_some(&mut self) {
        if !self.readable {
            return;
        }
        let mut buffer = vec![0; self.read_bytes];
        self.last_read = self.tls.read(self.conn, &mut buffer);
        match self.last_read {
            Read::Data(count) => {
                self.ours.extend_from_slice(&buffer[..count]);
                self.readable = count == buffer.len();
            }
            Read::Blocked | Read::Ended | Read::Failed(_) => self.readable = false,
        }
    }

    fn carry_to_peer(&mut self) -> bool {
        let chunk = self.chunk;
        let bytes: Vec<u8> = self.fake.with(self.conn, |link| {
            let count = link.from_us.len().min(chunk);
            link.from_us.drain(..count).collect()
        });
        if bytes.is_empty() || self.peer_error.is_some() {
            return !bytes.is_empty();
        }
        let saw_end = &mut self.peer_saw_end;
        self.peer_error = give(&mut self.peer, &bytes, &mut self.theirs, saw_end).err();
        true
    }

    fn carry_to_us(&mut self) -> bool {
        let mut bytes = Vec::new();
        while self.peer.wants_write() {
            self.peer.write_tls(&mut bytes).unwrap();
        }
        let chunk = self.chunk;
        self.fake.with(self.conn, |link| {
            // The output of rustls waits in order, and arrives in chunks.
            link.to_us.extend(&bytes);
            link.read_max = chunk;
        });
        !bytes.is_empty()
    }

    pub fn peer_writes(&mut self, text: &[u8]) {
        self.peer.set_buffer_limit(None);
        self.peer.writer().write_all(text).unwrap();
    }

    /// Writes all of it, waiting for room where there is none.
    pub fn we_write(&mut self, text: &[u8]) {
        let mut wrote = 0;
        for _ in 0..1_000_000 {
            match self.tls.write(self.conn, &[IoSlice::new(&text[wrote..])]) {
                Write::Wrote(count) => wrote += count,
                Write::Blocked => {}
                Write::Failed(kind) => panic!("{kind}"),
            }
            if wrote == text.len() {
                return;
            }
            self.turn();
        }
        panic!("no room ever");
    }
}

/// Gives bytes to a peer. What it reads goes behind `text`, and that our direction has ended to
/// `saw_end`.
///
/// # Errors
/// The peer refuses them.
pub fn give(
    peer: &mut Connection,
    mut bytes: &[u8],
    text: &mut Vec<u8>,
    saw_end: &mut bool,
) -> Result<(), rustls::Error> {
    while !bytes.is_empty() && peer.read_tls(&mut bytes).is_ok() {
        let state = peer.process_new_packets()?;
        *saw_end |= state.peer_has_closed();
        let read = text.len();
        text.resize(read + state.plaintext_bytes_to_read(), 0);
        peer.reader().read_exact(&mut text[read..]).unwrap();
    }
    Ok(())
}

/// Bytes that are not all alike.
pub fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut random = stdx::prng::Prng::new(seed);
    (0..length).map(|_| random.below(256) as u8).collect()
}
