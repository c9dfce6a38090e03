//! The file of ticket keys in a real directory.

use super::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of one test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("crore-ticket-keys-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join(NAME)
    }

    fn mode(&self) -> u32 {
        fs::metadata(self.file()).unwrap().permissions().mode() & 0o777
    }

    /// Starts at this moment; returns the names of the keys and the notices.
    fn start(&self, now_ms: u64) -> (Vec<u32>, Vec<Notice>) {
        start_in(Some(&self.0), now_ms)
    }

    /// The keys of a start about which there is nothing to say.
    fn quiet_start(&self, now_ms: u64) -> Vec<u32> {
        let (keys, notices) = self.start(now_ms);
        assert_eq!(notices, []);
        keys
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn start_in(directory: Option<&Path>, now_ms: u64) -> (Vec<u32>, Vec<Notice>) {
    let mut tickets = TicketSettings { lifetime_ms: 100, ..TicketSettings::default() };
    let notices = provide(&mut tickets, directory, 1_000, now_ms);
    (tickets.keys.iter().map(|key| key.id).collect(), notices)
}

fn check_says(notices: &[Notice], level: Level, parts: &[&str]) {
    let [(said_level, sentence)] = notices else {
        panic!("{notices:?}");
    };
    assert_eq!(*said_level, level, "{sentence}");
    for part in parts {
        assert!(sentence.contains(part), "{sentence}");
    }
}

#[test]
fn keys_outlive_a_process() {
    let folder = Folder::new();
    let first = folder.quiet_start(5_000);
    assert_eq!((first.len(), folder.mode()), (1, 0o600));
    let written = fs::read(folder.file()).unwrap();
    assert_eq!(folder.quiet_start(5_500), first);
    assert_eq!(fs::read(folder.file()).unwrap(), written, "nothing to write");
    let second = folder.quiet_start(6_000);
    assert_eq!((second.len(), second[1]), (2, first[0]));
    assert_ne!(second[0], first[0]);
    assert_eq!(folder.quiet_start(6_100), second[..1]);
    let names: Vec<_> =
        fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [NAME]);
}

#[test]
fn a_directory_that_is_missing_is_made() {
    let folder = Folder::new();
    let below = folder.0.join("a/b");
    let (first, notices) = start_in(Some(&below), 5_000);
    assert_eq!(notices, []);
    assert_eq!(start_in(Some(&below), 5_000).0, first);
}

#[test]
fn damage_gives_new_keys_and_is_kept() {
    let folder = Folder::new();
    let first = folder.quiet_start(5_000);
    for damage in [&b""[..], b"CROREKEY", &[0; 10_000]] {
        fs::write(folder.file(), damage).unwrap();
        let (keys, notices) = folder.start(5_000);
        check_says(
            &notices,
            Level::Warn,
            &["ticket.keys is damaged", "saved as ticket.keys.damaged"],
        );
        assert_eq!(fs::read(folder.0.join(DAMAGED_NAME)).unwrap(), damage);
        assert!(keys.len() == 1 && keys != first, "{keys:?}");
        assert_eq!(folder.quiet_start(5_000), keys);
        assert_eq!(folder.mode(), 0o600);
    }
}

#[test]
fn others_may_not_read_it() {
    let folder = Folder::new();
    let keys = folder.quiet_start(5_000);
    fs::set_permissions(folder.file(), fs::Permissions::from_mode(0o640)).unwrap();
    let (again, notices) = folder.start(5_000);
    check_says(&notices, Level::Warn, &["could be read by others"]);
    assert_eq!((again, folder.mode()), (keys.clone(), 0o600));
    assert_eq!(folder.quiet_start(5_000), keys);
}

#[test]
fn what_a_crash_has_left_is_in_nobodys_way() {
    let folder = Folder::new();
    fs::write(folder.0.join(NEW_NAME), "half").unwrap();
    let keys = folder.quiet_start(5_000);
    assert_eq!(folder.quiet_start(5_000), keys);
    assert!(!folder.0.join(NEW_NAME).exists());
}

#[test]
fn no_failure_stops_a_start() {
    // Something above the data directory is a file.
    let folder = Folder::new();
    let path = folder.0.join("file/data");
    fs::write(folder.0.join("file"), "").unwrap();
    let (keys, notices) = start_in(Some(&path), 5_000);
    check_says(&notices, Level::Warn, &["cannot use", "when this process ends"]);
    assert_eq!(keys.len(), 1);
    assert_ne!(start_in(Some(&path), 5_000).0, keys);

    // The file is a directory.
    let folder = Folder::new();
    fs::create_dir(folder.file()).unwrap();
    let (keys, notices) = folder.start(5_000);
    check_says(&notices, Level::Warn, &["cannot read", "when this process ends"]);
    assert_eq!(keys.len(), 1);

    // The folder is read-only: the existing keys stay in force.
    let folder = Folder::new();
    let first = folder.quiet_start(5_000);
    fs::create_dir(folder.0.join(NEW_NAME)).unwrap();
    let (keys, notices) = folder.start(9_000);
    check_says(&notices, Level::Warn, &["cannot write", "stay as they were"]);
    assert_eq!(keys, first);
    fs::remove_file(folder.file()).unwrap();
    let (keys, notices) = folder.start(9_000);
    check_says(&notices, Level::Warn, &["cannot write", "when this process ends"]);
    assert_eq!(keys.len(), 1);
}

#[test]
fn without_a_directory_each_start_has_its_own() {
    let (first, notices) = start_in(None, 5_000);
    check_says(&notices, Level::Info, &["when this process ends"]);
    assert_eq!(first.len(), 1);
    assert_ne!(start_in(None, 5_000).0, first);
}

#[test]
fn configured_keys_are_the_only_ones() {
    let folder = Folder::new();
    let mut tickets =
        TicketSettings { keys: vec![TicketKey::new([1; 32])], ..TicketSettings::default() };
    assert_eq!(provide(&mut tickets, Some(&folder.0), 1_000, 5_000), []);
    assert_eq!(tickets.keys, [TicketKey::new([1; 32])]);
    assert!(!folder.file().exists());
}
