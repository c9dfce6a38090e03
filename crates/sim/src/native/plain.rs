//! One plain subscription: its cursor by the rules of `spec/protocol.md`, section 6, and their
//! checks.

use super::{Plain, Stage};
use crate::oracle::{Hole, Oracle};
use wire::native::{Beginning, Position, Start};

impl Plain {
    pub(super) fn on_subscribed(
        &mut self,
        oracle: &mut Oracle,
        (partition, instance): (u32, u32),
        beginning: Beginning,
    ) -> Result<(), String> {
        let (epoch, through) = (beginning.through.epoch, beginning.through.offset);
        let replaying = beginning.replaying;
        if self.stage == Stage::Asked {
            self.stage = if replaying { Stage::Replaying } else { Stage::Live };
        }
        self.has_begun = false;
        self.must_announce = false;
        let holds = |at: Position| oracle.holds(partition, at.epoch, at.offset, instance);
        if self.has_cursor {
            return self.on_resumed(oracle, (partition, instance), beginning);
        }
        let gap_due = (!beginning.continued).then_some(through);
        let (from, due) = match self.start {
            Start::Since(position) if !self.is_beyond && holds(position) => {
                (position.offset, gap_due)
            }
            Start::Since(_) if beginning.continued => {
                return Err("continued from a position that is not the node's".into());
            }
            Start::Since(_) => {
                self.must_announce = true;
                (0, gap_due)
            }
            _ if beginning.continued => return Err("continued, and no position was asked".into()),
            _ => (through, None),
        };
        // It may begin with a position of an older epoch.
        self.run.crossed.clear();
        if let Start::Since(position) = self.start
            && !self.must_announce
        {
            (self.run.epoch, self.run.cursor) = (position.epoch, position.offset);
            self.run.continue_in(epoch);
        }
        self.run.epoch = epoch;
        (self.run.from, self.run.cursor, self.gap_due) = (from, from, due);
        if self.start == Start::Live && replaying {
            return Err("a live start is replaying".into());
        }
        if !replaying {
            self.check_retained()?;
        }
        // A snapshot is settled only after CAUGHT_UP.
        self.has_cursor = self.start != Start::Snapshot || !replaying;
        Ok(())
    }

    /// Processes SUBSCRIBED for a subscription with a cursor.
    fn on_resumed(
        &mut self,
        oracle: &mut Oracle,
        (partition, instance): (u32, u32),
        beginning: Beginning,
    ) -> Result<(), String> {
        let (epoch, through) = (beginning.through.epoch, beginning.through.offset);
        let cursor = self.run.cursor;
        let old = Position { epoch: self.run.epoch, offset: cursor };
        if !oracle.holds(partition, old.epoch, old.offset, instance) {
            // Its known state ended with the log's life.
            if beginning.continued {
                return Err(format!("continued from {old:?}, which is not the log's"));
            }
            oracle.keep_run(self.run.begin_anew(epoch));
            (self.gap_due, self.must_announce) = (Some(through), true);
            return Ok(());
        }
        self.run.continue_in(epoch);
        if through < cursor && std::mem::take(&mut self.is_ticketed) {
            // The messages between are repeated, or the gap in them.
            self.again = Some(through);
            return Ok(());
        }
        if through < cursor {
            return Err(format!("asked from {cursor}, and it begins at {through}"));
        }
        if beginning.continued && through > cursor {
            if !std::mem::take(&mut self.may_be_ahead) {
                return Err(format!("continued from {cursor}, and it begins at {through}"));
            }
            // The node had settled more, because the topic has no messages there: that is a
            // claim, and checked as one.
            self.run.cursor = through;
        }
        self.gap_due = (!beginning.continued).then_some(through);
        Ok(())
    }

    pub(super) fn on_message(&mut self, offset: u64, prev: u64) -> Result<(), String> {
        let cursor = self.run.cursor;
        if self.must_announce {
            return Err(format!("a gap over all was due, and {offset} came"));
        }
        if let Some(again) = self.again {
            if offset <= again || prev > again {
                return Err(format!("{offset} with prev {prev} came again, after {again} did"));
            }
            self.again = (offset < cursor).then_some(offset);
            if offset <= cursor {
                return Ok(());
            }
        }
        if offset <= cursor {
            return Err(format!("{offset} was settled before: the cursor is {cursor}"));
        }
        if prev > cursor {
            return Err(format!(
                "{offset} has prev {prev}, and the cursor is {cursor}: not announced"
            ));
        }
        if !self.is_snapshot && self.start == Start::Snapshot && !self.has_cursor {
            self.has_cursor = true;
        }
        self.has_begun = true;
        self.gap_due = None;
        self.run.cursor = offset;
        self.run.seen.push(offset);
        Ok(())
    }

    pub(super) fn on_gap(&mut self, hole: Hole) -> Result<(), String> {
        let cursor = self.run.cursor;
        if let Some(again) = self.again {
            self.again = (hole.to < cursor).then_some(again.max(hole.to));
            if hole.to <= cursor {
                return Ok(());
            }
        }
        if hole.to < cursor {
            return Err(format!("{hole:?} ends before the cursor {cursor}"));
        }
        let is_over_all = matches!(hole.reason, 1 | 2);
        if is_over_all && !std::mem::take(&mut self.must_announce) {
            return Err(format!("{hole:?} for a position that was given by the node"));
        }
        self.has_begun = true;
        self.gap_due = None;
        self.run.holes.push(Hole {
            // The range before it is claimed to be settled, and checked as such.
            from: cursor.max(hole.from),
            ..hole
        });
        self.run.cursor = hole.to;
        Ok(())
    }

    /// Handles the end of the connection or subscription: it is to be requested again.
    pub(super) fn absent(&mut self) {
        self.stage = Stage::Absent;
        self.gap_due = None;
        if self.is_snapshot || !self.has_cursor {
            // Nothing is settled yet: it begins anew.
            self.has_cursor = false;
            self.is_snapshot = false;
            self.run.seen.clear();
            self.run.holes.clear();
        }
    }

    pub(super) fn on_skipped(&mut self, hole: Hole) -> Result<(), String> {
        let cursor = self.run.cursor;
        if self.must_announce || self.gap_due.is_some() {
            return Err(format!("a gap was due, and {hole:?} came"));
        }
        if self.stage == Stage::Replaying || hole.from > cursor || hole.to < cursor {
            return Err(format!("{hole:?} within a replay, or it does not continue {cursor}"));
        }
        self.has_begun = true;
        self.run.take_hole(hole);
        Ok(())
    }

    /// Checks a complete snapshot: the retained message has arrived, if one is known.
    fn check_retained(&mut self) -> Result<(), String> {
        match std::mem::take(&mut self.retained_due) {
            0 => Ok(()),
            due => Err(format!("a snapshot without the retained message at {due}, or a newer one")),
        }
    }

    pub(super) fn on_caught_up(&mut self, through: u64) -> Result<(), String> {
        self.check_retained()?;
        if let Some(due) = self.gap_due {
            return Err(format!("a gap up to {due} was due, and CAUGHT_UP came"));
        }
        if self.stage == Stage::Replaying {
            self.stage = Stage::Live;
        }
        // It may be a lagging stream, behind the messages received before the resume.
        let cursor = self.run.cursor;
        let again = self.again.map(|again| again.max(through));
        self.again = again.filter(|again| *again < cursor);
        if self.is_snapshot {
            // Messages behind the retained one were not requested.
            self.is_snapshot = false;
            self.run.from = through;
            self.run.seen.clear();
        }
        self.has_cursor = true;
        self.run.cursor = self.run.cursor.max(through);
        Ok(())
    }

    /// Handles a refused position with `fail_on_gap`: it continues from the node's position.
    pub(super) fn refused_from(
        &mut self,
        oracle: &mut Oracle,
        (partition, instance): (u32, u32),
        restart: Position,
    ) {
        let mut from = 0;
        if self.has_cursor {
            if oracle.holds(partition, self.run.epoch, self.run.cursor, instance) {
                from = self.run.cursor;
                self.run.continue_in(restart.epoch);
            } else {
                oracle.keep_run(self.run.begin_anew(restart.epoch));
            }
        }
        self.run.epoch = restart.epoch;
        let restart = restart.offset;
        if restart > from {
            self.run.holes.push(Hole { from, to: restart, reason: u8::MAX, told_at: 0 });
        }
        self.run.cursor = restart.max(from);
        self.has_cursor = true;
        self.fail_on_gap = false;
        self.stage = Stage::Absent;
    }
}
