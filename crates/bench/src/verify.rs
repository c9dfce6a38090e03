//! Order and completeness of every received stream.
//!
//! Place: between the decoded message and the counters. Pure, and small: one [`Stream`] for each topic of each client.
//!
//! Two proofs run side by side. The publisher's sequence number inside the payload works on every transport and
//! against every server; the native protocol adds the server's own proof (`prev` never beyond what was
//! received). A window of 16 tells a message that came late from one that came twice.

use crate::payload::Header;

/// What one client knows of one topic. 32 bytes.
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
    /// The epoch's place in the worker's list of epochs, plus one; 0 while no position is known.
    pub epoch: u16,
}

/// How far back a message is told late from repeated.
const WINDOW: u64 = u16::BITS as u64;

const _: () = assert!(size_of::<Stream>() == 32);

/// Messages that were not as promised, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Faults {
    /// Messages that never came (and were not announced as a gap). A message that comes late takes back what it was
    /// counted as, so that a span may be negative; the whole run never is.
    pub lost: i64,
    /// Messages that came again.
    pub repeated: u64,
    /// Messages that came after a later one.
    pub out_of_order: u64,
    /// Deliveries whose `prev` lay beyond the cursor: the server's own proof failed.
    pub proof_failed: u64,
}

impl Faults {
    /// Whether nothing was wrong.
    pub fn is_clean(&self) -> bool {
        *self == Faults::default()
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &Faults) {
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.out_of_order += other.out_of_order;
        self.proof_failed += other.proof_failed;
    }
}

impl Stream {
    /// A stream of this topic about which nothing is known yet.
    pub fn new(topic_hash: u32) -> Stream {
        Stream {
            topic_hash,
            ..Stream::default()
        }
    }

    /// Judges the next payload by its sequence number and adds to `faults`. Answers whether the message is new.
    ///
    /// The first message of a publisher sets the start: what came before it is not this client's to know.
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
            self.window = if step >= WINDOW {
                1
            } else {
                self.window << step | 1
            };
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

    /// Judges a delivery of the native protocol by the server's own proof and moves the cursor. Answers
    /// whether the message is new.
    pub fn check_proof(&mut self, prev: u64, offset: u64, faults: &mut Faults) -> bool {
        if offset <= self.offset {
            return false; // an overlap of replay and live is dropped, as every client does
        }
        if prev > self.offset {
            faults.proof_failed += 1;
        }
        self.offset = offset;
        true
    }

    /// The server announced that messages up to `to` cannot be had, or are left out on purpose: their
    /// sequence numbers are no loss.
    pub fn announce_gap(&mut self, to: u64) {
        self.offset = self.offset.max(to);
        self.sequence = 0;
    }

    /// Starts anew at `offset`, as after an answer of the server with another epoch.
    pub fn restart(&mut self, offset: u64) {
        self.offset = offset;
        self.sequence = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Clock;

    fn header(publisher: u32, sequence: u64) -> Header {
        Header {
            clock: Clock::Monotonic,
            publisher,
            topic_hash: 0,
            intended_ns: 0,
            sequence,
        }
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
            assert_eq!(
                (faults.lost, faults.repeated, faults.out_of_order),
                wanted,
                "{numbers:?}"
            );
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
        stream.restart(10);
        let mut faults = Faults::default();
        assert!(stream.check_proof(10, 12, &mut faults));
        assert!(stream.check_proof(8, 13, &mut faults)); // prev may be earlier: forgotten_through
        assert!(!stream.check_proof(12, 13, &mut faults));
        assert!(faults.is_clean());
        assert!(stream.check_proof(15, 16, &mut faults));
        assert_eq!(faults.proof_failed, 1);
        stream.announce_gap(20);
        assert!(stream.check_proof(20, 21, &mut faults));
        assert_eq!(faults.proof_failed, 1);
    }

    #[test]
    fn an_announced_gap_is_no_loss() {
        let mut stream = Stream::new(0);
        let mut faults = Faults::default();
        stream.check_sequence(&header(1, 1), &mut faults);
        stream.announce_gap(9);
        stream.check_sequence(&header(1, 9), &mut faults);
        assert!(faults.is_clean());
    }
}
