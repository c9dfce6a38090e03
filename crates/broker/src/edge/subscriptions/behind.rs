//! Subscriptions to filters that do not simply take live messages, but are read from the log,
//! partition by partition.
//!
//! A subscription to a filter has a cursor for each partition, and an idle one stores none of them:
//! it takes what the streams bring. Only while it replays or lags in a partition does it have a
//! [`Cursor`] there; live messages of that partition are not for it then. All filters of one event
//! stream are read together, as one member.
//!
//! Invariants:
//! - Of one partition a connection's outbox holds frames for filters in the order of their offsets.
//!   What is dropped takes everything of its partition behind it along, so the cursor goes back to
//!   what came before the first one dropped, and nothing is sent again or left out.
//! - A frame without an address is for every subscription of the connection that covers the topic.
//!   It is sent only where none of them is behind in the partition; otherwise each gets a frame of
//!   its own. So whoever was open when such a frame was queued has to go back when it is dropped,
//!   and nobody else.
//! - A page answers the question that it repeats (`after`) or nobody's.
//! - The tables hold what is behind or opening, at most an entry for each partition and member;
//!   pages on their way are bounded for each connection, and so are the cursors ([`Held`]).

use super::reads::Reads;
use super::{Held, Opening};
use crate::ids::NONE;
use crate::mail::PartitionId;
use std::collections::BTreeMap;
use stdx::handing::Hand;

/// Who is behind: the connection, the subscription (or [`STREAM`]), the partition.
pub(crate) type Member = (u32, u32, PartitionId);

/// In place of a subscription: all filters of an event stream.
pub(crate) const STREAM: u32 = NONE;

/// The tables; see the module.
#[derive(Default, Hand)]
pub(crate) struct Behind {
    pub cursors: BTreeMap<Member, Cursor>,
    pub(crate) reads: Reads,
    pub(crate) opening: BTreeMap<(u32, u32), Opening>,
    pub(crate) held: Held,
}

/// Where a member is read from in one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub(crate) struct Cursor {
    pub after: u64,
    /// A page is on its way.
    pub is_reading: bool,
    /// It is the replay that the client asked for, and takes of the credit that it gives. Who lags
    /// takes none.
    pub is_paid: bool,
}
