//! The end of a node in order: from the wish of a signal or an operator to the last thread.
//!
//! Beside the path of messages. First readiness fails, and for `node.drain_delay` nothing else happens, so that load balancers
//! send nobody more. Then clients are led away ([`node::Node::drain`]), at most for the window, and at last the threads end, at most
//! [`STOP_WITHIN`]. Invariants: the end comes in bounded time, whatever clients and disks do; whoever watches the drain
//! through the operators' port is told how it ended, if it asks often.

use crate::logging::{Level, Log};
use crate::service_manager;
use node::{IO_THREADS_END, Node, NodeStatistics};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// How long logs on disk may take to end when the clients have gone, and the I/O threads.
pub const STOP_WITHIN: Duration = Duration::from_secs(10);
/// Who has asked so recently how far the drain is will ask again.
const WATCHED_WITHIN: Duration = Duration::from_secs(2);
/// And waits no longer for it, answers on their way included. As long as a watcher counts as one: on a busy machine half a
/// second passes between two of its questions.
pub const FAREWELL: Duration = Duration::from_secs(2);

/// How far a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stage {
    /// It serves.
    #[default]
    Serving,
    /// It is not ready any more, and serves.
    Waiting,
    /// Clients are led away.
    LeadingAway,
    /// Threads end.
    Ending,
    /// All has been done.
    Ended,
}

impl Stage {
    /// As the API has it.
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

/// What is told of a drain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// How far it is.
    pub stage: Stage,
    /// Connections that are left, as far as was last seen.
    pub connections: u64,
    /// Sessions and event streams that were told to go.
    pub sent_away: u64,
    /// The window in force.
    pub window_ms: u64,
    /// Publications to logs on disk that were not durable when it was last seen; nobody has been told of them.
    pub unsynced: u64,
}

/// The drain of a node, as its threads see it.
#[derive(Debug, Default)]
pub struct Draining {
    progress: Mutex<Progress>,
    /// When somebody was last told how far it is, and of which stage.
    told: Mutex<Option<(Instant, Stage)>>,
}

/// How a drain is to be.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Between readiness and the rest.
    pub delay_ms: u64,
    /// Over which clients return.
    pub window_ms: u64,
}

impl Draining {
    /// Whether the node is to take nobody new.
    pub fn has_begun(&self) -> bool {
        lock(&self.progress).stage != Stage::Serving
    }

    /// Takes the wish down; false if there was one before.
    pub fn begin(&self, window_ms: u64) -> bool {
        let mut progress = lock(&self.progress);
        let is_first = progress.stage == Stage::Serving;
        if is_first {
            progress.stage = Stage::Waiting;
            progress.window_ms = window_ms;
        }
        is_first
    }

    /// How far it is, for who asks from outside.
    pub fn tell(&self, node: &RwLock<Option<Node>>) -> Progress {
        self.count(node);
        let progress = *lock(&self.progress);
        *lock(&self.told) = Some((Instant::now(), progress.stage));
        progress
    }

    /// Drains the node and ends it.
    ///
    /// # Errors
    /// A thread has died, or has not ended in time.
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
        // Metrics stay readable meanwhile.
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

    /// Looks how many are left.
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

    /// Whoever watches is told of the end first.
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
