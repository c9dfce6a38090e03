//! One I/O thread: its network, the restored state of its home, and its reactor.
//!
//! A thread creates everything that it owns, after its network has taken the thread's descriptor
//! table.

use crate::admission::Admission;
use crate::door::{Door, DoorOptions};
use crate::journal::JournalSender;
use crate::log_thread::LogError;
use crate::mailbox::ThreadMailbox;
use crate::memory::MemfdMemory;
use crate::options::StartError;
use crate::pressure::SharedPressure;
use crate::proxied::{Proxied, ProxiedCounters, ProxiedOptions};
use crate::reactor::{Clock, Reactor, ReactorParts};
use crate::restore::Restoration;
use crate::upgrade::{Adoption, Given, adopt};
use crate::users::Users;
use broker::entitlement::Authenticator;
use broker::home::{Home, segments_max};
use broker::mail::HomeId;
use broker::now::Now;
use broker::settings::Settings;
use net::system::{Passage, give_up_start_rights};
use net::{Counters, ListenerOptions, Net, OpenOptions, Opened, Passing, Unopened};
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use zeroize::Zeroizing;

/// The answer to connections that no thread has room for.
const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n\
Content-Type: application/problem+json\r\nContent-Length: 126\r\n\r\n\
{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\
\"detail\":\"no room for connections\",\"code\":\"connections_full\"}";

/// The answer to such connections with TLS, before a handshake: the alert `internal_error` (RFC
/// 8446, 6.2).
const TLS_REFUSAL: &[u8] = &[21, 3, 3, 0, 2, 2, 80];

/// The start parameters of all threads.
pub(crate) struct Shared {
    pub settings: Arc<Settings>,
    /// Descriptors of the starting thread that every thread uses.
    pub keep: Vec<RawFd>,
    /// Number of listeners without TLS; they are the first ones.
    pub plain_count: usize,
    pub tls: Option<Arc<tls::Server>>,
    /// Listeners for proxies, if any.
    pub proxied: Option<ProxiedOptions>,
    /// The admission table; none without limits.
    pub admission: Option<Arc<Admission>>,
    pub users: Arc<Users>,
    /// Maximum connect rate per second of one thread.
    pub connect_rate_max: Option<u32>,
    pub pressure: Arc<SharedPressure>,
    pub hash_seed: (u64, u64),
    pub authenticator: Option<Arc<dyn Authenticator>>,
    pub journal: Option<JournalSender>,
    pub began: Instant,
}

/// A thread before its start.
pub(crate) struct ThreadParts<U> {
    pub id: u16,
    pub network: U,
    pub mailbox: ThreadMailbox,
    pub listen: Vec<SocketAddr>,
    pub shared: Arc<Shared>,
    /// The channel to the coordinator of an upgrade.
    pub own: Passage,
    /// The hand-over from the old process, if there is one.
    pub adoption: Option<Adoption>,
    /// The content of logs on disk for the home of this thread.
    pub restorations: Vec<Restoration>,
    /// The channel to its starter.
    pub ready: Sender<Result<Ready, StartError>>,
}

/// The report to the starter.
pub(crate) struct Ready {
    pub addresses: Vec<SocketAddr>,
    pub connections_max: u32,
    /// The network's notice for the operator.
    pub notice: Option<String>,
    pub counters: Arc<Counters>,
    pub tls_counters: Option<Arc<tls::Counters>>,
    pub proxied_counters: Option<Arc<ProxiedCounters>>,
}

impl<U: Unopened> ThreadParts<U> {
    /// Creates the thread's resources, answers its starter, and takes turns until it must
    /// stop.
    ///
    /// # Errors
    /// The network as a whole fails.
    pub fn run(self) -> io::Result<()> {
        let ready = self.ready.clone();
        match self.open() {
            Ok((opened, turning)) => turning.layered(opened, &ready),
            Err(error) => {
                // The starter waits for this answer.
                let _ = ready.send(Err(error));
                Ok(())
            }
        }
    }

    /// Opens the network first, because descriptors opened before would not be in its table.
    fn open(self) -> Result<(Opened<U::Net>, Turning), StartError> {
        let ThreadParts {
            id, network, mailbox, listen, shared, own, adoption, restorations, ..
        } = self;
        let mut keep = shared.keep.clone();
        keep.extend(adoption.iter().map(|adoption| adoption.way.descriptor()));
        // Each segment of the thread's home needs a descriptor (`MemfdMemory`), even when
        // connections fill the table.
        let segments_max = if id < shared.settings.homes_count {
            segments_max(&shared.settings, HomeId(id))
        } else {
            0
        };
        let opened = network.open(&OpenOptions {
            listeners: &shared.listeners(&listen),
            are_adopted: adoption.is_some(),
            connections_max: shared.settings.limits.connections_max,
            keep: &keep,
            descriptors_reserved: u32::try_from(segments_max).unwrap_or(u32::MAX),
        })?;
        give_up_start_rights().map_err(StartError::System)?;
        let mut memory = MemfdMemory::default();
        let home = restored_home(&shared, id, restorations, &mut memory)?;
        Ok((opened, Turning { mailbox, id, shared, memory, home, own, adoption }))
    }
}

/// The parts of a thread's reactor that do not depend on the network.
struct Turning {
    mailbox: ThreadMailbox,
    id: u16,
    shared: Arc<Shared>,
    memory: MemfdMemory,
    home: Option<Home>,
    own: Passage,
    adoption: Option<Adoption>,
}

impl Turning {
    /// Puts the layers in use over the network, and runs. One kind of reactor for each combination,
    /// so that a node pays only for those in use.
    fn layered<N: Passing>(
        self,
        opened: Opened<N>,
        starter: &Sender<Result<Ready, StartError>>,
    ) -> io::Result<()> {
        let Opened { net, addresses, connections_max, counters, notice } = opened;
        let mut ready = Ready {
            addresses,
            connections_max,
            notice,
            counters: counters.clone(),
            tls_counters: None,
            proxied_counters: None,
        };
        // The starter waits for this answer.
        let answer = |ready| drop(starter.send(Ok(ready)));
        let (server, proxied) = (self.shared.tls.clone(), self.shared.proxied.clone());
        match (server, proxied) {
            (None, None) => {
                answer(ready);
                self.run(net, counters)
            }
            (Some(server), None) => {
                let net = self.with_tls(net, &server);
                ready.tls_counters = Some(net.counters());
                answer(ready);
                self.run(net, counters)
            }
            (None, Some(proxied)) => {
                let net = Proxied::new(net, proxied);
                ready.proxied_counters = Some(net.counters());
                answer(ready);
                self.run(net, counters)
            }
            (Some(server), Some(proxied)) => {
                let proxied = Proxied::new(net, proxied);
                ready.proxied_counters = Some(proxied.counters());
                let net = self.with_tls(proxied, &server);
                ready.tls_counters = Some(net.counters());
                answer(ready);
                self.run(net, counters)
            }
        }
    }

    fn with_tls<N: Net>(&self, net: N, server: &tls::Server) -> tls::Tls<N> {
        let mut net = tls::Tls::new(net);
        net.serve(self.shared.plain_count as u8, server);
        net
    }

    fn door(&self) -> Option<Door> {
        let options = DoorOptions {
            admission: self.shared.admission.clone(),
            first_tls_listener: self.shared.plain_count as u8,
            connect_rate_max: self.shared.connect_rate_max,
        };
        let is_open = options.admission.is_none() && options.connect_rate_max.is_none();
        (!is_open).then(|| Door::new(options))
    }

    fn run<N: Passing>(self, mut net: N, counters: Arc<Counters>) -> io::Result<()> {
        let door = self.door();
        let taken: Option<io::Result<Zeroizing<Vec<u8>>>> =
            self.adoption.as_ref().map(|adoption| adopt(&mut net, &self.memory, &adoption.way));
        let parts = ReactorParts {
            net,
            mailbox: self.mailbox,
            clock: SystemClock { began: self.shared.began },
            id: self.id,
            settings: self.shared.settings.clone(),
            memory: Box::new(self.memory.clone()),
            hash_seed: self.shared.hash_seed,
            home: self.home,
            authenticator: self.shared.authenticator.clone(),
            door,
            users: self.shared.users.clone(),
            pressure: self.shared.pressure.clone(),
            journal: self.shared.journal.clone(),
        };
        let reactor = match (self.adoption, taken) {
            (Some(adoption), Some(taken)) => match adoption.take_over(parts, taken) {
                Some(reactor) => reactor,
                // The reason was reported, or the old process continues to serve.
                None => return Ok(()),
            },
            _ => Reactor::new(parts),
        };
        Given::new(self.own, self.memory, counters).run(reactor)
    }
}

impl Shared {
    /// The listeners at these addresses, with their answers when all threads are full.
    fn listeners(&self, addresses: &[SocketAddr]) -> Vec<ListenerOptions> {
        let refusal = |place| if place < self.plain_count { REFUSAL } else { TLS_REFUSAL };
        let places = addresses.iter().enumerate();
        places
            .map(|(place, &address)| ListenerOptions { address, refusal: refusal(place) })
            .collect()
    }
}

/// The home, restored from logs on disk; none without them.
fn restored_home(
    shared: &Shared,
    id: u16,
    restorations: Vec<Restoration>,
    memory: &mut MemfdMemory,
) -> Result<Option<Home>, StartError> {
    if restorations.is_empty() {
        return Ok(None);
    }
    let mut home = Home::new(shared.settings.clone(), HomeId(id), shared.hash_seed);
    let now_ms =
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let mut windows = Vec::new();
    for restoration in restorations {
        let window = restoration
            .restore(&mut home, memory)
            .map_err(|_| StartError::Log("any".into(), LogError::Memory))?;
        windows.push(window);
    }
    home.restore_windows(now_ms, &windows);
    Ok(Some(home))
}

struct SystemClock {
    began: Instant,
}

impl Clock for SystemClock {
    fn now(&mut self) -> Now {
        self.now_and_us().0
    }

    fn monotonic_us(&mut self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    fn now_and_us(&mut self) -> (Now, u64) {
        let monotonic_us = self.monotonic_us();
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Now { monotonic_ms: monotonic_us / 1_000, unix_ms: unix.as_millis() as u64 };
        (now, monotonic_us)
    }
}
