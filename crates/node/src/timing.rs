//! Durations of turns, mailboxes, and messages from the publisher's socket to the subscribers'
//! sockets.
//!
//! Place: within the reactor's turn, which has two times: the begin and the end of its work. A
//! message costs nothing here. Batches carry stamps between shards ([`Stamps`]), and a batch of
//! letters counts once for all deliveries that it caused, by the earliest stamp of its
//! publications. So a duration is an upper bound, too large by at most a turn.
//!
//! Invariants: only live deliveries count; pages of a replay, and later messages of a stream
//! without credit, have waited for their reader, and do not measure the node. All threads of a
//! node use one clock.

use stdx::Counters;
use stdx::histogram::Histogram;
use stdx::metrics::Metrics;

/// Work above which a turn counts as long.
const LONG_TURN_US: u64 = 10_000;
/// The stamp of unmeasured events.
pub const UNTIMED: u64 = u64::MAX;

/// The stamps of a batch between shards, in microseconds of the node's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamps {
    /// The time at which the mailbox received it.
    pub sent_us: u64,
    /// The begin of the turn that read its earliest publication, or the one that caused it;
    /// [`UNTIMED`] without any.
    pub since_us: u64,
}

/// The measurements of one I/O thread, or of all together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Counters, Metrics)]
pub struct Timings {
    /// Duration of a turn of an I/O thread.
    #[metric("crore_turn_seconds")]
    pub turns: Histogram,
    /// Turns of I/O threads that took more than ten milliseconds.
    #[metric("crore_turns_long_total")]
    pub long_turns: u64,
    /// Time from the sending of a batch to another I/O thread to the turn that receives it.
    #[metric("crore_mailbox_delay_seconds")]
    pub mailboxes: Histogram,
    /// Time from the turn that read a publication to the end of the turn that wrote it to a
    /// subscriber, for each live delivery.
    #[metric("crore_publish_to_write_seconds")]
    pub deliveries: Histogram,
}

/// The measurement of one reactor.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The begin of this turn's work.
    pub began_us: u64,
    /// The earliest publication that the home has processed since its letters were last posted.
    since_us: u64,
    /// Deliveries of this turn, by the stamp of their batch.
    delivered: Vec<(u64, u64)>,
    timings: Timings,
}

impl Watch {
    pub fn new() -> Watch {
        Watch { began_us: 0, since_us: UNTIMED, delivered: Vec::new(), timings: Timings::default() }
    }

    /// Begins the work of a turn.
    pub fn begin(&mut self, now_us: u64) {
        self.began_us = now_us;
    }

    /// Records a batch from another shard.
    pub fn received(&mut self, stamps: Stamps) {
        let waited_us = self.began_us.saturating_sub(stamps.sent_us);
        self.timings.mailboxes.record(waited_us);
    }

    /// Records publications for the home with their earliest start.
    pub fn home_takes(&mut self, since_us: u64) {
        self.since_us = self.since_us.min(since_us);
    }

    /// Records the earliest start of the publications that the home has just processed.
    pub fn since_us(&self) -> u64 {
        self.since_us
    }

    /// Records that the home's letters were posted.
    pub fn posted(&mut self) {
        self.since_us = UNTIMED;
    }

    /// Records that a batch of letters caused this number of live deliveries, which this turn
    /// writes.
    pub fn delivered(&mut self, since_us: u64, count: u64) {
        if count == 0 || since_us == UNTIMED {
            return;
        }
        match self.delivered.last_mut() {
            Some((before_us, before)) if *before_us == since_us => *before += count,
            _ => self.delivered.push((since_us, count)),
        }
    }

    /// Records that everything was written.
    pub fn end(&mut self, now_us: u64) {
        for (since_us, count) in self.delivered.drain(..) {
            let took_us = now_us.saturating_sub(since_us);
            self.timings.deliveries.record_many(took_us, count);
        }
        let took_us = now_us.saturating_sub(self.began_us);
        self.timings.turns.record(took_us);
        self.timings.long_turns += u64::from(took_us >= LONG_TURN_US);
    }

    pub fn timings(&self) -> Timings {
        self.timings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count_at(histogram: &Histogram, bound_us: u64) -> u64 {
        let bucket = histogram.cumulative().find(|(bound, _)| *bound == bound_us);
        bucket.map_or(0, |(_, count)| count)
    }

    #[test]
    fn deliveries_count_by_their_batch() {
        let mut watch = Watch::new();
        watch.begin(1_000);
        watch.delivered(900, 3);
        watch.delivered(900, 4);
        watch.delivered(UNTIMED, 5);
        watch.delivered(1_000, 0);
        watch.delivered(990, 1);
        watch.end(1_010);
        let deliveries = watch.timings().deliveries;
        assert_eq!(deliveries.count(), 8);
        assert_eq!(deliveries.sum_us(), 7 * 110 + 20);
        assert_eq!(count_at(&deliveries, 32), 1);
        // They do not count twice.
        watch.begin(2_000);
        watch.end(2_100);
        assert_eq!(watch.timings().deliveries, deliveries);
        assert_eq!(watch.timings().turns.count(), 2);
    }

    #[test]
    fn letters_of_a_home_are_as_old_as_the_oldest_publication_behind_them() {
        let mut watch = Watch::new();
        watch.begin(5_000);
        assert_eq!(watch.since_us(), UNTIMED);
        for since_us in [4_000, 3_000, 5_000, UNTIMED] {
            watch.home_takes(since_us);
        }
        assert_eq!(watch.since_us(), 3_000);
        watch.posted();
        assert_eq!(watch.since_us(), UNTIMED);
    }

    #[test]
    fn long_turns_are_counted() {
        let mut watch = Watch::new();
        for (began_us, ended_us) in [(0, 9_999), (20_000, 30_000), (40_000, 70_000)] {
            watch.begin(began_us);
            watch.end(ended_us);
        }
        assert_eq!(watch.timings().long_turns, 2);
        assert_eq!(watch.timings().turns.sum_us(), 9_999 + 10_000 + 30_000);
    }

    /// A batch that was sent after the begin of the turn has not waited.
    #[test]
    fn batches_wait_in_mailboxes_until_the_turn() {
        let mut watch = Watch::new();
        watch.begin(1_000);
        for sent_us in [900, 1_001] {
            let since_us = UNTIMED;
            watch.received(Stamps { sent_us, since_us });
        }
        let mailboxes = watch.timings().mailboxes;
        assert_eq!((mailboxes.count(), mailboxes.sum_us()), (2, 100));
        assert_eq!(count_at(&mailboxes, 16), 1);
    }
}
