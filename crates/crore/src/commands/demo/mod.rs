//! `crore demo`: a node with embedded defaults, thousands of subscribers with one topic each, and
//! figures each second.
//!
//! Three phases: connect some of the clients, then the rest, and measure the idle node's memory
//! after each; then publish and measure latencies. The cost of a connection is the slope between
//! the two measurements, because both contain the fixed memory of threads and their buffers. The
//! node has its own process, so its memory and CPU are separate from those of the clients.
//!
//! `--break-it` selects another run: [`breaks`].

mod breaks;
pub(super) mod panel;
mod prices;
pub(super) mod server;
mod witness;

use crate::exit::Ending;
use crate::signals::{self, Signal};
use crate::{process, terminal};
use anyhow::{Context, anyhow};
use bench::engine::{
    Common, Handle, Plan, Publishers, PublishersConfig, Snapshot, Subscribers, SubscribersConfig,
    Tally,
};
use bench::machine;
use bench::pattern::Pattern;
use bench::payload::HEADER_BYTES;
use bench::units::parse_duration;
use panel::{Figures, Panel, grouped};
use prices::Prices;
use server::{Server, Setup};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Time between two refreshes.
const REFRESH: Duration = Duration::from_secs(1);
/// Connections in addition to the subscribers': publishers, the prices, and a few for the live
/// page.
const OTHER_CONNECTIONS: u64 = 32;
/// Number of publishing connections.
const PUBLISHERS: u64 = 4;
/// Memory of a connection: it has two ends on this machine, each with about this number of bytes in
/// the kernel, and a little in user space.
const CONNECTION_BYTES: u64 = 2 * 4_600 + 1_000;
/// Time without a new connection after which the demo continues with the present ones.
const CONNECT_PATIENCE: Duration = Duration::from_secs(20);
/// Maximum number of I/O threads of the node.
const IO_THREADS_MAX: u64 = 1_024;
/// One in this number of clients connects in the first part.
const FIRST_PART: u64 = 5;
/// Minimum number of further connections for a meaningful slope.
const SLOPE_CONNECTIONS_MIN: u64 = 4_000;

/// Arguments of `demo`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Number of subscribers, each with a topic of its own.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    clients: u64,
    /// Total message rate of all subscribers, in messages per second.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    rate: u64,
    /// Size of each message in bytes.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(HEADER_BYTES as u64..=1_000_000))]
    size: u64,
    /// Connection rate, in connects per second.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    connect_rate: u64,
    /// Length of the run, such as `90s` or `5m`, or plain seconds. Without it, the demo runs until
    /// Ctrl-C. With `--break-it`, it is the maximum length; the default is then 30 seconds.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    duration: Option<Duration>,
    /// Inject three faults while messages flow, and count the messages: an upgrade in place, a
    /// `kill -9` and a drain. The log is on disk, in a temporary directory. The exit code is 1 if a
    /// message was lost.
    #[arg(long)]
    break_it: bool,
    /// With `--break-it`: keep the log in memory. The `kill -9` then loses the log, and every
    /// subscriber gets a gap.
    #[arg(long, requires = "break_it")]
    memory_log: bool,
}

/// Runs the demo.
///
/// # Errors
/// The node cannot be started, or stops; messages were lost, repeated or out of order; or a signal
/// stopped the run.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    let (sender, signal) = channel();
    let mut count = 0_u32;
    signals::watch(move |signal| {
        count += 1;
        if count > 1 || sender.send(signal).is_err() {
            std::process::exit(i32::from(signal.exit_code()));
        }
    });
    if arguments.break_it {
        return breaks::run(arguments, signal);
    }
    let mut demo = Demo::start(arguments, signal)?;
    let ending = demo.connect().and_then(|()| demo.publish(arguments));
    demo.end(ending)
}

struct Demo {
    server: Server,
    /// The first part of the clients, then the rest.
    subscribers: Vec<Handle>,
    connect_rate: f64,
    publishers: Option<Handle>,
    prices: Option<Prices>,
    panel: Panel,
    figures: Figures,
    signal: Receiver<Signal>,
    began: Instant,
    /// Time at which the demo stops by itself.
    deadline: Option<Instant>,
    next_refresh: Instant,
    last_cpu_s: f64,
    last_refresh: Instant,
}

/// Memory of the idle node.
struct Measured {
    connections: u64,
    memory_bytes: Option<u64>,
}

/// The reason for the early end of a phase.
enum Halt {
    Signal(Signal),
    /// `--duration` has passed.
    Over,
    Failed(Ending),
}

impl Demo {
    fn start(arguments: &Arguments, signal: Receiver<Signal>) -> Result<Demo, Ending> {
        let started = Started::new(arguments.clients, &Setup::default())?;
        let Started { server, io_threads, clients, notes } = started;
        introduce(arguments, clients, io_threads, &server, &notes);
        let prices = Prices::start(&server.clients).map_err(|error| anyhow!("{error}"))?;
        let now = Instant::now();
        Ok(Demo {
            last_cpu_s: server.usage().cpu_s,
            server,
            subscribers: Vec::new(),
            connect_rate: arguments.connect_rate as f64,
            publishers: None,
            prices: Some(prices),
            panel: Panel::new(),
            figures: Figures { clients, ..Figures::default() },
            signal,
            began: now,
            deadline: arguments.duration.and_then(|duration| now.checked_add(duration)),
            next_refresh: now + REFRESH,
            last_refresh: now,
        })
    }

    /// Connects all clients, and computes the node's memory for each of them.
    fn connect(&mut self) -> Result<(), Halt> {
        let clients = self.figures.clients;
        let first = (clients / FIRST_PART).max(1);
        let before = self.connect_part(1, first)?;
        if clients > first {
            let after = self.connect_part(first + 1, clients)?;
            let further = after.connections.saturating_sub(before.connections);
            if let (Some(after), Some(before)) = (after.memory_bytes, before.memory_bytes)
                && further >= SLOPE_CONNECTIONS_MIN
            {
                self.figures.connection_bytes = Some(after.saturating_sub(before) / further);
            }
        }
        self.figures.memory_bytes = self.server.usage().memory_bytes;
        self.refresh(None)
    }

    /// Connects clients for these topics, until all are connected or no more connect; then waits a
    /// second and measures the memory.
    fn connect_part(&mut self, first: u64, last: u64) -> Result<Measured, Halt> {
        let start = || -> anyhow::Result<Handle> {
            let mut common = Common::new(std::slice::from_ref(&self.server.clients))?;
            common.connect_rate = self.connect_rate;
            let config = SubscribersConfig::new(common, pattern(first, last)?, last - first + 1);
            Subscribers::start(config)
        };
        let handle = start().map_err(|error| Halt::Failed(error.into()))?;
        self.subscribers.push(handle);
        self.figures.doing = "connecting";
        let mut newest = (0, Instant::now());
        while self.figures.connections < last && newest.1.elapsed() < CONNECT_PATIENCE {
            self.wait()?;
            self.refresh(None)?;
            if self.figures.connections != newest.0 {
                newest = (self.figures.connections, Instant::now());
            }
        }
        self.figures.doing = "settling";
        self.wait()?;
        self.refresh(None)?;
        Ok(Measured {
            connections: self.figures.connections,
            memory_bytes: self.server.usage().memory_bytes,
        })
    }

    fn publish(&mut self, arguments: &Arguments) -> Result<(), Halt> {
        let start = || -> anyhow::Result<Handle> {
            let common = Common::new(std::slice::from_ref(&self.server.clients))?;
            let topics = pattern(1, self.figures.clients)?;
            let mut config = PublishersConfig::new(common, topics, arguments.rate as f64);
            config.connections = PUBLISHERS;
            config.load.size = arguments.size as usize;
            Publishers::start(config)
        };
        self.publishers = Some(start().map_err(|error| Halt::Failed(error.into()))?);
        self.figures.doing = "publishing; Ctrl-C stops the demo";
        loop {
            self.wait()?;
            let published = self.publishers.as_mut().map(Handle::snapshot);
            self.refresh(published.as_ref())?;
        }
    }

    /// Waits for the next refresh.
    fn wait(&mut self) -> Result<(), Halt> {
        let now = Instant::now();
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            return Err(Halt::Over);
        }
        match self.signal.recv_timeout(self.next_refresh.saturating_duration_since(now)) {
            Ok(signal) => return Err(Halt::Signal(signal)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Halt::Failed(anyhow!("the signal thread has ended").into()));
            }
        }
        // After a pause of the whole machine, missed refreshes are skipped.
        self.next_refresh = (self.next_refresh + REFRESH).max(Instant::now());
        if self.server.has_ended() {
            return Err(Halt::Failed(anyhow!("the node stopped unexpectedly").into()));
        }
        Ok(())
    }

    fn refresh(&mut self, published: Option<&Snapshot>) -> Result<(), Halt> {
        let received = self.received();
        let now = Instant::now();
        let span_s = now.duration_since(self.last_refresh).as_secs_f64().max(1e-3);
        self.last_refresh = now;
        let figures = &mut self.figures;
        figures.elapsed_s = now.duration_since(self.began).as_secs();
        figures.connect_rate = received.interval.connects as f64 / span_s;
        figures.connect_rate_peak = figures.connect_rate_peak.max(figures.connect_rate);
        figures.in_rate =
            published.map_or(0.0, |published| published.interval.sent as f64 / span_s);
        figures.out_rate = received.interval.received as f64 / span_s;
        figures.now = received.interval.latency.digest();
        let usage = self.server.usage();
        figures.node_cores = (usage.cpu_s - self.last_cpu_s).max(0.0) / span_s;
        self.last_cpu_s = usage.cpu_s;
        count(figures, &received.total);
        self.panel.show(figures).map_err(|error| Halt::Failed(error.into()))
    }

    /// The figures of all parts of the subscribers.
    fn received(&mut self) -> Snapshot {
        let mut all = Snapshot { interval: Tally::default(), total: Tally::default() };
        for part in &mut self.subscribers {
            let snapshot = part.snapshot();
            all.interval.merge(&snapshot.interval);
            all.total.merge(&snapshot.total);
        }
        all
    }

    fn end(mut self, ending: Result<(), Halt>) -> Result<(), Ending> {
        self.prices = None;
        // Stop the publishers first, so that the subscribers receive their last messages.
        let unacknowledged =
            self.publishers.take().map_or(0, |publishers| publishers.stop().total.unacknowledged);
        std::thread::sleep(Duration::from_millis(200));
        let connections = self.figures.connections;
        let mut received = Tally::default();
        for part in self.subscribers.drain(..) {
            received.merge(&part.stop().total);
        }
        count(&mut self.figures, &received);
        self.figures.connections = connections;
        self.figures.elapsed_s = self.began.elapsed().as_secs();
        println(&format!("\n{}", panel::summary(&self.figures)))?;
        if let Some(trouble) = &received.trouble {
            println(&format!("Last problem: {trouble}."))?;
        }
        drop(self.server);
        match ending {
            Err(Halt::Failed(ending)) => Err(ending),
            _ if self.figures.faults > 0 => {
                Err(anyhow!("messages were lost, repeated or out of order").into())
            }
            _ if unacknowledged > 0 => {
                Err(anyhow!("{unacknowledged} messages were not acknowledged").into())
            }
            Err(Halt::Signal(signal)) => Err(Ending::Signal(signal)),
            Err(Halt::Over) | Ok(()) => Ok(()),
        }
    }
}

/// A ready node, and the number of clients that it and this machine can hold.
struct Started {
    server: Server,
    io_threads: u64,
    clients: u64,
    /// Reasons for a reduced number of clients.
    notes: Vec<String>,
}

impl Started {
    fn new(wanted: u64, setup: &Setup) -> Result<Started, Ending> {
        let plan = Plan::new(wanted, 0, &[], 1);
        let mut notes = plan.notes.clone();
        let mut clients = plan.clients;
        let available = machine::available_bytes().unwrap_or(u64::MAX);
        limit(
            &mut clients,
            &mut notes,
            available / 10 * 8 / CONNECTION_BYTES,
            "the memory of this machine holds no more, with both ends of each connection",
        );
        let (server, io_threads) = start_server(clients + OTHER_CONNECTIONS, setup)?;
        let others = OTHER_CONNECTIONS.min(server.connections_max / 2);
        limit(
            &mut clients,
            &mut notes,
            server.connections_max - others,
            "the node has no descriptors for more (ulimit -n, for each I/O thread if descriptor tables are private)",
        );
        Ok(Started { server, io_threads, clients, notes })
    }
}

/// Limits the number of clients, and adds a note if that reduces it.
fn limit(clients: &mut u64, notes: &mut Vec<String>, most: u64, why: &str) {
    let most = most.max(1);
    if *clients > most {
        notes.push(format!("{} clients instead of {}: {why}.", grouped(most), grouped(*clients)));
        *clients = most;
    }
}

/// Starts a node for this number of connections, or as many as descriptors allow; returns it with
/// its I/O threads. With a low descriptor limit, more threads provide more tables, until the
/// descriptors for wake-ups between threads fill them.
fn start_server(connections: u64, setup: &Setup) -> Result<(Server, u64), Ending> {
    let mut threads = (process::cores_count() as u64).min(IO_THREADS_MAX);
    let mut server = Server::start(threads, setup)?;
    while server.connections_max < connections && threads < IO_THREADS_MAX {
        let held = server.connections_max;
        let wanted = connections.div_ceil((held / threads).max(1));
        let more = (wanted + wanted / 8).clamp(threads + 1, threads * 2).min(IO_THREADS_MAX);
        // Both nodes use the same ports: stop the smaller node first.
        drop(server);
        match Server::try_start(more, setup) {
            Ok(larger) if larger.connections_max > held => {
                server = larger;
                threads = more;
            }
            larger => {
                drop(larger);
                server = Server::start(threads, setup)?;
                break;
            }
        }
    }
    Ok((server, threads))
}

/// Parses a duration, or seconds without a unit, for flags.
fn duration(text: &str) -> Result<Duration, String> {
    match text.parse::<u64>() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => parse_duration(text),
    }
}

fn introduce(
    arguments: &Arguments,
    clients: u64,
    io_threads: u64,
    server: &Server,
    notes: &[String],
) {
    let bold = |text: &str| {
        if terminal::output_has_colours() {
            format!("\x1b[1m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    };
    let page = bold(&format!("{}/", server.operators));
    let mut lines = vec![
        format!(
            "A node with {io_threads} I/O threads serves clients at {}. {} subscribers, each with its own topic, receive {} messages of {} bytes per second in total.",
            server.clients,
            grouped(clients),
            grouped(arguments.rate),
            grouped(arguments.size)
        ),
        format!("Live page, to watch messages and publish: {page}"),
    ];
    lines.extend(server.notices.iter().chain(notes).map(|note| format!("Note: {note}")));
    // A closed standard output is detected at the first refresh.
    let _ = println(&lines.join("\n"));
}

fn println(text: &str) -> Result<(), Ending> {
    use std::io::Write;
    writeln!(std::io::stdout().lock(), "{text}")?;
    Ok(())
}

/// Topics of the load; the live page does not show them by default.
fn pattern(first: u64, last: u64) -> anyhow::Result<Pattern> {
    format!("load/{{{first}..{last}}}")
        .parse::<Pattern>()
        .map_err(anyhow::Error::msg)
        .context("topics")
}

fn count(figures: &mut Figures, total: &Tally) {
    figures.connections = u64::try_from(total.connections).unwrap_or(0);
    figures.received = total.received;
    figures.all = total.latency.digest();
    figures.gaps = total.gaps;
    let faults = &total.faults;
    // A late message reduces the count of losses, so that the difference may briefly be negative.
    let lost = u64::try_from(faults.lost).unwrap_or(0);
    figures.faults = lost + faults.repeated + faults.out_of_order + faults.proof_failed;
    figures.failed = total.connects_failed + total.disconnects;
}
