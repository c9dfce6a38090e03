//! Waking a reactor from another thread: an eventfd, written at most once per turn.
//!
//! Create the wakers before any thread takes a private descriptor table, and keep all of them in
//! every table: the number then names the same eventfd on every thread. A thread that does not keep
//! it must not hold a clone: the last clone closes the number in the table of the thread that drops
//! it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

use crate::Wake;

/// Wakes one [`super::Kernel`].
#[derive(Debug)]
pub struct Waker {
    descriptor: OwnedFd,
    pending: AtomicBool,
}

impl Waker {
    /// Opens the eventfd in the table of the calling thread.
    ///
    /// # Errors
    /// The table has no room.
    pub fn new() -> io::Result<Arc<Waker>> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Waker { descriptor, pending: AtomicBool::new(false) }))
    }

    /// The number to keep in every private table.
    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// The descriptor for an edge-triggered epoll: each write is an edge, so it is never read.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Resets the waker after the reactor saw the edge: later calls write again. Acquires
    /// everything that earlier callers have released, including those that found `pending` set and
    /// wrote nothing.
    pub(crate) fn take(&self) -> bool {
        self.pending.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Waker {
    fn wake(&self) {
        if !self.pending.swap(true, Ordering::AcqRel) {
            // Fails only at 2^64 wakes (the counter is never read) or if the descriptor is not in
            // this thread's table, which is the caller's mistake.
            let written = rustix::io::write(&self.descriptor, &1u64.to_ne_bytes());
            debug_assert!(written.is_ok(), "the eventfd is kept in every table: {written:?}");
        }
    }
}
