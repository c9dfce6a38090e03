//! Pages of a topic's history, forward and in reverse.
//!
//! A rule bounds how far back a history goes. Of a log on disk that may take two questions: where
//! the history begins, and what stands there; each is asked only if memory cannot tell.

use super::Home;
use super::partitions::HomePartition;
use super::read::{cut_at_break, gap_between, log_limits, offset_of};
use super::work::{
    Asked, Asking, BeyondTail, Caller, DiskPage, HistoryQuery, Known, Question, Step,
};
use crate::disk::DiskQuery;
use crate::mail::{Code, Gap, GapReason, HistoryPage, PageLimits, PartitionId, ToEdge};
use crate::position::Standing;
use log::{RecordView, TopicPage};
use stdx::chunk::Slice;

impl Known {
    /// The disk may have dropped all that it was asked about, and memory may have left the
    /// following records to it: then the disk's records are unknown, and it is asked again. Each
    /// question asks about more.
    fn still_says(self, older: Option<u64>) -> Known {
        match self {
            Known::Start { oldest: None, through, .. }
                if older.is_some_and(|older| older > through) =>
            {
                Known::Nothing
            }
            known @ (Known::Nothing | Known::Start { .. } | Known::Page(..)) => known,
        }
    }
}

/// A topic in this home, and where a page of it begins.
#[derive(Clone, Copy)]
struct Place {
    local: u32,
    topic: u32,
    last: u64,
    /// Behind this offset the topic has never had a record.
    reach: u64,
    /// The oldest record that is served; none if none is.
    oldest: Option<u64>,
}

/// The contents of a page.
struct Contents {
    gap: Option<Gap>,
    records: Vec<Slice>,
    more: bool,
}

impl Contents {
    fn first_prev(&self) -> Option<u64> {
        let first = RecordView::parse(self.records.first()?)?;
        Some(first.prev())
    }
}

impl Home {
    pub(super) fn history(
        &mut self,
        from: Caller,
        now_ms: u64,
        query: &HistoryQuery,
        known: Known,
    ) -> Step {
        if self.is_ahead_of_tail(from, query.asked.partition, query.asked.beyond) {
            return Step::BeyondTail(BeyondTail::History(query.asked.clone()));
        }
        if matches!(known, Known::Nothing) {
            self.statistics.histories_read += 1;
        }
        let result = match self.local(query.asked.partition) {
            None => Err(Code::Internal),
            Some(local) => match self.history_page(now_ms, local, query, known) {
                Ok(page) => Ok(page),
                Err(asking) => return Step::Ask(asking),
            },
        };
        if let Ok(page) = &result {
            self.queue.charge(&page.records);
        }
        Step::Done(ToEdge::History { reply: query.asked.reply, result })
    }

    /// A page of a topic's retained message, if there is one. It is in memory, whatever the log.
    pub(super) fn retained_page(
        &self,
        partition: PartitionId,
        topic: &[u8],
    ) -> Result<HistoryPage, Code> {
        let local = self.local(partition).ok_or(Code::Internal)?;
        if self.is_beyond_tail(local, None) {
            return Err(Code::LogUnavailable);
        }
        let topics = &self.interests.topics;
        let topic = topics.find(topic, local).and_then(|topic| topics.get(topic));
        let retained = topic.and_then(|topic| self.retained.get(topic.retained));
        let partition = &self.partitions[local as usize];
        Ok(HistoryPage {
            epoch: partition.lineages.present_epoch(),
            head: partition.log.head(),
            gap: None,
            records: retained.into_iter().cloned().collect(),
            more: false,
            reverse: false,
        })
    }

    fn history_page(
        &self,
        now_ms: u64,
        local: u32,
        query: &HistoryQuery,
        known: Known,
    ) -> Result<HistoryPage, Box<Asking>> {
        let partition = &self.partitions[local as usize];
        let (epoch, head) = (partition.lineages.present_epoch(), partition.log.head());
        let standing = query.asked.beyond.map(|position| partition.standing(position));
        let rewound = rewound(partition, query);
        let passed = query.passed.or(rewound);
        let lost = match standing {
            None | Some(Standing::After(_)) => None,
            Some(Standing::UnknownEpoch | Standing::BeyondHead) if rewound.is_some() => None,
            Some(Standing::UnknownEpoch) => Some(GapReason::UnknownEpoch),
            Some(Standing::BeyondHead) => Some(GapReason::BeyondHead),
        };
        let beyond = match (passed, standing) {
            (Some(passed), _) => Some(passed.to),
            (None, Some(Standing::After(offset))) => Some(offset),
            _ => None,
        };
        let topic = self.interests.topics.find(&query.asked.topic, local);
        let place = topic.and_then(|topic| {
            let last = self.interests.topics.get(topic)?.last();
            Some(Place { local, topic, last, reach: partition.reach(last), oldest: None })
        });
        let contents = match place {
            None => Contents {
                gap: self.gap_of_unknown(local, query.asked.reverse, beyond),
                records: Vec::new(),
                more: false,
            },
            Some(place) if query.asked.reverse => {
                let contents = self.history_back(now_ms, place, query, beyond, known)?;
                // It stands before the page's first record, and so does the gap that the page may
                // have.
                let lost = lost_before(partition.lost_after(place.last), beyond);
                let lost = lost.map(|lost| Gap {
                    from: contents.gap.map_or(lost.from, |gap| gap.from),
                    ..lost
                });
                Contents { gap: lost.or(contents.gap), ..contents }
            }
            Some(place) => self.history_forward(now_ms, place, query, beyond, known)?,
        };
        let gap = match (lost, passed) {
            (Some(reason), _) => {
                let first_prev = contents.first_prev().filter(|_| !query.asked.reverse);
                Some(Gap { from: 0, to: first_prev.unwrap_or(head), reason })
            }
            (None, Some(passed)) => {
                Some(Gap { to: contents.gap.map_or(passed.to, |gap| gap.to), ..passed })
            }
            (None, None) => contents.gap,
        };
        Ok(HistoryPage {
            epoch,
            head,
            gap,
            records: contents.records,
            more: contents.more,
            reverse: query.asked.reverse,
        })
    }

    /// The records that may be lost of a topic without any kept record.
    fn gap_of_unknown(&self, local: u32, reverse: bool, beyond: Option<u64>) -> Option<Gap> {
        let partition = &self.partitions[local as usize];
        let forgotten = partition.forgotten_through;
        let lost = partition.lost_after(forgotten);
        let Some(after) = beyond.filter(|_| !reverse) else {
            return lost_before(lost, beyond);
        };
        let to = partition.reach(forgotten);
        let reason = self.reason_of_start(local, to, lost.is_some());
        (to > after).then_some(Gap { from: after, to, reason })
    }

    fn history_forward(
        &self,
        now_ms: u64,
        mut place: Place,
        query: &HistoryQuery,
        beyond: Option<u64>,
        known: Known,
    ) -> Result<Contents, Box<Asking>> {
        let after = beyond.unwrap_or(0);
        let floor = self.partitions[place.local as usize].disk_floor;
        let known = match known {
            // All that was asked for has been dropped since, and the records after it may have left
            // memory: the history has another beginning. The floor has risen above the question's
            // end, so this is not for ever.
            Known::Page(asked, page) if page.records.is_empty() && asked.through < floor => {
                Known::Nothing
            }
            known @ (Known::Nothing | Known::Start { .. } | Known::Page(..)) => known,
        };
        let served = self.served(now_ms, place.topic, query.asked.rule, u32::MAX);
        let known = known.still_says(served.older);
        let mut damaged = false;
        place.oldest = match &known {
            Known::Start { oldest, damaged: is_damaged, .. } => {
                damaged = *is_damaged;
                at_least(*oldest, served.oldest)
            }
            Known::Page(asked, _) => asked.oldest,
            Known::Nothing => match served.older {
                Some(older) if older > after => {
                    let question = Question::HistoryStart(query.clone(), place.last);
                    let query =
                        self.start_query(now_ms, place.topic, query.asked.rule, u32::MAX, after);
                    return Err(Box::new(Asking { local: place.local, question, query }));
                }
                _ => served.oldest,
            },
        };
        if let Known::Page(asked, page) = known {
            let is_damaged = page.damaged;
            let contents = self.history_from_disk(place, query, beyond, asked, page);
            if !contents.records.is_empty() || !contents.more {
                return Ok(contents);
            }
            let from = query.passed.or(contents.gap).map_or(after, |gap| gap.from);
            return self.history_after(now_ms, place, query, from, (asked.through, is_damaged));
        }
        self.history_from_memory(place, query, beyond, damaged)
    }

    /// The disk's page has nothing but damage, and memory does not have the records that follow it:
    /// a page without a record would not tell its reader where to continue. The next question
    /// begins behind the damage, so this ends.
    fn history_after(
        &self,
        now_ms: u64,
        place: Place,
        query: &HistoryQuery,
        from: u64,
        (through, is_damaged): (u64, bool),
    ) -> Result<Contents, Box<Asking>> {
        let reason = self.reason_of_loss(place.local, through, is_damaged);
        let passed = Gap { from: from.min(through), to: through, reason };
        let query = HistoryQuery { passed: Some(passed), ..query.clone() };
        self.history_forward(now_ms, place, &query, Some(through), Known::Nothing)
    }

    /// The page from memory, unless the disk has older records of it.
    fn history_from_memory(
        &self,
        place: Place,
        query: &HistoryQuery,
        beyond: Option<u64>,
        damaged: bool,
    ) -> Result<Contents, Box<Asking>> {
        let after = beyond.unwrap_or(0);
        let mut records = Vec::new();
        let page = match place.oldest {
            Some(oldest) => {
                let begin = after.max(oldest - 1);
                if let Some(through) = self.on_disk_through(place.topic, begin) {
                    let asked = Asked { oldest: place.oldest, beyond: begin, through, damaged };
                    let disk_query = DiskQuery::Page {
                        topic: query.asked.topic.clone(),
                        after: begin,
                        through,
                        limits: query.asked.limits,
                    };
                    return Err(Box::new(Asking {
                        local: place.local,
                        question: Question::History(query.clone(), asked),
                        query: disk_query,
                    }));
                }
                let Place { local, topic, last, .. } = place;
                self.page(local, topic, last, begin, query.asked.limits, &mut records)
            }
            None => TopicPage { through: after, complete: true, first_prev: None },
        };
        let partition = &self.partitions[place.local as usize];
        let lost = match page.first_prev {
            Some(_) => None,
            None => partition.lost_after(place.last),
        };
        let gap = match beyond {
            None => lost,
            Some(after) => gap_between(after, &page, place.reach, GapReason::Evicted).map(|gap| {
                let is_damaged = damaged || lost.is_some();
                let reason = self.reason_of_start(place.local, gap.to, is_damaged);
                Gap { reason, ..gap }
            }),
        };
        Ok(Contents { gap, records, more: !page.complete })
    }

    /// The disk's page, and what memory has behind it if there is room.
    fn history_from_disk(
        &self,
        place: Place,
        query: &HistoryQuery,
        beyond: Option<u64>,
        asked: Asked,
        mut page: DiskPage,
    ) -> Contents {
        cut_at_break(&mut page);
        let to = page.first_prev.unwrap_or(asked.through);
        let lost = to > asked.beyond;
        let gap = match beyond {
            // A request without a position loses nothing that the rule does not serve.
            None if !(lost && page.damaged) => None,
            beyond => {
                let from = beyond.unwrap_or(asked.beyond);
                let reason = if lost {
                    self.reason_of_loss(place.local, to, page.damaged)
                } else {
                    self.reason_of_start(place.local, to, asked.damaged)
                };
                (to > from).then_some(Gap { from, to, reason })
            }
        };
        let mut records = page.records;
        let reached = records.last().map_or(asked.through, offset_of);
        let bytes: usize = records.iter().map(|record| record.len()).sum();
        let left = PageLimits {
            records_max: query.asked.limits.records_max.saturating_sub(records.len() as u32),
            bytes_max: query.asked.limits.bytes_max.saturating_sub(bytes as u32),
        };
        if page.complete && left.records_max > 0 && left.bytes_max > 0 {
            let Place { local, topic, last, .. } = place;
            let mut behind = Vec::new();
            let next = self.page(local, topic, last, reached, left, &mut behind);
            if next.first_prev.is_some_and(|prev| prev <= reached) {
                records.append(&mut behind);
            }
        }
        let reached = records.last().map_or(asked.through, offset_of);
        Contents { gap, more: reached < place.reach, records }
    }

    fn history_back(
        &self,
        now_ms: u64,
        mut place: Place,
        query: &HistoryQuery,
        beyond: Option<u64>,
        known: Known,
    ) -> Result<Contents, Box<Asking>> {
        let before = beyond.unwrap_or(u64::MAX);
        let known = match known {
            // All that was asked for has been dropped since; memory may still have some of it.
            Known::Page(_, page) if page.records.is_empty() && !page.damaged => {
                Known::Start { oldest: None, through: u64::MAX, damaged: false }
            }
            Known::Page(asked, page) => {
                return Ok(self.history_back_from_disk(place, asked, page));
            }
            known @ (Known::Nothing | Known::Start { .. }) => known,
        };
        let served = self.served(now_ms, place.topic, query.asked.rule, u32::MAX);
        let known = known.still_says(served.older);
        let mut records = Vec::new();
        let log = &self.partitions[place.local as usize].log;
        let page = log.read_topic_back(
            place.topic,
            place.last,
            before,
            log_limits(query.asked.limits),
            &mut records,
        );
        let is_short = page.complete && served.older.is_some();
        let is_start_known = matches!(known, Known::Start { .. });
        place.oldest = match known {
            Known::Start { oldest, .. } => at_least(oldest, served.oldest),
            Known::Nothing | Known::Page(..) if is_short => {
                let question = Question::HistoryStart(query.clone(), place.last);
                let query = self.start_query(now_ms, place.topic, query.asked.rule, u32::MAX, 0);
                return Err(Box::new(Asking { local: place.local, question, query }));
            }
            Known::Nothing | Known::Page(..) => served.oldest,
        };
        let Some(oldest) = place.oldest else {
            return Ok(Contents { gap: None, records: Vec::new(), more: false });
        };
        let in_memory = served.oldest.unwrap_or(u64::MAX);
        if is_short && oldest < in_memory && oldest < before {
            return Err(Box::new(page_back(place, query, before, oldest)));
        }
        records.truncate(records.partition_point(|record| offset_of(record) >= oldest));
        // Unless the disk was asked, memory may not have all that is served.
        let is_exact = is_start_known || served.older.is_none();
        let more = records
            .last()
            .is_some_and(|record| offset_of(record) > oldest || !is_exact && !page.complete);
        Ok(Contents { gap: None, records, more })
    }

    fn history_back_from_disk(&self, place: Place, asked: Asked, mut page: DiskPage) -> Contents {
        let is_cut = cut_at_break(&mut page);
        let oldest = asked.oldest.unwrap_or(0);
        let first = page.records.first().map(offset_of);
        // The disk does not say where in the range it has lost something: before the first record,
        // or behind the last.
        let gap = (page.damaged && !is_cut)
            .then(|| Gap {
                from: first.unwrap_or(oldest.saturating_sub(1)),
                to: asked.beyond.saturating_sub(1),
                reason: GapReason::Damaged,
            })
            .filter(|gap| {
                gap.to > gap.from && gap.to >= self.partitions[place.local as usize].disk_floor
            });
        let more = page.records.last().is_some_and(|record| offset_of(record) > oldest);
        Contents { gap, records: page.records, more }
    }
}

/// The gap behind which a page begins whose position's life has records in the log, and lost those
/// up to the position.
fn rewound(partition: &HomePartition, query: &HistoryQuery) -> Option<Gap> {
    let position = query.asked.beyond.filter(|_| !query.asked.reverse)?;
    let best = partition.lineages.better_of(position, position, partition.log.head());
    let offset = best.position.offset;
    let gap = Gap { from: offset, to: offset, reason: partition.reason_of_rewind(position) };
    best.is_rewound.then_some(gap)
}

/// The question for a page in reverse, down to `oldest`.
fn page_back(place: Place, query: &HistoryQuery, before: u64, oldest: u64) -> Asking {
    let beyond = before.min(place.last.saturating_add(1));
    let asked = Asked { oldest: Some(oldest), beyond, through: 0, damaged: false };
    Asking {
        local: place.local,
        question: Question::History(query.clone(), asked),
        query: DiskQuery::PageBack {
            topic: query.asked.topic.clone(),
            before: beyond,
            oldest,
            limits: query.asked.limits,
        },
    }
}

/// The part of a gap that a page in reverse meets.
fn lost_before(lost: Option<Gap>, before: Option<u64>) -> Option<Gap> {
    let lost = lost?;
    let to = before.map_or(lost.to, |before| lost.to.min(before.saturating_sub(1)));
    (to > lost.from).then_some(Gap { to, ..lost })
}

/// The beginning of a history whose beginnings on disk and in memory are known: memory may still
/// have records that the disk has dropped.
fn at_least(on_disk: Option<u64>, in_memory: Option<u64>) -> Option<u64> {
    match (on_disk, in_memory) {
        (Some(on_disk), Some(in_memory)) => Some(on_disk.min(in_memory)),
        (on_disk, in_memory) => on_disk.or(in_memory),
    }
}
