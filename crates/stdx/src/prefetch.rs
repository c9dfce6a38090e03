//! Prefetch: the processor loads memory while the program does something else.
//!
//! Tables of ten million entries are in no cache, and a message needs about ten lines of them, each
//! found by the one before. A shard with several messages asks for the first line of all of them,
//! then for the second of all, and so on, and waits for memory once instead of once for each. A
//! prefetch changes nothing that a program can see.

/// Asks for the memory of a value, which need not have been written: its first line and its last.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    let first = std::ptr::from_ref(value).cast::<u8>();
    prefetch_line(first);
    if size_of::<T>() > align_of::<T>() {
        prefetch_line(first.wrapping_add(size_of::<T>() - 1));
    }
}

#[inline(always)]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn prefetch_line(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch is a hint. It accesses nothing that a program can see, and does not fault
    // whatever the address is.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

#[inline(always)]
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn prefetch_line(_: *const u8) {}
