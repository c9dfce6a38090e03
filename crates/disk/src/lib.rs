//! A real directory as the disk of a durable log.
//!
//! Place on the path: a log thread's `log::store::Store` writes and reads its files through
//! [`FileDisk`]. Nothing else of a node touches a file of a log.
//!
//! One file of a log lies outside of its directory: what `log::store` calls the witness. It is
//! `.NAME.end` beside a directory NAME, so that a directory that is put back from a backup does not
//! bring an older one along.
//!
//! Invariants: files and directories made here are accessible to their owner only, whatever the
//! umask is, because messages are confidential. Only the process that holds the lock of a directory
//! writes there. The lock is the kernel's, so it ends with the process, even after a crash.

#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

use log::store::{Disk, DiskError, WITNESS_NAME};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{error, fmt};

const LOCK_NAME: &str = "lock";
/// Permissions of files and directories: only their owner has access.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// A directory of files.
#[derive(Debug)]
pub struct FileDisk {
    directory: PathBuf,
    /// None for the root of the file system, which has nothing beside it.
    witness: Option<PathBuf>,
    /// To sync the names.
    handle: File,
    /// Locked as long as it is open.
    lock: Option<File>,
}

/// The reason why a directory was not opened.
#[derive(Debug)]
pub enum OpenDiskError {
    /// Another process has the log open.
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The lock that was handed over is another directory's.
    Elsewhere {
        /// The lock file of this one.
        path: PathBuf,
    },
    /// The system refused.
    Io {
        /// The path that could not be opened or created.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl fmt::Display for OpenDiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenDiskError::Locked { path } => {
                write!(f, "{}: another process has the log open", path.display())
            }
            OpenDiskError::Elsewhere { path } => {
                write!(f, "{}: another log than the one handed over", path.display())
            }
            OpenDiskError::Io { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl error::Error for OpenDiskError {}

impl FileDisk {
    /// Opens a directory and locks it; makes it where it is missing.
    pub fn open(directory: &Path) -> Result<FileDisk, OpenDiskError> {
        let io_error = |path: &Path| {
            let path = path.to_owned();
            move |error| OpenDiskError::Io { path, error }
        };
        make_directory(directory).map_err(io_error(directory))?;
        let disk = FileDisk::open_unlocked(directory)?;
        let path = directory.join(LOCK_NAME);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.mode(FILE_MODE);
        let lock = options.open(&path).map_err(io_error(&path))?;
        disk.lock_with(lock, path)
    }

    /// The lock, for the process that takes this one's place: both have it until one of them ends.
    /// None if it is not locked.
    ///
    /// # Errors
    /// No descriptors to be had.
    pub fn lend_lock(&self) -> io::Result<Option<OwnedFd>> {
        let lock = self.lock.as_ref().map(File::try_clone).transpose()?;
        Ok(lock.map(OwnedFd::from))
    }

    /// Opens a directory whose lock was handed over ([`FileDisk::lend_lock`]), and makes nothing
    /// there. Who shares a lock agrees on who writes.
    pub fn open_handed(directory: &Path, lock: OwnedFd) -> Result<FileDisk, OpenDiskError> {
        let mut disk = FileDisk::open_unlocked(directory)?;
        let path = directory.join(LOCK_NAME);
        let lock = File::from(lock);
        let known = lock.metadata().and_then(|handed| {
            let own = fs::metadata(&path)?;
            Ok((handed.dev(), handed.ino()) == (own.dev(), own.ino()))
        });
        match known {
            Ok(true) => disk.lock = Some(lock),
            Ok(false) => return Err(OpenDiskError::Elsewhere { path }),
            Err(error) => return Err(OpenDiskError::Io { path, error }),
        }
        Ok(disk)
    }

    /// Opens a log that no process writes, for reading: locks it and creates nothing. A directory
    /// without a lock file has no other user yet.
    pub fn open_locked(directory: &Path) -> Result<FileDisk, OpenDiskError> {
        let disk = FileDisk::open_unlocked(directory)?;
        let path = directory.join(LOCK_NAME);
        match File::open(&path) {
            Ok(lock) => disk.lock_with(lock, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(disk),
            Err(error) => Err(OpenDiskError::Io { path, error }),
        }
    }

    fn lock_with(mut self, lock: File, path: PathBuf) -> Result<FileDisk, OpenDiskError> {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => self.lock = Some(lock),
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(OpenDiskError::Locked { path }),
            Err(error) => {
                let error = error.into();
                return Err(OpenDiskError::Io { path, error });
            }
        }
        Ok(self)
    }

    /// Opens a directory for reading without its lock. If another process writes the log meanwhile,
    /// the end of the log may appear torn.
    pub fn open_unlocked(directory: &Path) -> Result<FileDisk, OpenDiskError> {
        let handle = File::open(directory).and_then(|handle| {
            let is_directory = handle.metadata()?.is_dir();
            is_directory.then_some(handle).ok_or(io::ErrorKind::NotADirectory.into())
        });
        let handle =
            handle.map_err(|error| OpenDiskError::Io { path: directory.to_owned(), error })?;
        Ok(FileDisk {
            directory: directory.to_owned(),
            witness: witness_of(directory),
            handle,
            lock: None,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        match &self.witness {
            Some(witness) if name == WITNESS_NAME => witness.clone(),
            _ => self.directory.join(name),
        }
    }
}

/// The file beside a directory, wherever a path to it leads.
fn witness_of(directory: &Path) -> Option<PathBuf> {
    let directory = fs::canonicalize(directory).ok()?;
    let name = directory.file_name()?.to_str()?;
    Some(directory.parent()?.join(format!(".{name}.end")))
}

/// Makes a directory and those above it, durably.
///
/// # Errors
/// What the system says.
pub fn make_directory(directory: &Path) -> io::Result<()> {
    let above = directory.parent().filter(|above| !above.as_os_str().is_empty());
    let above = above.unwrap_or(Path::new("."));
    if directory.is_dir() {
        // A start that died may have made it, and its name not durable. (If so, those above are.)
        return match File::open(above).and_then(|above| above.sync_all()) {
            // Not ours, so it was not we who made anything there.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced,
        };
    }
    make_directory(above)?;
    match DirBuilder::new().mode(DIRECTORY_MODE).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    File::open(above)?.sync_all()
}

/// Takes from others what they may do with a directory and the files in it: an older version, or a
/// copy, has left them open. Gives how many were open. What belongs to another user stays as it is,
/// and links are not followed.
///
/// # Errors
/// What cannot be listed, or changed for another reason.
pub fn make_private(directory: &Path) -> io::Result<u64> {
    let mut count = u64::from(make_one_private(directory)?);
    for entry in fs::read_dir(directory)? {
        count += u64::from(make_one_private(&entry?.path())?);
    }
    Ok(count)
}

/// Restricts one file or directory to its owner; returns whether others had access.
///
/// # Errors
/// It cannot be looked at, or changed for another reason than that it is another user's.
pub fn make_one_private(path: &Path) -> io::Result<bool> {
    let found = fs::symlink_metadata(path)?;
    if found.is_symlink() || found.mode() & 0o077 == 0 {
        return Ok(false);
    }
    let private = Permissions::from_mode(found.mode() & 0o700);
    match fs::set_permissions(path, private) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
        Err(error) => Err(error),
    }
}

impl Disk for FileDisk {
    type File = File;

    fn create(&mut self, name: &str) -> Result<File, DiskError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        options.mode(FILE_MODE);
        let path = self.path(name);
        let file = options.open(&path).map_err(disk_error)?;
        if name == WITNESS_NAME
            && let Some(beside) = path.parent()
        {
            let synced = File::open(beside).and_then(|beside| beside.sync_all());
            synced.map_err(disk_error)?;
        }
        Ok(file)
    }

    fn open(&mut self, name: &str) -> Result<File, DiskError> {
        let path = self.path(name);
        let mut options = OpenOptions::new();
        // Only files that were created are written; a log that is looked at may be another user's.
        options.read(true).open(path).map_err(disk_error)
    }

    fn reopen(&mut self, name: &str) -> Result<File, DiskError> {
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).open(self.path(name));
        opened.map_err(disk_error)
    }

    fn list(&mut self) -> Result<Vec<String>, DiskError> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(disk_error)? {
            // No name of ours is anything but ASCII.
            names.extend(entry.map_err(disk_error)?.file_name().into_string());
        }
        Ok(names)
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        fs::remove_file(self.path(name)).map_err(disk_error)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        fs::rename(self.path(from), self.path(to)).map_err(disk_error)
    }

    fn len(&mut self, file: &mut File) -> Result<u64, DiskError> {
        Ok(file.metadata().map_err(disk_error)?.len())
    }

    fn write_at(&mut self, file: &mut File, position: u64, bytes: &[u8]) -> Result<(), DiskError> {
        file.write_all_at(bytes, position).map_err(disk_error)
    }

    fn read_at(
        &mut self,
        file: &mut File,
        position: u64,
        bytes: &mut [u8],
    ) -> Result<usize, DiskError> {
        let mut read = 0;
        while read < bytes.len() {
            match file.read_at(&mut bytes[read..], position + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(disk_error(error)),
            }
        }
        Ok(read)
    }

    fn sync(&mut self, file: &mut File) -> Result<(), DiskError> {
        // Interrupted or not: a sync that has failed is not repeated.
        file.sync_data().map_err(disk_error)
    }

    fn sync_directory(&mut self) -> Result<(), DiskError> {
        self.handle.sync_all().map_err(disk_error)
    }
}

fn disk_error(error: io::Error) -> DiskError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DiskError::NoSpace,
        io::ErrorKind::NotFound => DiskError::NotFound,
        io::ErrorKind::AlreadyExists => DiskError::Exists,
        _ => DiskError::Io(error.raw_os_error().unwrap_or(0)),
    }
}
