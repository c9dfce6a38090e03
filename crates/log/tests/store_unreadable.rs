//! A disk with permanently unreadable bytes; one that removes no file; one that is full when
//! retention is due.

use log::store::hostile::HostileDisk;
use log::store::{Append, Dropped, ScanQuery, StartQuery, Store, StoreError, StoreSettings};
use log::{Flags, NewRecord, PageLimits, RecordView};
use stdx::hash::Seed;

const BYTES_MAX: u64 = 64 << 10;
const SEGMENT_BYTES: u64 = 16 << 10;
const ALL: PageLimits = PageLimits { records_max: usize::MAX, bytes_max: usize::MAX };
const FIRST: &str = "0000000000000001.log";
const FIRST_INDEX: &str = "0000000000000001.idx";

fn open(disk: &HostileDisk, new_epoch: u64) -> Store<HostileDisk> {
    let settings = StoreSettings {
        partitions_count: 1,
        segment_bytes: SEGMENT_BYTES,
        bytes_max: BYTES_MAX,
        age_max_ms: 0,
        new_epoch,
        hash_seed: Seed(1, 2),
    };
    Store::open(disk.clone(), settings, 1_000).unwrap().0
}

fn try_append(
    store: &mut Store<HostileDisk>,
    topic: &str,
    offset: u64,
    flags: Flags,
) -> Result<(), StoreError> {
    let payload = [offset as u8; 500];
    let record =
        NewRecord { flags, time_ms: 1_000 + offset, payload: &payload, ..NewRecord::default() };
    let mut bytes = Vec::new();
    record.encode_head(offset, &mut bytes).unwrap();
    bytes.extend_from_slice(&payload);
    let append = Append { partition: 0, topic: topic.as_bytes(), record: &bytes };
    store.append(&[append], 1_000)
}

fn append(store: &mut Store<HostileDisk>, topic: &str, offset: u64) {
    try_append(store, topic, offset, Flags::NONE).unwrap();
}

/// The first byte of the record with an offset, in the first segment.
fn place_of(disk: &HostileDisk, offset: u64) -> u64 {
    let payload = [offset as u8; 500];
    let bytes = disk.bytes_of(FIRST).unwrap();
    let place = bytes.windows(500).position(|window| window == payload);
    place.unwrap() as u64 - 40
}

/// A log with 40 messages in several segments.
fn log_with_40() -> (HostileDisk, Store<HostileDisk>) {
    let disk = HostileDisk::new(1);
    let mut store = open(&disk, 1);
    for offset in 1..=40 {
        append(&mut store, "t", offset);
    }
    (disk, store)
}

type Read = Result<(Vec<u64>, bool), StoreError>;

fn offsets(records: &[stdx::chunk::Slice]) -> Vec<u64> {
    let offset = |record| RecordView::parse(record).unwrap().offset();
    records.iter().map(|record| offset(record)).collect()
}

fn page(store: &mut Store<HostileDisk>) -> Read {
    let page = store.page(0, b"t", 0, 40, ALL)?;
    Ok((offsets(&page.records), page.damaged))
}

fn page_back(store: &mut Store<HostileDisk>) -> Read {
    let page = store.page_back(0, b"t", 41, 1, ALL)?;
    let mut offsets = offsets(&page.records);
    offsets.reverse();
    Ok((offsets, page.damaged))
}

fn scan(store: &mut Store<HostileDisk>) -> Read {
    let (mut after, mut read, mut is_damaged) = (0, Vec::new(), false);
    while after < 40 {
        let wanted = ScanQuery { after, through: 40, limits: ALL, bytes_scanned_max: u64::MAX };
        let found = store.scan(0, wanted, &mut |_| true)?;
        let records: Vec<_> = found.records.into_iter().map(|(_, it)| it).collect();
        read.extend(offsets(&records));
        is_damaged |= found.damaged;
        after = found.through;
    }
    Ok((read, is_damaged))
}

/// Finds a start by age, which has to read the times of records.
fn start(store: &mut Store<HostileDisk>) -> Read {
    let wanted = StartQuery { through: 40, count: 100, not_before_ms: 1_002, after: 0 };
    let start = store.start(0, b"t", wanted)?;
    assert_eq!(start.oldest, Some(2));
    let (offsets, damaged) = page(store)?;
    Ok((offsets, damaged))
}

/// Repeats a read each second, as clients do; returns the number of temporary refusals.
fn insist(
    store: &mut Store<HostileDisk>,
    read: impl Fn(&mut Store<HostileDisk>) -> Read,
) -> (usize, Vec<u64>, bool) {
    for refused in 0..20 {
        if let Ok((offsets, damaged)) = read(store) {
            return (refused, offsets, damaged);
        }
        assert_eq!(store.expire(1_000), Ok(None));
    }
    panic!("refused for ever");
}

/// An unreadable message is refused at first, and then counts as damaged: only this message, and
/// for every kind of read.
#[test]
fn an_unreadable_message_becomes_a_gap() {
    let all_but_3: Vec<u64> = (1..=40).filter(|offset| *offset != 3).collect();
    for read in [page, page_back, scan, start] {
        let (disk, mut store) = log_with_40();
        let place = place_of(&disk, 3);
        assert!(disk.break_bytes(FIRST, place + 100..place + 101));
        let (refused, offsets, damaged) = insist(&mut store, read);
        assert!(refused >= 5, "refused for the moment {refused} times");
        assert_eq!((offsets, damaged), (all_but_3.clone(), true));
        assert_eq!(read(&mut store).unwrap(), (all_but_3.clone(), true));
    }
}

/// A temporary failure is not damage, however often it occurs.
#[test]
fn a_temporary_failure_loses_nothing() {
    let (disk, mut store) = log_with_40();
    for _ in 0..30 {
        disk.fail_reads(100);
        assert!(page(&mut store).is_err());
        disk.stop_faults();
        assert_eq!(page(&mut store).unwrap(), ((1..=40).collect(), false));
        assert_eq!(store.expire(1_000), Ok(None));
    }
}

/// Two failures, seconds apart, lose nothing, for any number of readers.
#[test]
fn many_readers_count_as_one_attempt() {
    let (disk, mut store) = log_with_40();
    for _ in 0..2 {
        disk.fail_reads(u32::MAX);
        for _ in 0..20 {
            assert!(page(&mut store).is_err());
        }
        disk.stop_faults();
        for _ in 0..8 {
            assert_eq!(store.expire(1_000), Ok(None));
        }
    }
    assert_eq!(page(&mut store).unwrap(), ((1..=40).collect(), false));
}

/// An unreadable index is rebuilt from its segment, while the log is served and at a start.
#[test]
fn an_unreadable_index_is_rebuilt() {
    let everything = ((1..=40).collect(), false);
    // Names so long that the index has pages which are not cached.
    let disk = HostileDisk::new(1);
    let mut store = open(&disk, 1);
    let topic = |number: u64| format!("{number:0250}");
    for number in 1..=40 {
        append(&mut store, &topic(number), number);
    }
    assert!(disk.break_bytes(FIRST_INDEX, 0..1 << 20));
    for number in 1..=10 {
        let page = store.page(0, topic(number).as_bytes(), 0, 40, ALL).unwrap();
        assert_eq!((offsets(&page.records), page.damaged), (vec![number], false));
    }
    assert!(!disk.is_broken(), "the file is a new one");

    let (disk, mut store) = log_with_40();
    for is_closed in [true, false] {
        if is_closed {
            store.close().unwrap();
        }
        drop(store);
        disk.kill();
        for name in disk.names().iter().filter(|name| name.ends_with(".idx")) {
            assert!(disk.break_bytes(name, 0..1 << 20));
        }
        store = open(&disk, 2);
        assert_eq!((store.epoch(), page(&mut store).unwrap()), (1, everything.clone()));
        let mut count = 0;
        store.topics(&mut |_, _, _| count += 1).unwrap();
        assert_eq!(count, 1);
    }
}

/// An unreadable head has a copy in the index.
#[test]
fn an_unreadable_head_does_not_stop_a_start() {
    let (disk, store) = log_with_40();
    drop(store);
    disk.kill();
    assert!(disk.break_bytes(FIRST, 0..10));
    let mut store = open(&disk, 2);
    assert_eq!((store.epoch(), page(&mut store).unwrap()), (1, ((1..=40).collect(), false)));
}

/// Appends three times `bytes_max`, with a retention check after each message. Returns the number
/// of dropped messages, and of lost retained ones. `bytes()` must stay bounded, and in the end the
/// first segments are dropped.
fn fill(store: &mut Store<HostileDisk>, from: u64) -> (u64, u64) {
    let (mut dropped, mut lost, mut bytes_most) = (0, 0, 0);
    let count = 3 * BYTES_MAX / 500;
    for offset in from..from + count {
        append(store, "t", offset);
        while let Ok(Some(Dropped { retained_lost, .. })) = store.expire(1_000) {
            dropped += 1;
            lost += retained_lost;
        }
        bytes_most = bytes_most.max(store.bytes());
    }
    let bound = BYTES_MAX + BYTES_MAX / 2 + SEGMENT_BYTES;
    assert!(bytes_most <= bound, "{bytes_most} of {bound}");
    (dropped, lost)
}

fn retained(store: &mut Store<HostileDisk>) -> Vec<u64> {
    let mut offsets = Vec::new();
    store.retained(&mut |_, _, record| offsets.push(record.offset())).unwrap();
    offsets.sort_unstable();
    offsets
}

/// Two retained messages in the first segment: an unreadable one blocks neither retention nor the
/// other one.
#[test]
fn retention_continues_without_unreadable_messages() {
    let disk = HostileDisk::new(1);
    let mut store = open(&disk, 1);
    try_append(&mut store, "kept/1", 1, Flags::RETAINED).unwrap();
    try_append(&mut store, "kept/2", 2, Flags::RETAINED).unwrap();
    let place = place_of(&disk, 1);
    assert!(disk.break_bytes(FIRST, place + 60..place + 61));
    let (dropped, lost) = fill(&mut store, 3);
    assert!(dropped > 8, "{dropped}");
    assert_eq!((lost, retained(&mut store)), (1, vec![2]));
}

/// Neither the index nor the segment is readable: the segment is dropped without copies.
#[test]
fn retention_continues_without_an_unreadable_segment() {
    let disk = HostileDisk::new(1);
    let mut store = open(&disk, 1);
    try_append(&mut store, "kept", 1, Flags::RETAINED).unwrap();
    for offset in 2..=40 {
        append(&mut store, "t", offset);
    }
    for name in [FIRST, FIRST_INDEX] {
        assert!(disk.break_bytes(name, 0..1 << 20));
    }
    let (dropped, lost) = fill(&mut store, 41);
    assert!(dropped > 8, "{dropped}");
    assert_eq!((lost, retained(&mut store)), (1, vec![]));
}

/// No file can be removed: the failure is reported, the log continues without the files, and a
/// start does not take them for its segments.
#[test]
fn retention_continues_if_no_file_can_be_removed() {
    let disk = HostileDisk::new(1);
    let mut store = open(&disk, 1);
    disk.fail_removes(true);
    let (dropped, _) = fill(&mut store, 1);
    assert!(dropped > 8, "{dropped}");
    assert!(store.take_removals_failed() > 8);
    let floor = store.floor(0);
    for how in ["kill", "crash"] {
        drop(store);
        match how {
            "kill" => disk.kill(),
            _ => disk.crash(),
        }
        store = open(&disk, 2);
        assert_eq!((store.epoch(), store.floor(0)), (1, floor), "{how}");
    }
    disk.fail_removes(false);
    drop(store);
    store = open(&disk, 3);
    assert_eq!((store.epoch(), store.floor(0)), (1, floor));
    assert!(!disk.names().contains(&FIRST.to_owned()), "it is removed at last");
}

/// Other programs have filled the disk: a due segment with a retained message is dropped without
/// it, after ten checks.
#[test]
fn retention_makes_room_on_a_full_disk() {
    let disk = HostileDisk::new(1);
    let mut store = open(&disk, 1);
    try_append(&mut store, "kept", 1, Flags::RETAINED).unwrap();
    let mut offset = 2;
    while store.bytes() <= BYTES_MAX {
        append(&mut store, "t", offset);
        offset += 1;
    }
    disk.set_capacity(Some(disk.bytes()));
    assert!(try_append(&mut store, "t", offset, Flags::NONE).is_err());
    let mut looks = 0;
    let dropped = loop {
        looks += 1;
        match store.expire(1_000) {
            Ok(Some(dropped)) => break dropped,
            Ok(None) => panic!("nothing is due"),
            Err(_) => assert!(looks < 20, "it holds on for ever"),
        }
    };
    assert_eq!((looks, dropped.retained_lost), (11, 1));
    store.probe(1_000).unwrap();
    try_append(&mut store, "t", offset + 1, Flags::NONE).unwrap();
}
