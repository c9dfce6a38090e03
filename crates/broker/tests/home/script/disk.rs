//! A log thread with a disk that is a map, for the tests of homes: it executes each request on
//! command.

use broker::disk::{DiskAnswer, DiskLetter, DiskQuery, DiskRequest, Token};
use broker::mail::{Code, PageLimits, PartitionId};
use broker::topic::Filter;
use log::RecordView;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stdx::chunk::Slice;

/// One record: its topic's name and its bytes.
pub type Stored = (String, Slice);

/// See the module.
#[derive(Default)]
pub struct TestDisk {
    records: BTreeMap<(PartitionId, u64), Stored>,
    floors: BTreeMap<PartitionId, u64>,
    appends: VecDeque<(u32, PartitionId, String, Slice)>,
    reads: VecDeque<(Token, PartitionId, DiskQuery)>,
    /// Everything of this generation is refused.
    refused: Option<u32>,
    /// Records that cannot be read any more.
    damaged: BTreeSet<(PartitionId, u64)>,
    /// Records of which damage has left nothing, not even the topic's name.
    holes: BTreeSet<(PartitionId, u64)>,
}

impl TestDisk {
    /// Takes what a home asks; says what of it is answered at once.
    pub fn take(&mut self, requests: Vec<DiskRequest>) -> Vec<DiskLetter> {
        let mut letters = Vec::new();
        for request in requests {
            match request {
                DiskRequest::Append { generation, .. } if self.refused == Some(generation) => {
                    letters.push(DiskLetter::Committed {
                        generation,
                        count: 1,
                        result: Err(Code::LogUnavailable),
                    });
                }
                DiskRequest::Append { generation, partition, topic, record } => {
                    self.appends.push_back((generation, partition, text(&topic), record))
                }
                DiskRequest::Read { token, partition, query } => {
                    self.reads.push_back((token, partition, query))
                }
                DiskRequest::Describe { .. } | DiskRequest::Resume { .. } => {
                    panic!("a log on disk has no mirror")
                }
            }
        }
        letters
    }

    /// Drops all requests: the process has ended.
    pub fn forget_requests(&mut self) {
        self.appends.clear();
        self.reads.clear();
        self.refused = None;
    }

    /// The oldest appends get on disk.
    pub fn commit(&mut self, count: usize) -> Option<DiskLetter> {
        let generation = self.appends.front()?.0;
        let mut committed = 0;
        while committed < count as u32
            && self.appends.front().is_some_and(|append| append.0 == generation)
        {
            let (_, partition, topic, record) = self.appends.pop_front()?;
            let offset = view(&record).offset();
            let head = self.records.range((partition, 0)..=(partition, u64::MAX)).next_back();
            assert!(
                head.is_none_or(|((_, head), _)| *head < offset),
                "{offset} of {partition:?} is not above the head"
            );
            // The topic id means nothing to a disk.
            let mut bytes = record.to_vec();
            bytes[32..36].fill(0xee);
            let stored = (topic, Slice::copy_of(&bytes));
            self.records.insert((partition, offset), stored);
            committed += 1;
        }
        Some(DiskLetter::Committed { generation, count: committed, result: Ok(()) })
    }

    /// The oldest append fails, and with it all of its generation.
    pub fn fail(&mut self, code: Code) -> Option<DiskLetter> {
        let generation = self.appends.front()?.0;
        let count = self.appends.len();
        self.appends.retain(|append| append.0 != generation);
        self.refused = Some(generation);
        Some(DiskLetter::Committed {
            generation,
            count: (count - self.appends.len()) as u32,
            result: Err(code),
        })
    }

    /// Answers one of the reads that wait.
    pub fn answer(&mut self, nth: usize) -> Option<DiskLetter> {
        let (token, partition, query) = self.reads.remove(nth)?;
        let result = Ok(self.read(partition, query));
        Some(DiskLetter::Answer { token, result })
    }

    /// Cannot answer the oldest read.
    pub fn fail_read(&mut self) -> Option<DiskLetter> {
        let (token, ..) = self.reads.pop_front()?;
        let result = Err(Code::LogUnavailable);
        Some(DiskLetter::Answer { token, result })
    }

    /// Drops all records of a partition below `floor`.
    pub fn drop_below(&mut self, partition: PartitionId, floor: u64) -> DiskLetter {
        let old = self.floor(partition);
        let floor = floor.max(old);
        let gone: Vec<(PartitionId, u64)> = self
            .records
            .range((partition, 0)..(partition, floor))
            .map(|(place, _)| *place)
            .collect();
        let names: BTreeSet<String> = gone
            .iter()
            .filter_map(|place| self.records.remove(place))
            .map(|(name, _)| name)
            .collect();
        self.floors.insert(partition, floor);
        DiskLetter::Floor {
            floors: vec![(partition, floor)],
            topics: names.iter().map(|name| (partition, Slice::copy_of(name.as_bytes()))).collect(),
        }
    }

    /// A record is there and cannot be read.
    pub fn damage(&mut self, partition: PartitionId, offset: u64) {
        self.damaged.insert((partition, offset));
    }

    /// Damage takes a record away with all that says what it was. A start does not find it.
    #[allow(dead_code, reason = "not every test program needs it")]
    pub fn lose(&mut self, partition: PartitionId, offset: u64) {
        self.records.remove(&(partition, offset));
        self.holes.insert((partition, offset));
    }

    /// The greatest offset that damage may have taken away; 0: none.
    #[allow(dead_code, reason = "not every test program needs it")]
    pub fn damaged_through(&self, partition: PartitionId) -> u64 {
        let holes = (partition, 0)..=(partition, u64::MAX);
        let newest = self.holes.range(holes).next_back();
        newest.map_or(0, |(_, offset)| *offset)
    }

    fn has_hole(&self, partition: PartitionId, range: std::ops::RangeInclusive<u64>) -> bool {
        let (from, through) = range.into_inner();
        from <= through
            && self.holes.range((partition, from)..=(partition, through)).next().is_some()
    }

    /// The least offset that may be there.
    pub fn floor(&self, partition: PartitionId) -> u64 {
        self.floors.get(&partition).copied().unwrap_or(1)
    }

    /// All records of a partition, ascending.
    pub fn records_of(&self, partition: PartitionId) -> impl Iterator<Item = (u64, &Stored)> {
        self.records
            .range((partition, 0)..=(partition, u64::MAX))
            .map(|((_, offset), stored)| (*offset, stored))
    }

    /// Readable records of a topic with offsets in the range, and whether others were there.
    fn topic(
        &self,
        partition: PartitionId,
        topic: &Slice,
        range: std::ops::RangeInclusive<u64>,
    ) -> (Vec<Slice>, bool) {
        let topic = text(topic);
        let all = self
            .records_of(partition)
            .filter(|(offset, stored)| range.contains(offset) && stored.0 == topic);
        let is_holed = self.has_hole(partition, range.clone());
        let (whole, damaged): (Vec<_>, Vec<_>) =
            all.partition(|(offset, _)| !self.damaged.contains(&(partition, *offset)));
        let whole = whole.into_iter().map(|(_, stored)| stored.1.clone());
        (whole.collect(), is_holed || !damaged.is_empty())
    }

    fn read(&self, partition: PartitionId, query: DiskQuery) -> DiskAnswer {
        match query {
            DiskQuery::Page { topic, after, through, limits } => {
                let (records, damaged) = self.topic(partition, &topic, after + 1..=through);
                let (records, complete) = limited(records, limits);
                DiskAnswer::Page {
                    first_prev: records.first().map(|record| view(record).prev()),
                    records,
                    complete,
                    damaged,
                }
            }
            DiskQuery::PageBack { topic, before, oldest, limits } => {
                let (mut records, damaged) = self.topic(partition, &topic, oldest..=before - 1);
                records.reverse();
                let (records, complete) = limited(records, limits);
                DiskAnswer::Page {
                    first_prev: records.last().map(|record| view(record).prev()),
                    records,
                    complete,
                    damaged,
                }
            }
            DiskQuery::Start { topic, through, count, not_before_ms, after } => {
                self.start(partition, &topic, (through, after), (count, not_before_ms))
            }
            DiskQuery::Scan { filters, after, through, limits, .. } => {
                self.scan(partition, &filters, (after, through), limits)
            }
        }
    }

    /// The beginning of the newest `count` records, and of a replay after `after`.
    fn start(
        &self,
        partition: PartitionId,
        topic: &Slice,
        (through, after): (u64, u64),
        (count, not_before_ms): (u32, u64),
    ) -> DiskAnswer {
        let (records, _) = self.topic(partition, topic, 0..=through);
        let young = |record: &&Slice| view(record).time_ms() >= not_before_ms;
        let served: Vec<&Slice> =
            records.iter().rev().take(count as usize).take_while(young).collect();
        let oldest = served.last().map(|record| view(record).offset());
        let first = served.iter().rev().find(|record| view(record).offset() > after);
        let prev = first.map(|record| view(record).prev());
        let is_limited = served.len() == count as usize || served.len() < records.len();
        let begin = oldest.map_or(after, |oldest| after.max(oldest - 1));
        let missed_after = if is_limited { begin } else { after };
        let missed_through = prev.unwrap_or(through);
        let missed = missed_after + 1..=missed_through;
        DiskAnswer::Start {
            oldest,
            prev,
            count: served.len() as u32,
            damaged: self.topic(partition, topic, missed).1,
        }
    }

    /// The records after `after` that the filters cover.
    fn scan(
        &self,
        partition: PartitionId,
        filters: &[Slice],
        (after, through): (u64, u64),
        limits: PageLimits,
    ) -> DiskAnswer {
        let is_wanted = |name: &str| {
            let filters = filters.iter().map(text);
            let mut filters = filters.map(|filter| filter.to_string());
            filters.any(|filter| Filter::parse(&filter).unwrap().matches(name))
        };
        // Damage and whole records are never on one page.
        let is_lost = |offset: &u64| {
            let place = (partition, *offset);
            self.damaged.contains(&place) || self.holes.contains(&place)
        };
        let mut lost = (after + 1..=through).filter(is_lost);
        let first_lost = lost.next();
        if first_lost == Some(after + 1) {
            let whole = (after + 1..=through).find(|offset| !is_lost(offset));
            return DiskAnswer::Scan {
                floor: self.floor(partition),
                records: Vec::new(),
                through: whole.map_or(through, |whole| whole - 1),
                damaged: true,
            };
        }
        let end = first_lost.map_or(through, |lost| lost - 1);
        let all = self
            .records_of(partition)
            .filter(|(offset, stored)| *offset > after && is_wanted(&stored.0));
        let whole: Vec<_> = all.take_while(|(offset, _)| *offset <= end).collect();
        let count = whole.len();
        let records: Vec<(Slice, Slice)> = whole
            .into_iter()
            .take(limits.records_max as usize)
            .map(|(_, (name, record))| (Slice::copy_of(name.as_bytes()), record.clone()))
            .collect();
        let through = match records.last() {
            Some((_, last)) if records.len() < count => view(last).offset(),
            _ => end,
        };
        DiskAnswer::Scan { floor: self.floor(partition), damaged: false, records, through }
    }
}

fn limited(mut records: Vec<Slice>, limits: PageLimits) -> (Vec<Slice>, bool) {
    let mut bytes = 0;
    let fits = |record: &Slice| {
        bytes += record.len();
        bytes <= limits.bytes_max as usize
    };
    let fitting = records.iter().map(fits).take_while(|fits| *fits).count();
    let count = fitting.min(limits.records_max as usize).max(1);
    let complete = count >= records.len();
    records.truncate(count);
    (records, complete)
}

fn view(record: &Slice) -> RecordView<'_> {
    RecordView::parse(record).unwrap()
}

fn text(slice: &Slice) -> String {
    String::from_utf8(slice.to_vec()).unwrap()
}
