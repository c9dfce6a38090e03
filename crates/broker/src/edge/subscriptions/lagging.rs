//! Plain subscriptions that are read from the log: which of a connection wait for a page, and how
//! many pages are on their way.
//!
//! Beside the path. A page comes for one subscription, and the next is asked for when the socket
//! has drained; a session may have ten thousand that wait. So those that wait are kept apart, and a
//! page costs a look at the next of them, not at all subscriptions.
//!
//! Invariants: a subscription in [`Stage::Lagging`] is in `waiting` (what is there and is not in
//! that stage is taken out when it is met); `reading` counts those in [`Stage::Reading`], at most
//! [`READS_MAX`] of a connection and log.

use std::collections::{BTreeMap, BTreeSet};
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// Pages on their way for one connection and log.
pub(crate) const READS_MAX: usize = 4;

/// See the module.
#[derive(Default, Hand)]
pub(crate) struct Laggards {
    /// By connection.
    pub waiting: BTreeSet<(u32, u32)>,
    /// By connection and log.
    pub reading: BTreeMap<(u32, u16), usize>,
}

impl Laggards {
    /// Bytes of both, about.
    pub fn memory_bytes(&self) -> usize {
        tree_bytes(self.waiting.len(), size_of::<(u32, u32)>())
            + tree_bytes(self.reading.len(), size_of::<((u32, u16), usize)>())
    }
}
