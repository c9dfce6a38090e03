//! The opening of a mirror: what it has is served if the engine has it too, and whatever is wrong
//! with it, it begins anew.

use super::{LogError, OpenLog, OpenOptions, store_settings, unix_ms};
use crate::logs::LogWorker;
use crate::restore::Restoration;
use broker::settings::Settings;
use disk::{FileDisk, OpenDiskError};
use log::store::{Disk, DiskError, Store, WITNESS_NAME};
use std::path::Path;

/// The file that tells a mirror from a log on disk.
const MARK_NAME: &str = "mirror";

/// Opens the mirror of a log. None, with the reason, if this node runs without it.
///
/// # Errors
/// The directory belongs to another log or another process.
pub(crate) fn open_mirror(
    settings: &Settings,
    log: u16,
    options: &OpenOptions<'_>,
) -> Result<Result<OpenLog, String>, LogError> {
    let name = &settings.logs[usize::from(log)].name;
    let directory = options.directory.join(name);
    let without = |error: &dyn std::fmt::Display| {
        Ok(Err(format!("log {name}: the node runs without its mirror: {error}")))
    };
    let mut notices = Vec::new();
    let mut opened = None;
    for attempt in 0..2 {
        let disk = match open_disk(&directory) {
            Ok(disk) => disk,
            Err(LogError::Directory(error @ OpenDiskError::Io { .. })) => return without(&error),
            Err(error) => return Err(error),
        };
        match Store::open(disk, store_settings(settings, log, options), unix_ms()) {
            Ok(found) => {
                opened = Some(found);
                break;
            }
            Err(error) if attempt > 0 => return without(&error),
            Err(error) => {
                notices.push(format!("log {name}: its mirror is dropped: {error}"));
                if let Err(error) = wipe(&directory) {
                    return without(&error);
                }
            }
        }
    }
    let Some((mut store, recovered)) = opened else {
        return without(&"its disk refuses it");
    };
    if let Some(damage) = recovered.damages.first() {
        notices.push(format!(
            "log {name}: its mirror is dropped: segment {} is damaged or missing",
            damage.segment
        ));
        if let Err(error) = store.discard(unix_ms()) {
            return without(&error);
        }
    }
    let found = match Restoration::read_mirror(&mut store, settings, log) {
        Ok(found) => found,
        Err(error) => {
            notices.push(format!("log {name}: its mirror is dropped: {error}"));
            if let Err(error) = store.discard(unix_ms()) {
                return without(&error);
            }
            (Restoration::of_nothing(settings, log, true), Vec::new())
        }
    };
    let (restorations, mirrored) = found;
    let worker = LogWorker::new(store, settings, log);
    Ok(Ok(OpenLog { log, worker, restorations, mirrored, notices }))
}

/// Opens the directory of a mirror, or makes it one.
fn open_disk(directory: &Path) -> Result<FileDisk, LogError> {
    let mut disk = FileDisk::open(directory).map_err(LogError::Directory)?;
    let failed = |error: DiskError| {
        let error = std::io::Error::other(error.to_string());
        LogError::Directory(OpenDiskError::Io { path: directory.to_owned(), error })
    };
    let names = disk.list().map_err(failed)?;
    if names.iter().any(|name| name == MARK_NAME) {
        return Ok(disk);
    }
    if names.iter().any(|name| name.ends_with(".log")) {
        return Err(LogError::NoMirror(directory.to_owned()));
    }
    disk.create(MARK_NAME).map_err(failed)?;
    disk.sync_directory().map_err(failed)?;
    Ok(disk)
}

/// Removes all files of a mirror but the mark.
fn wipe(directory: &Path) -> Result<(), LogError> {
    let mut disk = open_disk(directory)?;
    let failed = |error: DiskError| {
        let error = std::io::Error::other(error.to_string());
        LogError::Directory(OpenDiskError::Io { path: directory.to_owned(), error })
    };
    let is_of_store = |name: &String| {
        let endings = [".log", ".idx", ".new"];
        let is_segment = endings.iter().any(|ending| name.ends_with(ending));
        is_segment || ["epochs", "end", WITNESS_NAME].contains(&name.as_str())
    };
    let mut names = disk.list().map_err(failed)?;
    names.push(WITNESS_NAME.to_owned());
    for name in names.into_iter().filter(is_of_store) {
        match disk.remove(&name) {
            Ok(()) | Err(DiskError::NotFound) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    disk.sync_directory().map_err(failed)
}
