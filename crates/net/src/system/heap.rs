//! What the system's allocator says of itself: how much of its memory is handed out, and how much
//! it holds for later.

/// Bytes of the process's heap, all arenas together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Heap {
    /// Handed out, with the allocator's own heads; what threads keep in their caches counts here.
    pub used_bytes: u64,
    /// Handed out as mappings of their own. What of them was never written is not there yet.
    pub mapped_bytes: u64,
    /// Given back to the allocator and not to the system.
    pub free_bytes: u64,
}

/// The state of the heap. None where the allocator does not tell. Costs a look at each piece that
/// is free.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn state() -> Option<Heap> {
    // SAFETY: the function takes no arguments, only reads the allocator's own state under its own
    // locks, and returns plain numbers.
    let info = unsafe { libc::mallinfo2() };
    Some(Heap {
        used_bytes: info.uordblks as u64,
        mapped_bytes: info.hblkhd as u64,
        free_bytes: info.fordblks as u64,
    })
}

/// The state of the heap. None where the allocator does not tell. Costs a look at each piece that
/// is free.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn state() -> Option<Heap> {
    None
}

/// Gives back to the system what the allocator holds for later. Looks at each piece that is free,
/// under the allocator's locks.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn trim() {
    // SAFETY: the function takes a number, works on the allocator's own state under its own locks,
    // and leaves alone what is handed out.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Gives back to the system what the allocator holds for later. Looks at each piece that is free,
/// under the allocator's locks.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn trim() {}

#[cfg(test)]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_allocated_is_used_and_what_is_given_back_is_free() {
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
