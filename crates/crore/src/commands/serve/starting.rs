//! The start of the node of `serve`: from a checked configuration, and perhaps a predecessor, to a
//! node that accepts.
//!
//! Invariant: a failed start leaves nothing running.

use super::serving::Serving;
use super::url::http_url;
use crate::cluster::ClusterState;
use crate::configuration::assemble::milliseconds;
use crate::configuration::fault::{Fault, Faults};
use crate::configuration::options::{Tickets, UserNetwork};
use crate::configuration::{Configuration, assemble};
use crate::entitled;
use crate::exit::Ending;
use crate::logging::{Level, Log, Target};
use crate::sockets::Sockets;
use crate::upgrade::Inherited;
use crate::{cluster, engine_client, private_files, process, ticket_keys, tls_files};
use broker::entitlement::Authenticator;
use node::journal::JournalSender;
use node::{NodeOptions, StartError};
use std::net::SocketAddr;
use std::sync::{Arc, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// Starts the node. Pages of the operators' port may use it: its live page needs no configuration.
///
/// # Errors
/// The configuration or its files have a fault, or the system refuses a resource.
pub fn start(
    configuration: &Configuration,
    operators: &[SocketAddr],
    (sockets, inherited): (&Sockets, &Inherited),
    journal: JournalSender,
    log: Log,
) -> Result<Serving, Ending> {
    let mut options = assemble::node_options(configuration, process::cores_count());
    options.transport.sockets.inherited = sockets.of_clients();
    let fallen_back = fall_back(configuration, &mut options);
    let own_origins = origins_of_pages(operators);
    let origins = &mut options.settings.allowed_origins;
    origins.extend_from_slice(&own_origins);
    if options.settings.tickets.keys.is_empty() {
        // The keys of the predecessor, if there is one: its tickets stay valid, and the key file
        // stays unchanged.
        options.settings.tickets.keys = inherited.ticket_keys();
    }
    let of_tickets = keys_of_tickets(configuration, &mut options);
    let mut notices = about(Target::Tickets, of_tickets);
    notices.extend(fallen_back.map(|notice| (Target::Node, Level::Warn, notice)));
    let (tls, notice) = tls_files::load(configuration)?;
    notices.extend(about(Target::Tls, notice));
    let server = tls.as_ref().map(|tls| Arc::clone(&tls.server));
    options.tls = tls;
    options.journal = Some(journal);
    let entitled = entitled::prepare(configuration)?;
    notices.extend(about(Target::Entitlement, entitled::notices(configuration)));
    let of_files = private_files::notices(configuration);
    notices.extend(about(Target::Node, of_files));
    options.authenticator = entitled
        .as_ref()
        .map(|entitled| Arc::clone(&entitled.authenticator) as Arc<dyn Authenticator>);
    options.engine = engine_client::prepare(configuration, &options.settings, log)?;
    let joining = cluster::join(configuration, &options.settings, entitled.as_ref(), log)?;
    if let Some(joining) = &joining {
        let revoked = joining.cluster().read(ClusterState::tickets);
        let tickets = &mut options.settings.tickets;
        tickets.not_before_ms = tickets.not_before_ms.max(revoked.before_ms);
    }
    options.inheritance = inherited.take();
    let node = node::start(options).map_err(|error| not_started(configuration, error))?;
    let of_node = node.notices().iter().cloned();
    notices.extend(of_node.map(|notice| (Target::Node, Level::Warn, notice)));
    Ok(Serving {
        addresses: node.addresses().to_vec(),
        tls_addresses: node.tls_addresses().to_vec(),
        mqtt_count: assemble::mqtt_count(configuration),
        tls: server,
        notices,
        entitled,
        cluster: joining.as_ref().map(|joining| joining.cluster().clone()),
        joining,
        connections_max: node.connections_max(),
        node: Arc::new(RwLock::new(Some(node))),
        draining: Arc::default(),
        pushes: Arc::default(),
        history: Arc::default(),
        own_origins,
    })
}

/// Leaves the addresses of `[user_network]` to the kernel's sockets if its device cannot be opened
/// and the configuration allows it; returns a notice then.
fn fall_back(configuration: &Configuration, options: &mut NodeOptions) -> Option<String> {
    let user = options.transport.user.as_ref()?;
    if !configuration.read::<UserNetwork>().fallback {
        return None;
    }
    let error = user.probe(&options.listen).err()?;
    options.transport.user = None;
    Some(format!("the kernel's sockets serve the addresses of [user_network]: {error}"))
}

fn about(
    target: Target,
    notices: impl IntoIterator<Item = (Level, String)>,
) -> Vec<(Target, Level, String)> {
    let notices = notices.into_iter();
    notices.map(|(level, notice)| (target, level, notice)).collect()
}

/// Origins by which browsers reach the operators' addresses.
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
    let now_ms =
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let key_age_max_ms = milliseconds(configuration.read::<Tickets>().key_age_max);
    let data_dir = options.data_dir.as_deref();
    ticket_keys::provide(&mut options.settings.tickets, data_dir, key_age_max_ms, now_ms)
}

/// A log that differs from the configuration is a fault of the configuration.
fn not_started(configuration: &Configuration, error: StartError) -> Ending {
    if let StartError::Log(name, reason) = &error
        && reason.is_configuration()
        && let Some(log) = configuration.logs.iter().find(|log| log.text("name") == Some(name))
    {
        return Ending::Configuration(Faults(vec![Fault {
            origin: log.origin_of("partitions_count"),
            key: "log.partitions_count".into(),
            problem: reason.to_string(),
            expected: "the number of partitions that the log was created with, or a new name for a new log".into(),
        }]));
    }
    Ending::Failed(anyhow::Error::new(error).context("the node cannot start"))
}
