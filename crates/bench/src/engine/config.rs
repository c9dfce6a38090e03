//! The configuration of a run.
//!
//! Place: between the command line (or `crore demo`) and the engine. Addresses are resolved here,
//! once.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::bail;
use serde::{Deserialize, Serialize};

use super::network::ClientNetwork;
use super::{Load, MqttOptions, Order, Plan, Route, Topics, Window};
use crate::pattern::Pattern;
use crate::payload::{Clock, seed_from_entropy};
use crate::tokens::Tokens;

/// The protocol of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// The native protocol over WebSocket.
    #[default]
    Ws,
    /// Server-Sent Events.
    Sse,
    /// Long polls.
    Http,
    /// MQTT over TCP or TLS.
    Mqtt,
}

impl Transport {
    /// The URL of a node, where none is given.
    pub fn url(self) -> &'static str {
        match self {
            Transport::Ws | Transport::Sse | Transport::Http => "ws://127.0.0.1:8800",
            Transport::Mqtt => "mqtt://127.0.0.1:1883",
        }
    }
}

/// Options of all workloads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Common {
    /// Addresses of the nodes, used in turn by the connections; at least one.
    pub routes: Vec<Route>,
    /// Source addresses; empty: the kernel selects one.
    pub local_addresses: Vec<IpAddr>,
    /// A TCP of our own, which has these addresses; without it, the kernel's sockets.
    pub network: Option<ClientNetwork>,
    /// Connection rate per second over all workers; 0: no limit.
    pub connect_rate: f64,
    /// Number of worker threads; 0: one for each core, or as many as the descriptor limit requires.
    pub threads: u64,
    /// Trusted certificates and session tickets, for addresses with TLS.
    #[serde(skip)]
    pub tls: tls::ClientSettings,
    /// The tokens of the clients.
    #[serde(skip)]
    pub tokens: Tokens,
    /// Length of the warm-up, whose latencies are not recorded.
    pub warm_up: Duration,
    /// While it is set, workers poll without sleeping, so that no CPU time is spent on waking them.
    #[serde(skip)]
    pub busy_poll: Arc<AtomicBool>,
    /// Seed of random choices.
    pub seed: u64,
}

impl Common {
    /// The defaults, for these URLs.
    ///
    /// # Errors
    /// A URL is invalid, or its host has no address.
    pub fn new(urls: &[String]) -> anyhow::Result<Common> {
        Common::with_target(urls, client::url::TARGET)
    }

    /// The defaults, with another path for URLs without one.
    ///
    /// # Errors
    /// The errors of [`Common::new`].
    pub fn with_target(urls: &[String], target: &str) -> anyhow::Result<Common> {
        let routes = urls
            .iter()
            .map(|url| Route::resolve(url, target))
            .collect::<anyhow::Result<Vec<_>>>()?;
        if routes.is_empty() {
            bail!("no URL was given")
        }
        Ok(Common {
            routes,
            local_addresses: Vec::new(),
            network: None,
            connect_rate: 0.0,
            threads: 0,
            tls: tls::ClientSettings::default(),
            tokens: Tokens::default(),
            warm_up: Duration::ZERO,
            busy_poll: Arc::default(),
            seed: seed_from_entropy(),
        })
    }

    /// Checks that every address speaks this protocol.
    pub(super) fn check(&self, transport: Transport) -> anyhow::Result<()> {
        let is_mqtt = transport == Transport::Mqtt;
        match self.routes.iter().find(|route| route.is_mqtt != is_mqtt) {
            None => Ok(()),
            Some(route) if is_mqtt => {
                bail!("--transport mqtt needs --url mqtt://{} or mqtts://", route.host)
            }
            Some(route) => bail!("{} is an address of MQTT: add --transport mqtt", route.host),
        }
    }

    /// The plan for this number of clients.
    ///
    /// # Errors
    /// More than one thread for a TCP of our own.
    pub(super) fn plan(&self, clients: u64) -> anyhow::Result<Plan> {
        let (addresses, targets) = (&self.local_addresses, self.routes.len() as u64);
        if self.network.is_none() {
            return Ok(Plan::new(clients, self.threads, addresses, targets));
        }
        if self.threads > 1 {
            bail!("--interface has one thread: --threads must be 0 or 1");
        }
        let sources = ClientNetwork::capacity(addresses.len()).saturating_mul(targets);
        Ok(Plan::with_own_tcp(clients, sources))
    }
}

/// The start of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Beginning {
    /// New publications only.
    #[default]
    Live,
    /// The oldest stored message.
    First,
    /// The last messages of this number.
    Last(u32),
    /// After this position: epoch and offset.
    Since(u64, u64),
}

impl FromStr for Beginning {
    type Err = String;

    fn from_str(text: &str) -> Result<Beginning, String> {
        let read = || match text.split_once(':') {
            None if text == "live" => Some(Beginning::Live),
            None if text == "first" => Some(Beginning::First),
            Some(("last", count)) => Some(Beginning::Last(count.parse().ok()?)),
            Some(("since", position)) => {
                let (epoch, offset) = position.split_once(':')?;
                Some(Beginning::Since(epoch.parse().ok()?, offset.parse().ok()?))
            }
            _ => None,
        };
        read().ok_or_else(|| format!("`{text}` is not live, first, last:N or since:EPOCH:OFFSET"))
    }
}

/// A span of a run during which its clients do not receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absence {
    /// Time from the start of the run to the begin of the span.
    pub after: Duration,
    /// Length of the span.
    pub span: Duration,
}

/// The configuration of subscribers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SubscribersConfig {
    /// The common options.
    pub common: Common,
    /// The protocol.
    pub transport: Transport,
    /// The options of MQTT.
    pub mqtt: MqttOptions,
    /// QoS of subscriptions of MQTT, 0 or 1.
    pub qos: u8,
    /// The number of clients.
    pub clients: u64,
    /// The subscribed topics.
    pub topics: Topics,
    /// Number of clients with their own latencies; 0: none.
    pub sample: u64,
    /// The start of the streams.
    pub beginning: Beginning,
    /// Whether every stream is audited.
    pub is_audited: bool,
    /// The span during which clients do not read.
    pub stall: Option<Absence>,
    /// The span during which all clients are disconnected.
    pub away: Option<Absence>,
    /// Rate of the reconnects per second; 0: no limit. Without it, the rate of the start.
    pub return_rate: Option<f64>,
    /// Whether all clients have the same topics, and the last receiver of each message is measured.
    pub has_last_receiver: bool,
    /// `SO_RCVBUF` of the clients in bytes; without it, the kernel's default.
    pub receive_bytes: Option<usize>,
    /// Whether to offer compression over WebSocket.
    pub is_compressed: bool,
    /// Whether subscriptions (over WebSocket: and HELLO) are sent with the handshake instead of
    /// after it.
    pub is_hello_early: bool,
}

impl SubscribersConfig {
    /// Native subscribers with one topic each.
    pub fn new(common: Common, pattern: Pattern, clients: u64) -> SubscribersConfig {
        let seed = common.seed;
        SubscribersConfig {
            common,
            transport: Transport::Ws,
            mqtt: MqttOptions::default(),
            qos: 1,
            clients,
            topics: Topics { pattern, choice: Default::default(), per_client: 1, seed },
            sample: 0,
            beginning: Beginning::default(),
            is_audited: false,
            stall: None,
            away: None,
            return_rate: None,
            has_last_receiver: false,
            receive_bytes: None,
            is_compressed: false,
            is_hello_early: true,
        }
    }
}

/// The configuration of publishers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PublishersConfig {
    /// The common options.
    pub common: Common,
    /// The protocol: WebSocket or MQTT.
    pub transport: Transport,
    /// The options of MQTT.
    pub mqtt: MqttOptions,
    /// Number of connections that share the load.
    pub connections: u64,
    /// The load.
    pub load: Load,
}

impl PublishersConfig {
    /// One connection, payloads of 512 bytes, acknowledged.
    pub fn new(common: Common, topics: Pattern, rate: f64) -> PublishersConfig {
        PublishersConfig {
            common,
            transport: Transport::Ws,
            mqtt: MqttOptions::default(),
            connections: 1,
            load: Load {
                topics,
                order: Order::default(),
                rate,
                step_ns: 0,
                size: 512,
                acknowledge: true,
                exactly_once: false,
                inflight_max: 1024,
                clock: Clock::Monotonic,
                publisher: seed_from_entropy() as u32,
                count: 0,
                window: Window::from(0),
            },
        }
    }
}

/// The configuration of echo clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EchoesConfig {
    /// The common options.
    pub common: Common,
    /// The number of clients at the start.
    pub clients: u64,
    /// The maximum number of clients.
    pub clients_max: u64,
    /// Time between two pings of one client.
    pub every: Duration,
    /// Size of a ping in bytes.
    pub size: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings() {
        for (text, wanted) in [
            ("live", Some(Beginning::Live)),
            ("first", Some(Beginning::First)),
            ("last:5", Some(Beginning::Last(5))),
            ("since:7:42", Some(Beginning::Since(7, 42))),
            ("last", None),
            ("last:x", None),
            ("since:7", None),
            ("since:7:", None),
            ("", None),
        ] {
            assert_eq!(text.parse::<Beginning>().ok(), wanted, "{text}");
        }
    }
}
