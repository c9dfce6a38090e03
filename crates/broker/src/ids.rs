//! Numbers by which shards know each other, and indexes within one edge.
//!
//! An index belongs to one table of one edge, and means nothing to another shard or process.

/// An edge shard: the I/O thread's number, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, stdx::handing::Hand)]
pub struct EdgeId(pub u16);
/// A home shard: the number of the I/O thread that runs it, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, stdx::handing::Hand)]
pub struct HomeId(pub u16);
/// A partition, numbered over all logs: the log's first partition plus the partition within the
/// log.
#[derive(
    Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, stdx::handing::Hand,
)]
pub struct PartitionId(pub u32);

impl PartitionId {
    /// Below every other, for ranges.
    pub(crate) const MIN: PartitionId = PartitionId(0);
    /// Above every other, for ranges.
    pub(crate) const MAX: PartitionId = PartitionId(u32::MAX);

    /// The partition at a place of the log whose first partition this is.
    pub fn nth(self, place: u32) -> PartitionId {
        PartitionId(self.0 + place)
    }

    /// The place within the log with this first partition. None if the log begins behind it.
    pub fn place_after(self, first: PartitionId) -> Option<u32> {
        self.0.checked_sub(first.0)
    }
}

/// The place in a table with one row per shard.
impl From<EdgeId> for usize {
    fn from(id: EdgeId) -> usize {
        usize::from(id.0)
    }
}

/// The place in a table with one row per shard.
impl From<HomeId> for usize {
    fn from(id: HomeId) -> usize {
        usize::from(id.0)
    }
}

/// A connection: its slot at this edge, by the small index that the network gives it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, stdx::handing::Hand)]
pub struct ConnIndex(pub u32);
/// A subscription in the edge's table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, stdx::handing::Hand)]
pub struct SubIndex(pub u32);

impl SubIndex {
    /// No subscription, where one could stand.
    pub(crate) const NONE: SubIndex = SubIndex(NONE);
    /// Below every other, for ranges.
    pub(crate) const MIN: SubIndex = SubIndex(0);
    /// Above every other, for ranges.
    pub(crate) const MAX: SubIndex = SubIndex(u32::MAX);
}

/// A topic's index at this edge, given by its home.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, stdx::handing::Hand)]
pub struct TopicIndex(pub u32);

/// No index and no handle, where one could stand.
pub(crate) const NONE: u32 = u32::MAX;
