//! Members of groups: their messages, and the times in which they are members for sure.
//!
//! A member that pings knows, with the answer, that the node has read everything before. So it
//! knows which acknowledgements the node has read, and how long a connection lasted at least.

use super::connecting::may_refuse;
use super::receiving::Message;
use super::session::Seen;
use super::{MqttClient, Stage};
use crate::client::Context;
use crate::oracle::{GroupDelivery, GroupEnd, GroupSpan, Oracle, matches};
use std::collections::VecDeque;
use wire::mqtt::{ClientPacket, Version};

/// The state of a member.
#[derive(Default)]
pub(super) struct Membership {
    /// The number of the group.
    pub group: usize,
    /// The place of the present membership among the group's spans.
    span: Option<usize>,
    /// The membership may have ended at this moment: its connection may have.
    doubt: Option<u64>,
    /// The connection lasted at least up to this moment.
    proven: u64,
    /// Publications that were acknowledged since the last ping.
    acknowledged: Vec<usize>,
    /// Pings without an answer: the moment of each, and the acknowledgements before it.
    pings: VecDeque<(u64, Vec<usize>)>,
}

impl Membership {
    /// A client that is not a member of its group yet.
    pub fn of(group: usize) -> Membership {
        Membership { group, ..Membership::default() }
    }

    /// Whether the last message of a topic has come to a member of the group.
    pub fn is_past_marker(
        &self,
        oracle: &Oracle,
        (marker, topic): (usize, &str),
    ) -> Result<(), String> {
        let group = &oracle.mqtt.groups[self.group];
        let sent_at = oracle.publications[marker].sent_at;
        let is_due =
            matches(&group.filter, topic) && group.since().is_some_and(|since| since < sent_at);
        if is_due && !group.has(marker) {
            return Err(format!("{topic}: the last message, {marker}, came to no member"));
        }
        Ok(())
    }
}

impl MqttClient {
    /// The filter as SUBSCRIBE and UNSUBSCRIBE spell it.
    pub(super) fn spelled(&self, filter: &str) -> String {
        match &self.membership {
            Some(membership) => format!("$share/g{}/{filter}", membership.group),
            None => filter.into(),
        }
    }

    /// PINGREQ.
    pub(super) fn ping(&mut self, context: &mut Context<'_>) {
        if let Some(membership) = &mut self.membership {
            let moment = context.oracle.tick();
            let acknowledged = std::mem::take(&mut membership.acknowledged);
            membership.pings.push_back((moment, acknowledged));
        }
        self.send(context, &ClientPacket::PingReq);
    }

    /// PINGRESP: the node has read everything before the ping.
    pub(super) fn on_pong(&mut self, context: &mut Context<'_>) {
        let (client, connection) = (self.peer.id, self.line.number);
        let Some(membership) = &mut self.membership else {
            return;
        };
        let now = context.oracle.tick();
        let Some((moment, acknowledged)) = membership.pings.pop_front() else {
            return context.oracle.fail(client, "PINGRESP without PINGREQ".into());
        };
        membership.proven = moment;
        let group = &mut context.oracle.mqtt.groups[membership.group];
        for publication in acknowledged {
            let its = group.deliveries.iter_mut().rev().find(|it| {
                (it.publication, it.client, it.connection) == (publication, client, connection)
            });
            if let Some(delivery) = its {
                delivery.settled = Some(now);
            }
        }
    }

    /// PUBACK of a message is on its way.
    pub(super) fn acknowledged_shared(&mut self, publication: usize) {
        if let Some(membership) = &mut self.membership {
            membership.acknowledged.push(publication);
        }
    }

    /// Takes a message of the group.
    pub(super) fn take_shared(
        &mut self,
        context: &mut Context<'_>,
        message: &Message,
    ) -> Result<(), String> {
        let Message { publication, attempt, is_retained, .. } = *message;
        let Some(group) = self.membership.as_ref().map(|membership| membership.group) else {
            return Ok(());
        };
        if is_retained {
            return Err(format!("publication {publication} came to a group as retained"));
        }
        self.check_identifier(context, message)?;
        let (client, connection) = (self.peer.id, self.line.number);
        let instance = self.peer.instance;
        let moment = context.oracle.tick();
        let known = &mut context.oracle.mqtt;
        known.counts.deliveries += 1;
        known.counts.shared += 1;
        known.counts.handed_on += u64::from(known.groups[group].has(publication));
        let settled = None;
        let delivery = GroupDelivery { publication, client, connection, instance, moment, settled };
        known.groups[group].deliveries.push(delivery);
        let id = attempt.map(|attempt| attempt.packet_id.get());
        let seen = Seen { id, connection, instance, times: 1, is_excused: true };
        self.session.seen.insert(publication, seen);
        self.take_attempt(context, message);
        Ok(())
    }

    /// The group has this member, from now on.
    pub(super) fn begin_span(&mut self, context: &mut Context<'_>, since: u64) {
        let Some(membership) = &mut self.membership else {
            return;
        };
        let spans = &mut context.oracle.mqtt.groups[membership.group].spans;
        spans.push(GroupSpan { since, until: None });
        (membership.span, membership.doubt) = (Some(spans.len() - 1), None);
    }

    /// The membership may have ended at this moment.
    pub(super) fn end_span(&mut self, context: &mut Context<'_>, moment: u64) {
        if let Some(membership) = &mut self.membership
            && let Some(at) = membership.span.take()
        {
            let span = &mut context.oracle.mqtt.groups[membership.group].spans[at];
            span.until = Some(moment.max(span.since));
        }
    }

    /// CONNACK: the session has the membership still, or not.
    pub(super) fn continue_span(&mut self, context: &mut Context<'_>) {
        let is_member = !self.session.granted.is_empty();
        let Some(doubt) = self.membership.as_mut().and_then(|it| it.doubt.take()) else {
            return;
        };
        if !is_member {
            self.end_span(context, doubt);
        }
    }

    /// A connection begins.
    pub(super) fn begin_line(&mut self, context: &mut Context<'_>) {
        if let Some(membership) = &mut self.membership {
            membership.proven = context.oracle.tick();
            membership.acknowledged.clear();
            membership.pings.clear();
        }
    }

    /// A connection ends.
    pub(super) fn end_line(&mut self, context: &mut Context<'_>, is_own: bool) {
        let (client, connection) = (self.peer.id, self.line.number);
        let was_connected = self.stage == Stage::Connected;
        // The node may have seen the end of a broken connection before.
        let is_broken = self.line.link.is_none_or(|link| context.network.is_broken(link));
        // So may it where it has refused a publication of a client that cannot be told.
        let waits = self.session.outgoing.iter().any(|it| it.connection == self.line.number);
        let may_be_refused = waits && self.version != Version::V5 && may_refuse(context.plan);
        let is_own = is_own && !is_broken && !may_be_refused;
        let Some(membership) = &mut self.membership else {
            return;
        };
        let moment = self.line.left_at.unwrap_or_else(|| context.oracle.tick());
        let group = &mut context.oracle.mqtt.groups[membership.group];
        group.ends.entry((client, connection)).or_insert(GroupEnd { moment, is_own });
        let last = if is_own && was_connected { moment } else { membership.proven };
        membership.doubt = Some(membership.doubt.map_or(last, |doubt| doubt.min(last)));
    }
}
