//! The source of resume ticket keys: the configuration, the file `ticket.keys` in the data
//! directory, or random numbers.
//!
//! Beside the start of `serve`. The file lets tickets outlive the process. Its newest key signs; if
//! that key is older than `tickets.key_age_max` at a start, a new key signs, and the old one stays
//! valid until the last ticket that it may have signed has expired. `docs/formats.md` describes the
//! format.
//!
//! Invariants: a key signs only after it is durable, unless the operator is warned that tickets
//! become invalid with this process; no content of the file and no failure stops a start; secrets
//! are never shown.

mod ring;

use crate::logging::Level;
use broker::settings::{TicketKey, TicketSettings};
use ring::{FILE_BYTES_MAX, Ring};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

const NAME: &str = "ticket.keys";
/// The name of the file while it is written; a leftover of a crash is overwritten.
const NEW_NAME: &str = "ticket.keys.new";
/// A damaged file is saved under this name.
const DAMAGED_NAME: &str = "ticket.keys.damaged";

/// Notices about the keys for the operator.
pub type Notice = (Level, String);

/// Sets the keys of the settings, unless the configuration has. `key_age_max_ms` is the time for
/// which a key signs, `now_ms` the wall clock since 1970.
pub fn provide(
    tickets: &mut TicketSettings,
    data_dir: Option<&Path>,
    key_age_max_ms: u64,
    now_ms: u64,
) -> Vec<Notice> {
    if !tickets.keys.is_empty() {
        return Vec::new();
    }
    let mut notices = Vec::new();
    match data_dir {
        Some(directory) => {
            let times = Times {
                now_ms,
                key_age_max_ms,
                lifetime_ms: tickets.lifetime_ms,
            };
            tickets.keys = keep(directory, times, &mut notices);
        }
        None => notices.push((
            Level::Info,
            "Resume tickets become invalid when this process ends: neither tickets.keys nor node.data_dir is set."
                .to_owned(),
        )),
    }
    if tickets.keys.is_empty() {
        tickets.keys.extend(random_secret().map(TicketKey::new));
    }
    if tickets.keys.is_empty() {
        let sentence = "No resume tickets are issued: the system provides no random numbers.";
        notices.push((Level::Warn, sentence.to_owned()));
    }
    notices
}

#[derive(Clone, Copy)]
struct Times {
    now_ms: u64,
    key_age_max_ms: u64,
    lifetime_ms: u64,
}

/// The keys of the directory's file, renewed if necessary. None if other processes could not read
/// them later.
fn keep(directory: &Path, times: Times, notices: &mut Vec<Notice>) -> Vec<TicketKey> {
    let mut warn = |sentence: String| notices.push((Level::Warn, sentence));
    let shown = directory.join(NAME);
    let shown = shown.display();
    let handle = match open_directory(directory) {
        Ok(handle) => handle,
        Err(error) => {
            warn(format!(
                "Resume tickets become invalid when this process ends: cannot use {}: {error}.",
                directory.display()
            ));
            return Vec::new();
        }
    };
    let (mut ring, is_private) = match read(directory) {
        Ok(found) => found,
        Err(ReadError::Io(error)) => {
            warn(format!(
                "Resume tickets become invalid when this process ends: cannot read {shown}: {error}."
            ));
            return Vec::new();
        }
        Err(ReadError::Damaged(problem)) => {
            let aside = fs::rename(directory.join(NAME), directory.join(DAMAGED_NAME));
            let kept = match aside {
                Ok(()) => format!("it was saved as {DAMAGED_NAME}"),
                Err(error) => format!("it could not be saved: {error}"),
            };
            warn(format!(
                "{shown} is damaged ({problem}); {kept}. There are new keys: tickets issued before are refused, and their \
                 clients subscribe by themselves."
            ));
            (Ring::default(), true)
        }
    };
    if !is_private {
        warn(format!(
            "{shown} could be read by others and is private from now on; remove it and start again if somebody may have \
             read it."
        ));
    }
    let before = ring.clone();
    let has_changed =
        ring.advance(times.now_ms, times.lifetime_ms, times.key_age_max_ms, &mut random_secret);
    if (has_changed || !is_private)
        && let Err(error) = write(directory, &handle, &ring.encode())
    {
        let what = if before.is_empty() {
            "resume tickets become invalid when this process ends"
        } else {
            "the keys stay as they were"
        };
        warn(format!("cannot write {shown}: {error}; {what}."));
        ring = before;
    }
    ring.secrets().map(TicketKey::new).collect()
}

/// The directory, created if it is missing and locked while it is open: the second of two starts
/// finds the keys of the first.
fn open_directory(directory: &Path) -> io::Result<File> {
    disk::make_directory(directory)?;
    let handle = File::open(directory)?;
    flock(&handle, FlockOperation::LockExclusive)?;
    Ok(handle)
}

enum ReadError {
    Io(io::Error),
    Damaged(&'static str),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Io(error)
    }
}

/// The keys of the file, and whether only its owner can access it. No file: no keys.
fn read(directory: &Path) -> Result<(Ring, bool), ReadError> {
    let mut file = match File::open(directory.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok((Ring::default(), true));
        }
        opened => opened?,
    };
    let is_private = file.metadata()?.permissions().mode() & 0o077 == 0;
    let mut bytes = Vec::new();
    let limit = FILE_BYTES_MAX as u64 + 1;
    Read::by_ref(&mut file).take(limit).read_to_end(&mut bytes)?;
    let ring = Ring::decode(&bytes).map_err(ReadError::Damaged)?;
    Ok((ring, is_private))
}

/// Replaces the file atomically and durably: after a crash, the old or the new one exists.
fn write(directory: &Path, handle: &File, bytes: &[u8]) -> io::Result<()> {
    let new = directory.join(NEW_NAME);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, directory.join(NAME))?;
    handle.sync_all()
}

/// A random key from the kernel. Without it the node issues no tickets: no ticket is better than
/// one that can be guessed.
pub fn random_secret() -> Option<[u8; 32]> {
    let mut secret = [0; 32];
    let mut source = File::open("/dev/urandom").ok()?;
    source.read_exact(&mut secret).ok()?;
    Some(secret)
}

#[cfg(test)]
mod tests;
