//! Answers to operators about connections, and requests that operators make through an edge.
//!
//! Beside the path; see [`crate::inspect`]. Invariants: one question examines [`LOOKED_AT_MAX`]
//! slots at most, and nothing is kept for it. What operators ask of homes goes the way of every
//! request, under [`OPERATOR`] in place of a connection, which no connection can have; so order,
//! history and recovery hold for it, and messages pay nothing for it.

use crate::admission::{Offer, Placement};
use crate::edge::subscriptions::Stage;
use crate::edge::{Edge, PeerOf, flag};
use crate::ids::{ConnIndex, SubIndex, TopicIndex};
use crate::inspect::{
    ANSWER_LEN_MAX, Answer, Connection, ConnectionId, ConnectionsWanted, LOOKED_AT_MAX, Question,
    Subscribers, Subscription,
};
use crate::mail::{Code, HomeId, Publication, Publish, ReadHistory, Reply, ToHome};
use crate::position::Position;
use crate::topic::TopicName;
use std::net::IpAddr;
use stdx::key::Key;
use wire::native::CloseCode;

/// The key under which operators' requests go to homes.
const OPERATOR: Key = Key { index: u32::MAX, generation: 0 };

impl Edge {
    /// Answers a question of an operator. None: a home is asked, and the answer comes in
    /// `Outputs::answers` under this number, which is not 0.
    pub fn inspect(
        &mut self,
        question: Question,
        number: u32,
        peer_of: PeerOf<'_>,
    ) -> Option<Answer> {
        Some(match question {
            Question::Connections { from, wanted, len_max } => {
                self.list_connections(from, &wanted, len_max, peer_of)
            }
            Question::Connection(id) => {
                let index = self.index_of(id);
                Answer::Connection(index.map(|index| self.describe_connection(index, peer_of)))
            }
            Question::Subscriptions { connection, skipped, len_max } => {
                let index = self.index_of(connection);
                let page = index.map(|index| self.list_subscriptions(index, skipped, len_max));
                Answer::Subscriptions(page)
            }
            Question::Disconnect { connection, may_return } => {
                let index = self.index_of(connection);
                if let Some(index) = index {
                    self.disconnect(index, may_return);
                }
                Answer::Disconnected(index.is_some())
            }
            Question::Subscribers { home, indexes } => {
                let indexes = indexes.iter().take(ANSWER_LEN_MAX as usize);
                Answer::Subscribers(
                    indexes.map(|&at| self.subscribers_of(home, TopicIndex(at))).collect(),
                )
            }
            Question::Publish(publication) => {
                return self
                    .publish_for_operator(publication, number)
                    .err()
                    .map(|code| Answer::Published(Err(code.into())));
            }
            Question::History { .. } => {
                return self
                    .ask_history_for_operator(question, number)
                    .err()
                    .map(|code| Answer::History(Err(code)));
            }
            Question::Topics { .. } | Question::Topic { .. } | Question::Names { .. } => {
                Answer::NotHere
            }
        })
    }

    /// A home has answered a request; the answer is passed on if an operator made it.
    pub(crate) fn operator_answered(&mut self, reply: Reply, answer: Answer) {
        if reply.connection == OPERATOR {
            self.out.answers.push((reply.request, answer));
        }
    }

    fn list_connections(
        &self,
        from: u32,
        wanted: &ConnectionsWanted,
        len_max: u32,
        peer_of: PeerOf<'_>,
    ) -> Answer {
        let len_max = len_max.clamp(1, ANSWER_LEN_MAX) as usize;
        let places = self.connections.slots.places();
        let end = places.min(from.saturating_add(LOOKED_AT_MAX));
        let mut found = Vec::new();
        for index in (from..end).map(ConnIndex) {
            if !self.is_wanted(index, wanted, peer_of) {
                continue;
            }
            if found.len() == len_max {
                return Answer::Connections(found, Some(index.0));
            }
            found.push(self.describe_connection(index, peer_of));
        }
        Answer::Connections(found, (end < places).then_some(end))
    }

    fn is_wanted(&self, index: ConnIndex, wanted: &ConnectionsWanted, peer_of: PeerOf<'_>) -> bool {
        let slot = &self.connections.slots[index];
        let transport = slot.facts().transport;
        !slot.is_free()
            && (!wanted.lagging || slot.is(flag::LAGGING | flag::CATCHING_UP | flag::BLOCKED))
            && wanted.spoken.is_none_or(|wanted| wanted == transport)
            && wanted.subject.as_deref().is_none_or(|beginning| {
                let subject = self.subject_of(index);
                subject.is_some_and(|subject| subject.starts_with(beginning))
            })
            && wanted.network.is_none_or(|network| {
                let address = self.address_of(index, peer_of);
                address.is_some_and(|address| network.contains(address))
            })
    }

    /// The index of a connection, if it is there.
    fn index_of(&self, id: ConnectionId) -> Option<ConnIndex> {
        let index = id.index();
        let is_there = index < self.connections.slots.places()
            && self.connections.slots.is_present(ConnIndex(index))
            && self.connection_number(ConnIndex(index)) == id.0;
        is_there.then_some(ConnIndex(index))
    }

    fn subject_of(&self, index: ConnIndex) -> Option<&str> {
        let at = self.entitlement_of(index)?;
        Some(self.access.entitlements.subject(at))
    }

    fn address_of(&self, index: ConnIndex, peer_of: PeerOf<'_>) -> Option<IpAddr> {
        let known = self.client_address(index);
        known.or_else(|| peer_of(self.connections.slots.key(index)))
    }

    fn describe_connection(&self, index: ConnIndex, peer_of: PeerOf<'_>) -> Connection {
        let slot = &self.connections.slots[index];
        let entitlement = self.entitlement_of(index);
        let expires_s = entitlement.map(|at| self.access.entitlements.expires_s(at));
        Connection {
            id: ConnectionId(self.connection_number(index)),
            key: self.connections.slots.key(index),
            spoken: slot.facts().transport,
            address: self.address_of(index, peer_of),
            is_encrypted: None,
            subject: self.subject_of(index).map(Into::into),
            expires_s: expires_s.filter(|&at| at != crate::entitlement::NEVER),
            session_ms: slot
                .facts()
                .is_session
                .then(|| self.connections.session_age_ms(index, self.now)),
            ping_interval_s: slot.ping_interval_s,
            subscriptions: slot.subscriptions_count,
            outbox_len: slot.frames.len() as u32,
            // A blocked connection has at most `outbox_len_max` places, so this is bounded.
            outbox_bytes: self.outboxes.waiting_bytes(slot),
            is_lagging: slot.is(flag::LAGGING | flag::CATCHING_UP),
            is_blocked: slot.is(flag::BLOCKED),
            is_closing: slot.is(flag::CLOSING),
        }
    }

    fn list_subscriptions(
        &self,
        index: ConnIndex,
        skipped: u32,
        len_max: u32,
    ) -> (Vec<Subscription>, bool) {
        let len_max = len_max.clamp(1, ANSWER_LEN_MAX) as usize;
        let mut chain = self.chain(index).skip(skipped as usize);
        let found = chain.by_ref().take(len_max);
        let found = found.map(|at| self.describe_subscription(at)).collect();
        (found, chain.next().is_some())
    }

    fn describe_subscription(&self, subscription: SubIndex) -> Subscription {
        let entry = &self.subscriptions[subscription];
        let stage = match entry.stage {
            Stage::Pending => "pending",
            Stage::Live | Stage::ByFilter => "live",
            Stage::Reading => "reading",
            Stage::Lagging => "lagging",
        };
        Subscription {
            number: entry.client,
            filter: self.subscriptions.filter_name(subscription).map(Into::into),
            topic: entry.topic().map(|(home, topic)| (home, topic.0)),
            stage,
            position: entry.topic().map(|_| Position {
                epoch: self.subscription_epoch(subscription),
                offset: entry.cursor(),
            }),
            policy: entry.policy(),
        }
    }

    fn subscribers_of(&self, home: HomeId, index: TopicIndex) -> Subscribers {
        let (plain, by_filter) = self.subscriptions.counts_of_topic(home, index);
        Subscribers { plain, by_filter }
    }

    /// Ends a connection for an operator: with a close code where its protocol has one and its
    /// socket takes it.
    fn disconnect(&mut self, index: ConnIndex, may_return: bool) {
        let slot = &self.connections.slots[index];
        if slot.is(flag::CLOSING | flag::DEAD) {
            return;
        }
        let code = if may_return {
            CloseCode::ApplicationReconnect
        } else {
            CloseCode::ApplicationDisconnect
        };
        let facts = slot.facts();
        if slot.is(flag::BLOCKED) {
            self.abort(index);
        } else if facts.is_websocket {
            self.close_native(index, code);
        } else if facts.has_one_cursor {
            self.close_idle(index);
        } else {
            self.abort(index);
        }
        self.statistics.disconnected_by_operators += 1;
    }

    /// Operators may publish to every topic but the node's own, within the topic's rule.
    fn publish_for_operator(&mut self, publication: Publication, number: u32) -> Result<(), Code> {
        let topic = std::str::from_utf8(&publication.topic).map_err(|_| Code::MalformedTopic)?;
        let Placement { rule, partition } = self.admit_for_operator(Offer {
            topic,
            payload_bytes: publication.payload.len(),
            attributes_bytes: publication.attributes.len(),
            retain: publication.retain,
        })?;
        let home = self.settings.home_of(partition);
        self.statistics.publishes += 1;
        let request = ToHome::Publish(Publish {
            partition,
            rule,
            reply: Some(operator(number)),
            publication,
        });
        self.request(home, request);
        Ok(())
    }

    fn ask_history_for_operator(&mut self, question: Question, number: u32) -> Result<(), Code> {
        let Question::History { topic, beyond, reverse, limits } = question else {
            return Err(Code::Internal);
        };
        TopicName::parse(&topic).map_err(|_| Code::MalformedTopic)?;
        let (rule, partition) = self.settings.locate(&topic);
        let home = self.settings.home_of(partition);
        if !self.may_request(home) {
            return Err(Code::Overloaded);
        }
        let topic = self.work.mail.copy(topic.as_bytes());
        let request = ToHome::History(ReadHistory {
            partition,
            rule,
            topic,
            reply: operator(number),
            beyond,
            reverse,
            limits,
        });
        self.request(home, request);
        Ok(())
    }
}

fn operator(number: u32) -> Reply {
    Reply { connection: OPERATOR, request: number }
}
