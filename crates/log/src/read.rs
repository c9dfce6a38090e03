//! Reads from a partition: one topic forward or backward in pages, or all records forward.
//!
//! A sealed segment is read through its index. In the active one, a read walks back along `prev`
//! from the topic's last record, which the caller provides. After more than [`WALK_MAX`] steps the
//! topic is a large part of the segment, and then a scan of the segment's records in the requested
//! order is faster.

use crate::partition::Partition;
use crate::record::RecordView;
use crate::segment::Segment;
use stdx::chunk::Slice;

/// The maximum number of steps along `prev`; then the active segment is scanned.
const WALK_MAX: usize = 1024;

/// Limits of one page. A page has at least one record if there is any, even above the limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageLimits {
    /// The maximum number of records.
    pub records_max: usize,
    /// The maximum bytes of whole records.
    pub bytes_max: usize,
}

/// Limits of one forward read. It visits at least one record if there is any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForwardLimits {
    /// The maximum number of visited records.
    pub records_max: usize,
    /// The maximum bytes of visited records.
    pub bytes_scanned_max: usize,
}

/// The range that a page of one topic covers; its records are appended to `out`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopicPage {
    /// Forward: the next page starts above this offset: that of the last record of the page, or if
    /// the page is complete the greater of `topic_last` and `after`. Backward: that of the oldest
    /// record of the page, or `before` if it has none.
    pub through: u64,
    /// Forward: the page reaches `topic_last`. Backward: no older record of the topic is present.
    pub complete: bool,
    /// The `prev` of the oldest record in the page. Forward: if it is above `after`, records
    /// between are missing, and the gap ends at `prev`. None if the page is empty: then all records
    /// in (after, topic_last] are missing.
    pub first_prev: Option<u64>,
}

/// The start of a topic's newest records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopicStart {
    /// The offset of the oldest matching record; None without one.
    pub oldest: Option<u64>,
    /// Every present record of the topic matches, but fewer than requested: older ones, which are
    /// missing, might have matched too.
    pub all: bool,
}

/// The number of a topic's newest records since some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecentRecords {
    /// The number of records, at most the requested one.
    pub count: u32,
    /// The time of the oldest of them, in milliseconds since 1970-01-01 UTC; 0 without any.
    pub oldest_ms: u64,
    /// The count reached the requested maximum, so there may be more.
    pub is_cut: bool,
}

impl Partition {
    /// Reads records of a topic with offsets in (after, topic_last], oldest first.
    ///
    /// `topic_last` is the offset of the topic's last record, or of an earlier one that ends the
    /// read. (Another offset gives a correct result, but scans the active segment.)
    pub fn read_topic(
        &self,
        topic: u32,
        topic_last: u64,
        after: u64,
        limits: PageLimits,
        out: &mut Vec<Slice>,
    ) -> TopicPage {
        let mut page = Page::new(limits, out);
        let start = after.saturating_add(1);
        for segment in self.segments.range(self.segment_at_or_after(start)..) {
            if segment.base > topic_last {
                break;
            }
            let walked;
            let positions = match &segment.index {
                Some(index) => index.positions_of(topic),
                None => {
                    walked = active_positions(segment, topic, topic_last, after, limits);
                    &walked[..]
                }
            };
            let passed = |position: &u32| {
                segment.record(*position).is_none_or(|record| record.offset() <= after)
            };
            for position in &positions[positions.partition_point(passed)..] {
                let Some(record) = segment.record(*position) else {
                    continue;
                };
                if record.offset() > topic_last {
                    break;
                }
                if !page.take(segment, *position, &record) {
                    return page.finish(false, after);
                }
            }
        }
        page.finish(true, after.max(topic_last))
    }

    /// Reads records of a topic with offsets at or below `topic_last` and below `before`, newest
    /// first. Arguments as for [`Partition::read_topic`].
    pub fn read_topic_back(
        &self,
        topic: u32,
        topic_last: u64,
        before: u64,
        limits: PageLimits,
        out: &mut Vec<Slice>,
    ) -> TopicPage {
        let mut page = Page::new(limits, out);
        let complete =
            self.visit_topic_back(topic, topic_last, before, &mut |segment, position, record| {
                let taken = page.take(segment, position, &record);
                if taken {
                    page.first_prev = Some(record.prev());
                }
                taken
            });
        TopicPage { complete, ..page.finish(false, before) }
    }

    /// Finds the start of the last `count` messages that are not older than `not_before_ms`. The
    /// search runs from the newest and stops at the first record that is too old. `topic_last` as
    /// for [`Partition::read_topic`].
    pub fn newest_of_topic(
        &self,
        topic: u32,
        topic_last: u64,
        count: usize,
        not_before_ms: u64,
    ) -> TopicStart {
        let mut oldest = None;
        let mut left = count;
        let all = self.visit_topic_back(topic, topic_last, u64::MAX, &mut |_, _, record| {
            let wanted = left > 0 && record.time_ms() >= not_before_ms;
            if wanted {
                left -= 1;
                oldest = Some(record.offset());
            }
            wanted && left > 0
        });
        TopicStart { oldest, all }
    }

    /// Counts the newest records of a topic that are not older than `not_before_ms`, up to
    /// `count_max`. `topic_last` as for [`Partition::read_topic`].
    pub fn recent_of_topic(
        &self,
        topic: u32,
        topic_last: u64,
        count_max: u32,
        not_before_ms: u64,
    ) -> RecentRecords {
        let mut recent = RecentRecords::default();
        let oldest = self.oldest().unwrap_or(0);
        self.visit_topic_back(topic, topic_last, u64::MAX, &mut |_, _, record| {
            if record.time_ms() < not_before_ms {
                return false;
            }
            recent.is_cut = recent.count == count_max;
            if recent.is_cut {
                return false;
            }
            recent.count += 1;
            recent.oldest_ms = record.time_ms();
            // The record before is missing: a search in older segments is unnecessary.
            record.prev() >= oldest
        });
        recent
    }

    /// Visits every record from offset `from` on, oldest first, until the limits or the end are
    /// reached or `visit` returns false, which means that it did *not* accept the record. Returns
    /// the offset where the next read starts: that of the first record not accepted, or the next
    /// offset after all of them.
    ///
    /// If `from` is below [`Partition::oldest`], the records between are missing.
    pub fn read_forward(
        &self,
        from: u64,
        limits: ForwardLimits,
        visit: &mut dyn FnMut(Slice, RecordView<'_>) -> bool,
    ) -> u64 {
        let mut records: usize = 0;
        let mut scanned: usize = 0;
        for segment in self.segments.range(self.segment_at_or_after(from)..) {
            let first = segment.table.first_at_or_after(from.saturating_sub(segment.base));
            for position in segment.table.positions().skip(first) {
                let Some(record) = segment.record(position) else {
                    continue;
                };
                let bytes = record.bytes().len();
                let over = records >= limits.records_max
                    || bytes > limits.bytes_scanned_max.saturating_sub(scanned);
                if over && records > 0 || !visit(segment.slice_of(position, &record), record) {
                    return record.offset();
                }
                records += 1;
                scanned += bytes;
            }
        }
        from.max(self.next_offset())
    }

    /// Visits the topic's records from `newest` back to the oldest until `visit` returns false;
    /// true if all were visited.
    fn visit_topic_back(
        &self,
        topic: u32,
        topic_last: u64,
        before: u64,
        visit: &mut dyn FnMut(&Segment, u32, RecordView<'_>) -> bool,
    ) -> bool {
        let Some(newest) = before.checked_sub(1).map(|newest| newest.min(topic_last)) else {
            return true;
        };
        // The newest segment that may contain `newest`; it and all older ones.
        let count = self.segments.partition_point(|segment| segment.base <= newest);
        for segment in self.segments.range(..count).rev() {
            let Some(index) = &segment.index else {
                if !visit_active_back(segment, topic, topic_last, newest, visit) {
                    return false;
                }
                continue;
            };
            let positions = index.positions_of(topic);
            let wanted = |position: &u32| {
                segment.record(*position).is_some_and(|record| record.offset() <= newest)
            };
            for position in positions[..positions.partition_point(wanted)].iter().rev() {
                let Some(record) = segment.record(*position) else {
                    continue;
                };
                if !visit(segment, *position, record) {
                    return false;
                }
            }
        }
        true
    }
}

/// The positions of the topic's records in (after, topic_last] of the active segment, ascending:
/// all of them, or at least one more than fits into a page.
fn active_positions(
    segment: &Segment,
    topic: u32,
    topic_last: u64,
    after: u64,
    limits: PageLimits,
) -> Vec<u32> {
    let mut positions = Vec::new();
    let mut walk = Walk::new(segment, topic, topic_last);
    while let Some((position, record)) = walk.next() {
        if record.offset() <= after {
            break;
        }
        if positions.len() == WALK_MAX {
            let start = after.saturating_add(1).saturating_sub(segment.base);
            let first = segment.table.first_at_or_after(start);
            let wanted = |position: &u32| {
                segment.record(*position).is_some_and(|record| record.topic() == topic)
            };
            let found = segment.table.positions().skip(first).filter(wanted);
            return found.take(limits.records_max.saturating_add(2)).collect();
        }
        positions.push(position);
    }
    positions.reverse();
    positions
}

/// Does the work of `visit_topic_back` in the active segment, for offsets at or below `newest`.
fn visit_active_back(
    segment: &Segment,
    topic: u32,
    topic_last: u64,
    newest: u64,
    visit: &mut dyn FnMut(&Segment, u32, RecordView<'_>) -> bool,
) -> bool {
    let mut walk = Walk::new(segment, topic, topic_last);
    let mut steps: usize = 0;
    while let Some((position, record)) = walk.next() {
        if record.offset() <= newest {
            if !visit(segment, position, record) {
                return false;
            }
        } else if steps == WALK_MAX {
            walk = Walk::new(segment, topic, newest);
        }
        steps += 1;
    }
    true
}

/// An iterator over the topic's records in the active segment from `topic_last` back along `prev`.
struct Walk<'a> {
    segment: &'a Segment,
    topic: u32,
    /// The table's number of the next record.
    next: Option<usize>,
}

impl<'a> Walk<'a> {
    fn new(segment: &'a Segment, topic: u32, topic_last: u64) -> Walk<'a> {
        let mut walk = Walk { segment, topic, next: None };
        walk.next = walk.find(topic_last).or_else(|| walk.search(topic_last));
        walk
    }

    fn next(&mut self) -> Option<(u32, RecordView<'a>)> {
        let position = self.segment.table.position(self.next.take()?)?;
        let record = self.segment.record(position)?;
        // `prev` may be an offset that was never a record of this topic; then the walk ends.
        // `append` has checked that it is below the record's own offset, so the walk always ends.
        self.next = self.find(record.prev());
        Some((position, record))
    }

    /// The number of the topic's record at exactly this offset.
    fn find(&self, offset: u64) -> Option<usize> {
        let number = self.segment.table.find(offset.checked_sub(self.segment.base)?)?;
        self.is_of_topic(number).then_some(number)
    }

    /// The number of the topic's last record at or below an offset without one.
    fn search(&self, offset: u64) -> Option<usize> {
        let ahead = offset.checked_sub(self.segment.base)?;
        let end = self.segment.table.first_at_or_after(ahead);
        (0..end).rev().find(|number| self.is_of_topic(*number))
    }

    fn is_of_topic(&self, number: usize) -> bool {
        let position = self.segment.table.position(number);
        let record = position.and_then(|position| self.segment.record(position));
        record.is_some_and(|record| record.topic() == self.topic)
    }
}

/// An unfinished page.
struct Page<'a> {
    limits: PageLimits,
    out: &'a mut Vec<Slice>,
    records: usize,
    bytes: usize,
    last: Option<u64>,
    first_prev: Option<u64>,
}

impl<'a> Page<'a> {
    fn new(limits: PageLimits, out: &'a mut Vec<Slice>) -> Page<'a> {
        Page { limits, out, records: 0, bytes: 0, last: None, first_prev: None }
    }

    /// Adds a record. False if it does not fit.
    fn take(&mut self, segment: &Segment, position: u32, record: &RecordView<'_>) -> bool {
        let bytes = record.bytes().len();
        let over = self.records >= self.limits.records_max
            || bytes > self.limits.bytes_max.saturating_sub(self.bytes);
        if over && self.records > 0 {
            return false;
        }
        self.records += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.last = Some(record.offset());
        self.first_prev.get_or_insert(record.prev());
        self.out.push(segment.slice_of(position, record));
        true
    }

    fn finish(self, complete: bool, through_if_none: u64) -> TopicPage {
        let through = self.last.filter(|_| !complete).unwrap_or(through_if_none);
        TopicPage { through, complete, first_prev: self.first_prev }
    }
}
