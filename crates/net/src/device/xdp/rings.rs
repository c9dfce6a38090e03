//! The four rings of an AF_XDP socket, as the kernel maps them into the process.
//!
//! Each ring has one producer and one consumer; the kernel is one of them. Both count in 32 bits
//! that wrap; an entry's place is the count modulo the ring's length. The writer of an entry
//! publishes it by a store-release of its counter, the reader sees it by a load-acquire.
//!
//! Invariants: no index leaves the mapping, whatever the kernel's counters say; entries are plain
//! numbers, for which any bytes are valid.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use rustix::net::xdp::{XdpDesc, XdpRingFlags, XdpRingOffset};

/// An entry of a ring: any bytes are a valid one.
pub(super) trait Entry: Copy {}
/// An address in the memory of frames.
impl Entry for u64 {}
/// A frame: address and length.
impl Entry for XdpDesc {}

/// Memory that is unmapped when it is dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    address: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and has one owner.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Fresh memory that a child process does not get. The kernel uses huge pages if it has some.
    pub(super) fn anonymous(bytes: usize) -> io::Result<Mapping> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so nothing else is there.
        let address =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE)? };
        let mapping = Mapping::own(address, bytes)?;
        for advice in [Advice::LinuxDontFork, Advice::LinuxHugepage] {
            // SAFETY: it changes no contents, and the memory is all ours. Without the advice it is
            // slower at worst.
            let _ = unsafe { madvise(address, bytes, advice) };
        }
        Ok(mapping)
    }

    /// A ring of a socket, at the offset that stands for its kind.
    fn of_socket(socket: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<Mapping> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the kernel chooses the place, so nothing else is there.
        let address = unsafe { mmap(ptr::null_mut(), bytes, protection, flags, socket, offset)? };
        Mapping::own(address, bytes)
    }

    fn own(address: *mut std::ffi::c_void, bytes: usize) -> io::Result<Mapping> {
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { address, bytes })
    }

    /// The first byte, for the kernel.
    pub(super) fn address(&self) -> u64 {
        self.address.as_ptr() as u64
    }

    /// The bytes from `from` on; `None` outside of the mapping.
    pub(super) fn slice(&mut self, from: u64, length: usize) -> Option<&mut [u8]> {
        let from = usize::try_from(from).ok()?;
        if from.checked_add(length)? > self.bytes {
            return None;
        }
        // SAFETY: the bytes are inside of the mapping, which lives as long as `self` and is
        // borrowed mutably. That the kernel does not own the frame is the caller's account: its
        // address is in none of the kernel's rings.
        Some(unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr().add(from), length) })
    }

    /// A pointer to a value at `offset`; an error if it does not fit or is not aligned.
    fn at<T>(&self, offset: u64, count: usize) -> io::Result<NonNull<T>> {
        let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidData)?;
        let end = size_of::<T>().checked_mul(count).and_then(|bytes| bytes.checked_add(offset));
        if end.is_none_or(|end| end > self.bytes) || offset % align_of::<T>() != 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a ring of an unknown layout"));
        }
        // SAFETY: the place is inside of the mapping, as was just checked.
        Ok(unsafe { self.address.add(offset) }.cast())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives `self`. The kernel holds
        // its own pages. If it fails, the memory stays mapped, which is safe.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), self.bytes) };
    }
}

/// A ring as both its ends see it.
#[derive(Debug)]
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    /// A power of two.
    length: u32,
    /// Keeps the pointers above valid.
    _mapping: Mapping,
    _entries: PhantomData<T>,
}

// SAFETY: the pointers lead into the mapping, which the ring owns; only the kernel shares it.
unsafe impl<T: Entry> Send for Ring<T> {}

impl<T: Entry> Ring<T> {
    fn map(socket: BorrowedFd<'_>, place: &Place, length: u32) -> io::Result<Ring<T>> {
        let Some(flags) = place.offsets.flags else {
            let text = "the kernel is older than 5.4";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        };
        let entries_bytes = u64::from(length) * size_of::<T>() as u64;
        let bytes = usize::try_from(place.offsets.desc + entries_bytes)
            .map_err(|_| io::ErrorKind::InvalidData)?;
        let mapping = Mapping::of_socket(socket, place.file_offset, bytes)?;
        Ok(Ring {
            producer: mapping.at(place.offsets.producer, 1)?,
            consumer: mapping.at(place.offsets.consumer, 1)?,
            flags: mapping.at(flags, 1)?,
            entries: mapping.at(place.offsets.desc, length as usize)?,
            length,
            _mapping: mapping,
            _entries: PhantomData,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: the pointer is aligned and valid for as long as the mapping, and the kernel
        // changes the value by atomic stores only.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as in `producer`.
        unsafe { self.consumer.as_ref() }
    }

    fn flags(&self) -> u32 {
        // SAFETY: as in `producer`.
        unsafe { self.flags.as_ref() }.load(Ordering::Relaxed)
    }

    /// The place of the entry with this count. Inside of the mapping for any count.
    fn entry(&self, count: u32) -> *mut T {
        // SAFETY: `map` has checked that `length` entries, a power of two, are inside.
        unsafe { self.entries.as_ptr().add((count & (self.length - 1)) as usize) }
    }
}

/// The place of a ring: its offset in the socket's file, and its parts inside of the mapping.
pub(super) struct Place {
    pub file_offset: u64,
    pub offsets: XdpRingOffset,
}

/// A ring into which we put entries: `fill` and `send`.
#[derive(Debug)]
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// Entries so far, the unpublished included.
    produced: u32,
    /// Entries that the kernel has taken, at the last look.
    consumed: u32,
}

impl<T: Entry> Producer<T> {
    /// Maps the ring of a socket that was made with `length` entries, a power of two.
    pub(super) fn map(socket: BorrowedFd<'_>, place: &Place, length: u32) -> io::Result<Self> {
        let ring = Ring::map(socket, place, length)?;
        let produced = ring.producer().load(Ordering::Relaxed);
        let consumed = ring.consumer().load(Ordering::Acquire);
        Ok(Producer { ring, produced, consumed })
    }

    /// Puts an entry into the ring; false if it is full.
    pub(super) fn push(&mut self, entry: T) -> bool {
        if self.produced.wrapping_sub(self.consumed) >= self.ring.length {
            self.consumed = self.ring.consumer().load(Ordering::Acquire);
            if self.produced.wrapping_sub(self.consumed) >= self.ring.length {
                return false;
            }
        }
        // SAFETY: the place is inside of the mapping, and ours until it is published: the kernel
        // has consumed its last entry.
        unsafe { self.ring.entry(self.produced).write(entry) };
        self.produced = self.produced.wrapping_add(1);
        true
    }

    /// Shows the kernel all entries so far.
    pub(super) fn publish(&mut self) {
        self.ring.producer().store(self.produced, Ordering::Release);
    }

    /// Entries that the kernel has not taken yet.
    pub(super) fn left(&mut self) -> u32 {
        self.consumed = self.ring.consumer().load(Ordering::Acquire);
        self.produced.wrapping_sub(self.consumed)
    }

    /// Whether the kernel takes entries only after a call.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.flags() & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
    }
}

/// A ring from which we take entries: `receive` and `completion`.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    consumed: u32,
    /// Entries that the kernel has put there, at the last look.
    produced: u32,
}

impl<T: Entry> Consumer<T> {
    /// Maps the ring of a socket that was made with `length` entries, a power of two.
    pub(super) fn map(socket: BorrowedFd<'_>, place: &Place, length: u32) -> io::Result<Self> {
        let ring = Ring::map(socket, place, length)?;
        let consumed = ring.consumer().load(Ordering::Relaxed);
        Ok(Consumer { ring, consumed, produced: consumed })
    }

    /// Looks for new entries if all known ones were taken; returns whether there is one.
    pub(super) fn is_ready(&mut self) -> bool {
        if self.consumed == self.produced {
            self.produced = self.ring.producer().load(Ordering::Acquire);
        }
        self.consumed != self.produced
    }

    /// Takes the next of the known entries. Its place stays ours until [`Consumer::release`].
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.consumed == self.produced {
            return None;
        }
        // SAFETY: the place is inside of the mapping, any bytes are an entry, and the kernel does
        // not write there before `release`.
        let entry = unsafe { self.ring.entry(self.consumed).read() };
        self.consumed = self.consumed.wrapping_add(1);
        Some(entry)
    }

    /// Returns the places of all taken entries to the kernel.
    pub(super) fn release(&mut self) {
        self.ring.consumer().store(self.consumed, Ordering::Release);
    }
}
