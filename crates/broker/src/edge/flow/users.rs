//! Connections of users: a client that presents a token counts for its subject, once the shell has
//! admitted it.
//!
//! Step 3 of the path, where a credential becomes an entitlement ([`Edge::entitle`]). A user's
//! connections are spread over the edges of a node, so the shell counts them: changes go out in
//! order (`Outputs::users`), and a connection that comes is paused until the answer, which is there
//! in the same turn.
//!
//! Invariants: a connection counts for at most one user, that of the token which it has presented
//! last, and each that was admitted leaves once; one that counts and is not entitled yet has the
//! entry for which it was admitted in its state; API keys, anonymous clients and empty subjects
//! count for no user. Where neither the node nor a token has a limit, the shell is not asked. A
//! session that counts keeps counting when it renews its token, and one that does not has to be
//! admitted before the new token holds.

use crate::edge::Edge;
use crate::edge::access::users::{CountedUser, UserChange};
use crate::ids::{ConnIndex, NONE};
use crate::protocol::flag;
use crate::session::{Credential, State};
use stdx::key::Key;
use wire::native::ErrorCode;

impl Edge {
    /// Whether a connection may have this entitlement at once. Otherwise it has to be admitted
    /// first ([`Edge::ask_for_user`]).
    pub(crate) fn may_entitle(&self, index: ConnIndex, at: u32) -> bool {
        if !self.is_counted(at) {
            return true;
        }
        let counts = self.connections.slots[index].is(flag::COUNTED);
        match self.entitlement_of(index) {
            // Admitted just now, for this entry.
            None => counts,
            Some(before) => counts && self.are_of_one_user(before, at),
        }
    }

    /// Asks whether the user of an entry may have one more connection. This one waits, with the
    /// entry in its state, and counts for no user meanwhile.
    pub(crate) fn ask_for_user(&mut self, index: ConnIndex, at: u32, waits: Credential) {
        self.entitle(index, NONE);
        self.set_state(index, State::Credential(waits.into()));
        self.ask_for_user_again(index, at);
    }

    /// Asks the same for a session that renews its token: until the answer it keeps its present
    /// one.
    pub(crate) fn ask_for_user_again(&mut self, index: ConnIndex, at: u32) {
        self.connections.slots[index].set(flag::PAUSED | flag::ASKED);
        let entitlements = &self.access.entitlements;
        self.out.users.push(UserChange::Comes {
            connection: self.connections.slots.key(index),
            user: entitlements.user(at),
            connections_max: entitlements.terms(at).limits.connections_max,
        });
    }

    /// The shell's answer: the connection counts for this user from now on.
    pub fn user_admitted(&mut self, connection: Key, user: &str) {
        if !self.waits_for_user(connection) {
            let user = user.into();
            return self.out.users.push(UserChange::Leaves { user });
        }
        let slot = &mut self.connections.slots[ConnIndex(connection.index)];
        slot.clear(flag::ASKED);
        slot.set(flag::COUNTED);
        self.settle_user(ConnIndex(connection.index), Ok(()));
    }

    /// The connection's user as a hash that is never 0: its issuer and subject. All anonymous
    /// clients are one user. 0 where the node asks for no credential.
    pub(crate) fn user_hash(&self, index: ConnIndex) -> u64 {
        if self.settings.entitlement.is_none() {
            return 0;
        }
        self.access.entitlements.user_hash(self.entitlement_of(index))
    }

    /// All connections that count, for a shell that has just been given this edge and counts them
    /// again.
    pub fn counted_users(&self) -> impl Iterator<Item = CountedUser> + '_ {
        let counted = |index: &ConnIndex| self.connections.slots[*index].is(flag::COUNTED);
        let user = |index: ConnIndex| {
            let at = self.entry_of_user(index)?;
            let entitlements = &self.access.entitlements;
            Some(CountedUser {
                connection: self.connections.slots.key(index),
                user: entitlements.user(at),
                connections_max: entitlements.terms(at).limits.connections_max,
            })
        };
        let places = 0..self.connections.slots.places();
        places.map(ConnIndex).filter(counted).filter_map(user)
    }

    /// The entry by which a connection counts, if it does: its own, or the one that it waits with.
    fn entry_of_user(&self, index: ConnIndex) -> Option<u32> {
        let held = self.credential(index).and_then(Credential::held);
        self.entitlement_of(index).or(held)
    }

    /// The shell's answer: the user has as many connections as it may.
    pub fn user_refused(&mut self, connection: Key) {
        if self.waits_for_user(connection) {
            self.connections.slots[ConnIndex(connection.index)].clear(flag::ASKED);
            self.settle_user(ConnIndex(connection.index), Err(ErrorCode::TooManyConnections));
        }
    }

    fn settle_user(&mut self, index: ConnIndex, decision: Result<(), ErrorCode>) {
        if self.renewal_waits_for_user(index) {
            self.renewal_settled(index, decision)
        } else {
            self.user_settled(index, decision)
        }
    }

    fn waits_for_user(&self, connection: Key) -> bool {
        let index = ConnIndex(connection.index);
        let slot = self.connections.slots.get(connection);
        slot.is_some_and(|slot| slot.is(flag::ASKED) && !slot.is(flag::CLOSING))
            && (self.credential(index).is_some_and(Credential::waits_for_user)
                || self.renewal_waits_for_user(index))
    }

    /// The connection's entitlement changes from `before` to `after`.
    pub(crate) fn change_user(&mut self, index: ConnIndex, before: u32, after: u32) {
        if self.connections.slots[index].is(flag::COUNTED)
            && (after == NONE || !self.are_of_one_user(before, after))
        {
            self.leave_user(index, before);
        }
    }

    /// The connection goes, and with it the entry that its state holds.
    pub(crate) fn release_user(&mut self, index: ConnIndex) {
        let at = self.entry_of_user(index);
        if let Some(at) = at.filter(|_| self.connections.slots[index].is(flag::COUNTED)) {
            self.leave_user(index, at);
        }
    }

    /// The connection was admitted, but its new token does not hold: it counts no more.
    pub(crate) fn count_no_more(&mut self, index: ConnIndex) {
        if let Some(at) = self.entitlement_of(index) {
            self.leave_user(index, at);
        }
    }

    fn leave_user(&mut self, index: ConnIndex, at: u32) {
        self.connections.slots[index].clear(flag::COUNTED);
        let user = self.access.entitlements.user(at);
        self.out.users.push(UserChange::Leaves { user });
    }

    fn is_counted(&self, at: u32) -> bool {
        let settings = self.settings.entitlement.as_ref();
        let users_are_counted = settings.is_some_and(|settings| settings.users_are_counted);
        self.access.entitlements.is_counted(at, users_are_counted)
    }

    fn are_of_one_user(&self, one: u32, other: u32) -> bool {
        self.access.entitlements.are_of_one_user(one, other)
    }
}
