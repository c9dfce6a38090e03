//! Indexes within one edge. Each belongs to one table; none means anything to another shard or
//! process.

/// A connection's slot, by the network's own small index.
pub type ConnIndex = u32;
/// A subscription in the edge's table.
pub type SubIndex = u32;
/// A topic's index at this edge, given by its home.
pub type TopicIndex = u32;

/// No index and no handle, where one could stand.
pub(crate) const NONE: u32 = u32::MAX;
