//! Subscriptions to filters at an edge: a trie of its own filters, and for each topic that homes
//! have announced, which of them match.
//!
//! Step 8 of the path. Invariants: every subscription asks every home, which says where it begins
//! in each partition, and is open when all have answered; the last one to a filter takes it back
//! from all homes; what matches a topic is found again only when the set of filters has changed.
//! What is not simply live is in `behind`.

use stdx::blocks::List;
use stdx::chunk::Slice;
use stdx::handing::Hand;
use stdx::memory::vector_bytes;

/// One filter with its subscriptions.
#[derive(Hand)]
pub(crate) struct FilterEntry {
    pub name: Slice,
    pub members: List,
}

/// A topic that some home has announced to this edge.
#[derive(Hand)]
pub(crate) struct NamedTopic {
    pub name: Slice,
    /// The version of the set of filters that `filters` was found with.
    pub version: u64,
    /// Filters of this edge that match.
    pub filters: Vec<u32>,
}

/// In place of a version.
pub(crate) const NEVER_MATCHED: u64 = u64::MAX;

impl NamedTopic {
    /// Bytes of its name, a copy of its own, and of the list.
    pub fn owned_bytes(&self) -> usize {
        Slice::HEAD_BYTES + self.name.len() + vector_bytes::<u32>(self.filters.capacity())
    }
}
