//! The durable store over files of arbitrary bytes.
//!
//! Assertions: for any files in its directory, opening, reading and verifying never panic; if the
//! log opens, it accepts a batch, and finds it again.

use log::store::hostile::HostileDisk;
use log::store::{
    Append, OnceWindow, ScanQuery, SegmentOnce, StartQuery, Store, StoreSettings, WITNESS_NAME,
};
use log::{PageLimits, RecordView};
use stdx::hash::Seed;

const PARTITIONS: u32 = 2;
const SEGMENT: &str = "0000000000000001.log";
const INDEX: &str = "0000000000000001.idx";
const ALL: PageLimits = PageLimits { records_max: 1_000, bytes_max: 1 << 20 };

/// A segment of arbitrary bytes; and one with a valid head and arbitrary batches.
pub fn store_segment(data: &[u8]) {
    let disk = template();
    disk.put(SEGMENT, data);
    disk.erase(INDEX);
    drive(&disk);
    let disk = template();
    let head = disk.bytes_of(SEGMENT).unwrap_or_default();
    let head = &head[..head.len().min(64 + 8 * PARTITIONS as usize)];
    disk.put(SEGMENT, &[head, data].concat());
    disk.erase(INDEX);
    drive(&disk);
}

/// An index, a file of epochs, and a record of the end, of arbitrary bytes beside a valid segment.
pub fn store_index(data: &[u8]) {
    let disk = template();
    disk.put(INDEX, data);
    drive(&disk);
    for name in ["epochs", "end", WITNESS_NAME] {
        let disk = template();
        disk.put(name, data);
        drive(&disk);
    }
}

/// The files of the template, as seeds.
pub fn template_bytes(is_index: bool) -> Vec<Vec<u8>> {
    let disk = template();
    let names =
        if is_index { &[INDEX, "epochs", "end"][..] } else { &[SEGMENT, "0000000000000002.log"] };
    names.iter().filter_map(|name| disk.bytes_of(name)).collect()
}

/// A small log that was closed and reopened once.
fn template() -> HostileDisk {
    let disk = HostileDisk::new(1);
    for offset in [1, 4] {
        let Ok((mut store, _)) = Store::open(disk.clone(), settings(), 1_000) else {
            return disk;
        };
        for (offset, partition, topic) in
            [(offset, 0, &b"a"[..]), (offset + 1, 0, b"b/c"), (offset, 1, b"d")]
        {
            let record = record(offset);
            let append = Append { partition, topic, record: &record };
            let _ = store.append(&[append], 1_000);
        }
        let _ = store.close();
    }
    disk
}

fn settings() -> StoreSettings {
    StoreSettings {
        partitions_count: PARTITIONS,
        segment_bytes: 4096,
        bytes_max: 1 << 20,
        age_max_ms: 100_000,
        new_epoch: 7,
        hash_seed: Seed(1, 2),
    }
}

/// A record with a producer or a key.
fn record(offset: u64) -> Vec<u8> {
    let (kind, value) = match offset % 2 {
        0 => (3, [&offset.to_le_bytes()[..], b"p"].concat()),
        _ => (4, b"key".to_vec()),
    };
    let length = 45 + 3 + value.len() as u32;
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&0u32.to_le_bytes());
    for field in [offset, offset.saturating_sub(1), 1_000] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.extend_from_slice(&[0, 0, 0, 0, 1, 0]); // retained
    bytes.extend_from_slice(&(3 + value.len() as u16).to_le_bytes());
    bytes.push(kind);
    bytes.extend_from_slice(&(value.len() as u16).to_le_bytes());
    bytes.extend_from_slice(&value);
    bytes.extend_from_slice(b"hello");
    bytes
}

fn drive(disk: &HostileDisk) {
    if let Ok((mut store, _)) = Store::inspect(disk.clone()) {
        store.verify(&mut |finding| assert!(!finding.to_string().is_empty()));
        let _ = store.dump(&mut |_| ());
        read(&mut store);
    }
    let repaired = HostileDisk::new(2);
    repaired.put_back(&disk.copy());
    let _ = Store::repair(repaired, 8, 2_000);
    let Ok((mut store, _)) = Store::open(disk.clone(), settings(), 2_000) else {
        return;
    };
    read(&mut store);
    let offset = store.heads()[1].saturating_add(1);
    let record = record(offset);
    let append = Append { partition: 1, topic: b"new", record: &record };
    if store.append(&[append], 3_000).is_err() {
        assert_eq!(offset, u64::MAX, "a disk without faults takes a batch");
        return;
    }
    let _ = store.expire(4_000);
    drop(store);
    let (mut store, recovered) =
        Store::open(disk.clone(), settings(), 5_000).expect("it was opened before");
    assert!(recovered.heads[1] >= offset);
    let page = store.page(1, b"new", offset - 1, offset, ALL).expect("a disk without faults");
    let found: Vec<u64> = page
        .records
        .iter()
        .filter_map(|record| Some(RecordView::parse(record)?.offset()))
        .collect();
    assert_eq!(found, [offset]);
}

/// A window that requests all publications and keys.
struct Window;

impl OnceWindow for Window {
    fn publications_wanted(&self, partition: u32, _: &[u8]) -> u32 {
        // A few of every other partition.
        [u32::MAX, 2][partition as usize % 2]
    }

    fn wants_keys(&self) -> bool {
        true
    }

    fn take(&mut self, found: SegmentOnce) {
        let is_named = |topic: u32| assert!((topic as usize) < found.topics.len());
        for producer in &found.producers {
            assert!(producer.partition < PARTITIONS);
            let publications = &producer.publications;
            publications.iter().for_each(|one| is_named(one.topic));
        }
        found.keys.iter().for_each(|key| is_named(key.topic));
    }
}

fn read(store: &mut Store<HostileDisk>) {
    let _ = store.once(&mut Window);
    let mut topics = Vec::new();
    let _ = store.topics(&mut |partition, topic, _| topics.push((partition, topic.to_vec())));
    let _ = store.retained(&mut |_, _, record| assert!(!record.bytes().is_empty()));
    let _ = store.recent(1 << 16, &mut |_, _, record| assert!(!record.bytes().is_empty()));
    for (partition, topic) in topics {
        let _ = store.page(partition, &topic, 0, u64::MAX, ALL);
        let _ = store.page_back(partition, &topic, u64::MAX, 0, ALL);
        let wanted = StartQuery { through: u64::MAX, count: 3, not_before_ms: 1_500, after: 1 };
        let _ = store.start(partition, &topic, wanted);
    }
    for partition in 0..PARTITIONS {
        let wanted =
            ScanQuery { after: 0, through: u64::MAX, limits: ALL, bytes_scanned_max: 1 << 20 };
        let _ = store.scan(partition, wanted, &mut |_| true);
    }
}
