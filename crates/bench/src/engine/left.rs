//! What workers leave behind when they end: samples, findings of the audit, acknowledgements.
//!
//! Place: from the protocols, which add theirs when they are dropped, to the summary.

use std::sync::{Arc, Mutex, PoisonError};

use crate::audit::{Findings, Ledger};
use crate::statistics::Sample;

/// Of all workers together.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Latencies of the sampled clients, by the client's number.
    pub(super) samples: Vec<(u64, Sample)>,
    /// Of the audit, if there was one.
    pub(super) findings: Option<Findings>,
    /// What publishers were acknowledged, if that was kept.
    pub(super) ledger: Option<Ledger>,
}

/// Shared by all workers of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Estate(Arc<Mutex<Left>>);

impl Estate {
    /// Adds to it, or takes from it.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Left) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
