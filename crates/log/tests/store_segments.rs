//! Rare cases of the store's model: a segment with more retained messages than the bound of single
//! lookups, and one lost from the middle of the chain.

use log::store::hostile::HostileDisk;
use log::store::{Append, Store, StoreSettings};
use log::{Flags, NewRecord};
use stdx::hash::Seed;

const BYTES_MAX: u64 = 64 << 10;

fn settings(new_epoch: u64) -> StoreSettings {
    StoreSettings {
        partitions_count: 1,
        segment_bytes: 4096,
        bytes_max: BYTES_MAX,
        age_max_ms: 0,
        new_epoch,
        hash_seed: Seed(1, 2),
    }
}

fn open(disk: &HostileDisk, new_epoch: u64) -> Store<HostileDisk> {
    Store::open(disk.clone(), settings(new_epoch), 1).unwrap().0
}

fn append(store: &mut Store<HostileDisk>, topic: &str, offset: u64, flags: Flags, bytes: usize) {
    let payload = vec![7; bytes];
    let record = NewRecord { flags, payload: &payload, ..NewRecord::default() };
    let mut encoded = Vec::new();
    record.encode_head(offset, &mut encoded).unwrap();
    encoded.extend_from_slice(record.payload);
    let append = Append { partition: 0, topic: topic.as_bytes(), record: &encoded };
    store.append(&[append], 1).unwrap();
}

/// The segment has so many retained messages that they are compared list by list with later ones.
#[test]
fn current_retained_messages_of_a_large_segment_stay() {
    let disk = HostileDisk::new(3);
    let settings = StoreSettings { segment_bytes: 64 << 10, bytes_max: 256 << 10, ..settings(7) };
    let mut store = Store::open(disk.clone(), settings, 1).unwrap().0;
    let topic = |number| format!("state/{number}");
    for number in 1..=100 {
        append(&mut store, &topic(number), number, Flags::RETAINED, 200);
    }
    for offset in 101..=150 {
        append(&mut store, "ticks", offset, Flags::NONE, 1_000);
    }
    // A later segment replaces some and clears some.
    for number in (1..=100).filter(|number| number % 3 > 0) {
        let bytes = if number % 3 == 1 { 100 } else { 0 };
        append(&mut store, &topic(number), 200 + number, Flags::RETAINED, bytes);
    }
    let mut dropped = 0;
    for offset in 301..=900 {
        append(&mut store, "ticks", offset, Flags::NONE, 1_000);
        dropped += usize::from(store.expire(1).unwrap().is_some());
    }
    assert!(dropped > 3, "{dropped}");
    let mut found = Vec::new();
    store
        .retained(&mut |_, name, record| {
            found.push((String::from_utf8(name.to_vec()).unwrap(), record.offset()));
        })
        .unwrap();
    found.sort();
    let expected = (1..=100).filter_map(|number| match number % 3 {
        0 => Some((topic(number), number)),
        1 => Some((topic(number), 200 + number)),
        _ => None,
    });
    let mut expected: Vec<(String, u64)> = expected.collect();
    expected.sort();
    assert_eq!(found, expected);
}

/// A start could not report a hole in memory, so its records begin behind the lost segment.
#[test]
fn the_newest_records_begin_behind_a_lost_segment() {
    let disk = HostileDisk::new(2);
    let mut store = open(&disk, 7);
    for offset in 1..=20 {
        append(&mut store, "t", offset, Flags::NONE, 600);
    }
    store.close().unwrap();
    drop(store);
    let mut segments: Vec<String> = disk.names();
    segments.retain(|name| name.ends_with(".log"));
    segments.sort();
    assert!(segments.len() > 3);
    let lost = &segments[segments.len() - 2];
    assert!(disk.erase(lost));
    assert!(disk.erase(&lost.replace(".log", ".idx")));
    let mut store = open(&disk, 8);
    assert_eq!(store.epoch(), 8);
    let mut offsets = Vec::new();
    store.recent(u64::MAX, &mut |_, _, record| offsets.push(record.offset())).unwrap();
    assert_eq!(offsets.last(), Some(&20));
    assert!(offsets.windows(2).all(|pair| pair[1] == pair[0] + 1), "{offsets:?}");
}
