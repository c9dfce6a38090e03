//! A running node, as its side threads share it: for inspection and control by operators.
//!
//! Place: between the node and the operators' port, the metrics and the reload. Invariant: the node
//! may stop at any time; later calls report that, and none waits for it.

use super::node_requests::NodeRequest;
use crate::admin::draining::Drain;
use crate::admin::logs::Logging;
use crate::admin::revocations::Revoking;
use crate::admin::{self, About, Access, Readiness};
use crate::cluster::{Cluster, Joining, Surroundings};
use crate::configuration::assemble::milliseconds;
use crate::configuration::options::{self, MetricsPush, NodeLimits};
use crate::configuration::{Configuration, assemble_logging};
use crate::draining::Draining;
use crate::entitled::Entitled;
use crate::exit::Ending;
use crate::flags::ConfigurationArguments;
use crate::logging::{Level, Levels, Log, Target};
use crate::metrics::push::{self, Push, PushCounters};
use crate::reload::Reloader;
use crate::statistics_history::StatisticsHistory;
use crate::upgrade::Upgrader;
use crate::{memory_ceiling, metrics};
use anyhow::Context;
use broker::settings::Settings;
use node::Node;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};

/// A running node, shared with the operators' port.
pub struct Serving {
    /// The node; none when it has stopped.
    pub node: Arc<RwLock<Option<Node>>>,
    /// Maximum number of its connections.
    pub connections_max: u64,
    /// The drain.
    pub draining: Arc<Draining>,
    /// Addresses of clients without TLS.
    pub addresses: Vec<SocketAddr>,
    /// Addresses of clients with TLS.
    pub tls_addresses: Vec<SocketAddr>,
    /// The number of addresses for MQTT among each of both; they come last.
    pub mqtt_count: (usize, usize),
    /// The TLS certificate and key.
    pub tls: Option<Arc<tls::Server>>,
    /// Notices of the start.
    pub notices: Vec<(Target, Level, String)>,
    /// The authenticator, if any.
    pub entitled: Option<Entitled>,
    /// The cluster; none without an engine.
    pub cluster: Option<Cluster>,
    /// The cluster before its thread runs.
    pub joining: Option<Joining>,
    /// Counts of pushed metrics.
    pub pushes: Arc<PushCounters>,
    /// The data of the charts on the operators' page.
    pub history: Arc<StatisticsHistory>,
    /// Origins of the operators' pages.
    pub own_origins: Vec<String>,
}

impl Serving {
    /// Begins to watch the memory in use and its ceiling.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn watch_memory(&self, configuration: &Configuration, log: Log) -> Result<(), Ending> {
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = &*node {
            let ceiling = configuration.read::<NodeLimits>().memory_bytes_max;
            memory_ceiling::watch(ceiling, &node.pressure(), log.to(Target::Limits))
                .context("cannot start the thread that watches memory")?;
        }
        Ok(())
    }

    fn revoking(&self) -> Option<Revoking> {
        let entitled = self.entitled.as_ref()?;
        Some(Revoking {
            authenticator: Arc::clone(&entitled.authenticator),
            data_dir: entitled.data_dir.clone(),
            changed: self.keys_changed(),
            cluster: self.cluster.clone(),
        })
    }

    /// Begins to report this node to the cluster, if there is one, and to follow the others.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn follow_cluster(&mut self, reloader: &Arc<Reloader>, log: Log) -> Result<(), Ending> {
        let Some(joining) = self.joining.take() else {
            return Ok(());
        };
        let entitled = self.entitled.as_ref();
        let surroundings = Surroundings {
            node: Arc::clone(&self.node),
            reloader: Arc::clone(reloader),
            draining: Arc::clone(&self.draining),
            authenticator: entitled
                .map(|entitled| (Arc::clone(&entitled.authenticator), entitled.data_dir.clone())),
            changed: self.keys_changed(),
            log: log.to(Target::Node),
        };
        joining.follow(surroundings).context("cannot start the thread of the cluster")?;
        Ok(())
    }

    /// Makes the node check credentials again. Call it after a change of keys or revocations.
    pub fn keys_changed(&self) -> Arc<dyn Fn() + Send + Sync> {
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
                // The rules are those in force, so none waits for a restart.
                node.reload(settings);
            }
        };
        Logging { log, change: Arc::new(change) }
    }

    /// Creates the reloader of this node.
    pub fn reloader(
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
            authenticator: self
                .entitled
                .as_ref()
                .map(|entitled| Arc::clone(&entitled.authenticator)),
            own_origins: self.own_origins.clone(),
            log: log.to(Target::Configuration),
            counts: Mutex::default(),
        }
    }

    /// Takes over from the predecessor, if there is one.
    ///
    /// # Errors
    /// The other process is still the node, and gives the reason.
    pub fn take_over(&self) -> Result<(), Ending> {
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = &*node {
            let authenticator = self.entitled.as_ref().map(|entitled| &entitled.authenticator);
            // The predecessor may have had none.
            let know = |bytes: &[u8]| {
                bytes.is_empty()
                    || authenticator.is_none_or(|authenticator| authenticator.take_over(bytes))
            };
            node.take_over(&know).context("the other process is still the node")?;
        }
        Ok(())
    }

    /// The present metrics, for all readers.
    fn gather(&self, configuration: &Configuration, reloader: &Arc<Reloader>) -> metrics::Gather {
        let node_name = configuration.read::<options::Node>().name;
        let (node, reloader) = (Arc::clone(&self.node), Arc::clone(reloader));
        let draining = Arc::clone(&self.draining);
        let pushes = Arc::clone(&self.pushes);
        let cluster = self.cluster.clone();
        let authenticator =
            self.entitled.as_ref().map(|entitled| Arc::clone(&entitled.authenticator));
        Arc::new(move || {
            let node = node.read().unwrap_or_else(PoisonError::into_inner);
            let mut statistics = node.as_ref().map(Node::statistics).unwrap_or_default();
            statistics.is_draining |= draining.has_begun();
            let authenticator =
                authenticator.as_ref().map(|authenticator| authenticator.statistics());
            metrics::collect(&metrics::Sources {
                node_name: &node_name,
                statistics,
                authenticator: authenticator.unwrap_or_default(),
                reloads: reloader.counts(),
                log: reloader.log.counts(),
                pushes: pushes.counts(),
                cluster: cluster.as_ref().map(Cluster::counts).unwrap_or_default(),
            })
        })
    }

    /// The drain, for operators.
    fn drain(&self, reloader: &Arc<Reloader>, node_requests: mpsc::Sender<NodeRequest>) -> Drain {
        let (begins, tells) = (Arc::clone(&self.draining), Arc::clone(&self.draining));
        let (reloader, node) = (Arc::clone(reloader), Arc::clone(&self.node));
        Drain {
            begin: Arc::new(move |window_ms| {
                let of_configuration =
                    || milliseconds(reloader.read::<options::Node>().drain_window);
                if begins.begin(window_ms.unwrap_or_else(of_configuration)) {
                    // After a signal, no thread receives the request.
                    let _ = node_requests.send(NodeRequest::Drain(window_ms));
                }
            }),
            progress: Arc::new(move || tells.tell(&node)),
        }
    }

    /// Pushes the metrics to the configured destination, if there is one.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn push_metrics(
        &self,
        configuration: &Configuration,
        reloader: &Arc<Reloader>,
        log: Log,
    ) -> Result<(), Ending> {
        let MetricsPush { push_to, push_interval, push_file_bytes_max } = configuration.read();
        let target = push_to.and_then(|text| push::Target::parse(&text, push_file_bytes_max));
        let Some(target) = target else {
            return Ok(()); // the configuration was checked
        };
        let pushed = Push {
            target,
            interval: push_interval,
            node_name: configuration.read::<options::Node>().name,
            gather: self.gather(configuration, reloader),
            counters: Arc::clone(&self.pushes),
            log: log.to(Target::Operators),
        };
        push::spawn(pushed).context("cannot start the thread that pushes metrics")?;
        Ok(())
    }

    /// The interface of the operators' port to this node.
    pub fn operated(
        &self,
        configuration: &Configuration,
        access: Access,
        (reloader, upgrader): (&Arc<Reloader>, &Arc<Upgrader>),
        node_requests: mpsc::Sender<NodeRequest>,
    ) -> admin::Operated {
        let upgrader = Arc::clone(upgrader);
        let gather = self.gather(configuration, reloader);
        let drain = self.drain(reloader, node_requests);
        let limiting = Arc::clone(reloader);
        let reloader = Arc::clone(reloader);
        let draining = Arc::clone(&self.draining);
        let asked = Arc::clone(&self.node);
        let node_name = configuration.read::<options::Node>().name;
        let log = reloader.log;
        let revoking = self.revoking();
        admin::Operated {
            about: About {
                node_name,
                clients: self.addresses.clone(),
                tls_clients: self.tls_addresses.clone(),
                connections_max: self.connections_max,
            },
            access,
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
            cluster: self.cluster.clone(),
            drain,
            node: Arc::clone(&self.node),
            history: Arc::clone(&self.history),
            limits: Arc::new(move || limiting.limits()),
            reload: Box::new(move || reloader.reload("POST /api/v1/reload")),
            upgrade: Arc::new(move || upgrader.ask()),
        }
    }
}
