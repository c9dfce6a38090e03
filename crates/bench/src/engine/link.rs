//! One publishing connection: its unanswered publications, and those to send again.
//!
//! Place: under [`super::publishers`]. Pure.
//!
//! Invariants: request numbers are contiguous from `base` on, so that a subtraction finds the entry
//! of an answer. If every message must be delivered exactly once, each is stored until its answer,
//! with producer numbers in the order of the first sending, so that a repeat of all of them is in
//! order, too.

use std::collections::VecDeque;

/// One connection's publications.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) is_open: bool,
    /// Number of the first entry.
    base: u32,
    /// Intended times by request number from `base` on; 0 for answered ones.
    waiting: VecDeque<u64>,
    /// These publications, if they are stored; else empty.
    kept: VecDeque<Kept>,
    /// The last number of the producer.
    producer_sequence: u64,
}

/// A publication that may have to be sent again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// The number of its topic.
    pub(super) topic: u64,
    /// Its sequence number on this topic, as in the payload.
    pub(super) sequence: u64,
    /// Its number among all publications of the producer.
    pub(super) producer_sequence: u64,
    pub(super) payload: Vec<u8>,
}

/// An answered publication.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) intended_ns: u64,
    /// The publication, if it was stored.
    pub(super) kept: Option<Kept>,
}

impl Link {
    /// Whether the connection is usable.
    pub(super) fn open(&mut self) {
        self.is_open = true;
        self.base = self.base.max(1);
    }

    /// Number of publications without an answer, and some answered ones between them.
    pub(super) fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// The producer's next number.
    pub(super) fn next_producer_sequence(&mut self) -> u64 {
        self.producer_sequence += 1;
        self.producer_sequence
    }

    /// Records a sent publication, and stores it if it must not be lost. Returns its request
    /// number.
    pub(super) fn sent(&mut self, intended_ns: u64, kept: Option<Kept>) -> u32 {
        self.waiting.push_back(intended_ns.max(1));
        self.kept.extend(kept);
        self.base.wrapping_add(self.waiting.len() as u32 - 1)
    }

    /// Processes an answer; returns none if no publication waits for it.
    pub(super) fn answered(&mut self, request: u32) -> Option<Answered> {
        let at = request.wrapping_sub(self.base) as usize;
        let intended_ns = self.waiting.get_mut(at).filter(|intended| **intended != 0)?;
        let answered = Answered {
            intended_ns: std::mem::take(intended_ns),
            kept: self.kept.get_mut(at).map(std::mem::take),
        };
        while self.waiting.front() == Some(&0) {
            self.waiting.pop_front();
            self.kept.pop_front();
            self.base = self.base.wrapping_add(1);
        }
        // Request 0 would request no answer, so the numbers skip it.
        if self.waiting.is_empty() && self.base > u32::MAX / 2 {
            self.base = 1;
        }
        Some(answered)
    }

    /// Records the loss of the connection. Returns how many publications will have no answer; none
    /// if they are stored.
    pub(super) fn lost(&mut self) -> usize {
        self.is_open = false;
        self.base = 1;
        let mut is_answered = self.waiting.iter().map(|intended| *intended == 0);
        self.kept.retain(|_| is_answered.next() == Some(false));
        self.waiting.retain(|intended| *intended != 0);
        if self.kept.is_empty() {
            let lost = self.waiting.len();
            self.waiting.clear();
            return lost;
        }
        0
    }

    /// The publications to send again on a new connection, in order, with their request numbers.
    pub(super) fn again(&self) -> impl Iterator<Item = (u32, &Kept)> {
        (self.base..).zip(&self.kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(producer_sequence: u64) -> Option<Kept> {
        Some(Kept { producer_sequence, ..Kept::default() })
    }

    #[test]
    fn answers_in_any_order() {
        let mut link = Link::default();
        link.open();
        let requests: Vec<u32> = (1..=4).map(|at| link.sent(at, None)).collect();
        assert_eq!(requests, [1, 2, 3, 4]);
        for (request, intended) in [(2, Some(2)), (2, None), (9, None), (0, None), (1, Some(1))] {
            let answered = link.answered(request);
            assert_eq!(answered.map(|answered| answered.intended_ns), intended);
        }
        assert_eq!(link.waiting_count(), 2);
        assert_eq!(link.sent(5, None), 5);
        assert_eq!(link.lost(), 3);
        assert_eq!((link.waiting_count(), link.is_open), (0, false));
        assert_eq!(link.sent(6, None), 1);
    }

    #[test]
    fn what_is_kept_is_sent_again() {
        let mut link = Link::default();
        link.open();
        for at in 1..=5 {
            let number = link.next_producer_sequence();
            assert_eq!(number, at);
            link.sent(at, kept(number));
        }
        for request in [1, 3] {
            let answered = link.answered(request).unwrap();
            assert_eq!(answered.kept, kept(u64::from(request)));
        }
        assert_eq!(link.lost(), 0);
        link.open();
        let again: Vec<_> =
            link.again().map(|(request, kept)| (request, kept.producer_sequence)).collect();
        assert_eq!(again, [(1, 2), (2, 4), (3, 5)]);
        assert_eq!(link.sent(6, kept(6)), 4);
        assert_eq!(link.answered(2).unwrap().kept, kept(4));
        assert_eq!(link.answered(2).map(|answered| answered.intended_ns), None);
    }
}
