//! `crore bench sub | pub | echo`: the command line, and the loop that reports once per interval.
//!
//! Place: between the binary and the engine. Signals are the binary's: it sets the `stop` flag.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use net::device::interface::Station;

use crate::choice::{Ack, Choice};
use crate::control::{Control, Order as ControlOrder};
use crate::engine::{
    Absence, Beginning, ClientNetwork, Common, Echoes, EchoesConfig, Handle, Load, MqttOptions,
    NetworkDevice, Order, Publishers, PublishersConfig, Route, Subscribers, SubscribersConfig,
    Summary, Topics, Transport, Window, parse_station,
};
use crate::ledger_file::{self, Awaited};
use crate::pattern::Pattern;
use crate::payload::{Clock, seed_from_entropy};
use crate::report::text::samples_csv;
use crate::report::{Outputs, Reporter};
use crate::run::compare::ReportCommand;
use crate::run::{self, RunCommand};
use crate::source::Sources;
use crate::tokens::Tokens;
use crate::units::{parse_duration, parse_rate, parse_size};

/// Time between two checks for the end of the run.
const LOOK: Duration = Duration::from_millis(20);

/// The path of an echo URL without one: the native resource has no echo.
pub(crate) const ECHO_TARGET: &str = "/echo";

/// Maximum age of the figures of the control interface.
const SHOW: Duration = Duration::from_millis(200);

/// The workloads.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// Subscribe with many clients, measure latency, and verify order and completeness
    Sub(SubCommand),
    /// Publish at a fixed rate and measure acknowledgements
    Pub(PubCommand),
    /// Ping an echo service with many clients
    Echo(EchoCommand),
    /// Run a named workload against its own server; write a report as JSON and HTML, beside
    /// published figures
    Run(Box<RunCommand>),
    /// Compare reports of `bench run` side by side
    Report(ReportCommand),
    /// Load generator of `bench run`; it reads commands from standard input
    #[command(hide = true)]
    Part,
}

/// Arguments of all workloads.
#[derive(Clone, Debug, Args)]
pub struct CommonArguments {
    /// URL of a node. May be repeated: clients are spread evenly over the URLs, and take another
    /// one after each loss. By default ws://127.0.0.1:8800, with --transport mqtt
    /// mqtt://127.0.0.1:1883
    #[arg(long = "url", value_name = "URL")]
    pub urls: Vec<String>,
    /// With wss://, https:// or mqtts://: trust the certificates of this PEM file instead of the
    /// system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub ca: Option<std::path::PathBuf>,
    /// Accept any certificate
    #[arg(long)]
    pub insecure: bool,
    /// Resume TLS sessions with tickets on reconnect
    #[arg(long)]
    pub tls_resume: bool,
    /// Use TLS 1.2 only
    #[arg(long)]
    pub tls12: bool,
    /// File with a token on each line, for a node that requires tokens; clients use them in turn
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Source addresses as patterns: '127.0.{1..20}.1'. Their ports are chosen explicitly
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub local_addresses: Vec<String>,
    /// Network interface for Crore's own TCP, in place of the kernel's sockets (docs/user-tcp.md).
    /// It takes all frames of the interface, has the addresses of --local-addresses, and needs root
    #[arg(long, value_name = "NAME", requires = "local_addresses")]
    pub interface: Option<String>,
    /// --interface: device that carries the frames
    #[arg(long, value_enum, requires = "interface", default_value_t = NetworkDevice::XdpGeneric)]
    pub device: NetworkDevice,
    /// --interface: MAC address of the server, or of the router to it. --device tun needs none
    #[arg(long, value_name = "MAC", requires = "interface", value_parser = parse_station)]
    pub gateway: Option<Station>,
    /// Connection rate in connects per second, in an open loop; 0: no limit
    #[arg(long, value_name = "RATE", default_value = "0", value_parser = parse_rate)]
    pub connect_rate: f64,
    /// Number of worker threads; 0: one for each core, or more if the descriptor limit requires it
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub threads: u64,
    /// Let workers poll without sleeping, so that a server on the same machine spends no time on
    /// waking them
    #[arg(long)]
    pub busy_poll: bool,
    /// Length of the warm-up, whose latencies are not counted
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = parse_duration)]
    pub warm_up: Duration,
    /// Length of the run; 0: until Ctrl-C
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = parse_duration)]
    pub duration: Duration,
    /// Time between two reports
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    pub interval: Duration,
    /// Print one JSON object per interval, and a last one for the whole run
    #[arg(long)]
    pub json: bool,
    /// Also write InfluxDB lines to a file or to udp://host:port
    #[arg(long, value_name = "TARGET")]
    pub influx: Option<String>,
    /// Seed of random choices. Without it, every run differs
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// `bench sub`.
#[derive(Clone, Debug, Args)]
pub struct SubCommand {
    /// Arguments of all workloads.
    #[command(flatten)]
    pub common: CommonArguments,
    /// Protocol of the subscribers
    #[arg(long, alias = "protocol", value_enum, default_value_t = Transport::Ws)]
    pub transport: Transport,
    /// With --transport mqtt: QoS of the subscriptions, 0 or 1
    #[arg(long, value_name = "QOS", default_value_t = 1, value_parser = clap::value_parser!(u8).range(..=1))]
    pub qos: u8,
    /// Options of MQTT.
    #[command(flatten)]
    pub mqtt: MqttOptions,
    /// Number of clients
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub clients: u64,
    /// Topics as a pattern: 'p/s{1..1200000}'
    #[arg(long, value_name = "PATTERN", default_value = "p/s{1..1000}")]
    pub topics: Pattern,
    /// Assignment of topics to clients
    #[arg(long, value_enum, default_value_t = Choice::OneToOne)]
    pub choice: Choice,
    /// Number of topics of each client
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub topics_per_client: u32,
    /// Number of clients with their own latency figures, for --csv
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub sample: u64,
    /// File for median, mean, p95 and p99 of each sampled client
    #[arg(long, value_name = "FILE", requires = "sample")]
    pub csv: Option<PathBuf>,
    /// Start of the streams: live, first (the oldest stored message), last:N, since:EPOCH:OFFSET
    #[arg(long, value_name = "WHERE", default_value = "live")]
    pub start: Beginning,
    /// Audit every stream to the end: complete, with announced gaps or skips, or faulty
    #[arg(long)]
    pub verify: bool,
    /// File of `bench pub --ledger`, which may be written later. The run ends once all its messages
    /// have arrived. May be repeated
    #[arg(long = "ledger", value_name = "FILE", requires = "verify")]
    pub ledgers: Vec<PathBuf>,
    /// Stop after this number of distinct messages; 0: no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub count: u64,
    /// Time after which all clients stop reading
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "stall_for")]
    pub stall_after: Option<Duration>,
    /// Length of the stall: the time during which clients do not read
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "stall_after")]
    pub stall_for: Option<Duration>,
    /// Receive buffer of each socket in bytes (SO_RCVBUF); a small buffer simulates a slow reader
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub receive_buffer: Option<u64>,
    /// Offer compression (permessage-deflate). The node accepts it if websocket.compression is on
    #[arg(long)]
    pub compress: bool,
    /// Send HELLO and subscriptions after the WebSocket handshake (over MQTT: after CONNACK)
    /// instead of with it, which costs one more round trip
    #[arg(long)]
    pub late_hello: bool,
    /// Time after which all connections are closed at once
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "away_for")]
    pub away_after: Option<Duration>,
    /// Length of the absence; then all clients reconnect at --connect-rate
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "away_after")]
    pub away_for: Option<Duration>,
}

/// The clock of the timestamps in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClockChoice {
    /// The monotonic clock, for publisher and subscribers on one machine.
    Monotonic,
    /// The wall clock, for several machines with synchronised clocks.
    Realtime,
}

/// `bench pub`.
#[derive(Clone, Debug, Args)]
pub struct PubCommand {
    /// Arguments of all workloads.
    #[command(flatten)]
    pub common: CommonArguments,
    /// Protocol of the publishers: ws or mqtt
    #[arg(long, alias = "protocol", value_enum, default_value_t = Transport::Ws)]
    pub transport: Transport,
    /// Options of MQTT.
    #[command(flatten)]
    pub mqtt: MqttOptions,
    /// Number of connections that share the load
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub connections: u64,
    /// Topics as a pattern: 'p/s{1..1200000}'
    #[arg(long, value_name = "PATTERN", default_value = "p/s{1..1000}")]
    pub topics: Pattern,
    /// Order of the topics
    #[arg(long, value_enum, default_value_t = Order::RoundRobin)]
    pub order: Order,
    /// Total rate in messages per second, in an open loop
    #[arg(long, value_name = "RATE", default_value = "1000", value_parser = parse_rate)]
    pub rate: f64,
    /// Send the messages that are due together, once in this time; 0s: each when it is due. The
    /// latency counts from the time at which a message was due
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    pub send_every: Duration,
    /// Size of a message in bytes, at least 38; random characters
    #[arg(long, value_name = "SIZE", default_value = "512", value_parser = parse_size)]
    pub size: u64,
    /// Acknowledgement of each message. Over MQTT, none means QoS 0 and appended QoS 1
    #[arg(long, value_enum, default_value_t = Ack::Appended)]
    pub ack: Ack,
    /// Maximum number of unacknowledged messages of one connection
    #[arg(long, value_name = "N", default_value_t = 1_024)]
    pub inflight_max: usize,
    /// Total number of messages; 0: no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub count: u64,
    /// Send each message again after a connection loss until it is acknowledged. The log recognises
    /// repeats by the producer's numbers
    #[arg(long)]
    pub exactly_once: bool,
    /// File for the acknowledged messages by topic, written at the end, for `bench sub --ledger`
    #[arg(long, value_name = "FILE", requires = "exactly_once")]
    pub ledger: Option<PathBuf>,
    /// Clock of the timestamps in messages
    #[arg(long, value_enum, default_value_t = ClockChoice::Monotonic)]
    pub clock: ClockChoice,
}

/// `bench echo`.
#[derive(Clone, Debug, Args)]
pub struct EchoCommand {
    /// Arguments of all workloads.
    #[command(flatten)]
    pub common: CommonArguments,
    /// Number of clients at the start
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub clients: u64,
    /// Time between two pings of one client
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub every: Duration,
    /// Size of a ping in bytes, at least 38
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = parse_size)]
    pub size: u64,
    /// Address of the control interface: POST and DELETE /clients, GET /stats and /metrics
    #[arg(long, value_name = "ADDRESS")]
    pub control: Option<String>,
    /// Maximum number of clients that the control interface may request
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub clients_max: u64,
}

/// Runs a workload until its end or until `stop` is set, and reports. The exit code is 1 if a
/// message was lost, repeated, out of order or unacknowledged.
///
/// # Errors
/// The command line is invalid, or an output cannot be written.
pub fn run(command: BenchCommand, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    match command {
        BenchCommand::Sub(command) => run_sub(command, stop),
        BenchCommand::Pub(command) => run_pub(command, stop),
        BenchCommand::Echo(command) => run_echo(command, stop),
        BenchCommand::Run(command) => run::run(&command, stop),
        BenchCommand::Report(command) => run::compare::run(&command).map(|()| ExitCode::SUCCESS),
        BenchCommand::Part => run::run_part(stop).map(|()| ExitCode::SUCCESS),
    }
}

fn run_sub(command: SubCommand, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let common = common(&command.common, command.transport, client::url::TARGET)?;
    check_tls(&common)?;
    let absence = |after: Option<Duration>, span: Option<Duration>| {
        after.zip(span).map(|(after, span)| Absence { after, span })
    };
    let receive_bytes = command.receive_buffer.map(usize::try_from).transpose();
    let config = SubscribersConfig {
        transport: command.transport,
        mqtt: command.mqtt,
        qos: command.qos,
        clients: command.clients,
        topics: Topics {
            pattern: command.topics,
            choice: command.choice,
            per_client: command.topics_per_client,
            seed: common.seed,
        },
        sample: command.sample,
        beginning: command.start,
        is_audited: command.verify,
        stall: absence(command.stall_after, command.stall_for),
        away: absence(command.away_after, command.away_for),
        return_rate: None,
        has_last_receiver: false,
        receive_bytes: receive_bytes.context("--receive-buffer")?,
        is_compressed: command.compress,
        is_hello_early: !command.late_hello,
        common,
    };
    let mut awaited = Awaited::new(&command.ledgers);
    let mut trouble = None;
    let handle = Subscribers::start(config)?;
    let summary = watch("sub", handle, &command.common, stop, |handle, _| {
        match awaited.look() {
            Ok(Some(ledger)) => handle.set_ledger(ledger),
            Ok(None) => {}
            Err(error) => trouble = Some(error),
        }
        let is_judged =
            !command.ledgers.is_empty() && !awaited.is_waiting() && handle.has_all_acknowledged();
        let is_counted = command.count > 0 && handle.count(|tally| tally.messages) >= command.count;
        trouble.is_some() || is_judged || is_counted
    })?;
    if let Some(trouble) = trouble {
        return Err(trouble);
    }
    if awaited.is_waiting() {
        bail!("the run is over, but a --ledger file is missing");
    }
    if let Some(file) = command.csv {
        std::fs::write(&file, samples_csv(&summary.samples))
            .with_context(|| format!("--csv {}", file.display()))?;
    }
    let is_good = summary.findings.is_none_or(|findings| findings.is_good());
    Ok(exit(summary.total.is_clean() && is_good))
}

fn run_pub(command: PubCommand, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let common = common(&command.common, command.transport, client::url::TARGET)?;
    check_tls(&common)?;
    let config = PublishersConfig {
        common,
        transport: command.transport,
        mqtt: command.mqtt,
        connections: command.connections,
        load: Load {
            topics: command.topics,
            order: command.order,
            rate: command.rate,
            step_ns: command.send_every.as_nanos() as u64,
            size: usize::try_from(command.size).context("--size")?,
            acknowledge: command.ack == Ack::Appended || command.exactly_once,
            exactly_once: command.exactly_once,
            inflight_max: command.inflight_max.max(1),
            clock: match command.clock {
                ClockChoice::Monotonic => Clock::Monotonic,
                ClockChoice::Realtime => Clock::Realtime,
            },
            publisher: seed_from_entropy() as u32,
            count: command.count,
            window: Window::from(0),
        },
    };
    let handle = Publishers::start(config)?;
    let count = command.count;
    let summary = watch("pub", handle, &command.common, stop, |handle, _| {
        count > 0 && handle.count(|tally| tally.sent) >= count
    })?;
    if let Some(path) = &command.ledger {
        ledger_file::write(path, &summary.ledger.unwrap_or_default())?;
    }
    let total = summary.total;
    let is_good = total.unacknowledged == 0 && total.refused == 0 && total.inflight == 0;
    Ok(exit(is_good))
}

fn run_echo(command: EchoCommand, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let common = common(&command.common, Transport::Ws, ECHO_TARGET)?;
    // The control interface may add addresses with TLS later.
    if command.control.is_none() {
        check_tls(&common)?;
    }
    let mut control = match &command.control {
        Some(address) => Some(Control::start(address)?),
        None => None,
    };
    let clients_max =
        if control.is_some() { command.clients_max.max(command.clients) } else { command.clients };
    let config = EchoesConfig {
        common,
        clients: command.clients,
        clients_max,
        every: command.every,
        size: usize::try_from(command.size).context("--size")?,
    };
    let mut shown_at: Option<Instant> = None;
    let handle = Echoes::start(config)?;
    let summary = watch("echo", handle, &command.common, stop, |handle, reporter| {
        let Some(control) = &mut control else {
            return false;
        };
        while let Some(order) = control.take() {
            let answer = match order {
                ControlOrder::Add { count, urls } => add_clients(handle, count, &urls),
                ControlOrder::Remove { count } => {
                    let left = count.map_or(0, |count| handle.clients().saturating_sub(count));
                    handle.set_clients(left);
                    Ok(left)
                }
            };
            control.answer(answer);
            reporter.set_clients(handle.clients());
        }
        if shown_at.is_none_or(|shown_at| shown_at.elapsed() >= SHOW) {
            shown_at = Some(Instant::now());
            let clients = handle.clients();
            control.publish(handle.total(), clients);
        }
        false
    })?;
    Ok(exit(summary.total.is_clean()))
}

/// Carries out a command of the control interface, at its addresses or else at those of the command
/// line.
fn add_clients(handle: &mut Handle, count: u64, urls: &[String]) -> Result<u64, String> {
    let routes = urls
        .iter()
        .map(|url| Route::resolve(url, ECHO_TARGET))
        .collect::<anyhow::Result<Vec<_>>>()
        .map_err(|error| format!("{error:#}"))?;
    handle.add_clients(count, &routes)
}

/// Reports once per interval until the end, then prints the summary. `look` is called in between;
/// true ends the run.
fn watch(
    workload: &'static str,
    mut handle: Handle,
    arguments: &CommonArguments,
    stop: &AtomicBool,
    mut look: impl FnMut(&mut Handle, &mut Reporter) -> bool,
) -> anyhow::Result<Summary> {
    let outputs = Outputs { json: arguments.json, influx: arguments.influx.clone() };
    let mut reporter = Reporter::new(workload, handle.clients(), outputs)?;
    reporter.plan(&handle.plan);
    let started = Instant::now();
    let interval = arguments.interval.max(Duration::from_millis(100));
    let mut next = started + interval;
    loop {
        std::thread::sleep(LOOK);
        let is_over = !arguments.duration.is_zero() && started.elapsed() >= arguments.duration;
        if stop.load(Ordering::Acquire) || is_over || handle.is_finished() {
            break;
        }
        if look(&mut handle, &mut reporter) {
            break;
        }
        if Instant::now() >= next {
            let snapshot = handle.snapshot();
            reporter.interval(&snapshot.interval, &snapshot.total);
            next += interval;
        }
    }
    let summary = handle.stop();
    reporter.summary(&summary.total, summary.findings.as_ref());
    Ok(summary)
}

fn common(
    arguments: &CommonArguments,
    transport: Transport,
    target: &str,
) -> anyhow::Result<Common> {
    let mut common = match &arguments.urls[..] {
        [] => Common::with_target(&[transport.url().to_owned()], target)?,
        urls => Common::with_target(urls, target)?,
    };
    common.local_addresses =
        Sources::parse_addresses(&arguments.local_addresses).map_err(anyhow::Error::msg)?;
    common.network = arguments.interface.as_ref().map(|interface| ClientNetwork {
        interface: interface.clone(),
        device: arguments.device,
        gateway: arguments.gateway,
    });
    common.connect_rate = arguments.connect_rate;
    common.tls = tls::ClientSettings {
        roots: tls::Roots::of_flags(arguments.ca.as_deref(), arguments.insecure),
        resume: arguments.tls_resume,
        tls12_only: arguments.tls12,
        identity: None,
    };
    if let Some(file) = &arguments.token_file {
        common.tokens = Tokens::read(file)?;
    }
    common.threads = arguments.threads;
    common.warm_up = arguments.warm_up;
    common.busy_poll.store(arguments.busy_poll, Ordering::Relaxed);
    common.seed = arguments.seed.unwrap_or_else(seed_from_entropy);
    Ok(common)
}

/// TLS flags without a TLS address would silently leave the connection unencrypted.
fn check_tls(common: &Common) -> anyhow::Result<()> {
    let has_tls = common.routes.iter().any(|route| route.tls_name.is_some());
    if !has_tls && common.tls != tls::ClientSettings::default() {
        anyhow::bail!(
            "--ca, --insecure, --tls-resume and --tls12 are for addresses with TLS, and none is wss://, https:// or mqtts://"
        );
    }
    Ok(())
}

fn exit(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: BenchCommand,
    }

    fn parse(line: &str) -> Result<BenchCommand, clap::Error> {
        let words = std::iter::once("bench").chain(line.split_ascii_whitespace());
        Line::try_parse_from(words).map(|line| line.command)
    }

    #[test]
    fn command_lines() {
        let Ok(BenchCommand::Sub(sub)) = parse(
            "sub --url ws://a:1 --url ws://b:2 --transport sse --clients 5 --connect-rate 1k \
             --topics p/s{1..9} --choice random --topics-per-client 3 --local-addresses 127.0.{1..3}.1 \
             --warm-up 5s --sample 100 --csv out.csv --json",
        ) else {
            panic!("not parsed")
        };
        assert_eq!(sub.common.urls, ["ws://a:1", "ws://b:2"]);
        assert_eq!((sub.transport, sub.clients, sub.topics.len()), (Transport::Sse, 5, 9));
        assert_eq!((sub.common.connect_rate, sub.topics_per_client), (1_000.0, 3));
        assert_eq!(sub.common.warm_up, Duration::from_secs(5));
        let Ok(BenchCommand::Sub(sub)) =
            parse("sub --url mqtts://a --protocol mqtt --qos 0 --mqtt-version 3 --keep-alive 60s")
        else {
            panic!("not parsed")
        };
        assert_eq!((sub.transport, sub.qos), (Transport::Mqtt, 0));
        assert_eq!(sub.mqtt.keep_alive, Duration::from_secs(60));
        let Ok(BenchCommand::Sub(sub)) = parse(
            "sub --interface eth1 --gateway 02:00:00:00:00:01 --local-addresses 198.18.0.{2..9} --device xdp",
        ) else {
            panic!("not parsed")
        };
        assert_eq!(sub.common.gateway, Some([2, 0, 0, 0, 0, 1]));
        assert_eq!(sub.common.device, NetworkDevice::Xdp);
        let Ok(BenchCommand::Pub(publish)) =
            parse("pub --rate 50k --size 1KiB --ack none --connections 4")
        else {
            panic!("not parsed")
        };
        assert_eq!((publish.rate, publish.size, publish.ack), (50_000.0, 1_024, Ack::None));
        assert!(matches!(
            parse("echo --every 30s --control 127.0.0.1:9"),
            Ok(BenchCommand::Echo(_))
        ));
        for wrong in [
            "sub --topics {",
            "sub --csv x",
            "pub --rate -1",
            "echo --every 30",
            "sub --transport udp",
            "sub --qos 2",
            "sub --mqtt-version 4",
            "sub --interface eth1",
            "sub --gateway 02:00:00:00:00:01",
            "sub --interface eth1 --local-addresses 198.18.0.2 --gateway here",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
