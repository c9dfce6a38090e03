//! The plan of a run, from the command line, the workload and the machine.
//!
//! Place: before the first process. Everything that can be refused is refused here.

use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};

use super::cores::Cores;
use super::scale::{self, Limit, Machine, OWN_TCP_THREADS, Scale};
use super::server::ServerPlan;
use super::workload::{Name, Size, Workload};
use super::{HistoryChoice, RunCommand};
use crate::choice::Ack;
use crate::engine::{NetworkDevice, Route, Transport};
use crate::pattern::Pattern;
use crate::units::show_count;

/// Messages per second that one connection of a publisher carries.
const CONNECTION_RATE: f64 = 4_000.0;
/// Connections of a publisher.
const CONNECTIONS: std::ops::RangeInclusive<u64> = 4..=64;
/// Acknowledgements that a connection may wait for; less than what the server recognises a
/// repetition of.
const INFLIGHT_MAX: usize = 4_096;
const INFLIGHT_ONCE_MAX: usize = 2_048;
/// Maximum time for a running server to accept a connection.
const REACH_PATIENCE: Duration = Duration::from_secs(5);
/// Clients whose own latencies are kept, as in the published tests.
const SAMPLED: u64 = 100;

/// Everything that is decided before the start.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The command line; options that the plan does not change are used from here.
    pub command: RunCommand,
    /// The workload.
    pub workload: Workload,
    /// The size.
    pub size: Size,
    /// The limits of the size.
    pub limits: Vec<Limit>,
    /// The machine was smaller than the workload.
    pub is_limited: bool,
    /// The topics, as a pattern.
    pub topics: Pattern,
    /// Bytes of a message.
    pub message_bytes: usize,
    /// The measured span.
    pub duration: Duration,
    /// Between two samples.
    pub interval: Duration,
    /// Connects per second.
    pub connect_rate: f64,
    /// Publications are acknowledged.
    pub has_acknowledgements: bool,
    /// Cores of the server; none: not pinned.
    pub server_cores: Cores,
    /// Number of cores that the server may use.
    pub server_cores_count: u64,
    /// Cores of the load generators.
    pub client_cores: Cores,
    /// Sockets of the kernel on this machine for one client.
    pub sockets_each: u64,
    /// The device of a TCP of our own for the subscribers; without it, the kernel's sockets.
    pub device: Option<NetworkDevice>,
    /// The server, if it is ours to start.
    pub server: Option<ServerPlan>,
    /// Source addresses.
    pub local_addresses: Vec<String>,
    /// Connections of the publishers.
    pub publisher_connections: u64,
    /// Acknowledgements that each may wait for.
    pub inflight_max: usize,
    /// Clients whose own latencies are kept.
    pub sample: u64,
    /// The publishers' file for acknowledged messages, if streams are audited.
    pub ledger: Option<PathBuf>,
    /// The server is killed in a storm.
    pub kills_server: bool,
}

impl RunPlan {
    /// Plans a run; `folder` is for its temporary files.
    ///
    /// # Errors
    /// Options that do not go together.
    pub fn new(command: &RunCommand, folder: &std::path::Path) -> anyhow::Result<RunPlan> {
        let workload = command.workload.workload();
        check(command, &workload)?;
        let (server_cores, client_cores) = cores(command)?;
        let is_local = is_local(command)?;
        let has_tls = match &command.url {
            None => workload.has_tls && !command.plain,
            Some(url) => has_tls_scheme(url),
        };
        let available = Cores::available().0.len() as u64;
        let cores_count = match server_cores.0.len() as u64 {
            0 => available,
            count => count,
        };
        let device = command.own_device();
        let machine = Machine::read(is_local, cores_count, device.is_some());
        let limits = scale::limits(&machine, &workload, has_tls);
        let scale = command.clients.map_or(command.scale, Scale::Clients);
        let (clients, is_limited) = scale::clients(scale, &workload, &limits);
        let size = workload.size(clients, command.rate);
        let is_storm = workload.name == Name::Storm;
        let server = command.url.is_none().then(|| ServerPlan {
            io_threads: command.io_threads.unwrap_or_else(|| machine.io_threads(size.clients)),
            has_tls,
            has_mqtt: command.transport == Transport::Mqtt,
            is_durable: is_storm && command.server_restarts,
            has_no_history: command.history == HistoryChoice::Off,
            device,
            assignments: command.server_set.clone(),
            cores: server_cores.clone(),
        });
        let per_connection = (size.rate / CONNECTION_RATE).ceil() as u64;
        let connections = per_connection.clamp(*CONNECTIONS.start(), *CONNECTIONS.end());
        Ok(RunPlan {
            command: command.clone(),
            topics: workload.topics(&size).parse().map_err(anyhow::Error::msg)?,
            message_bytes: command.size.map_or(workload.size, |bytes| bytes as usize),
            duration: command.duration.unwrap_or(default_duration(workload.name)),
            interval: command.interval.max(Duration::from_millis(100)),
            connect_rate: command.connect_rate.unwrap_or(match workload.name {
                Name::Connect => 0.0,
                _ => scale::connect_rate(cores_count),
            }),
            has_acknowledgements: command.ack == Ack::Appended || workload.is_once,
            sockets_each: machine.sockets_each(),
            device,
            server,
            // Twice as many where all of them return while their old ports may still be taken.
            local_addresses: machine.local_addresses(size.clients * if is_storm { 2 } else { 1 }),
            publisher_connections: command
                .publisher_connections
                .unwrap_or(connections)
                .clamp(1, size.topics),
            inflight_max: if workload.is_once { INFLIGHT_ONCE_MAX } else { INFLIGHT_MAX },
            sample: SAMPLED.min(size.clients),
            ledger: workload.is_once.then(|| folder.join("ledger")),
            kills_server: is_storm && command.server_restarts,
            server_cores,
            server_cores_count: cores_count,
            client_cores,
            workload: Workload { has_tls, ..workload },
            size,
            limits,
            is_limited,
        })
    }

    /// Cores of server and clients together.
    pub fn used_cores(&self) -> Cores {
        let mut cores = [&self.server_cores.0[..], &self.client_cores.0].concat();
        cores.sort_unstable();
        cores.dedup();
        Cores(cores)
    }

    /// The sentences that are printed before the run.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = vec![format!(
            "{} clients ({} published, {:.3} %) on {} topics, {} messages/s published, {} delivered.",
            show_count(self.size.clients),
            show_count(self.workload.clients),
            self.size.clients as f64 * 100.0 / self.workload.clients as f64,
            show_count(self.size.topics),
            show_count(self.size.rate.round() as u64),
            show_count(self.size.deliveries_rate.round() as u64),
        )];
        if let Some(limit) = self.limits.first() {
            let verb = if self.is_limited { "The limit is" } else { "The next limit would be" };
            sentences.push(format!(
                "{verb} {} (at most {} clients).",
                limit.why,
                show_count(limit.clients)
            ));
            if self.size.clients > limit.clients {
                sentences.push("This exceeds the estimated capacity of this machine.".to_owned());
            }
        }
        sentences
    }
}

/// Whether the server is on this machine. A server that does not accept is refused here, because
/// clients would try again and again.
fn is_local(command: &RunCommand) -> anyhow::Result<bool> {
    let Some(url) = &command.url else {
        return Ok(true);
    };
    let address = Route::resolve(url, "/")?.address;
    TcpStream::connect_timeout(&address, REACH_PATIENCE).with_context(|| format!("--url {url}"))?;
    Ok(address.ip().is_loopback())
}

/// Rejects impossible and contradictory options.
fn check(command: &RunCommand, workload: &Workload) -> anyhow::Result<()> {
    let name = workload.name;
    let is_plain_url = command.url.as_ref().is_some_and(|url| !has_tls_scheme(url));
    if workload.has_tls && !command.plain && is_plain_url {
        bail!("{} uses TLS: set a wss:// or mqtts:// address, or --plain", name.text());
    }
    if is_plain_url && (command.ca.is_some() || command.insecure) {
        bail!("--ca and --insecure need a server with TLS: set a wss:// or mqtts:// address");
    }
    if command.own_device().is_some() {
        check_own_tcp(command, workload)?;
    }
    if command.find && name != Name::Unicast {
        bail!("--find needs the workload unicast");
    }
    if command.server_restarts && (name != Name::Storm || command.url.is_some()) {
        bail!("--server-restarts needs the workload storm, without --url");
    }
    if command.transport == Transport::Http {
        bail!("--transport must be ws, sse or mqtt");
    }
    if command.transport != Transport::Ws && name == Name::Echo100k {
        bail!("the echo needs --transport ws");
    }
    if command.transport != Transport::Ws && name == Name::Storm {
        bail!("storm needs --transport ws: only the native protocol reports recovered messages");
    }
    if command.transport == Transport::Mqtt && workload.is_once {
        bail!("{} needs --transport ws: its publications are numbered", name.text());
    }
    if command.duration.is_some_and(|duration| duration.is_zero()) {
        bail!("--duration must not be zero");
    }
    Ok(())
}

/// Rejects options that a run with a TCP of our own does not have.
fn check_own_tcp(command: &RunCommand, workload: &Workload) -> anyhow::Result<()> {
    if command.device == NetworkDevice::Tun {
        bail!("--network user needs --device xdp or xdp-generic: one TUN interface has one end");
    }
    if workload.has_tls && !command.plain {
        bail!("--network user has no TLS: add --plain");
    }
    if command.server_restarts {
        bail!("--server-restarts needs --network kernel");
    }
    if command.io_threads.is_some_and(|threads| threads < OWN_TCP_THREADS) {
        bail!(
            "--network user needs --io-threads {OWN_TCP_THREADS} or more: one is the publishers'"
        );
    }
    Ok(())
}

fn has_tls_scheme(url: &str) -> bool {
    ["wss://", "https://", "mqtts://"].iter().any(|scheme| url.starts_with(scheme))
}

fn cores(command: &RunCommand) -> anyhow::Result<(Cores, Cores)> {
    let available = Cores::available();
    if command.no_pin {
        return Ok((Cores::default(), Cores::default()));
    }
    let (server, clients) = available.halves();
    let server = command.server_cores.clone().unwrap_or(server);
    let clients = command.client_cores.clone().unwrap_or(clients);
    for core in server.0.iter().chain(&clients.0) {
        if !available.0.contains(core) {
            bail!("core {core} is not available; available cores: {available}");
        }
    }
    Ok((server, clients))
}

fn default_duration(name: Name) -> Duration {
    Duration::from_secs(match name {
        Name::FanOut | Name::Unicast | Name::Storm => 20,
        _ => 60,
    })
}
