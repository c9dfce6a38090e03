//! The outcome of a run: the content of its report.
//!
//! Place: filled by the phases, written as `report.json`, shown by [`super::text`] and
//! [`super::page`].

use serde::Serialize;

use super::completeness::Completeness;
use super::message::SampleFigures;
use super::observe::MachineFacts;
use super::scale::Limit;
use super::workload::{Published, Size};
use crate::statistics::Digest;

/// The whole report.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Version of this format; it changes when the meaning of a field does.
    pub format: u32,
    /// The workload's name.
    pub name: &'static str,
    /// In words.
    pub title: &'static str,
    /// A description of the workload.
    pub what: &'static str,
    /// The program that measured.
    pub version: String,
    /// The command line.
    pub command_line: String,
    /// The start time, in UTC.
    pub began: String,
    /// On what.
    pub machine: MachineFacts,
    /// The size and the parameters.
    pub plan: PlanFigures,
    /// The limits of this machine, the lowest first.
    pub limits: Vec<Limit>,
    /// The published figures.
    pub published: Option<Published>,
    /// From when until when.
    pub phases: Vec<Phase>,
    /// One for each interval.
    pub samples: Vec<Sample>,
    /// The connection phase.
    pub connect: Option<ConnectFigures>,
    /// The memory of connections.
    pub memory: Option<MemoryFigures>,
    /// The figures of the measured span.
    pub measured: Option<MeasuredFigures>,
    /// The delays of a thread's wake-ups during the run.
    pub hiccups: Option<HiccupFigures>,
    /// The loss of all connections, and the return.
    pub storm: Option<StormFigures>,
    /// Steps towards the highest sustainable rate.
    pub steps: Vec<Step>,
    /// The highest rate that was sustained, in messages per second.
    pub sustainable_rate: Option<f64>,
    /// Whether everything came.
    pub completeness: Completeness,
    /// Ours beside the published figures.
    pub comparison: Vec<Row>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// The reason why the run did not complete.
    pub trouble: Option<String>,
}

/// The size and the parameters of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PlanFigures {
    /// The size.
    pub size: Option<Size>,
    /// Clients as published.
    pub clients_published: u64,
    /// The protocol of the clients.
    pub transport: String,
    /// Bytes of a message.
    pub message_bytes: u64,
    /// The measured span, in seconds.
    pub duration_s: f64,
    /// Before it.
    pub warm_up_s: f64,
    /// Between the last connection and the first message.
    pub settle_s: f64,
    /// Between two samples.
    pub interval_s: f64,
    /// Connects per second; 0: as fast as it goes.
    pub connect_rate: f64,
    /// Publications are acknowledged.
    pub has_acknowledgements: bool,
    /// Publications are repeated and stand in the log once.
    pub is_once: bool,
    /// Over TLS.
    pub has_tls: bool,
    /// Cores of the server; empty: not pinned.
    pub server_cores: String,
    /// Cores of the load generators.
    pub client_cores: String,
    /// I/O threads of the server.
    pub io_threads: Option<u64>,
    /// Threads of the subscribers.
    pub client_threads: u64,
    /// The device of Crore's own TCP; none: the kernel's sockets.
    pub own_tcp: Option<&'static str>,
    /// Source addresses.
    pub local_addresses: String,
    /// Connections of the publishers.
    pub publisher_connections: u64,
    /// Options of the server, as a file; none of a foreign server.
    pub server_configuration: Option<String>,
    /// The URL of the server, if the run did not start it.
    pub foreign_url: Option<String>,
}

/// A phase of the run.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// Its name.
    pub name: &'static str,
    /// Its begin, in seconds since that of the run.
    pub from_s: f64,
    /// Its end.
    pub until_s: f64,
}

/// One interval.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sample {
    /// Its end, in seconds since the run's begin.
    pub at_s: f64,
    /// The phase at its end.
    pub phase: &'static str,
    /// Open connections.
    pub connections: i64,
    /// Clients whose subscription is answered.
    pub live: i64,
    /// Messages sent per second.
    pub sent_rate: f64,
    /// Messages received per second.
    pub received_rate: f64,
    /// Measured messages that came in the interval.
    pub count: u64,
    /// Their median latency, in microseconds; none where none came.
    pub p50_us: Option<f64>,
    /// Their 99th percentile.
    pub p99_us: Option<f64>,
    /// The greatest.
    pub max_us: Option<f64>,
    /// CPU of the server, in cores.
    pub server_cpu: Option<f64>,
    /// User-space memory of the server (PSS).
    pub server_pss: Option<u64>,
    /// Its anonymous memory.
    pub server_anonymous: Option<u64>,
    /// Its threads.
    pub server_threads: Option<u64>,
    /// CPU of the load generators, in cores.
    pub clients_cpu: Option<f64>,
    /// User-space memory of the load generators.
    pub clients_pss: Option<u64>,
    /// Slab of the kernel that it cannot give back.
    pub slab: Option<u64>,
    /// Buffers of TCP sockets.
    pub tcp: Option<u64>,
    /// Cores that the hypervisor gave to others.
    pub steal: Option<f64>,
}

/// The connection phase.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ConnectFigures {
    /// Connections.
    pub connections: u64,
    /// From the first connect until all clients were live, in seconds.
    pub seconds: f64,
    /// Connections per second over that time.
    pub rate: f64,
    /// CPU of the server for each, in microseconds: upgrade, subscription and answers.
    pub server_cpu_us: Option<f64>,
    /// CPU of the load generator for each.
    pub client_cpu_us: Option<f64>,
    /// Attempts that failed.
    pub failed: u64,
    /// From the intended connect to the end of the handshake.
    pub time: Digest,
}

/// Memory and CPU time of connections.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MemoryFigures {
    /// Connections when it was taken.
    pub connections: u64,
    /// User space of the server before the first one.
    pub start_pss: Option<u64>,
    /// User space of the server when all had settled.
    pub settled_pss: Option<u64>,
    /// User space at the end of the run.
    pub end_pss: Option<u64>,
    /// Bytes for each connection, the server's threads included; without the pages of files, which
    /// it shares.
    pub user_bytes: Option<f64>,
    /// Bytes for each further connection, beyond the first fifth of them.
    pub user_slope_bytes: Option<f64>,
    /// Slab of the kernel and TCP buffers for one end of each connection.
    pub kernel_bytes: Option<f64>,
    /// User space of the generator for each connection.
    pub client_bytes: Option<f64>,
    /// CPU of the server while all connections were idle, in cores.
    pub idle_cpu: Option<f64>,
    /// Threads of the server.
    pub threads: Option<u64>,
}

/// The figures of the measured span.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MeasuredFigures {
    /// Its length, in seconds.
    pub seconds: f64,
    /// Messages that were sent in it.
    pub sent: u64,
    /// Messages sent per second.
    pub sent_rate: f64,
    /// Messages of it that were delivered.
    pub delivered: u64,
    /// Messages delivered per second.
    pub delivered_rate: f64,
    /// From the intended send time to the receipt, over all of them.
    pub latency: Digest,
    /// The same: shares and microseconds.
    pub distribution: Vec<(f64, f64)>,
    /// Delay of a message's sending after its intended time. It is part of the latency.
    pub send_delay: Digest,
    /// From the intended send time to the acknowledgement, for publications.
    pub acknowledgement: Option<Digest>,
    /// From the intended send time until the last of all clients had the message.
    pub last_receiver: Option<Digest>,
    /// Latencies of a few clients alone, as published tests have them.
    pub sample: Option<SampleFigures>,
    /// CPU of the server, in cores.
    pub server_cpu: Option<f64>,
    /// Its CPU in system mode.
    pub server_system_cpu: Option<f64>,
    /// The server's CPU in percent of its cores.
    pub server_cpu_percent: Option<f64>,
    /// CPU of the server for each delivery, in microseconds.
    pub delivery_cpu_us: Option<f64>,
    /// CPU of the load generators, in cores.
    pub clients_cpu: Option<f64>,
    /// CPU of the whole machine, in cores: the kernel's work for no process included.
    pub machine_cpu: Option<f64>,
    /// Cores that the hypervisor gave to others.
    pub steal: Option<f64>,
}

/// The hiccup meter.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HiccupFigures {
    /// Wake-up delays of a thread that sleeps for one millisecond at a time, on the cores of the
    /// run.
    pub late: Digest,
    /// The same: shares and microseconds.
    pub distribution: Vec<(f64, f64)>,
}

/// A storm.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StormFigures {
    /// The server was killed and started again; otherwise the clients went.
    pub has_killed_server: bool,
    /// Length of the absence of the clients or the server, in seconds.
    pub away_s: f64,
    /// From the start of the server until it was ready again, in seconds.
    pub restart_s: Option<f64>,
    /// Until clients were live again: since they were to return, or since the server was killed.
    pub back: Digest,
    /// Time from the server being ready again to the return of the last client, in seconds.
    pub last_since_ready_s: Option<f64>,
    /// Messages that were replayed.
    pub recovered: u64,
    /// Connects that failed meanwhile.
    pub connects_failed: u64,
    /// CPU of the server until the last one was live, in seconds.
    pub server_cpu_s: Option<f64>,
    /// CPU time for each client, in microseconds.
    pub server_cpu_us: Option<f64>,
}

/// A step towards the sustainable rate.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Step {
    /// Messages per second that were asked for.
    pub rate: f64,
    /// Messages per second that were sent.
    pub sent_rate: f64,
    /// Latency.
    pub latency: Digest,
    /// Delay of a message's sending after its intended time.
    pub send_delay: Digest,
    /// It was sustained.
    pub is_good: bool,
    /// The reason if it was not.
    pub why: Option<String>,
}

/// A published figure and ours.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The quantity.
    pub what: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Ours.
    pub ours: Option<f64>,
    /// Theirs.
    pub published: Option<f64>,
    /// Theirs is a bound.
    pub is_bound: bool,
    /// Ours divided by theirs.
    pub factor: Option<f64>,
}

impl Outcome {
    /// Whether the run came to its end and everything came.
    pub fn is_good(&self) -> bool {
        self.trouble.is_none() && self.completeness.is_complete
    }
}
