//! The state of one subscription since its creation: complete so far, or its missing messages.
//!
//! Place: beside the events, which report the same facts as they occur. Bounded: only the newest
//! gaps, and counts of all.

use std::collections::VecDeque;
use std::sync::Arc;

use wire::native::{PartitionPosition, Position};

use super::event::GapCause;

/// The maximum number of gaps in a report.
pub const GAPS_KEPT_MAX: usize = 16;

/// The received and missing messages of one subscription, over all its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its topic or filter.
    pub filter: Arc<str>,
    /// The last settled position of a topic; `None` before the first grant, and for filters.
    pub position: Option<Position>,
    /// The last settled position of each partition of a filter.
    pub positions: Vec<PartitionPosition>,
    /// The number of messages passed on.
    pub messages: u64,
    /// The number of gaps of all causes.
    pub gaps: u64,
    /// The newest gaps, at most [`GAPS_KEPT_MAX`], oldest first.
    pub newest_gaps: VecDeque<ReportedGap>,
    /// The number of reported skips.
    pub skips: u64,
}

/// One gap of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedGap {
    /// The partition, for a filter.
    pub partition: Option<u32>,
    /// The last settled position before it, if known.
    pub from: Option<Position>,
    /// Everything up to and including this position is lost or unknown, if known.
    pub to: Option<Position>,
    /// The cause.
    pub cause: GapCause,
}

impl Report {
    pub(super) fn new(filter: Arc<str>) -> Report {
        Report {
            filter,
            position: None,
            positions: Vec::new(),
            messages: 0,
            gaps: 0,
            newest_gaps: VecDeque::new(),
            skips: 0,
        }
    }

    /// Whether nothing is missing: proved for a topic, reported by the server for a filter.
    pub fn is_complete(&self) -> bool {
        self.gaps == 0 && self.skips == 0
    }

    pub(super) fn note_gap(&mut self, gap: ReportedGap) {
        self.gaps += 1;
        if self.newest_gaps.len() == GAPS_KEPT_MAX {
            self.newest_gaps.pop_front();
        }
        self.newest_gaps.push_back(gap);
    }
}
