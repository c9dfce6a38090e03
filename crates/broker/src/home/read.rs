//! Pages for subscriptions that replay or lag.
//!
//! The limits of a rule (`history_messages_max`, `history_age_max_ms`) bound what a *start* and a
//! history request may reach back to. A page for a subscription that has begun is bounded by
//! eviction only: a client that stalled has been promised the stream from its position, and takes
//! all of it that the log still holds.
//!
//! Of a log on disk, memory is asked first, and the disk only for what lies before it. A page from
//! the disk is never the last one: the next begins where it ends, and in the end memory says that
//! the subscription has caught up.

use super::Home;
use super::turn::Turn;
use super::work::{Asking, Caller, DiskPage, Question, Step};
use crate::disk::DiskQuery;
use crate::mail::{Gap, GapReason, Page, PageLimits, ReadMode, ReadTopic, SubscriptionKey, ToEdge};
use log::{RecordView, TopicPage};
use stdx::chunk::Slice;

impl Home {
    /// A page for a subscription: records after `after`, never beyond the records that the stream
    /// has dealt with. A released index belongs to a subscription that has gone, and gets no
    /// answer.
    pub(super) fn read(&mut self, from: Caller, reading: ReadTopic, turn: &mut Turn<'_>) -> Step {
        let ReadTopic { index, subscription, after, mode, mut limits, .. } = reading;
        self.statistics.pages_read += 1;
        let edge = usize::from(from.edge);
        let known = self.interests.edges[edge]
            .indexed(index)
            .and_then(|(topic, _)| Some((topic, self.interests.topics.get(topic)?)));
        let Some((topic, entry)) = known else {
            return Step::Nothing;
        };
        let (local, last) = (entry.partition, entry.last());
        let reach = self.partitions[local as usize].reach(last);
        self.settle_stream(from.edge, local, turn);
        let settled = self.partitions[local as usize].stream_position(edge);
        if after > settled {
            // The client knows more than this stream has carried: the edge drops what it has, until
            // the stream has come so far.
            return without_records(subscription, after, None);
        }
        let newest = match mode {
            ReadMode::Replay => None,
            ReadMode::Newest | ReadMode::Skip => {
                self.newest_within(local, topic, last, after, settled)
            }
        };
        if mode == ReadMode::Skip {
            // Evicted or damaged records are left out with the rest, if they may have been the
            // topic's.
            let floor = self.partitions[local as usize].floor();
            let is_evicted = reach > after && (floor > after + 1 || reach > last);
            let skipped = (newest.is_some() || is_evicted).then_some(settled);
            return without_records(subscription, settled, skipped);
        }
        // The page of the newest record is that of all records behind the one before it.
        let begin = newest.map_or(after, |newest| newest - 1);
        if mode == ReadMode::Newest {
            limits.records_max = 1;
        }
        if let Some(through) = self.on_disk_through(topic, begin) {
            let through = through.min(settled);
            let query =
                DiskQuery::Page { topic: self.name_of(topic), after: begin, through, limits };
            let question = Question::Page(reading, through);
            return Step::Ask(Box::new(Asking { local, question, query }));
        }
        let mut records = Vec::new();
        let page = self.page(local, topic, last, begin, limits, &mut records);
        let settled_len = records.partition_point(|record| offset_of(record) <= settled);
        let caught_up = mode == ReadMode::Newest || page.complete || settled_len < records.len();
        records.truncate(settled_len);
        let is_lost = page.first_prev.is_none() && reach > last;
        let missing = gap_between(after, &page, reach, GapReason::Evicted).map(|gap| Gap {
            to: gap.to.min(settled),
            reason: self.reason_of_loss(local, gap.to, is_lost),
            ..gap
        });
        let (gap, skipped) = left_out(mode, missing, &records);
        self.statistics.gaps += u64::from(gap.is_some());
        self.queue.charge(&records);
        let through = if caught_up { settled } else { page.through };
        Step::Done(ToEdge::Page(Page { subscription, gap, skipped, records, through, caught_up }))
    }

    /// The disk has read records in (`reading.after`, `through`]. There was one at `through`, or
    /// memory would not have asked; so a record that is missing now is lost.
    pub(super) fn page_from_disk(
        &mut self,
        local: u32,
        reading: ReadTopic,
        through: u64,
        mut page: DiskPage,
    ) -> Step {
        cut_at_break(&mut page);
        let after = reading.after;
        let to = page.first_prev.unwrap_or(through);
        let missing = (to > after).then(|| Gap {
            from: after,
            to,
            reason: self.reason_of_loss(local, to, page.damaged),
        });
        let (gap, skipped) = left_out(reading.mode, missing, &page.records);
        self.statistics.gaps += u64::from(gap.is_some());
        self.queue.charge(&page.records);
        let through = page.records.last().map_or(through, offset_of);
        Step::Done(ToEdge::Page(Page {
            subscription: reading.subscription,
            gap,
            skipped,
            records: page.records,
            through,
            caught_up: false,
        }))
    }

    /// The topic's newest record after `after` and not beyond `settled`. That of a stream that lags
    /// may have left memory: then the newest that the disk can have, if there is one.
    fn newest_within(
        &self,
        local: u32,
        topic: u32,
        last: u64,
        after: u64,
        settled: u64,
    ) -> Option<u64> {
        let newest = if last <= settled {
            Some(last)
        } else {
            let limits = log::PageLimits { records_max: 1, bytes_max: 0 };
            let log = &self.partitions[local as usize].log;
            let mut records = Vec::new();
            log.read_topic_back(topic, last, settled + 1, limits, &mut records);
            let in_memory = records.first().map(offset_of);
            in_memory.or_else(|| self.on_disk_through(topic, after))
        };
        newest.filter(|&newest| newest > after)
    }

    /// The offset up to which the disk may have records of the topic after `after` that memory has
    /// not; none if it has nothing to add.
    pub(super) fn on_disk_through(&self, topic: u32, after: u64) -> Option<u64> {
        let entry = self.interests.topics.get(topic)?;
        let partition = &self.partitions[entry.partition as usize];
        if !partition.has_disk || after.saturating_add(1) >= partition.oldest() {
            return None;
        }
        let through = self.prev_after(topic, after).unwrap_or(entry.last());
        (through > after && through >= partition.disk_floor).then_some(through)
    }

    /// The reason why records up to `to` are not on the disk.
    pub(super) fn reason_of_loss(&self, local: u32, to: u64, damaged: bool) -> GapReason {
        if damaged && self.partitions[local as usize].keeps(to) {
            GapReason::Damaged
        } else {
            GapReason::Evicted
        }
    }

    pub(super) fn page(
        &self,
        local: u32,
        topic: u32,
        last: u64,
        after: u64,
        limits: PageLimits,
        records: &mut Vec<Slice>,
    ) -> TopicPage {
        let log = &self.partitions[local as usize].log;
        log.read_topic(topic, last, after, log_limits(limits), records)
    }

    /// `prev` of the first record of the topic after `offset` that is in memory.
    pub(super) fn prev_after(&self, topic: u32, offset: u64) -> Option<u64> {
        let entry = self.interests.topics.get(topic)?;
        let limits = PageLimits { records_max: 1, bytes_max: 0 };
        let (local, last) = (entry.partition, entry.last());
        self.page(local, topic, last, offset, limits, &mut Vec::new()).first_prev
    }

    pub(super) fn name_of(&self, topic: u32) -> Slice {
        Slice::copy_of(self.interests.topics.name(topic))
    }
}

/// A page without records, after which the subscription continues with its stream.
fn without_records(subscription: SubscriptionKey, through: u64, skipped: Option<u64>) -> Step {
    let records = Vec::new();
    let page = Page { subscription, gap: None, skipped, records, through, caught_up: true };
    Step::Done(ToEdge::Page(page))
}

/// Records before the first one of a page are left out on purpose if only the newest is wanted.
fn left_out(mode: ReadMode, missing: Option<Gap>, records: &[Slice]) -> (Option<Gap>, Option<u64>) {
    if mode == ReadMode::Newest && !records.is_empty() {
        (None, missing.map(|gap| gap.to))
    } else {
        (missing, None)
    }
}

/// Ends a page before records that are lost between two of it, so that its reader learns of the gap
/// with the next page. True if something was cut off.
pub(super) fn cut_at_break(page: &mut DiskPage) -> bool {
    let follows = |pair: &[Slice]| {
        let (one, two) = (offset_of(&pair[0]), offset_of(&pair[1]));
        let (older, newer) = if one < two { (one, &pair[1]) } else { (two, &pair[0]) };
        RecordView::parse(newer).is_some_and(|newer| newer.prev() <= older)
    };
    let whole = page.records.windows(2).position(|pair| !follows(pair)).map(|place| place + 1);
    if let Some(whole) = whole {
        page.records.truncate(whole);
        page.complete = false;
    }
    whole.is_some()
}

/// The gap between `after` and the first record of a page: up to that one's `prev`, or as far as
/// the topic reaches.
pub(super) fn gap_between(
    after: u64,
    page: &TopicPage,
    reach: u64,
    reason: GapReason,
) -> Option<Gap> {
    let to = page.first_prev.unwrap_or(reach);
    (to > after).then_some(Gap { from: after, to, reason })
}

pub(super) fn log_limits(limits: PageLimits) -> log::PageLimits {
    log::PageLimits {
        records_max: limits.records_max as usize,
        bytes_max: limits.bytes_max as usize,
    }
}

pub(super) fn offset_of(record: &Slice) -> u64 {
    RecordView::parse(record).map_or(0, |record| record.offset())
}
