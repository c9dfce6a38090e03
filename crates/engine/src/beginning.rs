//! The place at which a partition begins: pure.
//!
//! A node serves a log's newest records by age and size. Before them it reads records that only
//! prime the recognition of repetitions: those of twice `once_ms`. So nodes that start at different
//! times agree. Where the age of the first record is not known, the home finds their end: it gets a
//! time that all records before are older than. The engine must keep records for three times
//! `once_ms` at least; if the topic's options say that it keeps them longer, more is served.
//!
//! A node with a mirror begins behind the mirror's end instead ([`follow`]), and reads before it
//! only the records that prime what follows. The home compares the record at the end.
//!
//! A compacted topic is read from its first record, for the retained messages. The node serves it
//! from where compaction has left every record, with those that prime before.

use crate::settings::EngineLog;
use broker::engine::{LineageStart, MirrorEnd, Restart};
use broker::mail::PartitionId;

/// The least memory that a record takes in a home, in bytes: the bound by size reaches at most so
/// many records back.
const RECORD_COST_MIN: u64 = 64;

/// Holes behind the last record of a log (markers of transactions, aborted records), at most.
/// Behind more of them a node begins in a hole, and clients that are at the record get a gap.
const HOLES_MAX: u64 = 64;

/// The questions about a partition that begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Question {
    /// The log's first offset.
    First = 0,
    /// The offset behind its last record.
    End = 1,
    /// The first offset that is served by age.
    Served = 2,
    /// The first offset of the records that prime those.
    Priming = 3,
    /// The first offset within three times the time of repetitions: one is served at least.
    Thrice = 4,
    /// The first offset of the records that prime those behind a mirror's end.
    Following = 5,
}

impl Question {
    pub(crate) const ALL: [Question; 6] = [
        Question::First,
        Question::End,
        Question::Served,
        Question::Priming,
        Question::Thrice,
        Question::Following,
    ];

    /// The age that it asks about, in milliseconds; none if it asks about another thing. `kept_ms`
    /// is that of [`Known`].
    pub(crate) fn age_ms(self, log: &EngineLog, kept_ms: Option<u64>) -> Option<u64> {
        let once = log.once_ms;
        let served = log.age_ms.map_or(u64::MAX, |age| age.max(once));
        let served = if log.is_compacted {
            served.min(whole_ms(log, kept_ms).saturating_sub(once.saturating_mul(2)))
        } else {
            served
        };
        match self {
            Question::First | Question::End | Question::Following => None,
            Question::Served => Some(served),
            Question::Priming => Some(served.saturating_add(once.saturating_mul(2))),
            Question::Thrice => Some(kept_ms_min(log)),
        }
    }
}

/// The least time for which the engine keeps records, in milliseconds.
pub(crate) fn kept_ms_min(log: &EngineLog) -> u64 {
    log.once_ms.saturating_mul(3)
}

/// The least time for which the engine may compact no record, in milliseconds: that for which it
/// would keep records, and the time that a node has to read them.
pub(crate) fn lag_ms_min(log: &EngineLog) -> u64 {
    log.once_ms.saturating_mul(4)
}

/// The age up to which a compacted topic has every record, also at the end of the reading, in
/// milliseconds.
fn whole_ms(log: &EngineLog, lag_ms: Option<u64>) -> u64 {
    lag_ms.unwrap_or(0).max(lag_ms_min(log)) - log.once_ms
}

/// The time for which the engine may compact no record so that a node that begins serves all that
/// it should, in milliseconds.
pub(crate) fn lag_ms_wanted(log: &EngineLog) -> u64 {
    let served_ms = log.age_ms.map_or(lag_ms_min(log), |_| kept_ms_wanted(log));
    served_ms.saturating_add(log.once_ms).max(lag_ms_min(log))
}

/// The time for which the engine must keep records so that a node that begins serves all that it
/// should, in milliseconds.
pub(crate) fn kept_ms_wanted(log: &EngineLog) -> u64 {
    let served_ms = log.age_ms.map_or(u64::MAX, |age| age.max(log.once_ms));
    served_ms.saturating_add(log.once_ms.saturating_mul(2))
}

/// The time from which on a compacted partition that begins must meet every record, in milliseconds
/// since 1970. One without records has none to miss before the question about its end.
pub(crate) fn whole_from_ms(restart: &Restart, asked_ms: u64) -> u64 {
    if restart.head <= restart.after { asked_ms } else { restart.complete_from_ms }
}

/// An offset, and the lineage of its record. None: no record is as late.
pub(crate) type Found = Option<(u64, Option<u32>)>;

/// The knowledge of a topic and of the time when a partition begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// The upper half of epochs.
    pub topic_id: u32,
    /// The time of the questions, in milliseconds since 1970.
    pub asked_ms: u64,
    /// The time for which the engine keeps records, in milliseconds, if the topic's options say so:
    /// all of them, of a compacted topic.
    pub kept_ms: Option<u64>,
}

/// The begin of a partition, from the answers in the order of [`Question::ALL`].
pub(crate) fn begin(
    log: &EngineLog,
    partition: PartitionId,
    known: Known,
    answers: [Found; 6],
) -> Restart {
    let offset = |question: Question| answers[question as usize].map(|(offset, _)| offset);
    let first = offset(Question::First).unwrap_or(0);
    let end = offset(Question::End).unwrap_or(first).max(first);
    let at = |question| offset(question).unwrap_or(end).clamp(first, end);
    let by_size = log.bytes.map_or(first, |bytes| end.saturating_sub(bytes / RECORD_COST_MIN));
    let priming = at(Question::Priming);
    let start = priming.max(by_size).min(at(Question::Thrice)).clamp(first, end);
    let served = if start == priming { at(Question::Served).max(start) } else { start };
    if log.is_compacted {
        let complete_ms = known.asked_ms.saturating_sub(whole_ms(log, known.kept_ms)).max(1);
        return Restart {
            partition,
            topic_id: known.topic_id,
            lineages: vec![lineage_at(first, &answers)],
            after: first,
            complete_from_ms: if end == 0 { 0 } else { complete_ms },
            primed_through: served,
            follows_mirror: false,
            head: end,
        };
    }
    // The last record is read in any case: positions at the end name it, and have its lineage. The
    // end itself has the lineage of the present leader, which may have taken no record.
    let start = start.min(end.saturating_sub(HOLES_MAX)).max(first);
    Restart {
        partition,
        topic_id: known.topic_id,
        lineages: vec![lineage_at(start, &answers)],
        after: start,
        complete_from_ms: complete_from_ms(log, known, start, first, priming),
        primed_through: served,
        follows_mirror: false,
        head: end,
    }
}

/// The lineage of the record at an offset, or of one before it.
fn lineage_at(start: u64, answers: &[Found; 6]) -> LineageStart {
    let before = answers.iter().flatten().filter(|(offset, _)| *offset <= start);
    let lineage = before.filter_map(|(_, lineage)| *lineage).max().unwrap_or(0);
    LineageStart { lineage, start: start + 1 }
}

/// The time from which on records prime those behind a mirror's end, in milliseconds since 1970.
/// Other brokers' clocks may be a little behind.
pub(crate) fn following_from_ms(log: &EngineLog, mirror: &MirrorEnd) -> u64 {
    mirror.head_ms.saturating_sub(log.once_ms.saturating_mul(2)).saturating_sub(CLOCKS_APART_MS)
}

/// The maximum difference of the brokers' clocks, and of theirs and this machine's, in
/// milliseconds.
pub(crate) const CLOCKS_APART_MS: u64 = 30_000;

/// The begin of a partition behind the end of its mirror, in place of `cold`. None if the mirror's
/// records are of another topic or another lineage, or if they begin later than those of `cold`.
pub(crate) fn follow(
    log: &EngineLog,
    mirror: &MirrorEnd,
    known: Known,
    answers: [Found; 6],
    cold: &Restart,
) -> Option<Restart> {
    let first = answers[Question::First as usize].map_or(0, |(offset, _)| offset);
    // The offset of the mirror's last record in the engine.
    let last = mirror.head.checked_sub(1)?;
    let is_of_lineage = |&(offset, lineage): &(u64, Option<u32>)| {
        let lineage = lineage.unwrap_or(mirror.lineage);
        offset > last || lineage <= mirror.lineage
    };
    let is_there = mirror.topic_id == known.topic_id
        && (first..cold.head).contains(&last)
        && answers.iter().enumerate().all(|(question, found)| {
            question == Question::End as usize || found.as_ref().is_none_or(is_of_lineage)
        });
    let has_more = mirror.floor <= cold.primed_through + 1 || mirror.is_trimmed;
    if !is_there || !has_more || mirror.head <= cold.primed_through {
        return None;
    }
    if log.is_compacted {
        // Behind the mirror's end no record may be missing, nor one that primes those.
        return (following_from_ms(log, mirror) >= cold.complete_from_ms).then(|| Restart {
            primed_through: mirror.head,
            follows_mirror: true,
            ..cold.clone()
        });
    }
    let following = answers[Question::Following as usize].map_or(last, |(offset, _)| offset);
    let start = following.clamp(first, last);
    let complete_from_ms = match start {
        0 => 0,
        start if start > first => following_from_ms(log, mirror).max(1),
        // The engine may have removed some that the window would have.
        _ => known.asked_ms.saturating_sub(kept_ms_min(log)).max(1),
    };
    Some(Restart {
        lineages: vec![lineage_at(start, &answers)],
        after: start,
        complete_from_ms,
        primed_through: mirror.head,
        follows_mirror: true,
        ..cold.clone()
    })
}

/// The time that all records are older than which the engine has removed or the node does not read.
fn complete_from_ms(log: &EngineLog, known: Known, start: u64, first: u64, priming: u64) -> u64 {
    if start == 0 {
        return 0;
    }
    let is_all = start == first && start == priming;
    let age_ms = match known.kept_ms {
        // The node reads all that the engine has kept, by age.
        Some(kept_ms) if is_all => kept_ms.min(kept_ms_wanted(log)),
        _ if start == priming && start > first => kept_ms_wanted(log),
        _ => 0,
    };
    known.asked_ms.saturating_sub(age_ms.max(kept_ms_min(log))).max(1)
}

/// The identity of a topic in 31 bits, never 0. Without one from the engine, of its name.
pub(crate) fn topic_id(id: u128, name: &str) -> u32 {
    let folded = match id {
        0 => stdx::hash::murmur2(name.as_bytes()),
        id => (id >> 96) as u32 ^ (id >> 64) as u32 ^ (id >> 32) as u32 ^ id as u32,
    };
    (folded & 0x7fff_ffff).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::hash::Partitioner;

    fn log(age_ms: Option<u64>, bytes: Option<u64>) -> EngineLog {
        EngineLog {
            topic: "prices".to_owned(),
            topic_prefix: String::new(),
            partitioner: Partitioner::Murmur2,
            foreign: Default::default(),
            age_ms,
            bytes,
            once_ms: 300_000,
            is_compacted: false,
            partitions: Vec::new(),
        }
    }

    /// The begin in a log of a record per millisecond from `first` to `end`, now.
    fn check(log: &EngineLog, first: u64, end: u64, after: u64, primed_through: u64) {
        assert_eq!(begun(log, first, end, None).complete_from_ms > 0, after > 0);
        let restart = begun(log, first, end, None);
        assert_eq!(
            (restart.after, restart.primed_through, restart.head),
            (after, primed_through, end)
        );
    }

    fn begun(log: &EngineLog, first: u64, end: u64, kept_ms: Option<u64>) -> Restart {
        let answer = |question: Question| match question {
            Question::First => Some((first, Some(1))),
            Question::End => Some((end, Some(2))),
            other => {
                let age = other.age_ms(log, kept_ms).unwrap_or(0);
                let offset = end.saturating_sub(age).max(first);
                (offset < end).then_some((offset, Some(2)))
            }
        };
        let known = Known { topic_id: 9, asked_ms: end, kept_ms };
        begin(log, PartitionId(3), known, Question::ALL.map(answer))
    }

    /// Records that a node does not read are older than a time that it knows.
    /// The first record of a partition that was empty comes long after 1970, and follows none that
    /// compaction could have removed.
    #[test]
    fn an_empty_partition_is_whole_from_its_beginning() {
        let restart = |head| Restart {
            partition: PartitionId(0),
            topic_id: 1,
            lineages: Vec::new(),
            after: 5,
            complete_from_ms: 70,
            primed_through: 5,
            follows_mirror: false,
            head,
        };
        assert_eq!(whole_from_ms(&restart(5), 9_000), 9_000);
        assert_eq!(whole_from_ms(&restart(6), 9_000), 70);
    }

    #[test]
    fn a_node_knows_how_far_back_it_reads() {
        let check = |log: EngineLog, first, kept_ms, expected| {
            let restart = begun(&log, first, 9_000_000, kept_ms);
            assert_eq!(restart.complete_from_ms, expected, "{log:?}, from {first}, {kept_ms:?}");
        };
        // It leaves older records out: by age, or at least those of fifteen minutes follow.
        check(log(Some(3_600_000), None), 7, None, 4_800_000);
        check(log(None, Some(64_000_000)), 7, Some(u64::MAX), 8_100_000);
        // The log begins there. Its topic keeps records for fifteen minutes at least.
        check(log(Some(3_600_000), None), 8_900_000, None, 8_100_000);
        check(log(Some(3_600_000), None), 8_900_000, Some(2_000_000), 7_000_000);
        check(log(Some(3_600_000), None), 8_900_000, Some(u64::MAX), 4_800_000);
        check(log(Some(3_600_000), None), 8_900_000, Some(60_000), 8_100_000);
        // There were none before.
        check(log(Some(3_600_000), None), 0, None, 4_800_000);
        check(log(None, None), 0, None, 0);
    }

    #[test]
    fn a_partition_begins_as_far_back_as_it_serves_and_primes() {
        // By age: the node serves an hour; the ten minutes before it prime the window.
        check(&log(Some(3_600_000), None), 0, 9_000_000, 4_800_000, 5_400_000);
        // Not less than the time of repetitions is served, three times that is read.
        check(&log(Some(1_000), None), 0, 9_000_000, 8_100_000, 8_700_000);
        // By size: 64 MB hold a million records. The home decides which records prime the window.
        check(&log(None, Some(64_000_000)), 0, 9_000_000, 8_000_000, 8_000_000);
        // The whole log, if it is short.
        check(&log(Some(3_600_000), None), 100, 5_000, 100, 100);
        check(&log(None, None), 700, 9_000_000, 700, 700);
        check(&log(None, None), 0, 0, 0, 0);
    }

    /// All of a compacted topic is read. It is complete for the time that the engine does not
    /// compact, less that of the reading, and served where that primes.
    #[test]
    fn a_compacted_log_is_read_from_its_first_record() {
        let compacted = |age_ms| EngineLog { is_compacted: true, ..log(age_ms, None) };
        let check = |age_ms, kept_ms, primed_through, complete_from_ms| {
            let restart = begun(&compacted(age_ms), 7, 9_000_000, kept_ms);
            let found = (restart.after, restart.primed_through, restart.complete_from_ms);
            assert_eq!(found, (7, primed_through, complete_from_ms), "{age_ms:?}, {kept_ms:?}");
            assert_eq!(restart.lineages, [LineageStart { lineage: 1, start: 8 }]);
        };
        // The least, also if the topic's options are not known.
        check(Some(3_600_000), None, 8_700_000, 8_100_000);
        check(Some(3_600_000), Some(1_200_000), 8_700_000, 8_100_000);
        // As far as the engine does not compact, and as the node should.
        check(Some(3_600_000), Some(2_000_000), 7_900_000, 7_300_000);
        check(
            Some(3_600_000),
            Some(lag_ms_wanted(&compacted(Some(3_600_000)))),
            5_400_000,
            4_800_000,
        );
        check(Some(600_000), Some(u64::MAX), 8_400_000, 1);
        check(None, Some(2_000_000), 7_900_000, 7_300_000);
        // There was never a record.
        let empty = begun(&compacted(None), 0, 0, None);
        assert_eq!((empty.after, empty.primed_through, empty.complete_from_ms), (0, 0, 0));
    }

    /// A compacted topic is read from its first record with a mirror, too. The mirror is of use
    /// only if all records that prime those behind it are there.
    #[test]
    fn a_mirror_of_a_compacted_log() {
        let log = EngineLog { is_compacted: true, ..log(Some(36_000_000), None) };
        let ends = (0, 90_000_000);
        let restart = followed(&log, ends, 89_000_000, |_| {}).expect("it follows");
        assert_eq!((restart.after, restart.primed_through), (0, 89_000_001));
        assert_eq!((restart.complete_from_ms, restart.follows_mirror), (86_700_000, true));
        assert!(followed(&log, ends, 87_330_000, |_| {}).is_some());
        assert!(followed(&log, ends, 87_329_999, |_| {}).is_none());
    }

    #[test]
    fn slow_logs_are_primed_by_time() {
        // A thousand records in an hour: the last hundred are within three times five minutes.
        let answers = [
            Some((0, Some(1))),
            Some((1_000, Some(4))),
            Some((990, Some(4))),
            Some((900, Some(3))),
            Some((900, Some(3))),
            None,
        ];
        let known = Known { topic_id: 9, asked_ms: 3_600_000, kept_ms: None };
        let restart = begin(&log(Some(1_000), None), PartitionId(0), known, answers);
        let found = (restart.after, restart.primed_through, restart.head);
        assert_eq!(found, (900, 990, 1_000));
        assert_eq!(restart.lineages, [LineageStart { lineage: 3, start: 901 }]);
    }

    /// The last record is old, holes follow, and another leader has been elected since.
    #[test]
    fn the_last_record_of_an_idle_log_is_read() {
        let known = Known { topic_id: 9, asked_ms: 3_600_000, kept_ms: None };
        let answers = [Some((0, Some(1))), Some((1_000, Some(7))), None, None, None, None];
        let restart = begin(&log(Some(1_000), None), PartitionId(0), known, answers);
        let found = (restart.after, restart.primed_through, restart.head);
        assert_eq!(found, (936, 1_000, 1_000));
        assert_eq!(restart.lineages, [LineageStart { lineage: 1, start: 937 }]);
        let answers = [Some((0, Some(1))), Some((10, Some(7))), None, None, None, None];
        let restart = begin(&log(Some(1_000), None), PartitionId(0), known, answers);
        assert_eq!((restart.after, restart.primed_through, restart.head), (0, 10, 10));
        // Its records have expired.
        let answers = [Some((10, Some(7))), Some((10, Some(7))), None, None, None, None];
        let restart = begin(&log(Some(1_000), None), PartitionId(0), known, answers);
        assert_eq!((restart.after, restart.primed_through, restart.head), (10, 10, 10));
    }

    /// A mirror whose newest record is the one at `last` in a log of a record per millisecond, and
    /// the beginning behind it, if there is one.
    fn followed(
        log: &EngineLog,
        (first, end): (u64, u64),
        last: u64,
        change: impl FnOnce(&mut MirrorEnd),
    ) -> Option<Restart> {
        // A compacted topic keeps every record for an hour.
        let kept_ms = log.is_compacted.then_some(3_600_000);
        let mut mirror = MirrorEnd {
            partition: PartitionId(0),
            topic_id: 9,
            floor: 1,
            is_trimmed: false,
            head: last + 1,
            head_ms: last,
            lineage: 2,
        };
        change(&mut mirror);
        let answers = Question::ALL.map(|question| match question {
            Question::First => Some((first, Some(1))),
            Question::End => Some((end, Some(3))),
            Question::Following => Some((following_from_ms(log, &mirror).max(first), Some(2))),
            other => {
                let age = other.age_ms(log, kept_ms).unwrap_or(0);
                let offset = end.saturating_sub(age).max(first);
                (offset < end).then_some((offset, Some(2)))
            }
        });
        let known = Known { topic_id: 9, asked_ms: end, kept_ms };
        let cold = begin(log, PartitionId(3), known, answers);
        follow(log, &mirror, known, answers, &cold)
    }

    #[test]
    fn a_partition_begins_behind_its_mirror() {
        let log = log(Some(36_000_000), None);
        let log = &log;
        // Ten minutes and a half before its newest record prime what follows.
        let restart = followed(log, (0, 90_000_000), 89_000_000, |_| {}).expect("it follows");
        assert_eq!((restart.after, restart.primed_through), (88_370_000, 89_000_001));
        assert_eq!((restart.complete_from_ms, restart.head), (88_370_000, 90_000_000));
        assert!(restart.follows_mirror);
        assert_eq!(restart.lineages, [LineageStart { lineage: 2, start: 88_370_001 }]);
        // The whole log is short.
        let restart = followed(log, (0, 600_000), 599_000, |_| {}).expect("it follows");
        assert_eq!((restart.after, restart.complete_from_ms), (0, 0));
        // The engine has removed records that would prime; it keeps those of fifteen minutes.
        let restart = followed(log, (88_800_000, 90_000_000), 89_000_000, |mirror| {
            mirror.is_trimmed = true;
        });
        let restart = restart.expect("it follows");
        assert_eq!((restart.after, restart.complete_from_ms), (88_800_000, 89_100_000));
    }

    #[test]
    fn a_mirror_that_is_of_no_use_is_not_followed() {
        let log = log(Some(36_000_000), None);
        let is_followed =
            |ends, last, change: fn(&mut MirrorEnd)| followed(&log, ends, last, change).is_some();
        let ends = (0, 90_000_000);
        assert!(is_followed(ends, 89_000_000, |_| {}));
        // Another topic, records that the engine does not have, and another lineage.
        assert!(!is_followed(ends, 89_000_000, |mirror| mirror.topic_id = 8));
        assert!(!is_followed(ends, 90_000_000, |_| {}));
        assert!(!is_followed((89_500_000, 90_000_000), 89_000_000, |_| {}));
        assert!(!is_followed(ends, 89_000_000, |mirror| mirror.lineage = 1));
        // It has less than a start without it serves, and not because it dropped old records.
        assert!(!is_followed(ends, 89_000_000, |mirror| mirror.floor = 60_000_000));
        assert!(is_followed(ends, 89_000_000, |mirror| {
            (mirror.floor, mirror.is_trimmed) = (60_000_000, true);
        }));
        // All of it is older than the served records.
        assert!(!is_followed(ends, 40_000_000, |_| {}));
    }

    #[test]
    fn a_topic_has_an_identity() {
        assert_eq!(topic_id(1 << 96 | 2, "a"), 3);
        assert_eq!(topic_id(u128::MAX, "a"), 1);
        assert_eq!(topic_id(0, "a"), topic_id(0, "a"));
        assert_ne!(topic_id(0, "a"), topic_id(0, "b"));
    }
}
