//! One I/O thread: its descriptor table, its sockets, the restored state of its home, and its
//! reactor.
//!
//! A thread creates everything that it owns, after it has its own descriptor table.

use crate::admission::Admission;
use crate::door::{Door, DoorOptions};
use crate::journal::JournalSender;
use crate::log_thread::LogError;
use crate::mailbox::ThreadMailbox;
use crate::memory::MemfdMemory;
use crate::pressure::SharedPressure;
use crate::proxied::{Proxied, ProxiedCounters, ProxiedOptions};
use crate::reactor::{Clock, Reactor, ReactorParts};
use crate::restore::Restoration;
use crate::running::StartError;
use crate::upgrade::{Given, Passing, adopt};
use crate::users::Users;
use broker::entitlement::Judge;
use broker::home::{Home, segments_max};
use broker::now::Now;
use broker::settings::Settings;
use net::Counters;
use net::Net;
use net::kernel::{AdoptedListener, Handover, Kernel, KernelOptions, ListenOptions, Waker};
use net::system::{Passage, give_up_low_ports, unshare_table};
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use stdx::handing::Input;
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
    pub keep: Vec<RawFd>,
    pub private_tables: bool,
    pub registered_sockets: bool,
    /// Number of listeners without TLS; they are the first ones.
    pub plain_count: usize,
    /// Addresses of listeners from the old process; all of them, or none.
    pub adopted: Vec<SocketAddr>,
    pub tls: Option<Arc<tls::Server>>,
    /// Listeners for proxies, if any.
    pub proxied: Option<ProxiedOptions>,
    /// The admission table; none without limits.
    pub admission: Option<Arc<Admission>>,
    pub users: Arc<Users>,
    /// Maximum connect rate per second of one thread.
    pub connect_rate_max: Option<u32>,
    pub pressure: Arc<SharedPressure>,
    pub socket_send_bytes: usize,
    pub backlog_max: i32,
    /// Existing sockets, by their addresses.
    pub inherited: Vec<(SocketAddr, RawFd)>,
    pub hash_seed: (u64, u64),
    pub judge: Option<Arc<dyn Judge>>,
    pub journal: Option<JournalSender>,
    pub began: Instant,
}

/// A thread before its start.
pub(crate) struct ThreadParts {
    pub id: u16,
    pub mailbox: ThreadMailbox,
    pub waker: Arc<Waker>,
    pub handover: Handover,
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

/// The hand-over of one thread of the old process.
pub(crate) struct Adoption {
    /// The source of the state.
    pub way: Passage,
    /// Reports the completed hand-over.
    pub adopted: Sender<Result<(), String>>,
    /// Receives the order to begin.
    pub go: Receiver<()>,
}

/// The report to the starter.
pub(crate) struct Ready {
    pub addresses: Vec<SocketAddr>,
    pub connections_max: u32,
    pub table_refused: Option<String>,
    pub counters: Arc<Counters>,
    pub tls_counters: Option<Arc<tls::Counters>>,
    pub proxied_counters: Option<Arc<ProxiedCounters>>,
}

impl ThreadParts {
    /// Creates the thread's resources, answers its starter, and takes turns until it is told to
    /// stop.
    ///
    /// # Errors
    /// The network as a whole fails.
    pub fn run(self) -> io::Result<()> {
        let ThreadParts {
            id,
            mailbox,
            waker,
            handover,
            listen,
            shared,
            own,
            adoption,
            restorations,
            ready,
        } = self;
        let mut table_refused = None;
        let mut is_private = shared.private_tables;
        let mut keep = shared.keep.clone();
        keep.extend(adoption.iter().map(|adoption| adoption.way.descriptor()));
        if is_private && let Err(refused) = unshare_table(&keep) {
            is_private = false;
            table_refused = Some(format!("{refused:?}").to_lowercase());
        }
        let listen_on = if adoption.is_some() { &[][..] } else { &listen };
        let opened = open_kernel(&shared, id, is_private, waker, handover, listen_on)
            .and_then(|opened| give_up_low_ports().map(|()| opened).map_err(StartError::System));
        let (kernel, addresses) = match opened {
            Ok((kernel, _)) if adoption.is_some() => (kernel, listen),
            Ok(opened) => opened,
            Err(error) => {
                // The starter waits for this answer.
                let _ = ready.send(Err(error));
                return Ok(());
            }
        };
        let mut memory = MemfdMemory::default();
        let home = match restored_home(&shared, id, restorations, &mut memory) {
            Ok(home) => home,
            Err(error) => {
                let _ = ready.send(Err(error));
                return Ok(());
            }
        };
        let connections_max = kernel.connections_max();
        let counters = kernel.counters();
        let as_ready = |tls_counters, proxied_counters| {
            Ok(Ready {
                addresses,
                connections_max,
                table_refused,
                counters,
                tls_counters,
                proxied_counters,
            })
        };
        let turning = Turning { mailbox, id, shared, memory, home, own, adoption };
        // One kind of reactor for each combination of features, so that a node pays only for those
        // in use.
        let (server, proxied) = (turning.shared.tls.clone(), turning.shared.proxied.clone());
        match (server, proxied) {
            (None, None) => {
                let _ = ready.send(as_ready(None, None));
                turning.run(kernel)
            }
            (Some(server), None) => {
                let net = turning.with_tls(kernel, &server);
                let _ = ready.send(as_ready(Some(net.counters()), None));
                turning.run(net)
            }
            (None, Some(proxied)) => {
                let net = Proxied::new(kernel, proxied);
                let _ = ready.send(as_ready(None, Some(net.counters())));
                turning.run(net)
            }
            (Some(server), Some(proxied)) => {
                let proxied = Proxied::new(kernel, proxied);
                let counters = proxied.counters();
                let net = turning.with_tls(proxied, &server);
                let _ = ready.send(as_ready(Some(net.counters()), Some(counters)));
                turning.run(net)
            }
        }
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

    fn run(self, mut net: impl Passing) -> io::Result<()> {
        let door = self.door();
        let taken = match &self.adoption {
            Some(adoption) => {
                let listeners = self.shared.adopted_listeners();
                Some(adopt(&mut net, &self.memory, &adoption.way, &listeners))
            }
            None => None,
        };
        let parts = ReactorParts {
            net,
            mailbox: self.mailbox,
            clock: SystemClock { began: self.shared.began },
            id: self.id,
            settings: self.shared.settings.clone(),
            memory: Box::new(self.memory.clone()),
            hash_seed: self.shared.hash_seed,
            home: self.home,
            judge: self.shared.judge.clone(),
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
        Given::new(self.own, self.memory).run(reactor)
    }
}

impl Adoption {
    /// Creates the reactor, reports that, and waits for the order to begin. None if it does not
    /// arrive, or something is missing.
    fn take_over<N: Net>(
        self,
        parts: ReactorParts<N, ThreadMailbox, SystemClock>,
        taken: io::Result<Zeroizing<Vec<u8>>>,
    ) -> Option<Reactor<N, ThreadMailbox, SystemClock>> {
        let taken = taken.map_err(|error| error.to_string());
        let reactor = taken.and_then(|state| {
            Reactor::take_over(parts, &mut Input::new(&state)).map_err(|error| error.to_string())
        });
        let (adopted, reactor) = match reactor {
            Ok(reactor) => (Ok(()), Some(reactor)),
            Err(error) => (Err(error), None),
        };
        // The starter lives as long as the process.
        let _ = self.adopted.send(adopted);
        self.go.recv().ok()?;
        reactor
    }
}

impl Shared {
    /// The answer of each listener when all threads are full.
    fn refusal(&self, place: usize) -> &'static [u8] {
        match place < self.plain_count {
            true => REFUSAL,
            false => TLS_REFUSAL,
        }
    }

    /// The facts about the taken-over listeners, in order.
    fn adopted_listeners(&self) -> Vec<AdoptedListener> {
        let is_inherited = |address| self.inherited.iter().any(|(of, _)| of == address);
        let known = |(place, address)| AdoptedListener {
            refusal: self.refusal(place),
            is_inherited: is_inherited(address),
        };
        self.adopted.iter().enumerate().map(known).collect()
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
    let mut home = Home::new(shared.settings.clone(), id, shared.hash_seed);
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

fn open_kernel(
    shared: &Shared,
    id: u16,
    is_private: bool,
    waker: Arc<Waker>,
    handover: Handover,
    listen: &[SocketAddr],
) -> Result<(Kernel, Vec<SocketAddr>), StartError> {
    let threads_count = u32::from(shared.settings.edges_count);
    // Each segment of the thread's home needs a descriptor (`MemfdMemory`), even when connections
    // fill the table.
    let segments_max = match id < shared.settings.homes_count {
        true => segments_max(&shared.settings, id),
        false => 0,
    };
    let options = KernelOptions {
        table_reserved: u32::try_from(segments_max).unwrap_or(u32::MAX),
        connections_max: shared
            .settings
            .limits
            .connections_max
            .min(KernelOptions::default().connections_max),
        table_threads_count: if is_private { 1 } else { threads_count },
        registered_max: if shared.registered_sockets { u32::MAX } else { 0 },
        ..KernelOptions::default()
    };
    let mut kernel = Kernel::new(options, waker, handover).map_err(StartError::System)?;
    let mut addresses = Vec::new();
    for (place, &address) in listen.iter().enumerate() {
        let mut options = ListenOptions::new(address);
        options.backlog_max = shared.backlog_max;
        options.socket_send_bytes = Some(shared.socket_send_bytes);
        options.refusal = shared.refusal(place);
        let inherited = shared.inherited.iter().find(|(of, _)| *of == address);
        let listening = match inherited {
            Some((_, descriptor)) => kernel.listen_inherited(*descriptor, &options),
            None => kernel.listen(&options),
        };
        let (_, bound) = listening.map_err(|error| StartError::Listen(address, error))?;
        addresses.push(bound);
    }
    Ok((kernel, addresses))
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
