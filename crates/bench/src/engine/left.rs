//! The results that workers leave at their end: samples, findings of the audit, acknowledgements.
//!
//! Place: from the protocols, which add their results when they are dropped, to the summary.

use std::sync::{Arc, Mutex, PoisonError};

use crate::audit::{Findings, Ledger};
use crate::statistics::Sample;

/// The results of all workers.
#[derive(Debug, Default)]
pub(super) struct WorkerResults {
    /// Latencies of the sampled clients, by the client's number.
    pub(super) samples: Vec<(u64, Sample)>,
    /// The findings of the audit, if there was one.
    pub(super) findings: Option<Findings>,
    /// The acknowledged messages, if they were recorded.
    pub(super) ledger: Option<Ledger>,
}

/// Shared by all workers of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedResults(Arc<Mutex<WorkerResults>>);

impl SharedResults {
    /// Reads or changes the results.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut WorkerResults) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
