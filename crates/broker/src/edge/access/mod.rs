//! Access: the entitlements of clients, and those that are to be examined again.
//!
//! Owner of entitlements and renewals; it knows connections by their keys and indexes only.
//!
//! After a change of keys or revocations all entries are examined again, some in each turn, and
//! then the connections of those that were revoked. Decisions that were under way meanwhile may not
//! know of the change: their entries are examined when the decisions arrive.

pub(crate) mod certificates;
pub(crate) mod entitled;
pub(crate) mod renewals;
pub(crate) mod users;

use crate::entitlement::{Authenticator, Digest};
use certificates::Certificates;
use entitled::Entitlements;
use renewals::Renewals;
use std::ops::Range;
use stdx::handing::Hand;
use stdx::key::Key;
use stdx::memory::vector_bytes;

/// Entitlements that one turn examines.
const ENTRIES_TURN_MAX: u32 = 1_024;
/// Connections that one turn examines.
const CONNECTIONS_TURN_MAX: u32 = 16_384;

/// The state of a credential that a client has presented.
pub(crate) enum Presented {
    /// The credential's entry, which the caller now holds.
    Known(u32),
    /// Nothing yet: the shell is asked, and the connection is paused.
    Asked(Digest),
}

/// Entitlements and renewals, and the work with them.
#[derive(Hand)]
pub(crate) struct Access {
    pub entitlements: Entitlements,
    pub renewals: Renewals,
    pub certificates: Certificates,
    /// Connections that came with a ticket alone: their entitlement is to be examined before they
    /// continue.
    tickets: Vec<Key>,
    /// The next entry to be examined since revocations have changed.
    recheck_at: Option<u32>,
    /// The time until which a decision may predate the change; milliseconds of the monotonic clock.
    unsure_until_ms: u64,
    /// Entries of such decisions.
    unsure: Vec<u32>,
    /// The next connection to be examined since an entry was revoked.
    end_at: Option<u32>,
}

impl Access {
    /// No client is entitled to anything.
    pub fn new() -> Access {
        Access {
            entitlements: Entitlements::new(),
            renewals: Renewals::default(),
            certificates: Certificates::default(),
            tickets: Vec::new(),
            recheck_at: None,
            unsure_until_ms: 0,
            unsure: Vec::new(),
            end_at: None,
        }
    }

    /// Whether there is something to look at.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.recheck_at.is_some()
            || self.end_at.is_some()
            || !self.tickets.is_empty()
            || !self.unsure.is_empty()
    }

    /// Queues the entitlement of a ticket for examination; its connection waits until then.
    pub fn look_at_ticket_of(&mut self, key: Key) {
        self.tickets.push(key);
    }

    /// Takes the connections that came with a ticket.
    pub fn take_tickets(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.tickets)
    }

    /// Notes a decision: its entry is examined again if the decision may predate a change.
    pub fn note_decision(&mut self, at: u32, now_ms: u64) {
        if now_ms < self.unsure_until_ms {
            self.unsure.push(at);
        }
    }

    /// Keys or revocations have changed. Decisions that do not know of it may come until
    /// `unsure_until_ms`.
    pub fn revocations_changed(&mut self, unsure_until_ms: u64) {
        self.unsure_until_ms = unsure_until_ms;
        if self.entitlements.len() > 0 {
            self.recheck_at = Some(0);
            self.entitlements.unlist_all();
        }
    }

    /// Looks at an entry again.
    pub fn look_at(&mut self, at: u32, authenticator: &dyn Authenticator) {
        let entitlements = &mut self.entitlements;
        if entitlements.is_standing(at) && authenticator.is_revoked(&entitlements.get(at)) {
            entitlements.revoke(at);
            self.end_at = Some(0);
        }
    }

    /// Looks at this turn's entries again.
    pub fn recheck(&mut self, authenticator: &dyn Authenticator) {
        for at in std::mem::take(&mut self.unsure) {
            self.look_at(at, authenticator);
        }
        let Some(from) = self.recheck_at else {
            return;
        };
        let places = self.entitlements.places();
        let end = places.min(from + ENTRIES_TURN_MAX);
        self.recheck_at = (end < places).then_some(end);
        for at in from..end {
            self.look_at(at, authenticator);
        }
    }

    /// The connections of this turn whose entry may have been revoked.
    pub fn next_connections(&mut self, places: u32) -> Range<u32> {
        let Some(from) = self.end_at else {
            return 0..0;
        };
        let end = places.min(from + CONNECTIONS_TURN_MAX);
        self.end_at = (end < places).then_some(end);
        from..end
    }

    /// Bytes touched.
    pub fn memory_bytes(&self) -> usize {
        self.entitlements.memory_bytes()
            + self.renewals.memory_bytes()
            + self.certificates.memory_bytes()
            + vector_bytes::<Key>(self.tickets.capacity())
            + vector_bytes::<u32>(self.unsure.capacity())
    }
}
