//! Hand-over of a log's worker to the next process: waiting reads are handed over, and the log's
//! files stay in place.
//!
//! Invariants: during the hand-over of its node, a worker only makes earlier requests of homes
//! durable, so that in the end no append waits. Waiting reads are handed over and served by the
//! next process, each once.

use super::{HomeLetters, LogTime, LogWorker};
use crate::age_clock::AgeClock;
use crate::logs::LogStatistics;
use crate::timing::UNTIMED;
use broker::disk::{DiskQuery, Token};
use broker::mail::HomeId;
use broker::settings::Settings;
use log::store::{Disk, HandedLog, Store, StoreError};
use std::collections::VecDeque;
use stdx::handing::{Hand, Input, Layout};

/// The handed-over state besides the log: refused generations, the clock, the waiting reads, and
/// the counts.
type Known = (Vec<Option<u32>>, AgeClock, VecDeque<(HomeId, Token, u32, DiskQuery)>, LogStatistics);

/// The layout of the hand-over.
pub(crate) fn layout(layout: &mut Layout) {
    <(HandedLog, Known)>::layout(layout);
}

/// Reads a worker's state and writes it again, for the fuzz target.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_again(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut input = Input::new(bytes);
    let HandedWorker { log, known } = HandedWorker::take(&mut input)?;
    let mut out = Vec::new();
    log.give(&mut out);
    known.give(&mut out);
    out.extend_from_slice(&bytes[bytes.len() - input.left()..]);
    Some(out)
}

/// The reason why a worker was not handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandOverError {
    /// Publications wait for the disk.
    Busy,
    /// The log accepts nothing at present.
    Unavailable,
    /// The log could not be closed.
    Store(StoreError),
}

impl std::fmt::Display for HandOverError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HandOverError::Busy => write!(formatter, "publications wait for the log's disk"),
            HandOverError::Unavailable => {
                write!(formatter, "the log does not accept publications at present")
            }
            HandOverError::Store(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for HandOverError {}

/// A worker's received state, before its log is opened.
#[derive(Debug)]
pub struct HandedWorker {
    /// The state of the log.
    pub log: HandedLog,
    known: Known,
}

impl HandedWorker {
    /// Parses the state; none if it is malformed.
    pub fn take(input: &mut Input<'_>) -> Option<HandedWorker> {
        let (log, known) = Hand::take(input)?;
        Some(HandedWorker { log, known })
    }
}

impl<D: Disk> LogWorker<D> {
    /// Writes one batch of the waiting appends, and nothing else. True if more waits.
    pub fn frozen_turn(&mut self, now: &mut dyn FnMut() -> LogTime, out: &mut HomeLetters) -> bool {
        self.committed_since_us = UNTIMED;
        if self.work_on_mirror(now, out) {
            return false;
        }
        self.commit(now, out);
        !self.appends.is_empty()
    }

    /// Closes the log and appends the whole state. The worker may continue; then `letters` contains
    /// the news for its homes.
    ///
    /// # Errors
    /// The log is unchanged, except for an ended segment; or it accepts nothing until its disk
    /// does.
    pub fn hand_over(
        &mut self,
        out: &mut Vec<u8>,
        letters: &mut HomeLetters,
    ) -> Result<(), HandOverError> {
        let waits = self.mirror.as_ref().is_some_and(|mirror| !mirror.waiting.is_empty());
        if waits || !self.appends.is_empty() {
            return Err(HandOverError::Busy);
        }
        if !self.is_available {
            // Only this process knows which part of the last batch is on disk.
            return Err(HandOverError::Unavailable);
        }
        self.write_described().map_err(HandOverError::Store)?;
        let closed = self.store.hand_over();
        self.say_available(self.store.is_available(), letters);
        closed.map_err(HandOverError::Store)?.give(out);
        self.refused.give(out);
        self.ages.give(out);
        self.reads.give(out);
        self.statistics.give(out);
        Ok(())
    }

    /// Creates the handed-over worker with its log; `log` is its index in the settings. None if the
    /// settings do not match.
    pub fn take_over(
        store: Store<D>,
        settings: &Settings,
        log: u16,
        handed: HandedWorker,
    ) -> Option<LogWorker<D>> {
        let mut worker = LogWorker::new(store, settings, log);
        let (refused, ages, reads, statistics) = handed.known;
        if refused.len() != worker.refused.len() {
            return None;
        }
        worker.refused = refused;
        worker.ages = ages;
        worker.reads = reads;
        worker.statistics = statistics;
        Some(worker)
    }
}
