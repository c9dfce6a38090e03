//! A log whose end is lost: its newest segment is missing or an older copy, or the whole directory
//! is.

use log::store::hostile::HostileDisk;
use log::store::{Append, OpenError, Recovered, ScanQuery, Store, StoreSettings};
use log::{NewRecord, PageLimits, RecordView};
use stdx::hash::Seed;

const ALL: PageLimits = PageLimits { records_max: usize::MAX, bytes_max: usize::MAX };

fn settings(new_epoch: u64) -> StoreSettings {
    StoreSettings {
        partitions_count: 2,
        segment_bytes: 4096,
        bytes_max: 1 << 20,
        age_max_ms: 0,
        new_epoch,
        hash_seed: Seed(1, 2),
    }
}

fn open(disk: &HostileDisk, new_epoch: u64) -> (Store<HostileDisk>, Recovered) {
    Store::open(disk.clone(), settings(new_epoch), 1_000).unwrap()
}

/// Appends messages of a kilobyte, each a batch: three or four to a segment.
fn append(store: &mut Store<HostileDisk>, offsets: std::ops::RangeInclusive<u64>) {
    for offset in offsets {
        let payload = [offset as u8; 1_000];
        let record = NewRecord { payload: &payload, ..NewRecord::default() };
        let mut bytes = Vec::new();
        record.encode_head(offset, &mut bytes).unwrap();
        bytes.extend_from_slice(&payload);
        let append = Append { partition: 0, topic: b"t", record: &bytes };
        store.append(&[append], 1_000).unwrap();
    }
}

/// A log with 20 messages, ended by `end`.
fn log_with_20(end: impl FnOnce(&mut Store<HostileDisk>)) -> HostileDisk {
    let disk = HostileDisk::new(1);
    let (mut store, _) = open(&disk, 1);
    append(&mut store, 1..=20);
    end(&mut store);
    drop(store);
    disk.kill();
    disk
}

fn newest(disk: &HostileDisk) -> String {
    let mut names = disk.names();
    names.retain(|name| name.ends_with(".log"));
    names.pop().unwrap()
}

/// The readable offsets of partition 0 behind `after`, and whether some may be missing among them.
fn read(store: &mut Store<HostileDisk>, after: u64) -> (Vec<u64>, bool) {
    let (through, mut after) = (store.heads()[0], after);
    let (mut offsets, mut is_damaged) = (Vec::new(), false);
    while after < through {
        let wanted = ScanQuery { after, through, limits: ALL, bytes_scanned_max: u64::MAX };
        let found = store.scan(0, wanted, &mut |_| true).unwrap();
        let records = found.records.iter().map(|(_, record)| record);
        offsets.extend(records.map(|record| RecordView::parse(record).unwrap().offset()));
        is_damaged |= found.damaged;
        after = found.through;
    }
    (offsets, is_damaged)
}

/// A start detects the loss of the end.
#[track_caller]
fn goes_on_behind_a_loss(disk: &HostileDisk, last: u64) {
    let (_, found) = Store::inspect(disk.clone()).unwrap();
    assert!(!found.damages.is_empty());
    goes_on(disk, last);
}

/// The log continues in epoch 2: it reports that messages behind `last` may be lost, reuses no
/// offset, and reports the same after every further start, without another epoch.
#[track_caller]
fn goes_on(disk: &HostileDisk, last: u64) {
    let (mut store, recovered) = open(disk, 2);
    assert_eq!(recovered.epoch, 2, "{recovered:?}");
    assert_eq!(recovered.older.len(), 1);
    assert_eq!(recovered.older[0].epoch, 1);
    assert_eq!(recovered.older[0].valid_below, [last + 1, 1]);
    let head = recovered.heads[0];
    assert!(head > 20, "offsets up to 20 would be given again: {head}");
    assert!(read(&mut store, last).1);
    assert_eq!(read(&mut store, last.saturating_sub(3)).0.last(), Some(&last));
    append(&mut store, head + 1..=head + 9);
    for how in ["close", "kill", "crash"] {
        if how == "close" {
            store.close().unwrap();
        }
        drop(store);
        match how {
            "crash" => disk.crash(),
            _ => disk.kill(),
        }
        let found;
        (store, found) = open(disk, 3);
        assert_eq!((found.epoch, &found.damages[..]), (2, &[][..]), "{how}");
        let (offsets, is_damaged) = read(&mut store, last);
        assert_eq!(offsets, Vec::from_iter(head + 1..=head + 9), "{how}");
        assert!(is_damaged, "{how}: the damage is not reported");
        assert_eq!(read(&mut store, head), (offsets, false), "{how}");
    }
}

/// The offset of the last message.
fn last_of(disk: &HostileDisk) -> u64 {
    let (store, _) = Store::inspect(disk.clone()).unwrap();
    store.heads()[0]
}

/// A file system repair removed the file, or a copy omitted it.
#[test]
fn the_newest_segment_is_lost() {
    for is_closed in [true, false] {
        let disk = log_with_20(|store| {
            if is_closed {
                store.close().unwrap();
            }
        });
        let name = newest(&disk);
        assert!(disk.erase(&name));
        disk.erase(&name.replace(".log", ".idx"));
        let last = last_of(&disk);
        assert!(last < 20, "{last}");
        goes_on_behind_a_loss(&disk, last);
    }
}

/// Several newest segments are missing.
#[test]
fn the_newest_segments_are_lost() {
    let disk = log_with_20(|store| store.close().unwrap());
    for _ in 0..2 {
        let name = newest(&disk);
        assert!(disk.erase(&name));
    }
    goes_on_behind_a_loss(&disk, last_of(&disk));
}

/// The newest segment is an older, shorter copy of itself.
#[test]
fn the_newest_segment_is_an_older_copy() {
    for is_closed in [true, false] {
        let mut copy = (String::new(), Vec::new());
        let disk = log_with_20(|store| {
            let name = newest(store.disk());
            copy = (name.clone(), store.disk().bytes_of(&name).unwrap());
            append(store, 21..=21);
            assert_eq!(newest(store.disk()), name, "the same segment");
            if is_closed {
                store.close().unwrap()
            } else {
                assert_eq!(store.expire(1_000), Ok(None))
            }
        });
        disk.put(&copy.0, &copy.1);
        goes_on_behind_a_loss(&disk, 20);
    }
}

/// An interrupted start between the file of epochs and the first segment loses nothing.
#[test]
fn an_interrupted_first_start_loses_nothing() {
    for calls in 0..20 {
        let disk = HostileDisk::new(u64::from(calls));
        disk.stop_after(calls);
        let _ = Store::open(disk.clone(), settings(1), 1_000).map(|_| ());
        disk.kill();
        let (_, recovered) = open(&disk, 2);
        assert_eq!(recovered.damages, [], "{calls} calls");
        assert!(recovered.older.is_empty(), "{calls} calls");
    }
}

/// The log's directory is restored from a backup; the file outside it is not.
#[test]
fn a_restored_directory_begins_an_epoch() {
    let disk = HostileDisk::new(1);
    let (mut store, _) = open(&disk, 1);
    append(&mut store, 1..=10);
    store.close().unwrap();
    drop(store);
    let copy = disk.copy();
    let (mut store, _) = open(&disk, 9);
    append(&mut store, 11..=20);
    store.close().unwrap();
    drop(store);
    disk.kill();
    disk.put_back(&copy);
    goes_on_behind_a_loss(&disk, 10);
}

/// Everything is restored from a backup: the log cannot detect that, so the operator has to begin
/// an epoch.
#[test]
fn an_operator_can_begin_an_epoch() {
    let disk = log_with_20(|store| store.close().unwrap());
    let (_, recovered) = open(&disk, 9);
    assert_eq!(recovered.epoch, 1);
    disk.kill();
    let mended = Store::begin_epoch(disk.clone(), 2, 1_000).unwrap();
    let (lost, head) = (&mended.lost, mended.recovered.heads[0]);
    assert_eq!((lost.len(), lost[0].from, lost[0].through), (2, 21, head));
    assert_eq!(mended.recovered.epoch, 2);
    disk.kill();
    goes_on(&disk, 20);
    // A second restart.
    disk.kill();
    let mended = Store::begin_epoch(disk.clone(), 5, 1_000).unwrap();
    assert_eq!((mended.recovered.epoch, mended.lost.len()), (5, 4));
}

/// A repair of a valid log changes nothing.
#[test]
fn a_repair_of_a_valid_log_changes_nothing() {
    let disk = log_with_20(|store| store.close().unwrap());
    let mended = Store::repair(disk.clone(), 2, 1_000).unwrap();
    assert_eq!((mended.recovered.epoch, &mended.lost[..]), (1, &[][..]));
    assert_eq!((mended.recovered.damages, mended.unreadable), (vec![], vec![]));
    assert_eq!(read(&mut open(&disk, 3).0, 0), (Vec::from_iter(1..=20), false));
}

/// Damage in a segment whose index hides it from a start, a damaged index, and unreadable sectors.
#[test]
fn a_repair_reports_the_losses() {
    for breaks in [false, true] {
        let disk = log_with_20(|store| store.close().unwrap());
        let first = "0000000000000001.log";
        let place = {
            let bytes = disk.bytes_of(first).unwrap();
            let wanted = [2; 1_000];
            let mut windows = bytes.windows(1_000);
            windows.position(|window| window == wanted).unwrap() as u64
        };
        if breaks {
            assert!(disk.break_bytes(first, place + 8..place + 9))
        } else {
            assert!(disk.flip_bit(first, place + 8, 1))
        }
        assert!(disk.flip_bit("0000000000000002.idx", 30, 1));
        let mended = Store::repair(disk.clone(), 2, 1_000).unwrap();
        assert_eq!(mended.recovered.epoch, 2);
        assert_eq!(mended.recovered.damages.len(), 1);
        let lost = mended.lost.iter().filter(|lost| lost.partition == 0);
        let lost: Vec<_> = lost.map(|lost| (lost.from, lost.through)).collect();
        // A disk page is larger than a message, so the rest of the segment is lost with it.
        let through = lost[0].1;
        assert_eq!(lost, [(if breaks { 1 } else { 2 }, through)]);
        assert_eq!(mended.unreadable.is_empty(), !breaks);
        disk.kill();
        let again = Store::repair(disk.clone(), 3, 1_000).unwrap();
        assert_eq!((again.recovered.epoch, again.lost), (2, mended.lost));
        assert_eq!((again.recovered.damages, again.unreadable), (vec![], vec![]));
        let (mut store, _) = open(&disk, 4);
        let left = read(&mut store, 0);
        let all_but_lost = (1..=20).filter(|offset| !(lost[0].0..=through).contains(offset));
        assert_eq!(left, (all_but_lost.collect(), true));
        assert!(through < if breaks { 5 } else { 3 }, "{through}");
    }
}

const EPOCHS: &str = "epochs";
/// A range longer than any file here.
const WHOLE: std::ops::Range<u64> = 0..1 << 20;

/// Checks that a start is refused because a file must be read; that a repair begins epoch 2, and
/// the next repair finds nothing.
#[track_caller]
fn is_refused_and_repaired(disk: &HostileDisk, name: &str) {
    let error = Store::open(disk.clone(), settings(2), 1_000).map(|_| ());
    let is_it = matches!(&error, Err(OpenError::Unreadable { name: unread, .. }) if unread == name);
    assert!(is_it, "{name}: {error:?}");
    disk.kill();
    let mended = Store::repair(disk.clone(), 2, 1_000).unwrap();
    assert_eq!(mended.recovered.epoch, 2, "{mended:?}");
    assert_eq!(mended.unreadable[0].0, name);
    assert!(!disk.is_broken(), "the file is a new one");
    disk.kill();
    let again = Store::repair(disk.clone(), 3, 1_000).unwrap();
    assert_eq!((again.recovered.epoch, again.lost), (2, mended.lost));
    assert_eq!((again.recovered.damages, again.unreadable), (vec![], vec![]));
    disk.kill();
}

/// The content of the file of epochs is lost; no message is.
#[test]
fn a_repair_goes_on_without_the_file_of_epochs() {
    for is_closed in [true, false] {
        let disk = log_with_20(|store| {
            if is_closed {
                store.close().unwrap();
            }
        });
        assert!(disk.break_bytes(EPOCHS, 30..31));
        is_refused_and_repaired(&disk, EPOCHS);
        let (mut store, recovered) = open(&disk, 4);
        assert_eq!((recovered.epoch, recovered.older[0].epoch), (2, 1));
        assert_eq!(recovered.older[0].valid_below, [21, 1]);
        assert_eq!(read(&mut store, 0), (Vec::from_iter(1..=20), false));
    }
}

/// A temporary disk error loses nothing.
#[test]
fn a_repair_retries_failed_reads() {
    for reads in 0..3 {
        let disk = log_with_20(|_| {});
        disk.fail_reads(reads);
        let mended = Store::repair(disk.clone(), 2, 1_000).unwrap();
        assert_eq!((mended.recovered.epoch, mended.unreadable), (1, vec![]));
        assert_eq!(read(&mut open(&disk, 3).0, 0), (Vec::from_iter(1..=20), false));
    }
}

/// Breaks bytes of the newest segment of a log that was not closed: all, the head, or the last
/// message of a segment that is longer than one read of a repair.
fn break_newest(which: &str) -> (HostileDisk, String) {
    let disk = match which {
        "its end" => HostileDisk::new(1),
        _ => log_with_20(|_| {}),
    };
    if which == "its end" {
        let settings = StoreSettings { segment_bytes: 64 << 10, ..settings(1) };
        let (mut store, _) = Store::open(disk.clone(), settings, 1_000).unwrap();
        append(&mut store, 1..=20);
        disk.kill();
    }
    let name = newest(&disk);
    let bytes = disk.bytes_of(&name).unwrap().len() as u64;
    let broken = match which {
        "everything" => WHOLE,
        "its head" => 3..4,
        _ => bytes - 600..bytes - 599,
    };
    assert!(disk.break_bytes(&name, broken));
    (disk, name)
}

/// The newest segment, or its end: the acknowledged part is unknown, so all of it may have been
/// acknowledged.
#[test]
fn a_repair_goes_on_without_the_newest_segment() {
    for which in ["everything", "its head", "its end"] {
        let (disk, name) = break_newest(which);
        is_refused_and_repaired(&disk, &name);
        let (mut store, _) = open(&disk, 4);
        let (left, is_damaged) = read(&mut store, 0);
        let last = left.len() as u64;
        assert_eq!(left, Vec::from_iter(1..=last), "{which}");
        assert!(is_damaged && (15..20).contains(&last), "{which}: {last}");
        drop(store);
        goes_on(&disk, last);
    }
}

/// A log with a single segment, which is unreadable.
#[test]
fn a_repair_goes_on_without_any_segment() {
    let disk = HostileDisk::new(1);
    append(&mut open(&disk, 1).0, 1..=2);
    disk.kill();
    let name = newest(&disk);
    assert!(disk.break_bytes(&name, WHOLE));
    is_refused_and_repaired(&disk, &name);
    let (mut store, recovered) = open(&disk, 4);
    assert_eq!(recovered.older[0].valid_below, [1, 1]);
    assert!(recovered.heads[0] > 2, "{recovered:?}");
    assert_eq!(read(&mut store, 0), (vec![], true));
}

/// A repair interrupted at any call leaves a log that needs a repair, or one that reports its
/// losses.
#[test]
fn an_interrupted_repair_hides_nothing() {
    for (which, how) in [("everything", "kill"), ("its end", "crash")] {
        for calls in 0..60 {
            let (disk, _) = break_newest(which);
            disk.stop_after(calls);
            let _ = Store::repair(disk.clone(), 2, 1_000);
            match how {
                "crash" => disk.crash(),
                _ => disk.kill(),
            }
            let opened = Store::open(disk.clone(), settings(3), 1_000);
            let (mut store, recovered) = opened.unwrap_or_else(|error| {
                let is_refused = matches!(error, OpenError::Unreadable { .. });
                assert!(is_refused, "{which}, {calls} calls: {error}");
                disk.kill();
                Store::repair(disk.clone(), 4, 1_000).unwrap();
                open(&disk, 5)
            });
            assert_ne!(recovered.epoch, 1, "{which}, {calls} calls");
            assert!(read(&mut store, 0).1, "{which}, {calls} calls");
        }
    }
}
