//! Records of one partition on their way to the engine: those that wait, and the number of those
//! that the client has. Values in, values out.
//!
//! A broker reads no further request of a connection before it has answered the last one, and with
//! `acks=all` an answer waits for followers. So further requests of a partition would only wait at
//! the broker, one record in each. Records wait here instead, and go together when the answer has
//! come: that takes about half as long at 1,000 records/s. Besides, librdkafka polls without a
//! pause while a partition has five messages without an answer and others in its queue (2.12,
//! `rd_kafka_toppar_producer_serve`).
//!
//! Invariant: records leave in the order in which they came.

use std::collections::VecDeque;

/// Messages of a partition without an answer at which its further records wait.
const UNANSWERED_MAX: u32 = 1;
/// The size at which a batch ends; a request has room for 1,000,000 bytes.
const BATCH_BYTES_MAX: usize = 512 << 10;
/// Records of a batch; a request has room for 10,000.
const BATCH_RECORDS_MAX: usize = 5_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Sending<T> {
    waiting: VecDeque<Waiting<T>>,
    unanswered: u32,
}

/// A record that waits.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    pub(crate) record: T,
    /// Its size.
    pub(crate) bytes: usize,
    /// The time at which it came.
    pub(crate) since_us: u64,
}

impl<T> Default for Sending<T> {
    fn default() -> Sending<T> {
        Sending { waiting: VecDeque::new(), unanswered: 0 }
    }
}

impl<T> Sending<T> {
    /// Records that wait, and those that the client has.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.unanswered as usize
    }

    /// Records that wait.
    pub(crate) fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Adds a record.
    pub(crate) fn push(&mut self, waiting: Waiting<T>) {
        self.waiting.push_back(waiting);
    }

    /// Takes the records that the client should get now.
    pub(crate) fn take_batch(&mut self) -> Vec<Waiting<T>> {
        if self.unanswered >= UNANSWERED_MAX {
            return Vec::new();
        }
        let mut bytes = 0;
        let fits = |waiting: &&Waiting<T>| {
            let is_begun = bytes < BATCH_BYTES_MAX;
            bytes += waiting.bytes;
            is_begun
        };
        let count = self.waiting.iter().take(BATCH_RECORDS_MAX).take_while(fits).count();
        self.waiting.drain(..count).collect()
    }

    /// Takes the oldest record if it has waited since before that time.
    pub(crate) fn take_overdue(&mut self, before_us: u64) -> Option<T> {
        self.waiting.front().filter(|oldest| oldest.since_us < before_us)?;
        self.waiting.pop_front().map(|oldest| oldest.record)
    }

    /// The client has one more record.
    pub(crate) fn sent(&mut self) {
        self.unanswered += 1;
    }

    /// The client has answered one.
    pub(crate) fn answered(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
    }

    /// The client is gone, with its records.
    pub(crate) fn lost_client(&mut self) {
        self.unanswered = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(sending: &mut Sending<u32>, record: u32, bytes: usize) {
        sending.push(Waiting { record, bytes, since_us: u64::from(record) });
    }

    fn send(sending: &mut Sending<u32>) -> Vec<u32> {
        let batch = sending.take_batch();
        batch.iter().for_each(|_| sending.sent());
        batch.into_iter().map(|waiting| waiting.record).collect()
    }

    #[test]
    fn records_wait_for_answers_and_go_together() {
        let mut sending = Sending::default();
        push(&mut sending, 0, 100);
        assert_eq!(send(&mut sending), [0]);
        (1..4).for_each(|record| push(&mut sending, record, 100));
        assert!(send(&mut sending).is_empty());
        assert_eq!((sending.len(), sending.waiting_count()), (4, 3));
        sending.answered();
        assert_eq!(send(&mut sending), [1, 2, 3]);
        push(&mut sending, 4, 100);
        for _ in 0..2 {
            sending.answered();
            assert!(send(&mut sending).is_empty());
        }
        sending.answered();
        assert_eq!(send(&mut sending), [4]);
    }

    #[test]
    fn a_batch_is_one_request() {
        let mut sending = Sending::default();
        (0..4).for_each(|record| push(&mut sending, record, BATCH_BYTES_MAX / 2));
        assert_eq!(send(&mut sending), [0, 1]);
        sending.lost_client();
        assert_eq!(send(&mut sending), [2, 3]);
        let mut sending = Sending::default();
        (0..6_000).for_each(|record| push(&mut sending, record, 1));
        assert_eq!(send(&mut sending).len(), BATCH_RECORDS_MAX);
        assert!(send(&mut sending).is_empty());
        sending.lost_client();
        assert_eq!(send(&mut sending).len(), 1_000);
        // However large, one goes.
        push(&mut sending, 6_000, 10 * BATCH_BYTES_MAX);
        sending.lost_client();
        assert_eq!(send(&mut sending), [6_000]);
    }

    #[test]
    fn only_the_oldest_is_overdue() {
        let mut sending = Sending::default();
        (3..6).for_each(|record| push(&mut sending, record, 1));
        assert_eq!(sending.take_overdue(3), None);
        assert_eq!((sending.take_overdue(5), sending.take_overdue(5)), (Some(3), Some(4)));
        assert_eq!((sending.take_overdue(5), sending.waiting_count()), (None, 1));
    }
}
