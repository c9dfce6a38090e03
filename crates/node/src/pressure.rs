//! The memory pressure of the process, from its watcher to all I/O threads.
//!
//! Place: read once a turn, written by the process's watcher. A waiting thread sees a change when
//! it wakes: an idle thread uses no memory.

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
    /// The present pressure.
    pub fn get(&self) -> Pressure {
        Pressure::of(self.level.load(Ordering::Relaxed))
    }

    /// Sets the pressure, and the memory in use.
    pub fn set(&self, pressure: Pressure, used_bytes: u64) {
        self.level.store(pressure as u8, Ordering::Relaxed);
        self.used_bytes.store(used_bytes, Ordering::Relaxed);
    }

    /// Sets the ceiling of the process.
    pub fn set_ceiling(&self, bytes: u64) {
        self.ceiling_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The memory in use at the last check, and the ceiling; 0 without a watcher.
    pub fn bytes(&self) -> (u64, u64) {
        let read = |bytes: &AtomicU64| bytes.load(Ordering::Relaxed);
        (read(&self.used_bytes), read(&self.ceiling_bytes))
    }

    /// Counts connections that were refused because of it.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}
