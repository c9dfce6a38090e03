//! The figures of the system's allocator: allocated memory, and memory kept for later.

/// Bytes of the process's heap, all arenas together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Heap {
    /// Allocated bytes, with the allocator's own headers; the caches of threads count here.
    pub used_bytes: u64,
    /// Bytes allocated as separate mappings; pages that were never written cost nothing yet.
    pub mapped_bytes: u64,
    /// Bytes returned to the allocator, and not to the system.
    pub free_bytes: u64,
}

/// The state of the heap; none if the allocator does not report it. Examines each free piece.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn state() -> Option<Heap> {
    // glibc has the function since 2.33. A program that links it would not start with an older one.
    // SAFETY: the name is a string of C, and the search has no other precondition.
    let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"mallinfo2".as_ptr()) };
    if function.is_null() {
        return None;
    }
    // SAFETY: the function of this name in glibc has this type. It only reads the allocator's own
    // state under its own locks, and returns plain numbers.
    let mallinfo2: extern "C" fn() -> libc::mallinfo2 = unsafe { std::mem::transmute(function) };
    let info = mallinfo2();
    Some(Heap {
        used_bytes: info.uordblks as u64,
        mapped_bytes: info.hblkhd as u64,
        free_bytes: info.fordblks as u64,
    })
}

/// The state of the heap; none if the allocator does not report it. Examines each free piece.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn state() -> Option<Heap> {
    None
}

/// Returns the allocator's free memory to the system. Examines each free piece, under the
/// allocator's locks.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn trim() {
    // SAFETY: the function takes a number, works on the allocator's own state under its own locks,
    // and does not touch allocated memory.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Returns the allocator's free memory to the system. Examines each free piece, under the
/// allocator's locks.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn trim() {}

#[cfg(test)]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn allocated_memory_is_used_and_freed_memory_is_free() {
        // Smaller than what would get a mapping of its own, and kept from the thread's cache by its
        // size.
        let pieces: Vec<Vec<u8>> = (0..200).map(|_| vec![7; 20_000]).collect();
        let full = state().expect("glibc tells");
        assert!(full.used_bytes + full.mapped_bytes >= 200 * 20_000, "{full:?}");
        drop(pieces);
        let empty = state().expect("glibc tells");
        // Other tests of this process allocate meanwhile, but not megabytes.
        assert!(empty.used_bytes + 1_000_000 < full.used_bytes, "{full:?} {empty:?}");
    }
}
