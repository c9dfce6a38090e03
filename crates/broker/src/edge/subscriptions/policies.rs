//! Policies: what becomes of a subscription whose client does not keep up.
//!
//! Beside the path, between the outbox that has spilled (`flow::spill`) and the reads that bring a
//! subscription back (`flow::recover`). A policy speaks of one thing only: live messages that
//! the client's own socket had no room for. What is not the client's doing is never left out: a
//! *recovery* (a replay that a start asked for, or one after a stream that the log has overtaken)
//! is read in pages at the pace of the socket, whatever the policy, and lasts until its last page
//! has been written. So a subscription that conflates and resumes from a position gets all since
//! then.
//!
//! A subscription to a filter lags, recovers and leaves out by partition. All filters of an event
//! stream are one here: what they say alike holds, else everything is replayed.
//!
//! Invariants: a subscription of another policy than replay that recovers is in [`Recovering`]; of
//! the others none is, and an idle subscription never. What is left out is told from an offset that
//! the client has settled: the `prev` of the first frame that was given up, after frames that all
//! went out.

use super::{Kind, Member};
use crate::settings::LagPolicy;
use std::collections::BTreeSet;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// A subscription's kind and policy in one byte.
#[derive(Clone, Copy, Hand)]
pub(crate) struct Terms(u8);

impl Terms {
    pub fn new(kind: Kind, policy: LagPolicy) -> Terms {
        let kind = match kind {
            Kind::Plain => 0,
            Kind::PlainWithoutGap => 1,
            Kind::Filter => 2,
            Kind::FilterWithoutGap => 3,
        };
        let policy = match policy {
            LagPolicy::Replay => 0,
            LagPolicy::Conflate => 1,
            LagPolicy::Drop => 2,
            LagPolicy::Disconnect => 3,
        };
        Terms(policy << 2 | kind)
    }

    pub fn kind(self) -> Kind {
        match self.0 & 3 {
            0 => Kind::Plain,
            1 => Kind::PlainWithoutGap,
            2 => Kind::Filter,
            _ => Kind::FilterWithoutGap,
        }
    }

    pub fn policy(self) -> LagPolicy {
        match self.0 >> 2 {
            0 => LagPolicy::Replay,
            1 => LagPolicy::Conflate,
            2 => LagPolicy::Drop,
            _ => LagPolicy::Disconnect,
        }
    }
}

/// Subscriptions that are owed a replay in spite of their policy, by connection.
#[derive(Default, Hand)]
pub(crate) struct Recovering {
    pub subscriptions: BTreeSet<(u32, u32)>,
    /// Those to filters, by partition.
    pub partitions: BTreeSet<Member>,
}

impl Recovering {
    /// Bytes of both sets, about.
    pub fn memory_bytes(&self) -> usize {
        tree_bytes(self.subscriptions.len(), size_of::<(u32, u32)>())
            + tree_bytes(self.partitions.len(), size_of::<Member>())
    }
}
