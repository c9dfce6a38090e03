//! Numbers by which shards know each other, and indexes within one edge.
//!
//! An index belongs to one table of one edge, and means nothing to another shard or process.

/// An edge shard: the I/O thread's number, from 0.
pub type EdgeId = u16;
/// A home shard: the number of the I/O thread that runs it, from 0.
pub type HomeId = u16;
/// A partition, numbered over all logs: the log's first partition plus the partition within the
/// log.
pub type PartitionId = u32;

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
