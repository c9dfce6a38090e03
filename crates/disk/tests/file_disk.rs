//! A store over a real directory: what it wrote is found again, and a directory has one writer.

use disk::{FileDisk, OpenDiskError, make_private};
use log::store::{Append, Disk, DiskError, OpenError, ScanQuery, Store, StoreSettings};
use log::{PageLimits, RecordView};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use stdx::hash::Seed;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("crore-disk-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        // Something of a log lies beside its directory.
        Folder(path.join("log"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
    }
}

fn open(path: &Path, partitions_count: u32) -> Result<Store<FileDisk>, OpenError> {
    let settings = StoreSettings {
        partitions_count,
        segment_bytes: 16 << 10,
        bytes_max: 1 << 20,
        age_max_ms: 0,
        new_epoch: 7,
        hash_seed: Seed(1, 2),
    };
    let disk = FileDisk::open(path).unwrap();
    Ok(Store::open(disk, settings, 1_000)?.0)
}

fn record(offset: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&(40 + payload.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&0u32.to_le_bytes());
    for field in [offset, offset - 1, 1_000] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(payload);
    bytes
}

fn append(store: &mut Store<FileDisk>, offset: u64) {
    let record = record(offset, &[offset as u8; 500]);
    let append = Append { partition: 1, topic: b"t", record: &record };
    store.append(&[append], 1_000).unwrap();
}

fn offsets(store: &mut Store<FileDisk>) -> Vec<u64> {
    let wanted = ScanQuery {
        after: 0,
        through: 1_000,
        limits: PageLimits { records_max: 1_000, bytes_max: 1 << 20 },
        bytes_scanned_max: 1 << 20,
    };
    let found = store.scan(1, wanted, &mut |name| name == b"t").unwrap();
    assert!(!found.damaged);
    let offset = |(_, record): &(_, stdx::chunk::Slice)| {
        let view = RecordView::parse(record).unwrap();
        assert_eq!(view.payload(), [view.offset() as u8; 500]);
        view.offset()
    };
    found.records.iter().map(offset).collect()
}

#[test]
fn what_was_written_is_found_again() {
    let folder = Folder::new("again");
    let path = folder.0.join("below");
    let mut store = open(&path, 2).unwrap();
    for offset in 1..=100 {
        append(&mut store, offset);
    }
    assert!(store.stats().segments_count > 3);
    assert!(offsets(&mut store).into_iter().eq(1..=100));
    drop(store);
    for offset in 101..=110 {
        let mut store = open(&path, 2).unwrap();
        assert_eq!(store.epoch(), 7);
        append(&mut store, offset);
        if offset % 2 == 0 {
            store.close().unwrap();
        }
        assert!(offsets(&mut store).into_iter().eq(1..=offset));
    }
    let (mut store, _) = Store::inspect(FileDisk::open_unlocked(&path).unwrap()).unwrap();
    store.verify(&mut |finding| panic!("{finding}"));
    assert_eq!(store.stats().records_count, 110);
}

#[test]
fn a_directory_has_one_writer() {
    let folder = Folder::new("lock");
    let disk = FileDisk::open(&folder.0).unwrap();
    let second = FileDisk::open(&folder.0);
    assert!(matches!(second, Err(OpenDiskError::Locked { .. })));
    FileDisk::open_unlocked(&folder.0).unwrap();
    drop(disk);
    FileDisk::open(&folder.0).unwrap();
}

/// New files are accessible to their owner only, and existing files are closed to others.
#[test]
fn nobody_else_may_read() {
    let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().mode() & 0o777;
    let folder = Folder::new("modes");
    let below = folder.0.join("a/b");
    let mut disk = FileDisk::open(&below).unwrap();
    disk.create("segment").unwrap();
    for directory in [&folder.0, &folder.0.join("a"), &below] {
        assert_eq!(mode(directory), 0o700, "{}", directory.display());
    }
    for file in ["lock", "segment"] {
        assert_eq!(mode(&below.join(file)), 0o600, "{file}");
        std::fs::set_permissions(below.join(file), Permissions::from_mode(0o644)).unwrap();
    }
    let outside = folder.0.join("outside");
    std::fs::write(&outside, "").unwrap();
    std::fs::set_permissions(&outside, Permissions::from_mode(0o644)).unwrap();
    std::os::unix::fs::symlink(&outside, below.join("link")).unwrap();
    assert_eq!(make_private(&below).unwrap(), 2);
    assert_eq!(mode(&below.join("segment")), 0o600);
    assert_eq!(mode(&outside), 0o644, "links are not followed");
    assert_eq!(make_private(&below).unwrap(), 0);
}

/// A reader keeps writers out, and leaves no files behind.
#[test]
fn looking_makes_nothing() {
    let folder = Folder::new("look");
    std::fs::create_dir_all(&folder.0).unwrap();
    drop(FileDisk::open_locked(&folder.0).unwrap());
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
    drop(FileDisk::open(&folder.0).unwrap());
    let looker = FileDisk::open_locked(&folder.0).unwrap();
    let locked = FileDisk::open(&folder.0);
    assert!(matches!(locked, Err(OpenDiskError::Locked { .. })));
    drop(looker);
    FileDisk::open(&folder.0).unwrap();
}

#[test]
fn another_number_of_partitions_is_refused() {
    let folder = Folder::new("partitions");
    drop(open(&folder.0, 2).unwrap());
    let refused = open(&folder.0, 3).map(|_| ());
    assert_eq!(refused, Err(OpenError::Partitions { found: 2, configured: 3 }));
}

#[test]
fn errors_have_their_kind() {
    let folder = Folder::new("errors");
    let mut disk = FileDisk::open(&folder.0).unwrap();
    assert_eq!(disk.open("a").err(), Some(DiskError::NotFound));
    let mut file = disk.create("a").unwrap();
    assert_eq!(disk.create("a").err(), Some(DiskError::Exists));
    assert_eq!(disk.remove("b"), Err(DiskError::NotFound));
    disk.write_at(&mut file, 3, b"abc").unwrap();
    disk.sync(&mut file).unwrap();
    disk.rename("a", "b").unwrap();
    disk.sync_directory().unwrap();
    let mut file = disk.open("b").unwrap();
    let mut bytes = [9; 8];
    assert_eq!(disk.len(&mut file), Ok(6));
    assert_eq!(disk.read_at(&mut file, 1, &mut bytes), Ok(5));
    assert_eq!(&bytes, b"\0\0abc\x09\x09\x09");
    // Opened for reading only.
    assert_eq!(disk.write_at(&mut file, 0, b"x"), Err(DiskError::Io(9)));
    let mut file = disk.reopen("b").unwrap();
    disk.write_at(&mut file, 4, b"B").unwrap();
    disk.sync(&mut file).unwrap();
    assert_eq!(disk.read_at(&mut file, 3, &mut bytes[..3]), Ok(3));
    assert_eq!(&bytes[..3], b"aBc");
    assert_eq!(disk.reopen("c").err(), Some(DiskError::NotFound));
    let missing = FileDisk::open_unlocked(&folder.0.join("missing"));
    assert!(matches!(missing, Err(OpenDiskError::Io { .. })));
}

/// A lock goes to another owner, and is held until both have let go of it; another directory's is
/// none.
#[test]
fn a_lock_is_handed_over() {
    let (folder, other) = (Folder::new("handed"), Folder::new("elsewhere"));
    let is_locked = |path: &Path| matches!(FileDisk::open(path), Err(OpenDiskError::Locked { .. }));
    let disk = FileDisk::open(&folder.0).unwrap();
    drop(FileDisk::open(&other.0).unwrap());
    let lend = || disk.lend_lock().unwrap().unwrap();
    let strange = FileDisk::open_handed(&other.0, lend());
    assert!(matches!(strange, Err(OpenDiskError::Elsewhere { .. })));
    drop(FileDisk::open_handed(&folder.0, lend()).unwrap());
    assert!(is_locked(&folder.0), "the other one has ended");
    let next = FileDisk::open_handed(&folder.0, lend()).unwrap();
    drop(disk);
    assert!(is_locked(&folder.0), "it is the other one's now");
    drop(next);
    assert!(!is_locked(&folder.0));
}

/// A directory that is put back from a copy is older than what lies beside it says.
#[test]
fn an_older_directory_is_noticed() {
    let folder = Folder::new("older");
    let mut store = open(&folder.0, 2).unwrap();
    append(&mut store, 1);
    store.close().unwrap();
    drop(store);
    let copy: Vec<(PathBuf, Vec<u8>)> = std::fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    let mut store = open(&folder.0, 2).unwrap();
    append(&mut store, 2);
    store.close().unwrap();
    drop(store);
    std::fs::remove_dir_all(&folder.0).unwrap();
    std::fs::create_dir(&folder.0).unwrap();
    for (path, bytes) in copy {
        std::fs::write(path, bytes).unwrap();
    }
    assert!(folder.0.parent().unwrap().join(".log.end").is_file());
    let (mut store, found) = Store::inspect(FileDisk::open_locked(&folder.0).unwrap()).unwrap();
    assert!(!found.damages.is_empty());
    let mut findings = Vec::new();
    store.verify(&mut |finding| findings.push(finding.to_string()));
    assert_eq!(findings, ["0000000000000002.log: missing"]);
    drop(store);
    let store = open(&folder.0, 2).unwrap();
    assert!(store.heads()[1] > 2);
}
