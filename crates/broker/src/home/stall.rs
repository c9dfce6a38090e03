//! Disks that hang: a log on disk that makes no progress.
//!
//! A call to a disk may take minutes. Requests that wait for it wait apart from everything else
//! (`mail`, `queue`); but they would wait for as long as the disk hangs. So a home measures, for
//! each log on disk, the time since the last answer while requests are under way there. After
//! `log_stall_timeout_ms` the log *stalls*: requests that need its disk are refused with
//! `log_unavailable`, at once, until it answers again.
//!
//! Staged publications are not refused: they may be durable already, and a refused publication must
//! not have happened. They are answered when the disk continues.

use super::Home;
use super::turn::Turn;
use crate::mail::{EdgeId, ToEdge};
use stdx::handing::Hand;

/// The maximum that one look at the clock adds, in milliseconds: a thread that did not run does
/// not make a disk hang.
const STEP_MS_MAX: u64 = 1_000;

/// The silence of a log.
#[derive(Debug, Default, Hand)]
pub(super) struct Silence {
    is_stall: bool,
    /// While something is under way: when that was last examined, in milliseconds of the home's
    /// clock.
    looked_ms: Option<u64>,
    /// The time since anything has come.
    lasts_ms: u64,
}

impl Silence {
    /// Whether it has lasted too long.
    pub fn is_stall(&self) -> bool {
        self.is_stall
    }

    /// Something has come, or nothing is waited for.
    pub fn end(&mut self) {
        self.looked_ms = None;
        self.lasts_ms = 0;
    }

    /// Something has come. True if that ends a stall.
    pub fn broken(&mut self) -> bool {
        self.end();
        std::mem::take(&mut self.is_stall)
    }

    /// Something is waited for. True if that has just become too long.
    pub fn lasts(&mut self, now_ms: u64, max_ms: u64) -> bool {
        let looked_ms = self.looked_ms.replace(now_ms).unwrap_or(now_ms);
        self.lasts_ms += now_ms.saturating_sub(looked_ms).min(STEP_MS_MAX);
        let is_too_long = self.lasts_ms >= max_ms && !self.is_stall;
        self.is_stall |= is_too_long;
        is_too_long
    }

    /// The time to the next look, in milliseconds.
    pub fn left_ms(&self, max_ms: u64) -> u64 {
        max_ms.saturating_sub(self.lasts_ms).min(STEP_MS_MAX)
    }
}

impl Home {
    /// Whether the disk of a log hangs.
    pub(super) fn is_stalled(&self, share: usize) -> bool {
        let disk = self.shares[share].disk.as_ref();
        disk.is_some_and(|disk| disk.silence.is_stall())
            || self.shares[share].mirror.as_ref().is_some_and(|mirror| mirror.is_stalled())
    }

    /// Notes an answer of the log thread: its requests make progress.
    pub(super) fn heard_of(&mut self, share: usize, turn: &mut Turn<'_>) {
        let disk = self.shares.get_mut(share).and_then(|share| share.disk.as_mut());
        let Some(disk) = disk else {
            return;
        };
        if disk.silence.broken() {
            self.report_stalled(share, false, turn);
        }
    }

    /// Looks at all logs on disk.
    pub(super) fn watch_disks(&mut self, turn: &mut Turn<'_>) {
        let max_ms = self.settings.limits.log_stall_timeout_ms.into();
        for share in 0..self.shares.len() {
            let is_asked = self.is_asked(share);
            let Some(disk) = self.shares[share].disk.as_mut() else {
                continue;
            };
            if !is_asked {
                disk.silence.end();
            } else if disk.silence.lasts(self.elapsed.ms, max_ms) {
                self.statistics.logs_stalled += 1;
                self.refuse_parked(share, turn);
                self.report_stalled(share, true, turn);
            }
        }
    }

    /// The time of the next look; milliseconds of the home's clock.
    pub(super) fn next_look_at_disks(&self) -> Option<u64> {
        let is_waited_for = |share: &usize| self.is_asked(*share) && !self.is_stalled(*share);
        let waited_for = (0..self.shares.len()).filter(is_waited_for);
        let limit_ms = u64::from(self.settings.limits.log_stall_timeout_ms);
        let left_ms = |share: usize| {
            let disk = self.shares[share].disk.as_ref();
            limit_ms.saturating_sub(disk.map_or(0, |disk| disk.silence.lasts_ms))
        };
        let soonest_ms = waited_for.map(left_ms).min();
        soonest_ms.map(|left_ms| self.elapsed.ms + left_ms.min(STEP_MS_MAX))
    }

    /// Whether something is under way to a log's disk.
    fn is_asked(&self, share: usize) -> bool {
        let disk = self.shares[share].disk.as_ref();
        disk.is_some_and(|disk| disk.len() > 0 || self.queue.asked_of(share) > 0)
    }

    fn report_stalled(&self, share: usize, is_stalled: bool, turn: &mut Turn<'_>) {
        for edge in (0..self.interests.edges.len() as u16).map(EdgeId) {
            let log = share as u16;
            turn.out.post(edge, ToEdge::Stalled { log, is_stalled });
        }
    }
}
