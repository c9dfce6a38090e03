//! The partition against a plain list of records: appends, seals and evictions in any order, then
//! every kind of read, with sensible and senseless arguments.

use log::{
    AppendError, Evicted, ForwardLimits, HeapMemory, NewRecord, PageLimits, Partition,
    RecentRecords, RecordView, Settings, TopicIndex, scan_segment,
};
use proptest::prelude::*;
use std::collections::BTreeSet;
use stdx::chunk::Slice;
use stdx::prng::Prng;

#[derive(Clone, Debug, PartialEq)]
struct Expected {
    offset: u64,
    prev: u64,
    topic: u32,
    time_ms: u64,
    payload: Vec<u8>,
}

impl Expected {
    fn bytes(&self) -> usize {
        log::RECORD_HEADER_BYTES + self.payload.len()
    }
}

/// The partition and the list that it must equal.
struct Both {
    partition: Partition,
    memory: HeapMemory,
    list: Vec<Expected>,
    /// The last offset of each topic, evicted or not; 0 for none.
    topic_lasts: Vec<u64>,
    next_offset: u64,
}

impl Both {
    fn new(segment_bytes: usize, first_offset: u64, topics: usize) -> Both {
        let settings = Settings { segment_bytes, partition: 3, epoch: 77 };
        Both {
            partition: Partition::new(settings, first_offset),
            memory: HeapMemory::new(usize::MAX),
            list: Vec::new(),
            topic_lasts: vec![0; topics],
            next_offset: first_offset,
        }
    }

    fn append(&mut self, topic: u32, skip: u64, time_ms: u64, payload: Vec<u8>) {
        let prev = self.topic_lasts[topic as usize];
        let offset = self.next_offset + skip;
        let record = NewRecord { topic, prev, time_ms, payload: &payload, ..NewRecord::default() };
        let given = (skip > 0).then_some(offset);
        let appended = self.partition.append(&mut self.memory, given, &record).unwrap();
        let expected = Expected { offset, prev, topic, time_ms, payload };
        assert_eq!((appended.offset, read(&appended.slice)), (offset, expected.clone()));
        self.list.push(expected);
        self.topic_lasts[topic as usize] = offset;
        self.next_offset = offset + 1;
    }

    fn evicted(&mut self, evicted: &Evicted) {
        let count = self.list.partition_point(|record| record.offset <= evicted.last);
        let gone: Vec<Expected> = self.list.drain(..count).collect();
        assert_eq!(gone.first().map(|record| record.offset), Some(evicted.first));
        let bytes: usize = gone.iter().map(Expected::bytes).sum();
        assert_eq!(evicted.bytes, log::SEGMENT_HEADER_BYTES + bytes);
        let topics: BTreeSet<u32> = gone.iter().map(|record| record.topic).collect();
        assert!(evicted.topics().eq(topics));
    }

    fn check_counts(&self) {
        let Both { partition, list, .. } = self;
        let bytes: usize = list.iter().map(Expected::bytes).sum();
        let headers = partition.segments() * log::SEGMENT_HEADER_BYTES;
        assert_eq!((partition.bytes(), partition.records()), (bytes + headers, list.len()));
        assert_eq!(partition.oldest(), list.first().map(|record| record.offset));
        assert_eq!(partition.next_offset(), self.next_offset);
        assert_eq!(partition.head(), self.next_offset - 1);
        assert_eq!(self.memory.chunks(), partition.segments());
        assert_eq!(self.memory.bytes(), partition.allocated_bytes());
    }

    fn check_by_offset(&self, offset: u64) {
        let place = self.list.partition_point(|record| record.offset < offset);
        let after = self.list.get(place).cloned();
        let at = after.clone().filter(|record| record.offset == offset);
        let (partition, read) = (&self.partition, |slice: Slice| read(&slice));
        assert_eq!(partition.first_at_or_after(offset).map(read), after);
        assert_eq!(partition.record_at(offset).map(read), at);
    }

    fn check_topic(&self, topic: u32, last: u64, after: u64, limits: PageLimits) {
        let wanted = |record: &&Expected| {
            record.topic == topic && record.offset > after && record.offset <= last
        };
        let all: Vec<Expected> = self.list.iter().filter(wanted).cloned().collect();
        let count = fitting(all.iter(), limits);
        let mut out = Vec::new();
        let page = self.partition.read_topic(topic, last, after, limits, &mut out);
        let found: Vec<Expected> = out.iter().map(read).collect();
        assert_eq!(found, all[..count], "topic {topic} last {last} after {after} {limits:?}");
        let complete = count == all.len();
        let through = if complete { after.max(last) } else { all[count - 1].offset };
        assert_eq!((page.complete, page.through), (complete, through));
        assert_eq!(page.first_prev, all.first().map(|record| record.prev));
    }

    fn check_topic_back(&self, topic: u32, last: u64, before: u64, limits: PageLimits) {
        let wanted = |record: &&Expected| {
            record.topic == topic && record.offset < before && record.offset <= last
        };
        let all: Vec<Expected> = self.list.iter().rev().filter(wanted).cloned().collect();
        let count = fitting(all.iter(), limits);
        let mut out = Vec::new();
        let page = self.partition.read_topic_back(topic, last, before, limits, &mut out);
        let found: Vec<Expected> = out.iter().map(read).collect();
        assert_eq!(found, all[..count], "topic {topic} last {last} before {before} {limits:?}");
        let oldest = found.last();
        assert_eq!(page.complete, count == all.len());
        assert_eq!(page.through, oldest.map_or(before, |record| record.offset));
        assert_eq!(page.first_prev, oldest.map(|record| record.prev));
    }

    fn check_newest(&self, topic: u32, last: u64, count: usize, not_before_ms: u64) {
        let of_topic = |record: &&Expected| record.topic == topic && record.offset <= last;
        let newest = self.list.iter().rev().filter(of_topic).take(count);
        let qualify: Vec<&Expected> =
            newest.take_while(|record| record.time_ms >= not_before_ms).collect();
        let present = self.list.iter().filter(of_topic).count();
        let start = self.partition.newest_of_topic(topic, last, count, not_before_ms);
        assert_eq!(start.oldest, qualify.last().map(|record| record.offset));
        assert_eq!(start.all, qualify.len() == present && (present == 0 || present < count));
        let count = count as u32;
        let recent = self.partition.recent_of_topic(topic, last, count, not_before_ms);
        let wanted = RecentRecords {
            count: qualify.len() as u32,
            oldest_ms: qualify.last().map_or(0, |record| record.time_ms),
            is_cut: self.list.iter().rev().filter(of_topic).nth(count as usize).is_some_and(
                |next| qualify.len() == count as usize && next.time_ms >= not_before_ms,
            ),
        };
        assert_eq!(recent, wanted);
    }

    /// Checks one forward read whose visitor accepts `take` records.
    fn check_forward(&self, from: u64, limits: PageLimits, take: usize) {
        let all: Vec<&Expected> = self.list.iter().filter(|record| record.offset >= from).collect();
        let count = fitting(all.iter().copied(), limits).min(take);
        let mut found = Vec::new();
        let limits =
            ForwardLimits { records_max: limits.records_max, bytes_scanned_max: limits.bytes_max };
        let next = self.partition.read_forward(from, limits, &mut |slice, record| {
            assert_eq!(&*slice, record.bytes());
            let takes = found.len() < take;
            if takes {
                found.push(read(&slice));
            }
            takes
        });
        assert!(found.iter().eq(all[..count].iter().copied()));
        let rest = all.get(count).map(|record| record.offset);
        assert_eq!(next, rest.unwrap_or(from.max(self.next_offset)));
    }

    /// Checks that table and index built while appending equal those built from the bytes.
    fn check_rebuilt(&self) {
        let mut offsets = self.list.iter();
        for bytes in self.partition.segment_bytes() {
            let (header, table) = scan_segment(bytes).unwrap();
            assert_eq!((header.partition, header.epoch), (3, 77));
            let index = TopicIndex::build(bytes, &table);
            let mut by_topic = 0;
            for topic in index.topics() {
                let positions = index.positions_of(topic);
                assert!(!positions.is_empty() && positions.is_sorted());
                for position in positions {
                    assert_eq!(
                        RecordView::parse(&bytes[*position as usize..]).unwrap().topic(),
                        topic
                    );
                }
                by_topic += positions.len();
            }
            assert_eq!(by_topic, table.len());
            for number in 0..table.len() {
                let position = table.position(number).unwrap() as usize;
                let found = RecordView::parse(&bytes[position..]).unwrap().offset();
                assert_eq!(Some(found), offsets.next().map(|record| record.offset));
            }
            assert!(index.positions_of(u32::MAX).is_empty());
        }
        assert!(offsets.next().is_none());
    }

    fn check_everything(&self, prng: &mut Prng) {
        self.check_counts();
        let end = self.next_offset + 3;
        for _ in 0..4 {
            let mut offset = || match prng.below(12) {
                0 => [0, u64::MAX, u64::MAX - 1][prng.below(3) as usize],
                _ => prng.below(end),
            };
            let (one, two) = (offset(), offset());
            let topic = prng.below(self.topic_lasts.len() as u64) as u32;
            let last = match prng.below(4) {
                0 => two,
                _ => self.topic_lasts[topic as usize],
            };
            let limits = PageLimits {
                records_max: [0, 1, 3, 20, usize::MAX][prng.below(5) as usize],
                bytes_max: [0, 50, 300, usize::MAX, usize::MAX][prng.below(5) as usize],
            };
            self.check_by_offset(one);
            self.check_topic(topic, last, one, limits);
            self.check_topic_back(topic, last, one, limits);
            self.check_newest(topic, last, prng.below(8) as usize, prng.below(1_100));
            self.check_forward(one, limits, prng.below(10) as usize);
            self.check_forward(one, limits, usize::MAX);
        }
    }
}

/// The number of the records, in this order, that fit into one page.
fn fitting<'a>(records: impl Iterator<Item = &'a Expected>, limits: PageLimits) -> usize {
    let mut bytes = 0usize;
    let fits = |(number, record): &(usize, &Expected)| {
        bytes += record.bytes();
        *number == 0 || *number < limits.records_max && bytes <= limits.bytes_max
    };
    records.enumerate().take_while(fits).count()
}

fn read(slice: &Slice) -> Expected {
    let record = RecordView::parse(slice).unwrap();
    Expected {
        offset: record.offset(),
        prev: record.prev(),
        topic: record.topic(),
        time_ms: record.time_ms(),
        payload: record.payload().to_vec(),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Append { topic: u32, skip: u64, time_ms: u64, payload_bytes: usize },
    Seal,
    Evict,
    EvictOlder { time_ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let skip = prop_oneof![6 => Just(0u64), 3 => 1u64..4, 1 => Just(1 << 33)];
    let payload_bytes = prop_oneof![9 => 0usize..60, 1 => 200usize..2_000];
    let append = (0u32..5, skip, 0u64..1_000, payload_bytes).prop_map(
        |(topic, skip, time_ms, payload_bytes)| Step::Append {
            topic,
            skip,
            time_ms,
            payload_bytes,
        },
    );
    prop_oneof![
        30 => append,
        1 => Just(Step::Seal),
        2 => Just(Step::Evict),
        1 => (0u64..1_000).prop_map(|time_ms| Step::EvictOlder { time_ms }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn partitions_agree_with_a_list(
        segment_bytes in 0usize..900,
        first_offset in prop_oneof![Just(1u64), 1u64..1_000],
        seed: u64,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut prng = Prng::new(seed);
        let mut both = Both::new(segment_bytes, first_offset, 5);
        for step in steps {
            match step {
                Step::Append { topic, skip, time_ms, payload_bytes } => {
                    let mut payload = vec![0; payload_bytes];
                    prng.fill(&mut payload);
                    both.append(topic, skip, time_ms, payload);
                }
                Step::Seal => both.partition.seal(),
                Step::Evict => match both.partition.evict_oldest_segment(&mut both.memory) {
                    Some(evicted) => both.evicted(&evicted),
                    None => assert!(both.list.is_empty()),
                },
                Step::EvictOlder { time_ms } => {
                    while let Some(evicted) =
                        both.partition.evict_older_than(&mut both.memory, time_ms)
                    {
                        let last = evicted.last;
                        let older = |record: &Expected| record.time_ms < time_ms;
                        assert!(both.list.iter().take_while(|r| r.offset <= last).all(older));
                        both.evicted(&evicted);
                    }
                }
            }
            both.check_everything(&mut prng);
        }
        both.check_rebuilt();
        both.partition.close(&mut both.memory);
        assert_eq!((both.memory.bytes(), both.memory.chunks()), (0, 0));
    }
}

/// One large active segment, with a topic of so many records that the walk along `prev` ends early.
#[test]
fn a_topic_with_many_records_in_the_active_segment_is_read() {
    let mut prng = Prng::new(3);
    let mut both = Both::new(1 << 20, 1, 3);
    for number in 0..4_000u64 {
        let topic = if prng.chance(0.9) { 0 } else { 1 };
        both.append(topic, prng.below(2), number / 4, vec![7; prng.below(9) as usize]);
    }
    assert_eq!(both.partition.segments(), 1);
    for _ in 0..40 {
        both.check_everything(&mut prng);
    }
    both.check_newest(0, both.topic_lasts[0], 3_000, 0);
    // Read the whole topic, page by page, in both directions, as a recovering subscriber does.
    let limits = PageLimits { records_max: 100, bytes_max: 5_000 };
    let (mut forward, mut after) = (Vec::new(), 0);
    loop {
        let page = both.partition.read_topic(0, both.topic_lasts[0], after, limits, &mut forward);
        assert!(page.first_prev.is_some_and(|prev| prev <= after));
        after = page.through;
        if page.complete {
            break;
        }
    }
    let (mut backward, mut before) = (Vec::new(), u64::MAX);
    loop {
        let page =
            both.partition.read_topic_back(0, both.topic_lasts[0], before, limits, &mut backward);
        before = page.through;
        if page.complete {
            break;
        }
    }
    backward.reverse();
    assert!(forward == backward && after == both.topic_lasts[0]);
    assert_eq!(forward.len(), both.list.iter().filter(|record| record.topic == 0).count());
}

#[test]
fn refused_appends_change_nothing() {
    let settings = Settings { segment_bytes: 200, partition: 0, epoch: 1 };
    let mut partition = Partition::new(settings, 0);
    let mut memory = HeapMemory::new(450);
    let record = NewRecord { payload: &[1; 60], ..NewRecord::default() };
    assert_eq!(partition.append(&mut memory, None, &record).unwrap().offset, 1);
    let long = vec![0; 70_000];
    let large = vec![0; 300];
    let offset_refused = AppendError::Offset { next_offset: 2 };
    let cases: [(Option<u64>, NewRecord<'_>, AppendError); 6] = [
        (Some(1), record, offset_refused),
        (Some(0), record, offset_refused),
        (Some(u64::MAX), record, offset_refused),
        (None, NewRecord { prev: 2, ..record }, AppendError::Prev),
        (None, NewRecord { content_type: Some(&long), ..record }, AppendError::FieldsTooLong),
        (
            None,
            NewRecord { payload: &large, ..record },
            AppendError::Memory(log::MemoryRefused { capacity: 404 }),
        ),
    ];
    for (offset, record, expected) in cases {
        let before = (partition.bytes(), partition.next_offset(), memory.bytes());
        assert_eq!(partition.append(&mut memory, offset, &record), Err(expected));
        assert_eq!((partition.bytes(), partition.next_offset(), memory.bytes()), before);
        assert!(!expected.to_string().is_empty());
    }
    // The active segment stayed active: a record that fits is still appended to it.
    let small = NewRecord { payload: b"", prev: 1, ..NewRecord::default() };
    while partition.append(&mut memory, None, &small).is_ok() {}
    assert_eq!((partition.segments(), memory.bytes()), (2, 400));
    assert!(partition.evict_oldest_segment(&mut memory).is_some());
    assert!(partition.append(&mut memory, None, &small).is_ok());
    partition.append(&mut memory, Some(u64::MAX - 1), &small).unwrap_err();
    partition.evict_oldest_segment(&mut memory).unwrap();
    partition.append(&mut memory, Some(u64::MAX - 1), &small).unwrap();
    assert_eq!(partition.head(), u64::MAX - 1);
    partition.append(&mut memory, None, &small).unwrap_err();
}

/// Slices outlive the eviction of their segment.
#[test]
fn slices_outlive_eviction() {
    let mut both = Both::new(4096, 1, 1);
    both.append(0, 0, 5, b"still here".to_vec());
    let slice = both.partition.record_at(1).unwrap();
    assert!(both.partition.evict_older_than(&mut both.memory, 5).is_none());
    assert!(both.partition.evict_older_than(&mut both.memory, 6).is_some());
    assert_eq!(
        (both.memory.chunks(), both.partition.head(), both.partition.oldest()),
        (0, 1, None)
    );
    assert_eq!(read(&slice).payload, b"still here");
}

/// Memory in addition to the records themselves, as documented.
#[test]
fn indexes_have_their_documented_size() {
    let (records, topics) = (10_000u64, 100);
    let mut both = Both::new(16 << 20, 1, topics);
    for number in 0..records {
        both.append(number as u32 % topics as u32, 0, 0, vec![0; 512]);
    }
    assert!(both.partition.index_bytes() as u64 <= 16 * records);
    both.partition.seal();
    assert_eq!(both.partition.index_bytes() as u64, 12 * records + 8 * topics as u64);
    let bytes = both.partition.bytes() as u64;
    assert_eq!(bytes, 64 + records * (40 + 512));
}

#[test]
fn invalid_segments_are_refused() {
    use log::SegmentError::{Header, Record, Version};
    let mut both = Both::new(4096, 9, 1);
    both.append(0, 0, 0, b"one".to_vec());
    both.append(0, 0, 0, b"two".to_vec());
    let bytes = both.partition.segment_bytes().next().unwrap().to_vec();
    let second = 64 + 40 + 3;
    let check = |change: &dyn Fn(&mut Vec<u8>), expected| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        assert_eq!(scan_segment(&bytes).map(|(_, table)| table.len()), expected);
    };
    check(&|_| {}, Ok(2));
    check(&|bytes| bytes.extend([0; 100]), Ok(2));
    check(&|bytes| bytes.truncate(64), Ok(0));
    check(&|bytes| bytes.truncate(63), Err(Header));
    check(&|bytes| bytes.clear(), Err(Header));
    check(&|bytes| bytes[0] = b'X', Err(Header));
    check(&|bytes| bytes[10] = 0, Err(Header));
    check(&|bytes| bytes[11] = 0xff, Err(Header));
    check(&|bytes| bytes[8] = 2, Err(Version { version: 2, flags: 0 }));
    check(&|bytes| bytes[32] = 4, Err(Version { version: 1, flags: 4 }));
    check(&|bytes| bytes.truncate(bytes.len() - 1), Err(Record { position: second }));
    check(&|bytes| bytes.push(1), Err(Record { position: bytes.len() }));
    check(&|bytes| bytes[second + 8] = 9, Err(Record { position: second }));
    check(&|bytes| bytes[24] = 10, Err(Record { position: 64 }));
    check(&|bytes| bytes[second + 37] = 0x80, Ok(1));
}

/// Records that are already encoded keep all but the topic and the checksum, and offsets may be
/// skipped.
#[test]
fn encoded_records_are_appended() {
    let settings = Settings { segment_bytes: 200, partition: 0, epoch: 1 };
    let mut memory = HeapMemory::new(1 << 20);
    let mut partition = Partition::new(settings, 1);
    let new = |prev: u64, payload: &'static [u8]| NewRecord {
        topic: 77,
        prev,
        time_ms: 5,
        content_type: Some(b"text/plain"),
        payload,
        ..NewRecord::default()
    };
    let encode = |offset: u64, record: &NewRecord<'_>| {
        let mut bytes = Vec::new();
        record.encode_head(offset, &mut bytes).unwrap();
        bytes[4..8].copy_from_slice(&[1, 2, 3, 4]);
        bytes.extend_from_slice(record.payload);
        bytes
    };
    let first = encode(3, &new(0, b"one"));
    let second = encode(9, &new(3, b"two"));
    for bytes in [&first, &second] {
        let view = RecordView::parse(bytes).unwrap();
        let appended = partition.append_record(&mut memory, 4, &view).unwrap();
        let copy = RecordView::parse(&appended.slice).unwrap();
        assert_eq!((copy.topic(), copy.crc32c()), (4, 0));
        assert_eq!((copy.offset(), copy.prev()), (view.offset(), view.prev()));
        assert_eq!(
            (copy.time_ms(), copy.payload(), copy.content_type()),
            (5, view.payload(), view.content_type())
        );
    }
    let again = partition.append_record(&mut memory, 4, &RecordView::parse(&second).unwrap());
    assert_eq!(again, Err(AppendError::Offset { next_offset: 10 }));
    partition.skip_to(20);
    partition.skip_to(15);
    assert_eq!((partition.head(), partition.oldest()), (19, Some(3)));
    let appended = partition.append(&mut memory, None, &new(9, b"three")).unwrap();
    assert_eq!(appended.offset, 20);
}
