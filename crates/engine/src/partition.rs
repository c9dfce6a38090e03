//! A partition's tail: its progress, and doubts about it. Values in, values out.
//!
//! Offsets here are the engine's, so `next` is also the offset of the last settled message in
//! letters, which count from 1.
//!
//! Invariants: `next` never falls within a life. A record below it is known and dropped, so a
//! partition that is read twice (after a new assignment) brings nothing twice.

use crate::beginning::CLOCKS_APART_MS;
use crate::sending::Sending;
use broker::engine::{EnginePublish, Tail, TailRecord};
use broker::mail::{HomeId, PartitionId};

/// A partition of a log.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) id: PartitionId,
    pub(crate) home: HomeId,
    /// The index of its log.
    pub(crate) log: usize,
    /// Its number in the topic.
    pub(crate) place: u32,
    pub(crate) life: Life,
    /// Whether the engine takes records; what the home knows of it.
    pub(crate) told_available: Option<bool>,
    /// Records on their way to the engine.
    pub(crate) sending: Sending<EnginePublish>,
    /// Not available before this time, because records could not be sent.
    pub(crate) refuses_until_ms: u64,
    /// It begins anew because it was so far behind that compaction may have removed records.
    pub(crate) is_overtaken: bool,
    /// Records that the home does not have yet.
    records: Vec<TailRecord>,
    cost: u32,
}

/// The state of a partition's tail.
#[derive(Debug)]
pub(crate) enum Life {
    /// It has to begin.
    New,
    /// Its records are read.
    Reading(Reading),
}

/// The place of a reader.
#[derive(Debug)]
pub(crate) struct Reading {
    /// The next offset.
    pub(crate) next: u64,
    /// A reader has been given this place. Until then, records come from a reader of the life
    /// before, whose place is another.
    pub(crate) is_assigned: bool,
    /// The lineage of the last record.
    pub(crate) lineage: Option<u32>,
    /// The greatest end that the engine has told.
    pub(crate) end: u64,
    /// The end at the begin.
    pub(crate) head: u64,
    /// The offset up to which the home has everything.
    told: u64,
    /// The time at which the engine had nothing more; none since the last record.
    ended_ms: Option<u64>,
    /// The home must hear of that although there is nothing else to tell.
    is_end_due: bool,
    /// The last time at which something arrived.
    heard_ms: u64,
    doubt: Option<Doubt>,
    /// In a compacted topic: every record before this time was read that compaction may have
    /// removed since, in milliseconds since 1970.
    whole_ms: Option<u64>,
    /// The time since which an open transaction holds the tail, and the offset of its hold.
    held: Option<(u64, u64)>,
}

/// An answer of the engine that contradicts the records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Doubt {
    finding: Finding,
    next: u64,
    since_ms: u64,
}

/// The result of a comparison with the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finding {
    /// Records are there, and do not arrive.
    Silent,
    /// The engine's log is shorter than it was.
    Shorter,
}

/// The treatment of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It is the next.
    New,
    /// It was read before.
    Known,
    /// It cannot follow the last one: the partition has to begin anew.
    Contradiction,
}

impl Partition {
    pub(crate) fn new(id: PartitionId, home: HomeId, log: usize, place: u32) -> Partition {
        Partition {
            id,
            home,
            log,
            place,
            life: Life::New,
            told_available: None,
            sending: Sending::default(),
            refuses_until_ms: 0,
            is_overtaken: false,
            records: Vec::new(),
            cost: 0,
        }
    }

    /// Begins to read.
    pub(crate) fn begin(&mut self, next: u64, lineage: Option<u32>, head: u64, now_ms: u64) {
        self.records.clear();
        self.cost = 0;
        self.life = Life::Reading(Reading {
            next,
            is_assigned: false,
            lineage,
            end: head,
            head,
            told: next,
            ended_ms: None,
            is_end_due: false,
            heard_ms: now_ms,
            doubt: None,
            whole_ms: None,
            held: None,
        });
        self.is_overtaken = false;
    }

    /// The topic is compacted: from this time on, in milliseconds since 1970, no record may be
    /// missing.
    pub(crate) fn is_whole_from(&mut self, unix_ms: u64) {
        if let Some(reading) = self.reading_mut() {
            reading.whole_ms = Some(unix_ms);
        }
    }

    /// The engine's log ended at this offset at this time.
    pub(crate) fn compare_whole(&mut self, end: u64, unix_ms: u64) {
        if let Some(reading) = self.reading_mut().filter(|reading| end <= reading.next) {
            reading.whole_ms = reading.whole_ms.map(|whole_ms| whole_ms.max(unix_ms));
        }
    }

    /// A record of a compacted topic comes. Whether others before it may be missing, because the
    /// tail is further behind than the time for which the engine compacts nothing.
    pub(crate) fn meets_compaction(&mut self, time_ms: u64, unix_ms: u64, lag_ms: u64) -> bool {
        let Some(reading) = self.assigned_mut() else { return false };
        let Some(whole_ms) = reading.whole_ms.filter(|whole_ms| time_ms >= *whole_ms) else {
            // Before that compaction is expected.
            return false;
        };
        reading.whole_ms = Some(time_ms);
        let is_overtaken =
            whole_ms.saturating_add(lag_ms) < unix_ms.saturating_add(CLOCKS_APART_MS);
        self.is_overtaken = is_overtaken;
        is_overtaken
    }

    pub(crate) fn reading(&self) -> Option<&Reading> {
        match &self.life {
            Life::Reading(reading) => Some(reading),
            Life::New => None,
        }
    }

    /// The present reader has the partition's place.
    pub(crate) fn assigned(&mut self) {
        if let Some(reading) = self.reading_mut() {
            reading.is_assigned = true;
        }
    }

    /// The place, for records of the present reader.
    fn assigned_mut(&mut self) -> Option<&mut Reading> {
        self.reading_mut().filter(|reading| reading.is_assigned)
    }

    fn reading_mut(&mut self) -> Option<&mut Reading> {
        match &mut self.life {
            Life::Reading(reading) => Some(reading),
            Life::New => None,
        }
    }

    /// A record was read, message or not.
    pub(crate) fn meet(&mut self, offset: u64, lineage: u32, now_ms: u64) -> Verdict {
        let Some(reading) = self.assigned_mut() else { return Verdict::Known };
        reading.heard_ms = now_ms;
        if offset < reading.next {
            return Verdict::Known;
        }
        if reading.lineage.is_some_and(|last| lineage < last) {
            return Verdict::Contradiction;
        }
        reading.next = offset + 1;
        reading.ended_ms = None;
        reading.lineage = Some(lineage);
        reading.end = reading.end.max(reading.next);
        Verdict::New
    }

    /// Keeps a message for the home, and returns the bytes that wait for it.
    pub(crate) fn keep(&mut self, record: TailRecord) -> u32 {
        self.cost = self.cost.saturating_add(record.cost());
        self.records.push(record);
        self.cost
    }

    /// The cost of the records that wait for the home.
    pub(crate) fn waiting_cost(&self) -> u32 {
        self.cost
    }

    /// Everything below this offset has been read, and there is nothing more.
    pub(crate) fn settle(&mut self, offset: u64, now_ms: u64) {
        if let Some(reading) = self.assigned_mut() {
            reading.heard_ms = now_ms;
            reading.next = reading.next.max(offset);
            reading.end = reading.end.max(reading.next);
            reading.ended_ms = Some(now_ms);
        }
    }

    /// The engine has told the end that a quiet partition had at this time. The home hears of it if
    /// there was nothing more.
    pub(crate) fn compare_end(&mut self, end: u64, asked_ms: u64) {
        if let Some(reading) = self.reading_mut().filter(|reading| end <= reading.next) {
            reading.ended_ms = Some(asked_ms);
            reading.is_end_due = true;
        }
    }

    /// Takes the records that the home does not have yet.
    pub(crate) fn take_tail(&mut self, now_ms: u64) -> Option<Tail> {
        let partition = self.id;
        let reading = self.reading_mut().filter(|it| it.next > it.told || it.is_end_due)?;
        let through = reading.next;
        (reading.told, reading.is_end_due) = (through, false);
        let ended_ago_ms = reading.ended_ms.map(|ended_ms| now_ms.saturating_sub(ended_ms));
        self.cost = 0;
        Some(Tail { partition, records: std::mem::take(&mut self.records), through, ended_ago_ms })
    }

    /// Whether nothing has arrived for `quiet_ms`.
    pub(crate) fn is_quiet(&self, now_ms: u64, quiet_ms: u64) -> bool {
        self.reading().is_some_and(|it| now_ms.saturating_sub(it.heard_ms) >= quiet_ms)
    }

    /// Compares with the end that the engine tells of a quiet partition. A finding must last for
    /// `lasting_ms` without any progress.
    ///
    /// After an election, a leader may know a lower end until its followers are back. So a shorter
    /// log counts only if no record was read: with one, librdkafka asks each new leader whether it
    /// has that record.
    pub(crate) fn examine(&mut self, end: u64, now_ms: u64, lasting_ms: u64) -> Option<Finding> {
        let reading = self.reading_mut()?;
        let next = reading.next;
        let finding = match end {
            end if end > next => Finding::Silent,
            end if end < reading.end && reading.lineage.is_none() => Finding::Shorter,
            _ => {
                reading.doubt = None;
                return None;
            }
        };
        if finding == Finding::Silent {
            reading.end = reading.end.max(end);
        }
        match reading.doubt {
            Some(doubt) if doubt.finding == finding && doubt.next == next => {
                let is_sure = now_ms.saturating_sub(doubt.since_ms) >= lasting_ms;
                if is_sure {
                    reading.doubt = None;
                }
                is_sure.then_some(finding)
            }
            _ => {
                reading.doubt = Some(Doubt { finding, next, since_ms: now_ms });
                None
            }
        }
    }

    /// Compares a quiet partition with its end, records of open transactions included. Returns how
    /// long one has held the tail, in milliseconds.
    pub(crate) fn held_ms(&mut self, fetched_end: u64, now_ms: u64) -> Option<u64> {
        let reading = self.reading_mut()?;
        let next = reading.next;
        let since_ms = match reading.held {
            Some((offset, since_ms)) if offset == next => since_ms,
            _ => now_ms,
        };
        reading.held = (fetched_end > next).then_some((next, since_ms));
        reading.held.map(|_| now_ms - since_ms)
    }

    /// Whether the tail has not reached the end that its begin found.
    pub(crate) fn is_starting(&self) -> bool {
        self.reading().is_none_or(|it| it.next < it.head)
    }

    /// Records of the engine that were not read, as far as it has told.
    pub(crate) fn lag(&self) -> u64 {
        self.reading().map_or(0, |it| it.end - it.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> Partition {
        let mut partition = Partition::new(PartitionId(7), HomeId(0), 0, 7);
        partition.begin(100, Some(3), 110, 0);
        partition.assigned();
        partition
    }

    /// Records of the life before must not move the place: those before them would be lost.
    #[test]
    fn records_of_an_earlier_reader_are_not_taken() {
        let mut partition = Partition::new(PartitionId(7), HomeId(0), 0, 7);
        partition.begin(100, None, 110, 0);
        partition.is_whole_from(0);
        assert_eq!(partition.meet(101, 3, 1), Verdict::Known);
        partition.settle(110, 1);
        assert!(!partition.meets_compaction(5, 9_000_000, 1));
        assert_eq!(partition.reading().map(|it| it.next), Some(100));
        partition.assigned();
        assert_eq!(partition.meet(100, 3, 1), Verdict::New);
        assert_eq!(partition.meet(101, 3, 1), Verdict::New);
    }

    #[test]
    fn records_are_taken_once_and_in_order() {
        let mut partition = begun();
        assert_eq!(partition.meet(100, 3, 1), Verdict::New);
        assert_eq!(partition.meet(100, 3, 1), Verdict::Known);
        assert_eq!(partition.meet(105, 4, 1), Verdict::New, "holes are legal");
        assert_eq!(partition.meet(106, 3, 1), Verdict::Contradiction, "a lineage never falls");
        let tail = partition.take_tail(2).expect("a letter");
        assert_eq!((tail.through, tail.records.len()), (106, 0));
        assert!(partition.take_tail(2).is_none());
        assert!(partition.is_starting());
        partition.settle(110, 2);
        assert_eq!(partition.take_tail(2).map(|tail| tail.through), Some(110));
        assert!(!partition.is_starting());
    }

    #[test]
    fn the_home_hears_that_there_is_nothing_more() {
        let mut partition = begun();
        assert_eq!(partition.meet(100, 3, 1), Verdict::New);
        let tail = partition.take_tail(2).expect("a letter");
        assert_eq!((tail.through, tail.ended_ago_ms), (101, None));
        // With the next letter, not for itself: each batch ends so.
        partition.settle(101, 3);
        assert!(partition.take_tail(4).is_none());
        // A quiet partition: only if the engine has nothing more.
        partition.compare_end(102, 2_500);
        assert!(partition.take_tail(2_600).is_none());
        partition.compare_end(101, 5_000);
        let tail = partition.take_tail(5_200).expect("a letter");
        assert_eq!((tail.through, tail.records.len(), tail.ended_ago_ms), (101, 0, Some(200)));
        assert!(partition.take_tail(5_300).is_none());
        // A record ends that.
        assert_eq!(partition.meet(101, 3, 5_400), Verdict::New);
        assert_eq!(partition.take_tail(5_400).map(|tail| tail.ended_ago_ms), Some(None));
    }

    #[test]
    fn a_silent_tail_is_found_after_a_while() {
        let mut partition = begun();
        partition.settle(110, 0);
        assert!(!partition.is_quiet(1_999, 2_000) && partition.is_quiet(2_000, 2_000));
        assert_eq!(partition.examine(110, 2_000, 2_000), None);
        assert_eq!(partition.examine(112, 4_000, 2_000), None);
        assert_eq!(partition.lag(), 2);
        assert_eq!(partition.examine(112, 5_000, 2_000), None);
        assert_eq!(partition.examine(113, 6_000, 2_000), Some(Finding::Silent));
        // Progress ends the doubt.
        assert_eq!(partition.examine(113, 7_000, 2_000), None);
        assert_eq!(partition.meet(110, 3, 8_000), Verdict::New);
        assert_eq!(partition.examine(113, 9_000, 2_000), None);
        assert_eq!(partition.examine(113, 11_000, 2_000), Some(Finding::Silent));
    }

    /// In a compacted topic, a tail that was away for longer than the lag begins anew: records
    /// between may be gone. One that was only quiet has read everything.
    #[test]
    fn a_tail_that_compaction_may_have_overtaken_is_found() {
        let lag_ms = 1_200_000;
        let mut partition = begun();
        assert!(!partition.meets_compaction(5, 9_000_000, lag_ms), "it is not compacted");
        partition.is_whole_from(1_000_000);
        // Older records of the beginning.
        assert!(!partition.meets_compaction(5, 9_000_000, lag_ms));
        assert!(!partition.meets_compaction(1_500_000, 2_100_000, lag_ms));
        assert!(!partition.meets_compaction(2_600_000, 2_670_000, lag_ms));
        // The engine's clock goes back a little.
        assert!(!partition.meets_compaction(2_599_000, 2_670_000, lag_ms));
        // Quiet for an hour.
        partition.settle(110, 0);
        partition.compare_whole(110, 6_000_000);
        partition.compare_whole(111, 6_100_000);
        assert!(!partition.meets_compaction(6_000_001, 7_000_000, lag_ms));
        assert!(!partition.is_overtaken);
        // Away for twenty minutes.
        assert!(partition.meets_compaction(7_000_000, 7_170_002, lag_ms));
        assert!(partition.is_overtaken);
    }

    #[test]
    fn an_open_transaction_holds_a_tail() {
        let mut partition = begun();
        partition.settle(110, 0);
        assert_eq!(partition.held_ms(110, 1_000), None);
        assert_eq!(partition.held_ms(115, 2_000), Some(0));
        assert_eq!(partition.held_ms(120, 32_000), Some(30_000));
        partition.settle(112, 33_000);
        assert_eq!(partition.held_ms(120, 34_000), Some(0));
        assert_eq!(partition.held_ms(112, 35_000), None);
    }

    #[test]
    fn a_log_that_became_shorter_is_found_after_a_while() {
        let mut partition = begun();
        assert_eq!(partition.examine(90, 2_000, 2_000), None);
        assert_eq!(partition.examine(90, 9_000, 2_000), None, "the lineage decides");
        partition.begin(100, None, 110, 0);
        partition.assigned();
        partition.settle(105, 0);
        assert_eq!(partition.examine(105, 2_000, 2_000), None, "the head was 110");
        assert_eq!(partition.examine(110, 3_000, 2_000), None, "it is there after all");
        assert_eq!(partition.examine(105, 4_000, 2_000), None);
        assert_eq!(partition.examine(104, 6_000, 2_000), Some(Finding::Shorter));
    }
}
