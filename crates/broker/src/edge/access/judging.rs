//! Questions, verdicts, and what becomes of connections whose entitlement ends.
//!
//! Beside the path: a session that is shown a credential asks [`Edge::show`]. What the edge knows
//! is answered at once; else a question goes out and the connection is not read until its verdict
//! comes ([`Edge::judged`]), or its deadline. The sweep ends connections whose entitlement has
//! expired, and tells them ahead. When revocations have changed, [`Edge::recheck`] looks at all
//! entries, some in each turn, and then for the connections of those that were revoked.
//!
//! Invariants: a connection has at most one question on its way, and is paused meanwhile; a verdict
//! for one that has gone or moved on changes nothing; whatever the sweep does, an action is checked
//! when it comes.

use crate::edge::access::entitled::Entitlements;
use crate::entitlement::Digest;
use stdx::handing::Hand;
use stdx::key::Key;
use stdx::memory::vector_bytes;

/// What has been shown.
pub(crate) enum Shown {
    /// It is known: its entry, which the caller now holds.
    Known(u32),
    /// The shell is asked; the connection is paused.
    Asked(Digest),
}

/// Entitlements, and the work with them.
#[derive(Hand)]
pub(crate) struct Judging {
    pub(crate) entitlements: Entitlements,
    /// Connections that came with a ticket alone: their entitlement is to be looked at before they
    /// go on.
    pub unlooked: Vec<Key>,
    /// The next entry to be looked at since revocations have changed.
    pub recheck_at: Option<u32>,
    /// Until then a verdict may come that knows nothing of what was revoked; milliseconds of the
    /// monotonic clock.
    pub unsure_until_ms: u64,
    /// Entries of such verdicts.
    pub unsure: Vec<u32>,
    /// The next connection to be looked at since an entry was revoked.
    pub end_at: Option<u32>,
}

impl Judging {
    pub fn new() -> Judging {
        Judging {
            entitlements: Entitlements::new(),
            unlooked: Vec::new(),
            recheck_at: None,
            unsure_until_ms: 0,
            unsure: Vec::new(),
            end_at: None,
        }
    }

    /// Whether [`Edge::recheck`] has something to do.
    pub fn has_work(&self) -> bool {
        self.recheck_at.is_some()
            || self.end_at.is_some()
            || !self.unlooked.is_empty()
            || !self.unsure.is_empty()
    }

    pub fn memory_bytes(&self) -> usize {
        self.entitlements.memory_bytes()
            + vector_bytes::<Key>(self.unlooked.capacity())
            + vector_bytes::<u32>(self.unsure.capacity())
    }
}
