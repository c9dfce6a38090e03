//! The audit of a worker's streams: kept beside them, held against the ledger once that is known.
//!
//! Place: behind [`super::subscriptions`]. A run without an audit has none of this.
//!
//! Invariant: a stream that waits for nothing acknowledged any more never waits again, so that the count of those that
//! do only falls.

use std::sync::{Arc, OnceLock};

use super::tally::Tally;
use crate::audit::{Audit, Entry, Findings, Ledger};

/// A ledger that may come while the run goes on.
pub(super) type SharedLedger = Arc<OnceLock<Ledger>>;

/// What the workers of an audited run share.
#[derive(Clone, Debug, Default)]
pub(super) struct AuditShare {
    /// Set once, by the owner.
    pub(super) ledger: SharedLedger,
    /// The streams began with the oldest message that was held.
    pub(super) is_from_first: bool,
}

/// All audits of a worker.
pub(super) struct Auditing {
    share: AuditShare,
    audits: Vec<Audit>,
    /// What was acknowledged on each stream's topic, once that is known.
    entries: Option<Vec<Option<Entry>>>,
    /// The streams that still wait for something acknowledged.
    is_due: Vec<bool>,
}

impl Auditing {
    pub(super) fn new(share: AuditShare) -> Auditing {
        Auditing { share, audits: Vec::new(), entries: None, is_due: Vec::new() }
    }

    /// Makes room for these streams. Those that come behind the ledger are judged by it too.
    pub(super) fn resize(&mut self, streams: usize) {
        self.audits.resize(streams, Audit::default());
    }

    pub(super) fn of(&mut self, stream: usize) -> &mut Audit {
        &mut self.audits[stream]
    }

    /// Something has happened to a stream: it may have been the last that was waited for.
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

    /// Looks whether the ledger has come; `streams` are all that there are to be, `name` their topics.
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

    /// All verdicts.
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
