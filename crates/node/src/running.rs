//! A running node: threads, their descriptor tables and listeners, and what the process can ask of them.

use crate::log_thread::{self, LogError, OpenLog, OpenOptions};
use crate::logs::LogStatistics;
use crate::mailbox::{Address, Control, Post, Report, ThreadMailbox, ToLog};
use crate::memory::MemfdMemory;
use crate::reactor::{Clock, Reactor, ReactorParts};
use crate::report::Asked;
use crate::restore::Restoration;
use crate::vital::Vital;
use broker::edge::EdgeStatistics;
use broker::home::{Home, HomeStatistics, segments_max};
use broker::now::Now;
use broker::settings::{Durability, LogSettings, Settings};
use net::kernel::{
    Counters, Handover, Kernel, KernelOptions, ListenOptions, Waker, check_free, nofile_limit,
    unshare_table,
};
use net::{Net, Wake};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use stdx::memory::{Component, Components};

/// What a node is started with.
#[derive(Debug)]
pub struct NodeOptions {
    /// What the shards know; its `edges_count` is the number of I/O threads.
    pub settings: Settings,
    /// Where clients connect; port 0 takes a free one.
    pub listen: Vec<SocketAddr>,
    /// Where clients connect with TLS, if there is any.
    pub tls: Option<TlsOptions>,
    /// `SO_SNDBUF` of client sockets, in bytes.
    pub socket_send_bytes: usize,
    /// Connections that the kernel may hold before they are accepted, per thread.
    pub backlog_max: i32,
    /// Give each I/O thread a descriptor table of its own where the system allows it.
    pub private_tables: bool,
    /// Hold connections beyond the descriptor limit in io_uring instances where the system allows it.
    pub registered_sockets: bool,
    /// Random: keys the hash of topic names.
    pub hash_seed: (u64, u64),
    /// Where logs on disk lie, each in a directory of its name; needed if there is one.
    pub data_dir: Option<PathBuf>,
}

/// Clients with TLS.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// Where they connect; port 0 takes a free one.
    pub listen: Vec<SocketAddr>,
    /// What they are shown. Its owner may reload it while the node runs.
    pub server: Arc<tls::Server>,
}

/// Why a node did not start.
#[derive(Debug)]
pub enum StartError {
    /// Nothing can be bound there.
    Listen(SocketAddr, io::Error),
    /// Threads, descriptors or memory are not to be had.
    System(io::Error),
    /// A log on disk, by its name, cannot be opened.
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
    /// Of the edges.
    pub edge: EdgeStatistics,
    /// Of the homes.
    pub home: HomeStatistics,
    /// Of the log threads.
    pub log: LogStatistics,
    /// Of the sockets.
    pub sockets: net::kernel::Statistics,
    /// Of TLS, where there is any.
    pub tls: tls::Statistics,
    /// Turns taken.
    pub turns: u64,
    /// Of these: turns of over ten milliseconds.
    pub long_turns: u64,
    /// I/O threads.
    pub io_threads: u16,
    /// Connections that all threads together can hold.
    pub connections_max: u64,
    /// I/O threads that did not answer in time; their numbers are missing.
    pub silent_threads: u16,
    /// Log threads that did not answer in time.
    pub silent_logs: u16,
    /// Bytes of memory that shards and log threads have touched, by component.
    pub memory: Components,
}

/// A node that accepts connections. Dropping it does not end it; [`Node::stop`] does.
#[derive(Debug)]
pub struct Node {
    /// The plain ones first.
    addresses: Vec<SocketAddr>,
    plain_count: usize,
    /// Of the threads' sockets.
    counters: Vec<Arc<Counters>>,
    /// Of the threads' TLS.
    tls_counters: Vec<Arc<tls::Counters>>,
    notices: Vec<String>,
    shards: Shards,
    /// What shards were asked and have not answered, by their numbers.
    shard_reports: Vec<Asked<Report>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    logs: Arc<[Option<Sender<ToLog>>]>,
    /// The same of the log threads, by the logs' indexes.
    log_reports: Vec<Asked<LogStatistics>>,
    log_threads: Vec<JoinHandle<io::Result<()>>>,
    draining: AtomicBool,
    connections_max: u64,
}

#[derive(Clone)]
struct Shards(Arc<[Address]>);

impl fmt::Debug for Shards {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} shards", self.0.len())
    }
}

/// How long a report may take; a shard that is longer in one turn has other troubles.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Said to connections that no thread has room for.
const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n\
Content-Type: application/problem+json\r\nContent-Length: 126\r\n\r\n\
{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\
\"detail\":\"no room for connections\",\"code\":\"connections_full\"}";

/// The same where TLS is spoken, before anything is: the alert `internal_error` (RFC 8446, 6.2).
const TLS_REFUSAL: &[u8] = &[21, 3, 3, 0, 2, 2, 80];

/// Binds, starts the I/O threads, and returns when all of them accept.
///
/// # Errors
/// [`StartError`]; nothing is left running then.
pub fn start(mut options: NodeOptions) -> Result<Node, StartError> {
    let plain_count = options.listen.len();
    if let Some(tls) = &options.tls {
        options.listen.extend_from_slice(&tls.listen);
    }
    for &address in &options.listen {
        if address.port() != 0 {
            check_free(address).map_err(|error| StartError::Listen(address, error))?;
        }
    }
    let count = usize::from(options.settings.edges_count);
    let open_logs = open_logs(&mut options)?;
    let settings = Arc::new(options.settings);
    let wakers: Vec<Arc<Waker>> = (0..count)
        .map(|_| Waker::new())
        .collect::<Result<_, _>>()
        .map_err(StartError::System)?;
    let handovers = Handover::mesh(count).map_err(StartError::System)?;
    let mut keep: Vec<RawFd> = wakers.iter().map(|waker| waker.descriptor()).collect();
    keep.extend(handovers.iter().flat_map(|handover| handover.descriptors()));
    let dyn_wakers: Vec<Arc<dyn Wake>> = wakers
        .iter()
        .map(|waker| waker.clone() as Arc<dyn Wake>)
        .collect();
    let (logs, log_receivers) = log_thread::channels(&settings);
    let (mailboxes, shards) = ThreadMailbox::mesh(dyn_wakers, logs.clone());
    let shared = Shared {
        settings: settings.clone(),
        keep,
        private_tables: options.private_tables,
        registered_sockets: options.registered_sockets,
        plain_count,
        tls: options.tls.map(|tls| tls.server),
        socket_send_bytes: options.socket_send_bytes,
        backlog_max: options.backlog_max,
        hash_seed: options.hash_seed,
        began: Instant::now(),
    };
    let shared = Arc::new(shared);
    let mut node = Node {
        addresses: options.listen,
        plain_count,
        counters: Vec::new(),
        tls_counters: Vec::new(),
        notices: Vec::new(),
        shards: Shards(shards),
        shard_reports: (0..count).map(|_| Asked::default()).collect(),
        threads: Vec::new(),
        log_reports: logs.iter().map(|_| Asked::default()).collect(),
        logs,
        log_threads: Vec::new(),
        draining: AtomicBool::new(false),
        connections_max: 0,
    };
    let mut restorations: Vec<Vec<Restoration>> = (0..count).map(|_| Vec::new()).collect();
    for (open, incoming) in open_logs.into_iter().zip(log_receivers) {
        let (Some(mut open), Some(incoming)) = (open, incoming) else {
            continue;
        };
        node.notices.append(&mut open.notices);
        for (home, restoration) in open.restorations.drain(..).enumerate() {
            restorations[home].push(restoration);
        }
        match open.spawn(&settings, incoming, node.shards.0.clone()) {
            Ok(thread) => node.log_threads.push(thread),
            Err(error) => return Err(node.give_up(StartError::System(error))),
        }
    }
    let parts = mailboxes
        .into_iter()
        .zip(wakers)
        .zip(handovers)
        .zip(restorations)
        .enumerate();
    let mut refused_table = None;
    for (id, (((mailbox, waker), handover), restorations)) in parts {
        let (ready, is_ready) = channel();
        let listen = node.addresses.clone();
        let thread = ThreadParts {
            id: id as u16,
            mailbox,
            waker,
            handover,
            listen,
            shared: shared.clone(),
            restorations,
            ready,
        };
        let spawned = std::thread::Builder::new()
            .name(format!("crore-io-{id}"))
            .spawn(move || {
                let _vital = Vital;
                thread.run()
            });
        match spawned {
            Ok(handle) => node.threads.push(handle),
            Err(error) => return Err(node.give_up(StartError::System(error))),
        }
        // One after another: the first tells the port that all others then share.
        match is_ready.recv() {
            Ok(Ok(ready)) => {
                node.addresses = ready.addresses;
                node.counters.push(ready.counters);
                node.tls_counters.extend(ready.tls_counters);
                node.connections_max += u64::from(ready.connections_max);
                refused_table = refused_table.or(ready.table_refused);
            }
            Ok(Err(error)) => return Err(node.give_up(error)),
            Err(_) => {
                return Err(
                    node.give_up(StartError::System(io::Error::other("an I/O thread ended")))
                );
            }
        }
    }
    if let Some(reason) = refused_table {
        let limit = nofile_limit().soft;
        node.notices.push(format!(
            "private descriptor tables are refused here ({reason}): all {count} I/O threads share one of {limit} descriptors"
        ));
    }
    Ok(node)
}

impl Node {
    /// Where clients connect without TLS, with the ports that were taken.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses[..self.plain_count]
    }

    /// Where they connect with TLS.
    pub fn tls_addresses(&self) -> &[SocketAddr] {
        &self.addresses[self.plain_count..]
    }

    /// What the operator should know about this start.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Connections that all threads together can hold.
    pub fn connections_max(&self) -> u64 {
        self.connections_max
    }

    /// Why no further clients should come; none if they should: the node runs, does not drain, has room, and its logs
    /// take publications.
    pub fn unready(&self) -> Option<&'static str> {
        if self.draining.load(Ordering::Relaxed) {
            return Some("draining");
        }
        let mut threads = self.threads.iter().chain(&self.log_threads);
        if threads.any(JoinHandle::is_finished) {
            return Some("a thread has ended");
        }
        let statistics = self.statistics();
        if statistics.home.logs_unavailable > 0 || statistics.log.unavailable > 0 {
            return Some("a log on disk takes no publications");
        }
        let has_room = statistics.edge.connections < self.connections_max;
        (!has_room).then_some("no room for further connections")
    }

    /// What the sockets of all threads have done. Nobody is asked, so it costs next to nothing and never waits.
    pub fn sockets(&self) -> net::kernel::Statistics {
        let mut total = net::kernel::Statistics::default();
        for counters in &self.counters {
            total += counters.statistics();
        }
        total
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
            connections_max: self.connections_max,
            sockets: self.sockets(),
            ..NodeStatistics::default()
        };
        for counters in &self.tls_counters {
            total.tls += counters.statistics();
        }
        let logs_count = self.logs.iter().flatten().count();
        let logs = log_thread::statistics(&self.logs, &self.log_reports, REPORT_TIMEOUT);
        total.silent_logs = (logs_count - logs.len()) as u16;
        for statistics in logs {
            total.log += statistics;
            total
                .memory
                .add(Component::LogDisk, statistics.memory_bytes as usize);
        }
        let deadline = Instant::now() + REPORT_TIMEOUT;
        for (reports, answer) in asked {
            match reports.wait(answer, deadline) {
                Some(report) => {
                    total.edge += report.edge;
                    total.home += report.home;
                    total.turns += report.turns;
                    total.long_turns += report.long_turns;
                    total.memory += report.memory;
                }
                None => total.silent_threads += 1,
            }
        }
        total
    }

    /// Takes no further connections, tells clients to go and to return spread over the window, and waits until they
    /// have gone, at most for the window.
    pub fn drain(&self, window: Duration) {
        self.draining.store(true, Ordering::Relaxed);
        let window_ms = window.as_millis() as u64;
        for shard in self.shards.0.iter() {
            shard.send(Post::Control(Control::Drain { window_ms }));
        }
        let deadline = Instant::now() + window;
        let is_empty = |statistics: NodeStatistics| {
            statistics.edge.connections == 0 && statistics.silent_threads == 0
        };
        while Instant::now() < deadline && !is_empty(self.statistics()) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends all threads; connections that are left are reset.
    ///
    /// # Errors
    /// What a thread had died of.
    pub fn stop(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        for shard in self.shards.0.iter() {
            shard.send(Post::Control(Control::Stop));
        }
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(ended) => result = result.and(ended),
                Err(_) => result = Err(io::Error::other("an I/O thread panicked")),
            }
        }
        // Homes ask no more: what they have asked is done before the end.
        for log in self.logs.iter().flatten() {
            // One that has ended already is joined below.
            let _: Result<(), _> = log.send(ToLog::Stop);
        }
        for thread in self.log_threads.drain(..) {
            match thread.join() {
                Ok(ended) => result = result.and(ended),
                Err(_) => result = Err(io::Error::other("a log thread panicked")),
            }
        }
        result
    }

    fn give_up(mut self, error: StartError) -> StartError {
        // The first error is the one to tell.
        let _ = self.end();
        error
    }
}

/// What all threads are started with.
struct Shared {
    settings: Arc<Settings>,
    keep: Vec<RawFd>,
    private_tables: bool,
    registered_sockets: bool,
    /// Listeners without TLS; they are the first.
    plain_count: usize,
    tls: Option<Arc<tls::Server>>,
    socket_send_bytes: usize,
    backlog_max: i32,
    hash_seed: (u64, u64),
    began: Instant,
}

struct ThreadParts {
    id: u16,
    mailbox: ThreadMailbox,
    waker: Arc<Waker>,
    handover: Handover,
    listen: Vec<SocketAddr>,
    shared: Arc<Shared>,
    /// What logs on disk hold for the home of this thread.
    restorations: Vec<Restoration>,
    ready: Sender<Result<Ready, StartError>>,
}

struct Ready {
    addresses: Vec<SocketAddr>,
    connections_max: u32,
    table_refused: Option<String>,
    counters: Arc<Counters>,
    tls_counters: Option<Arc<tls::Counters>>,
}

impl ThreadParts {
    fn run(self) -> io::Result<()> {
        let ThreadParts {
            id,
            mailbox,
            waker,
            handover,
            listen,
            shared,
            restorations,
            ready,
        } = self;
        let mut table_refused = None;
        let mut is_private = shared.private_tables;
        if is_private && let Err(refused) = unshare_table(&shared.keep) {
            is_private = false;
            table_refused = Some(format!("{refused:?}").to_lowercase());
        }
        let opened = open_kernel(&shared, id, is_private, waker, handover, &listen);
        let (kernel, addresses) = match opened {
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
        let as_ready = |tls_counters| {
            Ok(Ready {
                addresses,
                connections_max,
                table_refused,
                counters,
                tls_counters,
            })
        };
        let turning = Turning {
            mailbox,
            id,
            shared,
            memory,
            home,
        };
        // Two kinds of reactors, so that a node without TLS has nothing of it.
        match turning.shared.tls.clone() {
            None => {
                let _ = ready.send(as_ready(None));
                turning.run(kernel)
            }
            Some(server) => {
                let mut net = tls::Tls::new(kernel);
                net.serve(turning.shared.plain_count as u8, &server);
                let _ = ready.send(as_ready(Some(net.counters())));
                turning.run(net)
            }
        }
    }
}

/// What a thread's reactor is made from, whatever the network is.
struct Turning {
    mailbox: ThreadMailbox,
    id: u16,
    shared: Arc<Shared>,
    memory: MemfdMemory,
    home: Option<Home>,
}

impl Turning {
    fn run(self, net: impl Net) -> io::Result<()> {
        let reactor = Reactor::new(ReactorParts {
            net,
            mailbox: self.mailbox,
            clock: SystemClock {
                began: self.shared.began,
            },
            id: self.id,
            settings: self.shared.settings.clone(),
            memory: Box::new(self.memory),
            hash_seed: self.shared.hash_seed,
            home: self.home,
        });
        reactor.run()
    }
}

/// Opens the logs on disk, by their indexes.
fn open_logs(options: &mut NodeOptions) -> Result<Vec<Option<OpenLog>>, StartError> {
    let directory = options.data_dir.clone().unwrap_or_default();
    let open_options = OpenOptions {
        directory: &directory,
        hash_seed: options.hash_seed,
    };
    let mut opened = Vec::new();
    for log in 0..options.settings.logs.len() {
        let settings = &mut options.settings;
        let LogSettings {
            durability,
            ref name,
            ..
        } = settings.logs[log];
        let name = name.clone();
        opened.push(match durability {
            Durability::Memory => None,
            Durability::Disk => {
                let open = log_thread::open(settings, log as u16, &open_options);
                Some(open.map_err(|error| StartError::Log(name, error))?)
            }
        });
    }
    Ok(opened)
}

/// A home that knows what logs on disk hold; none if there is nothing to know.
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
    let now_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis() as u64;
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
    // Each segment of the thread's home is a descriptor (`MemfdMemory`), and has to be had when connections fill the table.
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
        registered_max: if shared.registered_sockets {
            u32::MAX
        } else {
            0
        },
        ..KernelOptions::default()
    };
    let mut kernel = Kernel::new(options, waker, handover).map_err(StartError::System)?;
    let mut addresses = Vec::new();
    for (place, &address) in listen.iter().enumerate() {
        let mut options = ListenOptions::new(address);
        options.backlog_max = shared.backlog_max;
        options.socket_send_bytes = Some(shared.socket_send_bytes);
        options.refusal = if place < shared.plain_count {
            REFUSAL
        } else {
            TLS_REFUSAL
        };
        let (_, bound) = kernel
            .listen(&options)
            .map_err(|error| StartError::Listen(address, error))?;
        addresses.push(bound);
    }
    Ok((kernel, addresses))
}

struct SystemClock {
    began: Instant,
}

impl Clock for SystemClock {
    fn now(&mut self) -> Now {
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Now {
            monotonic_ms: self.began.elapsed().as_millis() as u64,
            unix_ms: unix.as_millis() as u64,
        }
    }
}
