//! Areas of memory with a descriptor: log segments that an upgrade can hand to the next process.
//!
//! The mapping and the descriptor have different lifetimes. The mapping belongs to the process: any
//! thread may unmap it, so it ends with the last slice of the chunk, on any thread. The descriptor
//! is a number in one table. With private tables, the same number is another socket on another
//! thread, and a `Drop` that runs there would close that. So [`MemoryFd`] has no `Drop`: its owner
//! closes it, on the thread (or a thread that shares the table) where it was created.

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use stdx::chunk::{CHUNK_BYTES_MAX, ChunkWriter};

/// The descriptor of an area. A number only: dropping it leaks the descriptor until the table goes.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "close it on the thread that made it, or the descriptor leaks"]
pub struct MemoryFd {
    number: RawFd,
    /// Names the area among those of one [`Spares`]; 0 for an area of none.
    area: u64,
}

impl MemoryFd {
    /// The descriptor of an area of [`super::Spares`].
    pub(super) fn of_area(descriptor: OwnedFd, area: u64) -> MemoryFd {
        MemoryFd { number: descriptor.into_raw_fd(), area }
    }

    /// The area's name among those of its [`super::Spares`].
    pub(super) fn area(&self) -> u64 {
        self.area
    }

    /// The descriptor itself, in the table where it was made.
    pub(super) fn into_owned(self) -> OwnedFd {
        // SAFETY: its maker gave up the ownership of this number, and `self` is consumed, so it is
        // closed once. That the table is the right one was asked of the caller.
        unsafe { OwnedFd::from_raw_fd(self.number) }
    }

    /// The number, for passing it on (`SCM_RIGHTS`), in the table where it was made.
    pub fn as_raw(&self) -> RawFd {
        self.number
    }

    /// The descriptor itself, to be passed on by the thread that made it (or shares its table).
    pub fn lend(&self) -> BorrowedFd<'_> {
        // SAFETY: its maker gave up the ownership of this number and only `close` closes it, which
        // takes `self`; so it is open for as long as it is borrowed. That the table is the right
        // one was asked of the caller.
        unsafe { BorrowedFd::borrow_raw(self.number) }
    }

    /// Closes it in the calling thread's table, which must be the one where it was made. The memory
    /// stays for as long as it is mapped.
    pub fn close(self) {
        drop(self.into_owned());
    }
}

/// Creates an area of `capacity_bytes`, filled with zeros. A page costs memory from its first write
/// on, so unused capacity costs nothing.
///
/// # Errors
/// `InvalidInput` for no bytes or more than [`CHUNK_BYTES_MAX`]; otherwise the system lacks a
/// descriptor or address space.
pub(super) fn fresh(capacity_bytes: usize) -> io::Result<(NonNull<u8>, OwnedFd)> {
    if capacity_bytes == 0 || capacity_bytes > CHUNK_BYTES_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = memfd_create("log-segment", flags)?;
    ftruncate(&memory, capacity_bytes as u64)?;
    // Another process of the same user could shorten it by way of /proc, and a read behind its end
    // is a SIGBUS.
    fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok((map(&memory, capacity_bytes)?, memory))
}

/// Maps an area of another process, of which `len` bytes are written. That process does not write
/// to it any more, and no process shortens it.
///
/// # Errors
/// `InvalidData` if the area has fewer bytes; otherwise the system has no address space.
pub fn reopen(memory: OwnedFd, len: usize) -> io::Result<(ChunkWriter, MemoryFd)> {
    let capacity_bytes = usize::try_from(fstat(&memory)?.st_size).unwrap_or(usize::MAX);
    if capacity_bytes == 0 || capacity_bytes > CHUNK_BYTES_MAX || len > capacity_bytes {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let address = map(&memory, capacity_bytes)?;
    let number = memory.into_raw_fd();
    Ok((chunk(address, capacity_bytes, len, unmap), MemoryFd { number, area: 0 }))
}

/// Maps the whole file, which has this length.
fn map(memory: &OwnedFd, capacity_bytes: usize) -> io::Result<NonNull<u8>> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses an address that nothing of ours uses. The file has the full
    // length, is written by no other process, and is not shortened, so that every byte can be
    // accessed.
    let address =
        unsafe { mmap(ptr::null_mut(), capacity_bytes, protection, MapFlags::SHARED, memory, 0)? };
    NonNull::new(address.cast::<u8>())
        .ok_or_else(|| io::Error::new(io::ErrorKind::OutOfMemory, "mapped at address 0"))
}

/// A chunk in a mapping, which `release` gets when no slice refers to it any more. The first `len`
/// bytes are published.
pub(super) fn chunk(
    address: NonNull<u8>,
    capacity_bytes: usize,
    len: usize,
    release: impl FnOnce(NonNull<u8>, usize) + Send + Sync + 'static,
) -> ChunkWriter {
    // SAFETY: the mapping of `map`, readable and writable for its whole length until `release`
    // runs, from any thread of the process; only the chunk knows its address. The first `len` bytes
    // are not written any more.
    unsafe { ChunkWriter::from_raw_published(address, capacity_bytes, len, Box::new(release)) }
}

pub(super) fn unmap(address: NonNull<u8>, capacity_bytes: usize) {
    // SAFETY: a mapping of `map` with its length. The chunk that had it calls this once, when no
    // slice refers to its bytes any more, or has given it to `Spares`, which does so once.
    let unmapped = unsafe { munmap(address.as_ptr().cast(), capacity_bytes) };
    debug_assert!(unmapped.is_ok(), "a mapping of our own: {unmapped:?}");
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::system::{Spares, unshare_table};

    #[test]
    fn appended_bytes_are_in_the_file_and_untouched_pages_cost_nothing() {
        let (mut writer, memory) = Spares::default().create(64 << 20).expect("an area");
        let slice = writer.append(&[b"first ", b"record"]).expect("room");
        // SAFETY: open until `close` below.
        let file = unsafe { BorrowedFd::borrow_raw(memory.as_raw()) };
        let mut bytes = [0; 12];
        assert_eq!(rustix::io::pread(file, &mut bytes, 0), Ok(12));
        assert_eq!(&bytes, b"first record");
        let status = fstat(file).expect("status");
        assert_eq!(status.st_size, 64 << 20);
        assert!(status.st_blocks * 512 <= 2 << 20, "{} blocks", status.st_blocks);
        memory.close();
        assert_eq!(&slice[..], b"first record");
    }

    #[test]
    fn a_sealed_area_keeps_its_length_and_can_be_written() {
        let (mut writer, memory) = Spares::default().create(1 << 16).expect("an area");
        for bytes in [0, 1 << 12, 1 << 20] {
            let refused = ftruncate(memory.lend(), bytes);
            assert_eq!(refused, Err(rustix::io::Errno::PERM), "{bytes}");
        }
        let copy = memory.lend().try_clone_to_owned().expect("a descriptor");
        let slice = writer.append(&[b"before"]).expect("room");
        // As the next process of an upgrade does.
        let (mut next, reopened) = reopen(copy, slice.len()).expect("the same area");
        let after = next.append(&[b" and after"]).expect("room");
        assert_eq!((&slice[..], &after[..]), (&b"before"[..], &b" and after"[..]));
        reopened.close();
        memory.close();
    }

    #[test]
    fn the_mapping_goes_on_any_thread_and_the_descriptor_only_on_its_own() {
        let (mut writer, memory) = Spares::default().create(1 << 16).expect("an area");
        let slice = writer.append(&[b"kept"]).expect("room");
        thread::spawn(move || {
            unshare_table(&[]).expect("a table of its own");
            assert_eq!(&slice[..], b"kept");
            drop((writer, slice));
        })
        .join()
        .expect("the thread ends");
        // SAFETY: open until `close` below.
        let file = unsafe { BorrowedFd::borrow_raw(memory.as_raw()) };
        assert_eq!(fstat(file).expect("still open here").st_size, 1 << 16);
        memory.close();
    }

    #[test]
    fn sizes_outside_the_bounds_of_a_chunk_are_refused() {
        for bytes in [0, CHUNK_BYTES_MAX + 1] {
            let refused = Spares::default().create(bytes).map(|_| ()).map_err(|error| error.kind());
            assert_eq!(refused, Err(io::ErrorKind::InvalidInput), "{bytes}");
        }
    }
}
