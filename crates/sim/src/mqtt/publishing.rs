//! Publications of a client, and their acknowledgements.

use super::MqttClient;
use super::session::Outgoing;
use crate::client::Context;
use crate::oracle::{Once, Refusal};
use wire::mqtt::{
    Ack, Attempt, ClientPacket, Delivery, Properties, Property, Publish, ReasonCode, Version,
};

/// Publications with QoS 1 and 2 under way, at most.
const OUTGOING_MAX: usize = 8;

impl MqttClient {
    /// Publishes a new message.
    pub(super) fn publish(&mut self, context: &mut Context<'_>) {
        let random = &mut self.peer.random;
        let topic = random.below(context.plan.topics.len() as u64) as usize;
        let padding = crate::native::draw_padding(random, context.plan).min(8_000);
        let qos = [0, 1, 1, 2, 2][random.below(5) as usize];
        let retain = random.chance(context.plan.retain);
        let window = usize::from(self.line.node_receive_max).min(OUTGOING_MAX);
        if qos > 0 && self.session.outgoing.len() >= window {
            return;
        }
        let (publication, _) = context.oracle.publication(context.plan, topic, padding);
        let of = &mut context.oracle.publications[publication];
        (of.qos, of.mqtt_client, of.retain) = (Some(qos), Some(self.peer.id), retain);
        of.once = [Once::No, Once::Repeats, Once::Qos2][usize::from(qos)];
        if qos == 0 {
            return self.send_publish(context, publication, Delivery::Zero);
        }
        let id = self.session.next_id(&self.line);
        let connection = self.line.number;
        let outgoing = Outgoing { id, publication, qos, is_received: false, connection };
        self.session.outgoing.push_back(outgoing);
        self.send_publish(context, publication, delivery(&outgoing, false));
    }

    fn send_publish(&mut self, context: &mut Context<'_>, publication: usize, delivery: Delivery) {
        let of = &context.oracle.publications[publication];
        let (topic, payload, retain) = (of.topic, of.payload().to_vec(), of.retain);
        let name = context.plan.topics[topic].clone();
        let mut properties = Vec::new();
        let mut is_known = false;
        if self.version == Version::V5 && self.line.alias_max > 0 && self.peer.random.chance(0.3) {
            let alias = 1 + (topic as u16) % self.line.alias_max;
            is_known = self.line.aliases.insert(alias, topic) == Some(topic);
            properties.extend(std::num::NonZeroU16::new(alias).map(Property::TopicAlias));
        }
        let publish = Publish {
            delivery,
            retain,
            topic: if is_known { "" } else { &name },
            properties: Properties::from(&properties[..]),
            payload: &payload,
        };
        context.oracle.note(self.peer.id, || format!("publishes {publication} to {name}"));
        self.send(context, &ClientPacket::Publish(publish));
    }

    /// Repeats unfinished publications, in order.
    pub(super) fn resend(&mut self, context: &mut Context<'_>) {
        let is_republished = std::mem::take(&mut self.session.is_republished);
        for at in 0..self.session.outgoing.len() {
            self.session.outgoing[at].connection = self.line.number;
            let outgoing = self.session.outgoing[at];
            context.oracle.mqtt.counts.resent += 1;
            if outgoing.is_received {
                self.send(context, &ClientPacket::PubRel(Ack::success(outgoing.id)));
                continue;
            }
            let is_exact = context.oracle.mqtt.is_qos2_exact_over_crashes;
            let of = &mut context.oracle.publications[outgoing.publication];
            if of.instance() != self.peer.instance && !is_exact {
                of.once = Once::Repeats;
            }
            let publication = outgoing.publication;
            context.oracle.repeated(context.plan, publication);
            self.send_publish(context, publication, delivery(&outgoing, !is_republished));
        }
    }

    fn outgoing(&self, ack: &Ack<'_>, qos: u8) -> Option<usize> {
        self.session.outgoing.iter().position(|outgoing| {
            outgoing.id == ack.packet_id
                && outgoing.qos == qos
                && outgoing.connection == self.line.number
        })
    }

    /// PUBACK.
    pub(super) fn on_puback(&mut self, context: &mut Context<'_>, ack: &Ack<'_>) {
        let Some(at) = self.outgoing(ack, 1) else {
            return context.oracle.fail(self.peer.id, format!("PUBACK of {}", ack.packet_id));
        };
        if let Some(outgoing) = self.session.outgoing.remove(at) {
            self.settled(context, outgoing.publication, ack.reason);
        }
    }

    /// PUBREC.
    pub(super) fn on_pubrec(&mut self, context: &mut Context<'_>, ack: &Ack<'_>) {
        let Some(at) = self.outgoing(ack, 2).filter(|at| !self.session.outgoing[*at].is_received)
        else {
            return context.oracle.fail(self.peer.id, format!("PUBREC of {}", ack.packet_id));
        };
        let publication = self.session.outgoing[at].publication;
        if ack.reason.is_failure() {
            self.session.outgoing.remove(at);
        } else {
            self.session.outgoing[at].is_received = true;
            self.send(context, &ClientPacket::PubRel(Ack::success(ack.packet_id)));
        }
        self.settled(context, publication, ack.reason);
    }

    /// PUBCOMP.
    pub(super) fn on_pubcomp(&mut self, context: &mut Context<'_>, ack: &Ack<'_>) {
        match self.outgoing(ack, 2).filter(|at| self.session.outgoing[*at].is_received) {
            Some(at) => _ = self.session.outgoing.remove(at),
            None => context.oracle.fail(self.peer.id, format!("PUBCOMP of {}", ack.packet_id)),
        }
    }

    /// The node has taken a publication, or has refused it.
    fn settled(&mut self, context: &mut Context<'_>, publication: usize, reason: ReasonCode) {
        self.refusals = 0;
        let source = self.peer.source();
        if !reason.is_failure() {
            context.oracle.mqtt.counts.accepted += 1;
            return context.oracle.accepted(source, publication);
        }
        let plan = context.plan;
        if plan.lossless && !plan.disk.refuses() {
            let text = format!("publication {publication} was refused: {reason}");
            return context.oracle.fail(self.peer.id, text);
        }
        context.oracle.refused(plan, source, publication, Refusal::UntilCrash);
    }
}

fn delivery(outgoing: &Outgoing, is_repeat: bool) -> Delivery {
    let attempt = Attempt { packet_id: outgoing.id, is_repeat };
    if outgoing.qos == 2 { Delivery::Two(attempt) } else { Delivery::One(attempt) }
}
