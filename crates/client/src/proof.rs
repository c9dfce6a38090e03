//! The proof of no loss for one plain topic: the received messages are complete, or the exact gap
//! is known.
//!
//! Place: between a decoded frame and the application. Pure; one [`Proof`] for each subscription to
//! a plain topic.
//!
//! The rule (specified in `spec/protocol.md`, section 6). The cursor is the offset up to which
//! everything is settled: delivered, before the subscription's start, or announced as a gap or as
//! skipped. A message has `prev`: between `prev` and the message the topic has no other record; so
//! the message continues the cursor without a hole if and only if `prev <= cursor`. Offsets are not
//! contiguous, and their distance means nothing.

use wire::native::Position;

use crate::fault::{self, Fault};

/// The state of one topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    cursor: Option<Position>,
    /// The newest offset that the present connection has delivered.
    newest: u64,
    /// Whether the server did not confirm the cursor, and has not yet reported the messages in
    /// between.
    unannounced: Option<Position>,
}

/// The classification of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The next message; none is missing before it.
    Next,
    /// A new message, but the messages after `from` up to and including `to` were neither delivered
    /// nor announced.
    Hole {
        /// The last settled position.
        from: Position,
        /// Everything up to here is unknown.
        to: u64,
    },
    /// A message that was settled before, from an earlier connection or from a replay that overlaps
    /// with live messages; to be dropped.
    Duplicate,
    /// A message after which this connection has already delivered a later one: the server violated
    /// the order. To be dropped.
    OutOfOrder,
}

impl Proof {
    /// The position for a resume: the last settled one, once the server has confirmed one. While a
    /// gap is due, it is the position before the gap, so that a resume from there receives the gap.
    pub fn cursor(&self) -> Option<Position> {
        match self.unannounced {
            Some(before) if !fault::is(Fault::StoresUnprovedCursor) => Some(before),
            _ => self.cursor,
        }
    }

    /// Begins at a position that the application stored in an earlier run.
    pub fn resume_at(position: Position) -> Proof {
        Proof { cursor: Some(position), ..Proof::default() }
    }

    /// Begins a new connection: order is checked anew, the cursor stays.
    pub fn connection_lost(&mut self) {
        self.newest = 0;
        self.cursor = self.cursor();
        self.unannounced = None;
    }

    /// Processes the server's answer to a subscribe: everything up to `through` is settled.
    /// `continued`: the requested cursor is valid, whatever its epoch, and everything after it
    /// follows.
    ///
    /// A first answer sets the cursor. After a resume that is not continued, the cursor moves only
    /// when a gap is announced; a server that moves on without one is detected with the next
    /// message, or by [`Proof::caught_up`].
    pub fn subscribed(&mut self, through: Position, continued: bool) {
        self.newest = 0;
        self.unannounced = None;
        let Some(cursor) = self.cursor else {
            self.cursor = Some(through);
            return;
        };
        if continued && through.offset <= cursor.offset {
            self.cursor = Some(Position { epoch: through.epoch, ..cursor });
            return;
        }
        self.unannounced = Some(cursor);
        if cursor.epoch != through.epoch {
            self.cursor = Some(through);
        }
    }

    /// Classifies a message and moves the cursor.
    pub fn message(&mut self, prev: u64, offset: u64) -> Verdict {
        let Some(cursor) = self.cursor else {
            // Without an answer to the subscribe there is no proof; the proof begins with this
            // message.
            self.cursor = Some(Position { epoch: 0, offset });
            self.newest = offset;
            return Verdict::Next;
        };
        if offset < self.newest {
            return Verdict::OutOfOrder;
        }
        self.newest = offset;
        if offset <= cursor.offset && !fault::is(Fault::KeepsDuplicates) {
            return Verdict::Duplicate;
        }
        self.cursor = Some(Position { offset, ..cursor });
        match self.unannounced.take() {
            Some(from) if from.epoch != cursor.epoch => {
                Verdict::Hole { from, to: prev.max(cursor.offset) }
            }
            _ if prev > cursor.offset && !fault::is(Fault::IgnoresPrev) => {
                Verdict::Hole { from: cursor, to: prev }
            }
            _ => Verdict::Next,
        }
    }

    /// Processes an announced gap up to `to`. The cursor moves there, even if that is lower (a log
    /// that lost data). Returns the last settled position.
    pub fn gap(&mut self, to: Position) -> Option<Position> {
        let from = self.unannounced.take().or(self.cursor);
        self.cursor = Some(to);
        self.newest = 0;
        from
    }

    /// Processes messages after `from` up to `through` that the server skipped intentionally.
    /// Returns a hole before `from`.
    pub fn skipped(&mut self, from: u64, through: u64) -> Option<(Position, u64)> {
        let cursor = self.cursor?;
        let hole = (from > cursor.offset).then_some((cursor, from));
        self.settle(Position { offset: through, ..cursor });
        hole
    }

    /// The frame that was just processed names the low byte of a lineage: the log has lost nothing
    /// up to the cursor since its epoch.
    pub fn advance(&mut self, lineage: Option<u8>) {
        if let (Some(cursor), Some(lineage)) = (&mut self.cursor, lineage) {
            cursor.epoch = advanced(cursor.epoch, lineage);
        }
    }

    /// Whether the server did not continue after the cursor, and a gap or a message that explains
    /// it is still due.
    pub fn is_gap_due(&self) -> bool {
        self.unannounced.is_some()
    }

    /// Processes the end of the replay: everything up to `through` is settled. Returns a hole that
    /// was never announced: its last settled position and its end.
    pub fn caught_up(&mut self, through: u64) -> Option<(Position, u64)> {
        let cursor = self.cursor?;
        let due = self.unannounced.take().filter(|_| !fault::is(Fault::ForgetsDueGap));
        let hole = due.map(|from| (from, through.max(cursor.offset)));
        self.settle(Position { offset: through, ..cursor });
        hole
    }

    fn settle(&mut self, to: Position) {
        let offset = match self.cursor {
            Some(cursor) if cursor.epoch == to.epoch => cursor.offset.max(to.offset),
            _ => to.offset,
        };
        self.cursor = Some(Position { epoch: to.epoch, offset });
    }
}

/// The first epoch from this one on whose low byte is `lineage`. The upper half identifies the log.
pub(crate) fn advanced(epoch: u64, lineage: u8) -> u64 {
    let further = lineage.wrapping_sub(epoch as u8);
    let lower = (epoch as u32).wrapping_add(u32::from(further));
    epoch >> 32 << 32 | u64::from(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(epoch: u64, offset: u64) -> Position {
        Position { epoch, offset }
    }

    #[test]
    fn a_first_answer_sets_the_cursor() {
        let mut proof = Proof::default();
        proof.subscribed(at(1, 10), false);
        assert_eq!(proof.caught_up(10), None);
        assert_eq!(proof.message(10, 12), Verdict::Next);
        assert_eq!(proof.message(3, 20), Verdict::Next, "prev may be older: it is a bound");
        assert_eq!(proof.message(20, 21), Verdict::Next);
        assert_eq!(proof.message(20, 21), Verdict::Duplicate);
        assert_eq!(proof.message(12, 20), Verdict::OutOfOrder);
        assert_eq!(proof.message(25, 30), Verdict::Hole { from: at(1, 21), to: 25 });
        assert_eq!(proof.cursor(), Some(at(1, 30)));
    }

    #[test]
    fn equal_offsets_of_different_epochs_differ() {
        // Not continued: the gap begins at the position of the old epoch.
        let mut proof = Proof::resume_at(at(1, 0));
        proof.subscribed(at(2, 0), false);
        assert!(proof.is_gap_due());
        assert_eq!(proof.gap(at(2, 0)), Some(at(1, 0)));
        assert!(!proof.is_gap_due());
        // The connection ends before the gap: the old position is requested again.
        let mut lost = Proof::resume_at(at(1, 20));
        lost.subscribed(at(2, 3), false);
        assert_eq!(lost.cursor(), Some(at(1, 20)));
        lost.connection_lost();
        assert_eq!(lost.cursor(), Some(at(1, 20)));
        lost.subscribed(at(2, 3), false);
        assert_eq!(lost.gap(at(2, 3)), Some(at(1, 20)));
        assert_eq!(lost.cursor(), Some(at(2, 3)));
        // Continued: the position stayed valid.
        proof.connection_lost();
        proof.subscribed(at(3, 0), true);
        assert!(!proof.is_gap_due());
        assert_eq!(proof.cursor(), Some(at(3, 0)));
        assert_eq!(proof.message(0, 5), Verdict::Next);
        assert_eq!(proof.gap(at(3, 9)), Some(at(3, 5)));
        // A server that claims to continue but begins beyond the cursor is not trusted.
        proof.connection_lost();
        proof.subscribed(at(3, 20), true);
        assert_eq!(proof.caught_up(20), Some((at(3, 9), 20)));
    }

    #[test]
    fn a_resume_drops_duplicates() {
        let mut proof = Proof::resume_at(at(1, 20));
        proof.connection_lost();
        proof.subscribed(at(1, 15), true);
        assert_eq!(proof.message(10, 18), Verdict::Duplicate);
        assert_eq!(proof.message(18, 20), Verdict::Duplicate);
        assert_eq!(proof.message(20, 24), Verdict::Next);
        assert_eq!(proof.caught_up(30), None);
        assert_eq!(proof.cursor(), Some(at(1, 30)));
    }

    #[test]
    fn announced_gaps_settle_messages() {
        let mut proof = Proof::resume_at(at(1, 20));
        proof.subscribed(at(1, 50), false);
        assert_eq!(proof.gap(at(1, 50)), Some(at(1, 20)));
        assert_eq!(proof.message(50, 51), Verdict::Next);
        // Another epoch: the gap begins at the old position.
        proof.connection_lost();
        proof.subscribed(at(2, 0), false);
        assert_eq!(proof.gap(at(2, 0)), Some(at(1, 51)));
        assert_eq!(proof.message(0, 1), Verdict::Next);
        assert_eq!(proof.cursor(), Some(at(2, 1)));
    }

    #[test]
    fn unannounced_gaps_are_found() {
        // The server moved on within the epoch, then sent a message.
        let mut proof = Proof::resume_at(at(1, 20));
        proof.subscribed(at(1, 50), false);
        assert_eq!(proof.message(50, 51), Verdict::Hole { from: at(1, 20), to: 50 });
        // The server moved on, and the topic had no messages there: prev proves it.
        let mut proof = Proof::resume_at(at(1, 20));
        proof.subscribed(at(1, 50), false);
        assert_eq!(proof.message(20, 51), Verdict::Next);
        assert_eq!(proof.caught_up(51), None);
        // The server moved on and sent nothing else.
        let mut proof = Proof::resume_at(at(1, 20));
        proof.subscribed(at(1, 50), false);
        assert_eq!(proof.caught_up(50), Some((at(1, 20), 50)));
        // Another epoch.
        let mut proof = Proof::resume_at(at(1, 20));
        proof.subscribed(at(2, 3), false);
        assert_eq!(proof.message(1, 4), Verdict::Hole { from: at(1, 20), to: 3 });
        // Another epoch under which the position stayed valid.
        let mut proof = Proof::resume_at(at(1, 20));
        proof.subscribed(at(2, 20), true);
        assert_eq!(proof.message(20, 22), Verdict::Next);
        assert_eq!(proof.cursor(), Some(at(2, 22)));
    }

    #[test]
    fn a_lineage_advances_the_epoch() {
        let log = 5 << 32;
        for (epoch, lineage, expected) in [
            (log | 7, 7, log | 7),
            (log | 7, 8, log | 8),
            (log | 7, 6, log | 0x106),
            (log | 0x1ff, 0, log | 0x200),
            (log | 0xffff_ffff, 0, log),
        ] {
            assert_eq!(advanced(epoch, lineage), expected, "{epoch:x} {lineage}");
        }
        let mut proof = Proof::default();
        proof.advance(Some(7));
        assert_eq!(proof.cursor(), None);
        proof.subscribed(at(log | 7, 10), false);
        proof.advance(None);
        assert_eq!(proof.cursor(), Some(at(log | 7, 10)));
        assert_eq!(proof.message(10, 12), Verdict::Next);
        proof.advance(Some(9));
        assert_eq!(proof.cursor(), Some(at(log | 9, 12)));
    }

    #[test]
    fn skipped_messages_are_settled() {
        let mut proof = Proof::default();
        proof.subscribed(at(1, 10), false);
        assert_eq!(proof.skipped(10, 15), None);
        assert_eq!(proof.message(15, 16), Verdict::Next);
        assert_eq!(proof.skipped(20, 25), Some((at(1, 16), 20)));
        assert_eq!(proof.cursor(), Some(at(1, 25)));
    }
}
