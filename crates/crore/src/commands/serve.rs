//! `crore serve`: a node with its operators' port, from start to drain.
//!
//! Standard output carries log lines, one `listening ...` line for each listener, and `ready` when the node accepts.
//! The first signal, or an operator, makes readiness fail, drains and ends ([`crate::draining`]); a second one ends at once. SIGHUP reads the
//! configuration again ([`crate::reload`]).

use crate::admin::draining::Drain;
use crate::admin::logs::Logging;
use crate::admin::revocations::Revoking;
use crate::admin::{self, About, Readiness};
use crate::cli::ConfigurationArguments;
use crate::configuration::fault::{Fault, Faults};
use crate::configuration::{self, Configuration, assemble, assemble_logging, document};
use crate::draining::{self, Draining};
use crate::entitled::{self, Entitled};
use crate::exit::Ending;
use crate::logging::{Level, Levels, Log, Target};
use crate::metrics::push::{self, Push, PushCounters};
use crate::reload::Reloader;
use crate::signals::Signal;
use crate::sockets::{self, Sockets};
use crate::upgrade::{Inherited, Upgrader};
use crate::{
    journal, memory_ceiling, metrics, process, service_manager, shortages, signals, sys_statistics,
    ticket_keys, tls_files,
};
use anyhow::Context;
use broker::entitlement::Judge;
use broker::settings::Settings;
use net::kernel::{give_up_low_ports, nofile_limit, raise_nofile_limit};
use node::journal::JournalSender;
use node::upgrade::fail_at;
use node::{Node, NodeOptions, StartError};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Flags of `serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = document::help_of_options())]
pub struct Arguments {
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
    /// Ends like SIGTERM when standard input ends: with whoever started it, in whatever way that one ends.
    #[arg(long, hide = true)]
    end_with_stdin: bool,
}

/// Serves until a signal.
///
/// # Errors
/// A fault in the configuration, a port that cannot be bound, or the signal that ended it.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    // First of all: standard input may be the way to the node whose place this one takes.
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
    if inherited.is_there() {
        fail_at(2);
    }
    let log = assemble_logging::log(&configuration);
    let _flushing = log.flushing();
    // Before any thread exists: each keeps what it was started with.
    process::identity::settle(&configuration, &log)?;
    let (sender, wish) = mpsc::channel();
    watch_signals(sender.clone(), log);
    if end_with_stdin {
        let sender = sender.clone();
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            let _ = sender.send(Wish::Signal(Signal::Terminate));
        });
    }

    let before = nofile_limit();
    let limit = raise_nofile_limit();
    log.write(
        Level::Debug,
        "The descriptor limit was raised.",
        &[
            ("before", &before.soft.to_string()),
            ("now", &limit.soft.to_string()),
        ],
    );
    let operators = inherited.operators(configuration.addresses("listen.operators"), &sockets)?;
    let operator_addresses = local_addresses(&operators)?;
    let (journal_sender, journal_receiver) = node::journal::journal();
    let mut serving = start(
        &configuration,
        &operator_addresses,
        (&sockets, inherited),
        journal_sender,
    )?;
    give_up_low_ports().context("the right to bind low ports cannot be given up")?;
    log.begin().context("no thread to write log lines")?;
    if let Some(notices) = serving.entitled.as_mut().and_then(Entitled::take_notices) {
        let changed = serving.keys_changed();
        entitled::watch(notices, changed, log.to(Target::Entitlement))
            .context("no thread to tell of refusals")?;
    }

    let plain_count = serving.addresses.len();
    journal::watch(journal_receiver, plain_count, log).context("no thread to tell of clients")?;

    for address in &serving.addresses {
        log.announce("listening clients", &[("url", &http_url(*address))]);
    }
    for address in &serving.tls_addresses {
        let url = format!("https://{address}");
        log.announce("listening clients with TLS", &[("url", &url)]);
    }
    for address in &operator_addresses {
        log.announce("listening operators", &[("url", &http_url(*address))]);
    }
    for (target, level, notice) in &serving.notices {
        log.to(*target).write(*level, notice, &[]);
    }
    let reloader = Arc::new(serving.reloader(&arguments, &configuration, log));
    let upgrades = sender.clone();
    let upgrader = Arc::new(Upgrader {
        node: Arc::clone(&serving.node),
        draining: Arc::clone(&serving.draining),
        judge: serving
            .entitled
            .as_ref()
            .map(|entitled| Arc::clone(&entitled.judge)),
        operators: copies(&operators)?,
        sockets,
        log,
        begin: Box::new(move || upgrades.send(Wish::Signal(Signal::Upgrade)).is_ok()),
        asking: Mutex::default(),
    });
    serving.watch_memory(&configuration, log)?;
    let limits = log.to(Target::Limits);
    shortages::watch(Arc::clone(&serving.node), limits)
        .context("no thread to watch for shortages")?;
    serving.take_over()?;
    let operated = serving.operated(&configuration, (&reloader, &upgrader), sender);
    let operating =
        admin::spawn(operators, operated).context("the operators' port cannot be served")?;
    serving.push_metrics(&configuration, &reloader, log)?;
    sys_statistics::spawn(&serving.node, &reloader).context("no thread to publish statistics")?;
    service_manager::ready("serves");
    let watched = Arc::clone(&serving.node);
    service_manager::watch(move || {
        let node = watched.read().unwrap_or_else(PoisonError::into_inner);
        node.as_ref()
            .map(|node| node.statistics().silent_threads == 0)
    })
    .context("no thread to tell the service manager that the node lives")?;
    log.announce("ready", &[]);

    let wish = loop {
        match wish.recv().context("the signal thread is gone")? {
            Wish::Signal(Signal::Hangup) => {
                // The log has told it.
                let _ = reloader.reload("SIGHUP");
            }
            Wish::Signal(Signal::Upgrade) => {
                // The log has told what came of it.
                if let Ok(giving) = upgrader.upgrade() {
                    operating.begin();
                    upgrader.end(&giving);
                }
            }
            wish => break wish,
        }
    };
    let milliseconds = |key| reloader.number(key).unwrap_or(0);
    let window_ms = match wish {
        Wish::Drain(window_ms) => window_ms,
        Wish::Signal(_) => None,
    };
    let plan = draining::Plan {
        delay_ms: milliseconds("node.drain_delay"),
        window_ms: window_ms.unwrap_or_else(|| milliseconds("node.drain_window")),
    };
    let reason = match wish {
        Wish::Drain(_) => "POST /api/v1/drain",
        Wish::Signal(Signal::Terminate) => "SIGTERM",
        Wish::Signal(_) => "SIGINT",
    };
    let ended = serving.draining.run(&serving.node, plan, reason, &log);
    match (wish, ended) {
        (_, Err(_)) => Err(Ending::FailedAndTold),
        // What a supervisor or an operator asked for was done.
        (Wish::Signal(Signal::Terminate) | Wish::Drain(_), Ok(())) => Ok(()),
        (Wish::Signal(signal), Ok(())) => Err(Ending::Signal(signal)),
    }
}

/// What ends a node, or has it read its files again.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Signal(Signal),
    /// An operator's, perhaps with a window in milliseconds.
    Drain(Option<u64>),
}

/// A running node, shared with the operators' port.
struct Serving {
    node: Arc<RwLock<Option<Node>>>,
    connections_max: u64,
    draining: Arc<Draining>,
    addresses: Vec<SocketAddr>,
    tls_addresses: Vec<SocketAddr>,
    /// What clients with TLS are shown.
    tls: Option<Arc<tls::Server>>,
    notices: Vec<(Target, Level, String)>,
    /// Who judges tokens and API keys, if anybody.
    entitled: Option<Entitled>,
    /// What becomes of metrics that are pushed.
    pushes: Arc<PushCounters>,
    /// Origins of the operators' pages.
    own_origins: Vec<String>,
}

impl Serving {
    fn watch_memory(&self, configuration: &Configuration, log: Log) -> Result<(), Ending> {
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = &*node {
            let ceiling = configuration.number("limits.memory_bytes_max");
            memory_ceiling::watch(ceiling, &node.pressure(), log.to(Target::Limits))
                .context("no thread to watch memory")?;
        }
        Ok(())
    }

    fn revoking(&self) -> Option<Revoking> {
        let entitled = self.entitled.as_ref()?;
        Some(Revoking {
            judge: Arc::clone(&entitled.judge),
            data_dir: entitled.data_dir.clone(),
            changed: self.keys_changed(),
        })
    }

    /// To be called when keys or revocations have changed: whoever shows a credential is judged anew.
    fn keys_changed(&self) -> Arc<dyn Fn() + Send + Sync> {
        let node = Arc::clone(&self.node);
        Arc::new(move || {
            if let Some(node) = &*node.read().unwrap_or_else(PoisonError::into_inner) {
                node.revocations_changed();
            }
        })
    }

    fn logging(&self, log: Log) -> Logging {
        let node = Arc::clone(&self.node);
        let change = move |levels: &Levels| {
            log.set_levels(levels);
            if let Some(node) = &*node.read().unwrap_or_else(PoisonError::into_inner) {
                let mut settings = Settings::clone(&node.settings());
                settings.journal = assemble_logging::journal_of(settings.journal, levels);
                // Its rules are those that are in force: none waits.
                node.reload(settings);
            }
        };
        Logging {
            log,
            change: Arc::new(change),
        }
    }

    fn reloader(
        &self,
        arguments: &ConfigurationArguments,
        configuration: &Configuration,
        log: Log,
    ) -> Reloader {
        Reloader {
            arguments: arguments.clone(),
            in_force: Mutex::new(configuration.clone()),
            node: Arc::clone(&self.node),
            tls: self.tls.clone(),
            revoking: self.revoking(),
            own_origins: self.own_origins.clone(),
            log: log.to(Target::Configuration),
            counts: Mutex::default(),
        }
    }

    /// Takes the place of the node before, if there was one.
    fn take_over(&self) -> Result<(), Ending> {
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = &*node {
            let judge = self.entitled.as_ref().map(|entitled| &entitled.judge);
            // The node before may have had none.
            let know =
                |bytes: &[u8]| bytes.is_empty() || judge.is_none_or(|judge| judge.take_over(bytes));
            node.take_over(&know)
                .context("the other process is still the node")?;
        }
        Ok(())
    }

    /// What the metrics are now, whoever asks.
    fn gather(&self, configuration: &Configuration, reloader: &Arc<Reloader>) -> metrics::Gather {
        let node_name = configuration.text("node.name").to_owned();
        let (node, reloader) = (Arc::clone(&self.node), Arc::clone(reloader));
        let draining = Arc::clone(&self.draining);
        let pushes = Arc::clone(&self.pushes);
        let judge = self
            .entitled
            .as_ref()
            .map(|entitled| Arc::clone(&entitled.judge));
        Arc::new(move || {
            let node = node.read().unwrap_or_else(PoisonError::into_inner);
            let mut statistics = node.as_ref().map(Node::statistics).unwrap_or_default();
            statistics.is_draining |= draining.has_begun();
            let judge = judge.as_ref().map(|judge| judge.statistics());
            metrics::collect(&metrics::Sources {
                node_name: &node_name,
                statistics,
                judge: judge.unwrap_or_default(),
                reloads: reloader.counts(),
                log: reloader.log.counts(),
                pushes: pushes.counts(),
            })
        })
    }

    /// What operators do about the end.
    fn drain(&self, reloader: &Arc<Reloader>, wishes: mpsc::Sender<Wish>) -> Drain {
        let (begins, tells) = (Arc::clone(&self.draining), Arc::clone(&self.draining));
        let (reloader, node) = (Arc::clone(reloader), Arc::clone(&self.node));
        Drain {
            begin: Arc::new(move |window_ms| {
                let of_configuration = || reloader.number("node.drain_window").unwrap_or(0);
                if begins.begin(window_ms.unwrap_or_else(of_configuration)) {
                    // Nobody takes it any more when a signal has come first.
                    let _ = wishes.send(Wish::Drain(window_ms));
                }
            }),
            progress: Arc::new(move || tells.tell(&node)),
        }
    }

    /// Pushes the metrics to where the configuration says, if it does.
    fn push_metrics(
        &self,
        configuration: &Configuration,
        reloader: &Arc<Reloader>,
        log: Log,
    ) -> Result<(), Ending> {
        if configuration.given("metrics.push_to").is_none() {
            return Ok(());
        }
        let number = |key| configuration.number(key).unwrap_or(u64::MAX);
        let bytes_max = number("metrics.push_file_bytes_max");
        let Some(target) = push::Target::parse(configuration.text("metrics.push_to"), bytes_max)
        else {
            return Ok(()); // the configuration was checked
        };
        let pushed = Push {
            target,
            interval: Duration::from_millis(number("metrics.push_interval")),
            node_name: configuration.text("node.name").to_owned(),
            gather: self.gather(configuration, reloader),
            counters: Arc::clone(&self.pushes),
            log: log.to(Target::Operators),
        };
        push::spawn(pushed).context("no thread to push metrics")?;
        Ok(())
    }

    fn operated(
        &self,
        configuration: &Configuration,
        (reloader, upgrader): (&Arc<Reloader>, &Arc<Upgrader>),
        wishes: mpsc::Sender<Wish>,
    ) -> admin::Operated {
        let upgrader = Arc::clone(upgrader);
        let gather = self.gather(configuration, reloader);
        let drain = self.drain(reloader, wishes);
        let limiting = Arc::clone(reloader);
        let reloader = Arc::clone(reloader);
        let draining = Arc::clone(&self.draining);
        let asked = Arc::clone(&self.node);
        let node_name = configuration.text("node.name").to_owned();
        let log = reloader.log;
        let revoking = self.revoking();
        admin::Operated {
            about: About {
                node_name,
                clients: self.addresses.clone(),
                connections_max: self.connections_max,
            },
            readiness: Box::new(move || {
                if draining.has_begun() {
                    return Readiness::NotReady("draining");
                }
                match &*asked.read().unwrap_or_else(PoisonError::into_inner) {
                    Some(node) => node.unready().map_or(Readiness::Ready, Readiness::NotReady),
                    None => Readiness::NotReady("stopped"),
                }
            }),
            metrics: Box::new(move || metrics::text(&gather())),
            logging: self.logging(log),
            revoking,
            drain,
            node: Arc::clone(&self.node),
            limits: Arc::new(move || limiting.limits()),
            reload: Box::new(move || reloader.reload("POST /api/v1/reload")),
            upgrade: Arc::new(move || upgrader.ask()),
        }
    }
}

/// Pages of the operators' port may use the node: its live page needs no configuration.
fn start(
    configuration: &Configuration,
    operators: &[SocketAddr],
    (sockets, inherited): (&Sockets, &Inherited),
    journal: JournalSender,
) -> Result<Serving, Ending> {
    let mut options = assemble::node_options(configuration, process::cores_count());
    options.inherited = sockets.of_clients();
    let own_origins = origins_of_pages(operators);
    let origins = &mut options.settings.allowed_origins;
    origins.extend_from_slice(&own_origins);
    if options.settings.tickets.keys.is_empty() && options.data_dir.is_none() {
        // Those that the node before has made for itself: its tickets go on.
        options.settings.tickets.keys = inherited.ticket_keys();
    }
    let of_tickets = keys_of_tickets(configuration, &mut options);
    let mut notices = about(Target::Tickets, of_tickets);
    let (tls, notice) = tls_files::load(configuration)?;
    notices.extend(about(Target::Tls, notice));
    let server = tls.as_ref().map(|tls| Arc::clone(&tls.server));
    options.tls = tls;
    options.journal = Some(journal);
    let entitled = entitled::prepare(configuration)?;
    notices.extend(about(Target::Entitlement, entitled::notices(configuration)));
    options.judge = entitled
        .as_ref()
        .map(|entitled| Arc::clone(&entitled.judge) as Arc<dyn Judge>);
    options.inheritance = inherited.take();
    let node = node::start(options).map_err(|error| not_started(configuration, error))?;
    let of_node = node.notices().iter().cloned();
    notices.extend(of_node.map(|notice| (Target::Node, Level::Warn, notice)));
    Ok(Serving {
        addresses: node.addresses().to_vec(),
        tls_addresses: node.tls_addresses().to_vec(),
        tls: server,
        notices,
        entitled,
        connections_max: node.connections_max(),
        node: Arc::new(RwLock::new(Some(node))),
        draining: Arc::default(),
        pushes: Arc::default(),
        own_origins,
    })
}

fn about(
    target: Target,
    notices: impl IntoIterator<Item = (Level, String)>,
) -> Vec<(Target, Level, String)> {
    let notices = notices.into_iter();
    notices
        .map(|(level, notice)| (target, level, notice))
        .collect()
}

/// By which a browser calls the operators' addresses.
fn origins_of_pages(operators: &[SocketAddr]) -> Vec<String> {
    let mut origins = Vec::new();
    for address in operators {
        origins.push(http_url(*address));
        if address.ip().is_loopback() || address.ip().is_unspecified() {
            let port = address.port();
            let hosts = ["localhost", "127.0.0.1", "[::1]"];
            origins.extend(hosts.map(|host| format!("http://{host}:{port}")));
        }
    }
    origins
}

fn keys_of_tickets(
    configuration: &Configuration,
    options: &mut NodeOptions,
) -> Vec<ticket_keys::Notice> {
    let now_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis() as u64;
    let key_age_max_ms = configuration.number("tickets.key_age_max").unwrap_or(0);
    let data_dir = options.data_dir.as_deref();
    ticket_keys::provide(
        &mut options.settings.tickets,
        data_dir,
        key_age_max_ms,
        now_ms,
    )
}

/// A log that is not as the configuration says is the configuration's fault.
fn not_started(configuration: &Configuration, error: StartError) -> Ending {
    if let StartError::Log(name, reason) = &error
        && reason.is_configuration()
        && let Some(log) = configuration
            .logs
            .iter()
            .find(|log| log.text("name") == Some(name))
    {
        return Ending::Configuration(Faults(vec![Fault {
            origin: log.origin_of("partitions_count"),
            key: "log.partitions_count".into(),
            problem: reason.to_string(),
            expected: "the number that the log was made with, or another name for a new log".into(),
        }]));
    }
    Ending::Failed(anyhow::Error::new(error).context("the node cannot start"))
}

/// The first signal is received; a second one ends the process.
fn watch_signals(sender: mpsc::Sender<Wish>, log: Log) {
    let mut count = 0_u32;
    signals::watch(move |signal| {
        count += u32::from(!matches!(signal, Signal::Hangup | Signal::Upgrade));
        if count > 1 || sender.send(Wish::Signal(signal)).is_err() {
            // Who ends it at once does not wait for who reads.
            log.flush(Duration::from_millis(100));
            std::process::exit(i32::from(signal.exit_code()));
        }
    });
}

fn copies(listeners: &[TcpListener]) -> Result<Vec<TcpListener>, Ending> {
    listeners
        .iter()
        .map(|listener| Ok(listener.try_clone().context("no descriptors")?))
        .collect()
}

fn local_addresses(listeners: &[TcpListener]) -> Result<Vec<SocketAddr>, Ending> {
    listeners
        .iter()
        .map(|listener| Ok(listener.local_addr()?))
        .collect()
}

fn http_url(address: SocketAddr) -> String {
    format!("http://{address}")
}
