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

/// A connection's slot, by the network's own small index.
pub type ConnIndex = u32;
/// A subscription in the edge's table.
pub type SubIndex = u32;
/// A topic's index at this edge, given by its home.
pub type TopicIndex = u32;

/// No index and no handle, where one could stand.
pub(crate) const NONE: u32 = u32::MAX;
