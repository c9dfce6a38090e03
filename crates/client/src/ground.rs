//! The world of the shell: sockets, clock and random numbers.
//!
//! Place: below the shell. [`Sockets`] is the real one; the scenarios of `spec/scenarios` run the
//! same shell on a ground with virtual time and no sockets.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::kernel::{ConnectOptions, Handover, Kernel, KernelOptions, Waker};
use net::{Close, Conn, Event, Net, Read, Write};
use stdx::prng::Prng;
use tls::{ClientSettings, Tls};

use crate::session::Reason;
use crate::url::Endpoint;

/// Everything that the shell needs from outside; [`Net`] has the contracts of the first four.
pub trait Ground {
    /// Waits for events, at most for `timeout`.
    ///
    /// # Errors
    /// The network as a whole is unusable.
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()>;
    /// Reads into `buffer`.
    fn read(&mut self, conn: Conn, buffer: &mut [u8]) -> Read;
    /// Writes `bytes`.
    fn write(&mut self, conn: Conn, bytes: &[u8]) -> Write;
    /// Ends the connection in the next poll.
    fn close(&mut self, conn: Conn);
    /// Begins a connection. `attempt` selects one of the addresses of the endpoint's name.
    ///
    /// # Errors
    /// The reason why there is no connection.
    fn open(&mut self, endpoint: &Endpoint, attempt: u32) -> Result<Conn, Reason>;
    /// The failure of TLS that ended this connection.
    fn take_failure(&mut self, conn: Conn) -> Option<String>;
    /// A monotonic clock.
    fn now_ms(&self) -> u64;
    /// A random number, uniformly distributed over `0..=max`.
    fn random(&mut self, max: u64) -> u64;
}

/// The sockets and the clock of the operating system.
pub(crate) struct Sockets {
    net: Tls<Kernel>,
    /// The TLS client, if an endpoint uses TLS.
    tls: Option<tls::Client>,
    settings: ClientSettings,
    started: Instant,
    random: Prng,
}

impl Sockets {
    pub(crate) fn new(
        waker: Arc<Waker>,
        tls: Option<tls::Client>,
        settings: ClientSettings,
    ) -> io::Result<Sockets> {
        let options = KernelOptions { connections_max: 4, ..KernelOptions::default() };
        Ok(Sockets {
            net: Tls::new(Kernel::new(options, waker, Handover::alone())?),
            tls,
            settings,
            started: Instant::now(),
            random: Prng::new(seed_from_entropy()),
        })
    }

    fn start_tls(&mut self, conn: Conn, host: &str) -> Result<(), String> {
        // Loaded at the start if any URL has TLS; a go-away may name the first one.
        let client = match &self.tls {
            Some(client) => client,
            None => {
                let client = tls::Client::load(&self.settings);
                self.tls.insert(client.map_err(|error| error.to_string())?)
            }
        };
        self.net.start(conn, client, host).map_err(|error| error.to_string())
    }
}

impl Ground for Sockets {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.net.poll(timeout, events)
    }

    fn read(&mut self, conn: Conn, buffer: &mut [u8]) -> Read {
        self.net.read(conn, buffer)
    }

    fn write(&mut self, conn: Conn, bytes: &[u8]) -> Write {
        self.net.write(conn, &[IoSlice::new(bytes)])
    }

    fn close(&mut self, conn: Conn) {
        self.net.close(conn, Close::Graceful);
    }

    fn open(&mut self, endpoint: &Endpoint, attempt: u32) -> Result<Conn, Reason> {
        let addresses: Vec<SocketAddr> = (endpoint.host.as_str(), endpoint.port)
            .to_socket_addrs()
            .map(Iterator::collect)
            .unwrap_or_default();
        if addresses.is_empty() {
            return Err(Reason::NameNotFound);
        }
        // The attempts use all addresses of a name in turn.
        let address = addresses[attempt as usize % addresses.len()];
        let opened = self.net.net_mut().connect(address, &ConnectOptions::default());
        let conn = opened.map_err(|error| Reason::Network(error.kind()))?;
        if endpoint.is_tls
            && let Err(failure) = self.start_tls(conn, &endpoint.host)
        {
            self.close(conn);
            return Err(Reason::Tls(failure));
        }
        Ok(conn)
    }

    fn take_failure(&mut self, conn: Conn) -> Option<String> {
        self.net.take_failure(conn)
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn random(&mut self, max: u64) -> u64 {
        self.random.between(0, max)
    }
}

/// A seed from the operating system, through the standard library's keys for hash maps.
fn seed_from_entropy() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
