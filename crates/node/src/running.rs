//! A running node: threads, their descriptor tables and listeners, and its interface for the
//! process.

mod ending;
mod logs;

pub use ending::IO_THREADS_END;

use crate::admission::{Admission, AdmissionOptions, AdmissionStatistics};
use crate::io_thread::{Ready, Shared, ThreadParts};
use crate::journal::JournalSender;
use crate::log_thread::{self, LogError, Troubles};
use crate::logs::LogStatistics;
use crate::mailbox::{Address, Control, Post, Report, ThreadMailbox, ToLog};
use crate::pressure::SharedPressure;
use crate::proxied::{ProxiedCounters, ProxiedOptions, ProxiedStatistics};
use crate::report::Asked;
use crate::timing::Timings;
use crate::upgrade::{Adopting, Inheritance, Inherited};
use crate::users::{UserStatistics, Users};
use crate::vital::Vital;
use broker::edge::{EdgeStatistics, Pressure};
use broker::entitlement::Judge;
use broker::home::HomeStatistics;
use broker::reload::Waiting;
use broker::settings::Settings;
use net::Counters;
use net::Wake;
use net::kernel::{Handover, Waker, check_free};
use net::system::{Passage, nofile_limit};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stdx::memory::{Component, Components};
use stdx::metrics::Metrics;
use stdx::networks::Networks;

/// The start parameters of a node.
pub struct NodeOptions {
    /// The settings of the shards; `edges_count` is the number of I/O threads.
    pub settings: Settings,
    /// Addresses for clients; port 0 selects a free one.
    pub listen: Vec<SocketAddr>,
    /// Existing sockets (`net::kernel::inherited_address`), by their addresses in `listen` and in
    /// the TLS options. All threads accept from them. With an inheritance, only the addresses
    /// count: it contains the sockets.
    pub inherited: Vec<(SocketAddr, RawFd)>,
    /// Clients with TLS, if any.
    pub tls: Option<TlsOptions>,
    /// Listeners behind proxies that send a PROXY header.
    pub proxied: Option<ProxyOptions>,
    /// Limits of connections.
    pub admission: AdmissionOptions,
    /// Maximum number of connections of one user; the settings' entitlement says whether they are
    /// counted.
    pub connections_per_user_max: Option<u32>,
    /// Maximum connect rate per second of all threads together; faster connections wait in the
    /// listeners' queues.
    pub connect_rate_max: Option<u32>,
    /// `SO_SNDBUF` of client sockets, in bytes.
    pub socket_send_bytes: usize,
    /// Length of the kernel's accept queue, for each thread.
    pub backlog_max: i32,
    /// Whether each I/O thread gets its own descriptor table, if the system allows it.
    pub private_tables: bool,
    /// Whether io_uring instances hold connections beyond the descriptor limit, if the system
    /// allows it.
    pub registered_sockets: bool,
    /// A random secret for the hash of topic names.
    pub hash_seed: (u64, u64),
    /// Directory of the logs on disk, each in a subdirectory with its name; required if there is
    /// such a log.
    pub data_dir: Option<PathBuf>,
    /// The authenticator; required if the settings have entitlement.
    pub judge: Option<Arc<dyn Judge>>,
    /// The destination of events of clients, if the settings enable them.
    pub journal: Option<JournalSender>,
    /// The hand-over of the process that this one replaces; then [`Node::take_over`] must be
    /// called.
    pub inheritance: Option<Inheritance>,
}

impl fmt::Debug for NodeOptions {
    /// Shows the addresses only, because other values could be secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NodeOptions")
            .field("listen", &self.listen)
            .field("data_dir", &self.data_dir)
            .field("has_judge", &self.judge.is_some())
            .finish_non_exhaustive()
    }
}

/// Clients with TLS.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// Addresses for clients with TLS; port 0 selects a free one.
    pub listen: Vec<SocketAddr>,
    /// The certificate and key. The owner may reload them while the node runs.
    pub server: Arc<tls::Server>,
}

/// The PROXY protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProxyOptions {
    /// Whether connections without TLS must send a header.
    pub plain: bool,
    /// Whether connections with TLS must send a header before the handshake.
    pub tls: bool,
    /// Networks that may send a header.
    pub proxies: Networks,
    /// Time limit for the header.
    pub timeout: Duration,
}

/// Counts of admission and of proxies' connections, of all threads.
#[derive(Clone, Copy, Debug, Default, Metrics)]
pub struct DoorStatistics {
    /// Counts by address and listener.
    pub admission: AdmissionStatistics,
    /// Counts by user.
    pub users: UserStatistics,
    /// Counts of the PROXY protocol.
    pub proxied: ProxiedStatistics,
    /// Connections refused during a shortage of memory.
    pub without_memory: u64,
    /// The memory pressure, 0 to 3.
    pub pressure: u8,
    /// Memory in use that counts against the ceiling.
    #[metric("crore_memory_used_bytes")]
    pub memory_used_bytes: u64,
    /// Memory ceiling of the process.
    #[metric("crore_memory_ceiling_bytes")]
    pub memory_ceiling_bytes: u64,
}

/// The reason why a node did not start.
#[derive(Debug)]
pub enum StartError {
    /// The address cannot be bound.
    Listen(SocketAddr, io::Error),
    /// The system refuses threads, descriptors or memory.
    System(io::Error),
    /// The log on disk with this name cannot be opened.
    Log(String, LogError),
}

impl fmt::Display for StartError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Listen(address, error) => {
                write!(formatter, "cannot listen on {address}: {error}")
            }
            StartError::System(error) => write!(formatter, "cannot start: {error}"),
            StartError::Log(name, error) => write!(formatter, "log \"{name}\": {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// Counters and gauges of all shards together.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeStatistics {
    /// Counters of the edges.
    pub edge: EdgeStatistics,
    /// Counters of the homes.
    pub home: HomeStatistics,
    /// Counters of the log threads.
    pub log: LogStatistics,
    /// Counters of the sockets.
    pub sockets: net::Statistics,
    /// Counters of TLS, if there is any.
    pub tls: tls::Statistics,
    /// Counters of admission.
    pub door: DoorStatistics,
    /// Durations of turns, mailboxes and messages.
    pub timings: Timings,
    /// Number of I/O threads.
    pub io_threads: u16,
    /// Whether the node is draining.
    pub is_draining: bool,
    /// Maximum number of connections of all threads.
    pub connections_max: u64,
    /// Number of I/O threads that did not answer in time; the counters lack their values.
    pub silent_threads: u16,
    /// Number of log threads that did not answer in time.
    pub silent_logs: u16,
    /// Bytes of memory that shards and log threads have touched, by component.
    pub memory: Components,
}

/// A node that accepts connections. Dropping it does not stop it; [`Node::stop`] does.
#[derive(Debug)]
pub struct Node {
    /// The addresses without TLS first.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) plain_count: usize,
    /// Counters of the threads' sockets.
    pub(crate) counters: Vec<Arc<Counters>>,
    /// Counters of the threads' TLS.
    pub(crate) tls_counters: Vec<Arc<tls::Counters>>,
    pub(crate) proxied_counters: Vec<Arc<ProxiedCounters>>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) users: Arc<Users>,
    pub(crate) pressure: Arc<SharedPressure>,
    pub(crate) troubles: Arc<Troubles>,
    pub(crate) notices: Vec<String>,
    pub(crate) shards: Shards,
    /// Unanswered questions to the shards, by their numbers.
    pub(crate) shard_reports: Vec<Asked<Report>>,
    /// Operators' questions that wait at each shard.
    pub(crate) questions: Vec<Arc<AtomicU32>>,
    pub(crate) threads: Vec<JoinHandle<io::Result<()>>>,
    pub(crate) logs: Arc<[Option<Sender<ToLog>>]>,
    /// Unanswered questions to the log threads, by the logs' indexes.
    pub(crate) log_reports: Vec<Asked<LogStatistics>>,
    pub(crate) log_threads: Vec<JoinHandle<io::Result<()>>>,
    pub(crate) is_draining: AtomicBool,
    pub(crate) connections_max: u64,
    /// The settings of the shards, or those in their mailboxes.
    pub(crate) settings: Mutex<Arc<Settings>>,
    /// The channels to the I/O threads, for an upgrade.
    pub(crate) passages: Vec<Passage>,
    pub(crate) hash_seed: (u64, u64),
    pub(crate) began: Instant,
    /// The listeners behind proxies.
    pub(crate) proxied: Vec<bool>,
    pub(crate) adopting: Mutex<Option<Adopting>>,
}

#[derive(Clone)]
pub(crate) struct Shards(pub(crate) Arc<[Address]>);

impl fmt::Debug for Shards {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} shards", self.0.len())
    }
}

/// Time limit for the threads of a failed start to stop.
const GIVE_UP_WITHIN: Duration = Duration::from_secs(60);
/// Time limit for a report; a longer turn is a larger problem.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Binds, starts the I/O threads, and returns when all of them accept.
///
/// # Errors
/// [`StartError`]; nothing is left running then.
pub fn start(mut options: NodeOptions) -> Result<Node, StartError> {
    let plain_count = options.listen.len();
    if let Some(tls) = &options.tls {
        options.listen.extend_from_slice(&tls.listen);
    }
    let mut heir = match options.inheritance.take() {
        Some(inheritance) => Some(Inherited::begin(inheritance, &mut options, plain_count)?),
        None => None,
    };
    for &address in &options.listen {
        let is_inherited = options.inherited.iter().any(|(of, _)| *of == address);
        if address.port() != 0 && !is_inherited && heir.is_none() {
            check_free(address).map_err(|error| StartError::Listen(address, error))?;
        }
    }
    let count = usize::from(options.settings.edges_count);
    let admission = Arc::new(Admission::new(options.admission.clone()));
    admission.trust(options.settings.addresses.trusted_proxies.clone());
    let users = Arc::new(Users::new(options.connections_per_user_max));
    let pressure = Arc::new(SharedPressure::default());
    let open_logs = match heir {
        // The listeners still belong to the other process.
        Some(_) => Vec::new(),
        None => logs::open(&mut options)?,
    };
    let data_dir = options.data_dir.clone().unwrap_or_default();
    let proxied = proxied_listeners(&options.proxied, options.listen.len(), plain_count);
    let settings = Arc::new(options.settings);
    let wakers: Vec<Arc<Waker>> =
        (0..count).map(|_| Waker::new()).collect::<Result<_, _>>().map_err(StartError::System)?;
    let handovers = Handover::mesh(count).map_err(StartError::System)?;
    let (passages, own_passages) = passages(count).map_err(StartError::System)?;
    let mut keep: Vec<RawFd> = wakers.iter().map(|waker| waker.descriptor()).collect();
    keep.extend(handovers.iter().flat_map(|handover| handover.descriptors()));
    if heir.is_none() {
        keep.extend(options.inherited.iter().map(|(_, descriptor)| descriptor));
    }
    keep.extend(own_passages.iter().map(Passage::descriptor));
    let dyn_wakers: Vec<Arc<dyn Wake>> =
        wakers.iter().map(|waker| waker.clone() as Arc<dyn Wake>).collect();
    let (logs, log_receivers) = log_thread::channels(&settings);
    let (mailboxes, shards) = ThreadMailbox::mesh(dyn_wakers, logs.clone());
    let began = heir.as_ref().map_or_else(Instant::now, |heir| heir.began);
    let shared = Shared {
        settings: settings.clone(),
        keep,
        private_tables: options.private_tables,
        registered_sockets: options.registered_sockets,
        plain_count,
        adopted: heir.as_ref().map_or(Vec::new(), |_| options.listen.clone()),
        proxied: proxied_options(options.proxied, &proxied),
        tls: options.tls.map(|tls| tls.server),
        admission: (!options.admission.is_off()).then(|| admission.clone()),
        users: users.clone(),
        connect_rate_max: options.connect_rate_max.map(|rate| rate.div_ceil(count as u32)),
        pressure: pressure.clone(),
        socket_send_bytes: options.socket_send_bytes,
        backlog_max: options.backlog_max,
        inherited: options.inherited,
        hash_seed: options.hash_seed,
        judge: options.judge,
        journal: options.journal,
        began,
    };
    let shared = Arc::new(shared);
    let mut node = Node {
        addresses: options.listen,
        plain_count,
        counters: Vec::new(),
        tls_counters: Vec::new(),
        proxied_counters: Vec::new(),
        admission,
        users,
        pressure,
        troubles: Arc::default(),
        notices: Vec::new(),
        shards: Shards(shards),
        shard_reports: (0..count).map(|_| Asked::default()).collect(),
        questions: (0..count).map(|_| Arc::default()).collect(),
        threads: Vec::new(),
        log_reports: logs.iter().map(|_| Asked::default()).collect(),
        logs,
        log_threads: Vec::new(),
        is_draining: AtomicBool::new(false),
        connections_max: 0,
        settings: Mutex::new(settings.clone()),
        passages,
        hash_seed: options.hash_seed,
        began,
        proxied,
        adopting: Mutex::default(),
    };
    let spawned = match &mut heir {
        Some(heir) => node.adopt_logs(heir, &data_dir, log_receivers, &settings),
        None => node.spawn_logs(open_logs, log_receivers, &settings),
    };
    let restorations = match spawned {
        Ok(restorations) => restorations,
        Err(error) => return Err(node.give_up(StartError::System(error))),
    };
    let parts = mailboxes
        .into_iter()
        .zip(wakers)
        .zip(handovers)
        .zip(restorations)
        .zip(own_passages)
        .enumerate();
    let (adoptions, adopting) = match heir {
        Some(heir) => heir.adoptions(),
        None => (Vec::new(), None),
    };
    let mut adoptions = adoptions.into_iter();
    if let Some(adopting) = &adopting {
        node.settings = Mutex::new(adopting.renewed.clone());
    }
    node.adopting = Mutex::new(adopting);
    let mut refused_table = None;
    for (id, ((((mailbox, waker), handover), restorations), own)) in parts {
        let (ready, is_ready) = channel();
        let thread = ThreadParts {
            id: id as u16,
            mailbox,
            waker,
            handover,
            listen: node.addresses.clone(),
            shared: shared.clone(),
            own,
            adoption: adoptions.next(),
            restorations,
            ready,
        };
        match node.spawn_io(thread, &is_ready) {
            Ok(reason) => refused_table = refused_table.or(reason),
            Err(error) => return Err(node.give_up(error)),
        }
    }
    node.notices.extend(refused_table.map(|reason| table_notice(&reason, count)));
    Ok(node)
}

impl Node {
    /// Addresses of clients without TLS, with the selected ports.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses[..self.plain_count]
    }

    /// Addresses of clients with TLS.
    pub fn tls_addresses(&self) -> &[SocketAddr] {
        &self.addresses[self.plain_count..]
    }

    /// Notices of the start for the operator.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Maximum number of connections of all threads.
    pub fn connections_max(&self) -> u64 {
        self.connections_max
    }

    /// The reason why no further clients should connect; none if they may: the node runs, does not
    /// drain, has room and memory, and its logs accept publications.
    pub fn unready(&self) -> Option<&'static str> {
        if self.is_draining.load(Ordering::Relaxed) {
            return Some("draining");
        }
        let mut threads = self.threads.iter().chain(&self.log_threads);
        if threads.any(JoinHandle::is_finished) {
            return Some("a thread has ended");
        }
        if self.pressure.get() >= Pressure::Newcomers {
            return Some("not enough memory for further connections");
        }
        let statistics = self.statistics();
        if statistics.home.logs_unavailable > 0 || statistics.log.unavailable > 0 {
            return Some("a log on disk accepts no publications");
        }
        let has_room = statistics.edge.connections < self.connections_max;
        (!has_room).then_some("the maximum number of connections is reached")
    }

    /// Counters of the sockets of all threads. They are read without asking the threads, at almost
    /// no cost.
    pub fn sockets(&self) -> net::Statistics {
        let mut total = net::Statistics::default();
        for counters in &self.counters {
            total += counters.statistics();
        }
        total
    }

    /// Counters of admission, read without asking the threads.
    pub fn door(&self) -> DoorStatistics {
        let (memory_used_bytes, memory_ceiling_bytes) = self.pressure.bytes();
        let mut door = DoorStatistics {
            admission: self.admission.statistics(),
            users: self.users.statistics(),
            proxied: ProxiedStatistics::default(),
            without_memory: self.pressure.refused(),
            pressure: self.pressure.get() as u8,
            memory_used_bytes,
            memory_ceiling_bytes,
        };
        for counters in &self.proxied_counters {
            door.proxied += counters.statistics();
        }
        door
    }

    /// Counts of disk problems of logs, read without asking the threads.
    pub fn troubles(&self) -> &Troubles {
        &self.troubles
    }

    /// The shared memory pressure, for the process's watcher.
    pub fn pressure(&self) -> Arc<SharedPressure> {
        Arc::clone(&self.pressure)
    }

    /// Asks all shards and log threads for their counters. Waits for both up to two seconds.
    pub fn statistics(&self) -> NodeStatistics {
        let shards = self.shards.0.iter().zip(&self.shard_reports);
        let asked: Vec<(&Asked<Report>, Receiver<Report>)> = shards
            .filter_map(|(shard, reports)| {
                let question = |sender| {
                    shard.send(Post::Control(Control::Report(sender)));
                    true
                };
                Some((reports, reports.ask(question)?))
            })
            .collect();
        let mut total = NodeStatistics {
            io_threads: self.shard_reports.len() as u16,
            is_draining: self.is_draining.load(Ordering::Relaxed),
            connections_max: self.connections_max,
            sockets: self.sockets(),
            door: self.door(),
            ..NodeStatistics::default()
        };
        for counters in &self.tls_counters {
            total.tls += counters.statistics();
        }
        let (logs, silent) = log_thread::statistics(&self.logs, &self.log_reports, REPORT_TIMEOUT);
        total.silent_logs = silent;
        for statistics in logs {
            total.log += statistics;
            total.memory.add(Component::LogDisk, statistics.memory_bytes as usize);
        }
        let deadline = Instant::now() + REPORT_TIMEOUT;
        for (reports, answer) in asked {
            match reports.wait(answer, deadline) {
                Some(report) => {
                    total.edge += report.edge;
                    total.home += report.home;
                    total.timings += report.timings;
                    total.memory += report.memory;
                }
                None => total.silent_threads += 1,
            }
        }
        total
    }

    /// Tells all edges about a revocation or a change of keys: clients with a revoked token lose
    /// their sessions, and later credentials are checked again.
    pub fn revocations_changed(&self) {
        for shard in self.shards.0.iter() {
            shard.send(Post::Control(Control::Revoked));
        }
    }

    /// Applies other settings as far as a running node can, without dropping connections; the rest
    /// waits for the next start, and the waiting rules are returned. Each shard applies the
    /// settings between two turns.
    pub fn reload(&self, wanted: Settings) -> Vec<Waiting> {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let (renewed, waiting) = settings.renewed(wanted);
        *settings = Arc::new(renewed);
        self.admission.trust(settings.addresses.trusted_proxies.clone());
        for shard in self.shards.0.iter() {
            shard.send(Post::Control(Control::Settings(settings.clone())));
        }
        waiting
    }

    /// The address of a shard.
    pub(crate) fn address_of(&self, shard: usize) -> &Address {
        &self.shards.0[shard]
    }

    /// Publishes on a topic of the node itself, through one of its shards. Without room, the
    /// publication is dropped.
    pub fn publish_own(&self, topic: &str, payload: &[u8]) {
        if let Some(shard) = self.shards.0.first() {
            shard.send(Post::Control(Control::Publish {
                topic: topic.into(),
                payload: payload.into(),
            }));
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        settings.clone()
    }

    /// Starts one I/O thread and waits until it is ready: one after another, because the first
    /// selects the port that all others share. Returns the reason if it has no descriptor table of
    /// its own but should.
    fn spawn_io(
        &mut self,
        thread: ThreadParts,
        is_ready: &Receiver<Result<Ready, StartError>>,
    ) -> Result<Option<String>, StartError> {
        let spawned =
            std::thread::Builder::new().name(format!("crore-io-{}", thread.id)).spawn(move || {
                let _vital = Vital;
                thread.run()
            });
        self.threads.push(spawned.map_err(StartError::System)?);
        let ended = || StartError::System(io::Error::other("an I/O thread ended"));
        let ready = is_ready.recv().map_err(|_| ended())??;
        self.addresses = ready.addresses;
        self.counters.push(ready.counters);
        self.tls_counters.extend(ready.tls_counters);
        self.proxied_counters.extend(ready.proxied_counters);
        self.connections_max += u64::from(ready.connections_max);
        Ok(ready.table_refused)
    }

    fn give_up(mut self, error: StartError) -> StartError {
        let adopting = self.adopting.get_mut();
        if let Some(adopting) = adopting.unwrap_or_else(PoisonError::into_inner).take() {
            // The threads wait for the old process, which gets the error; this process is about to
            // end.
            adopting.inheritance.refuse(&error);
            return error;
        }
        // Report the first error.
        let _ = self.end(GIVE_UP_WITHIN);
        error
    }
}

/// Private tables are refused.
fn table_notice(reason: &str, count: usize) -> String {
    let limit = nofile_limit().soft;
    format!(
        "the system refuses private descriptor tables ({reason}): all {count} I/O threads share one table of {limit} descriptors"
    )
}

/// Channels to this number of threads, and their receivers.
fn passages(count: usize) -> io::Result<(Vec<Passage>, Vec<Passage>)> {
    let pairs: io::Result<Vec<_>> = (0..count).map(|_| Passage::pair()).collect();
    Ok(pairs?.into_iter().unzip())
}

/// The listeners behind proxies; those without TLS are the first. Empty if there are none.
pub(crate) fn proxied_listeners(
    options: &Option<ProxyOptions>,
    listeners_count: usize,
    plain_count: usize,
) -> Vec<bool> {
    let is_proxied = |place| match options {
        Some(options) if place < plain_count => options.plain,
        Some(options) => options.tls,
        None => false,
    };
    let listeners: Vec<bool> = (0..listeners_count).map(is_proxied).collect();
    match listeners.contains(&true) {
        true => listeners,
        false => Vec::new(),
    }
}

fn proxied_options(options: Option<ProxyOptions>, listeners: &[bool]) -> Option<ProxiedOptions> {
    let options = options.filter(|_| !listeners.is_empty())?;
    Some(ProxiedOptions {
        listeners: listeners.to_vec(),
        proxies: options.proxies,
        timeout: options.timeout,
    })
}
