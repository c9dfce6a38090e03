//! A log that is written without waiting for the disk: a crash takes its newest records, and
//! nothing else.

use log::store::hostile::HostileDisk;
use log::store::{Append, MirroredPartition, Recovered, ScanQuery, Store, StoreSettings};
use log::{NewRecord, PageLimits, RecordView};
use stdx::hash::Seed;
use stdx::prng::Prng;

const ALL: PageLimits = PageLimits { records_max: usize::MAX, bytes_max: usize::MAX };

fn settings() -> StoreSettings {
    StoreSettings {
        partitions_count: 2,
        segment_bytes: 4096,
        bytes_max: 1 << 20,
        age_max_ms: 0,
        new_epoch: 7,
        hash_seed: Seed(1, 2),
    }
}

fn open(disk: &HostileDisk) -> (Store<HostileDisk>, Recovered) {
    let (mut store, recovered) = Store::open(disk.clone(), settings(), 1_000).unwrap();
    store.write_lazily();
    (store, recovered)
}

fn append(store: &mut Store<HostileDisk>, partition: u32, offsets: std::ops::Range<u64>) {
    let encoded: Vec<Vec<u8>> = offsets
        .map(|offset| {
            let payload = [offset as u8; 300];
            let record =
                NewRecord { payload: &payload, time_ms: offset * 10, ..NewRecord::default() };
            let mut bytes = Vec::new();
            record.encode_head(offset, &mut bytes).unwrap();
            bytes.extend_from_slice(&payload);
            bytes
        })
        .collect();
    let batch: Vec<Append<'_>> =
        encoded.iter().map(|record| Append { partition, topic: b"t", record }).collect();
    store.append(&batch, 1_000).unwrap();
}

fn offsets(store: &mut Store<HostileDisk>, partition: u32) -> Vec<u64> {
    let (mut after, mut offsets) = (0, Vec::new());
    let through = store.heads()[partition as usize];
    while after < through {
        let wanted = ScanQuery { after, through, limits: ALL, bytes_scanned_max: u64::MAX };
        let found = store.scan(partition, wanted, &mut |_| true).unwrap();
        assert!(!found.damaged);
        let records = found.records.iter().map(|(_, record)| record);
        offsets.extend(records.map(|record| RecordView::parse(record).unwrap().offset()));
        after = found.through;
    }
    offsets
}

/// Whatever a power failure leaves of unsynced bytes: a start finds a beginning of the written
/// batches. The death of the process takes nothing that was synced.
#[test]
fn a_crash_takes_the_newest_records() {
    for seed in 0..300 {
        let mut prng = Prng::new(seed);
        let disk = HostileDisk::new(seed);
        let (mut store, _) = open(&disk);
        let (mut next, mut written, mut synced) = ([1, 1], Vec::new(), 0);
        for _ in 0..prng.below(40) {
            let partition = prng.below(2) as usize;
            let count = 1 + prng.below(4);
            append(&mut store, partition as u32, next[partition]..next[partition] + count);
            written.extend((next[partition]..next[partition] + count).map(|it| (partition, it)));
            next[partition] += count;
            if prng.below(4) == 0 {
                store.sync().unwrap();
                synced = written.len();
            }
        }
        drop(store);
        if prng.below(2) == 0 {
            disk.crash();
            // The last sync may have no mark behind it that says so.
            synced = 0;
        } else {
            disk.kill();
        }
        let (mut store, recovered) = open(&disk);
        assert_eq!(recovered.damages, [], "seed {seed}");
        let found: [Vec<u64>; 2] = [offsets(&mut store, 0), offsets(&mut store, 1)];
        let count: usize = found.iter().map(Vec::len).sum();
        assert!(count >= synced, "seed {seed}: {count} of {synced} synced records");
        for (partition, found) in found.iter().enumerate() {
            let whole = written[..count].iter().filter(|(of, _)| *of == partition);
            let whole: Vec<u64> = whole.map(|(_, offset)| *offset).collect();
            assert_eq!(*found, whole, "seed {seed}: not a beginning of what was written");
            let newest = whole.last().map(|last| (*last, *last * 10));
            assert_eq!(store.newest(partition as u32).unwrap(), newest, "seed {seed}");
        }
    }
}

#[test]
fn a_closed_log_has_everything() {
    let disk = HostileDisk::new(3);
    let (mut store, _) = open(&disk);
    append(&mut store, 0, 1..30);
    store.close().unwrap();
    drop(store);
    disk.crash();
    let (mut store, recovered) = open(&disk);
    assert_eq!((recovered.damages.len(), recovered.torn_bytes), (0, 0));
    assert_eq!(offsets(&mut store, 0), Vec::from_iter(1..30));
    append(&mut store, 0, 30..40);
    assert_eq!(offsets(&mut store, 0), Vec::from_iter(1..40));
}

#[test]
fn a_discarded_log_takes_any_offsets() {
    let disk = HostileDisk::new(3);
    let (mut store, _) = open(&disk);
    append(&mut store, 0, 100..140);
    store.discard(1_000).unwrap();
    assert_eq!((store.heads(), store.floor(0)), (&[0, 0][..], 1));
    assert_eq!(store.newest(0).unwrap(), None);
    append(&mut store, 0, 5..20);
    store.close().unwrap();
    drop(store);
    disk.crash();
    let (mut store, recovered) = open(&disk);
    assert_eq!(recovered.damages, []);
    assert_eq!(offsets(&mut store, 0), Vec::from_iter(5..20));
}

/// The machine stops in the middle: the next start opens the log, whatever is left, and it can be
/// discarded.
#[test]
fn an_interrupted_discard_is_repeated() {
    for calls in 0..60 {
        let disk = HostileDisk::new(u64::from(calls));
        let (mut store, _) = open(&disk);
        append(&mut store, 0, 1..60);
        disk.stop_after(calls);
        let discarded = store.discard(1_000);
        assert_eq!(discarded.is_ok() && store.is_available(), discarded.is_ok());
        drop(store);
        disk.crash();
        let (mut store, recovered) = open(&disk);
        if recovered.damages.is_empty() && discarded.is_err() {
            let left = offsets(&mut store, 0);
            assert!(left.is_empty() || left.windows(2).all(|two| two[0] + 1 == two[1]));
        }
        store.discard(1_000).unwrap();
        append(&mut store, 0, 3..5);
        assert_eq!(offsets(&mut store, 0), [3, 4]);
    }
}

#[test]
fn a_failed_sync_ends_the_file() {
    let disk = HostileDisk::new(3);
    let (mut store, _) = open(&disk);
    append(&mut store, 0, 1..3);
    disk.fail_syncs(1);
    assert!(store.sync().is_err() && !store.is_available());
    store.discard(1_000).unwrap();
    append(&mut store, 0, 1..3);
    store.sync().unwrap();
    assert!(store.is_available());
}

#[test]
fn a_mirror_knows_its_partitions_after_a_start() {
    let disk = HostileDisk::new(3);
    let (mut store, _) = open(&disk);
    assert_eq!(store.mirrored().unwrap(), None);
    let partitions = [
        MirroredPartition { floor: 7, topic_id: 9, lineages: vec![(1, 2), (3, 4)] },
        MirroredPartition::default(),
    ];
    store.set_mirrored(&partitions[..1]).unwrap();
    assert_eq!(store.mirrored().unwrap(), None, "another number of partitions");
    store.set_mirrored(&partitions).unwrap();
    store.discard(1_000).unwrap();
    drop(store);
    disk.crash();
    let (mut store, _) = open(&disk);
    assert_eq!(store.mirrored().unwrap().as_deref(), Some(&partitions[..]));
    assert!(disk.flip_bit("mirror", 20, 1));
    assert_eq!(store.mirrored().unwrap(), None, "damaged");
}
