//! Reading a partition: one topic forward or backward in pages, or everything forward.
//!
//! A sealed segment is read through its index; in the active one `prev` is walked back from the
//! topic's last record, which the caller knows. A walk of more than [`WALK_MAX`] steps means that
//! the topic is a large part of the segment, and then looking through the segment's records in the
//! order wanted finds a page sooner.

use crate::partition::Partition;
use crate::record::RecordView;
use crate::segment::Segment;
use stdx::chunk::Slice;

/// Steps along `prev` before the active segment is looked through instead.
const WALK_MAX: usize = 1024;

/// The most that one page may hold. A page has at least one record if there is any, even above the
/// limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageLimits {
    /// Records.
    pub records_max: usize,
    /// Bytes of whole records.
    pub bytes_max: usize,
}

/// The most that one forward read may do. It visits at least one record if there is any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForwardLimits {
    /// Records visited.
    pub records_max: usize,
    /// Bytes of whole records visited.
    pub bytes_scanned_max: usize,
}

/// What a page of one topic covers; the records themselves are appended to `out`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopicPage {
    /// Forward: what follows is above this offset: that of the last record of the page, or if the
    /// page is complete the greater of `topic_last` and `after`. Backward: that of the oldest
    /// record of the page, or `before` if it has none.
    pub through: u64,
    /// Forward: `topic_last` has been reached. Backward: no older record of the topic is present.
    pub complete: bool,
    /// `prev` of the oldest record in the page. Forward: if above `after`, records between are
    /// gone, the gap ends there. None if the page is empty: then everything in (after, topic_last]
    /// is gone.
    pub first_prev: Option<u64>,
}

/// Where a topic's newest records start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopicStart {
    /// Offset of the oldest that qualifies; none if none does.
    pub oldest: Option<u64>,
    /// Every record of the topic that is present qualifies, and fewer than were asked for: older
    /// ones, which are not present, might have qualified too.
    pub all: bool,
}

/// How many of a topic's newest records are no older than a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecentRecords {
    /// Records, at most as many as were asked for.
    pub count: u32,
    /// When the oldest of them was appended, in milliseconds since 1970-01-01 UTC; 0 without any.
    pub oldest_ms: u64,
    /// There were as many as were asked for, and there may be more.
    pub is_cut: bool,
}

impl Partition {
    /// Records of a topic with offsets in (after, topic_last], oldest first.
    ///
    /// `topic_last` is the offset of the topic's last record, or of an earlier one at which to
    /// stop. (If it is not a record of the topic the result is right too, but the active segment is
    /// searched through.)
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

    /// Records of a topic with offsets at or below `topic_last` and below `before`, newest first.
    /// Arguments as for [`Partition::read_topic`].
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

    /// Where "the last `count` messages, none older than `not_before_ms`" start. It stops at the
    /// first record, from the newest, that is too old. `topic_last` as for
    /// [`Partition::read_topic`].
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

    /// Counts the newest records of a topic that are no older than `not_before_ms`, at most
    /// `count_max` of them. `topic_last` as for [`Partition::read_topic`].
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
            // The one before is not present: older segments need not be searched for it.
            record.prev() >= oldest
        });
        recent
    }

    /// Visits every record from offset `from` on, oldest first, until the limits or the end are
    /// reached or `visit` returns false, which means that it did *not* take the record. Returns the
    /// offset to go on from: that of the first record not taken, or the next offset if all have
    /// been.
    ///
    /// If `from` lies below [`Partition::oldest`], what lay between is gone.
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

    /// Visits the topic's records from the newest wanted to the oldest until `visit` returns false;
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
        // The first segment from the newest that may hold `newest`; it and all older ones.
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

/// Positions of the topic's records in (after, topic_last] of the active segment, ascending: all,
/// or at least one more than a page may hold.
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

/// As `visit_topic_back`, in the active segment; offsets at or below `newest`.
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

/// The topic's records in the active segment from `topic_last` back along `prev`.
struct Walk<'a> {
    segment: &'a Segment,
    topic: u32,
    /// Number in the segment's table of the record to yield next.
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
        // `prev` may also name what was never a record of this topic: then the walk is at its end.
        // It is below the record's own offset since `append` checked it, so the walk ends in any
        // case.
        self.next = self.find(record.prev());
        Some((position, record))
    }

    /// Number of the topic's record at exactly this offset.
    fn find(&self, offset: u64) -> Option<usize> {
        let number = self.segment.table.find(offset.checked_sub(self.segment.base)?)?;
        self.is_of_topic(number).then_some(number)
    }

    /// Number of the topic's last record at or below an offset where it has none.
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

/// A page being filled.
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

    /// False if the record does not fit any more.
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
