//! The number of cursors that each connection of an edge holds for filters that catch up
//! (`catch_up`).
//!
//! A session may have many filters and a log many partitions, and a client that gives no credit or
//! reads nothing keeps each pair for as long as it likes. So cursors have the bounds of other
//! output of a blocked connection: `outbox_bytes_max` for one, `pinned_bytes_max` for all of an
//! edge together, counted apart from that.

use crate::edge::excess::Excess;
use crate::ids::ConnIndex;
use crate::settings::Limits;
use std::collections::BTreeMap;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// Approximate bytes of one cursor in the table.
const CURSOR_BYTES: u64 = 64;

/// Cursors held.
#[derive(Default, Hand)]
pub(super) struct Held {
    /// The number of cursors by connection; connections without any are absent.
    of_connections: BTreeMap<ConnIndex, u64>,
    all: u64,
}

impl Held {
    /// Whether a connection may hold this number of further cursors.
    pub fn have_room(&self, index: ConnIndex, more: usize, limits: &Limits) -> bool {
        let all = bytes_of(self.all, more);
        more == 0 || self.have_own_room(index, more, limits) && all <= limits.pinned_bytes_max
    }

    /// Whether its own bound permits this number of further cursors.
    fn have_own_room(&self, index: ConnIndex, more: usize, limits: &Limits) -> bool {
        let own = self.of_connections.get(&index).copied().unwrap_or(0);
        bytes_of(own, more) <= u64::from(limits.outbox_bytes_max)
    }

    /// The bytes of the cursors and of the table of counts.
    pub fn memory_bytes(&self) -> usize {
        (self.all * CURSOR_BYTES) as usize
            + tree_bytes(self.of_connections.len(), size_of::<(ConnIndex, u64)>())
    }

    /// A connection holds one more; an error without room for it. A dead connection has none.
    pub fn hold(&mut self, index: ConnIndex, is_dead: bool, limits: &Limits) -> Result<(), Excess> {
        if is_dead || !self.have_room(index, 1, limits) {
            return Err(if self.have_own_room(index, 1, limits) {
                Excess::Shared
            } else {
                Excess::Own
            });
        }
        *self.of_connections.entry(index).or_default() += 1;
        self.all += 1;
        Ok(())
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
