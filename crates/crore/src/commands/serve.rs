//! `crore serve`: a node with its operators' port, from start to drain.
//!
//! Standard output carries log lines, one `listening ...` line for each listener, and `ready` when
//! the node accepts clients. The first signal, or an operator's request, makes the node not ready,
//! drains it and stops it ([`crate::draining`]); a second one stops it at once. SIGHUP reloads the
//! configuration ([`crate::reload`]).

mod node_requests;
mod operating;
mod serving;
mod starting;
mod url;

use crate::configuration::assemble::milliseconds;
use crate::configuration::options::{Listen, Node};
use crate::configuration::{self, assemble_logging, document};
use crate::draining;
use crate::entitled::{self, Entitled};
use crate::exit::Ending;
use crate::flags::ConfigurationArguments;
use crate::logging::{Level, Log, Target};
use crate::reload::Reloader;
use crate::signals::Signal;
use crate::sockets::{self, Sockets};
use crate::upgrade::{Inherited, Upgrader};
use crate::{admin, journal, process, service_manager, shortages, sys_statistics};
use anyhow::Context;
use net::system::{give_up_start_rights, nofile_limit, raise_nofile_limit};
use node::upgrade::fail_at;
use node_requests::NodeRequest;
use serving::Serving;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use url::http_url;

/// Flags of `serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = document::help_of_options())]
pub struct Arguments {
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
    /// Drain and stop, as after SIGTERM, when standard input ends: the node stops with the process
    /// that started it.
    #[arg(long, hide = true)]
    end_with_stdin: bool,
}

/// Serves until a signal or an operator stops the node.
///
/// # Errors
/// The configuration has a fault, a port cannot be bound, or a signal stopped the node.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    // First: standard input may be the control socket of the node that this one replaces.
    let inherited = Inherited::receive()?;
    let result = serve(arguments, &inherited);
    if let Err(ending) = &result {
        inherited.refuse(ending);
    }
    result
}

fn serve(arguments: &Arguments, inherited: &Inherited) -> Result<(), Ending> {
    let end_with_stdin = arguments.end_with_stdin;
    let (arguments, sockets) = sockets::inherited(&arguments.configuration)?;
    let configuration = configuration::load(&arguments.sources())?;
    let takes_over = inherited.is_there();
    if takes_over {
        fail_at(2);
    }
    let log = assemble_logging::log(&configuration);
    let _flushing = log.flushing();
    // Before any thread starts: each thread inherits these settings.
    process::identity::settle(&configuration, &log)?;
    let (sender, node_requests) = mpsc::channel();
    node_requests::watch_signals(sender.clone(), log);
    if end_with_stdin {
        node_requests::watch_input(sender.clone());
    }
    raise_descriptor_limit(log);
    let operators = inherited.operators(&configuration.read::<Listen>().operators, &sockets)?;
    let operator_addresses = local_addresses(&operators)?;
    let (journal_sender, journal_receiver) = node::journal::journal();
    let mut serving = starting::start(
        &configuration,
        &operator_addresses,
        (&sockets, inherited),
        journal_sender,
        log,
    )?;
    give_up_start_rights().context("cannot drop the rights of the start")?;
    log.begin().context("cannot start the thread that writes log lines")?;
    if let Some(notices) = serving.entitled.as_mut().and_then(Entitled::take_notices) {
        let changed = serving.keys_changed();
        entitled::watch(notices, changed, log.to(Target::Entitlement))
            .context("cannot start the thread that reports refusals")?;
    }
    let plain_count = serving.addresses.len();
    journal::watch(journal_receiver, plain_count, log)
        .context("cannot start the thread that reports clients")?;
    announce(&serving, &operator_addresses, log);

    let reloader = Arc::new(serving.reloader(&arguments, &configuration, log));
    let upgrader = upgrader(&serving, copies(&operators)?, sockets, log, sender.clone());
    let upgrader = Arc::new(upgrader);
    serving.watch_memory(&configuration, log)?;
    let limits = log.to(Target::Limits);
    shortages::watch(Arc::clone(&serving.node), limits)
        .context("cannot start the thread that watches for shortages")?;
    serving.take_over()?;
    serving.follow_cluster(&reloader, log)?;
    let access = operating::access(&configuration, &operator_addresses);
    let operated = serving.operated(&configuration, access, (&reloader, &upgrader), sender);
    let sessions = Arc::clone(&operated.access.sessions);
    let own_url = operated.access.own_url.clone();
    let socket = operating::socket(&configuration, &operator_addresses, takes_over, log)?;
    let listeners = operating::listeners(operators, socket.as_ref())?;
    let operating =
        admin::spawn(listeners, operated).context("cannot serve the operators' port")?;
    serving.push_metrics(&configuration, &reloader, log)?;
    let history = (!operator_addresses.is_empty()).then(|| Arc::clone(&serving.history));
    sys_statistics::spawn(&serving.node, &reloader, history)
        .context("cannot start the thread that publishes statistics")?;
    tell_service_manager(&serving)?;
    operating::announce(socket.as_ref(), (&sessions, &own_url), log);
    log.announce("ready", &[]);

    let request = wait_for_end(&node_requests, &reloader, &upgrader, &operating)?;
    end(&serving, request, (&reloader, &operating), log)
}

/// Reloads and upgrades at signals, until something ends the node.
fn wait_for_end(
    node_requests: &mpsc::Receiver<NodeRequest>,
    reloader: &Reloader,
    upgrader: &Upgrader,
    operating: &admin::Ending,
) -> Result<NodeRequest, Ending> {
    loop {
        match node_requests.recv().context("the signal thread has ended")? {
            NodeRequest::Signal(Signal::Hangup) => {
                // The reload has logged its result.
                let _ = reloader.reload("SIGHUP");
            }
            NodeRequest::Signal(Signal::Upgrade) => {
                // The upgrade has logged its result.
                if let Ok(given) = upgrader.upgrade() {
                    operating.begin();
                    upgrader.end(given, || node_requests.try_iter().any(NodeRequest::is_end));
                }
            }
            request => return Ok(request),
        }
    }
}

fn raise_descriptor_limit(log: Log) {
    let before = nofile_limit();
    let limit = raise_nofile_limit();
    log.write(
        Level::Debug,
        "The descriptor limit was raised.",
        &[("before", &before.soft.to_string()), ("now", &limit.soft.to_string())],
    );
}

/// Prints the listeners, and the notices of the start.
fn announce(serving: &Serving, operators: &[SocketAddr], log: Log) {
    // Those of MQTT come last.
    let (plain, mqtt) = serving.addresses.split_at(serving.addresses.len() - serving.mqtt_count.0);
    let tls_count = serving.tls_addresses.len() - serving.mqtt_count.1;
    let (tls, mqtt_tls) = serving.tls_addresses.split_at(tls_count);
    for address in plain {
        log.announce("listening clients", &[("url", &http_url(*address))]);
    }
    for address in tls {
        let url = format!("https://{address}");
        log.announce("listening clients with TLS", &[("url", &url)]);
    }
    for (scheme, addresses) in [("mqtt", mqtt), ("mqtts", mqtt_tls)] {
        for address in addresses {
            let url = format!("{scheme}://{address}");
            log.announce("listening clients of MQTT", &[("url", &url)]);
        }
    }
    for address in operators {
        log.announce("listening operators", &[("url", &http_url(*address))]);
    }
    for (target, level, notice) in &serving.notices {
        log.to(*target).write(*level, notice, &[]);
    }
}

fn upgrader(
    serving: &Serving,
    operators: Vec<TcpListener>,
    sockets: Sockets,
    log: Log,
    node_requests: mpsc::Sender<NodeRequest>,
) -> Upgrader {
    let entitled = serving.entitled.as_ref();
    Upgrader {
        node: Arc::clone(&serving.node),
        draining: Arc::clone(&serving.draining),
        authenticator: entitled.map(|entitled| Arc::clone(&entitled.authenticator)),
        operators,
        sockets,
        log,
        begin: Box::new(move || node_requests.send(NodeRequest::Signal(Signal::Upgrade)).is_ok()),
        asking: Mutex::default(),
    }
}

/// Prints `ready`, and tells the service manager regularly that all I/O threads respond.
fn tell_service_manager(serving: &Serving) -> Result<(), Ending> {
    service_manager::ready("serves");
    let watched = Arc::clone(&serving.node);
    service_manager::watch(move || {
        let node = watched.read().unwrap_or_else(PoisonError::into_inner);
        node.as_ref().map(|node| node.statistics().silent_threads == 0)
    })
    .context("cannot start the watchdog thread of the service manager")?;
    Ok(())
}

/// Drains and stops the node, with the window of the request or else of the configuration in force.
fn end(
    serving: &Serving,
    request: NodeRequest,
    (reloader, operating): (&Reloader, &admin::Ending),
    log: Log,
) -> Result<(), Ending> {
    let Node { drain_delay, drain_window, .. } = reloader.read();
    let window_ms = match request {
        NodeRequest::Drain(window_ms) => window_ms,
        NodeRequest::Signal(_) => None,
    };
    let plan = draining::Plan {
        delay_ms: milliseconds(drain_delay),
        window_ms: window_ms.unwrap_or_else(|| milliseconds(drain_window)),
    };
    let reason = match request {
        NodeRequest::Drain(_) => "POST /api/v1/drain",
        NodeRequest::Signal(Signal::Terminate) => "SIGTERM",
        NodeRequest::Signal(_) => "SIGINT",
    };
    let ended = serving.draining.run(&serving.node, plan, reason, &log);
    if let Some(cluster) = &serving.cluster {
        cluster.leave();
    }
    // Lets operators read the final progress.
    operating.begin();
    operating.wait(draining::FAREWELL);
    match (request, ended) {
        (_, Err(_)) => Err(Ending::FailedAndTold),
        // A supervisor or an operator requested this end, so it is a success.
        (NodeRequest::Signal(Signal::Terminate) | NodeRequest::Drain(_), Ok(())) => Ok(()),
        (NodeRequest::Signal(signal), Ok(())) => Err(Ending::Signal(signal)),
    }
}

fn copies(listeners: &[TcpListener]) -> Result<Vec<TcpListener>, Ending> {
    listeners
        .iter()
        .map(|listener| Ok(listener.try_clone().context("no file descriptors left")?))
        .collect()
}

fn local_addresses(listeners: &[TcpListener]) -> Result<Vec<SocketAddr>, Ending> {
    listeners.iter().map(|listener| Ok(listener.local_addr()?)).collect()
}
