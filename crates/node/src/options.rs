//! The start parameters of a node, and the reasons why it does not start.
//!
//! This file alone names [`Transports`]: they are the transport of a node that names no other.

use crate::admission::AdmissionOptions;
use crate::engine::Engine;
use crate::journal::JournalSender;
use crate::log_thread::LogError;
use crate::proxied::ProxiedOptions;
use crate::upgrade::Inheritance;
use broker::entitlement::Authenticator;
use broker::settings::Settings;
use net::OpenError;
use net::mixed::Transports;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use stdx::networks::Networks;

/// The start parameters of a node.
pub struct NodeOptions<T = Transports> {
    /// The settings of the shards; `edges_count` is the number of I/O threads.
    pub settings: Settings,
    /// Addresses for clients; port 0 selects a free one.
    pub listen: Vec<SocketAddr>,
    /// The clients' network.
    pub transport: T,
    /// Clients with TLS, if any.
    pub tls: Option<TlsOptions>,
    /// Listeners behind proxies that send a PROXY header.
    pub proxied: Option<ProxyOptions>,
    /// Limits of connections.
    pub admission: AdmissionOptions,
    /// Maximum number of connections of one user; the settings' entitlement says whether they are
    /// counted.
    pub connections_per_user_max: Option<u32>,
    /// Maximum connect rate per second of all threads together; faster connections wait in the
    /// listeners' queues.
    pub connect_rate_max: Option<u32>,
    /// A random secret for the hash of topic names.
    pub hash_seed: (u64, u64),
    /// Directory of the logs on disk, each in a subdirectory with its name; required if there is
    /// such a log.
    pub data_dir: Option<PathBuf>,
    /// The client of the engine; required if a log is there.
    pub engine: Option<Box<dyn Engine>>,
    /// Whether the node counts as ready while the engine does not answer.
    pub ready_without_engine: bool,
    /// The authenticator; required if the settings have entitlement.
    pub authenticator: Option<Arc<dyn Authenticator>>,
    /// The destination of events of clients, if the settings enable them.
    pub journal: Option<JournalSender>,
    /// The hand-over of the process that this one replaces; then
    /// [`crate::Node::take_over`] must be called.
    pub inheritance: Option<Inheritance>,
}

impl<T> fmt::Debug for NodeOptions<T> {
    /// Shows the addresses only, because other values could be secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NodeOptions")
            .field("listen", &self.listen)
            .field("data_dir", &self.data_dir)
            .field("has_authenticator", &self.authenticator.is_some())
            .finish_non_exhaustive()
    }
}

/// Clients with TLS.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// Addresses for clients with TLS; port 0 selects a free one.
    pub listen: Vec<SocketAddr>,
    /// The certificate and key. The owner may reload them while the node runs.
    pub server: Arc<tls::Server>,
}

/// The PROXY protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProxyOptions {
    /// Whether connections without TLS must send a header.
    pub plain: bool,
    /// Whether connections with TLS must send a header before the handshake.
    pub tls: bool,
    /// Networks that may send a header.
    pub proxies: Networks,
    /// Time limit for the header.
    pub timeout: Duration,
}

/// The reason why a node did not start.
#[derive(Debug)]
pub enum StartError {
    /// The address cannot be bound.
    Listen(SocketAddr, io::Error),
    /// The system refuses threads, descriptors or memory.
    System(io::Error),
    /// The log on disk with this name cannot be opened.
    Log(String, LogError),
    /// The client of the engine did not start, for this reason.
    Engine(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Listen(address, error) => {
                write!(formatter, "cannot listen on {address}: {error}")
            }
            StartError::System(error) => write!(formatter, "cannot start: {error}"),
            StartError::Engine(why) => write!(formatter, "engine: {why}"),
            StartError::Log(name, error) => write!(formatter, "log \"{name}\": {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<OpenError> for StartError {
    fn from(error: OpenError) -> StartError {
        match error {
            OpenError::Listen(address, error) => StartError::Listen(address, error),
            OpenError::System(error) => StartError::System(error),
        }
    }
}

/// The listeners behind proxies; those without TLS are the first. Empty if there are none.
pub(crate) fn proxied_listeners(
    options: &Option<ProxyOptions>,
    listeners_count: usize,
    plain_count: usize,
) -> Vec<bool> {
    let is_proxied = |place| match options {
        Some(options) if place < plain_count => options.plain,
        Some(options) => options.tls,
        None => false,
    };
    let listeners: Vec<bool> = (0..listeners_count).map(is_proxied).collect();
    if listeners.contains(&true) { listeners } else { Vec::new() }
}

pub(crate) fn proxied_options(
    options: Option<ProxyOptions>,
    listeners: &[bool],
) -> Option<ProxiedOptions> {
    let options = options.filter(|_| !listeners.is_empty())?;
    Some(ProxiedOptions {
        listeners: listeners.to_vec(),
        proxies: options.proxies,
        timeout: options.timeout,
    })
}
