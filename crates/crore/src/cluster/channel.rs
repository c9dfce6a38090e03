//! Values between the follower and the rest of the process.

use super::state::ClusterState;
use super::topic::Letter;
use entitlement::revoking::Change;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A message to the follower.
#[derive(Debug)]
pub enum Order {
    /// A message of the topic's reader.
    Letter(Letter),
    /// Tell the other nodes of a revocation, and answer when the topic has it.
    Tell {
        /// The revocation, or its end.
        change: Change,
        /// The answer.
        reply: Sender<()>,
    },
    /// Report that the node leaves the cluster, answer, and end.
    Leave {
        /// The answer.
        reply: Sender<()>,
    },
}

/// The follower's knowledge, for other threads.
#[derive(Debug)]
pub struct Shared {
    /// The nodes and logs.
    pub state: Mutex<ClusterState>,
    /// The last time at which this node has read its own report.
    pub heard: Mutex<Instant>,
}

impl Shared {
    /// The nodes and logs.
    pub fn state(&self) -> MutexGuard<'_, ClusterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This node has read its own report.
    pub fn heard(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Time since this node has read its own report.
    pub fn silence(&self) -> Duration {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}
