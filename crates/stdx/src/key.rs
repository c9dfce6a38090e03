//! A slab key: index and generation. It names a connection between the network, the shard and the
//! mailboxes.

use crate::handing::Hand;

/// Names one occupant of one place: `index` is small and dense, `generation` tells it from earlier
/// occupants.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Hand)]
pub struct Key {
    /// The place, from 0; reused after the occupant has gone.
    pub index: u32,
    /// Which occupant of the place this is; wraps around.
    pub generation: u32,
}
