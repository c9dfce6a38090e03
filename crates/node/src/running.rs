//! A running node: its threads, and its interface for the process.

mod ending;
mod logs;
mod starting;
mod upgrading;

pub use ending::IO_THREADS_END;
pub use starting::start;

use crate::admission::{Admission, AdmissionStatistics};
use crate::engine::EngineStatistics;
use crate::engine_thread::{self, ToEngine};
use crate::log_thread::{self, Troubles};
use crate::logs::LogStatistics;
use crate::mailbox::{Address, Control, Post, Report, ToLog};
use crate::pressure::SharedPressure;
use crate::proxied::{ProxiedCounters, ProxiedStatistics};
use crate::report::Asked;
use crate::timing::Timings;
use crate::upgrade::Adopting;
use crate::users::{UserStatistics, Users};
use broker::edge::{EdgeStatistics, Pressure};
use broker::home::HomeStatistics;
use broker::reload::Waiting;
use broker::settings::Settings;
use broker::sys::OwnMessage;
use net::Counters;
use net::system::Passage;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stdx::memory::{Component, Components};
use stdx::metrics::Metrics;

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

/// Counters and gauges of all shards together.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeStatistics {
    /// Counters of the edges.
    pub edge: EdgeStatistics,
    /// Counters of the homes.
    pub home: HomeStatistics,
    /// Counters of the log threads.
    pub log: LogStatistics,
    /// Counters of the engine's client and thread, if there is one.
    pub engine: EngineStatistics,
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
    /// Whether the engine's thread did not answer in time.
    pub silent_engine: bool,
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
    /// The channel to the engine's thread, if a log is there.
    pub(crate) engine: Option<Sender<ToEngine>>,
    /// Unanswered questions to the engine's thread.
    pub(crate) engine_reports: Asked<EngineStatistics>,
    pub(crate) engine_thread: Option<JoinHandle<io::Result<()>>>,
    pub(crate) ready_without_engine: bool,
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

/// Time limit for a report; a longer turn is a larger problem.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);
/// An engine that answers nothing for longer makes the node not ready, in milliseconds.
const ENGINE_SILENCE_MAX_MS: u64 = 10_000;

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
        let mut threads = self.threads.iter().chain(&self.log_threads).chain(&self.engine_thread);
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
        if let Some(why) = self.engine_unready(&statistics) {
            return Some(why);
        }
        let has_room = statistics.edge.connections < self.connections_max;
        (!has_room).then_some("the maximum number of connections is reached")
    }

    /// The reason why the engine's logs are not served as they should.
    fn engine_unready(&self, statistics: &NodeStatistics) -> Option<&'static str> {
        let engine = &statistics.engine;
        self.engine.as_ref()?;
        if engine.partitions_behind > 0 || statistics.silent_engine {
            return Some("the logs of the engine are being read");
        }
        let is_silent = engine.silence_ms > ENGINE_SILENCE_MAX_MS && !self.ready_without_engine;
        is_silent.then_some("the engine does not answer")
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
        if let Some(engine) = &self.engine {
            let engine = engine_thread::statistics(engine, &self.engine_reports, REPORT_TIMEOUT);
            total.silent_engine = engine.is_none();
            total.engine = engine.unwrap_or_default();
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
    /// message is dropped.
    pub fn publish_own(&self, message: OwnMessage) {
        if let Some(shard) = self.shards.0.first() {
            shard.send(Post::Control(Control::Publish(message)));
        }
    }

    /// Names the living nodes of the cluster: sessions and messages of all others continue
    /// elsewhere.
    pub fn tell_of_nodes(&self, living: &[String]) {
        let living: Arc<[String]> = living.into();
        for shard in self.shards.0.iter() {
            shard.send(Post::Control(Control::NodesLive(Arc::clone(&living))));
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        settings.clone()
    }
}
