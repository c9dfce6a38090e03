//! Handing a log's worker to the next process: what waits goes along, and the log itself stays where it is.
//!
//! Invariants: while its node is handed over a worker makes durable what homes have sent, and does nothing else; so in the end
//! no append waits. Reads that wait are handed over and served by the next process, each once.

use super::{HomeLetters, LogTime, LogWorker};
use crate::age_clock::AgeClock;
use crate::logs::LogStatistics;
use crate::timing::UNTIMED;
use broker::disk::{DiskQuery, Token};
use broker::mail::{HomeId, PartitionId};
use broker::settings::Settings;
use log::store::{Disk, HandedLog, Store, StoreError};
use std::collections::VecDeque;
use stdx::handing::{Hand, Input, Layout};

/// What a worker hands over beside its log: whom it refuses, its clock, the reads that wait, and what it has counted.
type Known =
    (Vec<Option<u32>>, AgeClock, VecDeque<(HomeId, Token, PartitionId, DiskQuery)>, LogStatistics);

/// Says what is handed over.
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

/// Why a worker was not handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandOverError {
    /// Publications wait that are not on disk.
    Busy,
    /// The log takes nothing at present.
    Unavailable,
    /// It could not be closed.
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

/// A worker's state as it came, before its log is opened.
#[derive(Debug)]
pub struct HandedWorker {
    /// What the log is.
    pub log: HandedLog,
    known: Known,
}

impl HandedWorker {
    /// None if the bytes are not one.
    pub fn take(input: &mut Input<'_>) -> Option<HandedWorker> {
        let (log, known) = Hand::take(input)?;
        Some(HandedWorker { log, known })
    }
}

impl<D: Disk> LogWorker<D> {
    /// One batch of what waits, and nothing else. True if more waits.
    pub fn frozen_turn(&mut self, now: &mut dyn FnMut() -> LogTime, out: &mut HomeLetters) -> bool {
        self.committed_since_us = UNTIMED;
        self.commit(now, out);
        !self.appends.is_empty()
    }

    /// Closes the log and appends the whole state. The worker may go on; then `letters` has what its homes have to know.
    ///
    /// # Errors
    /// The log is as it was, but for a segment that has ended; or it takes nothing any more until its disk does.
    pub fn hand_over(
        &mut self,
        out: &mut Vec<u8>,
        letters: &mut HomeLetters,
    ) -> Result<(), HandOverError> {
        if !self.appends.is_empty() {
            return Err(HandOverError::Busy);
        }
        if !self.is_available {
            // What its disk has of the last batch only this process knows.
            return Err(HandOverError::Unavailable);
        }
        let closed = self.store.hand_over();
        self.say_available(self.store.is_available(), letters);
        closed.map_err(HandOverError::Store)?.give(out);
        self.refused.give(out);
        self.ages.give(out);
        self.reads.give(out);
        self.statistics.give(out);
        Ok(())
    }

    /// The worker that was handed over, with its log; `log` is its index in the settings. None if it does not fit them.
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
