//! How short of memory the process is, told from whoever watches it to all I/O threads.
//!
//! Place: read once a turn, written by the process's watcher. A thread that waits learns of it when it wakes: one that has
//! nothing to do takes no memory.

use broker::edge::Pressure;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Shared by the watcher and the threads.
#[derive(Debug, Default)]
pub struct SharedPressure {
    level: AtomicU8,
    used_bytes: AtomicU64,
    ceiling_bytes: AtomicU64,
    refused: AtomicU64,
}

impl SharedPressure {
    /// The pressure now.
    pub fn get(&self) -> Pressure {
        Pressure::of(self.level.load(Ordering::Relaxed))
    }

    /// The pressure from now on, and how much memory is used.
    pub fn set(&self, pressure: Pressure, used_bytes: u64) {
        self.level.store(pressure as u8, Ordering::Relaxed);
        self.used_bytes.store(used_bytes, Ordering::Relaxed);
    }

    /// What the process means to stay below.
    pub fn set_ceiling(&self, bytes: u64) {
        self.ceiling_bytes.store(bytes, Ordering::Relaxed);
    }

    /// What was used at the last look, and the ceiling; 0 where nobody looks.
    pub fn bytes(&self) -> (u64, u64) {
        let read = |bytes: &AtomicU64| bytes.load(Ordering::Relaxed);
        (read(&self.used_bytes), read(&self.ceiling_bytes))
    }

    /// Connections that were not let in because of it.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}
