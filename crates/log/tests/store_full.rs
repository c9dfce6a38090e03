//! Starts on a full disk: durable data stays, batches are refused until there is room, and then the
//! log continues.

use log::store::hostile::HostileDisk;
use log::store::{
    Append, Disk, DiskError, OpenError, PAYLOAD_BYTES_MAX, Store, StoreError, StoreSettings,
};
use log::{NewRecord, RecordView};
use stdx::hash::Seed;

const FULL: StoreError = StoreError::Disk(DiskError::NoSpace);

fn try_open(disk: &HostileDisk, new_epoch: u64) -> Result<Store<HostileDisk>, OpenError> {
    let settings = StoreSettings {
        partitions_count: 1,
        segment_bytes: 64 << 10,
        bytes_max: 1 << 20,
        age_max_ms: 0,
        new_epoch,
        hash_seed: Seed(1, 2),
    };
    Ok(Store::open(disk.clone(), settings, 1)?.0)
}

/// Reopens an existing log.
fn open(disk: &HostileDisk) -> Store<HostileDisk> {
    let store = try_open(disk, 8).unwrap();
    assert_eq!(store.epoch(), 7);
    store
}

fn append(store: &mut Store<HostileDisk>, offset: u64) -> Result<(), StoreError> {
    let payload = vec![offset as u8; 3_000];
    let record = NewRecord { payload: &payload, ..NewRecord::default() };
    let mut encoded = Vec::new();
    record.encode_head(offset, &mut encoded).unwrap();
    encoded.extend_from_slice(record.payload);
    let append = Append { partition: 0, topic: b"t", record: &encoded };
    store.append(&[append], 1)
}

/// The offsets that a start loads into memory.
fn offsets(store: &mut Store<HostileDisk>) -> Vec<u64> {
    let mut offsets = Vec::new();
    let mut visit = |_: u32, _: &[u8], record: RecordView<'_>| {
        assert!(record.payload().iter().all(|byte| *byte == record.offset() as u8));
        offsets.push(record.offset());
    };
    store.recent(u64::MAX, &mut visit).unwrap();
    offsets
}

/// A log with this number of records that was not closed.
fn log_with(records: u64, seed: u64) -> HostileDisk {
    let disk = HostileDisk::new(seed);
    let mut store = try_open(&disk, 7).unwrap();
    for offset in 1..=records {
        append(&mut store, offset).unwrap();
    }
    drop(store);
    disk.kill();
    disk
}

fn set_full(disk: &HostileDisk) {
    disk.set_capacity(Some(disk.bytes()));
}

/// The log can be read at once, refuses batches, and recovers by itself.
#[test]
fn a_crashed_log_recovers_once_there_is_room() {
    let disk = log_with(3, 4);
    set_full(&disk);
    for _ in 0..2 {
        let mut store = open(&disk);
        assert!(!store.is_available());
        assert_eq!((store.heads(), store.floor(0)), (&[3][..], 1));
        assert_eq!(offsets(&mut store), [1, 2, 3]);
        assert_eq!(store.probe(1), Err(FULL));
        assert_eq!(append(&mut store, 4), Err(FULL));
        assert_eq!(offsets(&mut store), [1, 2, 3]);
        drop(store);
        disk.crash();
        set_full(&disk);
    }
    let mut store = open(&disk);
    disk.set_capacity(None);
    assert_eq!(store.probe(1), Ok(()));
    assert!(store.is_available());
    append(&mut store, 5).unwrap();
    assert_eq!(offsets(&mut store), [1, 2, 3, 5]);
    drop(store);
    disk.crash();
    assert_eq!(offsets(&mut open(&disk)), [1, 2, 3, 5]);
}

/// After a failed sync, readable data need not be on disk. Data that a start returns must be.
#[test]
fn visible_data_is_durable() {
    for seed in 0..50 {
        let disk = log_with(2, seed);
        let mut store = open(&disk);
        append(&mut store, 3).unwrap();
        disk.fail_syncs(1);
        // Room for the batch, but not for a segment with it.
        disk.set_capacity(Some(disk.bytes() + 3_300));
        assert_eq!(append(&mut store, 4), Err(FULL));
        drop(store);
        disk.kill();

        // Removed files take no room any more.
        disk.clone().sync_directory().unwrap();
        set_full(&disk);
        let mut store = open(&disk);
        assert!(!store.is_available());
        assert_eq!(offsets(&mut store), [1, 2, 3, 4]);
        drop(store);
        disk.crash();
        disk.set_capacity(None);
        assert_eq!(offsets(&mut open(&disk)), [1, 2, 3, 4], "seed {seed}");
    }
}

/// A start that is interrupted at any call, or cannot sync, loses nothing.
#[test]
fn an_interrupted_start_loses_nothing() {
    for calls in 0..60 {
        for is_power in [false, true] {
            let disk = log_with(3, u64::from(calls));
            set_full(&disk);
            disk.stop_after(calls);
            let died = try_open(&disk, 8).map(|_| ());
            assert!(
                matches!(died, Ok(()) | Err(OpenError::Disk(_) | OpenError::Unreadable { .. })),
                "{died:?}"
            );
            if is_power {
                disk.crash()
            } else {
                disk.kill()
            }
            set_full(&disk);
            assert_eq!(offsets(&mut open(&disk)), [1, 2, 3], "{calls} calls");
        }
    }
    let disk = log_with(3, 1);
    set_full(&disk);
    disk.fail_syncs(2); // of the directory, and of the batch if it were accepted
    let refused = try_open(&disk, 8).map(|_| ());
    assert_eq!(refused, Err(OpenError::Disk(DiskError::Io(5))));
    disk.kill();
    assert_eq!(offsets(&mut open(&disk)), [1, 2, 3]);
}

/// After a clean end the next start needs no room; the next start also detects a clean end on a
/// full disk.
#[test]
fn a_start_after_a_clean_end_needs_no_room() {
    let disk = log_with(2, 4);
    let mut store = open(&disk);
    store.close().unwrap();
    drop(store);
    set_full(&disk);
    let mut store = open(&disk);
    assert!(store.is_available());
    assert_eq!(offsets(&mut store), [1, 2]);
    drop(store);

    let disk = log_with(2, 5);
    set_full(&disk);
    let mut store = open(&disk);
    assert_eq!(store.close(), Err(FULL));
    drop(store);
    disk.crash();
    disk.set_capacity(None);
    let mut store = open(&disk);
    assert!(store.is_available());
    assert_eq!(offsets(&mut store), [1, 2]);
}

/// A start is refused if the newest batch cannot be made durable without room, or if it has to
/// begin a log or an epoch.
#[test]
fn starts_that_need_room_are_refused() {
    let refused = |disk: &HostileDisk| {
        set_full(disk);
        for _ in 0..2 {
            let refused = try_open(disk, 8).map(|_| ());
            assert_eq!(refused, Err(OpenError::Disk(DiskError::NoSpace)));
            disk.kill();
        }
        disk.set_capacity(None);
        try_open(disk, 8).unwrap()
    };
    let mut store = refused(&HostileDisk::new(1));
    assert_eq!((store.epoch(), offsets(&mut store)), (8, vec![]));

    let disk = log_with(3, 1);
    disk.copy_on_write();
    let mut store = refused(&disk);
    assert_eq!((store.epoch(), offsets(&mut store)), (7, vec![1, 2, 3]));

    let disk = log_with(3, 1);
    let first = disk.names().into_iter().find(|name| name.ends_with(".log"));
    assert!(disk.flip_bit(&first.unwrap(), 1_000, 1));
    let mut store = refused(&disk);
    assert_eq!((store.epoch(), offsets(&mut store)), (8, vec![2, 3]));
}

/// The largest payload with all possible fields fits into a batch. (It is refused for lack of room,
/// before any of it is copied.)
#[test]
fn the_largest_message_fits_into_a_batch() {
    let disk = HostileDisk::new(1);
    let mut store = try_open(&disk, 7).unwrap();
    set_full(&disk);
    assert_eq!(append(&mut store, 1), Err(FULL));
    let mut record = |payload_bytes: usize| {
        let length = 40 + usize::from(u16::MAX) + payload_bytes;
        let mut record = vec![0; length];
        record[..4].copy_from_slice(&(length as u32).to_le_bytes());
        record[8] = 2; // its offset
        record[38..40].copy_from_slice(&u16::MAX.to_le_bytes());
        let append = Append { partition: 0, topic: b"t", record: &record };
        store.append(&[append], 1)
    };
    assert_eq!(record(PAYLOAD_BYTES_MAX), Err(FULL));
    assert_eq!(record(PAYLOAD_BYTES_MAX + 1), Err(StoreError::BatchTooLong));
}
