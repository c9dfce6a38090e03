//! How many cursors in partitions the connections of an edge hold for filters that are behind
//! (`behind`).
//!
//! A session may have many filters and a log many partitions, and a client that gives no credit or
//! reads nothing keeps each pair for as long as it likes. So cursors have the bounds of what else
//! waits for a blocked connection: `outbox_bytes_max` for one, `pinned_bytes_max` for all of an
//! edge together, counted apart from that.

use crate::ids::ConnIndex;
use crate::settings::Limits;
use std::collections::BTreeMap;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// What one cursor takes in the table, about.
const CURSOR_BYTES: u64 = 64;

/// Cursors held.
#[derive(Default, Hand)]
pub(crate) struct Held {
    /// By connection; who holds none is not here.
    of_connections: BTreeMap<u32, u64>,
    all: u64,
}

impl Held {
    /// Whether a connection may hold so many more.
    pub fn have_room(&self, index: ConnIndex, more: usize, limits: &Limits) -> bool {
        let all = bytes_of(self.all, more);
        more == 0 || self.have_own_room(index, more, limits) && all <= limits.pinned_bytes_max
    }

    /// The same of its own bound alone.
    pub fn have_own_room(&self, index: ConnIndex, more: usize, limits: &Limits) -> bool {
        let own = self.of_connections.get(&index).copied().unwrap_or(0);
        bytes_of(own, more) <= u64::from(limits.outbox_bytes_max)
    }

    /// Bytes of the cursors, and of the table of who has how many.
    pub fn memory_bytes(&self) -> usize {
        (self.all * CURSOR_BYTES) as usize
            + tree_bytes(self.of_connections.len(), size_of::<(u32, u64)>())
    }

    /// A connection holds one more.
    pub fn hold(&mut self, index: ConnIndex) {
        *self.of_connections.entry(index).or_default() += 1;
        self.all += 1;
    }

    /// A connection holds one less.
    pub fn let_go(&mut self, index: ConnIndex) {
        let Some(own) = self.of_connections.get_mut(&index) else {
            debug_assert!(false, "only what is held is let go");
            return;
        };
        *own -= 1;
        self.all -= 1;
        if *own == 0 {
            self.of_connections.remove(&index);
        }
    }
}

fn bytes_of(count: u64, more: usize) -> u64 {
    (count + more as u64).saturating_mul(CURSOR_BYTES)
}
