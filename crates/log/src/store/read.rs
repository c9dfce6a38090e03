//! Reads for homes, of records that are not in memory: a topic forward and backward, the start of a
//! replay, and whole partitions.
//!
//! First the indexes give the matching records, then these are read, neighbours together. A damaged
//! record is left out and reported.

use super::disk::{Disk, DiskError};
use super::files::ReadError;
use super::format::{is_sound, segment_name};
use super::index::Found;
use super::memory_index::Entry;
use super::{Store, StoreError};
use crate::read::PageLimits;
use crate::record::RecordView;
use std::collections::BTreeMap;
use stdx::chunk::{ChunkWriter, Slice};

/// The maximum distance between two records that one read covers.
const GAP_BYTES_MAX: u64 = 16 << 10;
/// The maximum size of one read, unless a record is longer.
const WINDOW_BYTES_MAX: u64 = 1 << 20;
/// The number of records that a scan examines together.
const SCAN_STEP: usize = 64;

/// Records of one topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StorePage {
    /// The records in the requested order. Their topic ids have no meaning.
    pub records: Vec<Slice>,
    /// The `prev` of the oldest record in the page.
    pub first_prev: Option<u64>,
    /// The page reaches the end of the range.
    pub complete: bool,
    /// The range may have had records that cannot be read.
    pub damaged: bool,
}

/// The query of [`Store::start`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StartQuery {
    /// The last offset, inclusive.
    pub through: u64,
    /// The maximum number of records.
    pub count: u32,
    /// The earliest time, in milliseconds since 1970.
    pub not_before_ms: u64,
    /// The start of the replay if no record were missing; exclusive.
    pub after: u64,
}

/// The start of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreStart {
    /// The oldest matching record.
    pub oldest: Option<u64>,
    /// The `prev` of the first record above both `after` and `oldest - 1`.
    pub prev: Option<u64>,
    /// The number of matching records.
    pub count: u32,
    /// Records may have been lost between `after` and the first one of the replay (up to `through`
    /// if there is none), other than those that `count` and `not_before_ms` exclude.
    pub damaged: bool,
}

/// The query of [`Store::scan`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanQuery {
    /// The start of the range, exclusive.
    pub after: u64,
    /// The end of the range, inclusive.
    pub through: u64,
    /// Limits of the page; one record always fits.
    pub limits: PageLimits,
    /// The approximate size of the examined records; at least one is examined.
    pub bytes_scanned_max: u64,
}

/// Records of a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreScan {
    /// Names and records, ascending. Their topic ids have no meaning.
    pub records: Vec<(Slice, Slice)>,
    /// The end of the examined range.
    pub through: u64,
    /// No record of the range can be read, and some may have been there. A page ends before damage,
    /// so that valid records are not lost with it.
    pub damaged: bool,
}

/// A record in a segment of the chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub segment: usize,
    pub entry: Entry,
}

/// The result of the indexes for the start of a replay.
struct FoundStart {
    /// The oldest matching record.
    oldest: Option<u64>,
    /// The number of matching records.
    count: u32,
    /// Older records would not match.
    is_limited: bool,
}

/// The records of a page.
struct Plan {
    places: Vec<Place>,
    records_max: usize,
    bytes_left: u64,
    is_full: bool,
}

impl Plan {
    fn new(limits: PageLimits) -> Plan {
        Plan {
            places: Vec::new(),
            records_max: limits.records_max.max(1),
            bytes_left: limits.bytes_max as u64,
            is_full: false,
        }
    }

    /// Adds a record, unless the page is full.
    fn take(&mut self, segment: usize, entry: Entry) -> bool {
        let length = u64::from(entry.length);
        let fits = self.places.is_empty()
            || self.places.len() < self.records_max && length <= self.bytes_left;
        self.is_full |= !fits;
        if fits {
            self.places.push(Place { segment, entry });
            self.bytes_left = self.bytes_left.saturating_sub(length);
        }
        fits
    }
}

impl<D: Disk> Store<D> {
    /// Reads a topic's records in (`after`, `through`], oldest first.
    pub fn page(
        &mut self,
        partition: u32,
        topic: &[u8],
        after: u64,
        through: u64,
        limits: PageLimits,
    ) -> Result<StorePage, StoreError> {
        self.check_partition(partition)?;
        let after = after.max(self.read_floor(partition) - 1);
        let (mut from, mut damaged) = (after, false);
        loop {
            let plan = self.repairing(|store| {
                let mut plan = Plan::new(limits);
                store.plan_forward(partition, topic, (from, through), &mut plan)?;
                Ok(plan)
            })?;
            let last = plan.places.last().map(|place| place.entry.offset);
            let (records, is_damaged) = self.read_records(&plan.places)?;
            damaged |= is_damaged;
            if records.is_empty()
                && let Some(last) = last.filter(|_| plan.is_full)
            {
                from = last; // the whole page is damaged
                continue;
            }
            let end = last.filter(|_| plan.is_full).unwrap_or(through);
            return Ok(StorePage {
                first_prev: records.first().and_then(prev_of),
                records,
                complete: !plan.is_full,
                damaged: damaged || self.has_hole(partition, after, end),
            });
        }
    }

    /// Reads a topic's records in [`oldest`, `before`), newest first.
    pub fn page_back(
        &mut self,
        partition: u32,
        topic: &[u8],
        before: u64,
        oldest: u64,
        limits: PageLimits,
    ) -> Result<StorePage, StoreError> {
        self.check_partition(partition)?;
        let oldest = oldest.max(self.read_floor(partition));
        let (mut until, mut damaged) = (before, false);
        loop {
            let mut plan = self.repairing(|store| {
                let mut plan = Plan::new(limits);
                store.plan_back(partition, topic, (oldest, until), &mut plan)?;
                Ok(plan)
            })?;
            plan.places.reverse();
            let first = plan.places.first().map(|place| place.entry.offset);
            let (mut records, is_damaged) = self.read_records(&plan.places)?;
            damaged |= is_damaged;
            if records.is_empty()
                && let Some(first) = first.filter(|_| plan.is_full)
            {
                until = first;
                continue;
            }
            let end = first.filter(|_| plan.is_full).unwrap_or(oldest);
            let first_prev = records.first().and_then(prev_of);
            records.reverse();
            damaged |= before > 0 && self.has_hole(partition, end.saturating_sub(1), before - 1);
            return Ok(StorePage { records, first_prev, complete: !plan.is_full, damaged });
        }
    }

    /// Finds the start of the newest `count` records of a topic at or below `through` that are not
    /// older than `not_before_ms`.
    pub fn start(
        &mut self,
        partition: u32,
        topic: &[u8],
        wanted: StartQuery,
    ) -> Result<StoreStart, StoreError> {
        self.check_partition(partition)?;
        let found = self.repairing(|store| store.find_start(partition, topic, wanted))?;
        let FoundStart { oldest, count, is_limited } = found;
        let begin = oldest.map_or(wanted.after, |oldest| wanted.after.max(oldest - 1));
        // Records excluded by the limits are not missing, damaged or not.
        let missed_after = if is_limited { begin } else { wanted.after };
        let mut prev = None;
        let mut damaged = false;
        if oldest.is_some() {
            (prev, damaged) = self.first_after(partition, topic, begin)?;
        }
        let missed_through = prev.unwrap_or(wanted.through);
        damaged |=
            missed_after < missed_through && self.has_hole(partition, missed_after, missed_through);
        Ok(StoreStart { oldest, prev, count, damaged })
    }

    /// The `prev` of a topic's first readable record after an offset, and whether an unreadable one
    /// precedes it.
    fn first_after(
        &mut self,
        partition: u32,
        topic: &[u8],
        after: u64,
    ) -> Result<(Option<u64>, bool), StoreError> {
        let limits = PageLimits { records_max: 1, bytes_max: 0 };
        let (mut from, mut damaged) = (after, false);
        loop {
            let plan = self.repairing(|store| {
                let mut plan = Plan::new(limits);
                store.plan_forward(partition, topic, (from, u64::MAX), &mut plan)?;
                Ok(plan)
            })?;
            let (records, is_damaged) = self.read_records(&plan.places)?;
            damaged |= is_damaged;
            match (records.first(), plan.places.last()) {
                (None, Some(place)) => from = place.entry.offset,
                (first, _) => return Ok((first.and_then(prev_of), damaged)),
            }
        }
    }

    /// Reads a partition's records in (`after`, `through`] whose topic names match, oldest first.
    /// The page ends at `through` also where all of them have been dropped: the caller may have
    /// those behind it.
    pub fn scan(
        &mut self,
        partition: u32,
        wanted: ScanQuery,
        matches: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<StoreScan, StoreError> {
        self.check_partition(partition)?;
        let after = wanted.after.max(self.read_floor(partition) - 1);
        if after > wanted.through {
            let through = wanted.through.max(wanted.after);
            return Ok(StoreScan { records: Vec::new(), through, damaged: false });
        }
        self.scan_above(partition, ScanQuery { after, ..wanted }, matches)
    }

    fn scan_above(
        &mut self,
        partition: u32,
        wanted: ScanQuery,
        matches: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<StoreScan, StoreError> {
        let mut found = StoreScan { records: Vec::new(), through: wanted.after, damaged: false };
        let mut end = wanted.through.max(wanted.after);
        match self.first_hole(partition, wanted.after, wanted.through) {
            Some((from, through)) if from <= wanted.after.saturating_add(1) => {
                found.through = through.min(wanted.through);
                found.damaged = true;
                return Ok(found);
            }
            Some((from, _)) => end = from - 1,
            None => {}
        }
        let (mut bytes, mut bytes_scanned) = (0, 0);
        let mut names: BTreeMap<(usize, u32), Option<Slice>> = BTreeMap::new();
        'steps: loop {
            let step = self.repairing(|store| {
                let mut plan = Plan::new(PageLimits {
                    records_max: SCAN_STEP,
                    bytes_max: WINDOW_BYTES_MAX as usize,
                });
                store.plan_partition(partition, (found.through, end), &mut plan)?;
                Ok(plan)
            })?;
            let read = self.read_each(&step.places)?;
            for (place, record) in step.places.iter().zip(read) {
                let Entry { offset, length, .. } = place.entry;
                if bytes_scanned > 0 && bytes_scanned >= wanted.bytes_scanned_max {
                    break 'steps;
                }
                let is_first = found.through == wanted.after;
                if record.is_none() != found.damaged && !is_first {
                    // A page ends between valid records and damage.
                    if !found.damaged {
                        found.through = offset - 1;
                    }
                    break 'steps;
                }
                bytes_scanned += u64::from(length);
                let Some(record) = record else {
                    found.damaged = true;
                    found.through = offset;
                    continue;
                };
                let number = RecordView::parse(&record).map_or(0, |record| record.topic());
                let key = (place.segment, number);
                if let Some(name) = self.cached_name(&mut names, key, matches)? {
                    let is_full = found.records.len() >= wanted.limits.records_max
                        || bytes + record.len() > wanted.limits.bytes_max;
                    if is_full && !found.records.is_empty() {
                        break 'steps;
                    }
                    bytes += record.len();
                    found.records.push((name, record));
                }
                found.through = offset;
            }
            if !step.is_full {
                found.through = end;
                break;
            }
        }
        Ok(found)
    }

    /// The name of a segment's topic number, if it matches. `names` caches the results.
    fn cached_name(
        &mut self,
        names: &mut BTreeMap<(usize, u32), Option<Slice>>,
        (segment, number): (usize, u32),
        matches: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Option<Slice>, StoreError> {
        if let Some(name) = names.get(&(segment, number)) {
            return Ok(name.clone());
        }
        let name = self.matching_name(segment, number, matches)?;
        names.insert((segment, number), name.clone());
        Ok(name)
    }

    fn matching_name(
        &mut self,
        segment: usize,
        number: u32,
        matches: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Option<Slice>, StoreError> {
        let name = self.repairing(|store| {
            let mut name = Vec::new();
            let index = &store.segments[segment].index;
            index.name_of_number(&mut store.files, number, &mut name)?;
            Ok(name)
        })?;
        Ok(matches(&name).then(|| Slice::copy_of(&name)))
    }

    fn check_partition(&self, partition: u32) -> Result<(), StoreError> {
        let is_known = partition < self.settings.partitions_count;
        is_known.then_some(()).ok_or(StoreError::Partition(partition))
    }

    /// The first segment that may have offsets of a partition above this one.
    fn segment_above(&self, partition: u32, after: u64) -> usize {
        // A head has the offsets at the end of the previous segment.
        let is_below = |head: &u64| *head <= after;
        let head_of = |segment: &super::Segment| segment.head.heads[partition as usize];
        let begun = self.segments.partition_point(|segment| is_below(&head_of(segment)));
        begun.saturating_sub(1)
    }

    /// Whether offsets of (`after`, `through`] may have been lost.
    fn has_hole(&self, partition: u32, after: u64, through: u64) -> bool {
        self.first_hole(partition, after, through).is_some()
    }

    /// The first hole with offsets of (`after`, `through`].
    fn first_hole(&self, partition: u32, after: u64, through: u64) -> Option<(u64, u64)> {
        let first = self.segment_above(partition, after);
        let segments = self.segments.iter().skip(first);
        let begun = |segment: &&super::Segment| {
            // A hole before a segment has lower offsets than its head.
            segment.head.heads[partition as usize] <= through || !segment.index.holes().is_empty()
        };
        let holes = segments.take_while(begun).flat_map(|segment| segment.index.holes());
        holes
            .filter(|hole| hole.partition == partition)
            .filter(|hole| hole.from <= through && hole.through > after)
            .map(|hole| (hole.from, hole.through))
            .min()
    }

    fn plan_forward(
        &mut self,
        partition: u32,
        topic: &[u8],
        (after, through): (u64, u64),
        plan: &mut Plan,
    ) -> Result<(), ReadError> {
        for segment in self.segment_above(partition, after)..self.segments.len() {
            let index = &self.segments[segment].index;
            let head = self.segments[segment].head.heads[partition as usize];
            if head >= through {
                break;
            }
            let Some(topic) = index.find(&mut self.files, partition, topic)? else {
                continue;
            };
            let records = index.records(&mut self.files, partition)?;
            let from = index.topic_below(&mut self.files, &topic, after.saturating_add(1))?;
            for nth in from..topic.count {
                let place = index.topic_place(&mut self.files, &topic, nth)?;
                let entry = index.entry(&mut self.files, &records, place)?;
                if entry.offset > through || !plan.take(segment, entry) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn plan_back(
        &mut self,
        partition: u32,
        topic: &[u8],
        (oldest, before): (u64, u64),
        plan: &mut Plan,
    ) -> Result<(), ReadError> {
        for segment in (0..self.segments.len()).rev() {
            if self.end_heads(segment)[partition as usize] < oldest {
                break;
            }
            let index = &self.segments[segment].index;
            let head = self.segments[segment].head.heads[partition as usize];
            if head.saturating_add(1) >= before {
                continue;
            }
            let Some(topic) = index.find(&mut self.files, partition, topic)? else {
                continue;
            };
            let records = index.records(&mut self.files, partition)?;
            let below = index.topic_below(&mut self.files, &topic, before)?;
            for nth in (0..below).rev() {
                let place = index.topic_place(&mut self.files, &topic, nth)?;
                let entry = index.entry(&mut self.files, &records, place)?;
                if entry.offset < oldest || !plan.take(segment, entry) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn plan_partition(
        &mut self,
        partition: u32,
        (after, through): (u64, u64),
        plan: &mut Plan,
    ) -> Result<(), ReadError> {
        for segment in self.segment_above(partition, after)..self.segments.len() {
            let index = &self.segments[segment].index;
            let head = self.segments[segment].head.heads[partition as usize];
            if head >= through {
                break;
            }
            let records = index.records(&mut self.files, partition)?;
            let from = index.place_from(&mut self.files, &records, after.saturating_add(1))?;
            for place in from..records.count {
                let entry = index.entry(&mut self.files, &records, place)?;
                if entry.offset > through || !plan.take(segment, entry) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Finds the start of a replay; see [`FoundStart`].
    fn find_start(
        &mut self,
        partition: u32,
        name: &[u8],
        wanted: StartQuery,
    ) -> Result<FoundStart, ReadError> {
        let (mut oldest, mut left, mut is_limited) = (None, wanted.count, false);
        let floor = self.read_floor(partition);
        for segment in (0..self.segments.len()).rev() {
            if left == 0 {
                break;
            }
            let index = &self.segments[segment].index;
            let head = self.segments[segment].head.heads[partition as usize];
            if head >= wanted.through {
                continue;
            }
            let Some(topic) = index.find(&mut self.files, partition, name)? else {
                continue;
            };
            let end = wanted.through.saturating_add(1);
            let below = index.topic_below(&mut self.files, &topic, end)?;
            let unread = index.topic_below(&mut self.files, &topic, floor)?;
            let taken = left.min(below.saturating_sub(unread));
            let is_young = index.times().0 >= wanted.not_before_ms;
            let count = if is_young {
                taken
            } else {
                self.count_young(segment, &topic, (below, taken), wanted.not_before_ms)?
            };
            if let Some(first) = below.checked_sub(count).filter(|_| count > 0) {
                oldest = Some(self.offset_of(segment, partition, &topic, first)?);
            }
            left -= count;
            if count < taken {
                is_limited = true;
                break;
            }
            if unread > 0 {
                break; // all earlier ones are below the floor, too
            }
        }
        Ok(FoundStart { oldest, count: wanted.count - left, is_limited: is_limited || left == 0 })
    }

    /// Counts the last `taken` records of a topic below its record number `below` that are recent
    /// enough, up to the first that is not.
    fn count_young(
        &mut self,
        segment: usize,
        topic: &Found,
        (below, taken): (u32, u32),
        not_before_ms: u64,
    ) -> Result<u32, ReadError> {
        for passed in 0..taken {
            let index = &self.segments[segment].index;
            let place = index.topic_place(&mut self.files, topic, below - 1 - passed)?;
            let records = index.records(&mut self.files, topic.partition())?;
            let entry = index.entry(&mut self.files, &records, place)?;
            let sequence = self.segments[segment].head.sequence;
            let length = crate::RECORD_HEADER_BYTES as u32;
            let header = self.read_or_give_up(sequence, entry.position, length)?;
            // The read of its page reports an unreadable record.
            if header.is_some_and(|header| super::format::u64_at(&header, 24) < not_before_ms) {
                return Ok(passed);
            }
        }
        Ok(taken)
    }

    fn offset_of(
        &mut self,
        segment: usize,
        partition: u32,
        topic: &Found,
        nth: u32,
    ) -> Result<u64, ReadError> {
        let index = &self.segments[segment].index;
        let place = index.topic_place(&mut self.files, topic, nth)?;
        let records = index.records(&mut self.files, partition)?;
        Ok(index.entry(&mut self.files, &records, place)?.offset)
    }

    /// The valid records, in the order of the places, and whether one is damaged.
    pub(super) fn read_records(
        &mut self,
        places: &[Place],
    ) -> Result<(Vec<Slice>, bool), StoreError> {
        let read = self.read_each(places)?;
        let records: Vec<Slice> = read.into_iter().flatten().collect();
        let is_damaged = records.len() < places.len();
        Ok((records, is_damaged))
    }

    /// Reads records, ascending by segment and position, into one chunk; None for a damaged one.
    fn read_each(&mut self, places: &[Place]) -> Result<Vec<Option<Slice>>, StoreError> {
        let total: usize = places.iter().map(|place| place.entry.length as usize).sum();
        let mut chunk = ChunkWriter::heap(total.min(stdx::chunk::CHUNK_BYTES_MAX));
        let mut records = Vec::with_capacity(places.len());
        let mut rest = places;
        while let Some(first) = rest.first() {
            let start = u64::from(first.entry.position);
            let mut end = start;
            let is_near = |place: &&Place| {
                let position = u64::from(place.entry.position);
                let behind = position + u64::from(place.entry.length);
                let is_first = end == start;
                let is_near = place.segment == first.segment
                    && position >= end
                    && position - end <= GAP_BYTES_MAX
                    && behind - start <= WINDOW_BYTES_MAX;
                if is_first || is_near {
                    end = behind;
                }
                is_first || is_near
            };
            let (window, later) = rest.split_at(rest.iter().take_while(is_near).count().max(1));
            rest = later;
            let sequence = self.segments[first.segment].head.sequence;
            let mut copy = |entry: &Entry, bytes: Option<&[u8]>| {
                let record = bytes.and_then(RecordView::parse);
                let whole = record
                    .filter(|record| record.bytes().len() == entry.length as usize)
                    .filter(|record| record.offset() == entry.offset && is_sound(record));
                records.push(whole.and_then(|record| chunk.append(&[record.bytes()])));
            };
            match self.read_bytes(sequence, first.entry.position, (end - start) as u32) {
                Ok(bytes) => {
                    for Place { entry, .. } in window {
                        let from = (u64::from(entry.position) - start) as usize;
                        let Entry { position, length, .. } = *entry;
                        self.unreadable.forget((sequence, position, length));
                        copy(entry, bytes.get(from..));
                    }
                }
                Err(DiskError::Io(_) | DiskError::NotFound) => {
                    let read = self.read_one_by_one(sequence, window)?;
                    for (Place { entry, .. }, bytes) in window.iter().zip(read) {
                        copy(entry, bytes.as_deref());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(records)
    }

    /// Reads records one by one that cannot be read together. All are tried, so that all losses are
    /// known soon.
    fn read_one_by_one(
        &mut self,
        sequence: u64,
        places: &[Place],
    ) -> Result<Vec<Option<Vec<u8>>>, DiskError> {
        let read = places.iter().map(|Place { entry, .. }| {
            self.read_or_give_up(sequence, entry.position, entry.length)
        });
        let read: Vec<Result<_, DiskError>> = read.collect();
        read.into_iter().collect()
    }

    /// Reads bytes of a segment; fewer at the end of its file.
    pub(super) fn read_bytes(
        &mut self,
        sequence: u64,
        position: u32,
        length: u32,
    ) -> Result<Vec<u8>, DiskError> {
        let name = segment_name(sequence);
        let mut bytes = vec![0; length as usize];
        let read = self.files.read(&name, position.into(), &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}

fn prev_of(record: &Slice) -> Option<u64> {
    RecordView::parse(record).map(|record| record.prev())
}
