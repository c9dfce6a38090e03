//! A slab key: index and generation. It identifies a connection for the network, the shard and the
//! mailboxes.

use crate::handing::Hand;

/// Identifies one occupant of a slot: `index` is small and dense, `generation` distinguishes it
/// from earlier occupants.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Hand)]
pub struct Key {
    /// The slot, from 0; reused after the occupant is removed.
    pub index: u32,
    /// The number of the occupant in this slot; wraps around.
    pub generation: u32,
}
