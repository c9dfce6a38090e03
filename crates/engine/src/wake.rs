//! Wakes the engine's thread: one eventfd for requests and for everything of librdkafka.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The bell of a thread.
#[derive(Debug)]
pub(crate) struct Wake {
    descriptor: OwnedFd,
    /// Whether it has rung for requests since the thread last looked.
    has_rung: AtomicBool,
}

impl Wake {
    pub(crate) fn new() -> io::Result<Wake> {
        let descriptor = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Wake { descriptor, has_rung: AtomicBool::new(false) })
    }

    /// Wakes the thread. It sees all requests sent before.
    pub(crate) fn ring(&self) {
        if !self.has_rung.swap(true, Ordering::AcqRel) {
            // The counter is far from its maximum, so the write cannot fail.
            _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
        }
    }

    /// Waits until the bell rings, at most for `timeout_ms`, and stops it.
    pub(crate) fn wait(&self, timeout_ms: u32) {
        let mut descriptors = [PollFd::new(&self.descriptor, PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: i64::from(timeout_ms / 1_000),
            tv_nsec: i64::from(timeout_ms % 1_000) * 1_000_000,
        };
        // A signal ends the wait early, which does no harm.
        _ = poll(&mut descriptors, Some(&timeout));
        _ = rustix::io::read(&self.descriptor, &mut [0; 8]);
        self.has_rung.store(false, Ordering::Release);
    }

    /// The descriptor that librdkafka's threads write to.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
