//! Cursors of subscriptions to filters that are read from the log, and how they are found.

use crate::ids::{ConnIndex, SubIndex};
use crate::mail::PartitionId;
use std::ops::RangeInclusive;
use stdx::handing::Hand;

/// The key of cursors: the connection, and the subscription or [`STREAM`].
pub(crate) type Reader = (ConnIndex, SubIndex);
/// The key of a cursor: its reader and the partition.
pub(super) type Member = (ConnIndex, SubIndex, PartitionId);

/// In place of a subscription: all filters of an event stream.
pub(crate) const STREAM: SubIndex = SubIndex::NONE;

/// The start of a reader's next read in one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub(crate) struct Cursor {
    pub after: u64,
    /// A page is under way.
    pub is_reading: bool,
    /// The reader is the replay that the client asked for, and uses its credit. A lagging reader
    /// uses none.
    pub is_paid: bool,
}

/// All cursors of a reader.
pub(super) fn all_of((index, subscription): Reader) -> RangeInclusive<Member> {
    (index, subscription, PartitionId::MIN)..=(index, subscription, PartitionId::MAX)
}

/// All cursors of a connection.
pub(super) fn all_of_connection(index: ConnIndex) -> RangeInclusive<Member> {
    (index, SubIndex::MIN, PartitionId::MIN)..=(index, SubIndex::MAX, PartitionId::MAX)
}
