//! Subscriptions to filters at a home: where they begin in each partition, and pages for those that
//! are read from the log.
//!
//! A filter covers topics of all partitions, so its cursor is an offset for each of them. A page
//! scans one partition forward from the cursor, matches names, and is charged by bytes examined.
//! Neither `history_messages_max` nor `history_age_max_ms` applies: they are limits of a topic, and
//! a scan knows none; a replay of a filter reaches back as far as the log does.
//!
//! Of a log on disk, the disk is asked for what lies before memory's oldest record. A page from the
//! disk is never the last one.
//!
//! If only the newest message of each topic is wanted, a record is brought if its topic has no
//! newer one. That one may lie beyond the stream's position: then the stream is about to bring it.
//!
//! Invariants: pages are answered in turn (`queue`). A page never reaches beyond what the stream
//! to the edge has dealt with, as it is answered in the stream's order: what follows `caught_up` on
//! the stream continues from `through`. A cursor beyond the stream's position waits until a lagging
//! stream has come so far.

use super::Home;
use super::edges::Added;
use super::partitions::HomePartition;
use super::read::offset_of;
use super::turn::Turn;
use super::work::{Asking, Caller, DiskScan, Question, Scan, Step, Work};
use crate::disk::DiskQuery;
use crate::mail::{
    AddFilter, Code, EdgeId, FilterPage, FilterStart, Gap, GapReason, PartitionCursor, ReadMode,
    Resumed, Skip, ToEdge,
};
use crate::position::{Better, Position, Standing};
use crate::topic::Filter;
use log::ForwardLimits;
use std::collections::BTreeMap;
use stdx::chunk::Slice;

/// The records that a scan has found.
#[derive(Debug, Default)]
struct Found {
    records: Vec<(Slice, Slice)>,
    skipped: Vec<Skip>,
    through: u64,
    /// The scan has reached its end.
    complete: bool,
    scanned_bytes: usize,
}

impl Home {
    /// Interest of an edge in a filter, for one subscription.
    pub(super) fn add_filter(&mut self, from: EdgeId, asked: &AddFilter, turn: &mut Turn<'_>) {
        let AddFilter { user, filter, subscription, .. } = asked;
        let (user, subscription) = (*user, *subscription);
        let limits = &self.settings.limits;
        let filters = &mut self.interests.filters;
        let result = match parse_filter(filter) {
            None => Err(Code::MalformedFilter),
            Some(filter) => match filters.add(filter, from, user, limits) {
                Added::Full => Err(Code::FiltersFull),
                Added::TooMany => Err(Code::TooManyFilters),
                Added::Known => Ok(()),
                Added::New => {
                    self.interests.edges[usize::from(from)].filters_version = filters.version;
                    Ok(())
                }
            },
        };
        if let Err(code) = result {
            self.statistics.refused.count(code);
        }
        let result = result.map(|()| {
            (0..self.partitions.len() as u32)
                .map(|local| self.filter_start(from, local, asked, turn))
                .collect()
        });
        turn.out.post(from, ToEdge::FilterGranted { subscription, result });
    }

    /// Removes a filter of an edge. Topics that matched it are released when each is next compared.
    pub(super) fn remove_filter(&mut self, from: EdgeId, filter: &Slice) {
        if let Some(filter) = parse_filter(filter) {
            self.interests.filters.remove(filter, from);
        }
    }

    fn filter_start(
        &mut self,
        from: EdgeId,
        local: u32,
        asked: &AddFilter,
        turn: &mut Turn<'_>,
    ) -> FilterStart {
        self.settle_stream(from, local, turn);
        let AddFilter { since, begins_at_head, .. } = asked;
        let partition = &self.partitions[local as usize];
        let through = partition.stream_position(usize::from(from));
        let first = since.partition_point(|cursor| cursor.partition < partition.id);
        let asked = since[first..].iter().take_while(|cursor| cursor.partition == partition.id);
        let head = partition.log.head();
        // One, or the two of a client that comes back with a ticket.
        let mut positions = asked.map(|cursor| cursor.position);
        let best = positions.next().map(|first| {
            let other = positions.next().unwrap_or(first);
            (first, partition.lineages.better_of(first, other, head))
        });
        let resumed = if *begins_at_head {
            (through < head).then_some(Resumed { after: head, gap: None })
        } else {
            best.map(|(first, best)| resume(partition, first, best))
        };
        let start = FilterStart {
            partition: partition.id,
            epoch: partition.lineages.present_epoch(),
            through,
            resumed,
        };
        let has_gap = resumed.is_some_and(|resumed| resumed.gap.is_some());
        self.statistics.gaps += u64::from(has_gap);
        start
    }

    /// Scans that a stream has come up to wait for their turn again.
    pub(super) fn return_scans(&mut self) {
        if self.scans_ahead.is_empty() {
            return;
        }
        for (from, scan) in std::mem::take(&mut self.scans_ahead) {
            if self.is_ahead(from.edge, &scan) {
                self.scans_ahead.push((from, scan))
            } else {
                self.queue.push(Work::Scan(from, scan))
            }
        }
    }

    /// Whether an engine's partition has begun anew since: the subscription has ended.
    fn is_of_former_life(&self, scan: &Scan) -> bool {
        let partition = &self.partitions[scan.local as usize];
        partition.engine.is_some() && scan.asked.after > partition.log.head()
    }

    fn is_ahead(&self, edge: EdgeId, scan: &Scan) -> bool {
        let partition = &self.partitions[scan.local as usize];
        scan.asked.after > partition.stream_position(usize::from(edge))
    }

    /// A page for a subscription to filters.
    pub(super) fn scan(&mut self, from: Caller, scan: Scan, turn: &mut Turn<'_>) -> Step {
        self.settle_stream(from.edge, scan.local, turn);
        if self.is_of_former_life(&scan) {
            return Step::Nothing;
        }
        if self.is_ahead(from.edge, &scan) {
            return Step::Ahead(scan);
        }
        self.statistics.pages_read += 1;
        let partition = &self.partitions[scan.local as usize];
        let settled = partition.stream_position(usize::from(from.edge));
        if scan.asked.mode == ReadMode::Skip {
            let found = skip_all(scan.asked.after, settled);
            return self.filter_page(&scan, None, found);
        }
        let gap = gap_after(partition, scan.asked.after, GapReason::Evicted);
        let begin = gap.map_or(scan.asked.after, |gap| gap.to);
        if begin + 1 < partition.oldest() {
            let query = DiskQuery::Scan {
                filters: scan.asked.filters.clone(),
                after: begin,
                through: settled.min(partition.oldest() - 1),
                limits: scan.asked.limits,
                bytes_scanned_max: self.settings.limits.scan_bytes_max,
            };
            let (local, question) = (scan.local, Question::Scan(scan, gap));
            return Step::Ask(Box::new(Asking { local, question, query }));
        }
        let found = self.find(&scan, begin, settled);
        self.queue.charge_bytes(found.scanned_bytes);
        self.filter_page(&scan, gap, found)
    }

    /// The disk has scanned. A page of damage is a gap, and so is what the disk had dropped when it
    /// was read.
    pub(super) fn scan_from_disk(&mut self, scan: &Scan, gap: Option<Gap>, disk: DiskScan) -> Step {
        let mut found = Found { records: disk.records, through: disk.through, ..Found::default() };
        let bytes = found.records.iter().map(|(_, record)| record.len());
        self.queue.charge_bytes(bytes.sum());
        let mut gap = gap;
        // Records that were dropped before the disk was read. The records that it has read are
        // here, even if they were dropped since.
        let dropped = disk.floor.saturating_sub(1).min(found.through);
        if dropped > gap.map_or(scan.asked.after, |gap| gap.to) {
            gap = Some(Gap { from: scan.asked.after, to: dropped, reason: GapReason::Evicted });
        }
        if disk.damaged {
            gap = Some(Gap {
                from: scan.asked.after,
                to: found.through,
                reason: self.reason_of_loss(scan.local, found.through, true),
            });
        }
        if scan.asked.mode == ReadMode::Newest {
            let begin = gap.map_or(scan.asked.after, |gap| gap.to);
            self.keep_newest(scan.local, begin, &mut found);
        }
        self.filter_page(scan, gap, found)
    }

    /// Drops records of a page from disk whose topic has a newer one.
    fn keep_newest(&self, local: u32, begin: u64, found: &mut Found) {
        let topics = &self.interests.topics;
        let mut skipping = Skipping::after(begin);
        found.records.retain(|(name, record)| {
            let offset = offset_of(record);
            // Of a topic that is not known any more nothing newer is.
            let entry = topics.find(name, local).and_then(|it| topics.get(it));
            skipping.keeps(offset, entry.is_none_or(|entry| entry.last() <= offset))
        });
        found.skipped = skipping.end(found.through);
    }

    fn filter_page(&mut self, scan: &Scan, gap: Option<Gap>, found: Found) -> Step {
        self.statistics.gaps += u64::from(gap.is_some());
        Step::Done(ToEdge::FilterPage(FilterPage {
            subscription: scan.asked.subscription,
            partition: self.partitions[scan.local as usize].id,
            after: scan.asked.after,
            gap,
            records: found.records,
            skipped: found.skipped,
            through: found.through,
            caught_up: found.complete,
        }))
    }

    /// The records in (`after`, `through`] that the filters cover, as much as one page holds.
    fn find(&self, scan: &Scan, after: u64, through: u64) -> Found {
        let filters: Vec<Filter<'_>> = scan.asked.filters.iter().filter_map(parse_filter).collect();
        let mut found = Found::default();
        let mut names: BTreeMap<u32, Option<Slice>> = BTreeMap::new();
        let mut skipping = Skipping::after(after);
        let topics = &self.interests.topics;
        let is_wanted = |topic: u32, offset: u64| {
            let is_last = || topics.get(topic).is_none_or(|it| it.last() <= offset);
            scan.asked.mode != ReadMode::Newest || is_last()
        };
        let mut bytes = 0;
        let limits = ForwardLimits {
            records_max: usize::MAX,
            bytes_scanned_max: self.settings.limits.scan_bytes_max as usize,
        };
        let log = &self.partitions[scan.local as usize].log;
        let next = log.read_forward(after.saturating_add(1), limits, &mut |slice, record| {
            if record.offset() > through {
                return false;
            }
            let name = names
                .entry(record.topic())
                .or_insert_with(|| self.covered_name(&filters, record.topic()));
            if let Some(name) = name {
                let is_wanted = is_wanted(record.topic(), record.offset());
                let is_full = found.records.len() >= scan.asked.limits.records_max as usize
                    || bytes + slice.len() > scan.asked.limits.bytes_max as usize;
                if is_wanted && is_full && !found.records.is_empty() {
                    return false;
                }
                if skipping.keeps(record.offset(), is_wanted) {
                    bytes += slice.len();
                    found.records.push((name.clone(), slice));
                }
            }
            found.scanned_bytes += record.bytes().len();
            true
        });
        found.complete = next > through;
        found.through = if found.complete { through } else { next - 1 };
        found.skipped = skipping.end(found.through);
        found
    }

    /// The records of a page for a group, and the offset that it settles.
    pub(super) fn records_for_group(
        &mut self,
        scan: &Scan,
        after: u64,
        through: u64,
    ) -> (Vec<(Slice, Slice)>, u64) {
        let found = self.find(scan, after, through);
        self.queue.charge_bytes(found.scanned_bytes);
        (found.records, found.through)
    }

    /// The topic's name, if one of the filters covers it.
    fn covered_name(&self, filters: &[Filter<'_>], topic: u32) -> Option<Slice> {
        let name = self.interests.topics.name(topic);
        let text = std::str::from_utf8(name).ok()?;
        let is_covered = filters.iter().any(|filter| filter.matches(text));
        is_covered.then(|| Slice::copy_of(name))
    }
}

/// The stretches that a page leaves out between the records that it brings.
struct Skipping {
    skips: Vec<Skip>,
    /// Everything up to here is settled: brought, or nothing for the filters.
    settled: u64,
    /// Something behind that was left out.
    has_skipped: bool,
}

impl Skipping {
    fn after(begin: u64) -> Skipping {
        Skipping { skips: Vec::new(), settled: begin, has_skipped: false }
    }

    /// The next record is brought or left out; answers which.
    fn keeps(&mut self, offset: u64, is_kept: bool) -> bool {
        if is_kept {
            self.close(offset - 1);
            self.settled = offset;
        } else {
            self.has_skipped = true
        }
        is_kept
    }

    fn close(&mut self, through: u64) {
        if std::mem::take(&mut self.has_skipped) {
            self.skips.push(Skip { from: self.settled, through });
        }
    }

    /// The page ends here.
    fn end(mut self, through: u64) -> Vec<Skip> {
        self.close(through);
        self.skips
    }
}

/// A page that brings nothing: the subscription continues with the stream's next message.
fn skip_all(after: u64, settled: u64) -> Found {
    let skip = Skip { from: after, through: settled };
    Found {
        skipped: Some(skip).filter(|_| settled > after).into_iter().collect(),
        through: settled,
        complete: true,
        ..Found::default()
    }
}

/// The start of a subscription with a position: a known position continues; with any other
/// everything is a gap, up to the oldest record. A client that had come further, to records that
/// the log has lost, continues behind a gap.
fn resume(partition: &HomePartition, asked: Position, best: Better) -> Resumed {
    let Better { position, is_rewound } = best;
    let lost = |reason| Some(Gap { from: 0, to: partition.floor() - 1, reason });
    let (after, gap) = match partition.standing(position) {
        Standing::After(after) if is_rewound => {
            let to = after.max(partition.floor() - 1);
            let reason = partition.reason_of_rewind(asked);
            (after, Some(Gap { from: after, to, reason }))
        }
        Standing::After(after) => (after, gap_after(partition, after, GapReason::Evicted)),
        Standing::UnknownEpoch => (0, lost(GapReason::UnknownEpoch)),
        Standing::BeyondHead => (0, lost(GapReason::BeyondHead)),
    };
    Resumed { after: gap.map_or(after, |gap| gap.to), gap }
}

/// The offset after which a group continues in a partition, if one of these positions is of it.
pub(super) fn begin_of_group(partition: &HomePartition, since: &[PartitionCursor]) -> Option<u64> {
    let cursor = since.iter().find(|cursor| cursor.partition == partition.id)?;
    let PartitionCursor { position, .. } = *cursor;
    let best = partition.lineages.better_of(position, position, partition.log.head());
    Some(resume(partition, position, best).after)
}

/// The partition's loss of records after an offset.
fn gap_after(partition: &HomePartition, after: u64, reason: GapReason) -> Option<Gap> {
    let to = partition.floor() - 1;
    (to > after).then_some(Gap { from: after, to, reason })
}

pub(super) fn parse_filter(filter: &Slice) -> Option<Filter<'_>> {
    Filter::parse(std::str::from_utf8(filter).ok()?).ok()
}
