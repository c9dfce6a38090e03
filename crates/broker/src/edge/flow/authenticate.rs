//! Authentication: credentials become entitlements, actions are permitted by them, and connections
//! end when their entitlement does.
//!
//! Beside the path: a session that gets a credential calls [`Edge::show`]. A credential that the
//! edge knows is answered at once; otherwise a question goes out and the connection is not read
//! until its decision comes ([`Edge::decided`]), or its deadline. The sweep ends connections whose
//! entitlement has expired, after a notice. When revocations have changed, [`Edge::recheck`] looks
//! at all entries, some in each turn, and then for the connections of those that were revoked.
//!
//! Invariants: a connection has at most one question under way, and is paused meanwhile; a decision
//! for a connection that has gone or moved on changes nothing; whatever the sweep does, an action
//! is checked when it comes.

use crate::edge::Edge;
use crate::edge::access::Presented;
use crate::entitlement::{
    Action, Authenticator, CREDENTIAL_BYTES_MAX, CredentialKind, Digest, Entitlement, NEVER,
    Purpose, Question,
};
use crate::ids::{ConnIndex, NONE};
use crate::journal::Operation;
use crate::protocol::flag;
use crate::session::{Credential, State};
use crate::sys;
use crate::topic::Filter;
use stdx::key::Key;
use wire::native::ErrorCode;

impl Edge {
    /// Whether a connection may do this with all topics that a filter covers; always where the node
    /// asks for no credential.
    ///
    /// # Errors
    /// `unauthorized` without an accepted credential, `forbidden` with one; `token_expired`,
    /// `token_revoked`.
    #[inline]
    pub(crate) fn permit(
        &mut self,
        index: ConnIndex,
        action: Action,
        wanted: Filter<'_>,
    ) -> Result<(), ErrorCode> {
        self.permit_as(index, action, wanted, true)
    }

    /// [`Edge::permit`]; a permission enters the audit log only if the action is done at once.
    #[inline]
    pub(crate) fn permit_as(
        &mut self,
        index: ConnIndex,
        action: Action,
        wanted: Filter<'_>,
        is_done: bool,
    ) -> Result<(), ErrorCode> {
        if wanted.as_str().as_bytes().first() == Some(&b'$') {
            self.permit_reserved(index, action, wanted)?;
        }
        match self.settings.entitlement {
            None => Ok(()),
            Some(_) => {
                let permitted = self.permit_entitled(index, action, wanted);
                if is_done || permitted.is_err() {
                    let operation = Operation::Act(action);
                    self.record_decision(index, operation, wanted.as_str(), permitted.err());
                }
                permitted
            }
        }
    }

    /// The node's own topics: no client publishes there. Where the node asks for no credential, the
    /// configuration says whether clients read them.
    #[cold]
    fn permit_reserved(
        &mut self,
        index: ConnIndex,
        action: Action,
        wanted: Filter<'_>,
    ) -> Result<(), ErrorCode> {
        if sys::is_of_sessions(wanted.as_str()) {
            self.statistics.forbidden.count(action);
            return Err(ErrorCode::Forbidden);
        }
        let is_open = self.settings.entitlement.is_some() || self.settings.sys.is_open;
        let is_permitted = match action {
            Action::Publish => sys::is_of_bridge(wanted.as_str()),
            Action::Subscribe if wanted.as_str() == sys::OWN_GAPS => true,
            Action::Subscribe | Action::History => is_open || sys::is_of_mqtt(wanted.as_str()),
        };
        if !sys::is_reserved(wanted.as_str()) || is_permitted {
            return Ok(());
        }
        self.statistics.forbidden.count(action);
        let refusal = ErrorCode::Forbidden;
        self.record_decision(index, Operation::Act(action), wanted.as_str(), Some(refusal));
        Err(refusal)
    }

    #[cold]
    fn permit_entitled(
        &mut self,
        index: ConnIndex,
        action: Action,
        wanted: Filter<'_>,
    ) -> Result<(), ErrorCode> {
        let Some(settings) = &self.settings.entitlement else {
            return Ok(());
        };
        let at = self.connections.slots[index].entitlement;
        let entitlements = &self.access.entitlements;
        let permitted =
            entitlements.permit(at, &settings.anonymous, (action, wanted), self.unix_s());
        self.count_forbidden(action, permitted)
    }

    fn count_forbidden(
        &mut self,
        action: Action,
        permitted: Result<(), ErrorCode>,
    ) -> Result<(), ErrorCode> {
        if let Err(ErrorCode::Unauthorized | ErrorCode::Forbidden) = permitted {
            self.statistics.forbidden.count(action);
        }
        permitted
    }

    fn unix_s(&self) -> u64 {
        self.now.unix_ms / 1_000
    }

    /// Whether a connection may do this with any topic at all.
    ///
    /// # Errors
    /// The errors of [`Edge::permit`].
    pub(crate) fn permit_some(
        &mut self,
        index: ConnIndex,
        action: Action,
    ) -> Result<(), ErrorCode> {
        let Some(settings) = &self.settings.entitlement else {
            return Ok(());
        };
        let at = self.connections.slots[index].entitlement;
        let entitlements = &self.access.entitlements;
        let permitted = entitlements.permit_some(at, &settings.anonymous, action, self.unix_s());
        if let Err(refusal @ (ErrorCode::Unauthorized | ErrorCode::Forbidden)) = permitted {
            self.statistics.forbidden.count(action);
            self.record_decision(index, Operation::Act(action), "", Some(refusal));
        }
        permitted
    }

    /// Whether an entry entitles to anything now.
    pub(crate) fn check_entitlement(&self, at: u32) -> Result<(), ErrorCode> {
        self.access.entitlements.check(at, self.unix_s())
    }

    /// The maximum number of subscriptions of a connection.
    pub(crate) fn subscriptions_max(&self, index: ConnIndex) -> u32 {
        let of_session = self.settings.limits.subscriptions_per_session_max;
        let at = self.connections.slots[index].entitlement;
        self.access.entitlements.subscriptions_max(at, of_session)
    }

    /// The kind of credential that a connection has presented; none without one.
    pub(crate) fn presented_kind(&self, index: ConnIndex) -> Option<CredentialKind> {
        let at = self.entitlement_of(index)?;
        Some(self.access.entitlements.kind(at))
    }

    /// The publications per second that a connection's entitlement permits; none without a limit of
    /// its own.
    pub(crate) fn own_publish_rate(&self, index: ConnIndex) -> Option<u32> {
        let at = self.entitlement_of(index)?;
        self.access.entitlements.terms(at).limits.publish_rate_max
    }

    /// A connection presents a credential.
    ///
    /// # Errors
    /// `unauthorized` for bytes that cannot be one; `token_expired`.
    pub(crate) fn show(
        &mut self,
        index: ConnIndex,
        purpose: Purpose,
        kind: CredentialKind,
        credential: &[u8],
    ) -> Result<Presented, ErrorCode> {
        if credential.is_empty() || credential.len() > CREDENTIAL_BYTES_MAX {
            self.statistics.credentials_refused += 1;
            let refusal = ErrorCode::Unauthorized;
            self.record_decision(index, Operation::Authenticate, "", Some(refusal));
            return Err(refusal);
        }
        let digest = Digest::of(kind, credential);
        if let Some(at) = self.access.entitlements.find(digest) {
            let checked = self.check_entitlement(at);
            if let Err(refusal) = self.count_refusal(checked) {
                self.record_decision(index, Operation::Authenticate, "", Some(refusal));
                return Err(refusal);
            }
            // Each request presents the credential of its connection again.
            if self.entitlement_of(index) != Some(at) {
                self.record_decision_of(index, Some(at), Operation::Authenticate, "", None);
            }
            self.access.entitlements.hold(at);
            return Ok(Presented::Known(at));
        }
        self.statistics.questions += 1;
        self.connections.slots[index].set(flag::PAUSED | flag::ASKED);
        self.out.questions.push(Question {
            connection: self.connections.slots.key(index),
            purpose,
            kind,
            credential: credential.into(),
            digest,
        });
        Ok(Presented::Asked(digest))
    }

    /// Enters an entitlement, and holds it for the caller.
    ///
    /// # Errors
    /// `token_expired`, `overloaded`.
    pub(crate) fn enter_entitlement(
        &mut self,
        entitlement: &Entitlement,
    ) -> Result<u32, ErrorCode> {
        let at = self.access.entitlements.enter(entitlement);
        let at = at.ok_or(ErrorCode::Overloaded)?;
        let checked = self.check_entitlement(at);
        if checked.is_err() {
            self.access.entitlements.release(at);
        }
        checked.map(|()| at)
    }

    fn count_refusal<T>(&mut self, result: Result<T, ErrorCode>) -> Result<T, ErrorCode> {
        self.statistics.credentials_refused += u64::from(result.is_err());
        result
    }

    /// Whether a connection is there and waits for an answer.
    pub fn waits_for_decision(&self, connection: Key) -> bool {
        let slot = self.connections.slots.get(connection);
        slot.is_some_and(|slot| slot.is(flag::ASKED) && !slot.is(flag::CLOSING))
    }

    /// The shell has answered a question.
    pub fn decided(
        &mut self,
        connection: Key,
        purpose: Purpose,
        digest: Digest,
        decision: Result<Entitlement, ErrorCode>,
    ) {
        if !self.waits_for_decision(connection) {
            return;
        }
        let index = ConnIndex(connection.index);
        let of_state = self.credential(index).and_then(Credential::asked);
        let waits_for = of_state.or_else(|| self.access.renewals.asked(index));
        if waits_for != Some((purpose, digest)) {
            return;
        }
        let decision = decision.and_then(|entitlement| self.enter_entitlement(&entitlement));
        if let Ok(at) = decision {
            self.access.note_decision(at, self.now.monotonic_ms);
        }
        let decision = self.count_refusal(decision);
        let of = decision.ok().or_else(|| self.entitlement_of(index));
        self.record_decision_of(index, of, Operation::Authenticate, "", decision.err());
        self.connections.slots[index].clear(flag::ASKED);
        match purpose {
            Purpose::Request => {
                let decided = Credential::Decided { digest, decision };
                self.set_state(index, State::Credential(decided.into()));
                self.resume(index);
            }
            Purpose::Hello => self.hello_decided(index, decision),
            Purpose::Renewal { request } => self.renewal_decided(index, request, decision),
        }
    }

    /// The credential in a connection's state.
    pub(crate) fn credential(&self, index: ConnIndex) -> Option<&Credential> {
        match self.sessions.get(self.connections.slots[index].state) {
            Some(State::Credential(credential)) => Some(credential),
            _ => None,
        }
    }

    /// Gives the connection this entitlement, and takes over the caller's hold. [`NONE`]: the
    /// entitlement of anonymous clients.
    pub(crate) fn entitle(&mut self, index: ConnIndex, at: u32) {
        let before = std::mem::replace(&mut self.connections.slots[index].entitlement, at);
        if before != at {
            self.connections.slots[index].clear(flag::WARNED);
        }
        if before != NONE {
            self.change_user(index, before, at);
            self.access.entitlements.release(before);
        }
    }

    /// The entry of a connection; none if it has presented no credential.
    pub(crate) fn entitlement_of(&self, index: ConnIndex) -> Option<u32> {
        Some(self.connections.slots[index].entitlement).filter(|&at| at != NONE)
    }

    /// The entitlement of a connection, as values.
    pub(crate) fn entitlement_to_keep(&self, index: ConnIndex) -> Option<Entitlement> {
        let at = self.entitlement_of(index)?;
        Some(self.access.entitlements.get(at))
    }

    /// The connection goes, with the entry that its state holds.
    pub(crate) fn release_entitlement(&mut self, index: ConnIndex) {
        self.release_user(index);
        let of_state = self.credential(index).and_then(Credential::held);
        for at in of_state.into_iter().chain(self.entitlement_of(index)) {
            self.access.entitlements.release(at);
        }
        self.release_renewal(index);
        self.access.certificates.remove(index);
    }

    /// Has the entitlement of a ticket examined; its connection waits until then.
    pub(crate) fn have_looked_at(&mut self, index: ConnIndex) {
        self.connections.slots[index].set(flag::PAUSED | flag::ASKED);
        let key = self.connections.slots.key(index);
        self.access.look_at_ticket_of(key);
    }

    /// Revocations or keys have changed: all entitlements are examined again, in the calls of
    /// [`Edge::recheck`] that follow, and credentials that clients present from now on are
    /// authenticated anew.
    pub fn revocations_changed(&mut self) {
        let timeout_ms = u64::from(self.settings.limits.handshake_timeout_ms);
        self.access.revocations_changed(self.now.monotonic_ms + timeout_ms);
    }

    /// Examines entitlements that only the authenticator can check: those of tickets that came in
    /// this turn, and all of them when revocations have changed. Call it in each turn behind the
    /// input and before the flush; without work it costs nothing, and [`Edge::has_more`] says
    /// whether some is left.
    pub fn recheck(&mut self, authenticator: &dyn Authenticator) {
        for key in self.access.take_tickets() {
            self.look_at_ticket(key, authenticator);
        }
        self.access.recheck(authenticator);
        self.end_revoked();
    }

    fn look_at_ticket(&mut self, key: Key, authenticator: &dyn Authenticator) {
        if self.connections.slots.get(key).is_none()
            || !self.connections.slots[ConnIndex(key.index)].is(flag::ASKED)
        {
            return;
        }
        let Some(at) = self.credential(ConnIndex(key.index)).and_then(Credential::of_ticket) else {
            return;
        };
        self.access.look_at(at, authenticator);
        self.connections.slots[ConnIndex(key.index)].clear(flag::ASKED);
        self.ticket_looked_at(ConnIndex(key.index), at);
    }

    fn end_revoked(&mut self) {
        let places = self.connections.slots.places();
        for index in self.access.next_connections(places).map(ConnIndex) {
            if let Some(at) = self.entitlement_of(index)
                && !self.access.entitlements.is_standing(at)
            {
                self.end_entitled(index, ErrorCode::TokenRevoked);
            }
        }
    }

    /// Sweeps a connection with an entitlement. True if the entitlement has ended, and the session
    /// with it.
    #[inline(never)]
    pub(crate) fn sweep_entitlement(&mut self, index: ConnIndex, at: u32) -> bool {
        if self.connections.slots[index].is(flag::CLOSING) {
            return false;
        }
        if let Err(code) = self.check_entitlement(at) {
            return self.end_entitled(index, code);
        }
        let expires_s = self.access.entitlements.expires_s(at);
        let notice_s = match &self.settings.entitlement {
            Some(settings) if expires_s != NEVER => settings.notice_before_s,
            _ => return false,
        };
        if !self.connections.slots[index].facts().subscribes {
            return false; // no session, or none yet
        }
        let left_s = u64::from(expires_s).saturating_sub(self.unix_s());
        if left_s <= u64::from(notice_s) && !self.connections.slots[index].is(flag::WARNED) {
            self.connections.slots[index].set(flag::WARNED);
            self.notify_token_expires(index, u64::from(expires_s) * 1_000);
        }
        false
    }

    /// Ends the session of a connection whose entitlement does not hold any more. False for an HTTP
    /// connection that waits for nothing: its next request presents a credential of its own.
    fn end_entitled(&mut self, index: ConnIndex, code: ErrorCode) -> bool {
        let slot = &self.connections.slots[index];
        if slot.is(flag::CLOSING) || slot.is_free() {
            return false;
        }
        let answers_requests = slot.facts().answers_requests;
        if !answers_requests {
            self.record_decision(index, Operation::Continue, "", Some(code));
        }
        let slot = &self.connections.slots[index];
        let is_over = if answers_requests {
            let is_over = self.poll_ended(index, code);
            if self.connections.slots[index].state == NONE {
                self.entitle(index, NONE);
            }
            is_over
        } else if slot.is(flag::BLOCKED) {
            // The client may not have its waiting output, and a close frame would come behind that.
            self.abort(index);
            true
        } else {
            self.close_entitled(index, code);
            true
        };
        if is_over {
            if code == ErrorCode::TokenRevoked {
                self.statistics.revoked += 1;
            } else {
                self.statistics.tokens_expired += 1;
            }
        }
        is_over
    }
}
