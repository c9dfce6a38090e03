//! The port through which a durable log accesses its files: one directory, flat names.
//!
//! The crate `disk` implements it over a real directory, [`hostile`](super::hostile) in memory for
//! tests and the simulator. The store assumes only this: bytes and names survive a power failure
//! once `sync` of the file and `sync_directory` have succeeded; before that any part of them may.

use std::fmt;

/// The reason why a call failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskError {
    /// The disk, or the user's quota, is full.
    NoSpace,
    /// The file does not exist.
    NotFound,
    /// The file already exists.
    Exists,
    /// Another error, by the system's number; 0 if it has none.
    Io(i32),
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskError::NoSpace => write!(f, "no space left on the disk"),
            DiskError::NotFound => write!(f, "no such file"),
            DiskError::Exists => write!(f, "the file exists already"),
            DiskError::Io(code) => write!(f, "input or output failed (system error {code})"),
        }
    }
}

impl std::error::Error for DiskError {}

/// One directory of files, used by one store.
pub trait Disk {
    /// An open file. Closed when it is dropped.
    type File;

    /// Creates an empty file and opens it; [`DiskError::Exists`] if the name is taken.
    fn create(&mut self, name: &str) -> Result<Self::File, DiskError>;

    /// Opens a file for reading. Only created files are written, apart from [`Disk::reopen`].
    fn open(&mut self, name: &str) -> Result<Self::File, DiskError>;

    /// Opens a file for reading and writing, in order to write existing bytes again.
    fn reopen(&mut self, name: &str) -> Result<Self::File, DiskError>;

    /// All names, in any order.
    fn list(&mut self) -> Result<Vec<String>, DiskError>;

    /// Removes a name. Open files stay readable.
    fn remove(&mut self, name: &str) -> Result<(), DiskError>;

    /// Renames a file atomically; replaces an existing file of that name.
    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError>;

    /// The size of a file.
    fn len(&mut self, file: &mut Self::File) -> Result<u64, DiskError>;

    /// Writes all bytes. After an error any part of them may have been written.
    fn write_at(
        &mut self,
        file: &mut Self::File,
        position: u64,
        bytes: &[u8],
    ) -> Result<(), DiskError>;

    /// Reads until the buffer is full or the file ends. Returns the number of bytes.
    fn read_at(
        &mut self,
        file: &mut Self::File,
        position: u64,
        bytes: &mut [u8],
    ) -> Result<usize, DiskError>;

    /// Makes the file's content and length durable. After an error they may be durable or not, and
    /// a later success proves nothing.
    fn sync(&mut self, file: &mut Self::File) -> Result<(), DiskError>;

    /// Makes created, changed and removed names durable.
    fn sync_directory(&mut self) -> Result<(), DiskError>;
}
