//! Damage in reads of a partition: exactly the lost records are missing.

use log::store::hostile::HostileDisk;
use log::store::{Append, ScanQuery, Store, StoreSettings};
use log::{Flags, NewRecord, PageLimits, RecordView};
use stdx::hash::Seed;

fn open(disk: &HostileDisk, new_epoch: u64) -> Store<HostileDisk> {
    let settings = StoreSettings {
        partitions_count: 1,
        segment_bytes: 16 << 10,
        bytes_max: 1 << 20,
        age_max_ms: 0,
        new_epoch,
        hash_seed: Seed(1, 2),
    };
    Store::open(disk.clone(), settings, 1).unwrap().0
}

/// A log of eight messages, one batch each; `name` returns the topic of each.
fn filled(disk: &HostileDisk) -> Store<HostileDisk> {
    let mut store = open(disk, 7);
    for offset in 1..=8 {
        let payload = format!("payload {offset} of eight, and enough of it to be found");
        let record = NewRecord {
            topic: 0,
            prev: offset - 1,
            time_ms: 1,
            flags: Flags::NONE,
            content_type: None,
            tags: &[],
            producer: None,
            idempotency_key: None,
            payload: payload.as_bytes(),
        };
        let mut bytes = Vec::new();
        record.encode_head(offset, &mut bytes).unwrap();
        bytes.extend_from_slice(record.payload);
        let append = Append { partition: 0, topic: b"t", record: &bytes };
        store.append(&[append], 1).unwrap();
    }
    store
}

/// Flips a bit in the payload of a message.
fn damage(disk: &HostileDisk, offset: u64) {
    let text = format!("payload {offset} of eight");
    for name in disk.names() {
        let bytes = disk.bytes_of(&name).unwrap();
        let mut windows = bytes.windows(text.len());
        if let Some(place) = windows.position(|window| window == text.as_bytes()) {
            assert!(disk.flip_bit(&name, place as u64, 0));
        }
    }
}

/// All pages of a scan: the offsets, the end of the page, and whether it is damaged.
fn pages(store: &mut Store<HostileDisk>) -> Vec<(Vec<u64>, u64, bool)> {
    let (mut pages, mut after) = (Vec::new(), 0);
    while after < 8 {
        let wanted = ScanQuery {
            after,
            through: 8,
            limits: PageLimits { records_max: 100, bytes_max: 1 << 20 },
            bytes_scanned_max: 1 << 20,
        };
        let found = store.scan(0, wanted, &mut |_| true).unwrap();
        let records = found.records.iter();
        let offsets = records.map(|(_, record)| RecordView::parse(record).unwrap().offset());
        pages.push((offsets.collect(), found.through, found.damaged));
        after = found.through;
    }
    pages
}

fn expected() -> Vec<(Vec<u64>, u64, bool)> {
    vec![(vec![1, 2], 2, false), (vec![], 4, true), (vec![5, 6, 7, 8], 8, false)]
}

/// Damage found by a read: the index has the records, and their bytes are damaged.
#[test]
fn a_page_ends_before_damaged_records() {
    let disk = HostileDisk::new(1);
    let mut store = filled(&disk);
    store.close().unwrap();
    damage(&disk, 3);
    damage(&disk, 4);
    assert_eq!(pages(&mut store), expected());
}

/// Damage found by a start, which has no index of the newest segment after a crash; and by the next
/// start, from the index.
#[test]
fn a_page_ends_before_a_hole() {
    let disk = HostileDisk::new(1);
    drop(filled(&disk));
    disk.kill();
    damage(&disk, 3);
    damage(&disk, 4);
    let mut store = open(&disk, 8);
    assert_eq!((store.epoch(), pages(&mut store)), (8, expected()));
    store.close().unwrap();
    drop(store);
    let mut store = open(&disk, 9);
    assert_eq!((store.epoch(), pages(&mut store)), (8, expected()));
}
