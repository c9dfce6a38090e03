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

/// A message of eight.
fn record(offset: u64) -> Vec<u8> {
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
        further: &[],
        payload: payload.as_bytes(),
    };
    let mut bytes = Vec::new();
    record.encode_head(offset, &mut bytes).unwrap();
    bytes.extend_from_slice(record.payload);
    bytes
}

/// A log of eight messages, in these batches; messages in `of_b` have topic `b`, others topic `t`.
fn filled_with(disk: &HostileDisk, batches: &[&[u64]], of_b: &[u64]) -> Store<HostileDisk> {
    let mut store = open(disk, 7);
    for batch in batches {
        let records: Vec<_> = batch.iter().map(|offset| (*offset, record(*offset))).collect();
        let appends = records.iter().map(|(offset, record)| {
            let topic = if of_b.contains(offset) { b"b" } else { b"t" };
            Append { partition: 0, topic, record }
        });
        store.append(&Vec::from_iter(appends), 1).unwrap();
    }
    store
}

/// A log of eight messages of one topic, one batch each.
fn filled(disk: &HostileDisk) -> Store<HostileDisk> {
    filled_with(disk, &[&[1], &[2], &[3], &[4], &[5], &[6], &[7], &[8]], &[])
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

/// Flips a bit in the definition of topic `b` in the oldest segment, so that its records there have
/// no topic.
fn damage_definition(disk: &HostileDisk) {
    let definition = b"CROREDEF\0\0\0\0b";
    let names = disk.names();
    let name = names.iter().find(|name| name.ends_with(".log")).unwrap();
    let bytes = disk.bytes_of(name).unwrap();
    let place = bytes.windows(definition.len()).position(|window| window == definition).unwrap();
    assert!(disk.flip_bit(name, place as u64, 0));
}

/// A start that finds a lost message in the last batch, which it does not know to be synced, begins
/// an epoch. Every later start finds the same losses and heads, whatever is left of the indexes:
/// otherwise the next messages get offsets that clients of this epoch have seen as settled.
fn check_last_batch(batches: &[&[u64]], of_b: &[u64], expected: &[(&[u64], bool)]) {
    let disk = HostileDisk::new(1);
    drop(filled_with(&disk, batches, of_b));
    disk.kill();
    damage_definition(&disk);
    let mut first = None;
    for (epoch, end) in [(8, "kill"), (9, "crash"), (10, "erase"), (11, "close"), (12, "kill")] {
        let mut store = open(&disk, epoch);
        let found = pages(&mut store);
        let short: Vec<_> = found.iter().map(|(offsets, _, lost)| (&offsets[..], *lost)).collect();
        assert_eq!((store.epoch(), &short[..]), (8, expected), "{batches:?} {of_b:?}, {end}");
        assert!(store.heads()[0] >= 8, "{batches:?} {of_b:?}, {end}: {:?}", store.heads());
        assert_eq!(*first.get_or_insert(store.heads()[0]), store.heads()[0], "{end}");
        match end {
            "close" => store.close().unwrap(),
            "crash" => disk.crash(),
            _ => disk.kill(),
        }
        let names = disk.names();
        let indexes = names.iter().filter(|name| end == "erase" && name.ends_with(".idx"));
        indexes.for_each(|name| assert!(disk.erase(name)));
    }
    // The next message gets an offset behind the losses.
    let mut store = open(&disk, 13);
    let next = store.heads()[0] + 1;
    store.append(&[Append { partition: 0, topic: b"t", record: &record(next) }], 1).unwrap();
    disk.kill();
    let store = open(&disk, 14);
    assert_eq!((store.epoch(), store.heads()[0]), (8, next));
}

#[test]
fn a_start_keeps_a_loss_in_the_last_batch() {
    // The whole batch.
    check_last_batch(
        &[&[1, 2], &[3, 4], &[5, 6], &[7], &[8]],
        &[2, 8],
        &[(&[1], false), (&[], true), (&[3, 4, 5, 6, 7], false), (&[], true)],
    );
    // Its first message, its last one, and one between others.
    check_last_batch(
        &[&[1, 2], &[3], &[4], &[5], &[6, 7, 8]],
        &[2, 6],
        &[(&[1], false), (&[], true), (&[3, 4, 5], false), (&[], true), (&[7, 8], false)],
    );
    check_last_batch(
        &[&[1, 2], &[3], &[4], &[5], &[6, 7, 8]],
        &[2, 8],
        &[(&[1], false), (&[], true), (&[3, 4, 5, 6, 7], false), (&[], true)],
    );
    check_last_batch(
        &[&[1, 2], &[3], &[4], &[5], &[6, 7, 8]],
        &[2, 7],
        &[(&[1], false), (&[], true), (&[3, 4, 5, 6], false), (&[], true), (&[8], false)],
    );
}
