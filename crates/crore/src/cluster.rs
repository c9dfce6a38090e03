//! The cluster of nodes with the same engine: which nodes live, what of logs they must have alike,
//! and which tokens they have revoked, over the engine's control topic.
//!
//! Place: beside the path of messages, between the engine's client and the operators' side of the
//! node. [`entries`] has the topic's keys and values, [`state`] what follows from them, and
//! [`follower`] the thread that acts on it. Invariant: a node starts to serve only when it has read
//! all of the topic, so that no token is valid at a node that another has revoked before its start.

mod channel;
pub mod entries;
mod follower;
mod state;
pub mod topic;

pub use follower::{Surroundings, UNHEARD_MAX};
pub use state::{ClusterState, Member};

use crate::configuration::fault::{Fault, Faults};
use crate::configuration::{Configuration, options};
use crate::engine_client;
use crate::entitled::Entitled;
use crate::exit::Ending;
use crate::logging::Log;
use crate::ticket_keys::random_secret;
use anyhow::{Context, anyhow};
use broker::settings::{Durability, LogSettings, Settings};
use channel::{Order, Shared};
use entitlement::revoking::Change;
use entries::{LogEntry, written};
use follower::Follower;
use state::Learned;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use topic::{Letter, WriteControl};

/// The cluster, as the rest of the process uses it.
#[derive(Clone, Debug)]
pub struct Cluster {
    orders: Sender<Order>,
    shared: Arc<Shared>,
}

/// Counts for the metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterCounts {
    /// Living nodes, this one included; 0 without an engine.
    pub nodes: u64,
    /// Time since this node has read its own report, in milliseconds.
    pub silence_ms: u64,
}

/// The time that an operator's revocation waits for the control topic.
const TELL_PATIENCE: Duration = Duration::from_secs(5);
/// The time that the end of a node waits for the control topic.
const LEAVE_PATIENCE: Duration = Duration::from_secs(3);

impl Cluster {
    /// Tells the other nodes of a revocation. False if the topic has not confirmed it in time; the
    /// node keeps trying.
    pub fn tell(&self, change: Change) -> bool {
        let (reply, is_told) = channel();
        let sent = self.orders.send(Order::Tell { change, reply });
        sent.is_ok() && is_told.recv_timeout(TELL_PATIENCE).is_ok()
    }

    /// Lends the state of the cluster.
    pub fn read<T>(&self, read: impl FnOnce(&ClusterState) -> T) -> T {
        read(&self.shared.state())
    }

    /// Time since this node has read its own report in the topic.
    pub fn silence(&self) -> Duration {
        self.shared.silence()
    }

    /// Counts for the metrics.
    pub fn counts(&self) -> ClusterCounts {
        let living =
            |state: &ClusterState| state.members().filter(|member| member.is_living).count() as u64;
        ClusterCounts {
            nodes: self.read(living),
            silence_ms: u64::try_from(self.silence().as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Reports to the other nodes that this one leaves. Waits until the topic has it, for
    /// [`LEAVE_PATIENCE`] at most; without that the others notice after 20 s.
    pub fn leave(&self) {
        let (reply, has_left) = channel();
        if self.orders.send(Order::Leave { reply }).is_ok() {
            // The others will notice.
            let _: Result<(), _> = has_left.recv_timeout(LEAVE_PATIENCE);
        }
    }
}

/// A node that has read the control topic, and is about to start.
pub struct Joining {
    cluster: Cluster,
    name: String,
    run: String,
    writer: Box<dyn WriteControl>,
    incoming: Receiver<Order>,
}

/// Reads the control topic, takes the cluster's revocations, and compares the logs. None if no log
/// is in an engine.
///
/// # Errors
/// The topic is missing, no broker answers, a log has other partitions than at the other nodes, or
/// revocations cannot be stored.
pub fn join(
    configuration: &Configuration,
    settings: &Settings,
    entitled: Option<&Entitled>,
    log: Log,
) -> Result<Option<Joining>, Ending> {
    let (orders, incoming) = channel();
    let letters = orders.clone();
    let take = move |letter| {
        // After the follower's end, letters have no receiver.
        let _: Result<(), _> = letters.send(Order::Letter(letter));
    };
    let Some(writer) = engine_client::follow(configuration, settings, log, Box::new(take))? else {
        return Ok(None);
    };
    let name = configuration.read::<options::Node>().name;
    let secret = random_secret().context("the system provides no random numbers")?;
    let run: String = secret.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let shared = Arc::new(Shared {
        state: Mutex::new(ClusterState::new(&name, &run)),
        heard: Mutex::new(Instant::now()),
    });
    let patience = configuration.read::<options::Engine>().start_timeout;
    let changes = catch_up(&shared, &incoming, patience)?;
    shared.heard();
    compare_logs(configuration, settings, &shared, &*writer)?;
    if let Some(entitled) = entitled {
        let data_dir = entitled.data_dir.as_deref();
        let lacking = follower::reconcile(&entitled.authenticator, data_dir, changes)
            .context("cannot take the revocations of the other nodes")?;
        for change in &lacking {
            let (key, value) = written(change);
            writer.write(key, value);
        }
    }
    let cluster = Cluster { orders, shared };
    Ok(Some(Joining { cluster, name, run, writer, incoming }))
}

/// Takes all entries that were in the topic; returns the changes of revocations, in order.
fn catch_up(
    shared: &Shared,
    incoming: &Receiver<Order>,
    patience: Duration,
) -> Result<Vec<Change>, Ending> {
    let deadline = Instant::now() + patience;
    let mut changes = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match incoming.recv_timeout(left) {
            Ok(Order::Letter(Letter::Entry(entry))) => {
                let mut state = shared.state();
                if let Learned::Revocation(change) = state.take(&entry) {
                    changes.push(change);
                }
                // They were published before this node started.
                state.take_changes();
            }
            Ok(Order::Letter(Letter::CaughtUp)) => return Ok(changes),
            Ok(Order::Tell { .. } | Order::Leave { .. }) => {}
            Err(_) => {
                let reason =
                    "the engine did not bring all of the control topic within engine.start_timeout";
                return Err(anyhow!(reason).into());
            }
        }
    }
}

/// Compares the logs of the engine with those of the other nodes; writes those that are new.
fn compare_logs(
    configuration: &Configuration,
    settings: &Settings,
    shared: &Shared,
    writer: &dyn WriteControl,
) -> Result<(), Ending> {
    let in_engine = |(_, log): &(usize, &LogSettings)| log.durability == Durability::Engine;
    let mut faults = Vec::new();
    for (index, log) in settings.logs.iter().enumerate().filter(in_engine) {
        let own = LogEntry::of(log);
        let found = shared.state().log(&log.name).cloned();
        match found {
            None => {
                let (key, value) = own.written(&log.name);
                writer.write(key, Some(value));
            }
            Some(found) if found == own => {}
            Some(found) => faults.push(Fault {
                origin: configuration.logs[index].origin_of("name"),
                key: "log.name".into(),
                problem: format!(
                    "log {}: this node would give it {own}, and the other nodes of the cluster have {found}",
                    log.name
                ),
                expected: "the same [[log]] tables, in the same order, and the same version of the program on all nodes".into(),
            }),
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(Ending::Configuration(Faults(faults))) }
}

impl Joining {
    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Begins to report the node and to follow the others.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn follow(self, surroundings: Surroundings) -> io::Result<Cluster> {
        let Joining { cluster, name, run, writer, incoming } = self;
        let follower = Follower {
            name,
            run,
            incoming,
            writer,
            shared: Arc::clone(&cluster.shared),
            surroundings,
            unapplied: Vec::new(),
            waiting: Vec::new(),
            reported: None,
            was_draining: false,
            told: Vec::new(),
            namesakes: 0,
            has_failed: false,
            is_unheard: false,
            asked_ms: 0,
        };
        std::thread::Builder::new().name("cluster".into()).spawn(move || follower.run())?;
        Ok(cluster)
    }
}
