//! `crore bench run`: the named workloads, each with one command, from an idle machine to a report.
//!
//! Place: above the engine. A run has several processes: the server, a load generator that receives
//! and one that publishes, each on its own cores, so that no process adds to another's latency.
//! This process starts, observes and stops them. It produces `report.json`, `report.html`, and the
//! lines on the terminal.

mod beside;
pub mod compare;
mod completeness;
mod cores;
mod drive;
mod generator;
mod hiccup;
mod memory;
mod message;
mod network;
mod observe;
mod outcome;
mod page;
mod part;
mod plan;
mod roles;
mod scale;
mod server;
mod session;
mod steps;
mod storm;
mod sustain;
mod text;
mod time;
mod workload;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};

use crate::choice::Ack;
use crate::engine::{MqttOptions, NetworkDevice, Transport};
use crate::units::{parse_duration, parse_rate, parse_size};
use network::{NetworkChoice, RunNetwork};
use outcome::{Outcome, PlanFigures};
use plan::RunPlan;
use scale::Scale;
use server::Server;
use session::Session;
use steps::Run;

pub use cores::Cores;
pub use observe::ProcessFigures;
pub use part::run as run_part;
pub use server::Folder;
pub use workload::Name;

/// Whether topics have a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HistoryChoice {
    /// The server's default.
    On,
    /// No history: a client that falls behind has a gap.
    Off,
}

/// `bench run`.
#[derive(Clone, Debug, Args)]
pub struct RunCommand {
    /// Workload
    #[arg(value_enum)]
    pub workload: Name,
    /// Scale: auto (the capacity of this machine, at most the published size), a fraction such as
    /// 0.1 or 10%, or a number of clients
    #[arg(long, value_name = "SCALE", default_value = "auto")]
    pub scale: Scale,
    /// Number of clients, whatever the scale
    #[arg(long, value_name = "N")]
    pub clients: Option<u64>,
    /// Publication (or ping) rate per second. By default, it scales with the clients
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub rate: Option<f64>,
    /// Publish the messages that are due together, once in this time; 0s: each when it is due. The
    /// latency counts from the time at which a message was due
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    pub send_every: Duration,
    /// Size of a message in bytes, at least 38
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// Protocol of the clients: ws, sse or mqtt. Publishers use WebSocket for ws and sse
    #[arg(long, alias = "protocol", value_enum, default_value_t = Transport::Ws)]
    pub transport: Transport,
    /// With --transport mqtt: QoS of the subscriptions, 0 or 1
    #[arg(long, value_name = "QOS", default_value_t = 1, value_parser = clap::value_parser!(u8).range(..=1))]
    pub qos: u8,
    /// Options of MQTT.
    #[command(flatten)]
    pub mqtt: MqttOptions,
    /// Acknowledgement that publishers request. Over MQTT, none means QoS 0 and appended QoS 1
    #[arg(long, value_enum, default_value_t = Ack::Appended)]
    pub ack: Ack,
    /// Whether topics have a history on the started server
    #[arg(long, value_enum, default_value_t = HistoryChoice::On)]
    pub history: HistoryChoice,
    /// Use no TLS, even if the workload does
    #[arg(long)]
    pub plain: bool,
    /// Network of the subscribers: kernel (sockets on loopback) or user (Crore's own TCP between
    /// two interfaces that the run makes; needs root)
    #[arg(long, value_enum, default_value_t = NetworkChoice::Kernel, conflicts_with = "url")]
    pub network: NetworkChoice,
    /// --network user: device at both ends, xdp or xdp-generic
    #[arg(long, value_enum, default_value_t = NetworkDevice::XdpGeneric)]
    pub device: NetworkDevice,
    /// Length of the measurement
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Time between the first message and the measurement
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    pub warm_up: Duration,
    /// Time between the last connection and the first message
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub settle: Duration,
    /// Time between two samples, and between two lines
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    pub interval: Duration,
    /// Connection rate in connects per second; 0: no limit. By default 5,000 for each core of the
    /// server
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub connect_rate: Option<f64>,
    /// Number of connections that share the publishing
    #[arg(long, value_name = "N")]
    pub publisher_connections: Option<u64>,
    /// Cores of the server, such as 0-3,8. By default, the first half
    #[arg(long, value_name = "CORES", conflicts_with = "no_pin")]
    pub server_cores: Option<Cores>,
    /// Cores of the load generators. By default, the second half
    #[arg(long, value_name = "CORES", conflicts_with = "no_pin")]
    pub client_cores: Option<Cores>,
    /// Let every process use every core
    #[arg(long)]
    pub no_pin: bool,
    /// Number of I/O threads of the started server. By default, as many as its descriptors require
    #[arg(long, value_name = "N")]
    pub io_threads: Option<u64>,
    /// Set an option of the started server
    #[arg(long, value_name = "SECTION.NAME=VALUE")]
    pub server_set: Vec<String>,
    /// URL of a running server, to use instead of starting one
    #[arg(long, value_name = "URL", conflicts_with_all = ["server_set", "io_threads"])]
    pub url: Option<String>,
    /// With wss:// or mqtts://: trust the certificates of this PEM file instead of the system's
    #[arg(long, value_name = "FILE", requires = "url", conflicts_with = "insecure")]
    pub ca: Option<PathBuf>,
    /// Accept any certificate
    #[arg(long, requires = "url")]
    pub insecure: bool,
    /// URL of the running server's operators' port, for its metrics
    #[arg(long, value_name = "URL", requires = "url")]
    pub admin: Option<String>,
    /// Process ID of the running server, for its CPU and memory
    #[arg(long, value_name = "PID", requires = "url")]
    pub server_pid: Option<u32>,
    /// storm: time for which the clients or the server are away
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = parse_duration)]
    pub away: Duration,
    /// storm: kill the server and restart it with its log on disk, instead of disconnecting the
    /// clients
    #[arg(long)]
    pub server_restarts: bool,
    /// unicast: find the highest sustainable rate, and measure at half of it
    #[arg(long)]
    pub find: bool,
    /// unicast --find: length of each step
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    pub step: Duration,
    /// unicast --find: highest p99 of a sustained rate
    #[arg(long, value_name = "DURATION", default_value = "20ms", value_parser = parse_duration)]
    pub p99_max: Duration,
    /// Directory for the report. By default bench-reports/NAME-DATE
    #[arg(long, value_name = "DIRECTORY")]
    pub out: Option<PathBuf>,
}

impl RunCommand {
    /// The device of a TCP of our own, if the subscribers have one.
    fn own_device(&self) -> Option<NetworkDevice> {
        (self.network == NetworkChoice::User).then_some(self.device)
    }
}

/// Runs a workload and writes its report. The exit code is 0 only if the run was complete and every
/// message arrived.
///
/// # Errors
/// The command line is invalid, the server does not start, or the report cannot be written.
pub fn run(command: &RunCommand, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let folder = Folder::new()?;
    let plan = RunPlan::new(command, &folder.0)?;
    // It lives until all processes have ended.
    let _network = plan.device.map(|_| RunNetwork::create()).transpose()?;
    let began = std::time::SystemTime::now();
    let name = plan.workload.name.text();
    let out = command.out.clone().unwrap_or_else(|| {
        PathBuf::from("bench-reports").join(format!("{name}-{}", time::compact(began)))
    });
    std::fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
    println!("{name}: {}", plan.workload.what);
    for sentence in plan.sentences() {
        println!("{sentence}");
    }
    let server = match (&plan.server, &command.url) {
        (Some(server), _) => Server::start(server, &out.join("server.log"))?,
        (None, url) => Server::foreign(
            url.as_deref().unwrap_or_default(),
            command.admin.as_deref(),
            command.server_pid,
        ),
    };
    let mut outcome = Outcome {
        format: 1,
        name,
        title: plan.workload.title,
        what: plan.workload.what,
        version: version(),
        command_line: command_line(),
        began: time::rfc3339(began),
        machine: observe::MachineFacts::read(),
        plan: plan_figures(&plan, &server),
        limits: plan.limits.clone(),
        published: plan.workload.published,
        ..Outcome::default()
    };
    let session = Session::new(server, plan.interval, stop);
    if let Err(error) = Run::new(&plan, session, &mut outcome).drive() {
        outcome.trouble = Some(format!("{error:#}"));
    }
    outcome.comparison = beside::rows(&outcome);
    write(&outcome, &out)?;
    print!("{}", text::summary(&outcome));
    println!("report: {}", out.join("report.html").display());
    Ok(if outcome.is_good() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn write(outcome: &Outcome, out: &Path) -> anyhow::Result<()> {
    let json = serde_json::to_string(outcome)?;
    for (name, text) in
        [("report.json", &json), ("report.html", &page::render(&json, outcome.name))]
    {
        let path = out.join(name);
        std::fs::write(&path, text).with_context(|| format!("{}", path.display()))?;
    }
    Ok(())
}

fn plan_figures(plan: &RunPlan, server: &Server) -> PlanFigures {
    PlanFigures {
        size: Some(plan.size.clone()),
        clients_published: plan.workload.clients,
        transport: match plan.command.transport {
            Transport::Sse => "Server-Sent Events".to_owned(),
            Transport::Ws | Transport::Http => "WebSocket".to_owned(),
            Transport::Mqtt => {
                let version = plan.command.mqtt.mqtt_version.text();
                format!("MQTT {version}, QoS {}", plan.command.qos)
            }
        },
        message_bytes: plan.message_bytes as u64,
        duration_s: plan.duration.as_secs_f64(),
        warm_up_s: plan.command.warm_up.as_secs_f64(),
        settle_s: plan.command.settle.as_secs_f64(),
        interval_s: plan.interval.as_secs_f64(),
        connect_rate: plan.connect_rate,
        has_acknowledgements: plan.has_acknowledgements,
        is_once: plan.workload.is_once,
        has_tls: plan.workload.has_tls,
        server_cores: plan.server_cores.to_string(),
        client_cores: plan.client_cores.to_string(),
        io_threads: plan.server.as_ref().map(|server| server.io_threads),
        client_threads: 0,
        own_tcp: plan.device.map(NetworkDevice::text),
        local_addresses: plan.local_addresses.join(", "),
        publisher_connections: plan.publisher_connections,
        server_configuration: server.configuration(),
        foreign_url: plan.command.url.clone(),
    }
}

/// The program's version and commit, from its own output.
fn version() -> String {
    let told = std::env::current_exe().ok().and_then(|program| {
        let output = Command::new(program).arg("version").output().ok()?;
        String::from_utf8(output.stdout).ok()
    });
    match told {
        Some(text) => text.lines().collect::<Vec<_>>().join(", "),
        None => env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// The command line, without the program's directory.
fn command_line() -> String {
    let quote = |word: String| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=./:,%".contains(letter);
        if !word.is_empty() && word.chars().all(is_plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    let words = std::env::args().skip(1).map(quote);
    std::iter::once("crore".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
