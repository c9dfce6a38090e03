//! Order and completeness of every received stream.
//!
//! Place: between the decoded message and the counters. Pure, and small: one [`Stream`] for each
//! topic of each client.
//!
//! Two proofs run side by side. The publisher's sequence number inside the payload works on every
//! transport and against every server. The native protocol adds the server's own proof: `prev` is
//! never beyond the last received offset, and no gap is unannounced after a resume. A window of 16
//! distinguishes a late message from a repeated one.

use crate::payload::Header;
use stdx::Counters;
use wire::native::Beginning;

/// The state of one topic of one client. 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// The hash of the topic's name, as publishers put it into the payload.
    pub topic_hash: u32,
    /// The server's alias for it on this connection, plus one; 0 while unknown.
    pub alias: u32,
    /// The cursor: everything up to this offset was received or is before the subscription.
    pub offset: u64,
    sequence: u64,
    publisher: u32,
    window: u16,
    /// The epoch's place in the worker's list of epochs, plus one (0 while no position is known),
    /// and the flags.
    state: u16,
}

/// Distance within which a late message is distinguished from a repeated one.
const WINDOW: u64 = u16::BITS as u64;

/// Epochs that a worker can tell apart: the bits that the flags leave.
pub const EPOCHS_MAX: usize = EPOCH as usize;

const EPOCH: u16 = 0x1fff;
/// A replay is in progress.
const REPLAYING: u16 = 0x2000;
/// The server began beyond the cursor within the epoch: it owes a gap, or the next message proves
/// that there is none.
const GAP_DUE: u16 = 0x4000;
/// The epoch has changed and the position did not stay valid: the server owes a gap before anything
/// else.
const GAP_DUE_AT_ONCE: u16 = 0x8000;

const _: () = assert!(size_of::<Stream>() == 32);

/// Messages that were not as promised, counted.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Counters, serde::Serialize, serde::Deserialize,
)]
pub struct Faults {
    /// Messages that never came (and were not announced as a gap). A message that comes late takes
    /// back what it was counted as, so that a span may be negative; the whole run never is.
    pub lost: i64,
    /// Messages that came again.
    pub repeated: u64,
    /// Messages that came after a later one.
    pub out_of_order: u64,
    /// Deliveries whose `prev` lay beyond the cursor, and gaps that were due and never announced:
    /// the server's own proof failed.
    pub proof_failed: u64,
}

impl Faults {
    /// Whether nothing was wrong.
    pub fn is_clean(&self) -> bool {
        *self == Faults::default()
    }
}

impl Stream {
    /// A stream of this topic about which nothing is known yet.
    pub fn new(topic_hash: u32) -> Stream {
        Stream { topic_hash, ..Stream::default() }
    }

    /// The epoch's place in the worker's list of epochs, plus one; 0 while no position is known.
    pub fn epoch(&self) -> u16 {
        self.state & EPOCH
    }

    /// Takes the cursor to a position, whatever was known.
    pub fn set_cursor(&mut self, epoch: u16, offset: u64) {
        self.state = self.state & !EPOCH | epoch & EPOCH;
        self.offset = offset;
    }

    /// The subscription holds on this connection.
    pub fn is_subscribed(&self) -> bool {
        self.alias != 0
    }

    /// Whether messages are still those from before the subscription.
    pub fn is_replaying(&self) -> bool {
        self.state & REPLAYING != 0
    }

    /// Nothing is to be replayed: what comes is new.
    pub fn is_live(&self) -> bool {
        self.is_subscribed() && !self.is_replaying()
    }

    /// Whether the server owes a gap before anything else, as the epoch has changed.
    pub fn is_gap_due_at_once(&self) -> bool {
        self.state & GAP_DUE_AT_ONCE != 0
    }

    /// The transport tells of no alias and of no replay.
    pub fn set_live(&mut self) {
        self.alias = 1;
        self.state &= !REPLAYING;
    }

    /// The connection is gone; the cursor stays. Answers whether the server had said that the
    /// position is not valid any more, and the gap itself was still to come: it counts as told.
    pub fn disconnected(&mut self) -> bool {
        let was_due = self.state & GAP_DUE_AT_ONCE != 0;
        self.alias = 0;
        self.state &= EPOCH;
        if was_due {
            self.forgive();
        }
        was_due
    }

    /// The server's answer to a subscription that started at the cursor, or anywhere if there was
    /// none: the rules of `spec/protocol.md`, section 6.
    ///
    /// `epoch` is that of `beginning`, as a number of the table of epochs.
    pub fn subscribed(&mut self, alias: u32, epoch: u16, beginning: &Beginning) {
        let through = beginning.through.offset;
        self.alias = alias.wrapping_add(1);
        let known = self.epoch();
        self.state = epoch & EPOCH;
        if beginning.replaying {
            self.state |= REPLAYING;
        }
        if known == 0 {
            self.offset = through;
        } else if beginning.continued && through <= self.offset {
            // The position has stayed valid, whatever its epoch.
        } else if known == epoch {
            // The cursor stays: `prev` shows missing messages.
            self.state |= GAP_DUE;
        } else {
            self.offset = through;
            self.state |= GAP_DUE_AT_ONCE;
        }
    }

    /// The replay is over; everything up to `through` is settled.
    pub fn caught_up(&mut self, through: u64, faults: &mut Faults) {
        if self.state & (GAP_DUE | GAP_DUE_AT_ONCE) != 0 {
            faults.proof_failed += 1;
        }
        self.state &= EPOCH;
        self.offset = self.offset.max(through);
    }

    /// Judges the next payload by its sequence number and adds to `faults`. Answers whether the
    /// message is new.
    ///
    /// The first message of a publisher sets the start: what came before it is not this client's to
    /// know.
    pub fn check_sequence(&mut self, header: &Header, faults: &mut Faults) -> bool {
        if self.sequence == 0 || self.publisher != header.publisher {
            self.publisher = header.publisher;
            self.sequence = header.sequence;
            self.window = u16::MAX; // nothing before it counts as missing
            return true;
        }
        if header.sequence > self.sequence {
            let step = header.sequence - self.sequence;
            faults.lost = faults.lost.saturating_add_unsigned(step - 1);
            self.window = if step >= WINDOW { 1 } else { self.window << step | 1 };
            self.sequence = header.sequence;
            return true;
        }
        let back = self.sequence - header.sequence;
        if back < WINDOW && self.window >> back & 1 == 0 {
            // It was counted as lost when it was overtaken.
            self.window |= 1 << back;
            faults.lost -= 1;
            faults.out_of_order += 1;
            true
        } else {
            faults.repeated += 1;
            false
        }
    }

    /// Judges a delivery of the native protocol by the server's own proof and moves the cursor.
    /// Answers whether the message is new.
    pub fn check_proof(&mut self, prev: u64, offset: u64, faults: &mut Faults) -> bool {
        let was_due = self.state & GAP_DUE_AT_ONCE != 0;
        self.state &= !(GAP_DUE | GAP_DUE_AT_ONCE);
        if offset <= self.offset {
            faults.proof_failed += u64::from(was_due);
            return false; // an overlap of replay and live is dropped, as every client does
        }
        if was_due || prev > self.offset {
            faults.proof_failed += 1;
        }
        self.offset = offset;
        true
    }

    /// The server reported that messages are not available: the cursor is this position, even if
    /// that is lower than before. Their sequence numbers are no loss.
    pub fn gap(&mut self, epoch: u16, to: u64) {
        self.state &= !(GAP_DUE | GAP_DUE_AT_ONCE);
        self.set_cursor(epoch, to);
        self.forgive();
    }

    /// The server announced that messages in (`from`, `through`] are left out on purpose.
    pub fn skipped(&mut self, from: u64, through: u64, faults: &mut Faults) {
        if from > self.offset {
            faults.proof_failed += 1;
        }
        self.offset = self.offset.max(through);
        self.forgive();
    }

    /// Numbers that are missing before the next message are no loss.
    pub fn forgive(&mut self) {
        self.sequence = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Clock;
    use wire::native::Position;

    fn at(offset: u64, replaying: bool, continued: bool) -> Beginning {
        Beginning { through: Position { epoch: 0, offset }, replaying, continued }
    }

    fn header(publisher: u32, sequence: u64) -> Header {
        Header { clock: Clock::Monotonic, publisher, topic_hash: 0, intended_ns: 0, sequence }
    }

    #[test]
    fn sequences() {
        /// Feeds the numbers and compares lost, repeated, out of order.
        fn check(numbers: &[u64], wanted: (i64, u64, u64)) {
            let mut stream = Stream::new(0);
            let mut faults = Faults::default();
            for number in numbers {
                stream.check_sequence(&header(1, *number), &mut faults);
            }
            assert_eq!((faults.lost, faults.repeated, faults.out_of_order), wanted, "{numbers:?}");
            assert_eq!(faults.is_clean(), wanted == (0, 0, 0));
        }
        check(&[1, 2, 3, 4], (0, 0, 0));
        check(&[7, 8, 9], (0, 0, 0));
        check(&[1, 2, 4, 5], (1, 0, 0));
        check(&[1, 5], (3, 0, 0));
        check(&[1, 100, 101], (98, 0, 0));
        check(&[1, 2, 2, 3], (0, 1, 0));
        check(&[1, 2, 3, 1, 2], (0, 2, 0));
        check(&[1, 3, 2, 4], (0, 0, 1));
        check(&[1, 3, 2, 2, 4], (0, 1, 1));
        check(&[1, 4, 3, 2, 5], (0, 0, 2));
        check(&[5, 4, 6], (0, 1, 0)); // before the first one nothing is known
        check(&[1, 100, 50], (98, 1, 0)); // too late to tell; said as a repeat, and the loss stays
    }

    #[test]
    fn another_publisher_starts_anew() {
        let mut stream = Stream::new(0);
        let mut faults = Faults::default();
        for (publisher, sequence) in [(1, 5), (1, 6), (2, 1), (2, 2)] {
            assert!(stream.check_sequence(&header(publisher, sequence), &mut faults));
        }
        assert!(faults.is_clean());
    }

    #[test]
    fn proof() {
        let mut stream = Stream::new(0);
        let mut faults = Faults::default();
        stream.subscribed(0, 1, &at(10, false, false));
        assert!(stream.check_proof(10, 12, &mut faults));
        assert!(stream.check_proof(8, 13, &mut faults)); // prev may be earlier: forgotten_through
        assert!(!stream.check_proof(12, 13, &mut faults));
        assert!(faults.is_clean());
        assert!(stream.check_proof(15, 16, &mut faults));
        assert_eq!(faults.proof_failed, 1);
        stream.gap(1, 20);
        assert!(stream.check_proof(20, 21, &mut faults));
        assert_eq!(faults.proof_failed, 1);
        stream.skipped(21, 25, &mut faults);
        assert!(stream.check_proof(25, 26, &mut faults));
        assert_eq!(faults.proof_failed, 1);
        stream.skipped(27, 30, &mut faults);
        assert_eq!(faults.proof_failed, 2);
    }

    #[test]
    fn an_announced_gap_is_no_loss() {
        let mut stream = Stream::new(0);
        let mut faults = Faults::default();
        stream.check_sequence(&header(1, 1), &mut faults);
        stream.gap(1, 9);
        stream.check_sequence(&header(1, 9), &mut faults);
        assert!(faults.is_clean());
    }

    /// The possible answers of a server to a resume, and the obligations that follow.
    #[test]
    fn resumes() {
        enum Then {
            Message(u64, u64),
            CaughtUp(u64),
            Gap(u16, u64),
        }
        use Then::{CaughtUp, Gap, Message};
        /// A cursor at 20 in epoch 1; the answer; what follows; failed proofs.
        fn check(epoch: u16, through: (u64, bool), then: &[Then], wanted: u64) {
            let mut stream = Stream::new(0);
            let mut faults = Faults::default();
            stream.subscribed(0, 1, &at(20, false, false));
            stream.disconnected();
            stream.subscribed(0, epoch, &at(through.0, true, through.1));
            assert!(stream.is_replaying() && !stream.is_live());
            for step in then {
                match *step {
                    Message(prev, offset) => {
                        stream.check_proof(prev, offset, &mut faults);
                    }
                    CaughtUp(through) => stream.caught_up(through, &mut faults),
                    Gap(epoch, to) => {
                        stream.gap(epoch, to);
                    }
                }
            }
            assert_eq!(faults.proof_failed, wanted, "{epoch} {through:?}");
        }
        // Continued, in the same epoch and in another.
        check(1, (20, true), &[Message(20, 22), CaughtUp(30)], 0);
        check(1, (20, true), &[CaughtUp(30)], 0);
        check(1, (15, true), &[Message(18, 20), Message(20, 22)], 0);
        check(2, (20, true), &[Message(20, 22), CaughtUp(30)], 0);
        check(2, (20, true), &[CaughtUp(30)], 0);
        check(2, (20, true), &[Message(21, 22)], 1);
        check(1, (50, true), &[CaughtUp(50)], 1);
        // Not continued in the same epoch: a gap is due, or `prev` shows that there is none.
        check(1, (50, false), &[Gap(1, 50), Message(50, 51)], 0);
        check(1, (50, false), &[Message(20, 51), CaughtUp(60)], 0);
        check(1, (50, false), &[Message(50, 51)], 1);
        check(1, (50, false), &[CaughtUp(50)], 1);
        check(1, (20, false), &[CaughtUp(30)], 1);
        // Not continued in another epoch: a gap comes first.
        check(2, (20, false), &[Gap(2, 20), Message(20, 22)], 0);
        check(2, (20, false), &[Message(20, 22), CaughtUp(30)], 1);
        check(2, (3, false), &[Gap(2, 3), Message(3, 4)], 0);
        check(2, (3, false), &[Message(0, 4), Message(4, 5)], 1);
        check(2, (3, false), &[Message(0, 2), Message(2, 4)], 1);
        check(2, (3, false), &[CaughtUp(3)], 1);
        check(2, (0, false), &[Gap(2, 0), Message(0, 1)], 0);
    }

    #[test]
    fn live_and_replaying() {
        let mut stream = Stream::new(0);
        assert!(!stream.is_live());
        stream.subscribed(7, 1, &at(20, false, false));
        assert!(stream.is_live() && stream.is_subscribed());
        assert!(!stream.disconnected());
        assert!(!stream.is_live() && !stream.is_subscribed());
        assert_eq!((stream.epoch(), stream.offset), (1, 20));
        stream.subscribed(7, 1, &at(20, true, false));
        assert!(!stream.is_live());
        stream.caught_up(25, &mut Faults::default());
        assert!(stream.is_live());
        // The server refuses the old position, and the connection ends before the gap is announced.
        stream.subscribed(7, 2, &at(3, true, false));
        assert!(stream.disconnected());
        assert_eq!((stream.epoch(), stream.offset), (2, 3));
        assert!(!stream.disconnected());
    }
}
