//! A running node: threads, their descriptor tables and listeners, and what the process can ask of them.

use crate::mailbox::{Address, Control, Post, Report, ThreadMailbox};
use crate::memory::MemfdMemory;
use crate::reactor::{Clock, Reactor, ReactorParts};
use broker::edge::{EdgeStatistics, Now};
use broker::home::HomeStatistics;
use broker::settings::Settings;
use net::Wake;
use net::kernel::{
    Handover, Kernel, KernelOptions, ListenOptions, Waker, check_free, nofile_limit, unshare_table,
};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What a node is started with.
#[derive(Debug)]
pub struct NodeOptions {
    /// What the shards know; its `edges_count` is the number of I/O threads.
    pub settings: Settings,
    /// Where clients connect; port 0 takes a free one.
    pub listen: Vec<SocketAddr>,
    /// `SO_SNDBUF` of client sockets, in bytes.
    pub socket_send_bytes: usize,
    /// Connections that the kernel may hold before they are accepted, per thread.
    pub backlog_max: i32,
    /// Give each I/O thread a descriptor table of its own where the system allows it.
    pub private_tables: bool,
    /// Random: keys the hash of topic names.
    pub hash_seed: (u64, u64),
}

/// Why a node did not start.
#[derive(Debug)]
pub enum StartError {
    /// Nothing can be bound there.
    Listen(SocketAddr, io::Error),
    /// Threads, descriptors or memory are not to be had.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Listen(address, error) => {
                write!(formatter, "cannot listen on {address}: {error}")
            }
            StartError::System(error) => write!(formatter, "cannot start: {error}"),
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
    /// Turns taken.
    pub turns: u64,
    /// Of these: turns of over ten milliseconds.
    pub long_turns: u64,
    /// I/O threads.
    pub io_threads: u16,
    /// Connections that all threads together can hold.
    pub connections_max: u64,
    /// Threads that did not answer in time; their numbers are missing.
    pub silent_threads: u16,
}

/// A node that accepts connections. Dropping it does not end it; [`Node::stop`] does.
#[derive(Debug)]
pub struct Node {
    addresses: Vec<SocketAddr>,
    notices: Vec<String>,
    shards: Shards,
    threads: Vec<JoinHandle<io::Result<()>>>,
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

/// Binds, starts the I/O threads, and returns when all of them accept.
///
/// # Errors
/// [`StartError`]; nothing is left running then.
pub fn start(options: NodeOptions) -> Result<Node, StartError> {
    for &address in &options.listen {
        if address.port() != 0 {
            check_free(address).map_err(|error| StartError::Listen(address, error))?;
        }
    }
    let count = usize::from(options.settings.edges_count);
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
    let (mailboxes, shards) = ThreadMailbox::mesh(dyn_wakers);
    let shared = Shared {
        settings: settings.clone(),
        keep,
        private_tables: options.private_tables,
        socket_send_bytes: options.socket_send_bytes,
        backlog_max: options.backlog_max,
        hash_seed: options.hash_seed,
        began: Instant::now(),
    };
    let shared = Arc::new(shared);
    let mut node = Node {
        addresses: options.listen,
        notices: Vec::new(),
        shards: Shards(shards),
        threads: Vec::new(),
        draining: AtomicBool::new(false),
        connections_max: 0,
    };
    let parts = mailboxes.into_iter().zip(wakers).zip(handovers).enumerate();
    let mut refused_table = None;
    for (id, ((mailbox, waker), handover)) in parts {
        let (ready, is_ready) = channel();
        let listen = node.addresses.clone();
        let thread = ThreadParts {
            id: id as u16,
            mailbox,
            waker,
            handover,
            listen,
            shared: shared.clone(),
            ready,
        };
        let spawned = std::thread::Builder::new()
            .name(format!("crore-io-{id}"))
            .spawn(move || thread.run());
        match spawned {
            Ok(handle) => node.threads.push(handle),
            Err(error) => return Err(node.give_up(StartError::System(error))),
        }
        // One after another: the first tells the port that all others then share.
        match is_ready.recv() {
            Ok(Ok(ready)) => {
                node.addresses = ready.addresses;
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
    /// Where clients connect, with the ports that were taken.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What the operator should know about this start.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Connections that all threads together can hold.
    pub fn connections_max(&self) -> u64 {
        self.connections_max
    }

    /// Whether new clients should come: the node runs, does not drain, and has room.
    pub fn ready(&self) -> bool {
        if self.draining.load(Ordering::Relaxed) || self.threads.iter().any(JoinHandle::is_finished)
        {
            return false;
        }
        self.statistics().edge.connections < self.connections_max
    }

    /// Asks all shards for their counters. Waits for each up to two seconds.
    pub fn statistics(&self) -> NodeStatistics {
        let answers: Vec<Receiver<Report>> = self
            .shards
            .0
            .iter()
            .map(|shard| {
                let (sender, receiver) = channel();
                shard.send(Post::Control(Control::Report(sender)));
                receiver
            })
            .collect();
        let mut total = NodeStatistics {
            io_threads: answers.len() as u16,
            connections_max: self.connections_max,
            ..NodeStatistics::default()
        };
        let deadline = Instant::now() + REPORT_TIMEOUT;
        for answer in answers {
            match answer.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(report) => {
                    total.edge += report.edge;
                    total.home += report.home;
                    total.turns += report.turns;
                    total.long_turns += report.long_turns;
                }
                Err(_) => total.silent_threads += 1,
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
    ready: Sender<Result<Ready, StartError>>,
}

struct Ready {
    addresses: Vec<SocketAddr>,
    connections_max: u32,
    table_refused: Option<String>,
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
            ready,
        } = self;
        let mut table_refused = None;
        let mut is_private = shared.private_tables;
        if is_private && let Err(refused) = unshare_table(&shared.keep) {
            is_private = false;
            table_refused = Some(format!("{refused:?}").to_lowercase());
        }
        let opened = open_kernel(&shared, is_private, waker, handover, &listen);
        let (kernel, addresses) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                // The starter waits for this answer.
                let _ = ready.send(Err(error));
                return Ok(());
            }
        };
        let connections_max = kernel.connections_max();
        let _ = ready.send(Ok(Ready {
            addresses,
            connections_max,
            table_refused,
        }));
        let reactor = Reactor::new(ReactorParts {
            net: kernel,
            mailbox,
            clock: SystemClock {
                began: shared.began,
            },
            id,
            settings: shared.settings.clone(),
            memory: Box::new(MemfdMemory::default()),
            hash_seed: shared.hash_seed,
        });
        reactor.run()
    }
}

fn open_kernel(
    shared: &Shared,
    is_private: bool,
    waker: Arc<Waker>,
    handover: Handover,
    listen: &[SocketAddr],
) -> Result<(Kernel, Vec<SocketAddr>), StartError> {
    let threads_count = u32::from(shared.settings.edges_count);
    let options = KernelOptions {
        connections_max: shared
            .settings
            .limits
            .connections_max
            .min(KernelOptions::default().connections_max),
        table_threads_count: if is_private { 1 } else { threads_count },
        ..KernelOptions::default()
    };
    let mut kernel = Kernel::new(options, waker, handover).map_err(StartError::System)?;
    let mut addresses = Vec::new();
    for &address in listen {
        let mut options = ListenOptions::new(address);
        options.backlog_max = shared.backlog_max;
        options.socket_send_bytes = Some(shared.socket_send_bytes);
        options.refusal = REFUSAL;
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
