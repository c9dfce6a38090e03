//! An engine: a log outside of the node that speaks the Kafka protocol, behind the values of
//! `broker::engine`.
//!
//! Place on the path: a home proposes a publication ([`Engine::ask`]); the engine's thread sends it
//! as a record. All records of all partitions come back as the tail, also those of other nodes and
//! of other producers, and go to their homes as letters.
//!
//! One thread runs the `worker`; librdkafka has its own for sockets. Requests and librdkafka's
//! events ring the same bell. The homes' credit bounds the letters: for a home without credit the
//! thread reads nothing, then librdkafka's buffer for it fills, then its partitions leave the
//! fetch, and the engine itself is the buffer.
//!
//! Invariants: letters about a partition are in the engine's order, each offset at most once in a
//! life. A publication is refused only if it surely was not sent. Nothing is passed over in
//! silence: after a loss or a doubt the partition begins anew, with a count and a line in the log.

#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

pub mod admin;
mod beginning;
pub mod control;
mod partition;
mod properties;
mod record;
mod sending;
mod settings;
mod statistics;
mod token;
mod wake;
mod worker;

pub use record::{Foreign, Mapping, Memory, OutRecord, RawRecord, Unroutable};
pub use settings::{
    EngineLog, EnginePartition, EngineSettings, LogLine, LogLines, Login, Resume, Security,
    Severity, TlsSettings, Token, TokenSource,
};
pub use statistics::{EngineStatistics, UnroutableCounts};

use crate::wake::Wake;
use crate::worker::{Shared, Worker};
use broker::engine::{EngineLetter, EngineRequest};
use broker::mail::{HomeId, PartitionId};
use std::fmt;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};

/// A running engine.
#[derive(Debug)]
pub struct Engine {
    commands: Sender<Command>,
    wake: Arc<Wake>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A request to the engine's thread.
#[derive(Debug)]
pub(crate) enum Command {
    Ask(HomeId, EngineRequest),
    Stop,
}

/// The reason why an engine does not start.
#[derive(Debug)]
pub struct EngineError(pub(crate) String);

impl fmt::Display for EngineError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for EngineError {}

impl From<kafka::Error> for EngineError {
    fn from(error: kafka::Error) -> EngineError {
        EngineError(error.text)
    }
}

/// The progress of a partition's tail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionTail {
    /// The partition.
    pub partition: PartitionId,
    /// The offset up to which everything has been read; 0 before the begin.
    pub through: u64,
    /// Records behind it, as far as the engine has told.
    pub lag: u64,
    /// Whether it takes publications.
    pub is_available: bool,
}

impl Engine {
    /// Starts the engine's thread; it connects by itself, as often as it takes. `post` carries
    /// letters to homes, in order; it is called on the engine's thread and must not wait.
    ///
    /// # Errors
    /// A setting is not valid, or the machine has no thread or descriptor left.
    pub fn start(
        settings: EngineSettings,
        post: impl Fn(HomeId, EngineLetter) + Send + 'static,
    ) -> Result<Engine, EngineError> {
        let no_resource = |error: std::io::Error| EngineError(format!("engine: {error}"));
        let wake = Arc::new(Wake::new().map_err(no_resource)?);
        let shared = Arc::new(Shared::default());
        let (commands, received) = channel();
        let worker = Worker::new(settings, post, received, wake.clone(), shared.clone())?;
        let thread = thread::Builder::new().name("engine".to_owned());
        let thread = thread.spawn(move || worker.run()).map_err(no_resource)?;
        Ok(Engine { commands, wake, shared, thread: Some(thread) })
    }

    /// Hands a home's request over. The home bounds its requests: publications by those that
    /// wait, credit by letters.
    pub fn ask(&self, home: HomeId, request: EngineRequest) {
        // The thread ends only in `stop`.
        _ = self.commands.send(Command::Ask(home, request));
        self.wake.ring();
    }

    /// Counts, at most a tenth of a second old.
    pub fn statistics(&self) -> EngineStatistics {
        *self.shared.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tails of all partitions, at most a tenth of a second old.
    pub fn tails(&self) -> Vec<PartitionTail> {
        self.shared.tails.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends what waits, for at most two seconds, and ends the thread. No letter follows.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        _ = self.commands.send(Command::Stop);
        self.wake.ring();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by its own message.
            _ = thread.join();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.end();
    }
}
