//! The orderly end of a node: from the request of a signal or an operator to the last thread.
//!
//! Beside the path of messages. Readiness fails first, and nothing else happens for
//! `node.drain_delay`, so that load balancers stop sending clients. Then the node drains its
//! clients ([`node::Node::drain`]) for at most the window, and the threads stop within
//! [`STOP_WITHIN`]. Invariants: the end takes bounded time, whatever clients and disks do; a client
//! that polls the drain through the operators' port sees its result.

use crate::logging::{Level, Log};
use crate::service_manager;
use node::{IO_THREADS_END, Node, NodeStatistics};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Time for logs on disk, and the I/O threads, to stop after the clients have gone.
pub const STOP_WITHIN: Duration = Duration::from_secs(10);
/// A client that asked for the progress within this time counts as a watcher.
const WATCHED_WITHIN: Duration = Duration::from_secs(2);
/// Maximum time to wait for a watcher's next request, answers in transit included. It equals the
/// time for which a client counts as a watcher: on a busy machine, half a second passes between two
/// of its requests.
pub const FAREWELL: Duration = Duration::from_secs(2);

/// Stage of a drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stage {
    /// The node serves.
    #[default]
    Serving,
    /// The node is not ready, but serves.
    Waiting,
    /// The node drains its clients.
    LeadingAway,
    /// The threads stop.
    Ending,
    /// The node has stopped.
    Ended,
}

impl Stage {
    /// The word in the API.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Serving => "serving",
            Stage::Waiting => "waiting",
            Stage::LeadingAway => "leading_away",
            Stage::Ending => "ending",
            Stage::Ended => "ended",
        }
    }
}

/// Progress of a drain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// The current stage.
    pub stage: Stage,
    /// Open connections at the last count.
    pub connections: u64,
    /// Sessions and event streams that the drain asked to reconnect.
    pub sent_away: u64,
    /// The window in force.
    pub window_ms: u64,
    /// Publications to logs on disk that were not durable at the last count; none of them was
    /// acknowledged.
    pub unsynced: u64,
}

/// The drain of a node, shared by its threads.
#[derive(Debug, Default)]
pub struct Draining {
    progress: Mutex<Progress>,
    /// Time and stage of the last answer to a watcher.
    told: Mutex<Option<(Instant, Stage)>>,
}

/// Parameters of a drain.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Time between the failure of readiness and the drain.
    pub delay_ms: u64,
    /// Time over which clients reconnect.
    pub window_ms: u64,
}

impl Draining {
    /// Whether the node should accept no new clients.
    pub fn has_begun(&self) -> bool {
        lock(&self.progress).stage != Stage::Serving
    }

    /// Stores the request; false if there was one before.
    pub fn begin(&self, window_ms: u64) -> bool {
        let mut progress = lock(&self.progress);
        let is_first = progress.stage == Stage::Serving;
        if is_first {
            progress.stage = Stage::Waiting;
            progress.window_ms = window_ms;
        }
        is_first
    }

    /// The progress, for a request from outside.
    pub fn tell(&self, node: &RwLock<Option<Node>>) -> Progress {
        self.count(node);
        let progress = *lock(&self.progress);
        *lock(&self.told) = Some((Instant::now(), progress.stage));
        progress
    }

    /// Drains the node and stops it.
    ///
    /// # Errors
    /// A thread has died, or has not stopped in time.
    pub fn run(
        &self,
        node: &RwLock<Option<Node>>,
        plan: Plan,
        reason: &str,
        log: &Log,
    ) -> io::Result<()> {
        self.begin(plan.window_ms);
        let Plan { delay_ms, window_ms } = plan;
        let window = Duration::from_millis(delay_ms + window_ms);
        let longest = window + IO_THREADS_END + STOP_WITHIN + 2 * FAREWELL;
        service_manager::stopping("drains", longest);
        log.write(
            Level::Info,
            "The node drains; a second signal stops it at once.",
            &[
                ("reason", reason),
                ("delay_ms", &delay_ms.to_string()),
                ("window_ms", &window_ms.to_string()),
            ],
        );
        std::thread::sleep(Duration::from_millis(delay_ms));
        self.enter(Stage::LeadingAway);
        // Metrics stay readable during the drain.
        if let Some(node) = &*node.read().unwrap_or_else(PoisonError::into_inner) {
            node.drain(Duration::from_millis(window_ms));
        }
        self.count(node);
        self.enter(Stage::Ending);
        let taken = node.write().unwrap_or_else(PoisonError::into_inner).take();
        let result = taken.map_or(Ok(()), |node| node.stop(STOP_WITHIN));
        tell_end(&result, *lock(&self.progress), log);
        self.enter(Stage::Ended);
        self.await_farewell();
        result
    }

    fn enter(&self, stage: Stage) {
        lock(&self.progress).stage = stage;
    }

    /// Counts the remaining connections.
    fn count(&self, node: &RwLock<Option<Node>>) {
        let node = node.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = &*node {
            let NodeStatistics { edge, home, .. } = node.statistics();
            let mut progress = lock(&self.progress);
            progress.connections = edge.connections;
            progress.unsynced = home.staged;
            progress.sent_away = edge.sent_away;
        }
    }

    /// Lets watchers read the final progress.
    fn await_farewell(&self) {
        let began = Instant::now();
        let is_watched = |told: Option<(Instant, Stage)>| {
            told.is_some_and(|(at, stage)| stage != Stage::Ended && at.elapsed() < WATCHED_WITHIN)
        };
        while is_watched(*lock(&self.told)) && began.elapsed() < FAREWELL {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn tell_end(result: &io::Result<()>, progress: Progress, log: &Log) {
    match result {
        Ok(()) => log.write(
            Level::Info,
            "The node has stopped.",
            &[
                ("sent_away", &progress.sent_away.to_string()),
                ("connections_reset", &progress.connections.to_string()),
            ],
        ),
        Err(error) => log.write(
            Level::Error,
            "The node did not stop cleanly; acknowledged messages are kept.",
            &[("error", &error.to_string()), ("unsynced", &progress.unsynced.to_string())],
        ),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
