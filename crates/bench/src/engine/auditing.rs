//! The audit of a worker's streams: stored beside them, and compared with the ledger once it is
//! known.
//!
//! Place: after [`super::subscriptions`]. A run without an audit has no such state.
//!
//! Invariant: a stream that waits for no acknowledged message never waits again, so that the number
//! of waiting streams only falls.

use std::sync::{Arc, OnceLock};

use super::tally::Tally;
use crate::audit::{Audit, Entry, Findings, Ledger};

/// A ledger that may arrive during the run.
pub(super) type SharedLedger = Arc<OnceLock<Ledger>>;

/// The state that the workers of an audited run share.
#[derive(Clone, Debug, Default)]
pub(super) struct AuditShare {
    /// The ledger, which the owner sets once.
    pub(super) ledger: SharedLedger,
    /// Whether the streams began with the oldest stored message.
    pub(super) is_from_first: bool,
}

/// All audits of a worker.
pub(super) struct Auditing {
    share: AuditShare,
    audits: Vec<Audit>,
    /// The ledger's entry of each stream's topic, once it is known.
    entries: Option<Vec<Option<Entry>>>,
    /// Number of streams that still wait for acknowledged messages.
    is_due: Vec<bool>,
}

impl Auditing {
    pub(super) fn new(share: AuditShare) -> Auditing {
        Auditing { share, audits: Vec::new(), entries: None, is_due: Vec::new() }
    }

    /// Adds these streams. Streams that are added after the ledger are compared with it, too.
    pub(super) fn resize(&mut self, streams: usize) {
        self.audits.resize(streams, Audit::default());
    }

    pub(super) fn of(&mut self, stream: usize) -> &mut Audit {
        &mut self.audits[stream]
    }

    /// Updates the number of waiting streams after an event of a stream.
    pub(super) fn settle(&mut self, stream: usize, is_live: bool, tally: &mut Tally) {
        let Some(is_due) = self.is_due.get_mut(stream).filter(|is_due| **is_due) else {
            return;
        };
        let entry =
            self.entries.as_ref().and_then(|entries| *entries.get(stream)?).unwrap_or_default();
        if !self.audits[stream].is_waiting_for(entry, is_live) {
            *is_due = false;
            tally.due -= 1;
        }
    }

    /// Checks for the ledger; `streams` is the final number of streams, `name` returns their
    /// topics.
    pub(super) fn look(
        &mut self,
        streams: usize,
        name: impl Fn(usize) -> String,
        is_live: impl Fn(usize) -> bool,
        tally: &mut Tally,
    ) {
        if self.entries.is_some() {
            return;
        }
        let Some(ledger) = self.share.ledger.get() else {
            return;
        };
        let entries = (0..streams).map(|stream| ledger.entry(&name(stream)));
        self.entries = Some(entries.collect());
        self.is_due = vec![true; streams];
        self.audits.resize(streams.max(self.audits.len()), Audit::default());
        tally.due += streams as i64;
        tally.judging += 1;
        for stream in 0..streams {
            self.settle(stream, is_live(stream), tally);
        }
    }

    /// All results.
    pub(super) fn findings(&self, name: impl Fn(usize) -> String) -> Findings {
        let ledger = self.share.ledger.get();
        let mut findings = Findings {
            ledger_acknowledged: ledger.map(Ledger::acknowledged),
            ..Findings::default()
        };
        for (stream, audit) in self.audits.iter().enumerate() {
            let entry = ledger.and_then(|ledger| ledger.entry(&name(stream)));
            findings.add(|| name(stream), audit, entry, self.share.is_from_first);
        }
        findings
    }
}
