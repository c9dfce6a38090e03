//! Renewals: a session continues with a new token of the same subject, and subscriptions that the
//! token does not cover end.
//!
//! A renewal has three steps, and the connection is not read meanwhile. *Decided*: the new token is
//! authenticated, as that of HELLO. *Asked*: if its permissions differ from the old one's, the edge
//! needs the names of plain topics, which it does not keep; once no subscription waits for its
//! home, it asks the homes ([`ToHome::Describe`], as for tickets). *Done*: all have answered;
//! subscriptions that are not covered end with UNSUBSCRIBED, and RENEWED follows, so that no
//! message after it lacks the new token's permission. Until then the old token holds, and the time
//! of the old one counts. MQTT has no word for the end of a subscription: there a token that does
//! not cover all of them is refused.
//!
//! If the new token is the first that counts the connection for a user, the shell is asked before
//! anything ends ([`Edge::ask_for_user_again`]): a refusal leaves all as it was.
//!
//! While a renewal is under way no subscription can begin, and an index of a topic stays while a
//! subscription has it, so that the homes' names hold at the end.

use crate::edge::access::renewals::{Asked, Renewal};
use crate::edge::tickets::names_in;
use crate::edge::{Edge, Presented, flag};
use crate::entitlement::{Action, CredentialKind, NEVER, Purpose};
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{Describe, HomeId, ToHome};
use crate::notice::Notice;
use crate::topic::Filter;
use std::collections::BTreeMap;
use stdx::chunk::Slice;
use wire::native::{ErrorCode, Reference, UnsubscribeCode};

impl Edge {
    /// A client wants to continue with a new token. `request` is its number in the native protocol.
    pub(crate) fn renew_token(&mut self, index: ConnIndex, request: u32, token: &str) {
        if self.settings.entitlement.is_none() {
            // Without tokens no time to expire exists.
            return self.notify(index, &Notice::Renewed { request, expires_ms: 0 });
        }
        // An anonymous client has no subject that could stay the same.
        if self.entitlement_of(index).is_none() {
            return self.refuse_renewal(index, request, ErrorCode::Unauthorized);
        }
        let purpose = Purpose::Renewal { request };
        match self.show(index, purpose, CredentialKind::Token, token.as_bytes()) {
            Err(code) => self.refuse_renewal(index, request, code),
            Ok(Presented::Asked(digest)) => {
                self.access.renewals.note_asked(index, request, digest);
            }
            Ok(Presented::Known(at)) => {
                self.connections.slots[index].set(flag::PAUSED);
                self.renew(index, request, at);
            }
        }
    }

    /// The decision of the new token.
    pub(crate) fn renewal_decided(
        &mut self,
        index: ConnIndex,
        request: u32,
        decision: Result<u32, ErrorCode>,
    ) {
        self.access.renewals.take_asked(index);
        match decision {
            Ok(at) => self.renew(index, request, at),
            Err(code) => {
                self.refuse_renewal(index, request, code);
                self.resume(index);
            }
        }
    }

    fn refuse_renewal(&mut self, index: ConnIndex, request: u32, code: ErrorCode) {
        if self.connections.slots[index].facts().is_mqtt {
            return self.refuse_reauthentication(index, code);
        }
        self.native_refuse(index, Reference::Request(request), code);
    }

    /// The new token holds.
    fn renew(&mut self, index: ConnIndex, request: u32, at: u32) {
        let Some(before) = self.entitlement_of(index) else {
            return self.access.entitlements.release(at);
        };
        let entitlements = &self.access.entitlements;
        // The subject of an API key is not the user of that name.
        if entitlements.kind(before) != entitlements.kind(at)
            || !entitlements.are_of_one_user(before, at)
        {
            self.access.entitlements.release(at);
            self.refuse_renewal(index, request, ErrorCode::Forbidden);
            return self.resume(index);
        }
        let renewal = Renewal { request, at, asked: None };
        if entitlements.have_equal_terms(before, at) && self.may_entitle(index, at) {
            return self.finish_renewal(index, renewal);
        }
        self.connections.slots[index].set(flag::ASKED);
        self.access.renewals.insert(index, renewal);
        self.ask_for_renewal(index);
    }

    /// A subscription of the connection has been granted or refused: a renewal may have waited for
    /// it.
    pub(crate) fn settled_for_renewal(&mut self, index: ConnIndex) {
        self.access.renewals.note_settled(index);
    }

    /// Continues renewals whose connections had a subscription settled by a letter. Call it after
    /// the letter was handled: a renewal may end subscriptions.
    pub(crate) fn continue_renewals(&mut self) {
        for index in self.access.renewals.take_settled() {
            if self.access.renewals.is_unasked(index) {
                self.ask_for_renewal(index);
            }
        }
    }

    /// Asks the homes for names, unless a subscription still waits for one.
    fn ask_for_renewal(&mut self, index: ConnIndex) {
        if self.chain(index).any(|at| self.subscriptions[at].is_pending()) {
            return;
        }
        let mut asked = Asked {
            number: self.next_describe_number(),
            waiting: BTreeMap::new(),
            names: BTreeMap::new(),
        };
        for at in self.chain(index).filter(|&at| !self.subscriptions[at].is_open_by_filter()) {
            let (home, topic) = self.subscription_topic(at);
            asked.waiting.entry(home).or_default().push(topic);
        }
        let connection = self.connections.slots.key(index);
        for (&home, indexes) in &asked.waiting {
            // It may go beyond the room that the home has, as one frame of a connection may.
            let request = ToHome::Describe(Describe {
                connection,
                number: asked.number,
                indexes: indexes.iter().map(|topic| topic.0).collect(),
                positions: false,
            });
            self.request(home, request);
        }
        let is_known = asked.waiting.is_empty();
        if let Some(renewal) = self.access.renewals.get_mut(index) {
            renewal.asked = Some(asked);
        }
        if is_known {
            self.end_renewal(index);
        }
    }

    /// Takes a home's answer with names for a renewal.
    pub(crate) fn described_for_renewal(
        &mut self,
        home: HomeId,
        index: ConnIndex,
        number: u32,
        names: &Slice,
    ) {
        let renewal = self.access.renewals.get_mut(index);
        let asked = renewal.and_then(|renewal| renewal.asked.as_mut());
        let Some(asked) = asked.filter(|asked| asked.number == number) else {
            return;
        };
        let Some(indexes) = asked.waiting.remove(&home) else {
            return;
        };
        let named = indexes.into_iter().zip(names_in(names));
        asked.names.extend(named.map(|(topic, name)| ((home, topic), name.into())));
        if asked.waiting.is_empty() {
            self.end_renewal(index);
        }
    }

    /// Ends the subscriptions that the new token does not cover; all names are known.
    fn end_renewal(&mut self, index: ConnIndex) {
        let Some(mut renewal) = self.access.renewals.take(index) else {
            return;
        };
        self.connections.slots[index].clear(flag::ASKED);
        // It may have ended while the homes were asked.
        if let Err(code) = self.check_entitlement(renewal.at) {
            self.access.entitlements.release(renewal.at);
            self.refuse_renewal(index, renewal.request, code);
            return self.resume(index);
        }
        if !self.may_entitle(index, renewal.at) {
            self.ask_for_user_again(index, renewal.at);
            self.access.renewals.insert(index, renewal);
            return;
        }
        let names = renewal.asked.take().map_or(BTreeMap::new(), |asked| asked.names);
        let is_covered = |edge: &Edge, at: SubIndex| {
            let name = if edge.subscriptions[at].is_open_by_filter() {
                edge.subscriptions.filter_name(at)
            } else {
                names.get(&edge.subscription_topic(at)).map(|name| &**name)
            };
            let filter = name.and_then(|name| Filter::parse(name).ok());
            filter.is_some_and(|filter| {
                edge.access.entitlements.permits(renewal.at, Action::Subscribe, filter)
            })
        };
        let ends: Vec<SubIndex> = self.chain(index).filter(|&at| !is_covered(self, at)).collect();
        let is_mqtt = self.connections.slots[index].facts().is_mqtt;
        if is_mqtt && !(ends.is_empty() && self.are_groups_permitted(index, renewal.at)) {
            self.access.entitlements.release(renewal.at);
            return self.refuse_renewal(index, renewal.request, ErrorCode::Forbidden);
        }
        for subscription in ends {
            self.native_forbidden(index, subscription);
            self.unsubscribe(subscription);
        }
        self.finish_renewal(index, renewal);
    }

    /// Whether a renewal has all answers of the homes, and waits for the shell to let its
    /// connection count.
    pub(crate) fn renewal_waits_for_user(&self, index: ConnIndex) -> bool {
        let renewal = self.access.renewals.get(index);
        renewal
            .and_then(|renewal| renewal.asked.as_ref())
            .is_some_and(|asked| asked.waiting.is_empty())
    }

    /// The shell's answer to such a renewal.
    pub(crate) fn renewal_settled(&mut self, index: ConnIndex, decision: Result<(), ErrorCode>) {
        let Some(renewal) = self.access.renewals.get(index) else {
            return;
        };
        let (at, request) = (renewal.at, renewal.request);
        // It may have ended while the shell was asked.
        let holds = decision.and_then(|()| self.check_entitlement(at));
        let Err(code) = holds else {
            return self.end_renewal(index);
        };
        if decision.is_ok() {
            self.count_no_more(index);
        }
        self.release_renewal(index);
        self.refuse_renewal(index, request, code);
        self.resume(index);
    }

    fn finish_renewal(&mut self, index: ConnIndex, renewal: Renewal) {
        let Renewal { request, at, .. } = renewal;
        self.entitle(index, at);
        self.statistics.renewals += 1;
        let expires_ms = match self.access.entitlements.expires_s(at) {
            NEVER => 0,
            expires_s => u64::from(expires_s) * 1_000,
        };
        self.notify(index, &Notice::Renewed { request, expires_ms });
        self.resume(index);
    }

    fn native_forbidden(&mut self, index: ConnIndex, subscription: SubIndex) {
        let client = self.subscriptions[subscription].client;
        let code = UnsubscribeCode::Forbidden;
        self.notify(index, &Notice::Unsubscribed { client, code });
    }

    /// The connection goes, or its session ends.
    pub(crate) fn release_renewal(&mut self, index: ConnIndex) {
        if let Some(renewal) = self.access.renewals.take(index) {
            self.access.entitlements.release(renewal.at);
        }
    }
}
