//! What a run is configured with.
//!
//! Place: between the command line (or `crore demo`) and the engine. Addresses are resolved here, once.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::bail;

use super::{Load, Order, Route, Topics, Window};
use crate::pattern::Pattern;
use crate::payload::{Clock, seed_from_entropy};
use crate::tokens::Tokens;

/// How subscribers receive.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Default,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// The native protocol over WebSocket.
    #[default]
    Ws,
    /// Server-Sent Events.
    Sse,
    /// Long polls.
    Http,
}

/// What all workloads need.
#[derive(Clone, Debug)]
pub struct Common {
    /// Addresses of the nodes, in turn for each connection; at least one.
    pub routes: Vec<Route>,
    /// Source addresses; empty: the kernel chooses.
    pub local_addresses: Vec<IpAddr>,
    /// Connects per second over all workers; 0: as fast as it goes.
    pub connect_rate: f64,
    /// Worker threads; 0: as many as there are cores, or as the descriptor limit needs.
    pub threads: u64,
    /// Whom to believe, and whether to come back with tickets, where an address has TLS.
    pub tls: tls::ClientSettings,
    /// What clients show to a node that asks for tokens.
    pub tokens: Tokens,
    /// Latencies of this first span are not recorded.
    pub warm_up: Duration,
    /// While it is set workers never sleep, so that nobody pays for waking them.
    pub busy_poll: Arc<AtomicBool>,
    /// Seed of random choices.
    pub seed: u64,
}

impl Common {
    /// The defaults, for these URLs.
    ///
    /// # Errors
    /// A URL that cannot be used, or whose host has no address.
    pub fn new(urls: &[String]) -> anyhow::Result<Common> {
        Common::with_target(urls, client::url::TARGET)
    }

    /// The same, with another path for URLs that have none.
    ///
    /// # Errors
    /// As [`Common::new`].
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
            connect_rate: 0.0,
            threads: 0,
            tls: tls::ClientSettings::default(),
            tokens: Tokens::default(),
            warm_up: Duration::ZERO,
            busy_poll: Arc::default(),
            seed: seed_from_entropy(),
        })
    }
}

/// Where streams begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Beginning {
    /// With what is published from now on.
    #[default]
    Live,
    /// With the oldest message that is held.
    First,
    /// With the last so many messages.
    Last(u32),
    /// Behind this position: epoch and offset.
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

/// A span of a run in which its clients do something else than receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// From the start of the run to the span's begin.
    pub after: Duration,
    /// How long it lasts.
    pub span: Duration,
}

/// A run of subscribers.
#[derive(Clone, Debug)]
pub struct SubscribersConfig {
    /// Where and how.
    pub common: Common,
    /// The protocol.
    pub transport: Transport,
    /// How many.
    pub clients: u64,
    /// What they subscribe to.
    pub topics: Topics,
    /// So many clients keep their own latencies; 0: none.
    pub sample: u64,
    /// Where streams begin.
    pub beginning: Beginning,
    /// Every stream is audited.
    pub is_audited: bool,
    /// The clients stop reading.
    pub stall: Option<Absence>,
    /// All connections are dropped at once, and return at once.
    pub away: Option<Absence>,
    /// Connects per second when they return; 0: as fast as it goes. As at the beginning without it.
    pub return_rate: Option<f64>,
    /// All clients have the same topics, and of each message the last receiver is looked for.
    pub has_last_receiver: bool,
    /// `SO_RCVBUF` of the clients in bytes; the kernel's own without it.
    pub receive_bytes: Option<usize>,
    /// Over WebSocket: offer compressed messages.
    pub is_compressed: bool,
    /// HELLO and subscriptions go with the handshake instead of following it.
    pub is_hello_early: bool,
}

impl SubscribersConfig {
    /// Native subscribers, one topic each, one to one.
    pub fn new(common: Common, pattern: Pattern, clients: u64) -> SubscribersConfig {
        let seed = common.seed;
        SubscribersConfig {
            common,
            transport: Transport::Ws,
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

/// A run of publishers.
#[derive(Clone, Debug)]
pub struct PublishersConfig {
    /// Where and how.
    pub common: Common,
    /// How many connections share the load.
    pub connections: u64,
    /// The load.
    pub load: Load,
}

impl PublishersConfig {
    /// One connection, payloads of 512 bytes, acknowledged.
    pub fn new(common: Common, topics: Pattern, rate: f64) -> PublishersConfig {
        PublishersConfig {
            common,
            connections: 1,
            load: Load {
                topics,
                order: Order::default(),
                rate,
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

/// A run of echo clients.
#[derive(Clone, Debug)]
pub struct EchoesConfig {
    /// Where and how.
    pub common: Common,
    /// How many at first.
    pub clients: u64,
    /// How many there may ever be.
    pub clients_max: u64,
    /// Between two pings of one client.
    pub every: Duration,
    /// Bytes of a ping.
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
