//! The port through which a durable log reaches its files: one directory, flat names.
//!
//! The crate `disk` implements it over a real directory, [`hostile`](super::hostile) in memory for
//! tests and the simulator. What the store assumes of an implementation, and no more: bytes and
//! names survive a power failure once `sync` of the file and `sync_directory` have succeeded;
//! before that any part of them may.

use std::fmt;

/// Why a call to the disk failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskError {
    /// The disk, or what this user may have of it, is full.
    NoSpace,
    /// There is no such file.
    NotFound,
    /// There is such a file already.
    Exists,
    /// Anything else, as the system's error number; 0 if it has none.
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

    /// Makes an empty file and opens it; [`DiskError::Exists`] if the name is taken.
    fn create(&mut self, name: &str) -> Result<Self::File, DiskError>;

    /// Opens a file for reading: but for what [`Disk::reopen`] is for, only files that were created
    /// are written.
    fn open(&mut self, name: &str) -> Result<Self::File, DiskError>;

    /// Opens a file for reading and writing, to write bytes that it has once more.
    fn reopen(&mut self, name: &str) -> Result<Self::File, DiskError>;

    /// All names, in any order.
    fn list(&mut self) -> Result<Vec<String>, DiskError>;

    /// Removes a name. Files that are open stay readable.
    fn remove(&mut self, name: &str) -> Result<(), DiskError>;

    /// Gives a file another name, in one step; a file that has it is replaced.
    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Bytes of a file.
    fn len(&mut self, file: &mut Self::File) -> Result<u64, DiskError>;

    /// Writes all the bytes. After an error any part of them may have been written.
    fn write_at(
        &mut self,
        file: &mut Self::File,
        position: u64,
        bytes: &[u8],
    ) -> Result<(), DiskError>;

    /// Reads until the buffer is full or the file ends, and says how many bytes it read.
    fn read_at(
        &mut self,
        file: &mut Self::File,
        position: u64,
        bytes: &mut [u8],
    ) -> Result<usize, DiskError>;

    /// Makes what was written to the file durable, with its length. After an error it may be or
    /// not, and a later success says nothing about it.
    fn sync(&mut self, file: &mut Self::File) -> Result<(), DiskError>;

    /// Makes names made, changed and removed durable.
    fn sync_directory(&mut self) -> Result<(), DiskError>;
}
