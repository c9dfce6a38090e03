//! Append-only byte areas with one writer, whose published ranges are shared between threads
//! without locks.
//!
//! Place on the path: log segments and shared payloads live here. A home shard appends a record
//! once; every edge shard that needs it holds a [`Slice`], sixteen bytes that keep the whole chunk
//! alive.
//!
//! Invariants: a byte is written at most once, before it is published, and never again; a `Slice`
//! covers published bytes only; the memory is freed when the last `Slice` *and* the writer are
//! dropped, on whichever thread that happens. One small `Slice` may therefore pin the chunk's whole
//! capacity: owners that keep slices for a long time bound them (`pinned_bytes_max`) or take a
//! [`Slice::copy_of`].

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Bound, Deref, RangeBounds};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum size of one chunk: offsets inside it are `u32`.
pub const CHUNK_BYTES_MAX: usize = u32::MAX as usize;

/// The function that frees foreign memory: called once, with the pointer and capacity given to
/// [`ChunkWriter::from_raw`].
pub type Release = Box<dyn FnOnce(NonNull<u8>, usize) + Send + Sync>;

/// The only writer of a chunk. Owned by the shard that appends; it may move to another thread, but
/// is never shared.
pub struct ChunkWriter {
    shared: NonNull<Shared>,
    len: u32,
}

/// A range of published, immutable bytes; clones share it. 16 bytes. Keeps its whole chunk alive.
pub struct Slice {
    /// None only for the empty slice, which pins nothing.
    shared: Option<NonNull<Shared>>,
    start: u32,
    len: u32,
}

impl Slice {
    /// Memory of a separate copy ([`Slice::copy_of`]) in addition to its bytes.
    pub const HEAD_BYTES: usize = size_of::<Shared>();
}

const _: () = assert!(size_of::<Slice>() == 16 && size_of::<Option<Slice>>() <= 24);

/// The head of a chunk. If the chunk owns its memory, the bytes follow it in the same allocation.
struct Shared {
    references: AtomicUsize,
    base: NonNull<u8>,
    capacity: usize,
    release: ManuallyDrop<Option<Release>>,
}

impl ChunkWriter {
    /// Allocates a chunk of `capacity` bytes. The bytes are not touched before they are written.
    ///
    /// # Panics
    /// If `capacity` exceeds [`CHUNK_BYTES_MAX`]. Aborts, as collections do, when memory is
    /// exhausted.
    pub fn heap(capacity: usize) -> ChunkWriter {
        ChunkWriter { shared: Shared::with_bytes(capacity), len: 0 }
    }

    /// Wraps memory from elsewhere, such as a mapping, in a chunk. `release` runs once, with the
    /// same pointer and capacity, when the last `Slice` and the writer have been dropped, on the
    /// thread that dropped the last of them.
    ///
    /// # Safety
    /// `ptr` is valid for reads and writes of `capacity` bytes until `release` runs, from any
    /// thread, and no other code writes there meanwhile.
    ///
    /// # Panics
    /// If `capacity` exceeds [`CHUNK_BYTES_MAX`]; `release` is then dropped without being called.
    pub unsafe fn from_raw(ptr: NonNull<u8>, capacity: usize, release: Release) -> ChunkWriter {
        assert!(capacity <= CHUNK_BYTES_MAX, "a chunk holds at most 4 GiB");
        let shared = Box::new(Shared {
            references: AtomicUsize::new(1),
            base: ptr,
            capacity,
            release: ManuallyDrop::new(Some(release)),
        });
        ChunkWriter { shared: NonNull::from(Box::leak(shared)), len: 0 }
    }

    /// Like [`ChunkWriter::from_raw`], for memory whose first `len` bytes were written by the
    /// previous process of a live upgrade.
    ///
    /// # Safety
    /// See [`ChunkWriter::from_raw`]; in addition, no code ever writes the first `len` bytes again.
    ///
    /// # Panics
    /// If `capacity` exceeds [`CHUNK_BYTES_MAX`], or `len` exceeds `capacity`; `release` is then
    /// dropped without being called.
    pub unsafe fn from_raw_published(
        ptr: NonNull<u8>,
        capacity: usize,
        len: usize,
        release: Release,
    ) -> ChunkWriter {
        assert!(len <= capacity, "published bytes lie within the chunk");
        // SAFETY: required of the caller.
        let mut writer = unsafe { ChunkWriter::from_raw(ptr, capacity, release) };
        writer.len = len as u32; // len <= capacity <= u32::MAX
        writer
    }

    /// The size of the chunk.
    pub fn capacity(&self) -> usize {
        self.shared().capacity
    }

    /// The number of bytes published so far.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether nothing has been published yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of bytes that still fit.
    pub fn remaining(&self) -> usize {
        self.capacity() - self.len()
    }

    /// Writes the parts one after the other and publishes them as one range. Returns None and
    /// writes nothing if they do not fit together.
    #[inline]
    pub fn append(&mut self, parts: &[&[u8]]) -> Option<Slice> {
        let mut total: usize = 0;
        for part in parts {
            total = total.checked_add(part.len())?;
        }
        if total > self.remaining() {
            return None;
        }
        let start = self.len();
        let mut place = start;
        for part in parts {
            // SAFETY: `place + part.len() <= capacity` as checked above, so the target lies within
            // the area. It lies above `len`, where no Slice reaches and no other code writes; the
            // source is a reference to published bytes or to other memory, so they cannot overlap.
            unsafe {
                let target = self.shared().base.as_ptr().add(place);
                ptr::copy_nonoverlapping(part.as_ptr(), target, part.len());
            }
            place += part.len();
        }
        self.len = place as u32; // place <= capacity <= u32::MAX
        Some(self.slice(start, total))
    }

    /// Returns a range of published bytes.
    ///
    /// # Panics
    /// If the range is not within the published bytes.
    #[inline]
    pub fn slice(&self, start: usize, len: usize) -> Slice {
        let end = start.checked_add(len).filter(|end| *end <= self.len());
        assert!(end.is_some(), "range {start}+{len} beyond the {} published bytes", self.len);
        if len == 0 {
            return Slice::empty();
        }
        self.shared().retain();
        Slice { shared: Some(self.shared), start: start as u32, len: len as u32 }
    }

    /// All published bytes.
    pub fn published(&self) -> &[u8] {
        // SAFETY: the first `len` bytes are initialised and never written again; the area lives as
        // long as `self` holds its reference.
        unsafe { std::slice::from_raw_parts(self.shared().base.as_ptr(), self.len()) }
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the writer holds a reference, so the head is alive; it is only changed when the
        // last reference is dropped.
        unsafe { self.shared.as_ref() }
    }
}

// SAFETY: the writer is the only code that writes above `len`, and all that it shares with slices
// is immutable or atomic. It is not Sync because nothing needs it.
unsafe impl Send for ChunkWriter {}

impl Drop for ChunkWriter {
    fn drop(&mut self) {
        // SAFETY: this is the writer's own reference, dropped once.
        unsafe { Shared::let_go(self.shared) }
    }
}

impl fmt::Debug for ChunkWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkWriter({} of {} bytes)", self.len, self.capacity())
    }
}

impl Slice {
    /// The empty slice; allocates and pins nothing.
    pub const fn empty() -> Slice {
        Slice { shared: None, start: 0, len: 0 }
    }

    /// Copies `bytes` to a separate allocation (40 bytes more than `bytes`).
    ///
    /// # Panics
    /// If `bytes` is longer than [`CHUNK_BYTES_MAX`].
    pub fn copy_of(bytes: &[u8]) -> Slice {
        Slice::concatenation_of(&[bytes])
    }

    /// Copies several parts, one after the other, like [`Slice::copy_of`].
    ///
    /// # Panics
    /// If the parts together are longer than [`CHUNK_BYTES_MAX`].
    pub fn concatenation_of(parts: &[&[u8]]) -> Slice {
        let total = parts.iter().fold(0usize, |sum, part| sum.saturating_add(part.len()));
        if total == 0 {
            return Slice::empty();
        }
        let mut writer = ChunkWriter::heap(total);
        writer.append(parts).unwrap_or_default()
    }

    /// The capacity of the chunk that this slice keeps alive.
    pub fn chunk_bytes(&self) -> usize {
        // SAFETY: `self` holds a reference, so the head is alive.
        self.shared.map_or(0, |shared| unsafe { shared.as_ref() }.capacity)
    }

    /// The identity of the chunk that this slice keeps alive: equal for all slices of one chunk,
    /// and different for all chunks that exist at the same time. 0 for an empty slice.
    pub fn chunk_id(&self) -> usize {
        self.shared.map_or(0, |shared| shared.as_ptr().addr())
    }

    /// Returns a part of this slice. Both share the bytes.
    ///
    /// # Panics
    /// If the range does not lie within the slice.
    pub fn sub(&self, range: impl RangeBounds<usize>) -> Slice {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.len as usize,
        };
        assert!(start <= end && end <= self.len as usize, "{start}..{end} of {} bytes", self.len);
        if start == end {
            return Slice::empty();
        }
        if let Some(shared) = self.shared {
            // SAFETY: `self` holds a reference, so the head is alive.
            unsafe { shared.as_ref() }.retain();
        }
        let (start, len) = (self.start + start as u32, (end - start) as u32);
        Slice { shared: self.shared, start, len }
    }
}

// SAFETY: the bytes are immutable once published and the count is atomic, so clones may be read and
// dropped on any thread; `release` is Send, for the thread that drops the last one, and Sync.
unsafe impl Send for Slice {}
// SAFETY: as for Send; nothing changes through a shared reference but the atomic count.
unsafe impl Sync for Slice {}

impl Deref for Slice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let Some(shared) = self.shared else {
            return &[];
        };
        // SAFETY: the range was published when the slice was made, so it is initialised, within the
        // area and never written again; the reference that `self` holds keeps the area alive.
        unsafe {
            let base = shared.as_ref().base.as_ptr().add(self.start as usize);
            std::slice::from_raw_parts(base, self.len as usize)
        }
    }
}

impl Clone for Slice {
    fn clone(&self) -> Slice {
        if let Some(shared) = self.shared {
            // SAFETY: `self` holds a reference, so the head is alive.
            unsafe { shared.as_ref() }.retain();
        }
        Slice { shared: self.shared, start: self.start, len: self.len }
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        if let Some(shared) = self.shared {
            // SAFETY: this is the slice's own reference, dropped once.
            unsafe { Shared::let_go(shared) }
        }
    }
}

impl Default for Slice {
    fn default() -> Slice {
        Slice::empty()
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Slice {
    fn eq(&self, other: &Slice) -> bool {
        **self == **other
    }
}

impl Eq for Slice {}

impl fmt::Debug for Slice {
    /// Prints the length only, so that payloads never reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slice({} bytes)", self.len)
    }
}

impl Shared {
    /// Allocates the head and `capacity` bytes behind it, in one allocation.
    fn with_bytes(capacity: usize) -> NonNull<Shared> {
        let layout = Shared::layout(capacity);
        // SAFETY: the layout is not empty, as it includes the head.
        let memory = unsafe { alloc(layout) };
        let Some(head) = NonNull::new(memory.cast::<Shared>()) else { handle_alloc_error(layout) };
        // SAFETY: the allocation is large enough for the head and the bytes and aligned for the
        // head.
        unsafe {
            let base = NonNull::new_unchecked(memory.add(size_of::<Shared>()));
            head.write(Shared {
                references: AtomicUsize::new(1),
                base,
                capacity,
                release: ManuallyDrop::new(None),
            });
        }
        head
    }

    fn layout(capacity: usize) -> Layout {
        assert!(capacity <= CHUNK_BYTES_MAX, "a chunk holds at most 4 GiB");
        match Layout::from_size_align(size_of::<Shared>() + capacity, align_of::<Shared>()) {
            Ok(layout) => layout,
            Err(_) => panic!("a chunk of {capacity} bytes does not fit into the address space"),
        }
    }

    fn retain(&self) {
        // As in Arc: a new reference comes from an existing one, so no ordering is needed.
        let before = self.references.fetch_add(1, Ordering::Relaxed);
        if before > isize::MAX as usize {
            std::process::abort(); // only leaked slices can get here; wrapping would free memory in use
        }
    }

    /// Drops one reference; the last one frees the chunk.
    ///
    /// # Safety
    /// The caller owns one reference and does not use `head` afterwards.
    unsafe fn let_go(head: NonNull<Shared>) {
        // SAFETY: the caller's reference keeps the head alive up to this decrement.
        if unsafe { head.as_ref() }.references.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // Every other holder's reads happen before its decrement, and so before the memory is
        // freed. A load rather than a fence: it costs no more here, and race detectors understand
        // it.
        // SAFETY: this was the last reference, so no other code frees the head.
        unsafe { head.as_ref() }.references.load(Ordering::Acquire);
        // SAFETY: the count is zero, so no other code has access; the head is freed below, so
        // `release` is moved out exactly once.
        let (release, base, capacity) = unsafe {
            let shared = &mut *head.as_ptr();
            (ManuallyDrop::take(&mut shared.release), shared.base, shared.capacity)
        };
        match release {
            Some(release) => {
                // SAFETY: a chunk with `release` came from `from_raw`, which boxed its head; the
                // fields that own something have been moved out.
                drop(unsafe { Box::from_raw(head.as_ptr()) });
                release(base, capacity);
            }
            // SAFETY: a chunk without `release` came from `with_bytes`, with this layout.
            None => unsafe { dealloc(head.as_ptr().cast(), Shared::layout(capacity)) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn an_append_is_complete_or_absent() {
        let mut writer = ChunkWriter::heap(10);
        let first = writer.append(&[b"abc", b"", b"de"]).unwrap();
        assert_eq!(&*first, b"abcde");
        assert!(writer.append(&[b"fgh", b"ijk"]).is_none());
        assert_eq!((writer.len(), writer.remaining(), writer.capacity()), (5, 5, 10));
        let second = writer.append(&[b"fghij"]).unwrap();
        assert!(writer.append(&[b"k"]).is_none());
        assert!(writer.append(&[b""]).unwrap().is_empty());
        assert_eq!(writer.published(), b"abcdefghij");
        assert_eq!(writer.slice(3, 4), Slice::copy_of(b"defg"));
        drop(writer);
        assert_eq!((&*first, &*second), (&b"abcde"[..], &b"fghij"[..]));
    }

    #[test]
    fn parts_outlive_the_whole_slice() {
        let whole = Slice::concatenation_of(&[b"hello ", b"world"]);
        let part = whole.sub(6..);
        let inner = part.sub(1..=2);
        drop(whole);
        assert_eq!((&*part, &*inner), (&b"world"[..], &b"or"[..]));
        assert!(part.sub(5..).is_empty() && part.sub(2..2).is_empty());
        assert_eq!(part.sub(..), part);
        assert!(Slice::empty().sub(..).is_empty());
        assert_eq!(format!("{inner:?}"), "Slice(2 bytes)");
    }

    #[test]
    fn invalid_ranges_panic() {
        fn check(act: impl FnOnce() + std::panic::UnwindSafe) {
            assert!(std::panic::catch_unwind(act).is_err());
        }
        check(|| drop(Slice::copy_of(b"abc").sub(2..4)));
        check(|| drop(Slice::copy_of(b"abc").sub(4..)));
        #[allow(clippy::reversed_empty_ranges)]
        check(|| drop(Slice::copy_of(b"abc").sub(2..1)));
        check(|| drop(ChunkWriter::heap(8).slice(0, 1)));
        check(|| drop(ChunkWriter::heap(8).slice(usize::MAX, 2)));
        check(|| drop(ChunkWriter::heap(CHUNK_BYTES_MAX + 1)));
    }

    #[test]
    fn a_chunk_may_be_empty() {
        let mut writer = ChunkWriter::heap(0);
        assert!(writer.append(&[b"x"]).is_none());
        assert!(
            writer.published().is_empty() && writer.slice(0, 0).is_empty() && writer.is_empty()
        );
    }

    /// The last holder, writer or slice, releases foreign memory once.
    #[test]
    fn foreign_memory_is_released_by_the_last_holder() {
        for writer_first in [false, true] {
            let released = Arc::new(AtomicUsize::new(0));
            let memory = NonNull::from(Box::leak(Box::new([0u8; 64]))).cast::<u8>();
            let seen = released.clone();
            let address = memory.as_ptr() as usize;
            let release: Release = Box::new(move |ptr, capacity| {
                assert_eq!((ptr.as_ptr() as usize, capacity), (address, 64));
                seen.fetch_add(1, Ordering::Relaxed);
                // SAFETY: this is the box leaked above, freed once.
                drop(unsafe { Box::from_raw(ptr.as_ptr().cast::<[u8; 64]>()) });
            });
            // SAFETY: the 64 bytes live until `release`.
            let mut writer = unsafe { ChunkWriter::from_raw(memory, 64, release) };
            let slice = writer.append(&[b"payload"]).unwrap();
            let other = slice.clone();
            if writer_first {
                drop(writer);
                drop(slice);
                assert_eq!(&*other, b"payload");
                std::thread::spawn(move || drop(other)).join().unwrap();
            } else {
                drop((slice, other));
                assert_eq!(released.load(Ordering::Relaxed), 0);
                drop(writer);
            }
            assert_eq!(released.load(Ordering::Relaxed), 1);
        }
    }

    /// Readers on other threads see whole ranges while the writer continues.
    #[test]
    fn readers_on_other_threads_see_whole_ranges() {
        let rounds: u32 = if cfg!(miri) { 50 } else { 5_000 };
        let (to, from) = std::sync::mpsc::channel::<Slice>();
        let reader = std::thread::spawn(move || {
            let mut count = 0u32;
            for slice in from {
                assert_eq!(&*slice, [count.to_le_bytes(), count.to_be_bytes()].concat());
                count += 1;
            }
            count
        });
        let mut writer = ChunkWriter::heap(1_000);
        for round in 0..rounds {
            let parts: [&[u8]; 2] = [&round.to_le_bytes(), &round.to_be_bytes()];
            let slice = writer.append(&parts).unwrap_or_else(|| {
                writer = ChunkWriter::heap(1_000);
                writer.append(&parts).unwrap()
            });
            to.send(slice).unwrap();
        }
        drop((writer, to));
        assert_eq!(reader.join().unwrap(), rounds);
    }
}
