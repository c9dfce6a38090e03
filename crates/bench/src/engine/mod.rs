//! The engine: workers that carry subscribers, publishers or echo clients, and a handle to read
//! them while they run.
//!
//! Place: under `crore bench` and `crore demo`. Nothing is printed here.
//!
//! ```no_run
//! use bench::engine::{Common, Publishers, Subscribers, SubscribersConfig};
//!
//! # fn main() -> anyhow::Result<()> {
//! let common = Common::new(&["ws://127.0.0.1:8800".to_owned()])?;
//! let topics = "demo/s{1..1000}".parse().unwrap();
//! let mut handle = Subscribers::start(SubscribersConfig::new(common, topics, 1_000))?;
//! std::thread::sleep(std::time::Duration::from_secs(1));
//! let snapshot = handle.snapshot();
//! println!("{} connections", snapshot.total.connections);
//! let summary = handle.stop();
//! assert!(summary.total.is_clean());
//! # Ok(())
//! # }
//! ```

mod absences;
mod assignment;
mod auditing;
mod config;
mod echoes;
mod left;
mod link;
mod mqtt;
mod native;
mod network;
mod plan;
mod pool;
mod protocol;
mod publishers;
mod publishing;
mod receivers;
mod route;
mod shortage;
mod sockets;
mod streams;
mod subscriptions;
mod tally;
mod window;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, bail};
use net::Wake;
use net::kernel::Waker;
use wire::native::{Position, Start};

use crate::audit::{Findings, Ledger};
use crate::pacing::Pace;
use crate::payload::{Clock, HEADER_BYTES, seed_from_entropy};
use crate::source::Sources;
use crate::statistics::Sample;
use crate::tokens::WorkerTokens;
use absences::Absences;
use assignment::Assignment;
use auditing::{AuditShare, SharedLedger};
use left::SharedResults;
use mqtt::{ClientIds, MqttPublishing, MqttSubscribers, Speech, Subscribing};
use pool::{CONNECTING_MAX, RETRY_NS_MAX, Shared, Worker};
use publishing::{NativePublishing, Publishing};
use receivers::SharedReceivers;
use route::Routes;
use sockets::Sockets;
use subscriptions::{Share, Subscriptions};
use window::{Outage, Span};

pub use config::{
    Absence, Beginning, Common, EchoesConfig, PublishersConfig, SubscribersConfig, Transport,
};
pub use mqtt::{MqttOptions, MqttVersion};
pub use network::{ADDRESSES_MAX, ClientNetwork, NetworkDevice, parse_station};
pub use plan::Plan;
pub use protocol::{Protocol, Turn};
pub use publishers::{Load, Order};
pub use route::Route;
pub use subscriptions::Topics;
pub use tally::{Counts, Tally};
pub use window::Window;

/// The longest pause of a publisher before another attempt. They are few and make no storm, and
/// what they hold back is to be there when the subscribers return.
const PUBLISHER_RETRY_NS_MAX: u64 = 500_000_000;

/// Subscribers: see [`Subscribers::start`].
#[derive(Debug)]
pub struct Subscribers;

/// Publishers: see [`Publishers::start`].
#[derive(Debug)]
pub struct Publishers;

/// Echo clients: see [`Echoes::start`].
#[derive(Debug)]
pub struct Echoes;

/// Clients of a protocol of the caller: see [`Clients::start`].
#[derive(Debug)]
pub struct Clients;

impl Subscribers {
    /// Starts the workers.
    ///
    /// # Errors
    /// A configuration that makes no sense, or no threads to be had.
    pub fn start(config: SubscribersConfig) -> anyhow::Result<Handle> {
        let per_client = u64::from(config.topics.per_client);
        if per_client == 0 || per_client > config.topics.pattern.len() {
            bail!("--topics-per-client must be between 1 and the number of topics");
        }
        if config.transport == Transport::Http && per_client > 1 {
            bail!("a long poll has one topic; use --topics-per-client 1, or sse or ws");
        }
        let common = &config.common;
        common.check(config.transport)?;
        if config.transport == Transport::Mqtt && config.beginning != Beginning::Live {
            bail!("--start needs --transport ws or sse: MQTT has no positions");
        }
        if config.receive_bytes.is_some() && common.network.is_some() {
            bail!("--receive-buffer is of the kernel's sockets: it cannot go with --interface");
        }
        let plan = common.plan(config.clients)?;
        let every = config.clients.checked_div(config.sample).unwrap_or(0);
        let sample_every = if config.sample == 0 { 0 } else { every.max(1) };
        let topics = Arc::new(config.topics.clone());
        let run = Run {
            absences: Absences {
                return_rate: config.return_rate,
                ..Absences::new(config.stall, config.away, config.receive_bytes)
            },
            ..Run::new(common, plan.clone(), plan.clients)
        };
        let receivers =
            config.has_last_receiver.then(|| (plan.clients, SharedReceivers::default()));
        // A client that does not read cannot answer the server's pings either.
        let quiet_s = config.stall.map_or(0, |stall| stall.span.as_secs() + 60);
        let share = |worker: u64, clients: u32| Share {
            topics: topics.clone(),
            start: match config.beginning {
                Beginning::Live => Start::Live,
                Beginning::First => subscriptions::FIRST,
                Beginning::Last(count) => Start::Last(count),
                Beginning::Since(epoch, offset) => Start::Since(Position { epoch, offset }),
            },
            shown: shown(common, worker, plan.threads),
            clients,
            sample_every,
            window: run.window.clone(),
            receivers: receivers.clone(),
            ping_interval_s: quiet_s as u32,
            audit: config.is_audited.then(|| AuditShare {
                ledger: run.ledger.clone(),
                is_from_first: config.beginning == Beginning::First,
            }),
            results: run.results.clone(),
        };
        launch_subscribers(&config, &run, share)
    }
}

impl Publishers {
    /// Starts the workers; messages flow as soon as all connections of a worker are open.
    ///
    /// # Errors
    /// The errors of [`Subscribers::start`].
    pub fn start(mut config: PublishersConfig) -> anyhow::Result<Handle> {
        let common = &config.common;
        common.check(config.transport)?;
        if config.transport == Transport::Mqtt && config.load.exactly_once {
            bail!("exactly once needs --transport ws: MQTT has no numbers of producers");
        }
        let topics = config.load.topics.len();
        if config.connections == 0 || config.load.size < HEADER_BYTES {
            bail!(
                "a run needs at least one connection, and a size of at least {HEADER_BYTES} bytes"
            );
        }
        // Every connection needs a topic of its own, as a topic's order lives on one connection.
        let connections = config.connections.min(topics);
        let plan = common.plan(connections)?;
        let workers = plan.threads;
        let clients = plan.clients;
        let run = Run { retry_ns_max: PUBLISHER_RETRY_NS_MAX, ..Run::new(common, plan, clients) };
        config.load.window = run.window.clone();
        let load = Arc::new(config.load);
        match config.transport {
            Transport::Ws => launch_publishers(common, &run, &load, |worker, _| {
                let sockets = sockets(native::SUBPROTOCOLS, shown(common, worker, workers), false);
                NativePublishing::new(sockets, load.publisher, worker, load.exactly_once)
            }),
            Transport::Mqtt => {
                let ids = ClientIds::new();
                launch_publishers(common, &run, &load, |worker, connections| {
                    let shown = shown(common, worker, workers);
                    let speech = Speech::new(config.mqtt, ids, shown, connections);
                    MqttPublishing::new(speech, connections)
                })
            }
            Transport::Sse | Transport::Http => {
                bail!("publishers need --transport ws or mqtt")
            }
        }
    }
}

impl Echoes {
    /// Starts the workers. [`Handle::add_clients`] and [`Handle::set_clients`] change the number of
    /// clients while they run.
    ///
    /// # Errors
    /// The errors of [`Subscribers::start`].
    pub fn start(config: EchoesConfig) -> anyhow::Result<Handle> {
        let common = &config.common;
        let plan = common.plan(config.clients_max.max(config.clients).max(1))?;
        let every_ns = config.every.as_nanos() as u64;
        let publisher = common.seed as u32;
        let clients = config.clients.min(plan.clients);
        let workers = plan.threads;
        let run = Run::new(common, plan, clients);
        launch(common, &run, |worker, _| {
            let sockets = sockets(&[], shown(common, worker, workers), false);
            let size = config.size.max(HEADER_BYTES);
            echoes::Echoes::new(sockets, every_ns, size, publisher, run.window.clone())
        })
    }
}

impl Clients {
    /// Starts one worker without clients; `common.threads` must be 1. [`Handle::set_clients`]
    /// connects and ends them; at most `connecting_max` have not finished their handshake.
    ///
    /// # Errors
    /// The errors of [`Subscribers::start`], or one worker cannot carry `clients_max`.
    pub fn start(
        common: &Common,
        clients_max: u64,
        connecting_max: u32,
        protocol: impl Protocol,
    ) -> anyhow::Result<Handle> {
        let plan = common.plan(clients_max)?;
        if plan.threads > 1 || plan.clients < clients_max {
            bail!("one thread cannot carry {clients_max} clients. {}", plan.notes.join(" "));
        }
        let run = Run { connecting_max, ..Run::new(common, plan, 0) };
        let mut protocol = Some(protocol);
        launch(common, &run, |_, _| protocol.take().expect("the plan has one worker"))
    }
}

/// Running workers. Dropping it ends them without waiting.
#[derive(Debug)]
pub struct Handle {
    /// The plan of the run, with its notes.
    pub plan: Plan,
    clients: u64,
    routes: Arc<Routes>,
    workers: Vec<(Arc<Shared>, Arc<Waker>, JoinHandle<()>)>,
    total: Tally,
    /// Collected, and not part of a snapshot yet.
    pending: Tally,
    shown: Tally,
    ledger: SharedLedger,
    results: SharedResults,
    window: Arc<Window>,
    outage: Arc<Outage>,
    away: Arc<Span>,
}

/// The counts at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Since the last snapshot.
    pub interval: Tally,
    /// Since the start.
    pub total: Tally,
}

/// The counts at the end.
#[derive(Debug)]
pub struct Summary {
    /// Since the last snapshot.
    pub interval: Tally,
    /// Since the start.
    pub total: Tally,
    /// Latencies of the sampled clients, by the client's number.
    pub samples: Vec<(u64, Sample)>,
    /// The findings of the audit, if streams were audited.
    pub findings: Option<Findings>,
    /// The acknowledged messages, if the publishers recorded them.
    pub ledger: Option<Ledger>,
}

impl Handle {
    /// The counters now. They are at most a tenth of a second old.
    pub fn snapshot(&mut self) -> Snapshot {
        let interval = self.take();
        Snapshot { interval, total: self.total.clone() }
    }

    /// The counts until now, without ending the interval of [`Handle::snapshot`].
    pub fn total(&mut self) -> &Tally {
        self.pending.merge(&self.collect());
        self.shown = self.total.clone();
        self.shown.merge(&self.pending);
        &self.shown
    }

    /// A count until now, without the cost of a snapshot.
    pub fn count(&self, pick: impl Fn(&Tally) -> u64) -> u64 {
        let waiting: u64 = self
            .workers
            .iter()
            .map(|(shared, ..)| pick(&shared.tally.lock().unwrap_or_else(PoisonError::into_inner)))
            .sum();
        pick(&self.total) + pick(&self.pending) + waiting
    }

    /// From now on latencies are of the messages that were meant for this span of the monotonic
    /// clock, in nanoseconds. Behind its end nothing is sent.
    pub fn measure(&self, from_ns: u64, until_ns: u64) {
        self.window.set(from_ns, until_ns);
    }

    /// All clients lose their connections at the one time and return at the other. Only subscribers
    /// do, and only once.
    pub fn send_away(&self, at_ns: u64, return_ns: u64) {
        self.away.set(at_ns..return_ns.max(at_ns));
    }

    /// From this time on the server is to be gone: return times are counted from it.
    pub fn begin_outage(&self, at_ns: u64) {
        self.outage.begin(at_ns);
    }

    /// Whether all that was to be sent has been sent.
    pub fn has_sent_all(&self) -> bool {
        self.count(|tally| tally.finished) >= self.workers.len() as u64
    }

    /// Gives the audited streams what publishers were acknowledged. Only the first one counts.
    pub fn set_ledger(&self, ledger: Ledger) {
        // A second one would judge streams that are judged already.
        let _ = self.ledger.set(ledger);
    }

    /// Whether every stream has all messages that the ledger lists as acknowledged, or a gap for
    /// them.
    pub fn has_all_acknowledged(&mut self) -> bool {
        let workers = self.workers.len() as u64;
        let total = self.total();
        total.judging == workers && total.due == 0
    }

    /// The requested number of clients.
    pub fn clients(&self) -> u64 {
        self.clients
    }

    /// Sets the number of clients, at most as many as planned; the newest leave first. Echo
    /// clients and those of [`Clients`] support this.
    pub fn set_clients(&mut self, clients: u64) {
        self.clients = clients.min(self.plan.clients);
        Arc::make_mut(&mut self.routes).truncate(self.clients);
        self.assign();
    }

    /// So many clients more, up to as many as planned, which connect to these addresses in turn; to
    /// those of the beginning where there are none. Answers how many are wanted now.
    ///
    /// # Errors
    /// The address has changed too often; nothing is done.
    pub fn add_clients(&mut self, count: u64, routes: &[Route]) -> Result<u64, String> {
        Arc::make_mut(&mut self.routes).change(self.clients, routes)?;
        self.clients = self.clients.saturating_add(count).min(self.plan.clients);
        self.assign();
        Ok(self.clients)
    }

    fn assign(&self) {
        let count = self.workers.len() as u64;
        for (number, (shared, waker, _)) in (0..count).zip(&self.workers) {
            let clients = share_of(self.clients, number, count) as u32;
            shared.assignment.change(clients, self.routes.clone());
            waker.wake();
        }
    }

    /// Whether all workers have ended by themselves, which only a failure makes them do.
    pub fn is_finished(&self) -> bool {
        self.workers.iter().all(|(_, _, thread)| thread.is_finished())
    }

    /// Ends the workers after the answers to their pending requests (at most three seconds), and
    /// sums up.
    pub fn stop(mut self) -> Summary {
        for (shared, waker, _) in &self.workers {
            shared.ending.store(true, Ordering::Release);
            waker.wake();
        }
        let mut shares = Vec::new();
        for (shared, waker, thread) in self.workers.drain(..) {
            // A worker that panicked has left its last tally behind; the run is then not clean.
            let has_panicked = thread.join().is_err();
            if has_panicked {
                let mut tally = shared.tally.lock().unwrap_or_else(PoisonError::into_inner);
                tally.trouble = Some("a worker failed".to_owned());
                tally.faults.proof_failed += 1;
            }
            shares.push((shared, waker));
        }
        let mut interval = std::mem::take(&mut self.pending);
        for (shared, _) in &shares {
            interval.merge(&shared.tally.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let mut total = std::mem::take(&mut self.total);
        total.merge(&interval);
        let mut left = self.results.with(std::mem::take);
        left.samples.sort_by_key(|(client, _)| *client);
        Summary {
            interval,
            total,
            samples: left.samples,
            findings: left.findings,
            ledger: left.ledger,
        }
    }

    fn take(&mut self) -> Tally {
        let mut interval = std::mem::take(&mut self.pending);
        interval.merge(&self.collect());
        self.total.merge(&interval);
        interval
    }

    /// The counts that the workers have handed over since the last call.
    fn collect(&self) -> Tally {
        let mut interval = Tally::default();
        for (shared, ..) in &self.workers {
            let mut tally = shared.tally.lock().unwrap_or_else(PoisonError::into_inner);
            interval.merge(&tally);
            tally.clear();
        }
        interval
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        for (shared, waker, _) in &self.workers {
            shared.ending.store(true, Ordering::Release);
            waker.wake();
        }
    }
}

/// The parameters of all workers of a run.
struct Run {
    plan: Plan,
    /// Wanted at first.
    clients: u64,
    absences: Absences,
    ledger: SharedLedger,
    results: SharedResults,
    window: Arc<Window>,
    retry_ns_max: u64,
    connecting_max: u32,
}

impl Run {
    fn new(common: &Common, plan: Plan, clients: u64) -> Run {
        Run {
            plan,
            clients,
            absences: Absences::none(),
            ledger: SharedLedger::default(),
            results: SharedResults::default(),
            window: Window::from(Clock::Monotonic.now_ns() + common.warm_up.as_nanos() as u64),
            retry_ns_max: RETRY_NS_MAX,
            connecting_max: CONNECTING_MAX,
        }
    }
}

/// Starts one thread for each worker. `make` gets the worker's number and how many clients it may
/// have.
fn launch<P: Protocol>(
    common: &Common,
    run: &Run,
    mut make: impl FnMut(u64, u32) -> P,
) -> anyhow::Result<Handle> {
    let Run { plan, clients, .. } = run;
    let workers = plan.threads;
    let wakers: Vec<Arc<Waker>> =
        (0..workers).map(|_| Waker::new()).collect::<Result<_, _>>().context("wakers")?;
    let keep: Vec<_> = wakers.iter().map(|waker| waker.descriptor()).collect();
    let start_ns = Clock::Monotonic.now_ns();
    let routes = Arc::new(Routes::new(common.routes.clone()));
    let mut handle = Handle {
        plan: plan.clone(),
        clients: *clients,
        routes: routes.clone(),
        workers: Vec::new(),
        total: Tally::default(),
        pending: Tally::default(),
        shown: Tally::default(),
        ledger: run.ledger.clone(),
        results: run.results.clone(),
        window: run.window.clone(),
        outage: run.absences.outage.clone(),
        away: run.absences.away.clone(),
    };
    let tls = tls_client(common)?;
    let network =
        common.network.as_ref().map(|network| network.with(&common.local_addresses)).transpose()?;
    let (opened, openings) = channel();
    for (number, waker) in (0..workers).zip(wakers) {
        let worker_clients = share_of(plan.clients, number, workers) as u32;
        let worker_wanted = share_of(*clients, number, workers) as u32;
        let shared = Arc::new(Shared {
            tally: Mutex::default(),
            ending: AtomicBool::new(false),
            assignment: Assignment::new(worker_wanted, routes.clone()),
        });
        let worker = Worker {
            number,
            workers,
            clients_max: worker_clients,
            sources: Sources::new(common.local_addresses.clone(), number, workers),
            connect_pace: Pace::new(start_ns, common.connect_rate, number, workers),
            connecting_max: run.connecting_max,
            has_private_tables: plan.has_private_tables,
            retry_ns_max: run.retry_ns_max,
            busy_poll: common.busy_poll.clone(),
            tls: tls.clone(),
            absences: run.absences.clone(),
            protocol: make(number, worker_clients),
            seed: seed_from_entropy(),
            shared: shared.clone(),
            waker: waker.clone(),
            keep: keep.clone(),
            network: network.clone(),
            opened: opened.clone(),
        };
        let thread = std::thread::Builder::new()
            .name(format!("bench-{number}"))
            .spawn(move || worker.run())
            .context("cannot start a worker thread")?;
        handle.workers.push((shared, waker, thread));
    }
    drop(opened);
    for _ in 0..workers {
        openings.recv().context("a worker failed")?.context("cannot start a worker")?;
    }
    Ok(handle)
}

/// The TLS client of all workers. Settings are read even if no address uses TLS yet, because one
/// may be added later.
fn tls_client(common: &Common) -> anyhow::Result<Option<tls::Client>> {
    let has_tls = common.routes.iter().any(|route| route.tls_name.is_some());
    if has_tls || common.tls.is_given() {
        return Ok(Some(tls::Client::load(&common.tls)?));
    }
    Ok(None)
}

/// Starts the workers of subscribers with the protocol of the configuration.
fn launch_subscribers(
    config: &SubscribersConfig,
    run: &Run,
    share: impl Fn(u64, u32) -> Share,
) -> anyhow::Result<Handle> {
    let common = &config.common;
    let shown = |worker| shown(common, worker, run.plan.threads);
    match config.transport {
        Transport::Ws => launch(common, run, |worker, clients| {
            let sockets = sockets(native::SUBPROTOCOLS, shown(worker), config.is_compressed);
            let share = share(worker, clients);
            native::NativeSubscribers::new(sockets, share, config.is_hello_early)
        }),
        Transport::Sse => launch(common, run, |worker, clients| {
            let share = share(worker, clients);
            streams::StreamSubscribers::new(streams::Kind::EventStream, share)
        }),
        Transport::Http => launch(common, run, |worker, clients| {
            let share = share(worker, clients);
            streams::StreamSubscribers::new(streams::Kind::LongPoll, share)
        }),
        Transport::Mqtt => {
            let ids = ClientIds::new();
            let (options, qos) = (config.mqtt, config.qos);
            let subscribing = Subscribing { qos, is_early: config.is_hello_early };
            launch(common, run, |worker, clients| {
                let speech = Speech::new(options, ids, shown(worker), clients);
                let subscriptions = Subscriptions::new(share(worker, clients));
                MqttSubscribers::new(speech, subscriptions, subscribing)
            })
        }
    }
}

/// Starts the workers of publishers over what `wire` makes.
fn launch_publishers<W: Publishing>(
    common: &Common,
    run: &Run,
    load: &Arc<Load>,
    mut wire: impl FnMut(u64, u32) -> W,
) -> anyhow::Result<Handle> {
    let workers = run.plan.threads;
    launch(common, run, |worker, connections| {
        let (load, results) = (load.clone(), run.results.clone());
        let wire = wire(worker, connections);
        publishers::Publishers::new(wire, load, worker, workers, connections, results)
    })
}

fn sockets(subprotocols: &'static [&'static str], shown: WorkerTokens, deflate: bool) -> Sockets {
    let seed = seed_from_entropy() ^ shown.worker;
    Sockets::new(subprotocols, shown, seed, deflate)
}

/// The credentials of a worker's clients.
fn shown(common: &Common, worker: u64, workers: u64) -> WorkerTokens {
    WorkerTokens { tokens: common.tokens.clone(), worker, workers }
}

/// The part of `all` that worker `number` of `workers` carries, so that client i is with worker i
/// modulo workers.
fn share_of(all: u64, number: u64, workers: u64) -> u64 {
    (all + workers - 1 - number.min(workers - 1)) / workers
}
