//! Older epochs that a damaged log still recognizes.

use log::store::hostile::HostileDisk;
use log::store::{Append, OlderEpoch, Recovered, Store, StoreSettings};
use stdx::hash::Seed;

fn open(disk: &HostileDisk, new_epoch: u64) -> (Store<HostileDisk>, Recovered) {
    let settings = StoreSettings {
        partitions_count: 1,
        segment_bytes: 4096,
        bytes_max: 1 << 20,
        age_max_ms: 0,
        new_epoch,
        hash_seed: Seed(1, 2),
    };
    Store::open(disk.clone(), settings, 1_000).unwrap()
}

fn append(store: &mut Store<HostileDisk>, offset: u64) {
    let mut record = Vec::new();
    record.extend_from_slice(&44u32.to_le_bytes());
    record.extend_from_slice(&[0; 4]);
    for field in [offset, offset - 1, 1_000] {
        record.extend_from_slice(&field.to_le_bytes());
    }
    record.extend_from_slice(&[0; 8]);
    record.extend_from_slice(b"data");
    let append = Append { partition: 0, topic: b"a", record: &record };
    store.append(&[append], 1_000).unwrap();
}

fn newest_segment(disk: &HostileDisk) -> String {
    let names = disk.names();
    names.into_iter().rfind(|name| name.ends_with(".log")).unwrap()
}

fn older(epoch: u64, valid_below: u64) -> OlderEpoch {
    OlderEpoch { epoch, valid_below: vec![valid_below] }
}

/// Clients may know an epoch in which nothing was appended. After the loss of the file of epochs,
/// positions of that epoch stay valid, not those of the epoch before.
#[test]
fn positions_of_the_last_epoch_stay_valid() {
    let disk = HostileDisk::new(1);
    let (mut store, recovered) = open(&disk, 1);
    assert_eq!((recovered.epoch, recovered.is_new), (1, true));
    (1..=3).for_each(|offset| append(&mut store, offset));
    disk.kill();
    assert!(disk.erase("epochs"));
    let (_, recovered) = open(&disk, 2);
    assert_eq!(recovered.epoch, 2);
    assert_eq!(recovered.older, [older(1, 4)]);
    disk.kill();
    assert!(disk.erase("epochs"));
    let (_, recovered) = open(&disk, 3);
    assert_eq!(recovered.epoch, 3);
    assert_eq!(recovered.older, [older(2, 4)]);
    // Nothing was appended since.
    disk.kill();
    let (_, recovered) = open(&disk, 4);
    assert_eq!(recovered.epoch, 3);
    assert_eq!(recovered.older, [older(2, 4)]);
}

/// Without the file of epochs and the newest head, the last epoch is unknown: the segment before
/// names an older one, whose offsets may have been reused since.
#[test]
fn without_the_newest_head_no_older_epoch_stays_valid() {
    let disk = HostileDisk::new(1);
    let (mut store, _) = open(&disk, 1);
    (1..=3).for_each(|offset| append(&mut store, offset));
    disk.kill();
    // The last batches are lost: new messages reuse their offsets.
    let name = newest_segment(&disk);
    let bytes = disk.bytes_of(&name).unwrap();
    disk.put(&name, &bytes[..bytes.len() / 2]);
    assert!(disk.erase("epochs"));
    let (mut store, recovered) = open(&disk, 2);
    assert_eq!((recovered.epoch, &recovered.older[..]), (2, &[older(1, 2)][..]));
    append(&mut store, 2);
    disk.kill();
    assert!(disk.flip_bit(&newest_segment(&disk), 24, 0));
    assert!(disk.erase("epochs"));
    let (_, recovered) = open(&disk, 3);
    assert_eq!((recovered.epoch, &recovered.older[..]), (3, &[][..]));
}

/// Without damage nothing changes, and a start without a batch to carry begins no segment.
#[test]
fn without_damage_the_epoch_stays() {
    let disk = HostileDisk::new(1);
    let (mut store, _) = open(&disk, 1);
    append(&mut store, 1);
    store.close().unwrap();
    disk.crash();
    let segments = disk.names();
    let (_, recovered) = open(&disk, 2);
    assert_eq!((recovered.epoch, recovered.older.len()), (1, 0));
    assert_eq!(disk.names(), segments);
}
