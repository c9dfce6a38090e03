//! Resume tickets of native sessions: made on request and for GO_AWAY, and brought back with HELLO.
//!
//! A ticket is made in three steps. *Asked*: once no subscription waits for its home, the edge asks
//! the homes for the names of topics, which it does not keep, and for filters how far their streams
//! have come ([`ToHome::Describe`]). *Described*: all homes have answered. *Issued*: when the
//! connection's outbox is next empty, and before anything is queued behind it, the ticket is made
//! of the cursors of that moment.
//!
//! The client has everything before the ticket's cursors. Proof: at that moment everything that was
//! ever queued for the connection has been written, or was given up; the ticket's frame goes after
//! it, in the same direction.
//! - A plain subscription that is live has as its cursor the last offset that was queued for it (or
//!   that settled it), and all of that has been written: had a frame been given up, it would lag.
//!   One that lags or is read by pages has as its cursor the offset that the client has settled. A
//!   resume needs either.
//! - Up to the position that a home reports of a partition, everything was posted before that
//!   letter, so it was queued for the filters of this connection, and is written now. Messages
//!   between the letter and this moment come again, and the client drops them as settled. A filter
//!   that catches up in a partition has its own cursor in the ticket.
//!
//! A ticket has every subscription that was granted when it is made, so that the client knows its
//! content: the subscriptions whose SUBSCRIBED has come before it. If some were granted after the
//! question to the homes, the homes are asked again.
//!
//! The cursors of a ticket may be older than those of the client at its end; the client's own
//! cursors win where they are newer. Invariants: a connection wants at most one ticket at a time;
//! one that is blocked holds no more for it than a number.

use crate::command::{Begin, Subscribe};
use crate::edge::tickets::{Asked, SUBSCRIPTIONS_MAX, is_newer, names_in};
use crate::edge::{Edge, flag};
use crate::entitlement::{CredentialKind, Digest, NEVER};
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{Describe, Description, HomeId, PartitionCursor, PartitionId, Start, ToHome};
use crate::notice::{Notice, Refusal};
use crate::position::{Lineages, Position};
use crate::settings::Durability;
use crate::ticket::{Ticket, TicketCursor, TicketRefusal, TicketSubscription};
use crate::topic::Filter;
use std::collections::BTreeMap;
use wire::native::{ErrorCode, List, Reference, ResumeCursor, TICKET_BYTES_MAX};

impl Edge {
    /// The client asks for a ticket.
    pub(crate) fn want_ticket(&mut self, index: ConnIndex, request: u32) {
        let reference = Reference::Request(request);
        if self.settings.tickets.keys.is_empty() {
            return self.native_refuse(index, reference, ErrorCode::UnsupportedFrame);
        }
        if self.connections.slots[index].is(flag::AWAY) {
            return self.native_refuse(index, reference, ErrorCode::ShuttingDown);
        }
        let wanted = self.sessions.tickets.want(index);
        if wanted.request.is_some() {
            return self.native_refuse(index, reference, ErrorCode::TooManyRequestsInFlight);
        }
        // One that is to be given with GO_AWAY answers the request, too.
        wanted.request = Some(request);
        self.mark_dirty(index);
    }

    /// Sends GO_AWAY: with a ticket, if the session has subscriptions.
    pub(crate) fn want_to_go_away(&mut self, index: ConnIndex, return_after_ms: u64) {
        if self.connections.slots[index].is(flag::CLOSING) {
            return;
        }
        let has_subscriptions = self.connections.slots[index].subscriptions_count > 0;
        if self.settings.tickets.keys.is_empty() || !has_subscriptions {
            return self.native_go_away(index, return_after_ms, None);
        }
        let wanted = self.sessions.tickets.want(index);
        wanted.away_ms = Some(return_after_ms);
        self.mark_dirty(index);
    }

    /// Sends GO_AWAY without the ticket that cannot be made.
    pub(crate) fn go_away_without_ticket(&mut self, index: ConnIndex) {
        let wanted = self.sessions.tickets.get(index);
        if let Some(return_after_ms) = wanted.and_then(|wanted| wanted.away_ms) {
            self.sessions.tickets.take(index);
            self.native_go_away(index, return_after_ms, None);
        }
    }

    /// Whether a ticket is under way to the connection.
    pub(crate) fn wants_ticket(&self, index: ConnIndex) -> bool {
        self.sessions.tickets.get(index).is_some()
    }

    /// The connection goes.
    pub(crate) fn release_ticket(&mut self, index: ConnIndex) {
        if !self.sessions.tickets.is_empty() {
            self.sessions.tickets.take(index);
        }
    }

    /// Issues a wanted ticket if it can be made; the connection's outbox is empty.
    pub(crate) fn ticket_may_go_on(&mut self, index: ConnIndex) {
        if self.sessions.tickets.is_empty() {
            return;
        }
        let Some(wanted) = self.sessions.tickets.get(index) else {
            return;
        };
        match &wanted.asked {
            None => self.ask_for_ticket(index),
            Some(asked) if asked.waiting.is_empty() => self.issue_ticket(index),
            Some(_) => {}
        }
    }

    /// Asks the homes, unless a subscription still waits for one: when that is answered, the outbox
    /// drains again.
    fn ask_for_ticket(&mut self, index: ConnIndex) {
        if self.chain(index).any(|at| self.subscriptions[at].is_pending()) {
            return;
        }
        if self.connections.slots[index].subscriptions_count as usize > SUBSCRIPTIONS_MAX {
            return self.end_ticket(index, Err(()));
        }
        if let Some(home) = self.settings.homes().find(|&home| !self.may_request(home)) {
            return self.wait_for(home, index);
        }
        let mut asked = Asked {
            number: self.next_describe_number(),
            released_count: self.sessions.tickets.released_count(),
            ..Asked::default()
        };
        let mut has_filters = false;
        for at in self.chain(index) {
            if self.subscriptions[at].is_open_by_filter() {
                has_filters = true;
            } else {
                let (home, topic) = self.subscription_topic(at);
                asked.waiting.entry(home).or_default().push(topic);
            }
        }
        if has_filters {
            for home in self.settings.homes() {
                asked.waiting.entry(home).or_default();
            }
        }
        let connection = self.connections.slots.key(index);
        for (&home, indexes) in &asked.waiting {
            let request = ToHome::Describe(Describe {
                connection,
                number: asked.number,
                indexes: indexes.iter().map(|topic| topic.0).collect(),
                positions: has_filters,
            });
            self.request(home, request);
        }
        if asked.waiting.is_empty() {
            self.mark_dirty(index);
        }
        if let Some(wanted) = self.sessions.tickets.get_mut(index) {
            wanted.asked = Some(asked);
        }
    }

    /// A home has answered.
    pub(crate) fn described(&mut self, home: HomeId, description: &Description) {
        let Description { connection, number, names, positions } = description;
        let (connection, number) = (*connection, *number);
        if self.connections.slots.get(connection).is_none() {
            return;
        }
        let index = ConnIndex(connection.index);
        let wanted = self.sessions.tickets.get_mut(index);
        let asked = wanted.and_then(|wanted| wanted.asked.as_mut());
        let Some(asked) = asked.filter(|asked| asked.number == number) else {
            return self.described_for_renewal(home, index, number, names);
        };
        let Some(indexes) = asked.waiting.remove(&home) else {
            return;
        };
        let named = indexes.into_iter().zip(names_in(names));
        asked.names.extend(named.map(|(topic, name)| ((home, topic), name.into())));
        // With the epoch of this moment: the partition may have begun anew when the ticket is made.
        let at_log = |&(partition, offset): &(PartitionId, u64)| {
            (partition, Position { epoch: self.links.epochs.of(partition, &self.settings), offset })
        };
        asked.positions.extend(positions.iter().map(at_log));
        if asked.waiting.is_empty() {
            self.mark_dirty(index);
        }
    }

    /// Makes the ticket of the current cursors; see the module.
    fn issue_ticket(&mut self, index: ConnIndex) {
        let wanted = self.sessions.tickets.get_mut(index);
        let Some(asked) = wanted.and_then(|wanted| wanted.asked.take()) else {
            return;
        };
        let settings = self.settings.clone();
        let issued_ms = self.now.unix_ms;
        let mut ticket = Ticket {
            issued_ms,
            expires_ms: issued_ms.saturating_add(settings.tickets.lifetime_ms),
            ..Ticket::default()
        };
        if let Some(mut entitlement) = self.entitlement_to_keep(index) {
            // A password could be guessed by its digest. So the ticket has another one, and its
            // client presents name and password again when it returns.
            if entitlement.kind() == CredentialKind::Password {
                let subject = entitlement.subject.as_bytes();
                entitlement.digest = Digest::of(CredentialKind::Password, subject);
            }
            // It opens no door for longer than the token does.
            if entitlement.expires_s != NEVER {
                let token_ms = u64::from(entitlement.expires_s) * 1_000;
                ticket.expires_ms = ticket.expires_ms.min(token_ms);
            }
            ticket.set_entitlement(&entitlement);
        }
        ticket.positions = asked.positions.iter().map(|(&at, &known)| (at, known)).collect();
        let granted: Vec<SubIndex> =
            self.chain(index).filter(|&at| !self.subscriptions[at].is_pending()).collect();
        // A chain begins with the newest.
        for at in granted.into_iter().rev() {
            let subscription = match self.subscriptions[at].is_open_by_filter() {
                true if asked.positions.is_empty() => None,
                true => self.ticket_of_filter(at),
                false => {
                    let topic = self.subscription_topic(at);
                    let name = self.sessions.tickets.name(&asked, topic);
                    name.map(|name| self.ticket_of_topic(at, name))
                }
            };
            let Some(subscription) = subscription else {
                // Granted since the homes were asked, perhaps with an index that stood for another
                // topic: they are asked again.
                return self.mark_dirty(index);
            };
            ticket.subscriptions.push(subscription);
        }
        match ticket.issue(&settings.tickets) {
            Some(Ok(bytes)) => self.end_ticket(index, Ok((ticket.expires_ms, bytes))),
            _ => self.end_ticket(index, Err(())),
        }
    }

    fn ticket_of_topic(&self, subscription: SubIndex, name: &str) -> TicketSubscription {
        let (rule, _) = self.settings.locate(name);
        let of_rule = self.settings.rules[usize::from(rule)].when_lagging;
        let (policy, fail_on_gap) = self.subscription_terms(subscription);
        TicketSubscription {
            client: self.subscriptions[subscription].client,
            filter: name.to_owned(),
            fail_on_gap,
            policy: Some(policy).filter(|&policy| policy != of_rule),
            cursor: TicketCursor::Plain(Position {
                epoch: self.subscription_epoch(subscription),
                offset: self.subscriptions[subscription].cursor(),
            }),
        }
    }

    fn ticket_of_filter(&self, subscription: SubIndex) -> Option<TicketSubscription> {
        let cursors = self.subscriptions.cursors_of(subscription).into_iter();
        let at_log = |(partition, offset): (PartitionId, u64)| {
            let epoch = self.links.epochs.of(partition, &self.settings);
            (partition, Position { epoch, offset })
        };
        let filter = self.subscriptions.filter_name(subscription)?;
        let of_rule = Filter::parse(filter).map(|filter| self.settings.policy_of(filter));
        let (policy, fail_on_gap) = self.subscription_terms(subscription);
        Some(TicketSubscription {
            client: self.subscriptions[subscription].client,
            filter: filter.to_owned(),
            fail_on_gap,
            policy: Some(policy).filter(|policy| of_rule != Ok(*policy)),
            cursor: TicketCursor::Filter(cursors.map(at_log).collect()),
        })
    }

    /// Tells the client, and leads it away if it is to go.
    fn end_ticket(&mut self, index: ConnIndex, result: Result<(u64, Vec<u8>), ()>) {
        let Some(wanted) = self.sessions.tickets.take(index) else {
            return;
        };
        self.statistics.tickets_issued += u64::from(result.is_ok());
        if let Some(request) = wanted.request {
            match &result {
                Ok((expires_ms, ticket)) => {
                    let expires_ms = *expires_ms;
                    self.notify(index, &Notice::TicketIssued { request, expires_ms, ticket });
                }
                Err(()) => {
                    let limit = Some(TICKET_BYTES_MAX as u64);
                    let refusal = Refusal { limit, ..Refusal::of(ErrorCode::TicketTooLarge) };
                    self.refuse(index, Reference::Request(request), refusal);
                }
            }
        }
        if let Some(return_after_ms) = wanted.away_ms {
            let ticket = result.as_ref().ok().map(|(_, ticket)| &ticket[..]);
            self.native_go_away(index, return_after_ms, ticket);
        }
    }

    /// Verifies a ticket that a client presents. A ticket of another subject is refused. A client
    /// may present any ticket if it is anonymous, or if the node has no tokens.
    pub(crate) fn open_ticket(
        &mut self,
        index: ConnIndex,
        bytes: &[u8],
    ) -> Result<Ticket, TicketRefusal> {
        let ticket = Ticket::open(bytes, &self.settings.tickets, self.now.unix_ms);
        let ticket = ticket.and_then(|ticket| {
            if self.is_ticket_of(index, &ticket) { Ok(ticket) } else { Err(TicketRefusal::Forged) }
        });
        match ticket {
            Ok(_) => self.statistics.tickets_resumed += 1,
            Err(_) => self.statistics.tickets_refused += 1,
        }
        ticket
    }

    fn is_ticket_of(&self, index: ConnIndex, ticket: &Ticket) -> bool {
        if self.settings.entitlement.is_none() || ticket.identity.is_empty() {
            return true;
        }
        let session = self.entitlement_to_keep(index);
        match (ticket.entitlement(), session) {
            // The subject of an API key is not the user of that name.
            (Some(of_ticket), Some(session)) => {
                of_ticket.kind() == session.kind()
                    && of_ticket.subject == session.subject
                    && of_ticket.terms.signer.issuer == session.terms.signer.issuer
            }
            _ => false,
        }
    }

    /// Subscribes to the topics of a ticket, as if the client had asked for it, each after the
    /// newer of two cursors; after the older one where only that is of use to this node.
    pub(crate) fn resume_ticket(
        &mut self,
        index: ConnIndex,
        ticket: &Ticket,
        cursors: List<'_, ResumeCursor>,
    ) {
        let mut newer: BTreeMap<(u32, Option<PartitionId>), Position> = BTreeMap::new();
        for cursor in cursors {
            let position =
                Position { epoch: cursor.position.epoch, offset: cursor.position.offset };
            newer.insert((cursor.subscription, cursor.partition.map(PartitionId)), position);
        }
        let settings = self.settings.clone();
        // Positions to choose from, the preferred one first.
        let choice = |at: (u32, Option<PartitionId>), partition, of_ticket: Position| {
            let log = settings.log_of(partition);
            let Some(own) = newer.get(&at).copied() else {
                return (of_ticket, None);
            };
            if log.durability == Durability::Engine {
                return (own, Some(of_ticket)); // its home knows the lineages
            }
            // The end of a log may be lost that a ticket knows, and its client has nothing of.
            let lineages = Lineages::of_log(log, partition);
            let is_known = |position: Position| lineages.is_known(position);
            let is_own = is_newer(own, of_ticket) || is_known(own) && !is_known(of_ticket);
            (if is_own { own } else { of_ticket }, None)
        };
        for subscription in &ticket.subscriptions {
            if self.connections.slots[index].is(flag::CLOSING) {
                return;
            }
            let client = subscription.client;
            let begin = match &subscription.cursor {
                TicketCursor::Plain(position) => {
                    let (_, partition) = settings.locate(&subscription.filter);
                    Begin::At(match choice((client, None), partition, *position) {
                        (position, None) => Start::Since(position),
                        (first, Some(other)) => Start::SinceEither(first, other),
                    })
                }
                TicketCursor::Filter(cursors) => {
                    let mut positions: BTreeMap<PartitionId, Position> =
                        ticket.positions.iter().copied().collect();
                    positions.extend(cursors.iter().copied());
                    let each = positions.into_iter().flat_map(|(partition, position)| {
                        let (first, other) = choice((client, Some(partition)), partition, position);
                        let cursor = move |position| PartitionCursor { partition, position };
                        [first].into_iter().chain(other).map(cursor)
                    });
                    Begin::After(each.collect())
                }
            };
            let asked = Subscribe {
                filter: &subscription.filter,
                begin,
                fail_on_gap: subscription.fail_on_gap,
                policy: subscription.policy,
                replay_credit: None,
            };
            self.begin_subscription(index, client, Ok(asked));
        }
    }
}
